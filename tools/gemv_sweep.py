"""Measure Configs of gemv on products of decoding beside wgmma's own choice and the streaming read of the same bytes.

Each Config is verified, and all are timed in turns, in graphs of dependent launches, inputs past L2. The record has a
row for each launch, with the share of the quickest read of the weights' bytes in the same run. Ctrl-C keeps what is
done.

examples:
  python tools/gemv_sweep.py gemv.json                       as many products as fit into 100 seconds
  python tools/gemv_sweep.py gemv.json --rows 1 --layouts nt --most 200    all Configs of one row
  python tools/gemv_sweep.py gemv.json --dtype fp32                        on CUDA cores
  python tools/gemv_sweep.py gemv.json --seed 1                            of random weights instead, of any alignment
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, posed  # noqa: E402
from sweep import text_of, timed  # noqa: E402

from tilewright.backends.gpu import GpuBackend, backend  # noqa: E402
from tilewright.bench.stream_read import StreamRead  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.kernels.config_fields import fields_of, values_of  # noqa: E402
from tilewright.kernels.kernel import Kernel  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.planner.tuning.candidates import Candidate  # noqa: E402
from tilewright.problem import Problem  # noqa: E402
from tilewright.rounding import round_up  # noqa: E402

WEIGHTS = ((12288, 4096), (4096, 11008), (28672, 8192), (7168, 2048), (1024, 8192), (2048, 7168))
"""(n, k) of layers of decoders, from 17 to 470 MB."""


def main() -> None:
    """Sweep and write the record after each product."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="where the record is written")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 4, 8, 2], metavar="M", help="default: all to 16")
    parser.add_argument("--layouts", nargs="+", choices=("nt", "nn"), default=["nt", "nn"], help="default: both")
    parser.add_argument("--dtype", choices=("bf16", "fp16", "fp32"), default="bf16", help="default: bf16")
    parser.add_argument("--weights", nargs="+", default=WEIGHTS, type=extents, metavar="NxK", help="of other layers")
    parser.add_argument("--seed", type=int, help="of random weights, with any of the rows and layouts")
    parser.add_argument("--most", type=int, default=24, help="Configs of a product, the model's first (default: 24)")
    parser.add_argument("--seconds", type=float, default=100, help="after which no product is begun (default: 100)")
    options = parser.parse_args()
    gpu, begun = backend(0), time.monotonic()
    about = {
        "gpu": gpu.hardware.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "tools/gemv_sweep.py", *sys.argv[1:]]),
        "digest": KERNELS["gemv"].digest,
        "columns": {
            "launches": ["m", "n", "k", "layout", "kernel", "config", "us", "share of the read"],
            **{
                each.name: list(fields_of(each.config_type))
                for each in (KERNELS["gemv"], KERNELS["wgmma"], StreamRead())
            },
        },
    }
    launches: list[list[Any]] = []
    with CompilerPool(compilations()) as pool:
        for m, layout, (n, k) in products(options):
            if (elapsed := time.monotonic() - begun) > options.seconds:
                break
            problem = posed(Shape(m, n, k, 1, layout, options.dtype))
            print(f"{elapsed:4.0f} of {options.seconds:g} s, {len(launches)} launches, {problem}", file=sys.stderr)
            try:
                launches += _measured(problem, gpu, pool, options.most)
            except KeyboardInterrupt:
                break
            options.record.write_text(text_of(about, launches))


def products(options: argparse.Namespace) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """The numbers of rows, layouts and (n, k) that are asked for; random ones have no end."""
    yield from product(options.rows, options.layouts, options.weights) if options.seed is None else drawn(options)


def drawn(options: argparse.Namespace) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """Random ones, of 0.5 MB to 512 MB of 2 bytes: most as layers have them, others of any alignment."""
    random = Random(options.seed)
    while True:
        unit = random.choice((1, 8, 64, 128, 128, 256))
        n, k = (round_up(int(2 ** random.uniform(least, 15.2)), unit) for least in (7, 6))
        if 2**18 < n * k < 2**28:
            yield random.choice(options.rows), random.choice(options.layouts), (n, k)


def extents(text: str) -> tuple[int, int]:
    """(n, k) of "NxK"."""
    n, k = map(int, text.split("x"))
    return n, k


def _measured(problem: Problem, gpu: GpuBackend, pool: CompilerPool, most: int) -> Iterator[list[Any]]:
    """A row of the record for each launch; the best Config also without its prefetch ahead of the wait."""
    gemv, wgmma, read = KERNELS["gemv"], KERNELS["wgmma"], StreamRead()

    def candidate(kernel: Kernel, config: Any) -> Candidate:
        return Candidate(kernel, config, kernel.assemble(config, problem, gpu.hardware))

    configs = list(gemv.candidates(problem, gpu.hardware, most))
    compared = [candidate(gemv, config) for config in [*configs, replace(configs[0], prefetch=0)]]
    if wgmma.refuses(problem, gpu.hardware) is None:
        compared.append(candidate(wgmma, wgmma.best(problem, gpu.hardware)))
    reads = [candidate(read, config) for config in read.configs(problem, gpu.hardware)]
    found = timed(compared, problem, gpu, pool, unverified=reads)
    quickest = min(us for each, us in found if each.kernel is read)
    for each, us in sorted(found, key=lambda pair: pair[1]):
        place = [problem.m, problem.n, problem.k, problem.layout]
        yield [*place, each.kernel.name, list(values_of(each.config).values()), us, round(quickest / us, 4)]


if __name__ == "__main__":
    main()
