"""The record of `tilewright ladder` for people: a table of what was measured or counted, and what was left out."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console, paragraph

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.kernels.ladder.rung import Published

Rungs = Sequence[dict[str, Any]]
"""Records of rungs, as `tilewright.cli.ladder_result.Climbed.as_dict` makes them."""


def show(record: dict[str, Any]) -> None:
    """What was measured, or what was counted; then what was skipped, and whether all is right."""
    console().print(f"The ladder at {title(record)}\n", markup=False)
    rungs, measured = record["rungs"], record["backend"] == "gpu"
    ran = figures(rungs)
    if ran:
        console().print(_measured_table(ran) if measured else _counted_table(ran), soft_wrap=False)
    console().print()
    for reason, names in _left_out(rungs):
        paragraph(f"Left out: {names}: {reason}", 0)
    for written in dict.fromkeys(written for rung in ran for written in rung.get("ignored", ())):
        names = ", ".join(rung["name"] for rung in ran if written in rung.get("ignored", ()))
        paragraph(f"Without {written}, which they do not have: {names}", 0)
    for rung in ran:
        if note := note_of(rung):
            paragraph(f"{rung['name']}: {note}", 0)
    verdicts = {rung["name"]: rung["verified"] for rung in rungs if rung["verified"] is not None}
    wrong = [name for name, verified in verdicts.items() if not verified]
    if wrong:
        console().print(f"[red]WRONG or failed: {', '.join(wrong)}[/red]")
    elif verdicts:
        products = "The product is" if len(verdicts) == 1 else f"All {len(verdicts)} products are"
        console().print(f"{products} right, by float64.")
    if ran:
        console().print(_MEASURED_LEGEND if measured else _COUNTED_LEGEND, style="dim", soft_wrap=False)


def title(record: dict[str, Any]) -> str:
    """The shape, and where and when it was climbed."""
    where = f"{record['gpu']}, {record['date'][:10]}" if record["backend"] == "gpu" else "in the emulator"
    return f"{record['m']}x{record['n']}x{record['k']}, {where}"


def figures(rungs: Rungs) -> Rungs:
    """The rungs that were timed or counted."""
    return [rung for rung in rungs if "tflops" in rung or "rereads" in rung]


def published(rung: dict[str, Any]) -> "Published | None":
    """The figure that was published of a rung for the shape it was climbed with; None where there is none."""
    from tilewright.kernels.ladder.rung import Published

    shape = [rung["m"], rung["n"], rung["k"]]
    return next((Published(**figure) for figure in rung["published"] if list(figure["shape"]) == shape), None)


def note_of(rung: dict[str, Any]) -> str:
    """What must be known with a rung's figures; empty where there is nothing."""
    from tilewright.kernels.ladder import LADDER

    return LADDER[rung["name"]].note if rung["name"] in LADDER else ""


def why_none_ran(rungs: Rungs) -> str:
    """Why none of these rungs ran."""
    return "no rung ran:" + "".join(f"\n  {names}: {reason}" for reason, names in _left_out(rungs))


def _left_out(rungs: Rungs) -> list[tuple[str, str]]:
    """Each reason with the rungs that are skipped for it."""
    reasons: dict[str, list[str]] = {}
    for rung in rungs:
        if reason := rung.get("skipped"):
            reasons.setdefault(reason, []).append(rung["name"])
    return [(reason, ", ".join(names)) for reason, names in reasons.items()]


_MEASURED_LEGEND = (
    "TFLOP/s: right after idle. Of light: of what the GPU's units or its memory allow. Of cuBLAS: on the same data in "
    "the same run. Gain: over the rung before."
)
_COUNTED_LEGEND = (
    "Sectors: of 32 bytes, 4 where the lanes of a warp read neighbouring floats. Conflicts: wavefronts that they "
    "add to a request to SMEM. flop/B: operations for each byte that crosses the banks of SMEM, or that would cross "
    "between the SMs and L2 if L1 caught nothing."
)


_WRAPPED = ("what it means", "published")
"""Columns of words, which give way where a terminal is narrow; numbers and names stay whole."""


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in ("rung", *_WRAPPED) else "right", no_wrap=name not in _WRAPPED)
    return table


def _counted_table(rungs: Rungs) -> "Table":
    table = _table("rung", "sectors\na load", "conflicts\na request", "flop/B\nSMEM", "flop/B\nL2", "what it means")
    for rung in _by_road(rungs, table):
        table.add_row(
            rung["name"],
            _text("{:.1f}", rung["sectors_per_load"]),
            _text("{:.2f}", rung["conflicts_per_request"]),
            _text("{:.3g}", rung["flops_per_smem_byte"]),
            f"{rung['flops_per_l2_byte']:.3g}",
            rung["explanation"],
        )
    return table


def _measured_table(rungs: Rungs) -> "Table":
    """Figures right after idle; behind them, where it was asked for, those of the settled state."""
    settled = any("settled" in rung["measured"] for rung in rungs)
    more = ("settled\nTFLOP/s", "of\ncuBLAS") if settled else ()
    table = _table("rung", "TFLOP/s", "of\nlight", "of\ncuBLAS", "gain", *more, "published")
    for rung in _by_road(rungs, table):
        figure = published(rung)
        late = rung["measured"].get("settled", {})
        later = (_text("{:.3g}", late.get("tflops")), _text("{:.3f}", late.get("ratio", {}).get("median")))
        table.add_row(
            rung["name"],
            f"{rung['tflops']:.3g}",
            _text("{:.1%}", rung.get("speed_of_light_share")),
            _text("{:.3f}", rung.get("cublas_ratio")),
            _text("{:.2f}x", rung.get("gain")),
            *(later if settled else ()),
            f"{figure.range} {figure.gpu}" if figure else "",
        )
    return table


def _text(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def _by_road(rungs: Rungs, table: "Table") -> Iterator[dict[str, Any]]:
    """The rungs; before the first of each road its name is put into the table."""
    before = ""
    for rung in rungs:
        if rung["road"] != before:
            before = rung["road"]
            table.add_row(f"[dim]{before}[/dim]")
        yield rung
