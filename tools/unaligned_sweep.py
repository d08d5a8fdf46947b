"""Measure the ways to multiply operands that TMA cannot address, beside the product of aligned ones.

A product of odd extents is multiplied by wgmma_unaligned where its operands are, and with a copy of a or of b; and by
wgmma with copies of both. Each Config is verified, and all of a product are timed in turns, in graphs, inputs past L2.
A copy is timed by itself: `us` of a launch is without it, and `copies` is what it adds, apart from the workspace. The
kind `aligned` is the product of extents rounded up to 64. Ctrl-C keeps what is done.

examples:
  python tools/unaligned_sweep.py unaligned.json               what fits into 45 seconds, products of layout nt first
  python tools/unaligned_sweep.py unaligned.json --products 128x4096x4100 --layouts nn --most 100    all Configs of one
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import posed  # noqa: E402
from sweep import text_of, timed  # noqa: E402

from tilewright.backends.gpu import GpuBackend, backend  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.kernels.kernel import Kernel  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.kernels.repack import RepackConfig  # noqa: E402
from tilewright.planner.copies import REPACK, Copied, copied  # noqa: E402
from tilewright.problem import Problem  # noqa: E402
from tilewright.rounding import round_up  # noqa: E402
from tilewright.tuning.candidates import Candidate  # noqa: E402

PRODUCTS = (
    "2047x2047x2047", "128x4096x4100", "1x4096x4097", "1023x1023x1023", "255x257x259", "4095x4095x4095",
    "16x4096x4097", "128x4096x4097", "511x511x511", "8191x8191x8191",
)  # fmt: skip
ALIGNED = 64


def main() -> None:
    """Sweep and write the record after each product."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="where the record is written")
    parser.add_argument("--products", nargs="+", default=PRODUCTS, metavar="MxNxK", help="default: ten")
    parser.add_argument("--layouts", nargs="+", choices=("nt", "nn", "tn", "tt"), default=["nt", "nn", "tt", "tn"])
    parser.add_argument("--most", type=int, default=8, help="Configs of a way, the model's first (default: 8)")
    parser.add_argument("--seconds", type=float, default=45, help="after which no product is begun (default: 45)")
    options = parser.parse_args()
    gpu, begun = backend(0), time.monotonic()
    about = {
        "gpu": gpu.hardware.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "tools/unaligned_sweep.py", *sys.argv[1:]]),
        "digest": KERNELS["wgmma_unaligned"].digest,
        "columns": {"launches": ["m", "n", "k", "layout", "kind", "config", "us", "copies", "predicted"]},
    }
    launches: list[list[Any]] = []
    with CompilerPool(compilations()) as pool:
        for layout, text in product(options.layouts, options.products):
            if (elapsed := time.monotonic() - begun) > options.seconds:
                break
            m, n, k = map(int, text.split("x"))
            problem = posed((m, n, k, 1, layout))
            print(f"{elapsed:4.0f} of {options.seconds:g} s, {len(launches)} launches, {problem}", file=sys.stderr)
            try:
                for row in _measured(problem, gpu, pool, options.most):
                    launches.append([m, n, k, layout, *row])
            except KeyboardInterrupt:
                break
            options.record.write_text(text_of(about, launches))


def _measured(problem: Problem, gpu: GpuBackend, pool: CompilerPool, most: int) -> Iterator[list[Any]]:
    """The last five columns of a row for each launch, and a line on stderr for the best of each kind."""
    ways: list[tuple[str, Kernel, Copied | None, int]] = []
    for wanted in ("", "a", "b"):
        kernel = KERNELS["wgmma_unaligned"]
        copies = copied(problem, kernel, gpu.hardware, tuple(wanted))
        ways.append((f"copies {wanted}" if wanted else "in place", kernel, copies, most))
    wgmma = KERNELS["wgmma"]
    ways.append(("copies a and b", wgmma, copied(problem, wgmma, gpu.hardware), 1))
    m, n, k = (round_up(extent, ALIGNED) for extent in (problem.m, problem.n, problem.k))
    aligned = posed((m, n, k, 1, problem.layout))
    ways.append(("aligned", wgmma, Copied(aligned), 1))
    for kind, kernel, copies, count in ways:
        if copies is None:
            continue
        of_copies = 0.0
        if copies.repacking is not None:
            of_copies = _times(REPACK, [RepackConfig()], copies.repacking, gpu, pool)[0][1]
        configs = list(kernel.candidates(copies.problem, gpu.hardware, count))
        found = _times(kernel, configs, copies.problem, gpu, pool)
        for config, us in found:
            predicted = kernel.predict(config, copies.problem, gpu.hardware)
            seconds = predicted.seconds if predicted is not None else 0.0
            yield [kind, asdict(config), us, of_copies, round(seconds * 1e6, 2)]
        if found:
            config, us = min(found, key=lambda pair: pair[1])
            print(f"    {kind}: {us} + {of_copies} us, {config}", file=sys.stderr)


def _times(
    kernel: Kernel, configs: list[Any], problem: Problem, gpu: GpuBackend, pool: CompilerPool
) -> list[tuple[Any, float]]:
    """The Configs that are right, with their times in us; a copy is not verified."""
    candidates = [Candidate(kernel, config, kernel.assemble(config, problem, gpu.hardware)) for config in configs]
    if kernel is REPACK:
        return [(each.config, us) for each, us in timed([], problem, gpu, pool, unverified=candidates)]
    return [(each.config, us) for each, us in timed(candidates, problem, gpu, pool)]


if __name__ == "__main__":
    main()
