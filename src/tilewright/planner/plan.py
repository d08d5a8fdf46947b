"""A Plan: one Problem bound to a kernel, its Config and a backend, prebuilt so that a call does little but launch."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from tilewright.arrays import adopt, describe, is_torch, library_of
from tilewright.arrays.torch import TORCH
from tilewright.backends.protocol import Backend, Executable
from tilewright.binding import Binding, bind
from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.jit.compile import CompiledKernel
from tilewright.operand import HOST, Operand, contiguous_strides
from tilewright.planner.choose import Choice
from tilewright.planner.direct_call import PlainCall, plain_call
from tilewright.planner.slots import OUT, C, Slot, reader
from tilewright.problem import OPERANDS

_FP32_MAX = 3.4028234663852886e38


class Plan:
    """A Problem bound to a kernel, its Config and a backend. Call it with arrays like those it was made for.

    `alpha` and `beta` are those it was planned with and the defaults of its calls; `beta` is None where there was no c.
    `reason` says in a sentence why this kernel; `kernel`, `config` and `compiled` are None where out has no elements,
    so that nothing runs. `counters` is what the emulator counted in the last call, None on a GPU.
    """

    def __init__(
        self,
        binding: Binding,
        backend: Backend,
        choice: Choice | None,
        compiled: CompiledKernel | None,
        executable: Executable | None,
        arrays: Mapping[str, Any],
        operands: Mapping[str, Operand],
        *,
        alpha: float,
        beta: float | None,
    ):
        """Prebuild calls with arrays like `arrays`, whose Operands are `operands`; `beta` is None without c."""
        self.alpha, self.beta = alpha, beta
        self.problem = binding.problem
        self.backend = backend
        self.kernel = choice.kernel if choice else None
        self.config = choice.config if choice else None
        self.reason = choice.reason if choice else "out has no elements, so that nothing runs"
        self.compiled = compiled
        self.counters: Any = None
        self._executable = executable
        out = operands["out"]
        self._device = out.device
        self._slots = tuple(Slot.of(name, arrays[name], operands[name]) for name in OPERANDS if name in arrays)
        self._read = reader(list(arrays.values()), self._slots)
        self._allocate: Callable[[], Any] = self._refuse_to_allocate
        if all(out.strides[i] == s or out.shape[i] <= 1 for i, s in enumerate(contiguous_strides(out.shape))):
            self._allocate = library_of(arrays["a"], "a").allocator(arrays["a"], out.shape, out.dtype, out.device)
        library = library_of(arrays["out"], "out")
        self._stream = library.stream_reader(out.device)
        self._written = library.written()
        self._address = library.address
        self._disjoint: list[int] = []  # addresses that were found not to overlap
        self._roles = None if binding.roles == OPERANDS else tuple(OPERANDS.index(name) for name in binding.roles)
        self._multiplies, self._unscaled = alpha != 0, alpha == 1
        self._inputs = tuple((slot.index, slot.low, slot.high) for slot in self._slots[:-1])
        self._out_low, self._out_high = self._slots[-1].low, self._slots[-1].high
        self._no_c, self._no_bias = "c" not in arrays, "bias" not in arrays
        self._plain: PlainCall | None = None
        plain = self._multiplies and out.device != HOST and list(arrays) == ["a", "b", "out"]
        if executable and plain and self._written and all(is_torch(array) for array in arrays.values()):
            self._plain = plain_call(
                list(arrays.values()),
                self._slots,
                executable,
                exchanged=self._roles is not None,
                device=out.device,
                stream=TORCH.current_stream(),
                allocate=self._allocate,
                written=self._written,
                check_overlap=self._check_overlap,
            )
        c = operands.get("c")
        self._c_may_be_out = c is not None and (c.shape, c.strides, c.dtype) == (out.shape, out.strides, out.dtype)

    @property
    def accumulator(self) -> DType:
        """What products are added in; fp32 where nothing runs."""
        return fp32 if self.kernel is None else self.kernel.accumulator(self.config)

    def __call__(
        self,
        a: Any,
        b: Any,
        /,
        c: Any = None,
        *,
        bias: Any = None,
        alpha: float | None = None,
        beta: float | None = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Multiply arrays with the shapes, strides, dtypes, devices and alignments of the plan; returns `out`.

        alpha and beta are the plan's by default; others may be given, zero only where the plan's is zero. The
        activation is fixed by the plan. stream: as in `matmul`.

        Raises ValueError for arrays or scalars that the plan was not made for, TypeError for what is no number.
        """
        unscaled = self._unscaled if alpha is None else type(alpha) is float and alpha == 1.0
        plain = unscaled and c is None and bias is None and beta is None and stream is None
        if plain and self._plain is not None and (result := self._plain(a, b, out)) is not None:
            return result
        if alpha is None:
            alpha = self.alpha
        if beta is None and c is not None:
            beta = self.beta
        alpha, beta = scalars(c, alpha, beta)
        arrays = (a, b, c if beta != 0 else None, bias, out)
        if (arrays[C] is None) is not self._no_c or (bias is None) is not self._no_bias:
            raise self._mismatch(arrays)
        if (alpha != 0) is not self._multiplies:
            raise ArgumentValueError(
                f"alpha={alpha}: this plan was made for alpha {'other than' if self._multiplies else 'of'} 0 (a and b "
                f"are not read where it is 0): make another plan"
            )
        pointers = self._read(arrays)
        if pointers is None:
            pointers = self._read_checking(arrays)
        return self._run(arrays, pointers, alpha, beta, stream)

    def _run(self, arrays: Sequence[Any], pointers: list[int], alpha: float, beta: float, stream: Any) -> Any:
        """Launch on arrays that fit the plan and their addresses, as `_read` returns them; returns out."""
        out = arrays[OUT]
        handle = None if stream is None else stream_handle(stream, self.backend)
        if out is None:
            with nullcontext() if handle is None else library_of(arrays[0], "a").on_stream(handle, self._device):
                out = self._allocate()
            arrays = (*arrays[:OUT], out)
            pointers[OUT] = self._address(out)
        if pointers != self._disjoint:
            self._check_overlap(arrays, pointers)
        executable = self._executable
        if executable is None:
            return out
        if handle is None:
            handle = self._stream(out, self._device)
        roles = self._roles
        if self._device != HOST:
            executable(pointers if roles is None else [pointers[role] for role in roles], alpha, beta, handle)
        else:
            with self.backend.resident(_adopted(arrays), handle) as addresses:
                moved = [addresses.get(name, 0) for name in OPERANDS]
                by_role = moved if roles is None else [moved[role] for role in roles]
                self.counters = executable(by_role, alpha, beta, handle)
        if self._written is not None and arrays[OUT] is not None:
            self._written((out,))
        return out

    def _refuse_to_allocate(self) -> Any:
        strides = self._slots[-1].signature[2]
        raise ArgumentValueError(
            f"out is missing, and the plan was made for one with strides {tuple(strides)}: pass out="
        )

    def _check_overlap(self, arrays: Sequence[Any], pointers: list[int]) -> None:
        low, high = self._out_low + pointers[OUT], self._out_high + pointers[OUT]
        for index, first, last in self._inputs:
            if first + pointers[index] < high and low < last + pointers[index]:
                if index == C and self._c_may_be_out and pointers[C] == pointers[OUT]:
                    continue
                # The ranges meet. Whether elements do is decided exactly, and said, where plans are made.
                bind(_adopted(arrays), activation=self.problem.epilogue.activation, multiplies=self._multiplies)
        self._disjoint = pointers

    def _read_checking(self, arrays: Sequence[Any]) -> list[int]:
        """The addresses of arrays that fit, perhaps better aligned than need be; a ValueError for any other."""
        pointers = [0] * len(OPERANDS)
        for slot in self._slots:
            name, array = OPERANDS[slot.index], arrays[slot.index]
            if array is None and slot.index == OUT:
                continue
            signature, pointer = describe(array, name)
            if differences := slot.differences(signature, pointer):
                raise ArgumentValueError(f"{name} is not as the plan wants it: {differences}; make another plan")
            pointers[slot.index] = pointer
        return pointers

    def _mismatch(self, arrays: Sequence[Any]) -> ValueError:
        expected = [OPERANDS[slot.index] for slot in self._slots[:-1]]
        given = [name for name, array in zip(OPERANDS[:OUT], arrays, strict=False) if array is not None]
        return ArgumentValueError(
            f"the plan was made for the operands {', '.join(expected)} and called with {', '.join(given)} "
            f"(c counts where beta is not 0): make another plan"
        )

    def __repr__(self) -> str:
        where = f"{self.backend.name} ({self.backend.hardware.name})"
        return f"<Plan: {self.problem} on {where}: {self.config}; {self.reason}>"


