"""TMA in im2col mode: columns of pixels that a filter's corner walks, with padding, steps and dilation."""

from dataclasses import dataclass
from itertools import product

from support.tiles import Tile
from tilewright.emulator.semantics.elements import element_dtype


@dataclass(frozen=True)
class Columns(Tile):
    """Columns at some coordinates of one tensor of images; box: channels and pixels.

    lower, upper: corners of the bounding box. offsets: of loads.
    """

    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()

    @property
    def name(self):
        """All of it in words."""
        return f"{super().name} as columns in {self.lower} to {self.upper}, offsets {self.offsets}"

    @property
    def _moved(self):
        return self.box

    @property
    def _modes(self):
        return ".im2col", ".im2col_no_offs", ".im2col_no_offs"

    @property
    def _offsets(self):
        return f", {{{', '.join(map(str, self.offsets))}}}"

    @property
    def _corners(self):
        return self.lower, self.upper


def _columns():
    for axes, (dtype, span), step in product((1, 2, 3), (("u8", 32), ("f16", 128), ("f32", 0), ("u64", 64)), (1, 2, 3)):
        per_row = (span or 48) // element_dtype(dtype).itemsize
        shape = (2 * per_row - 1, *(7, 5, 4)[:axes], 3)
        steps = (1,) * (axes + 2) if step == 1 else (1, *(step, 2, 1)[:axes], 1)
        lower, upper = (-1,) * axes, (-1,) * axes  # a filter of 3 along each axis, with padding 1
        box = (per_row, 11)
        inside = tuple(low + step for low, step in zip(lower, steps[1:-1], strict=True))
        places = [(0, *lower, 0), (per_row, *inside, 1), (-(16 // element_dtype(dtype).itemsize), *inside, 2)]
        places += [(0, *lower, -1), (0, *inside, 3)]
        for offset in (0, 2):
            how = {"element_strides": steps, "lower": lower, "upper": upper, "offsets": (offset, 1, 2)[:axes]}
            yield Columns("load", dtype, span, shape, box, tuple(places), **how)
            yield Columns("multicast", dtype, span, shape, box, tuple(places[:2]), **how)
            if element_dtype(dtype).kind == "f":
                yield Columns("load", dtype, span, shape, box, tuple(places), oob_nan=True, **how)


def _written_columns():
    """Stores and reductions, of whole pieces of 16 bytes, past the last image too."""
    for axes, (dtype, span), step in product((1, 2, 3), (("u16", 64), ("f32", 128), ("u32", 0)), (1, 2)):
        per_row = (span or 48) // element_dtype(dtype).itemsize
        shape = (per_row + per_row // 2, *(6, 4, 4)[:axes], 2)
        steps = (1, *(step,) * axes, 1)
        how = {"element_strides": steps, "lower": (0,) * axes, "upper": (-1,) * axes, "offsets": ()}
        for place in ((0, *(0,) * axes, 0), (per_row, *(step,) * axes, 1)):
            yield Columns("store", dtype, span, shape, (per_row, 9), (place,), **how)
            if dtype != "u16":
                yield Columns("reduce", dtype, span, shape, (per_row, 9), (place,), "add", **how)


COLUMNS = [*_columns(), *_written_columns()]
