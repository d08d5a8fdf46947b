"""The record of `tilewright ladder` for people: a table of measurements or counts, and the rungs left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tilewright.cli.output import console, paragraph, print_table
from tilewright.ladder.climb import left_out

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.kernels.ladder.rung import Published

Rungs = Sequence[dict[str, Any]]
"""Records of rungs, as `tilewright.ladder.result.RungResult.as_dict` makes them."""


def show(record: dict[str, Any]) -> None:
    """Show the measurements or the counts, then the skipped rungs, and whether all results are right."""
    console().print(f"The ladder at {title(record)}\n", markup=False)
    rungs = record["rungs"]
    make, legend = _WAYS["counters" if record.get("counters") else record["backend"]]
    shown = [rung for rung in rungs if ran(rung)]
    if shown:
        print_table(make(shown))
    console().print()
    for reason, names in left_out(rungs):
        paragraph(f"Left out: {names}: {reason}", 0)
    for written in dict.fromkeys(written for rung in shown for written in rung.get("ignored", ())):
        names = ", ".join(rung["name"] for rung in shown if written in rung.get("ignored", ()))
        paragraph(f"Without {written}, which they do not have: {names}", 0)
    for rung in shown:
        if note := rung.get("note"):
            paragraph(f"{rung['name']}: {note}", 0)
    verdicts = {rung["name"]: rung["verified"] for rung in rungs if rung["verified"] is not None}
    wrong = [name for name, verified in verdicts.items() if not verified]
    if wrong:
        console().print(f"WRONG or failed: {', '.join(wrong)}", style="red", markup=False)
    elif verdicts:
        products = "The product agrees" if len(verdicts) == 1 else f"All {len(verdicts)} products agree"
        console().print(f"{products} with float64.")
    if shown:
        if any("settled" in rung.get("measured", {}) for rung in shown):
            legend += " Settled: measured at the power limit."
        console().print(legend, style="dim", soft_wrap=False)


def title(record: dict[str, Any]) -> str:
    """The title: the shape, and the place and time of the climb."""
    where = f"{record['gpu']}, {record['date'][:10]}" if record["backend"] == "gpu" else "in the emulator"
    return f"{record['m']}x{record['n']}x{record['k']}, {where}"


def ran(rung: Mapping[str, Any]) -> bool:
    """Whether a rung has figures: times, the emulator's counters or the hardware's."""
    return any(name in rung for name in ("tflops", "rereads", "profile"))


def timed_or_counted(rungs: Rungs) -> Rungs:
    """The rungs that have a figure to be drawn."""
    return [rung for rung in rungs if "tflops" in rung or "rereads" in rung]


def published(rung: dict[str, Any]) -> "Published | None":
    """The published figure of a rung for its shape; None if there is none."""
    from tilewright.kernels.ladder.rung import Published

    shape = [rung["m"], rung["n"], rung["k"]]
    return next((Published(**figure) for figure in rung["published"] if list(figure["shape"]) == shape), None)


_MEASURED_LEGEND = (
    "TFLOP/s: measured right after idle. Of light: the share of the rate that the GPU's units or its memory allow. "
    "Of cuBLAS: the share of cuBLAS's rate on the same data in the same run. Gain: the rate relative to the last rung "
    "on the road; side branches do not count."
)
_COUNTED_LEGEND = (
    "Sectors: pieces of 32 bytes per load from GMEM; 4 if the lanes of a warp read neighboring floats. Conflicts: "
    "wavefronts that bank conflicts add to a request to SMEM. flop/B: operations per byte that crosses the banks of "
    "SMEM, or that would cross between the SMs and L2 if nothing hit in L1."
)


_PROFILED_LEGEND = (
    "Shares of the clocks in which the SMs work. Tensor: tensor cores work. FMA: FMA units get work. Issue: a "
    "scheduler issues. Warps: of those that fit on an SM, resident. Sectors: as the emulator counts them. Wait for: "
    "the states of the warps, in ncu's words."
)
MOST_STATES, LEAST_SHARE = 3, 0.05
"""The states of warps that are shown: so many, each of at least that share."""


_WRAPPED = ("what it means", "published", "warps wait for")
"""Columns of words, which wrap in a narrow terminal; numbers and names stay whole."""


def _table(*columns: str, gap: int = 2) -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        left = name in ("rung", *_WRAPPED)
        table.add_column(name, justify="left" if left else "right", no_wrap=name not in _WRAPPED, overflow="fold")
    return table


def _counted_table(rungs: Rungs) -> "Table":
    names = ("rung", "sectors\na load", "conflicts\na request", "flop/B\nSMEM", "flop/B\nL2", "what it means")
    table = _table(*names, gap=1)  # lets places in the source fit 80 columns
    for rung in _by_road(rungs, table):
        table.add_row(
            Text(rung["name"]),
            _text("{:.1f}", rung["sectors_per_load"]),
            _text("{:.2f}", rung["conflicts_per_request"]),
            _text("{:.3g}", rung["flops_per_smem_byte"]),
            f"{rung['flops_per_l2_byte']:.3g}",
            Text(rung["explanation"]),
        )
    return table


def _measured_table(rungs: Rungs) -> "Table":
    """The table of figures right after idle, followed by those of the settled state if it was measured."""
    settled = any("settled" in rung["measured"] for rung in rungs)
    more = ("settled\nTFLOP/s", "settled\ncuBLAS") if settled else ()
    table = _table("rung", "TFLOP/s", "of\nlight", "of\ncuBLAS", "gain", *more, "published")
    for rung in _by_road(rungs, table):
        figure = published(rung)
        found = rung["measured"].get("settled", {})
        cells = (_text("{:#.3g}", found.get("tflops")), _text("{:.3f}", found.get("ratio", {}).get("median")))
        table.add_row(
            Text(rung["name"]),
            _text("{:#.3g}", rung["tflops"]),
            _text("{:.1%}", rung.get("speed_of_light_share")),
            _text("{:.3f}", rung.get("cublas_ratio")),
            _text("{:.2f}x", rung.get("gain")),
            *(cells if settled else ()),
            Text(f"{figure.range} {figure.gpu}" if figure else ""),
        )
    return table


def waits(states: Mapping[str, float]) -> dict[str, float]:
    """The largest shares of the warps' clocks, except those in which they issue or might."""
    idle = {name: share for name, share in states.items() if name not in ("selected", "not_selected")}
    largest = sorted(idle, key=idle.__getitem__, reverse=True)[:MOST_STATES]
    return {name: idle[name] for name in largest if idle[name] >= LEAST_SHARE}


