"""When a result of the emulator and one of the hardware agree."""

import numpy as np


def agree(one, other, *, relative=0.0, absolute=0.0, magnitude=0.0, scale=None, nans=False):
    """Which elements agree: bit for bit, any NaN with any NaN, or within the bounds of an approximation.

    relative: to `one`. magnitude: relative to `scale`, the results for operands without signs. nans: NaNs must have the
    same bits too.
    """
    bits = f"u{one.itemsize}"
    if one.dtype.kind in "ui" or nans:
        return one.view(bits) == other.view(bits)
    with np.errstate(all="ignore"):
        same = (one.view(bits) == other.view(bits)) | (np.isnan(one) & np.isnan(other))
        if not (relative or absolute or magnitude):
            return same
        one, other = one.astype(np.float64), other.astype(np.float64)
        allowed = absolute + relative * np.abs(one)
        if scale is not None:
            allowed = allowed + magnitude * np.abs(scale.astype(np.float64))
        return same | (np.abs(one - other) <= allowed)


def shown(value):
    """The bits of a number, and their meaning if it is not an integer."""
    bits = value.view(f"u{value.itemsize}")
    return f"{bits:#x}" if value.dtype.kind in "ui" else f"{bits:#x} ({value})"


def without_signs(elements):
    """A copy of an array whose floating-point numbers have lost their signs."""
    if elements.dtype.kind in "ui":
        return elements.copy()
    bits = f"u{elements.itemsize}"
    return (elements.view(bits) & np.array((1 << 8 * elements.itemsize - 1) - 1, bits)).view(elements.dtype)
