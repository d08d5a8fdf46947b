"""The measured figures of the ladder, results/ladder_*.json, as the tables of docs/ladder/.

readme_numbers.py writes these tables. Each record is the output of one `tilewright ladder --json` on a GPU, for any
shape. The index shows the record of 4096^3. counters_h200.json there is what `tilewright ladder --counters --json`
wrote, and counters_emulator.json has the emulator's counters of each rung.
"""

import json
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tilewright.checking.product import Product  # noqa: E402
from tilewright.cli.ladder import plot as ladder_plot  # noqa: E402
from tilewright.cli.ladder.table import waits  # noqa: E402
from tilewright.dtypes import bf16  # noqa: E402
from tilewright.hardware import H200  # noqa: E402
from tilewright.kernels.ladder import LADDER, before, gains  # noqa: E402
from tilewright.kernels.ladder.hopper import ScheduleConfig  # noqa: E402
from tilewright.kernels.ladder.rung import Published  # noqa: E402
from tilewright.ladder.profile import STALLS  # noqa: E402
from tilewright.model.chips import CHIPS  # noqa: E402
from tilewright.model.l2 import Cache, product_requests, simulate  # noqa: E402
from tilewright.model.raster import TileOrder, blocked_tile, hilbert_tile, row_major_tile  # noqa: E402

YARDSTICK = (4096, 4096, 4096)
LINE_BYTES = 16384  # line of the modeled cache: half a tile of B, which is always read as a whole


