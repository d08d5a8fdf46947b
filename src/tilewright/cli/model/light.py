"""The topic `speed-of-light`: how fast a GPU can be at all, and a product on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions, Record, recorded
from tilewright.cli.options import K, M, N, shape_of
from tilewright.cli.output import columns, console, number, table
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@command
def speed_of_light(
    output: PictureOptions,
    m: M = None,
    n: N = None,
    k: K = None,
    dtype: Annotated[str, typer.Option("--dtype", help="Type of A and B: bf16, fp8, tf32...")] = "bf16",
    clock: Annotated[
        float | None,
        typer.Option("--clock", help="MHz of the SMs; by default the boost clock.", show_default=False),
    ] = None,
    watts: Annotated[
        float | None,
        typer.Option("--watts", help="A power limit, for 2-byte floats on an H200.", show_default=False),
    ] = None,
    record: Record = None,
    chip: Chip = "H200",
) -> None:
    """How fast a GPU can be: by unit and type, at a clock, at a power limit, and for a product.

    Without M N K: rates of all units and types. With them: the least time of the product, and what limits it. With
    --record of `bench micro power`: what the bits of the operands cost at the power limit.

    \b
    Examples:
      tilewright model speed-of-light --chip H100-SXM
      tilewright model speed-of-light --chip H100-SXM --clock 1400
      tilewright model speed-of-light 4096 4096 4096 --watts 700
      tilewright model speed-of-light 16 4096 4096 --dtype fp8 --chip H20 --json
      tilewright model speed-of-light --plot light.svg
    """
    from tilewright.hardware import H200
    from tilewright.model.chips import chip_of
    from tilewright.model.power import MEASURED, settled_flops
    from tilewright.model.speed_of_light import of_product

    known, shape = chip_of(chip), shape_of(m, n, k)
    if record is not None:
        if shape is not None or clock is not None or watts is not None:
            raise ArgumentValueError(f"--record={record} is of one product: leave M N K, --clock and --watts out")
        _show_data(record, recorded(record, "power", known.name), output)
        return
    gpu, rate = known.gpu, known.rate(dtype)
    hertz = None if clock is None else clock * 1e6
    if hertz is not None and not 0 < hertz <= 1.1 * gpu.cuda_core_clock:
        raise ArgumentValueError(
            f"--clock={clock:g} is no clock of {known.name}: give MHz above 0 and up to {gpu.cuda_core_clock / 1e6:.0f}"
        )
    if watts is not None and dtype not in ("bf16", "fp16"):
        raise ArgumentValueError(f"--watts={watts:g} with --dtype={dtype}: joules were measured in bf16: use it")
    allowed = None if watts is None else settled_flops(gpu, watts)
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
        "tflops_at_power_limit": allowed and allowed / 1e12,
    }
    light = None if shape is None else of_product(known, *shape, dtype, hertz, watts)
    if shape is not None and light is not None:
        flops = 2.0 * shape[0] * shape[1] * shape[2]
        content["product"] = {
            "m": shape[0], "n": shape[1], "k": shape[2], "dtype": dtype, "flops": flops, "bound": light.bound,
            "compute_us": light.compute_seconds * 1e6, "memory_us": light.memory_seconds * 1e6,
            "power_us": light.power_seconds * 1e6 if watts else None, "us": light.seconds * 1e6,
            "tflops": flops / light.seconds / 1e12,
        }  # fmt: skip

    def show() -> None:
        if "product" in content:
            found = content["product"]
            rows = {
                "arithmetic": f"{number(found['compute_us'])} us",
                "each operand once": f"{number(found['memory_us'])} us",
                **({f"energy at {watts:g} W": f"{number(found['power_us'])} us"} if watts else {}),
                "the least": f"{number(found['us'])} us", "bound by": found["bound"],
                "TFLOP/s": number(found['tflops']),
            }  # fmt: skip
            table(f"{found['m']} x {found['n']} x {found['k']} in {dtype} on {known.name}", rows)
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
        if allowed is not None:
            console().print(f"\nbf16 at {watts:g} W, by the joules measured at 700 W: {allowed / 1e12:.0f} TFLOP/s")

    def draw() -> "Figure":
        from tilewright.plots.light import by_clock

        measured = MEASURED if gpu == H200 and dtype == "bf16" else ()
        return by_clock(known, rate, measured, allowed)

    output.show(content, show, draw)


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
