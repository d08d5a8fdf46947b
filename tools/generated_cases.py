"""Multiply generated cases beyond those of the tests, on a GPU or in the emulator, and record how many were right.

Each case is a product that one of the kernels takes: awkward extents, strides, alignments, batches and scalars, in
poisoned buffers with guard bands, compared with float64. The emulator checks its rules too. The first wrong case ends
the run and is shown. A run adds to results/generated_cases.json the seed that draws its cases again, their number by
kernel, and the kernels' digest.

examples:
  python tools/generated_cases.py --on gpu --cases 100000 --seed 1
  python tools/generated_cases.py --on emulator --cases 2000 --seed 1 --processes 2
  compute-sanitizer python tools/generated_cases.py --on gpu --cases 300 --processes 0 --label memcheck
"""

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.cases import COPYING, Case, copied_cases, random_cases, unit_of  # noqa: E402
from support.rungs import LADDER_VARIANTS  # noqa: E402
from support.runs import multiply_emulated, multiply_on_gpu  # noqa: E402
from support.variants import VARIANTS  # noqa: E402
from support.verification import cases_of, kernel_digest  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.hardware import H200  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.kernels.registry import EVERY_KERNEL  # noqa: E402

RECORD = ROOT / "results" / "generated_cases.json"
CHUNK = 50
"""Cases that one process draws from one seed."""

COPIED = "wgmma, operands copied"
"""What the record calls products with operands that `repack` copies."""

Place = Literal["gpu", "emulator"]


def main() -> None:
    """Run the cases, show how far they are, and add to the record."""
    options = _options()
    counts = Counter(
        {name: -(-options.cases * cases_of(name) // sum(map(cases_of, EVERY_KERNEL))) for name in EVERY_KERNEL}
    )
    counts[COPIED] = -(-counts["wgmma"] // 4)
    jobs = [
        (options.on, name, min(CHUNK, count - first), f"{options.seed}/{name}/{first}")
        for name, count in counts.items()
        for first in range(0, count, CHUNK)
    ]
    digest = kernel_digest()
    name = _run(jobs, options.processes)
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=("gpu", "emulator"), required=True, help="where kernels run")
    parser.add_argument("--cases", type=int, default=2000, help="how many, a tenth for each rung (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="0: none but this one")
    parser.add_argument("--label", default="cases", help="what the record calls the run")
    return parser.parse_args()


def _run(jobs: list[tuple[Place, str, int, str]], processes: int) -> str:
    """Run all jobs, or end with the first case that is wrong; the name of what they ran on."""
    total = sum(count for _, _, count, _ in jobs)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("cases", total=total)
        if not processes:
            for job in jobs:
                check(*job)
                progress.advance(task, job[2])
            return where(jobs[0][0])[0]
        # Kernels take turns, since their cases differ in how long they take.
        if jobs[0][0] == "gpu":
            _compile(progress)
        mixed = [job for first in range(processes) for job in jobs[first::processes]]
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_start)
        try:
            futures = {pool.submit(check, *job): job for job in mixed}
            for future in as_completed(futures):
                name = future.result()
                progress.advance(task, futures[future][2])
        except KeyboardInterrupt:
            sys.exit("Stopped; the record is as it was.")
        finally:
            pool.shutdown(cancel_futures=True)
    return name


def _compile(progress: Progress) -> None:
    """Compile the units of all variants, several at once, before processes look for them in the cache."""
    units = {unit_of(variant, H200): None for variant in (*VARIANTS, *LADDER_VARIANTS)}
    task = progress.add_task("kernels", total=len(units))
    with CompilerPool(compilations()) as pool:
        for _, compiled in pool.build_all(units, H200.arch):
            if isinstance(compiled, TilewrightError):
                raise compiled
            progress.advance(task)


def _start() -> None:
    """Ignore Ctrl-C in each worker; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def check(place: Place, kernel: str, count: int, seed: str) -> str:
    """Multiply the cases of one seed; the name of what they ran on, or an AssertionError."""
    name, multiply = where(place)
    drawn = copied_cases(count, seed) if kernel == COPIED else random_cases(kernel, count, seed)
    changes = COPYING if kernel == COPIED else {}
    for case in drawn:
        try:
            multiply(case, changes)
        except Exception as error:
            error.add_note(f"case of {kernel}, seed {seed!r}: {case}")
            raise
    return name


@cache
def where(place: Place) -> tuple[str, Callable[[Case, dict[str, Any]], Any]]:
    """The name of a GPU or of the emulator, and how a case is multiplied there."""
    if place == "emulator":
        from tilewright.backends.emulated import EmulatedBackend

        checked = EmulatedBackend(checks=True)
        return "emulator", lambda case, changes: multiply_emulated(case, checked, **changes)
    import torch

    from tilewright.backends.gpu import backend

    gpu = backend(0)
    return gpu.hardware.name, lambda case, changes: multiply_on_gpu(case, gpu, torch, **changes)


if __name__ == "__main__":
    main()
