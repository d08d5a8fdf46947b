"""The linear filter of textures, as an H200 computes it.

The CUDA programming guide ("Linear Filtering") gives weights of eight bits. No manual says how coordinates, products of
weights and averages are rounded: this follows from results of an H200.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.lanes import Array, Indices

ONE = 256
"""The sum of the weights of a lookup."""
_X, _Y, _Z = range(3)


def fixed(places: npt.NDArray[np.float64]) -> Indices:
    """Places along an axis as multiples of 1/ONE of a texel, rounded to the nearest, from the middle of the first.

    places: in texels, so that 0.5 is the middle of the first.
    """
    return np.asarray(np.floor((places - 0.5) * ONE + 0.5).astype(np.int64))


def corner_weights(upper: Sequence[Indices]) -> dict[tuple[int, ...], Indices]:
    """The weights of the texels around each place, by 0 (lower) or 1 (upper) along each axis; they add up to ONE.

    upper: along one to three axes, x first, the weight of the upper texels in 0..ONE - 1.
    The whole is split along z, then along x, then along y. The upper part is rounded to the nearest, and the lower part
    is what remains. A half is rounded up, except along y at the lower x.
    """
    corners: dict[tuple[int, ...], Indices] = {(0, 0, 0): np.full(upper[_X].shape, ONE)}
    for axis in (axis for axis in (_Z, _X, _Y) if axis < len(upper)):
        split: dict[tuple[int, ...], Indices] = {}
        for corner, weight in corners.items():
            above = (*corner[:axis], 1, *corner[axis + 1 :])
            split[corner], split[above] = _split(weight, upper[axis], up=axis != _Y or corner[_X] == 1)
        corners = split
    return {corner[: len(upper)]: weight for corner, weight in corners.items()}


def _split(weight: Indices, upper: Indices, up: bool) -> tuple[Indices, Indices]:
    """The lower and the upper part of a weight; up: whether a half of the upper part is rounded up."""
    part = (weight * upper + ONE // 2 - (not up)) // ONE
    return weight - part, part


def rounded(average: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> Array:
    """What the filter gives for an average of texels of this type; integers become floats up to 1.

    The average of float16 is rounded to float16, and a half away from zero. That of integers is rounded to a multiple
    of 1/65535, or of 1/32767 if they are signed, and a half up.
    """
    if dtype.kind == "f":
        if dtype == np.float16:
            average = np.nextafter(average, np.copysign(np.inf, average))  # rounds as before, but for halves
        return np.asarray(average.astype(dtype))
    steps = np.iinfo(f"{dtype.kind}2").max
    return np.asarray(np.floor(average * steps / np.iinfo(dtype).max + 0.5) / steps)
