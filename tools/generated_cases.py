"""Multiply generated cases beyond those of the tests, on a GPU or in the emulator, and record how many were right.

Each case is a product that one of the kernels takes: awkward extents, strides, alignments, batches and scalars, in
poisoned buffers with guard bands, compared with float64. Others have operands that `repack` copies or sums that
`code_sums` and `column_sums` make, or are calls of `quantize`, compared to the bit. The emulator checks its rules too.
The first wrong case ends the run and is shown. On a GPU one process launches; the others draw the cases and judge the
results. A run adds to results/generated_cases.json the seed that draws its cases again, their number by kernel, and the
kernels' digest.

examples:
  python tools/generated_cases.py --on gpu --cases 100000 --seed 1
  python tools/generated_cases.py --on emulator --cases 2000 --seed 1 --processes 2
  python tools/generated_cases.py --on gpu --cases 6000 --only code_sums --only column_sums --only quantize
  compute-sanitizer python tools/generated_cases.py --on gpu --cases 300 --processes 0 --label memcheck
"""

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by NumPy when it is loaded: there is a process for each core

from support.cases import unit_of, variants_of  # noqa: E402
from support.further_cases import FURTHER, drawn_cases  # noqa: E402
from support.runs import Contents, arrays_on_gpu, launch_on_gpu, multiply, multiply_emulated  # noqa: E402
from support.verification import cases_of, kernel_digest  # noqa: E402
from tilewright.backends.absent import AbsentGpu  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.hardware import Hardware  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.kernels.registry import EVERY_KERNEL  # noqa: E402

RECORD = ROOT / "results" / "generated_cases.json"
CHUNK = 50
"""Cases that one process draws from one seed."""

Job: TypeAlias = tuple[str, int, str, int]
"""A kernel, the number of its cases, the seed that draws them, and the number of the first: variants come in turn."""

Launch: TypeAlias = Callable[..., Contents]
"""A function of a case, its contents and keywords that differ from the case's, see `launch_on_gpu`."""

Pipe: TypeAlias = "Connection[Any, Any]"
"""One end of a pipe between a referee and its server."""


def main() -> None:
    """Run the cases, show how far they are, and add to the record."""
    options = _options()
    counts = counts_of(options.cases, options.only)
    jobs = [
        (name, min(CHUNK, count - first), f"{options.seed}/{name}/{first}", first)
        for name, count in counts.items()
        for first in range(0, count, CHUNK)
    ]
    digest = kernel_digest()
    name = _run(options.on, jobs, options.processes)
    if kernel_digest() != digest:
        sys.exit("The kernels changed meanwhile; the record is as it was.")
    run = {
        "on": name,
        "label": options.label,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": options.seed,
        "right": counts.total(),
        "cases": dict(sorted(counts.items())),
        "kernel_digest": digest,
    }
    earlier = json.loads(RECORD.read_text())["runs"] if RECORD.exists() else []
    RECORD.write_text(json.dumps({"runs": [*earlier, run]}, indent=1) + "\n")
    print(f"{counts.total()} cases are right ({name}, seed {options.seed})")


