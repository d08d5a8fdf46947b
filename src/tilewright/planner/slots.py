"""The expected form of a call's arrays, and fast readers of their addresses: the hot path of every call."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tilewright.arrays import describe, library_of
from tilewright.arrays.torch import SUSPECT, has_memory
from tilewright.dtypes import DType
from tilewright.operand import HOST, Operand, Signature, byte_range
from tilewright.problem import OPERANDS

Reader: TypeAlias = Callable[[Sequence[Any]], list[int] | None]
"""A function that reads the addresses of the expected arrays, in the order of `operand_names`; 0 for an out of None.

Returns None if an array is not as expected: then another plan is needed.
"""

A, B, C, OUT = (OPERANDS.index(name) for name in ("a", "b", "c", "out"))


class Slot(NamedTuple):
    """The expected form of one operand of a call.

    `position` counts in `operand_names`; `alignment` is in bytes, at most 16; the rest is the Operand's.
    """

    position: int
    signature: Signature
    alignment: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @classmethod
    def of(cls, position: int, signature: Signature, operand: Operand) -> "Slot":
        """The slot that arrays of this signature fit, which are aligned as the operand."""
        return cls(position, signature, operand.alignment, operand.shape, operand.strides, operand.dtype)

    @property
    def device(self) -> int:
        """HOST, or the number of the arrays' GPU."""
        return self.signature[3]

    def bounds(self, pointer: int = 0) -> tuple[int, int]:
        """The half-open range of bytes that the elements span, by default relative to the address."""
        return byte_range(pointer, self.shape, self.strides, self.dtype.nbytes)

    def differences(self, operand: Operand) -> str:
        """The differences of an array from the expected form, in words; empty if none.

        Better alignment is allowed, and any stride of a dimension of extent 1, where nothing is walked.
        """
        strides: tuple[int, ...] = operand.strides
        if operand.shape == self.shape:
            wanted = zip(self.shape, strides, self.strides, strict=True)
            strides = tuple([there if extent == 1 else here for extent, here, there in wanted])
        found = [
            f"{name} {_said(name, here)} instead of {_said(name, there)}"
            for name, here, there in (
                ("dtype", operand.dtype, self.dtype),
                ("shape", operand.shape, self.shape),
                ("strides", strides, self.strides),
                ("device", operand.device, self.device),
            )
            if here != there
        ]
        if operand.pointer % self.alignment:
            found.append(f"address {operand.pointer:#x} not aligned to {self.alignment} bytes")
        return ", ".join(found)

    @property
    def low_bits(self) -> tuple[int, int]:
        """A mask and the address bits under it that mean exactly this alignment."""
        return (15, 0) if self.alignment == 16 else (2 * self.alignment - 1, self.alignment)


def _said(name: str, value: object) -> object:
    if name == "device":
        return "the CPU" if value == HOST else f"GPU {value}"
    return tuple(value) if isinstance(value, tuple) else value  # torch.Size too reads as a tuple


def with_out(arrays: Sequence[Any], out: Any) -> tuple[Any, ...]:
    """The arrays of a call with this out."""
    return (*arrays[:OUT], out, *arrays[OUT + 1 :])


def reader(slots: Sequence[Slot], tensors: bool, names: tuple[str, ...] = OPERANDS) -> Reader:
    """The quickest Reader for arrays that fit the slots with exactly these alignments; `tensors` if all are torch's.

    names: `operand_names`.
    """
    return _torch_reader(slots, len(names)) if tensors else _any_reader(slots, names)


def _any_reader(slots: Sequence[Slot], names: tuple[str, ...]) -> Reader:
    expected = tuple((slot.position, names[slot.position], slot.signature, *slot.low_bits) for slot in slots)

    def read(arrays: Sequence[Any]) -> list[int] | None:
        pointers = [0] * len(names)
        for index, name, signature, mask, bits in expected:
            if arrays[index] is None and index == OUT:
                continue
            found, pointer = describe(arrays[index], name)
            if found != signature or pointer & mask != bits:
                return None
            pointers[index] = pointer
        return pointers

    return read


def _torch_reader(slots: Sequence[Slot], count: int) -> Reader:
    # The same in a third of the time: no tuples are built and no functions called.
    expected = tuple((slot.position, *slot.signature[:4], *slot.low_bits) for slot in slots)
    absent = [0] * count
    is_grad_enabled = sys.modules["torch"].is_grad_enabled

    def read(arrays: Sequence[Any]) -> list[int] | None:
        pointers = absent.copy()
        try:
            for index, dtype, shape, strides, device, mask, bits in expected:
                tensor = arrays[index]
                if tensor is None and index == OUT:
                    continue
                pointers[index] = pointer = tensor.data_ptr()
                if (
                    tensor.shape != shape
                    or tensor.stride() != strides
                    or tensor.dtype is not dtype
                    or tensor.get_device() != device
                    or (tensor.requires_grad and is_grad_enabled())
                    or tensor.is_neg()
                    or pointer & mask != bits
                    or (pointer < SUSPECT and not has_memory(tensor))
                ):
                    return None
        except (AttributeError, RuntimeError):  # not a tensor, or one without strides or memory
            return None
        return pointers

    return read


def tensor_guard(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """A function that compares tensors with these in one call, as torch.compile does; None if torch lacks it.

    It compares type, dtype, device, shape, strides and dispatch keys. It does not know whether gradients are enabled,
    so tensors that require gradients get no guard.
    """
    guards = getattr(getattr(sys.modules["torch"]._C, "_dynamo", None), "guards", None)
    if guards is None or any(tensor.requires_grad for tensor in tensors):
        return None
    shapes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
    try:
        guard = guards.TensorGuards(*tensors, dynamic_dims_sizes=shapes, dynamic_dims_strides=strides)
        check: Callable[..., bool] = guard.check
        return check if check(*tensors) is True else None
    except Exception:  # not a public interface: other versions of torch may take other arguments
        return None


def out_allocator(a: Any, out: Operand | Slot) -> Callable[[], Any]:
    """The function that makes outs of this form in the library of `a`."""
    return library_of(a, "a").allocator(a, out.shape, out.dtype, out.device)
