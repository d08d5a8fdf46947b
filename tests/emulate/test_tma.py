"""TMA tiles against their definition element by element."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.emulator.semantics.elements import element_dtype
from tilewright.emulator.semantics.tensor_map import ELEMENT_TYPES, TensorMap
from tilewright.emulator.semantics.tma import extent, load_tile, store_tile

ARENA_BASE = 0x7000_0000
FILL = 0xA5
XOR_MASK = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def elements(tensor_map, coordinates, shared_address):
    """(global address or None if out of bounds, shared address) of every element that is moved, one by one."""
    pitches = (tensor_map.element_bytes, *tensor_map.strides)
    steps = (1, *tensor_map.element_strides[1:])
    boxes = itertools.product(
        *(range(0, side, step) for side, step in reversed(list(zip(tensor_map.box, steps, strict=True))))
    )
    for position, offsets in enumerate(boxes):
        index = [c + o for c, o in zip(coordinates, reversed(offsets), strict=True)]
        inside = all(0 <= i < n for i, n in zip(index, tensor_map.shape, strict=True))
        address = tensor_map.address + sum(i * p for i, p in zip(index, pitches, strict=True))
        row, column = divmod(position * tensor_map.element_bytes, tensor_map.box[0] * tensor_map.element_bytes)
        linear = shared_address + row * max(tensor_map.box[0] * tensor_map.element_bytes, tensor_map.swizzle) + column
        yield address if inside else None, linear ^ (linear >> 3 & XOR_MASK[tensor_map.swizzle])


@st.composite
def tiles(draw):
    """A tensor map, coordinates around its tensor, and an aligned shared address."""
    rank = draw(st.integers(1, 4))
    kind = draw(st.sampled_from(ELEMENT_TYPES))
    size = element_dtype(kind).itemsize
    span = draw(st.sampled_from([0, 32, 64, 128]))
    row = draw(st.sampled_from([16, 32, 48, 64, 128])) if span == 0 else draw(st.sampled_from([span // 2, span]))
    box = (row // size, *(draw(st.integers(1, 5)) for _ in range(rank - 1)))
    shape = (draw(st.integers(1, 2 * row // size)), *(draw(st.integers(1, 6)) for _ in range(rank - 1)))
    strides, pitch = [], -(-shape[0] * size // 16) * 16
    for extent_ in shape[1:]:
        pitch += 16 * draw(st.integers(0, 2))
        strides.append(pitch)
        pitch *= extent_
    steps = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    address, oob_nan = ARENA_BASE + 16 * draw(st.integers(0, 3)), "f" in kind and draw(st.booleans())
    tensor_map = TensorMap(address, kind, shape, tuple(strides), box, span, steps, oob_nan)
    coordinates = [draw(st.integers(-side - 1, n + 1)) for side, n in zip(box, shape, strict=True)]
    return tensor_map, coordinates, 128 * draw(st.integers(0, 9))


def random_bytes(count):
    return np.random.default_rng(count).integers(0, 256, count, dtype=np.uint8)


def shared_size(tensor_map):
    """Room for the tile at the highest address drawn, in whole periods of the swizzle."""
    return 1024 * (3 + tensor_map.shared_bytes // 1024)


def arena_size(tensor_map):
    outermost = tensor_map.strides[-1] if tensor_map.strides else 16 * tensor_map.shape[0]
    return 64 + outermost * tensor_map.shape[-1]


def rounded_to_tf32(element):
    """The bytes of a float32 without its 13 low bits: the nearest, of two as near the even one; any NaN is one NaN."""
    magnitude, sign = int(element.view("<u4")[0]) & 0x7FFFFFFF, int(element[3]) & 0x80
    if magnitude > 0x7F800000:
        return np.array([0x7FFFE000], "<u4").view(np.uint8)
    kept, rest = divmod(magnitude, 0x2000)
    kept += rest > 0x1000 or (rest == 0x1000 and kept % 2)
    return np.array([kept * 0x2000 | sign << 24], "<u4").view(np.uint8)


@settings(max_examples=150)
@given(tiles())
def test_load_puts_every_element_in_its_place_and_nothing_else(tile):
    tensor_map, coordinates, shared_address = tile
    arena = random_bytes(arena_size(tensor_map))
    base = 2048  # where the CTA's shared memory starts in the flat array
    shared = np.full(base + shared_size(tensor_map), FILL, np.uint8)
    expected = shared.copy()
    size = tensor_map.element_bytes
    for source, target in elements(tensor_map, coordinates, shared_address):
        fill = np.full(size, 0x7FF7, "<u2").view(np.uint8)[:size] if tensor_map.oob_nan else 0
        value = fill if source is None else arena[source - ARENA_BASE : source - ARENA_BASE + size]
        if source is not None and tensor_map.element_type == "tf32":
            value = rounded_to_tf32(value)
        expected[base + target : base + target + size] = value
    moved = load_tile(arena, ARENA_BASE, tensor_map, coordinates, shared, base + shared_address, shared_address)
    assert moved == tensor_map.tile_bytes == len(list(elements(tensor_map, coordinates, 0))) * size
    np.testing.assert_array_equal(shared, expected)


@settings(max_examples=150)
@given(tiles())
def test_store_writes_every_piece_in_bounds_and_nothing_else(tile):
    tensor_map, coordinates, shared_address = tile
    arena = np.full(arena_size(tensor_map.as_stored), FILL, np.uint8)
    expected = arena.copy()
    shared = random_bytes(shared_size(tensor_map))
    size = tensor_map.element_bytes
    expected_bytes = 0
    for target, source in elements(tensor_map.as_stored, coordinates, shared_address):
        if target is not None:
            expected[target - ARENA_BASE : target - ARENA_BASE + size] = shared[source : source + size]
            expected_bytes += size
    written = store_tile(arena, ARENA_BASE, tensor_map, coordinates, shared, shared_address, shared_address)
    assert written == expected_bytes
    np.testing.assert_array_equal(arena, expected)


@settings(max_examples=100)
@given(tiles())
def test_extent_is_the_first_and_the_last_byte_touched(tile):
    tensor_map, coordinates, _ = tile
    touched = [address for address, _ in elements(tensor_map, coordinates, 0) if address is not None]
    if touched:
        assert extent(tensor_map, coordinates) == (min(touched), max(touched) + tensor_map.element_bytes - 1)
    else:
        assert extent(tensor_map, coordinates) is None


@pytest.mark.parametrize(
    ("bits", "loaded"),
    [(0x3F801000, 0x3F800000), (0x3F803000, 0x3F804000), (0xBF801001, 0xBF802000), (0x7F7FFFFF, 0x7F800000),
     (0x13B4BE, 0x13C000), (0xFF815466, 0x7FFFE000)],
)  # fmt: skip
def test_a_load_rounds_tf32_to_the_nearest_even(bits, loaded):
    shared = np.zeros(128, np.uint8)
    load_tile(np.full(4, bits, "<u4").view(np.uint8), ARENA_BASE, TensorMap(ARENA_BASE, "tf32", (4,), (), (4,)),
              (0,), shared, 0, 0)  # fmt: skip
    assert shared[:16].view("<u4").tolist() == [loaded] * 4


def test_a_store_ends_rows_with_whole_pieces_of_16_bytes():
    arena = np.zeros(2 * 32, np.uint8)
    tensor_map = TensorMap(ARENA_BASE, "u16", (5, 2), (32,), (16, 2))
    store_tile(arena, ARENA_BASE, tensor_map, (0, 0), np.ones(256, np.uint8), 0, 0)
    np.testing.assert_array_equal(arena.reshape(2, 32).sum(axis=1), [16, 16])


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_a_load_then_a_store_elsewhere_copies_the_box(swizzle):
    matrix = np.arange(40 * 64, dtype=np.uint16).reshape(40, 64)
    arena = np.concatenate([matrix, np.zeros_like(matrix)]).reshape(-1).view(np.uint8)
    source = TensorMap(ARENA_BASE, "u16", (64, 40), (128,), ((swizzle or 32) // 2, 9), swizzle)
    target = replace(source, address=ARENA_BASE + matrix.nbytes)
    shared = np.zeros(4096, np.uint8)
    load_tile(arena, ARENA_BASE, source, (16, 33), shared, 256, 256)
    store_tile(arena, ARENA_BASE, target, (16, 33), shared, 256, 256)
    expected = np.zeros_like(matrix)
    expected[33:42, 16 : 16 + source.box[0]] = matrix[33:42, 16 : 16 + source.box[0]]
    np.testing.assert_array_equal(arena.view(np.uint16).reshape(80, 64)[40:], expected)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "u32", "s32", "u64"])
@pytest.mark.parametrize(("operation", "scalar"), [("add", lambda x, y: x + y), ("min", min), ("max", max)])
def test_reduce_combines_elements_in_bounds(kind, operation, scalar):
    """In bounds is what lies in a 16-byte piece that begins in the row, as an H200 has it of stores and reductions."""
    rng, dtype = np.random.default_rng(3), element_dtype(kind)
    tensor = rng.integers(1, 50, (9, 16)).astype(dtype)
    tile = rng.integers(1, 50, (2, 16)).astype(dtype)
    size = tensor.itemsize
    arena = tensor.copy().reshape(-1).view(np.uint8)
    shared = tile.reshape(-1).view(np.uint8)
    tensor_map = TensorMap(ARENA_BASE, kind, (13, 9), (16 * size,), (16, 4), element_strides=(1, 2))
    written = store_tile(arena, ARENA_BASE, tensor_map, (-2, 5), shared, 0, 0, operation)
    columns = min(-(-13 * size // 16) * 16 // size, 14)  # of the box, 14 columns are not left of the tensor
    assert written == 2 * columns * size
    expected = tensor.copy()
    for y, x in itertools.product(range(2), range(16)):
        if 0 <= x - 2 < columns:
            expected[2 * y + 5, x - 2] = scalar(expected[2 * y + 5, x - 2], tile[y, x])
    np.testing.assert_array_equal(arena.view(dtype).reshape(9, 16), expected)


VALID = {
    "address": 256,
    "element_type": "f16",
    "shape": (64, 64),
    "strides": (128,),
    "box": (64, 8),
    "swizzle": 128,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": 264}, r"address is 264 .* 16-byte aligned"),
        ({"address": 0}, r"address is 0 .* positive"),
        ({"element_type": "u4"}, r"element_type is u4"),
        ({"shape": ()}, r"shape is \(\) .* 1 to 5"),
        ({"shape": (64, 0)}, r"shape\[1\] is 0"),
        ({"shape": (64, 2**32 + 1)}, r"shape\[1\] is 4294967297"),
        ({"shape": (64, 64, 64)}, r"box is \(64, 8\) .* 3"),
        ({"strides": ()}, r"strides is \(\) .* 1"),
        ({"strides": (136,)}, r"strides\[0\] is 136 .* multiple of 16"),
        ({"strides": (1 << 40,)}, r"strides\[0\] is 1099511627776 .* below"),
        ({"box": (64, 257)}, r"box\[1\] is 257"),
        ({"box": (64, 0)}, r"box\[1\] is 0"),
        ({"box": (4, 8)}, r"box\[0\] is 4 .* multiple of 16 bytes, not 8"),
        ({"swizzle": 16}, r"swizzle is 16"),
        ({"swizzle": 64}, r"box\[0\] is 64 .* 128 bytes .* at most the swizzle's 64"),
    ],
)
def test_a_tensor_map_names_the_field_the_value_and_the_rule(change, message):
    TensorMap(**VALID)
    with pytest.raises(ValueError, match=message):
        TensorMap(**(VALID | change))


def test_a_tile_must_be_aligned_and_lie_in_shared_memory_and_its_box_in_the_arena():
    tensor_map = TensorMap(**(VALID | {"address": ARENA_BASE}))
    arena, shared = np.zeros(64 * 128, np.uint8), np.zeros(2048, np.uint8)
    load_tile(arena, ARENA_BASE, tensor_map, (0, 56), shared, 1024, 1024)
    with pytest.raises(ValueError, match=r"shared address of the tile is 1040 .* 128-byte aligned"):
        load_tile(arena, ARENA_BASE, tensor_map, (0, 0), shared, 1040, 1040)
    with pytest.raises(ValueError, match=r"offset of the tile is 1152"):
        load_tile(arena, ARENA_BASE, tensor_map, (0, 0), shared, 1152, 1152)
    with pytest.raises(ValueError, match=r"coordinates is \(0,\)"):
        load_tile(arena, ARENA_BASE, tensor_map, (0,), shared, 0, 0)
    with pytest.raises(ValueError, match=r"0x70001c00 to 0x70001fff and must lie within 0x70000000 to 0x70001ffe"):
        load_tile(arena[:-1], ARENA_BASE, tensor_map, (0, 56), shared, 0, 0)
    with pytest.raises(ValueError, match="must lie within 0x70000010"):
        store_tile(arena, ARENA_BASE + 16, tensor_map, (0, 0), shared, 0, 0)
