"""Measure Configs of wgmma on random products, those that the model ranks low too, for tools/calibrate.py.

A product has random extents: m from 1 to 8192, n and k up to 16384, rows of whole lines of 128 bytes or not; one with
a batch has small ones. Of its Configs, the best by the model and random others are verified and timed in turns, in
graphs, inputs past L2. The record has two medians of each, `us` and `again`, of separate halves of the launches: the
least of many medians is partly luck, so the best Config is found by the first and compared by the second. Ctrl-C keeps
what is done.

examples:
  python tools/sweep.py sweep.json --seconds 120            as many products as fit into two minutes
  python tools/sweep.py sweep.json --seed 2 --most-rows 512   others, of few rows
  python tools/sweep.py sweep.json --layouts nn tn            others, whose operands are stored otherwise
  python tools/sweep.py sweep.json --draw large               others that take long
  python tools/sweep.py sweep.json --draw layers --best 16 --random 6     of layers, and near the planner's choice
  python tools/sweep.py sweep.json --epilogues "gelu(acc + bias)" "silu(acc)"     others, with a function to compute
  python tools/sweep.py sweep.json --draw deep                of few tiles and a long k
  python tools/sweep.py sweep.json --draw short               of a large result and a short k
  python tools/sweep.py sweep.json --draw middle --turns 20   of a middling size, many Configs with ping_pong
  python tools/sweep.py sweep.json --draw rows --clusters 20  of up to 640 rows, many Configs in clusters
  python tools/sweep.py sweep.json --vary group_m=1,2,4   each of them in other orders of tiles too
  python tools/sweep.py sweep.json --elements int8 "fp8_e4m3 row fast"    others, of one byte
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, posed  # noqa: E402

from tilewright.backends.gpu import GpuBackend, backend  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.jit.pool import CompilerPool, compilations  # noqa: E402
from tilewright.jit.source import TranslationUnit  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.measure.elements import Elements  # noqa: E402
from tilewright.measure.protocol import Work  # noqa: E402
from tilewright.planner.tuning.candidates import Candidate  # noqa: E402
from tilewright.planner.tuning.stand import GpuStand  # noqa: E402
from tilewright.problem import Problem  # noqa: E402
from tilewright.rounding import round_up  # noqa: E402

FIELDS = (
    "tile_m", "tile_n", "tile_k", "cluster_m", "cluster_n", "split_k", "swap_ab", "stages", "overlap", "epilogue",
    "ping_pong", "group_m", "prefetch",
)  # fmt: skip
OF_SHAPE = ("m", "n", "k", "batch", "layout", "elements", "fused")
LAYOUTS = ("nt", "nn", "tn", "tt")
RANKED = 240
"""Configs of a product that the model ranks, from whose best and others those that are measured are drawn."""
ROUNDS = 5
"""Turns of a median."""
MOST_FLOPS = 4e11


def main() -> None:
    """Sweep and write the record after each product."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path, help="where the record is written")
    parser.add_argument("--seconds", type=float, default=120, help="after which no product is begun (default: 120)")
    parser.add_argument("--most-rows", type=int, default=8192, metavar="M", help="the largest m (default: 8192)")
    parser.add_argument("--least-rows", type=int, default=1, metavar="M", help="the smallest m (default: 1)")
    parser.add_argument("--draw", choices=DRAWS, default="any", help="random extents of a kind (default: any)")
    parser.add_argument("--best", type=int, default=12, help="Configs of a product, by the model (default: 12)")
    parser.add_argument("--random", type=int, default=20, help="others of a product (default: 20)")
    parser.add_argument("--clusters", type=int, default=0, help="more Configs in clusters, by the model (default: 0)")
    parser.add_argument("--turns", type=int, default=0, help="more Configs with ping_pong, by the model (default: 0)")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=["nt"], help="of the products (default: nt)")
    parser.add_argument("--elements", nargs="+", default=["bf16"], metavar="TEXT", help="by default bf16")
    parser.add_argument("--epilogues", nargs="+", default=[""], metavar="TEXT", help="of acc and bias; by default none")
    parser.add_argument(
        "--vary", type=_varied, default=("", ()), metavar="FIELD=N,N", help="each Config with these too"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the products and of the Configs (default: 0)")
    options = parser.parse_args()
    least = {"layers": 16, "deep": 16, "rows": 32}.get(options.draw, 1)
    if options.most_rows < least:
        parser.error(f"--draw {options.draw} has {least} rows at least: give a larger --most-rows")
    gpu, random, begun = backend(0), Random(options.seed), time.monotonic()
    launches: list[list[Any]] = []
    with CompilerPool(compilations()) as pool:
        while (elapsed := time.monotonic() - begun) < options.seconds:
            layout, elements = random.choice(options.layouts), random.choice(options.elements)
            shape = DRAWS[options.draw](random, options.most_rows, layout, elements)
            if any(options.epilogues):
                shape = shape._replace(fused=random.choice(options.epilogues))
            if shape.m < options.least_rows or (shape.fused and shape.batch > 1):
                continue
            print(f"{elapsed:4.0f} of {options.seconds:g} s, {len(launches)} launches, {shape}", file=sys.stderr)
            try:
                launches += _measured(shape, gpu, pool, random, options)
            except KeyboardInterrupt:
                break
            options.record.write_text(text_of(_record(gpu, options.seed), launches))


def _varied(text: str) -> tuple[str, Sequence[int]]:
    field, _, values = text.partition("=")
    least = {"group_m": 1, "prefetch": 0}.get(field)
    numbers = [int(value) for value in values.split(",")] if least is not None else []
    if least is None or min(numbers) < least:
        raise argparse.ArgumentTypeError(f"{text!r} has nothing to vary: use group_m=1,2 or prefetch=0,8")
    return field, numbers


def _shape(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product whose rows TMA can address."""
    kinds = Elements.parse(elements)
    unit, has_batches = 16 // kinds.a.nbytes, kinds.recipe is None
    while True:
        batch = random.choice((1, 1, 1, 1, 16, 64)) if has_batches else 1
        n, k = (int(2 ** random.uniform(6, 14 if batch == 1 else 10)) for _ in range(2))
        m = int(2 ** random.uniform(0, most_rows.bit_length() - 1)) if batch == 1 else int(2 ** random.uniform(5, 10))
        n, k = (round_up(extent, unit) for extent in (n, k))
        if layout[0] == "t":
            m = round_up(m, unit)
        if random.random() < 0.5:
            k = round_up(k, 8 * unit)
        if 1e7 < batch * m * n * k < MOST_FLOPS / 2:
            return Shape(m, n, k, batch, layout, elements)


def _large(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product as layers of models have them, that takes long."""
    while True:
        m, n, k = (round_up(int(2 ** random.uniform(10, 14.2)), random.choice((128, 512, 1024))) for _ in range(3))
        if m * n * k < 2 * MOST_FLOPS:
            return Shape(min(m, most_rows), n, k, 1, layout, elements)


def _layers(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product of 16 to 1,300 rows and weights as layers of models have them."""
    while True:
        m = round_up(int(2 ** random.uniform(4, 10.3)), random.choice((1, 16, 64, 128)))
        if layout[0] == "t":
            m = round_up(m, 16)  # which TMA can address
        n, k = (round_up(int(2 ** random.uniform(10, 14.5)), 128) for _ in range(2))
        if m <= most_rows and m * n * k < MOST_FLOPS / 3:
            return Shape(m, n, k, 1, layout, elements)


def _deep(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product of few tiles and a long k."""
    while True:
        m, n = (round_up(int(2 ** random.uniform(4, 13)), random.choice((8, 64, 128))) for _ in range(2))
        k = round_up(int(2 ** random.uniform(11.5, 15)), 64)
        if m <= most_rows and 2**15 < m * n < 2**22 and k > 3 * min(m, n) and m * n * k < MOST_FLOPS / 3:
            return Shape(m, n, k, 1, layout, elements)


def _rows(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product of 22 to 640 rows and weights as layers have them, half of them of few tiles and a long k."""
    while True:
        m = round_up(int(2 ** random.uniform(4.5, 9.3)), random.choice((1, 16, 64)))
        wide, long = ((9.5, 12.5), (11, 14)) if random.random() < 0.5 else ((11.5, 15), (10.3, 13))
        n, k = (round_up(int(2 ** random.uniform(*extents)), 64) for extents in (wide, long))
        if layout[0] == "t":
            m = round_up(m, 16)
        if m <= most_rows and n * k < 2**27.5:
            return Shape(m, n, k, 1, layout, elements)


def _short(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product of a large result and a short k, or a batch of them."""
    kinds = Elements.parse(elements)
    unit, has_batches = 16 // kinds.a.nbytes, kinds.recipe is None
    while True:
        batch = random.choice((1, 1, 1, 16, 64)) if has_batches else 1
        least, most = (6.5, 14) if batch == 1 else (5, 11)
        m, n = (round_up(int(2 ** random.uniform(least, most)), random.choice((16, 64, 128))) for _ in range(2))
        k = round_up(int(2 ** random.uniform(5, 9.8)), random.choice((unit, 64)))
        if m <= most_rows and 2**20 < batch * m * n < 2**27:
            return Shape(m, n, k, batch, layout, elements)


def _middle(random: Random, most_rows: int, layout: str, elements: str) -> Shape:
    """A product of 256 rows, any number of them, and columns or more, and a k of up to 3,000."""
    unit = 16 // Elements.parse(elements).a.nbytes
    while True:
        m = round_up(int(2 ** random.uniform(8, 14)), random.choice((1, unit, 64)))
        n = round_up(int(2 ** random.uniform(8, 14)), random.choice((unit, 64)))
        k = round_up(int(2 ** random.uniform(6, 11.6)), random.choice((unit, 64)))
        if m <= most_rows and 2**19 < m * n < 2**26:
            return Shape(m, n, k, 1, layout, elements)


DRAWS = {
    "any": _shape, "large": _large, "layers": _layers, "deep": _deep, "rows": _rows, "short": _short, "middle": _middle
}  # fmt: skip


def _measured(
    shape: Shape,
    gpu: GpuBackend,
    pool: CompilerPool,
    random: Random,
    options: argparse.Namespace,
) -> Iterator[list[Any]]:
    """A row of the record for each Config that is right."""
    kernel, problem = KERNELS["wgmma"], posed(shape)
    ranked = list(kernel.candidates(problem, gpu.hardware, RANKED))
    best, others = ranked[: options.best], ranked[options.best :]
    chosen = best + random.sample(others, min(options.random, len(others)))
    chosen += [config for config in others if config.cluster_m * config.cluster_n > 1][: options.clusters]
    chosen += [config for config in others if config.ping_pong][: options.turns]
    field, values = options.vary
    chosen += [replace(config, **{field: value}) for config in chosen for value in values]
    units: dict[tuple[TranslationUnit, int, int], Candidate] = {}
    for config in chosen:
        candidate = Candidate(kernel, config, kernel.assemble(config, problem, gpu.hardware))
        units.setdefault((candidate.source, config.group_m, config.prefetch), candidate)
    for candidate, times in sampled(list(units.values()), problem, gpu, pool, rounds=2 * ROUNDS):
        of_config = [getattr(candidate.config, name) for name in FIELDS]
        halves = times[:ROUNDS], times[ROUNDS:]
        of_shape = [getattr(shape, name) for name in OF_SHAPE]
        yield [*of_shape, *of_config, *map(_median, halves)]


def timed(
    candidates: Sequence[Candidate],
    problem: Problem,
    gpu: GpuBackend,
    pool: CompilerPool,
    *,
    unverified: Sequence[Candidate] = (),
) -> list[tuple[Candidate, float]]:
    """As `sampled`, with the median of a candidate's times."""
    found = sampled(candidates, problem, gpu, pool, unverified=unverified)
    return [(candidate, _median(times)) for candidate, times in found]


def _median(times: list[float]) -> float:
    return round(median(times), 3)


def sampled(
    candidates: Sequence[Candidate],
    problem: Problem,
    gpu: GpuBackend,
    pool: CompilerPool,
    *,
    unverified: Sequence[Candidate] = (),
    rounds: int = ROUNDS,
) -> list[tuple[Candidate, list[float]]]:
    """Those candidates that compile and are right, with their times in us in so many turns.

    unverified: others that make no product.
    """
    of_unit: dict[TranslationUnit, list[int]] = {}
    every = [*candidates, *unverified]
    for number, candidate in enumerate(every):
        of_unit.setdefault(candidate.source, []).append(number)
    works: dict[int, Work] = {}
    with GpuStand(problem, gpu) as stand, ExitStack() as until:
        for source, compiled in pool.build_all(of_unit, gpu.hardware.arch):
            for number in of_unit[source]:
                verified = number < len(candidates)
                if isinstance(compiled, TilewrightError) or (verified and stand.fault(every[number], compiled)):
                    print(f"  left out: {every[number].config}", file=sys.stderr)
                    continue
                works[number] = stand.work(every[number], compiled, until)
        times: dict[int, list[float]] = {number: [] for number in works}
        for turn in range(rounds):
            for number in list(works)[:: -1 if turn % 2 else 1]:
                times[number].append(works[number].run(1) / works[number].launches * 1e6)
    return [(every[number], each) for number, each in times.items()]


def text_of(record: dict[str, Any], launches: list[list[Any]]) -> str:
    """JSON with a line for each launch."""
    rows = ",\n".join(map(json.dumps, launches))
    return f'{json.dumps(record)[:-1]}, "launches": [\n{rows}\n]}}\n'


def _record(gpu: GpuBackend, seed: int) -> dict[str, Any]:
    return {
        "gpu": gpu.hardware.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "tools/sweep.py", *sys.argv[1:]]),
        "seed": seed,
        "digest": KERNELS["wgmma"].digest,
        "columns": {"launches": [*OF_SHAPE, *FIELDS, "us", "again"]},
    }


if __name__ == "__main__":
    main()
