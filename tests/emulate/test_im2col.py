"""TMA in im2col mode against loops over images, and the rules of its coordinates and maps."""

from itertools import product

import numpy as np
import pytest

from support.columns import Columns
from support.launches import emulate
from support.tiles import GUARD_BYTES, POISON
from tilewright.emulator import Device, EmulatorError

PADDED = {"lower": (-1, -1), "upper": (-1, -1)}
"""The box of a filter of 3 x 3 with a padding of 1: it begins a pixel before each image and ends a pixel after it."""


def columns(kind="load", shape=(16, 5, 4, 2), box=(8, 12), places=((0, -1, -1, 0),), dtype="f32", **how):
    how = {"offsets": (0, 0) if kind == "load" else (), **PADDED, **how}
    return Columns(kind, dtype, 0, shape, box, places, **how)


def images_of(case):
    """The tensor of a case as (images, height, width, channels)."""
    tensor = case.launch().buffers[0][GUARD_BYTES:]
    channels, width, height, images = case.shape
    w, h, n = case._strides
    return np.ndarray((images, height, width, channels), np.float32, tensor, 0, (n, h, w, 4))


def corners(case, place):
    """The filter's corners of a column: width, height, image, from the place on."""
    _, width, height, images = case.shape
    steps = case.element_strides or (1, 1, 1, 1)
    across = range(case.lower[0], width + case.upper[0], steps[1])
    down = range(case.lower[1], height + case.upper[1], steps[2])
    walk = [(w, h, n) for n, h, w in product(range(images + 9), down, across)]
    first = walk.index(place[1:])
    return walk[first : first + case.box[1]]


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ((0, -1, -1, 0), {}),
        ((8, 1, 2, 0), {"offsets": (2, 1)}),
        ((12, 0, 0, 1), {"offsets": (0, 2)}),
        ((0, 1, 1, 1), {"element_strides": (1, 2, 2, 1), "offsets": (1, 1)}),
        ((4, 2, -1, 0), {"element_strides": (1, 3, 2, 1), "box": (8, 9)}),
        ((0, 3, 1, 1), {"upper": (0, -2), "lower": (1, 0)}),
        ((-4, 0, 0, 0), {"oob_nan": True}),
    ],
)
def test_a_load_gathers_the_pixels_behind_the_filters_corners(place, how):
    case = columns(places=(place,), **how)
    images, (wide, high) = images_of(case), case.offsets
    count, pixels = case.box
    expected = np.full((pixels, count), np.uint32(0x7FF77FF7 if case.oob_nan else 0)).view(np.float32)
    for row, (w, h, n) in enumerate(corners(case, place)):
        for channel in range(count):
            at = n, h + high, w + wide, place[0] + channel
            if all(0 <= index < extent for index, extent in zip(at, images.shape, strict=True)):
                expected[row, channel] = images[at]
    tile = emulate(case.launch())[1][: 4 * pixels * count].view(np.uint32).reshape(pixels, count)
    assert (tile == expected.view(np.uint32)).all()
    assert expected.any()


@pytest.mark.parametrize("operation", ["", "add"])
def test_a_store_scatters_pixels_and_drops_those_past_the_last_image(operation):
    case = columns(
        "reduce" if operation else "store", lower=(0, 0), upper=(-1, -2), places=((8, 2, 1, 1),), operation=operation
    )
    tensor, shared, _ = emulate(case.launch())
    before, after = images_of(case), images_of(case).copy()
    tile = case.launch().buffers[1][: 4 * 8 * 12].view(np.float32).reshape(12, 8)
    written = 0
    for row, (w, h, n) in enumerate(corners(case, case.places[0])):
        if n < 2:
            after[n, h, w, 8:16] = before[n, h, w, 8:16] + tile[row] if operation else tile[row]
            written += 1
    found = np.ndarray(before.shape, np.float32, tensor[GUARD_BYTES:], 0, before.strides)
    assert written == 2
    assert (found.view(np.uint32) == after.view(np.uint32)).all()
    assert operation or (tensor[:GUARD_BYTES] == POISON).all()
    assert (shared == case.launch().buffers[1]).all()


