"""The arguments of a checked launch: memory that each run gets anew, addresses in it, and plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.reference import Array

if TYPE_CHECKING:
    from tilewright.emulator import Device
    from tilewright.emulator.semantics.tensor_map import TensorMap


class Buffer(Protocol):
    """An array that each run gets anew."""

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""

    @property
    def skew(self) -> int:
        """The bytes by which its address exceeds a multiple of the device's alignment."""

    def array(self, rng: np.random.Generator) -> Array:
        """The contents before a run."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address in a buffer, `offset` in bytes; null without a buffer."""

    buffer: str | None
    offset: int = 0

    def value(self, device: "Device", addresses: Mapping[str, int]) -> int:
        """The address on a device."""
        return 0 if self.buffer is None else addresses[self.buffer] + self.offset


@dataclass(frozen=True, slots=True)
class HostMap:
    """A TMA descriptor that host code has made, of the memory at a pointer."""

    made: "TensorMap"
    pointer: Pointer

    @property
    def buffer(self) -> str | None:
        """The buffer that it describes."""
        return self.pointer.buffer

    def value(self, device: "Device", addresses: Mapping[str, int]) -> bytes:
        """The descriptor on a device."""
        from tilewright.emulator.semantics.tensor_map import encode_tensor_map

        return encode_tensor_map(replace(self.made, address=self.pointer.value(device, addresses)))


@dataclass(frozen=True, slots=True)
class TensorMapOf:
    """A TMA descriptor of an array in a buffer.

    label: its name in messages.
    offset: the offset of the array's first element in the buffer, in bytes.
    shape, box, element_strides: elements, outermost dimension first.
    strides: bytes, of all dimensions.
    by_address: whether the kernel takes the address of the map in global memory.
    """

    label: str
    buffer: str
    dtype: "np.dtype[Any] | str"
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    offset: int = 0
    element_strides: tuple[int, ...] | None = None
    nan_outside: bool = False
    by_address: bool = False

    def value(self, device: "Device", addresses: Mapping[str, int]) -> bytes | int:
        """The map on a device, or its address there."""
        encoded = self._encoded(device, addresses)
        return device.upload(np.frombuffer(encoded, np.uint8)) if self.by_address else encoded

    def _encoded(self, device: "Device", addresses: Mapping[str, int]) -> bytes:
        try:
            return device.tensor_map(
                dtype=self.dtype,
                address=addresses[self.buffer] + self.offset,
                shape=self.shape[::-1],
                strides=self.strides[-2::-1],
                box=self.box[::-1],
                element_strides=self.element_strides and self.element_strides[::-1],
                swizzle=self.swizzle,
                oob_fill="nan" if self.nan_outside else "zeros",
            )
        except ValueError as error:
            raise ArgumentValueError(f"{self.label}: {error} (innermost dimension first)") from error


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure passed by value; parts: the pointers and TMA descriptors in it, by their offsets in bytes."""

    data: bytes
    parts: Mapping[int, Pointer | TensorMapOf | HostMap]

    def value(self, device: "Device", addresses: Mapping[str, int]) -> bytes:
        """The bytes, with the addresses on a device."""
        data = bytearray(self.data)
        for offset, part in self.parts.items():
            value = part.value(device, addresses)
            placed = value if isinstance(value, bytes) else value.to_bytes(8, "little")
            data[offset : offset + len(placed)] = placed
        return bytes(data)


Item: TypeAlias = Pointer | Structure | TensorMapOf | int | float | bytes | np.generic


@dataclass(frozen=True, slots=True)
class Arguments:
    """All arguments of a launch, their names in messages, and the buffers that they use."""

    buffers: dict[str, Buffer] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self.buffers.values())

    def initial(self, seed: int) -> dict[str, Array]:
        """The contents of the buffers before the launch."""
        named = enumerate(self.buffers.items())
        return {name: buffer.array(np.random.default_rng((seed, number))) for number, (name, buffer) in named}

    def values(self, device: "Device", addresses: Mapping[str, int]) -> list[int | float | bytes | np.generic]:
        """The arguments for Device.launch, with the buffers at these addresses."""
        return [
            item.value(device, addresses) if isinstance(item, Pointer | Structure | TensorMapOf) else item
            for item in self.items
        ]