def scalars(c: Any, alpha: float, beta: float | None) -> tuple[float, float]:
    """alpha and beta rounded to fp32; beta defaults to 1 where c is given, else to 0.

    Raises TypeError or ValueError naming the one that is no such number, or beta where there is no c to scale.
    """
    if beta is None:
        beta = 0.0 if c is None else 1.0
    elif c is None and beta:
        raise ArgumentValueError(f"beta={beta} scales c, which is not given: pass c=, or leave beta out")
    if type(alpha) is not float or alpha != 1.0:
        alpha = _fp32("alpha", alpha)
    if type(beta) is not float or (beta != 0.0 and beta != 1.0):
        beta = _fp32("beta", beta)
    return alpha, beta


def _fp32(name: str, value: Any) -> float:
    if getattr(value, "requires_grad", False):
        raise UnsupportedError(f"{name} requires grad and tilewright has no autograd yet: pass {name}.item()")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{name}={value!r} is no real number: pass a float") from error
    if _FP32_MAX < abs(number) < float("inf"):
        raise ArgumentValueError(
            f"{name}={number} does not fit fp32, in which sums are scaled: at most {_FP32_MAX:.6g}"
        )
    return ctypes.c_float(number).value  # rounded, so that what the kernel sees as 0 counts as 0


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
        raise ArgumentTypeError(
            f"stream is a {type(stream).__name__}: pass a CUstream number, a torch or CuPy stream, or anything with "
            f"__cuda_stream__"
        )
    backend.check_stream(handle)
    return handle
