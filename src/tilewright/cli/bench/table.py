"""The results of `tilewright bench` for people: a table of each product."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from tilewright.bench.standing import CLEARLY_SLOWER, standings, title
from tilewright.cli.output import columns, console
from tilewright.rounding import three_digits

SWEPT = 10
"""The number of a sweep's Configs that are shown, the quickest first."""


def show(product: dict[str, Any], protocols: list[str]) -> None:
    """Show one product of a record: rates, ratios and the board's readings; then skipped contenders with reasons."""
    heading = f"{title(product)}, {product['data']}"
    console().print(f"\n[bold]{escape(heading)}[/bold]  {escape(product.get('label', ''))}".rstrip())
    if product.get("sweep"):
        _show_sweep(product["sweep"], product["baseline"])
    if product.get("heat"):
        _show_heat(product["heat"], protocols)
    confidences: list[float] = []
    for protocol in protocols:
        timed = {entry["contender"]: entry[protocol] for entry in product["contenders"] if entry.get(protocol)}
        if timed:
            columns(_rows(protocol, timed, product["baseline"]), headings=1)
        confidences += [found["ratio"]["confidence"] for found in timed.values() if "ratio" in found]
    if confidences:
        console().print(f"[low, high] hold the median with {min(confidences):.2%} confidence or more", markup=False)
    last = {entry["contender"] for entry in product["contenders"]}
    left_out = [entry for entry in product.get("heat", ()) if entry["contender"] not in last]
    for entry in (*product["contenders"], *left_out):
        if entry.get("why"):
            style = "red" if entry["status"] in ("wrong", "failed") else "yellow"
            console().print(f"[{style}]{entry['status']}[/{style}]", escape(f"{entry['contender']}: {entry['why']}"))
    if product.get("skipped"):
        console().print("[red]skipped[/red]:", escape(product["skipped"]))
    if product["interrupted"]:
        console().print("[yellow]interrupted[/yellow]: this is what was measured before")


def show_standing(record: dict[str, Any]) -> None:
    """Show how tilewright stands in all products of a record together, if there are several."""
    found = [standing for standing in standings(record) if len(standing.ratios) > 1]
    if not found:
        return
    console().print(f"\n[bold]{escape(record.get('suite') or 'all products')}[/bold]")
    for protocol in dict.fromkeys(standing.protocol for standing in found):
        rows = [[protocol, "mean", "worst", f"< {CLEARLY_SLOWER}"]]
        notes = []
        for each in (standing for standing in found if standing.protocol == protocol):
            product, worst = each.worst
            name = f"{each.ours} / {each.to}"
            rows.append(
                [name, _ratio(each.mean.as_dict()), _ratio(worst.as_dict()), f"{each.slower} of {len(each.ratios)}"]
            )
            notes.append(f"worst {name}: {title(product)}")
        columns(rows, headings=1)
        for note in notes:
            console().print(note, markup=False)
    console().print(
        f"mean: geometric, between those of lows and of highs\n< {CLEARLY_SLOWER}: with the whole interval",
        markup=False,
    )


def _rows(protocol: str, timed: dict[str, dict[str, Any]], baseline: str | None) -> list[list[str]]:
    """The headings and a row of each contender, without empty columns."""
    shown = [column for column in _COLUMNS if any(column.key in found for found in timed.values())]
    headings = [protocol, *(column.title.format(baseline=baseline) for column in shown)]
    return [headings] + [
        [name, *(column.text(found[column.key]) if column.key in found else "" for column in shown)]
        for name, found in timed.items()
    ]


def _ratio(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table: its title, the value that it shows of a measurement, and its format."""

    title: str
    key: str
    text: Callable[[Any], str]


_COLUMNS = (
    _Column("us", "time_us", "{:.4g}".format),
    _Column("TFLOP/s", "tflops", "{:.4g}".format),
    _Column("light", "speed_of_light_share", "{:.0%}".format),
    _Column("read", "read_share", "{:.1%}".format),
    _Column("cost", "cost", "{:+.1%}".format),
    _Column("times {baseline}", "ratio", _ratio),
    _Column("W", "watts", "{:.0f}".format),
    _Column("J/TFLOP", "joules_per_tflop", "{:.3f}".format),
    _Column("MHz", "sm_clock_mhz", "{:.0f}".format),
    _Column("°C", "celsius", "{:.0f}".format),
)
"""The columns of a table.

light: the reached share of the speed of light; read: of a read of the same weights; cost: of an epilogue, how much more
time it takes than the plain product.
"""


def _show_heat(heat: list[dict[str, Any]], protocols: list[str]) -> None:
    """Show the rates of the first look at all peers."""
    for protocol in protocols:
        timed = [entry for entry in heat if entry.get(protocol)]
        rates = ", ".join(f"{entry['contender']} {three_digits(entry[protocol]['tflops'])}" for entry in timed)
        if rates:
            console().print(f"first look, {protocol}, TFLOP/s: {rates}", markup=False)


def _show_sweep(sweep: list[dict[str, Any]], baseline: str | None) -> None:
    """Show the quickest Configs, and the number of all."""
    timed = sorted((entry for entry in sweep if entry.get("settled")), key=lambda entry: entry["settled"]["time_us"])
    console().print(f"the quickest of {len(sweep)} that were looked at, TFLOP/s:")
    for entry in timed[:SWEPT]:
        found = entry["settled"]
        ratio = f", {found['ratio']['median']:.3f} times {baseline}" if "ratio" in found else ""
        console().print(f"  {found['tflops']:6.1f}{ratio}  {entry['contender']}", markup=False)