@cache
def records(folder: Path = ROOT / "results") -> list[dict[str, Any]]:
    """The records: first the shape that the articles use, then from small to large. ValueError if two share a shape."""
    found: dict[tuple[int, int, int], tuple[Path, dict[str, Any]]] = {}
    for path in sorted(folder.glob("ladder_*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        other, _ = found.setdefault(_shape(record), (path, record))
        if other != path:
            raise ValueError(f"{other.name} and {path.name} are both of {_shape_text(_shape(record))}: keep one")
    sizes = sorted(found, key=lambda shape: (shape != YARDSTICK, prod(shape)))
    return [found[shape][1] for shape in sizes]


def measured(name: str) -> list[str]:
    """A rung's throughput for each shape, and the published figures of such kernels."""
    shown = [(record, figures[name]) for record in records() if name in (figures := _figures(record))]
    rows = [[_shape_text(_shape(record)), *figures] for record, figures in shown]
    heads = ("m, n, k", "TFLOP/s", "of cuBLAS", "gain over the rung before")
    lines = _table(heads, rows) if rows else ["Not measured yet."]
    if published := LADDER[name].published:
        quoted = [[_shape_text(each.shape), each.gpu, each.range, _published_gain(name, each)] for each in published]
        lines += ["", *_table(("published for", "on", "TFLOP/s", "gain over the rung before"), quoted)]
        sources = dict.fromkeys(each.source for each in published)
        lines += ["", f"From {'; '.join(sources)}."]
    if provenance := _provenance(record for record, _ in shown):
        lines += ["", *provenance]
    lines += counted(name)
    return [*lines, "", *schedules()] if name == "wgmma_hilbert" else lines


@cache
def _counters(of: str) -> dict[str, Any]:
    """A record of counters, of h200 or emulator."""
    record: dict[str, Any] = json.loads((ROOT / f"results/counters_{of}.json").read_text(encoding="utf-8"))
    return record


def counted(name: str) -> list[str]:
    """What the hardware counted of one launch of a rung; nothing without a record."""
    record = _counters("h200")
    profile = next((rung["profile"] for rung in record["rungs"] if rung["name"] == name and "profile" in rung), None)
    if profile is None:
        return []
    unit, share = (
        ("tensor cores work", profile["tensor"]) if profile["tensor"] else ("FMA units get work", profile["fma"])
    )
    return [
        "",
        f"Of the clocks of a launch at {_shape_text(_shape(record))}, {unit} in {share:.0%}, and schedulers issue in "
        f"{profile['issue']:.0%}.",
        f"Warps wait most for {_waits(profile)} ([all rungs](counters.md)).",
    ]


def _waits(profile: dict[str, Any]) -> str:
    return ", ".join(f"`{state}` {share:.0%}" for state, share in waits(profile["states"]).items())


def hardware() -> list[str]:
    """What the hardware counted of all rungs beside what the emulator counts, and what ncu's words mean."""
    record = _counters("h200")
    emulated = {rung["name"]: rung for rung in _counters("emulator")["rungs"] if "rereads" in rung}
    rows = []
    for rung in record["rungs"]:
        if "profile" in rung:
            profile, ours = rung["profile"], emulated.get(rung["name"], {})
            shares = (f"{profile[name]:.0%}" for name in ("tensor", "fma", "issue", "occupancy"))
            sectors = (_number(profile["sectors_per_load"], 1), _number(ours.get("sectors_per_load"), 1))
            conflicts = _number(ours.get("conflicts_per_request"), 2)
            rows.append([f"[{rung['name']}]({rung['name']}.md)", *shares, *sectors, conflicts, _waits(profile)])
    heads = (
        "rung", "tensor cores work", "FMA units get work", "schedulers issue", "warps of 64", "sectors a load",
        "in the emulator", "bank conflicts a request, in the emulator", "warps wait for",
    )  # fmt: skip
    named = {state for rung in record["rungs"] for state in waits(rung.get("profile", {}).get("states", {}))}
    meanings = [[f"`{state}`", meaning] for state, meaning in STALLS.items() if state in named]
    command = _counters("emulator")
    return [
        *_table(heads, rows), "", *_table(("in ncu's words", "a warp waits for"), meanings), "",
        f"{record['gpu']}, {record['date'][:10]}, at {_shape_text(_shape(record))}; "
        f"the emulator at {_shape_text(_shape(command))}.",
        f"To reproduce: `{record['command']}`",
    ]  # fmt: skip


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _published_gain(name: str, figure: Published) -> str:
    """An article's gain from the rung before, or '' if it has no figure for that rung on the same GPU."""
    rung_before = before(LADDER).get(name)
    others = LADDER[rung_before].published if rung_before else ()
    alike = (
        each for each in others if (each.shape, each.gpu, each.source) == (figure.shape, figure.gpu, figure.source)
    )
    other = next(alike, None)
    return "" if other is None or other.upto or figure.upto else f"{figure.tflops / other.tflops:.2f}x"


def schedules() -> list[str]:
    """The throughput of one kernel under each order of tiles."""
    record = json.loads((ROOT / "results" / "schedules.json").read_text(encoding="utf-8"))
    (product,) = record["products"]
    timed = [found for found in product["contenders"] if "config" in found]
    rows = [
        [
            found["config"]["schedule"],
            *(_times(found[protocol]) for protocol in ("burst", "settled")),
            f"{_read_from_dram(found['kernel'], found['config']['schedule'], product) / 1e9:.2f}",
        ]
        for found in timed
    ]
    confidences = [each[name]["ratio"]["confidence"] for each in timed for name in ("burst", "settled")]
    kernel = next(found["kernel"] for found in product["contenders"] if "kernel" in found)
    shape = _shape_text((product["m"], product["n"], product["k"]))
    return [
        f"The next table changes only the order of tiles, in `{kernel}` at {shape}.",
        "Each cell has TFLOP/s and the ratio to cuBLAS in the same run, "
        "right after idle (burst) and at the power limit (settled).",
        f"The confidence of each interval is at least {min(confidences):.2%}.",
        "",
        *_table(("schedule", "burst", "settled", "GB from DRAM, modeled"), rows),
        "",
        f"{record['gpu']}, {record['date'][:10]}.",
        f"To reproduce: `{record['command']}`",
    ]


def _read_from_dram(name: str, schedule: TileOrder, product: dict[str, Any]) -> int:
    """Bytes of A and B that miss in the model of an H200's L2 when clusters take tiles in this order."""
    kernel = LADDER[name].kernel
    problem = Product(product["m"], product["n"], product["k"], bf16, bf16, product["layout"]).problem
    config = ScheduleConfig(schedule)
    constants = kernel.constants(config, problem)
    launch = kernel.launch_shape(constants, problem, H200)
    sizes = {key: int(value) for key, value in constants.by_name().items() if isinstance(value, int)}
    tile_m, tile_n = sizes["tile_m"] * launch.cluster, sizes["tile_n"]
    block = partial(blocked_tile, block_m=sizes["block_m"], block_n=sizes["block_n"])
    orders: dict[TileOrder, Callable[[int, int, int], tuple[int, int]]] = {
        "row_major": row_major_tile, "blocked": block, "hilbert": hilbert_tile
    }  # fmt: skip
    tile = orders[schedule]
    tiles_m, tiles_n = problem.m // tile_m, problem.n // tile_n
    l2 = Cache(CHIPS[H200.name].l2_bytes, line_bytes=LINE_BYTES)
    requests = product_requests(
        [tile(index, tiles_m, tiles_n) for index in range(tiles_m * tiles_n)],
        m=problem.m, n=problem.n, k=problem.k, tile_m=tile_m, tile_n=tile_n, tile_k=sizes["tile_k"],
        element_bytes=bf16.nbytes, ctas=launch.grid // launch.cluster, line_bytes=l2.line_bytes,
    )  # fmt: skip
    return simulate(requests, l2).missed


def _times(measured: dict[str, Any]) -> str:
    ratio = measured["ratio"]
    return f"{measured['tflops']:.0f}, {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


def index() -> list[str]:
    """Every rung with its idea and its figures at 4096^3, one table per road."""
    record = _of_the_yardstick()
    figures = _figures(record)
    lines = []
    for road in dict.fromkeys(rung.road for rung in LADDER.values()):
        rungs = [rung for rung in LADDER.values() if rung.road == road]
        usual = rungs[0].layout
        ideas = [
            rung.idea
            + (f" Layout {rung.layout}." if rung.layout != usual else "")
            + (f" ({rung.note[0].upper()}{rung.note[1:]}.)" if rung.note else "")
            for rung in rungs
        ]
        lines += [f"**{road[0].upper()}{road[1:]}**, {rungs[0].inputs[0]}, layout {usual}:", ""]
        lines += _table(
            ("rung", "idea", "TFLOP/s", "of cuBLAS", "gain"),
            (
                [f"[{rung.name}]({rung.name}.md)", idea, *figures.get(rung.name, ("", "", ""))]
                for rung, idea in zip(rungs, ideas, strict=True)
            ),
        )
        lines.append("")
    aside = " and ".join(name for name, rung in LADDER.items() if rung.side_step)
    about = [
        f"All figures are at {_shape_text(YARDSTICK)}, and each gain is over the rung before.",
        "Where a gain is below 1, a new line begins with a simpler kernel (mma_warp), or the idea pays only later.",
        f"{aside} are side branches; later rungs are not compared with them.",
    ]
    return [*lines, *about, *_provenance([record])]


def draw(path: Path) -> None:
    """Draw the index's record as a bar chart."""
    ladder_plot.draw(_of_the_yardstick(), path)


def _of_the_yardstick() -> dict[str, Any]:
    return next(record for record in records() if _shape(record) == YARDSTICK)


def documents() -> dict[str, tuple[str, str, list[str]]]:
    """By document: the marker line before the generated part, the marker line after it, and the lines between them."""
    pages = {
        f"docs/ladder/{name}.md": (f"<!-- measured:{name} -->\n", "<!-- end -->\n", measured(name)) for name in LADDER
    }
    return {
        "docs/ladder/README.md": ("<!-- index:begin -->\n", "<!-- index:end -->\n", index()),
        "docs/ladder/counters.md": ("<!-- counters:begin -->\n", "<!-- counters:end -->\n", hardware()),
        **pages,
    }


def _shape(record: dict[str, Any]) -> tuple[int, int, int]:
    return record["m"], record["n"], record["k"]


def _shape_text(shape: Iterable[int]) -> str:
    m, n, k = shape
    return f"{m}^3" if m == n == k else f"{m}, {n}, {k}"


def _figures(record: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """By rung: TFLOP/s, share of cuBLAS in the same run, and gain; a missing figure is ''.

    A rung that was measured on other data than its own is left out.
    """
    rungs = {
        rung["name"]: rung for rung in record["rungs"] if "tflops" in rung and rung["data"] == LADDER[rung["name"]].data
    }
    gained = gains({name: rung["time_us"] for name, rung in rungs.items()})
    return {
        name: (
            f"{rung['tflops']:#.3g}".rstrip("."),
            f"{rung['cublas_ratio']:.1%}" if "cublas_ratio" in rung else "",
            f"{gained[name]:.2f}x" if name in gained else "",
        )
        for name, rung in rungs.items()
    }


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    heads = list(heads)
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def _provenance(shown: Iterable[dict[str, Any]]) -> list[str]:
    """The GPU, date and command of each record that is shown."""
    commands: dict[tuple[str, str], list[str]] = {}
    for record in shown:
        commands.setdefault((record["gpu"], record["date"][:10]), []).append(f"`{record['command']}`")
    return [
        line
        for (gpu, date), each in commands.items()
        for line in (f"{gpu}, {date}, in bursts.", f"To reproduce: {', '.join(each)}")
    ]
