"""What `tilewright bench` measured, for people: a table of each product."""

from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console

if TYPE_CHECKING:
    from rich.table import Table

SWEPT = 10
"""Configs of a sweep that are shown, the quickest first."""


def show(product: dict[str, Any], protocols: list[str]) -> None:
    """One product of a record: rates, ratios and the board's readings; then who was not timed, and why."""
    title = f"{product['m']}x{product['n']}x{product['k']} {product['dtype']} {product['layout']}, {product['data']}"
    console().print(f"\n[bold]{title}[/bold]" + (f"  {product['label']}" if product["label"] else ""))
    if product.get("sweep"):
        _show_sweep(product["sweep"], product["baseline"])
    timed = [(entry, name) for name in protocols for entry in product["contenders"] if entry.get(name)]
    if timed:
        table = _table(product["baseline"])
        for place, (entry, protocol) in enumerate(timed):
            last = place + 1 == len(timed) or timed[place + 1][1] != protocol
            table.add_row(*_row(entry["contender"], protocol, entry[protocol]), end_section=last)
        console().print(table)
    for entry in product["contenders"]:
        if entry.get("why"):
            style = "red" if entry["status"] in ("wrong", "failed") else "yellow"
            console().print(f"[{style}]{entry['status']}[/{style}]", f"{entry['contender']}: {entry['why']}")
    if product["interrupted"]:
        console().print("[yellow]interrupted[/yellow] this is what was measured before")


def _table(baseline: str | None) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("contender", overflow="fold", max_width=40)
    table.add_column("state")
    for name in ("us", "TFLOP/s", "of light"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"times {baseline}" if baseline else "", justify="right", no_wrap=True)
    for name in ("W", "J/TFLOP", "MHz", "°C"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _row(contender: str, protocol: str, found: dict[str, Any]) -> list[str]:
    board = [f"{found[name]:.{digits}f}" if name in found else "" for name, digits in _BOARD]
    return [
        contender,
        protocol,
        f"{found['time_us']:.4g}",
        f"{found['tflops']:.4g}",
        f"{found['speed_of_light_share']:.1%}",
        _ratio(found["ratio"]) if "ratio" in found else "",
        *board,
    ]


_BOARD = (("watts", 0), ("joules_per_tflop", 3), ("sm_clock_mhz", 0), ("celsius", 0))


def _ratio(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"


def _show_sweep(sweep: list[dict[str, Any]], baseline: str | None) -> None:
    """The quickest Configs, and how many there were."""
    timed = sorted((entry for entry in sweep if entry.get("settled")), key=lambda entry: entry["settled"]["time_us"])
    console().print(f"the quickest of {len(sweep)} that were looked at, TFLOP/s:")
    for entry in timed[:SWEPT]:
        found = entry["settled"]
        ratio = f", {found['ratio']['median']:.3f} times {baseline}" if "ratio" in found else ""
        console().print(f"  {found['tflops']:6.1f}{ratio}  {entry['contender']}", markup=False)