@pytest.mark.parametrize(
    ("kind", "images", "place", "step", "byte", "value"),
    [
        ("store", (6, 2), (1, 1), 1, 760, 0xC6),
        ("store", (6, 2), (2, 1), 2, 856, 0xC5),
        ("store", (6, 4, 2), (1, 1, 1), 1, 3144, 0x42),
        ("reduce", (6, 2), (1, 1), 1, 760, 0x44),
        ("reduce", (6, 4, 4, 2), (2, 2, 2, 1), 2, 15768, 0x94),
    ],
)
def test_a_pixel_is_stored_in_whole_pieces_of_16_bytes(kind, images, place, step, byte, value):
    """An H200 stores two channels more than the 18 that there are; these bytes are its first ones."""
    axes = len(images) - 1
    case = Columns(
        kind, "u32", 0, (18, *images), (12, 9), ((12, *place),), "add" if kind == "reduce" else "",
        (1, *(step,) * axes, 1), lower=(0,) * axes, upper=(-1,) * axes,
    )  # fmt: skip
    tensor, before = emulate(case.launch())[0], case.launch().buffers[0]
    assert tensor[GUARD_BYTES + byte] == value != before[GUARD_BYTES + byte]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (columns(places=((0, 5, 0, 0),)), r"corner is at w 5, outside its bounding box, -1 to 3"),
        (columns(places=((0, 0, -2, 0),)), r"corner is at h -2, outside"),
        (columns(places=((0, 0, -1, 0),), element_strides=(1, 2, 1, 1)), "at w 0, no multiple of its step 2 from -1"),
        (columns(offsets=(0, 256)), "must be at most 255 for a tensor of 4 dimensions"),
        (columns("store", places=((0, 0, 0, 0),)), "bounding box of a store must lie within the images"),
        (columns("store", places=((0, -1, 0, 0),), lower=(0, 0)), "where a store begins before its tensor"),
        (columns(places=((1, 0, 0, 0),)), "no multiple of 16"),
    ],
)
@pytest.mark.planted_fault
def test_coordinates_that_ptx_rules_out(case, message):
    with pytest.raises(EmulatorError, match=message):
        emulate(case.launch())


@pytest.mark.planted_fault
def test_the_mode_of_a_map_is_that_of_the_instruction():
    tiled = columns(lower=(), upper=(), box=(8, 1, 1, 1))
    with pytest.raises(EmulatorError, match="is of tiled mode, and the instruction is of the other"):
        emulate(tiled.launch())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (16, 5), "strides": (64,)}, "shape is .* must have 3 to 5 dimensions"),
        ({"lower_corner": (0,)}, "lower_corner is .* one entry for each dimension of an image, 2"),
        ({"lower_corner": (-129, 0)}, r"lower_corner\[0\] is -129 and must be in -128..127"),
        ({"upper_corner": (-1, -6)}, r"upper_corner\[1\] is -6 and must leave a bounding box"),
        ({"channels_per_pixel": 257}, "channels_per_pixel is 257"),
        ({"channels_per_pixel": 6}, "must span a multiple of 16 bytes"),
        ({"channels_per_pixel": 16, "swizzle": 32}, "must span at most the swizzle's 32"),
        ({"pixels_per_column": 1025}, "pixels_per_column is 1025"),
        ({"element_strides": (1, 9, 1, 1)}, r"element_strides\[1\] is 9"),
    ],
)
def test_a_map_names_the_field_the_value_and_the_rule(change, message):
    device = Device(memory_bytes=1 << 20)
    arguments = {
        "dtype": np.float32,
        "address": device.allocate(4096),
        "shape": (16, 5, 4, 2),
        "strides": (64, 320, 1280),
        "lower_corner": (-1, -1),
        "upper_corner": (-1, -1),
        "channels_per_pixel": 8,
        "pixels_per_column": 12,
    }
    device.tensor_map_im2col(**arguments)
    with pytest.raises(ValueError, match=message):
        device.tensor_map_im2col(**arguments | change)
