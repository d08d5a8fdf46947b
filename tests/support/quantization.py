"""The quantization of arrays by NumPy, to the bit: what `tilewright.quantize` promises."""

import ml_dtypes
import numpy as np

LARGEST = {"fp8_e4m3": 448, "fp8_e5m2": 57344, "int8": 127}
KINDS = {"fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2, "int8": np.int8}
BLOCKS = {"tensor": (None, None), "row": (1, None), "1x128": (1, 128), "128x128": (128, 128)}
"""The rows and columns of what has a scale; None for all."""

one = np.float32(1)


def blocks_maxima(magnitudes, axis, size):
    """The largest of each `size` along an axis, at the end of fewer; of all if size is None."""
    if size is None:
        return magnitudes.max(axis, keepdims=True, initial=0)
    padding = [(0, 0)] * magnitudes.ndim
    padding[axis] = (0, -magnitudes.shape[axis] % size)
    padded = np.moveaxis(np.pad(magnitudes, padding), axis, -1)
    maxima = padded.reshape(*padded.shape[:-1], padded.shape[-1] // size, size).max(-1)
    return np.moveaxis(maxima, -1, axis)


def scale_of(x, dtype, block, power_of_two=False):
    """The scales of x."""
    magnitudes = np.abs(x.astype(np.float32))
    magnitudes[~np.isfinite(magnitudes)] = 0
    if block == "tensor":
        largest = np.asarray(magnitudes.max(initial=0))
    else:
        for axis, size in ((-2, BLOCKS[block][0]), (-1, BLOCKS[block][1])):
            magnitudes = blocks_maxima(magnitudes, axis, size)
        largest = magnitudes
    scale = np.maximum(largest / np.float32(LARGEST[dtype]), np.float32(2.0**-126)).astype(np.float32)
    scale = np.where(largest == 0, one, scale).astype(np.float32)
    if power_of_two:
        scale = (scale.view(np.uint32) + np.uint32(0x7FFFFF) & np.uint32(0xFF800000)).view(np.float32)
    return scale


def spread(scale, block, shape):
    """The scale of each element."""
    if block == "tensor":
        scale = scale.reshape(())
    for axis, size in ((-2, BLOCKS[block][0]), (-1, BLOCKS[block][1])):
        if size and size > 1:
            scale = np.take(np.repeat(scale, size, axis), range(shape[axis]), axis)
    return np.broadcast_to(scale, shape)


def codes_of(x, scale, dtype, block, saturate=True):
    """The codes of x with these scales, ties to even."""
    largest = LARGEST[dtype]
    with np.errstate(all="ignore"):
        ratio = x.astype(np.float32) * (one / spread(scale, block, x.shape))
        if dtype == "int8":
            return np.clip(np.rint(np.nan_to_num(ratio, nan=0)), -128, 127).astype(np.int8)
        return (np.clip(ratio, -largest, largest) if saturate else ratio).astype(KINDS[dtype])


def assert_quantized(result, x, dtype, block, power_of_two=False, saturate=True, given=None):
    """Whether codes and scales of x, and of x.T if they are there, have the bits that they must have."""
    for each, codes, scale in zip((x, x.swapaxes(-1, -2)), result[::2], result[1::2], strict=False):
        expected = scale_of(each, dtype, block, power_of_two) if given is None else given
        np.testing.assert_array_equal(np.asarray(scale), expected)
        wanted = codes_of(each, expected, dtype, block, saturate)
        assert codes.dtype == wanted.dtype
        assert codes.shape == wanted.shape
        nan = np.isnan(wanted.astype(np.float32))  # of which each sign and payload will do
        np.testing.assert_array_equal(np.isnan(codes.astype(np.float32)), nan)
        np.testing.assert_array_equal(codes.view(np.uint8)[~nan], wanted.view(np.uint8)[~nan])
