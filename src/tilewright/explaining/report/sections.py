"""What a report says besides pictures: fragments, a time line, counters and records, as plain data for its template."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.checking.asynchrony import Asynchrony
from tilewright.checking.kernels import checks_of
from tilewright.checking.product import Product
from tilewright.checking.timeline import record
from tilewright.dtypes import bf16
from tilewright.errors import ArgumentValueError, TilewrightError
from tilewright.explaining.report.pictures import Shown
from tilewright.explaining.screen import us
from tilewright.kernels.kernel import ConfigError
from tilewright.measure.elements import Elements
from tilewright.model.fragments.fragment import Fragment
from tilewright.model.fragments.instructions import fragments_of
from tilewright.model.timeline import Span, Timeline, latencies_of, play

BLOCKS = 8
"""The k-blocks of a tile in the time line: a ring of slots goes round, and the emulator takes seconds."""

COUNTERS = {
    "warp_instructions": "warp instructions", "global_requests": "GMEM requests", "global_sectors": "sectors",
    "shared_requests": "SMEM requests", "shared_wavefronts": "wavefronts", "shared_conflicts": "bank conflicts",
    "tma_loaded_bytes": "bytes by TMA",
}  # fmt: skip
MOST_LINES = 24
"""Source lines that are listed."""

LEFT, WIDTH, ROW = 150, 850, 16
"""Where a time line begins, how long it is, and how high a row is, in units of the picture."""

COMMANDS = """tilewright ladder --json > ladder.json
tilewright bench proof --output bench.json
tilewright report --record ladder.json --record bench.json"""


def fragments(shown: Shown) -> dict[str, Any] | None:
    """Who holds the elements of one multiplication; None for CUDA cores."""
    unit = shown.kernel.unit_of(shown.solved.a.dtype)
    if unit == "cuda_cores":
        return None
    kind = "bf16" if shown.solved.a.dtype is bf16 else "f16"
    found = fragments_of(f"wgmma.m64n16k16.{kind}" if unit == "wgmma" else f"mma.m16n8k16.{kind}")
    matrices = [
        {"name": each.matrix, "extents": f"{each.rows} x {each.columns}", "cells": _cells(each)}
        for each in found.fragments
    ]
    return {"name": found.name, "lanes": max(each.lanes for each in found.fragments), "matrices": matrices}


def _cells(fragment: Fragment) -> list[list[dict[str, Any]]]:
    """The lanes that hold each element, and its register."""
    rows = []
    for row in range(fragment.rows):
        owners = [fragment.owners(row, column) for column in range(fragment.columns)]
        rows.append([{"lanes": [owner.lane for owner in each], "register": each[0].register} for each in owners])
    return rows


def timeline(shown: Shown) -> dict[str, Any]:
    """The first tiles of a CTA as the emulator sees them, on a clock; only `about` where that is not known.

    It is one tile for each consumer that takes whole ones.
    """
    constants, solved = shown.constants, shown.solved
    by_turns = getattr(shown.config, "ping_pong", False)
    m, n = constants.tile_m * constants.cluster_m * (1 + by_turns), constants.tile_n * constants.cluster_n
    k = min(solved.k, BLOCKS * constants.tile_k * constants.split_k)
    if getattr(shown.config, "swap_ab", False):
        m, n = n, m
    try:
        product = Product(m, n, k, solved.a.dtype, solved.out.dtype, _layout(shown))
        line = play(record(shown.kernel, shown.config, product, shown.chip.gpu), latencies_of(shown.chip))
    except TilewrightError as error:
        return {"about": f"There is no time line: {error}.", "rows": []}
    tiles = "Two tiles, which two consumers take by turns," if by_turns else "One tile"
    return _drawn(line, f"{tiles} with a k of {k}, as the warps run in the emulator, with the model's clocks.")


def _layout(shown: Shown) -> str:
    """The layout of the operands as they are given."""
    a, b = shown.solved.a, shown.solved.b
    if getattr(shown.config, "swap_ab", False):
        a, b = b.transposed, a.transposed
    return "".join("tn"[each.is_row_major] for each in (a, b))


def _drawn(line: Timeline, about: str) -> dict[str, Any]:
    own = [span for span in line.spans if span.cta == 0]
    names = sorted({span.row for span in own}, key=lambda name: (not name.startswith("slot"), len(name), name))
    rows = [
        {"name": name, "y": number * ROW, "spans": [_place(span, line.end) for span in own if span.row == name]}
        for number, name in enumerate(names)
    ]
    end = round(line.end)
    share = line.busy() / line.end if line.end else 0.0
    return {
        "about": f"{about} The tensor cores are busy {share:.1%} of {end:,} clocks.",
        "alt": f"Loads, multiplications, stores and waits of {len(names)} slots and warps in {end:,} clocks",
        "rows": rows, "end": end, "left": LEFT, "width": WIDTH, "step": max(1, end // 400), "height": ROW * len(rows),
        "spans": [(span.kind, round(span.begin), round(span.end)) for span in own],
    }  # fmt: skip


def _place(span: Span, end: float) -> dict[str, Any]:
    begin, width = (WIDTH * clock / end for clock in (span.begin, span.end - span.begin))
    return {"kind": span.kind, "x": f"{LEFT + begin:.1f}", "width": f"{max(width, 0.5):.1f}"}


def counters(shown: Shown) -> dict[str, Any]:
    """What the emulator counts by source line, on a small product; if the Config does not fit it, with another."""
    orders, which = [Asynchrony("eager")], "the Config above"
    try:
        (check,) = checks_of([shown.kernel], elements=Elements.of(shown.solved.a.dtype), layout=_layout(shown))
        try:
            result = replace(check, config=shown.config).run(orders)
        except ConfigError:
            result, which = check.run(orders), "a Config for it"
    except TilewrightError as error:
        return {"about": f"Nothing was counted: {error}.", "rows": []}
    instructions, *events = COUNTERS
    lines = sorted(
        result.counters["by_line"].items(),
        key=lambda line: (not any(_total(line[1][name]) for name in events), -_total(line[1][instructions])),
    )
    names = [name for name in COUNTERS if any(_total(counted[name]) for _, counted in lines)]
    rows = [(line, *_counts([counted[name] for name in names])) for line, counted in lines[:MOST_LINES]]
    rest = ""
    if len(lines) > MOST_LINES:
        rest = f" Of {len(lines)} lines, {MOST_LINES} are listed, those that access memory first."
    made = f"{result.kernel} with {which} multiplies {result.product} in the emulator"
    return {
        "about": f"{made}, which counts what each line does.{rest}",
        "heads": ["line", *(COUNTERS[name] for name in names)],
        "rows": rows,
    }


def _counts(values: Sequence[Any]) -> list[str]:
    """Numbers of events, with nothing where there are none."""
    return [f"{total:,}" if (total := _total(value)) else "" for value in values]


def _total(value: Any) -> int:
    total: int = sum(value.values()) if isinstance(value, Mapping) else value
    return total


def measured(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The tables of records of `tilewright ladder` and `tilewright bench`; an ArgumentValueError for other files."""
    return [_measured(path) for path in paths]


