"""Measure products that TMA cannot address: `mma`, which gathers elements, beside `wgmma` with copies of operands.

Extents are random and odd, or end in a 2 or a 4, so that rows are aligned to 2, 4 or 8 bytes; k is mostly short. All
Configs of `mma`, and the best one of `wgmma`, are verified and timed in turns, in graphs, inputs past L2. The record
also has what each is ranked by, and the last line says what of the best time the planner's choices reach, and by what
share times of `mma` are off. Ctrl-C keeps what is done.

examples:
  python tools/narrow_sweep.py narrow.json --seconds 60             as many products as fit into a minute
  python tools/narrow_sweep.py narrow.json --elements bf16 int8     of two types
"""

import argparse
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean, geometric_mean
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, posed  # noqa: E402
from sweep import text_of, timed  # noqa: E402

from tilewright.backends.gpu import GpuBackend, backend  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.planner.tuning.candidates import Candidate, ranked, untuned  # noqa: E402
from tilewright.problem import Problem  # noqa: E402

COLUMNS = ("m", "n", "k", "layout", "elements", "kernel", "config", "ranked", "us")


def main() -> None:
    """Sweep and write the record after each product."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="where the record is written")
    parser.add_argument("--seconds", type=float, default=60, help="after which no product is begun (default: 60)")
    parser.add_argument("--elements", nargs="+", default=["bf16"], metavar="TEXT", help="by default bf16")
    parser.add_argument("--seed", type=int, default=0, help="of the products (default: 0)")
    options = parser.parse_args()
    gpu, random, begun = backend(0), Random(options.seed), time.monotonic()
    about = {
        "gpu": gpu.hardware.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "tools/narrow_sweep.py", *sys.argv[1:]]),
        "seed": options.seed,
        "digest": KERNELS["mma"].digest,
        "columns": {"launches": COLUMNS},
    }
    launches: list[list[Any]] = []
    with CompilerPool(compilations()) as pool:
        while (elapsed := time.monotonic() - begun) < options.seconds:
            shape = _shape(random, random.choice(options.elements))
            print(f"{elapsed:4.0f} of {options.seconds:g} s, {shape}", file=sys.stderr)
            try:
                rows = list(_measured(posed(shape), gpu, pool))
            except KeyboardInterrupt:
                break
            if len({row[0] for row in rows}) == 2:  # both kernels take it
                launches += [[shape.m, shape.n, shape.k, shape.layout, shape.elements, *row] for row in rows]
                options.record.write_text(text_of(about, launches))
    print(_summary(launches))


def _shape(random: Random, elements: str) -> Shape:
    """A product with rows that are aligned to few bytes."""
    step = random.choice((1, 1, 2, 4))
    m, n, k = (int(2 ** random.uniform(5, most)) // 8 * 8 + step for most in (11.5, 11.5, 10))
    return Shape(m, n, k, 1, random.choice(("nt", "nn")), elements)


def _measured(problem: Problem, gpu: GpuBackend, pool: CompilerPool) -> Iterator[list[Any]]:
    """The last four columns of a row for each candidate that is right."""
    hardware = gpu.hardware
    candidates: dict[str, list[Candidate]] = {"wgmma": [], "mma": []}
    for candidate in islice(ranked(untuned(problem, hardware), problem, hardware, 12), 12):
        candidates.get(candidate.kernel.name, []).append(candidate)
    chosen = [*candidates["wgmma"][:1], *candidates["mma"]]
    for (kernel, config, _, copied), us in timed(chosen, problem, gpu, pool):
        assert copied is not None
        seconds = kernel.ranked_seconds(config, copied.problem, hardware) + copied.ranked_seconds(hardware)
        yield [kernel.name, str(config), round(seconds * 1e6, 3), us]


def _summary(launches: list[list[Any]]) -> str:
    products: dict[tuple[Any, ...], list[list[Any]]] = {}
    for *product, kernel, _, seconds, us in launches:
        products.setdefault(tuple(product), []).append([seconds, us, kernel])
    shares = [min(us for _, us, _ in rows) / min(rows)[1] for rows in products.values()]
    off = [abs(log(seconds / us)) for *_, kernel, _, seconds, us in launches if kernel == "mma"]
    if not shares:
        return "no product was measured"
    return (
        f"{len(shares)} products: choices have {geometric_mean(shares):.3f} of the best, at least {min(shares):.2f}; "
        f"times of mma are off by {exp(fmean(off)) - 1:.0%}"
    )


if __name__ == "__main__":
    main()