def counts_of(cases: int, only: Sequence[str]) -> Counter[str]:
    """The number of cases by kernel: a tenth for each rung, besides them a quarter for FURTHER; or as many for each."""
    if only:
        return Counter(dict.fromkeys(only, -(-cases // len(only))))
    whole = sum(map(cases_of, EVERY_KERNEL))
    counts = Counter({name: -(-cases * cases_of(name) // whole) for name in EVERY_KERNEL})
    return counts | Counter(dict.fromkeys(FURTHER, -(-counts["wgmma"] // 4)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=("gpu", "emulator"), required=True, help="where kernels run")
    parser.add_argument("--cases", type=int, default=2000, help="how many, a tenth for each rung (default: 2000)")
    parser.add_argument(
        "--only", action="append", choices=(*EVERY_KERNEL, *FURTHER), default=[], metavar="KERNEL",
        help="a kernel, or a launch beside one: those that are named share the cases, and no others run",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="0: none but this one")
    parser.add_argument("--label", default="cases", help="what the record calls the run")
    return parser.parse_args()


def _run(place: str, jobs: list[Job], processes: int) -> str:
    """Run all jobs, or end with the first case that is wrong; the name of what they ran on."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("cases", total=sum(count for _, count, *_ in jobs))
        launch = hardware = None
        if place == "gpu":
            hardware, launch = gpu()
            place = hardware.name
        try:
            if processes:
                serve(_referees(jobs, processes, hardware), launch, partial(progress.advance, task))
            else:
                if hardware is not None:
                    _compile({name for name, *_ in jobs}, hardware, progress)
                for job in jobs:
                    check(job, launch)
                    progress.advance(task, job[1])
        except KeyboardInterrupt:
            sys.exit("Stopped; the record is as it was.")
    return place


def _compile(names: Iterable[str], gpu: Hardware, progress: Progress) -> None:
    """Compile the listed variants of kernels, several at once, where no other process compiles what cases need."""
    units = {unit_of(variant, gpu): None for name in names for variant in variants_of(name)}
    task = progress.add_task("kernels", total=len(units))
    with CompilerPool(compilations()) as pool:
        for _, compiled in pool.build_all(units, gpu.arch):
            if isinstance(compiled, TilewrightError):
                raise compiled
            progress.advance(task)


def _referees(jobs: list[Job], processes: int, gpu: Hardware | None) -> list[Pipe]:
    """Start processes that share the jobs, and return the pipes to them. They end with this process."""
    context, pipes = get_context("spawn"), []
    for first in range(processes):
        here, there = context.Pipe()
        context.Process(target=_start, args=(jobs[first::processes], there, gpu), daemon=True).start()
        there.close()
        pipes.append(here)
    return pipes


def _start(jobs: list[Job], server: Pipe, gpu: Hardware | None) -> None:
    """A referee's process. It ignores Ctrl-C, which the process that serves it handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    referee(jobs, server, gpu)


def referee(jobs: list[Job], server: Pipe, gpu: Hardware | None) -> None:
    """Draw the cases of jobs and judge them; tell the number of right ones after each job, at last None or an error.

    gpu: the server launches the cases there, since a GPU is quicker with one context; their kernels are compiled here,
    where other processes compile others meanwhile. None: they run here, emulated.
    """

    def asked(case: Any, contents: Contents, **changes: Any) -> Contents:
        case.call(arrays_on_gpu(case), absent, **changes)
        server.send((case, contents, changes))
        result: Contents = server.recv()
        return result

    absent = None if gpu is None else AbsentGpu(gpu)
    with suppress(BrokenPipeError):  # the server has ended with another error
        try:
            for job in jobs:
                check(job, None if absent is None else asked)
                server.send(job[1])
            server.send(None)
        except Exception as error:
            server.send(error)


def serve(referees: list[Pipe], launch: Launch | None, advance: Callable[[int], None]) -> None:
    """Launch what referees send until all have come to their end; raise the first error of one."""
    waiting = list(referees)
    while waiting:
        for pipe in cast(list[Pipe], wait(waiting)):
            match pipe.recv():
                case None:
                    waiting.remove(pipe)
                case int(right):
                    advance(right)
                case Exception() as error:
                    raise error
                case case, contents, changes:
                    assert launch is not None
                    try:
                        pipe.send(launch(case, contents, **changes))
                    except Exception as error:
                        error.add_note(f"launched for {case}")
                        raise


def check(job: Job, launch: Launch | None) -> None:
    """Run the cases of a job, launched so or else emulated; raise what a wrong one raises, with its name."""
    kernel, count, seed, first = job
    for case, changes in drawn_cases(kernel, count, seed, first):
        try:
            if launch is None:
                multiply_emulated(case, emulator(), **changes)
            else:
                multiply(case, partial(launch, case, **changes))
        except Exception as error:
            error.add_note(f"case of {kernel}, seed {seed!r}: {case}")
            raise


@cache
def emulator() -> Any:
    """The emulator, with its checks."""
    from tilewright.backends.emulated import EmulatedBackend

    return EmulatedBackend(checks=True)


def gpu() -> tuple[Hardware, Launch]:
    """What GPU 0 is, and how a case is launched there."""
    import torch

    from tilewright.backends.gpu import backend

    return backend(0).hardware, partial(launch_on_gpu, backend=backend(0), torch=torch)


if __name__ == "__main__":
    main()
