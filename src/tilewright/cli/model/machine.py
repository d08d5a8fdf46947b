"""The topic `hardware`: what a GPU consists of, and how fast its parts are."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import PictureOptions
from tilewright.cli.output import columns, console, number, paragraph, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.model.chips import Chip


@command
def hardware(
    output: PictureOptions,
    chip: Annotated[
        str | None, typer.Argument(help="A GPU, such as H200; without one, all are compared.", show_default=False)
    ] = None,
) -> None:
    """What a GPU has: units and their rates, levels of memory, limits of an SM, clusters that fit.

    The picture shows a GPU's levels of memory, or what all multiply for each byte that they read.

    \b
    Examples:
      tilewright model hardware
      tilewright model hardware H200
      tilewright model hardware H100-PCIe --plot memory.svg
      tilewright model hardware rtx-4090 --json
    """
    from tilewright.model.chips import CHIPS, chip_of

    chips = list(CHIPS.values()) if chip is None else [chip_of(chip)]
    record: dict[str, Any] = {"chips": [each.as_dict() for each in chips]}

    def draw() -> "Figure":
        from tilewright.plots.machine import memories, ridges

        return ridges(chips) if chip is None else memories(chips[0])

    output.show(record, lambda: _compare(chips) if chip is None else _show(chips[0]), draw)


def _compare(chips: "list[Chip]") -> None:
    rows = [["", "SMs", "clock", "bf16", "fp8", "fp32", "L2", "memory", "TB/s", "ridge", "watts"],
            ["", "", "MHz", "TFLOP/s", "TFLOP/s", "TFLOP/s", "MiB", "GB", "", "FLOP/B", ""]]  # fmt: skip
    for chip in chips:
        rates = {rate.operands: rate for rate in reversed(chip.rates) if rate.sums != "fp16"}
        two_bytes = chip.flops(rates.get("bf16", rates["fp16"]))
        rows.append([
            chip.name, str(chip.gpu.sm_count), number(chip.gpu.tensor_clock / 1e6), number(two_bytes / 1e12),
            number(chip.flops(rates['fp8']) / 1e12) if "fp8" in rates else "-",
            number(chip.flops(rates['fp32']) / 1e12, 3), f"{chip.l2_bytes >> 20}", f"{chip.memory_bytes / 1e9:.0f}",
            number(chip.gpu.memory_bandwidth / 1e12, 3), f"{two_bytes / chip.gpu.memory_bandwidth:.0f}",
            number(chip.watts),
        ])  # fmt: skip
    columns(rows, headings=2, gap=2)
    console().print("\nclock: boost, of the tensor cores; V100: fp16 for bf16; ridge: of bf16 at the memory")


def _show(chip: "Chip") -> None:
    from tilewright.hardware import REGISTERS
    from tilewright.model.chips import SOURCES
    from tilewright.model.occupancy import MOST_REGISTERS, MOST_THREADS

    gpu, generation, limits = chip.gpu, chip.generation, chip.limits
    clocks = (
        f"{number(gpu.tensor_clock / 1e6)} MHz of tensor cores, {number(gpu.cuda_core_clock / 1e6)} MHz of CUDA cores"
    )
    gpcs = f", in {_span(chip.gpcs[0], chip.gpcs[-1])} GPCs of up to {chip.gpc_sms}" if chip.gpcs else ""
    table("", {
        chip.name: f"{generation.name}, {gpu.arch}, {chip.watts:,} W",
        "SMs": f"{gpu.sm_count}{gpcs}",
        "boost clocks": clocks,
        "an SM": f"{generation.tensor_cores} tensor cores, 4 schedulers",
        "an SM holds": f"{limits.warps} warps, {limits.ctas} CTAs, {REGISTERS:,} registers",
        "a CTA has": f"{MOST_THREADS:,} threads at most, {gpu.smem_bytes:,} bytes of SMEM",
        "a thread has": f"{MOST_REGISTERS} registers at most",
    })  # fmt: skip
    console().print("\nunits: multiply-adds per clock and SM, and all SMs at the boost clock", style="italic")
    rows = [["", "sums", "per clock", "TFLOP/s"]]
    rows += [
        [f"{rate.operands}, {rate.unit}", rate.sums, number(rate.macs), number(chip.flops(rate) / 1e12, 5)]
        for rate in chip.rates
    ]
    columns(rows, indent=2, gap=2, headings=1)
    console().print("\nmemory: of all SMs; clocks until a load's value is there", style="italic")
    rows = [["", "capacity", "TB/s", "clocks"]]
    for level in chip.levels:
        rate, clocks = number(level.bytes_per_second / 1e12, 3), "-" if level.latency is None else str(level.latency)
        rows.append([level.name, _capacity(level.bytes), rate, "" if level.name == "registers" else clocks])
    if chip.latencies and chip.latencies.dsmem:
        rows.append(["SMEM of another SM", "", "", str(chip.latencies.dsmem)])
    columns(rows, indent=2, gap=2, headings=1)
    if chip.latencies is None:
        console().print("  -: not published by any of the sources below")
    _show_clusters(chip)
    for title, lines in (
        ("new in this generation", generation.brought),
        ("sources", [f"{name}: {SOURCES[name]}" for name in chip.sources]),
        ("remark", [chip.remark] if chip.remark else []),
    ):
        if lines:
            console().print(f"\n{title}", style="italic")
            for line in lines:
                paragraph(line, 2)


def _show_clusters(chip: "Chip") -> None:
    """How many clusters fit, or why that is not known."""
    found, largest = chip.as_dict()["clusters"], chip.generation.largest_cluster
    console().print("\nclusters at once, one CTA an SM", style="italic")
    if found:
        table("", {f"of {ctas} CTAs": _span(least, most) for ctas, (least, most) in found.items()})
    elif largest > 1:
        paragraph(f"not known: its GPCs are not published; programs may count on clusters of up to {largest} CTAs", 2)
    else:
        paragraph("none: they came with Hopper", 2)


def _span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _capacity(count: int) -> str:
    """Bytes as data sheets give them: memory beside the chip in GB, and what is on the chip in MiB."""
    return f"{count / 1e9:.0f} GB" if count % 10**9 == 0 else f"{number(count / (1 << 20), 3)} MiB"
