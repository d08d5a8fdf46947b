"""The pictures of a report, as images that are part of the page."""

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.explaining.explanation import Explanation
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.registry import kernel_named
from tilewright.model.chips import CHIPS, Chip
from tilewright.model.memory.layouts import CHUNKS, TileLayout, linear, padded, swizzled, transposition
from tilewright.model.roofline import lowest, roofs
from tilewright.model.schedules import schedules
from tilewright.model.waves import waves
from tilewright.problem import Problem
from tilewright.rounding import ceil_div

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYOUTS: dict[str, TileLayout] = {
    "rows of 128 bytes, one after another": linear(),
    "rows of 128 bytes with 16 bytes after each": padded(16),
    "the swizzle of 32 bytes": swizzled(32),
    "the swizzle of 64 bytes": swizzled(64),
    "the swizzle of 128 bytes": swizzled(128),
}
"""Ways to keep a tile in SMEM, the usual one last."""

MOST_TILES = 4096
"""Of a result whose order of tiles is drawn: more are too small to see."""


class Picture(NamedTuple):
    """An image that needs no file: its address, what it shows in words, and what to see in it."""

    src: str
    alt: str
    caption: str


class Shown(NamedTuple):
    """A kernel with a Config on a problem; solved: the problem as the kernel solves it, maybe the transposed one."""

    kernel: Kernel
    config: Any
    constants: Any
    solved: Problem
    chip: Chip

    @classmethod
    def of(cls, explanation: Explanation) -> "Shown":
        """What an Explanation explains."""
        kernel, config = kernel_named(explanation.kernel, "kernel"), explanation.config
        chip = CHIPS[explanation.gpu]
        solved = kernel.oriented(config, explanation.taken)
        return cls(kernel, config, kernel.check(config, explanation.taken, chip.gpu), solved, chip)


def pictures(explanation: Explanation, shown: Shown) -> dict[str, Picture]:
    """The roofline, the waves, the tile with its traffic, and the order of tiles."""
    from tilewright.plots import raster, residency, roofline, tilings

    kernel, solved, constants = shown.kernel, shown.solved, shown.constants
    title = f"{solved.m} x {solved.n} x {solved.k} by {kernel.name} on {shown.chip.name}"
    found = roofs(shown.chip, kernel.unit_of(solved.a.dtype), solved.a.dtype, explanation.levels)
    rates: Mapping[str, float] = {}
    if explanation.time is not None:
        flops = explanation.problem.flops / 1e12
        rates = {"settled": flops / explanation.time.seconds, "burst": flops / explanation.time.burst}
    least = lowest(found)
    limit = "the rate of the units" if least.allowed == least.peak else least.level
    tile_m, tile_n = constants.tile_m, constants.tile_n
    at_once = max(1, explanation.tiles.slots // constants.split_k)  # split_k CTAs make a tile
    in_waves = waves(solved.m, solved.n, tile_m, tile_n, at_once)
    rows, columns = ceil_div(solved.m, tile_m), ceil_div(solved.n, tile_n)
    count = f"{in_waves.count} wave{'s' * (in_waves.count > 1)}"
    busy = f"{count}, {in_waves.busy:.1%} of the places busy, {in_waves.wasted:.1%} of tiles outside"
    levels = "; ".join(f"{level.name} {level.intensity:,.0f} FLOP per byte" for level in explanation.levels)
    made = {
        "roofline": _picture(roofline.roofs(found, rates, title), "The roofline", f"Of the roofs, {limit} limits it."),
        "waves": _picture(
            residency.last_wave(in_waves, solved.m / tile_m, solved.n / tile_n, title), "Tiles and waves", f"{busy}."
        ),
        "tile": _picture(
            tilings.by_level(explanation.levels, kernel.blocking(constants), title), "The tile of a CTA", f"{levels}."
        ),
    }
    if rows * columns <= MOST_TILES:
        groups = [group] if (group := getattr(shown.config, "group_m", 0)) > 0 else []
        strips = schedules(rows, columns, at_once, groups=groups)
        drawn = raster.filmstrip(strips, (rows, columns), title)
        caption = f"The kernel takes bands of {groups[0]} rows." if groups else "The kernel takes tiles row by row."
        made["raster"] = _picture(drawn, "The order of tiles in three ways", caption)
    return made


def swizzles() -> list[dict[str, Any]]:
    """For each of LAYOUTS, what lies in which banks, and in words what reading a column takes.

    Each chunk has its row and column as its `name`, and the `kind` read if the first eight lanes read it.
    """
    found = []
    for name, layout in LAYOUTS.items():
        ways = transposition(layout).read.ways
        said = f"{name}: {ways:g} pass{'es' * (ways > 1)} for eight lanes that read down a column"
        held = [divmod(chunk, layout.chunks) if chunk >= 0 else None for chunk in layout.chunk_at().tolist()]
        together = max(CHUNKS // layout.rows, 1)
        places = [
            None if place is None else {"name": f"{place[0]} {place[1]}", "kind": "read" if place[1] < together else ""}
            for place in held
        ]
        found.append({"name": said, "lines": [places[at : at + CHUNKS] for at in range(0, len(places), CHUNKS)]})
    return found


def _picture(drawn: "Figure", alt: str, caption: str) -> Picture:
    from tilewright.plots.style import svg

    data = b64encode(svg(drawn).encode()).decode()
    return Picture(f"data:image/svg+xml;base64,{data}", alt, caption)