def _profiled_table(rungs: Rungs) -> "Table":
    table = _table("rung", "tensor", "FMA", "issue", "warps", "sectors\na load", "warps wait for")
    for rung in _by_road(rungs, table):
        found = rung["profile"]
        shares = (_text("{:.0%}", found[name]) for name in ("tensor", "fma", "issue", "occupancy"))
        states = ", ".join(f"{name} {share:.0%}" for name, share in waits(found["states"]).items())
        table.add_row(Text(rung["name"]), *shares, _text("{:.1f}", found["sectors_per_load"]), Text(states))
    return table


_WAYS = {
    "gpu": (_measured_table, _MEASURED_LEGEND),
    "counters": (_profiled_table, _PROFILED_LEGEND),
    "emulator": (_counted_table, _COUNTED_LEGEND),
}
"""What a record is shown as, by where its figures are from: a table, and what its columns mean."""


def _text(form: str, value: float | None) -> str:
    """A value in the given form, without a point after the last of three digits."""
    return "" if value is None else form.format(value).rstrip(".")


def _by_road(rungs: Rungs, table: "Table") -> Iterator[dict[str, Any]]:
    """The rungs; each road's name is added to the table before its first rung."""
    before = ""
    for rung in rungs:
        if rung["road"] != before:
            before = rung["road"]
            table.add_row(Text(before, style="dim"))
        yield rung
