"""A Plan: one Problem bound to a kernel, its Config and a backend, prebuilt so that a call does little but launch."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.backends.protocol import Backend, Executable
from tilewright.binding import OPERANDS, bind
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.family import Kernel
from tilewright.operand import HOST, Operand, adopt, allocator, describe, stream_reader
from tilewright.planner.slots import Slot, reader
from tilewright.problem import Problem


class Plan:
    """A Problem bound to a kernel, its Config and a backend. Call it with arrays like those it was made for.

    `reason` says in a sentence why this kernel; `compiled` and `kernel` are None where out has no elements, so that
    nothing runs. `read` is the Reader of its arrays, `allocate` makes a new `out`. `counters` is what the emulator
    counted in the last call, None on a GPU.
    """

    def __init__(
        self,
        problem: Problem,
        kernel: Kernel | None,
        config: Any,
        reason: str,
        backend: Backend,
        compiled: CompiledKernel | None,
        executable: Executable | None,
    ):
        self.problem = problem
        self.kernel = kernel
        self.config = config
        self.reason = reason
        self.backend = backend
        self.compiled = compiled
        self.counters: Any = None
        self._executable = executable

    def expect(
        self, arrays: Mapping[str, Any], operands: Mapping[str, Operand], roles: Sequence[str], multiplies: bool
    ) -> None:
        """Fix what calls must look like: like `arrays`, whose operand `roles[i]` plays the role OPERANDS[i]."""
        out = arrays["out"]
        self._slots = tuple(Slot.of(name, arrays[name], operands[name]) for name in OPERANDS if name in arrays)
        self._device = operands["out"].device
        self.allocate = allocator(arrays["a"], operands["out"].shape, operands["out"].dtype, self._device)
        self._stream = stream_reader(out, self._device)
        self._roles = None if tuple(roles) == OPERANDS else tuple(OPERANDS.index(name) for name in roles)
        self._multiplies = multiplies
        self.read = reader(list(arrays.values()), self._slots)
        self._inputs = tuple((s.index, s.low, s.high) for s in self._slots[:-1])
        self._out_low, self._out_high = self._slots[-1].low, self._slots[-1].high
        self._no_c, self._no_bias = "c" not in arrays, "bias" not in arrays

    def __call__(
        self,
        a: Any,
        b: Any,
        /,
        c: Any = None,
        *,
        bias: Any = None,
        alpha: float = 1.0,
        beta: float | None = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Multiply arrays with the shapes, strides, dtypes, devices and alignments of the plan; returns `out`."""
        if beta is None:
            beta = 0.0 if c is None else 1.0
        elif beta == 0:
            c = None
        arrays = (a, b, c, bias, out)
        if (c is None) is not self._no_c or (bias is None) is not self._no_bias:
            raise self._mismatch(arrays)
        if (alpha != 0) is not self._multiplies:
            raise ValueError(
                f"alpha={alpha}: this plan was made for alpha {'other than' if self._multiplies else 'of'} 0 (a and b "
                f"are not read where it is 0): make another plan"
            )
        pointers = self.read(arrays)
        if pointers is None:
            pointers = self._read_checking(arrays)
        return self.run(arrays, pointers, alpha, beta, stream)

    def run(self, arrays: Sequence[Any], pointers: list[int], alpha: float, beta: float, stream: Any) -> Any:
        """Launch on arrays that fit the plan and their addresses, as `read` returns them; returns out."""
        out = arrays[-1]
        if out is None:
            out = self.allocate()
            arrays = (*arrays[:-1], out)
            pointers[-1] = describe(out, "out")[1]
        low, high = self._out_low + pointers[-1], self._out_high + pointers[-1]
        for index, first, last in self._inputs:
            if first + pointers[index] < high and low < last + pointers[index]:
                # The ranges meet. Whether elements do is decided exactly, and said, where plans are made.
                bind(_adopted(arrays), activation=self.problem.activation, multiplies=self._multiplies)
        executable = self._executable
        if executable is None:
            return out
        handle = self._stream(out, self._device) if stream is None else stream_handle(stream, self.backend)
        roles = self._roles
        if self._device != HOST:
            executable(pointers if roles is None else [pointers[role] for role in roles], alpha, beta, handle)
            return out
        with self.backend.resident(_adopted(arrays), handle) as addresses:
            moved = [addresses.get(name, 0) for name in OPERANDS]
            by_role = moved if roles is None else [moved[role] for role in roles]
            self.counters = executable(by_role, alpha, beta, handle)
        return out

    def _read_checking(self, arrays: Sequence[Any]) -> list[int]:
        """The addresses of arrays that fit, perhaps better aligned than need be; a ValueError for any other."""
        pointers = [0] * len(OPERANDS)
        for slot in self._slots:
            name, array = OPERANDS[slot.index], arrays[slot.index]
            if array is None:
                continue
            signature, pointer = describe(array, name)
            if signature != slot.signature or pointer % slot.alignment:
                raise ValueError(
                    f"{name} has (dtype, shape, strides, device, writable) {signature} at address {pointer:#x}, and "
                    f"the plan was made for {slot.signature} aligned to {slot.alignment} bytes: make another plan"
                )
            pointers[slot.index] = pointer
        return pointers

    def _mismatch(self, arrays: Sequence[Any]) -> ValueError:
        expected = [OPERANDS[slot.index] for slot in self._slots[:-1]]
        given = [name for name, array in zip(OPERANDS[:-1], arrays, strict=False) if array is not None]
        return ValueError(
            f"the plan was made for the operands {', '.join(expected)} and called with {', '.join(given)} "
            f"(c counts where beta is not 0): make another plan"
        )

    def __str__(self) -> str:
        where = f"{self.backend.name} ({self.backend.hardware.name})"
        return f"{self.problem} on {where}: {self.config}; {self.reason}"


def _adopted(arrays: Sequence[Any]) -> Mapping[str, Operand]:
    return {name: adopt(array, name) for name, array in zip(OPERANDS, arrays, strict=True) if array is not None}


def stream_handle(stream: Any, backend: Backend) -> int:
    """The CUstream number of an int, torch or CuPy stream, or anything with `__cuda_stream__`."""
    if isinstance(stream, int):
        handle = stream
    elif hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        handle = int((protocol() if callable(protocol) else protocol)[1])
    elif hasattr(stream, "cuda_stream"):  # torch
        handle = int(stream.cuda_stream)
    elif hasattr(stream, "ptr"):  # CuPy
        handle = int(stream.ptr)
    else:
        raise TypeError(
            f"stream is a {type(stream).__name__}: pass a CUstream number, a torch or CuPy stream, or anything with "
            f"__cuda_stream__"
        )
    backend.check_stream(handle)
    return handle