def _measured(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        place = f"{content['gpu']}, {content['date'][:10]}: {content['command']}"
        if "rungs" in content:
            return {"caption": place, "heads": ["rung", "us", "TFLOP/s", "times cuBLAS"], "rows": _rungs(content)}
        return {"caption": place, "heads": ["product", "by", "burst us", "settled us"], "rows": _products(content)}
    except OSError as error:
        raise ArgumentValueError(f"record {path} cannot be read: {error.strerror}: name another file") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentValueError(
            f"record {path} is none of a ladder or a suite ({error!r}): name what `tilewright ladder --json` or "
            "`tilewright bench --output` wrote"
        ) from None


def _rungs(content: dict[str, Any]) -> list[tuple[str, ...]]:
    timed = [rung for rung in content["rungs"] if rung.get("time_us")]
    return [
        (rung["name"], us(rung["time_us"]), f"{rung['tflops']:.4g}", f"{rung.get('cublas_ratio') or 0:.3f}")
        for rung in timed
    ]


def _products(content: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            f"{product['m']}x{product['n']}x{product['k']} {product['dtype']} {product['layout']}",
            entry["contender"],
            *(us(entry[power]["time_us"]) if entry.get(power) else "" for power in ("burst", "settled")),
        )
        for product in content["products"]
        for entry in product["contenders"]
    ]
