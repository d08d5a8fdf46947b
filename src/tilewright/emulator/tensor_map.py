"""Tensor maps as kernels get them: the 128 opaque bytes of a __grid_constant__ parameter."""

import struct
from functools import lru_cache

from tilewright.emulator.tma import TensorMap

TENSOR_MAP_BYTES = 128
_MAGIC = 0x70_616D_726F_736E  # "nsormap" of an encoded tensor map
_LAYOUT = struct.Struct("<QQBBH5Q4Q5H")


def encode_tensor_map(tensor_map: TensorMap) -> bytes:
    """The 128 bytes that a kernel gets as its __grid_constant__ tensor map."""
    rank = len(tensor_map.shape)
    pad = (0,) * (5 - rank)
    packed = _LAYOUT.pack(
        _MAGIC, tensor_map.address, rank, tensor_map.element_bytes, tensor_map.swizzle,
        *tensor_map.shape, *pad, *tensor_map.strides, *pad, *tensor_map.box, *pad,
    )  # fmt: skip
    return packed.ljust(TENSOR_MAP_BYTES, b"\0")


@lru_cache(maxsize=1024)
def decode_tensor_map(data: bytes) -> TensorMap | None:
    """The inverse of encode_tensor_map; None for other bytes."""
    magic, address, rank, element_bytes, swizzle, *numbers = _LAYOUT.unpack_from(data)
    if magic != _MAGIC:
        return None
    shape, strides, box = numbers[:rank], numbers[5 : 4 + rank], numbers[9 : 9 + rank]
    return TensorMap(address, element_bytes, tuple(shape), tuple(strides), tuple(box), swizzle)
