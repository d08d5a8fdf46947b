"""TMA descriptors as the hardware reads them, which host functions of CuTe DSL make without the driver.

No public document has this layout. It is taken from the code that the DSL compiles for descriptors, for which the DSL's
arguments say what each field holds; descriptors with other bits are refused. Of 128 bytes, the first 64 hold:

    bits     holds
      0-63   the address
     64-67   2
     68-70   the rank, minus 1
     71-74   the element type
     77-78   the swizzle: none, 32, 64 or 128 bytes
        82   1
        85   1 for tensors from 128 KiB on, which changes no result
    96-223   the strides of dimensions 1 to 4 in units of 16 bytes, 32 bits each
   224-239   4 more bits of each stride
   256-415   the extents, minus 1, 32 bits each
   440-479   the box, minus 1, 8 bits each
"""

from collections.abc import Callable

from tilewright.emulator.semantics.swizzle import SWIZZLE_SPANS
from tilewright.emulator.semantics.tensor_map import TENSOR_MAP_BYTES, USED_BYTES, TensorMap
from tilewright.errors import UnsupportedError

ELEMENT_TYPES = {
    0: "u8", 1: "u16", 2: "u32", 3: "s32", 4: "u64", 5: "s64", 6: "f16", 7: "f32", 9: "f64", 10: "bf16", 14: "tf32",
}  # fmt: skip
"""Element types by their numbers; 8 and 15 flush subnormals, and 11 to 13 are narrower than a byte."""
_KNOWN = (1 << 64) - 1 | 7 << 68 | 15 << 71 | 3 << 77 | 1 << 85 | ((1 << 144) - 1) << 96 | ((1 << 160) - 1) << 256
_KNOWN |= ((1 << 40) - 1) << 440
_ALWAYS = 2 << 64 | 1 << 82


def descriptors_in(data: bytes, is_address: Callable[[int], bool]) -> dict[int, TensorMap]:
    """The descriptors in the bytes of a parameter, by their offsets.

    is_address: whether a number is an address in a tensor.

    Raises:
        UnsupportedError: for a descriptor whose bits are not all known.
    """
    found = {}
    for start in range(0, len(data) - TENSOR_MAP_BYTES + 1, USED_BYTES):
        bits = int.from_bytes(data[start : start + USED_BYTES], "little")
        if bits & _ALWAYS == _ALWAYS and is_address(bits & (1 << 64) - 1):
            found[start] = _decoded(bits)
    return found


def _decoded(bits: int) -> TensorMap:
    def field(first: int, width: int) -> int:
        return bits >> first & (1 << width) - 1

    unknown = bits & ~(_KNOWN | _ALWAYS)
    kind = ELEMENT_TYPES.get(field(71, 4))
    if unknown or kind is None:
        raise UnsupportedError(
            f"a TMA descriptor of the kernel is {bits:#x}, of which {unknown or field(71, 4) << 71:#x} is not "
            "understood: take plain tiles of whole elements"
        )
    rank = field(68, 3) + 1
    strides = [16 * (field(96 + 32 * axis, 32) | field(224 + 4 * axis, 4) << 32) for axis in range(rank - 1)]
    return TensorMap(
        field(0, 64),
        kind,
        tuple(field(256 + 32 * axis, 32) + 1 for axis in range(rank)),
        tuple(strides),
        tuple(field(440 + 8 * axis, 8) + 1 for axis in range(rank)),
        SWIZZLE_SPANS[field(77, 2)],
    )
