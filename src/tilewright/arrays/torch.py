"""torch: tensors on the CPU and on GPUs."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from tilewright import dtypes
from tilewright.arrays.library import Library, default_stream, imported, without_memory
from tilewright.dtypes import DType
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.operand import HOST, Operand, Signature

SUSPECT = 1 << 40
"""A tensor with a lower address may be freed: its address is then its offset in the storage. GPUs use higher ones."""


def has_memory(tensor: Any) -> bool:
    """Whether a tensor's storage is there, or not needed because the tensor has no elements."""
    return bool(tensor.numel() == 0 or tensor.untyped_storage().data_ptr())


class TorchLibrary(Library):
    """torch, with tensors on the CPU and on GPUs."""

    def __init__(self) -> None:
        self.traces: Callable[[], bool] = self._find_traces
        """Whether torch.compile traces the caller, whose tensors then have no memory; asked in each call."""

    def _find_traces(self) -> bool:
        compiler = imported("torch", "compiler")
        if not compiler:  # not imported, or not yet; releases before 2.0 have none
            return False
        self.traces = getattr(compiler, "is_dynamo_compiling", bool)  # releases before 2.1 do not tell
        return self.traces()

    @staticmethod
    def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which torch.compile calls as it is, between two graphs."""
        outside: Callable[..., Any] = sys.modules["torch"].compiler.disable(function)
        return outside

    def has(self, array: Any) -> bool:
        """Whether the object is a tensor; does not import torch."""
        return isinstance(array, imported("torch", "Tensor"))

    def adopt(self, array: Any, argument: str) -> Operand:
        """The Operand of a tensor; refuses those without plain memory, and those that require gradients."""
        torch = sys.modules["torch"]
        if array.is_nested:
            raise ArgumentTypeError(
                f"{argument} is a nested tensor: tilewright takes strided tensors; pass .to_padded_tensor(0.0), or "
                f"each part by itself"
            )
        if array.layout != torch.strided:
            raise ArgumentTypeError(
                f"{argument} has layout {array.layout}: tilewright takes strided tensors; call .to_dense() first"
            )
        if array.requires_grad and torch.is_grad_enabled():
            raise UnsupportedError(
                f"{argument} requires grad and tilewright has no autograd yet: pass {argument}.detach(), "
                f"or call under torch.no_grad()"
            )
        if array.device.type not in ("cpu", "cuda"):
            raise ArgumentValueError(
                f"{argument} is on device {array.device}: tilewright runs on CUDA GPUs and on the CPU; move it there"
            )
        if array.is_neg() or array.is_conj():
            raise ArgumentValueError(
                f"{argument} is a lazily negated or conjugated view, whose memory holds other values: call "
                f".resolve_neg() or .resolve_conj() first"
            )
        dtype = dtypes.parse(array.dtype, f"{argument}.dtype")
        try:
            shape, strides, pointer = tuple(array.shape), tuple(array.stride()), array.data_ptr()
            freed = pointer < SUSPECT and not has_memory(array)
        except RuntimeError as error:
            raise ArgumentTypeError(
                f"{argument} has no memory or strides of its own ({str(error).partition(chr(10))[0]}): pass a strided "
                f"tensor, outside of torch.vmap"
            ) from error
        if freed:
            raise without_memory(argument)
        return Operand(pointer, shape, strides, dtype, array.get_device(), True, array)

    def describe(self, array: Any, argument: str) -> tuple[Signature, int]:
        """Signature and address of a tensor."""
        try:
            pointer = array.data_ptr()
            form = array.dtype, array.shape, array.stride(), array.get_device(), True
            if not array.requires_grad and not array.is_neg() and (pointer >= SUSPECT or has_memory(array)):
                return form, pointer
        except RuntimeError:  # it has no shape, strides or memory
            self.adopt(array, argument)
            raise
        return form, self.adopt(array, argument).pointer  # raises, unless only gradients are in the way and off

    def address(self, array: Any) -> int:
        """The address of a tensor."""
        address: int = array.data_ptr()
        return address

    def stream_reader(self, device: int) -> Callable[[Any, int], int]:
        """torch's current stream."""
        if device == HOST:
            return default_stream
        current = self.current_stream()
        return lambda array, device: current(device)

    def current_stream(self) -> Callable[[int], int]:
        """A function of a device: its current stream as a CUstream."""
        torch = sys.modules["torch"]
        # Torch's own raw query costs a tenth of building a Stream object; it is what Triton and inductor use.
        raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return raw or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))

    def on_stream(self, stream: int, device: int) -> AbstractContextManager[Any]:
        """A context in which torch's allocator serves the stream."""
        if device == HOST:
            return nullcontext()
        torch = sys.modules["torch"]
        context: AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))
        return context

    def allocator(self, array: Any, shape: tuple[int, ...], dtype: DType, device: int) -> Callable[[], Any]:
        """A function that makes tensors."""
        torch = sys.modules["torch"]
        torch_dtype = getattr(torch, dtype.torch.removeprefix("torch."))
        # One element seen as the whole shape: empty_like takes half the time of naming shape, dtype and device.
        template = torch.empty((), dtype=torch_dtype, device=array.device).expand(shape)
        return partial(torch.empty_like, template, memory_format=torch.contiguous_format)

    def written(self) -> Callable[[tuple[Any]], None] | None:
        """A function that increments a tensor's version, so autograd notices that saved values were overwritten."""
        torch = sys.modules["torch"]
        try:
            increment: Callable[[tuple[Any]], None] = torch._C._increment_version
            increment((torch.empty(0),))  # the public function is a slow wrapper of this
            return increment
        except (AttributeError, TypeError):
            return lambda only: torch.autograd.graph.increment_version(only[0])


TORCH = TorchLibrary()
