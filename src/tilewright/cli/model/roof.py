"""The topic `roofline`: what each level of memory allows a product as a kernel cuts it."""

from typing import TYPE_CHECKING

from tilewright.cli.command import command
from tilewright.cli.model.common import PictureOptions
from tilewright.cli.model.cut import Cut, CutOptions, K, M, N
from tilewright.cli.output import columns, console, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.hardware import Unit
    from tilewright.model.prediction import Power

_POWERS: "tuple[Power, ...]" = ("burst", "settled")


@command
def roofline(output: PictureOptions, m: M, n: N, k: K, options: CutOptions) -> None:
    """What GMEM, L2, SMEM and the units allow a product, as a kernel cuts it into tiles.

    At GMEM, each operand counts once. Where the model that ranks Configs knows the kernel, its prediction stands below.
    Where the chip has a faster unit for the type, which the kernel does not use, the last line says so.

    \b
    Examples:
      tilewright model roofline 4096 4096 4096
      tilewright model roofline 16 4096 4096 --chip H20
      tilewright model roofline 4096 4096 4096 --config tile_m=64,tile_n=32,cluster_m=1,cluster_n=1
      tilewright model roofline 4096 4096 4096 --kernel coalesced --chip H100-PCIe --plot roofline.svg
    """
    from tilewright.model.roofline import lowest, roofs

    cut = options.of(m, n, k)
    unit = cut.kernel.unit_of(cut.problem.a.dtype)
    found = roofs(cut.chip, unit, cut.problem.a.dtype, cut.levels)
    predictions = {power: cut.kernel.predict(cut.config, cut.problem, cut.chip.gpu, power) for power in _POWERS}
    predicted: dict[str, float] = {power: found.tflops for power, found in predictions.items() if found is not None}
    least = lowest(found)
    limit = "the units" if least.allowed == least.peak else least.level
    chip_unit, chip_peak = cut.chip.gpu.peak_unit(cut.wanted), cut.chip.gpu.peak_flops(cut.wanted)
    record = {
        **cut.as_dict(), "unit": unit, "roofs": [roof.as_dict() for roof in found], "limit": limit,
        "allowed": least.allowed, "predicted_tflops": predicted,
        "chip_dtype": cut.wanted.name, "chip_unit": chip_unit, "chip_peak": chip_peak,
    }  # fmt: skip

    def show() -> None:
        console().print(f"{cut.title} on {cut.chip.name}", style="italic", markup=False)
        cells = [("", "FLOP per byte", "ridge", "TB/s", "allows TFLOP/s")]
        for roof in found:
            rate = number(roof.bytes_per_second / 1e12, 3)
            cells.append((
                roof.level, number(roof.intensity), number(roof.ridge, 3), rate, number(roof.allowed / 1e12)
            ))  # fmt: skip
        cells.append((f"{_said(unit)}, {cut.problem.a.dtype}", "", "", "", number(least.peak / 1e12)))
        cells += [(f"predicted, {power}", "", "", "", number(rate)) for power, rate in predicted.items()]
        columns(cells, indent=2, gap=3, headings=1)
        console().print(f"limited by {limit}", markup=False)
        if chip_peak > least.peak:
            peak = f"{number(chip_peak / 1e12)} TFLOP/s in {cut.wanted}"
            console().print(f"{_said(chip_unit)} of {cut.chip.name} does {peak}: {_unused(cut, chip_unit)}")

    def draw() -> "Figure":
        from tilewright.plots.roofline import roofs as picture

        return picture(found, predicted, f"{cut.title} on {cut.chip.name}")

    output.show(record, show, draw)


def _said(unit: "Unit") -> str:
    return unit.replace("cuda_cores", "CUDA cores")


def _unused(cut: Cut, unit: "Unit") -> str:
    """Why the kernel of a cut does not multiply by a faster unit of the chip."""
    from tilewright.kernels.registry import KERNELS

    users = [name for name, kernel in KERNELS.items() if kernel.unit_of(cut.wanted) == unit]
    if not users:
        return "no kernel here uses it"
    return f"{cut.kernel.name} does not use it, as {' and '.join(users)} may"
