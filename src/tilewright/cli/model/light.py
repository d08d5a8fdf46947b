"""The topic `speed-of-light`: how fast a GPU can be at all, and a product on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions, Record, recorded
from tilewright.cli.options import OptionalShapeWords, shape_of
from tilewright.cli.output import columns, console, number, table
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.model.power import Allowed, Settled


@command
def speed_of_light(
    output: PictureOptions,
    words: OptionalShapeWords = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="Type of A and B: bf16, fp8, tf32...", show_default="bf16, or fp16 where there is none"
        ),
    ] = None,
    clock: Annotated[
        float | None,
        typer.Option("--clock", help="MHz of the SMs; by default the boost clock.", show_default=False),
    ] = None,
    watts: Annotated[
        float | None,
        typer.Option("--watts", help="A power limit, for 2-byte floats on an H200.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="What the product multiplies at --watts: zeros, bits:50...", show_default="randn"),
    ] = None,
    record: Record = None,
    chip: Chip = "H200",
) -> None:
    """How fast a GPU can be: by unit and type, at a clock, at a power limit, and for a product.

    Without M N K: rates of all units and types; at a power limit, what an H200 did at 700 W, and what follows for this
    limit. With them: the least time of the product, and what limits it. With --record of `bench micro power`: what the
    bits of the operands cost at the power limit.

    \b
    Examples:
      tilewright model speed-of-light --chip H100-SXM
      tilewright model speed-of-light --chip H100-SXM --clock 1400
      tilewright model speed-of-light --watts 500
      tilewright model speed-of-light 4096 4096 4096 --watts 700 --data zeros
      tilewright model speed-of-light 16 4096 4096 --dtype fp8 --chip H20 --json
      tilewright model speed-of-light --plot light.svg
    """
    from tilewright.hardware import H200
    from tilewright.model.chips import chip_of
    from tilewright.model.power import BY_DATA, LIMITS, MEASURED, allowed
    from tilewright.model.speed_of_light import of_product

    known, shape = chip_of(chip), shape_of(words)
    if record is not None:
        if shape is not None or any(each is not None for each in (clock, watts, data)):
            raise ArgumentValueError(
                f"--record={record} is of one product: leave M N K, --clock, --watts and --data out"
            )
        _show_data(record, recorded(record, "power", known.name), output)
        return
    gpu, kind = known.gpu, dtype or known.usual
    rate = known.rate(kind)
    hertz = None if clock is None else clock * 1e6
    if hertz is not None and not 0 < hertz <= 1.1 * gpu.cuda_core_clock:
        raise ArgumentValueError(
            f"--clock={clock:g} is no clock of {known.name}: give MHz above 0 and up to {gpu.cuda_core_clock / 1e6:.0f}"
        )
    if watts is not None and kind not in ("bf16", "fp16"):
        raise ArgumentValueError(f"--watts={watts:g} with --dtype={kind}: joules were measured in bf16: use it")
    if data is not None and (watts is None or shape is None):
        raise ArgumentValueError(f"--data={data} is about a product at a power limit: give M N K and --watts, too")
    at_limit = {} if watts is None else {each: allowed(gpu, watts, each) for each in BY_DATA}
    content: dict[str, Any] = {
        "chip": known.name,
        "clock_mhz": clock,
        "sms": gpu.sm_count,
        "rates": [
            {
                **each._asdict(),
                "tflops": known.flops(each, hertz) / 1e12,
                "peak_intensity": known.flops(each, hertz) / gpu.memory_bandwidth,
            }
            for each in known.rates
        ],
        "watts": watts,
        "at_power_limit": {each: found.as_dict() for each, found in at_limit.items()},
        "measured": [
            {**each._asdict(), "joules_per_tflop": each.joules_per_tflop}
            for each in ((*MEASURED, *BY_DATA.values()) if at_limit else ())
        ],
    }
    light = None if shape is None else of_product(known, *shape, kind, hertz, watts, data or "randn")
    if shape is not None and light is not None:
        flops = 2.0 * shape[0] * shape[1] * shape[2]
        content["product"] = {
            "m": shape[0], "n": shape[1], "k": shape[2], "dtype": kind, "flops": flops, "bound": light.bound,
            "compute_us": light.compute_seconds * 1e6, "memory_us": light.memory_seconds * 1e6,
            "power_us": light.power_seconds * 1e6 if watts else None,
            "joules_measured_at_watts": LIMITS[1] if watts else None, "us": light.seconds * 1e6,
            "tflops": flops / light.seconds / 1e12,
        }  # fmt: skip

    def show() -> None:
        if "product" in content:
            found = content["product"]
            rows = {
                "arithmetic": f"{number(found['compute_us'])} us",
                "each operand once": f"{number(found['memory_us'])} us",
                **({f"energy at {watts:g} W, {data or 'randn'}": f"{number(found['power_us'])} us"} if watts else {}),
                "the least": f"{number(found['us'])} us", "bound by": found["bound"],
                "TFLOP/s": number(found['tflops']),
            }  # fmt: skip
            table(f"{found['m']} x {found['n']} x {found['k']} in {kind} on {known.name}", rows)
            if watts is not None and watts != LIMITS[1]:
                console().print(
                    f"joules were measured at {LIMITS[1]} W: those at {watts:g} W are derived, a first guess"
                )
            return
        if watts is not None:
            _show_limit(watts, at_limit)
            return
        lines = [["", "sums", "per clock", "MHz", "TFLOP/s", "FLOP/B"]]
        for each, found in zip(known.rates, content["rates"], strict=True):
            at = (hertz or each.clock) / 1e6
            lines.append([
                f"{each.operands}, {each.unit}", each.sums, number(each.macs), f"{at:,.0f}",
                number(found['tflops'], 5), number(found['peak_intensity'], 3),
            ])  # fmt: skip
        console().print(f"{known.name}: {gpu.sm_count} SMs x multiply-adds per clock x 2 x clock", style="italic")
        columns(lines, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.light import by_clock, by_limit

        if watts is not None:
            return by_limit(watts)
        return by_clock(known, rate, MEASURED if gpu == H200 and kind == "bf16" else ())

    output.show(content, show, draw)


def _show_limit(watts: float, at_limit: "dict[str, Allowed]") -> None:
    """What was measured at 700 W, by products and by data, and what follows at another limit."""
    from tilewright.model.power import BY_DATA, LIMITS, MEASURED

    head = ("watts", "MHz", "TFLOP/s", "joules per TFLOP")

    def measured(each: "Settled") -> tuple[str, ...]:
        return f"{each.watts:.0f}", f"{each.mhz:,.0f}", number(each.tflops, 3), f"{each.joules_per_tflop:.3f}"

    console().print(f"products of random bf16, measured at {LIMITS[1]} W on H200, settled", style="italic")
    columns([("product", *head), *((f"{each.m} x {each.n} x {each.k}", *measured(each)) for each in MEASURED)],
            indent=2, gap=2, headings=1)  # fmt: skip
    point = BY_DATA["randn"]
    console().print(
        f"\n{point.m} x {point.n} x {point.k} by what A and B hold: measured, and at {watts:g} W by these joules",
        style="italic", markup=False,
    )  # fmt: skip
    columns([("A and B", *head, "TFLOP/s", "MHz", "held by"), *(
        (data, *measured(each), number(at_limit[data].flops / 1e12, 3), f"{at_limit[data].mhz:,.0f}",
         at_limit[data].bound)
        for data, each in BY_DATA.items()
    )], indent=2, gap=2, headings=1)  # fmt: skip


def _show_data(path: Path, content: dict[str, Any], output: PictureOptions) -> None:
    """What the bits of the operands cost, as measured; an ArgumentValueError if nothing was."""
    title = f"{content['m']} x {content['n']} x {content['k']} in bf16 on {content['gpu']}, settled"
    cases = [case for case in content["cases"] if case["tflops"] is not None]
    if not cases:
        raise ArgumentValueError(f"--record={path} has no measured product: give one that a GPU wrote")
    for case in cases:
        case["joules_per_tflop"] = None if case["watts"] is None else case["watts"] / case["tflops"]

    def show() -> None:
        console().print(title, style="italic", markup=False)
        rows: list[tuple[str, ...]] = [("A and B", "watts", "MHz", "TFLOP/s", "joules per TFLOP")]
        for case in cases:
            read = ("-" if case[part] is None else f"{case[part]:,.0f}" for part in ("watts", "mhz"))
            joules = "-" if case["watts"] is None else f"{case['joules_per_tflop']:.3f}"
            rows.append((case["data"], *read, f"{case['tflops']:.0f}", joules))
        columns(rows, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.light import by_data

        return by_data(cases, title)

    output.show(content, show, draw)
