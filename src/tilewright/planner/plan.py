"""A Plan: one Problem bound to a kernel, its Config and a backend, prepared so that a call does little but launch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, NoReturn

from tilewright.arrays import adopt, describe, is_torch, library_of
from tilewright.arrays.torch import TORCH
from tilewright.backends.protocol import Backend, Executable
from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.tree import HIDDEN
from tilewright.jit.compile import CompiledKernel
from tilewright.operand import HOST, Operand, contiguous_strides
from tilewright.planner.binding import Binding, bind
from tilewright.planner.call_arguments import NamedArrays, check_alpha, in_order, scalars, stream_handle
from tilewright.planner.choose import Choice
from tilewright.planner.direct_call import DirectCall, direct_call
from tilewright.planner.scaling import check_values
from tilewright.planner.slots import OUT, C, Reader, Slot, reader, with_out
from tilewright.problem import EXCHANGED, OPERANDS, operand_names, output_key

_CALLS_TO_DIRECT = 1
"""The number of calls before the shortest way is built; building it costs more than a call."""


class Prepared(NamedTuple):
    """The kernel and Config of a Plan, compiled and loaded."""

    choice: Choice
    compiled: CompiledKernel
    executable: Executable


class Plan:
    """A Problem bound to a kernel, its Config and a backend. Call it with arrays like those it was made for.

    `alpha` and `beta` are those it was planned with, and the defaults of its calls; `beta` is None without c. `reason`
    explains the choice of the kernel in a sentence; `compiled` has PTX, and on a GPU machine code; `kernel`, `config`
    and `compiled` are None if out has no elements, since nothing runs.
    """

    def __init__(
        self,
        binding: Binding,
        backend: Backend,
        prepared: Prepared | None,
        slots: Sequence[Slot],
        arrays: Sequence[Any],
        pointers: list[int],
        *,
        alpha: float,
        beta: float | None,
        allocate: Callable[[], Any] | None = None,
    ):
        """Prepare calls with arrays like `arrays`, which fit `slots`; `prepared` is None if out has no elements.

        slots: those of inputs in their order, and out's as the last. arrays, pointers: in the order of `operand_names`,
        None and 0 for those that are not there; they do not overlap.
        `beta` is None without c. `allocate` makes an out; by default an out is made like the first call's a.
        """
        self.alpha, self.beta = alpha, beta
        self.problem = binding.problem
        self.backend = backend
        self.kernel = prepared.choice.kernel if prepared else None
        self.config = prepared.choice.config if prepared else None
        self.reason = prepared.choice.reason if prepared else "out has no elements, so nothing runs"
        self.compiled = prepared.compiled if prepared else None
        self._executable = prepared.executable if prepared else None
        out = slots[-1]
        self._device, self._in_place = out.device, backend.reads_in_place(out.device)
        self._slots = tuple(slots)
        tensors = all(is_torch(array) for array in arrays if array is not None)
        self._reader: Reader | None = None  # building it costs more than a call
        self._tensors = tensors
        self._out_form = out.shape, out.strides, out.dtype
        self._allocate = allocate
        library = library_of(arrays[OUT], "out")
        self._stream = library.stream_reader(out.device)
        self._written = library.written()
        self._address = library.address
        self._disjoint = pointers  # addresses that are known not to overlap
        expression = binding.problem.epilogue.expression
        self._names = operand_names(expression)
        self._outputs = tuple(self._names.index(name) for name, _ in binding.problem.epilogue.written())
        self._cleared = tuple(_cleared(slots, self._names, runs=prepared is not None))
        self._roles = (*EXCHANGED, *range(len(OPERANDS), len(self._names))) if binding.is_exchanged else None
        self._multiplies, self._unscaled = alpha != 0, alpha == 1
        self._bounds: tuple[tuple[int, int, int], ...] = ()
        self._present = tuple([array is not None for array in arrays[C:OUT]])
        self._direct: DirectCall | None = None
        self._calls_to_direct = _CALLS_TO_DIRECT
        plain = self._multiplies and self._in_place and not any(self._present) and expression is None
        if not (prepared and plain and self._written and tensors):
            self._calls_to_direct = -1  # never
        c_forms = [(slot.shape, slot.strides, slot.dtype) for slot in slots if slot.position == C]
        self._c_may_be_out = c_forms == [self._out_form]
        on_host = (slot.position for slot in slots if slot.device == HOST)
        self._scales = tuple(position for position in on_host if self._names[position] in HIDDEN)
        self._is_checked = bool(self._scales) or self._out_form[2].kind == "integer"

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The expected form of each array of a call, in the order of `operand_names`, but with out's as the last."""
        return self._slots

    @property
    def pointers(self) -> list[int]:
        """The addresses of the arrays that it was last called with, or else made for, in that order."""
        return self._disjoint.copy()

    @property
    def accumulator(self) -> DType:
        """The type in which products are added; fp32 if nothing runs."""
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
        operands: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        scale_a: Any = None,
        scale_b: Any = None,
        zero_a: Any = None,
        scale_out: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Multiply arrays with the shapes, strides, dtypes, devices and alignments of the plan; returns `out`.

        alpha and beta are the plan's by default; others may be given, but zero only if the plan's is zero. The plan
        fixes the activation or the expression, whose operands and outputs are given anew. stream: as in `matmul`.

        Raises ValueError for arrays or scalars that the plan was not made for, and TypeError for a scalar that is not a
        number.
        """
        if TORCH.traces():
            return TORCH.untraced(self.__call__)(
                a, b, c, bias=bias, alpha=alpha, beta=beta, operands=operands, outputs=outputs, scale_a=scale_a,
                scale_b=scale_b, zero_a=zero_a, scale_out=scale_out, out=out, stream=stream,
            )  # fmt: skip
        unscaled = self._unscaled if alpha is None else type(alpha) is float and alpha == 1.0
        plain = unscaled and c is None and bias is None and beta is None and stream is None and operands is None
        plain = plain and outputs is None and scale_a is scale_b is zero_a is scale_out is None
        if plain and self._direct is not None and (result := self._direct(a, b, out)) is not None:
            return result
        named = operands, outputs, scale_a, scale_b, zero_a, scale_out
        return self._call((a, b, c, bias, out), named, alpha, beta, stream)[0]

    def counted(
        self,
        a: Any,
        b: Any,
        /,
        c: Any = None,
        *,
        bias: Any = None,
        alpha: float | None = None,
        beta: float | None = None,
        operands: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        scale_a: Any = None,
        scale_b: Any = None,
        zero_a: Any = None,
        scale_out: Any = None,
        out: Any = None,
    ) -> tuple[Any, Any]:
        """Like a call; returns `out` and the emulator's Counters, which are None if nothing runs or on a GPU."""
        named = operands, outputs, scale_a, scale_b, zero_a, scale_out
        return self._call((a, b, c, bias, out), named, alpha, beta, None)

    def try_call(self, arrays: Sequence[Any], alpha: float, beta: float, stream: Any, direct: bool) -> Any:
        """Call with arrays in the order of `operand_names`; c is None if beta is 0. Returns None if they do not fit.

        alpha and beta are as `scalars` returns them. direct: whether there is no addend, alpha is 1 and no stream is
        given.
        """
        if direct and self._direct is not None:
            result = self._direct(arrays[0], arrays[1], arrays[OUT])
            if result is not None:
                return result
        pointers = (self._reader or self._make_reader())(arrays)
        return None if pointers is None else self.launch(arrays, pointers, alpha, beta, stream)[0]

    def first_call(
        self, arrays: tuple[Any, ...], named: NamedArrays, alpha: float | None, beta: float | None, stream: Any
    ) -> Any:
        """A call with the very arrays that it was made for, a, b, c, bias and out, which need not be read again."""
        return self._call(arrays, named, alpha, beta, stream, self.pointers)[0]

    def _call(
        self,
        arrays: tuple[Any, ...],
        named: NamedArrays,
        alpha: float | None,
        beta: float | None,
        stream: Any,
        pointers: list[int] | None = None,
    ) -> tuple[Any, Any]:
        """Check a call's arrays and scalars, and launch; returns out and the counters.

        pointers: the arrays' addresses, if the arrays are known to fit.
        """
        c, expression = arrays[C], self.problem.epilogue.expression
        if expression is not None or any(each is not None for each in named):
            bias, of_expression = in_order(expression, arrays[C + 1], named)
            arrays = (*arrays[: C + 1], bias, arrays[OUT], *of_expression)
        if alpha is None:
            alpha = self.alpha
        if beta is None and c is not None:
            beta = self.beta
        alpha, beta = scalars(c, alpha, beta)
        if beta == 0:
            arrays = (*arrays[:C], None, *arrays[C + 1 :])
        if tuple(array is not None for array in arrays[C:OUT]) != self._present:
            raise self._mismatch(arrays)
        if (alpha != 0) is not self._multiplies:
            raise ArgumentValueError(
                f"alpha={alpha}: this plan was made for alpha {'other than' if self._multiplies else 'of'} 0 (a and b "
                f"are not read where it is 0): make another plan"
            )
        if pointers is None:
            pointers = (self._reader or self._make_reader())(arrays) or self._read_checking(arrays)
        return self.launch(arrays, pointers, alpha, beta, stream)

    def launch(
        self, arrays: Sequence[Any], pointers: list[int], alpha: float, beta: float, stream: Any
    ) -> tuple[Any, Any]:
        """Launch on arrays that fit and their addresses, 0 for a missing out; returns out and the counters."""
        out = arrays[OUT]
        handle = None if stream is None else stream_handle(stream, self.backend)
        if out is None:
            with nullcontext() if handle is None else library_of(arrays[0], "a").on_stream(handle, self._device):
                out = (self._allocate or self._allocator(arrays[0]))()
            arrays = with_out(arrays, out)
            pointers[OUT] = self._address(out)
        if pointers != self._disjoint:
            self.check_overlap(arrays, pointers)
        if self._is_checked:
            check_alpha(self.problem, alpha)
            check_values({self._names[position]: arrays[position] for position in self._scales})
        if self._executable is None and not self._cleared:
            return out, None
        counters = None
        if handle is None:
            handle = self._stream(out, self._device)
        if self._in_place:
            self._run(pointers, alpha, beta, handle)
        else:
            with self.backend.resident(self._adopted(arrays), handle) as addresses:
                moved = [addresses.get(name, 0) for name in self._names]
                counters = self._run(moved, alpha, beta, handle)
        if self._written is not None and arrays[OUT] is not None:
            self._written((out, *(arrays[position] for position in self._outputs)))
        if self._calls_to_direct >= 0 and stream is None:
            self._calls_to_direct -= 1
            if self._calls_to_direct < 0:
                self._direct = self._make_direct(arrays)
        return out, counters

    def _run(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Launch on the backend's addresses, in the order of `operand_names`; returns the counters."""
        for position, offset, nbytes in self._cleared:
            self.backend.clear(pointers[position] + offset, nbytes, stream)
        if self._executable is None:
            return None
        roles = self._roles
        return self._executable(pointers if roles is None else [pointers[role] for role in roles], alpha, beta, stream)

    def _make_reader(self) -> Reader:
        """Make the Reader of the slots, built at the first use: a Plan that is called once does not need it."""
        self._reader = found = reader(self._slots, self._tensors, self._names)
        return found

    def _make_direct(self, arrays: Sequence[Any]) -> DirectCall | None:
        """Build the shortest way for tensors like `arrays`, which fit; a Plan that is called once does not need it."""
        a, b, out = arrays[0], arrays[1], arrays[OUT]
        assert self._executable is not None
        assert self._written is not None
        return direct_call(
            (a, b, out),
            self._slots,
            self._executable,
            exchanged=self._roles is not None,
            device=self._device,
            stream=TORCH.current_stream() if self._device != HOST else lambda device: 0,
            allocate=self._allocate or self._allocator(a),
            written=self._written,
            check_overlap=self.check_overlap,
        )

    def _allocator(self, a: Any) -> Callable[[], Any]:
        """The function that makes outs in the library and on the device of `a`; kept from then on."""
        shape, strides, dtype = self._out_form
        packed = contiguous_strides(shape)
        if all(s == p or extent <= 1 for extent, s, p in zip(shape, strides, packed, strict=True)):
            self._allocate = library_of(a, "a").allocator(a, shape, dtype, self._device)
        else:
            self._allocate = self._refuse_to_allocate
        return self._allocate

    def _refuse_to_allocate(self) -> Any:
        strides = self._slots[-1].signature[2]
        raise ArgumentValueError(
            f"out is missing, and the plan was made for one with strides of {tuple(strides)} elements: pass out="
        )

    def check_overlap(self, arrays: Sequence[Any], pointers: list[int]) -> None:
        """Raise a ValueError if out shares memory with an input of a call, other than with c as a whole."""
        if not self._bounds:
            self._bounds = tuple((slot.position, *slot.bounds()) for slot in self._slots)
        *inputs, (_, low, high) = self._bounds
        low, high = low + pointers[OUT], high + pointers[OUT]
        for index, first, last in inputs:
            if first + pointers[index] < high and low < last + pointers[index]:
                if index == C and self._c_may_be_out and pointers[C] == pointers[OUT]:
                    continue
                # The ranges overlap. Planning decides exactly whether elements do, and reports it.
                activation, expression = self.problem.epilogue.activation, self.problem.epilogue.expression
                adopted = self._adopted(arrays)
                bind(adopted, activation=activation, expression=expression, multiplies=self._multiplies)
        for output in self._outputs:
            self._check_output(output, arrays, pointers)
        self._disjoint = pointers

    def _check_output(self, output: int, arrays: Sequence[Any], pointers: list[int]) -> None:
        """The same for a further output of the expression."""
        spans = {index: (low + pointers[index], high + pointers[index]) for index, low, high in self._bounds}
        low, high = spans.pop(output)
        if any(first < high and low < last for first, last in spans.values()):
            bind(
                self._adopted(arrays),
                activation=None,
                expression=self.problem.epilogue.expression,
                multiplies=self._multiplies,
            )

    def _read_checking(self, arrays: Sequence[Any]) -> list[int]:
        """The addresses of arrays that fit, maybe with better alignment than needed; raises a ValueError for others."""
        pointers = [0] * len(self._names)
        for slot in self._slots:
            name, array = self._names[slot.position], arrays[slot.position]
            if array is None and slot.position == OUT:
                continue
            signature, pointer = describe(array, name)
            if differences := slot.differences(signature, pointer):
                raise ArgumentValueError(f"{name} is not as the plan wants it: {differences}; make another plan")
            pointers[slot.position] = pointer
        return pointers

    def _mismatch(self, arrays: Sequence[Any]) -> ValueError:
        expected = [self._names[slot.position] for slot in self._slots[:-1] if slot.position < OUT]
        given = [name for name, array in zip(OPERANDS[:OUT], arrays, strict=False) if array is not None]
        return ArgumentValueError(
            f"the plan was made for the operands {', '.join(expected)} and called with {', '.join(given)} "
            f"(c counts where beta is not 0): make another plan"
        )

    def _adopted(self, arrays: Sequence[Any]) -> Mapping[str, Operand]:
        named = zip(self._names, arrays, strict=True)
        return {name: adopt(array, name) for name, array in named if array is not None}

    def __copy__(self) -> "Plan":
        return self  # nothing that a caller can see of a Plan changes

    def __deepcopy__(self, memo: object) -> "Plan":
        return self

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a Plan cannot be pickled, since it holds a kernel that is loaded in this process: call tilewright.plan in "
            "the other one, which finds the compiled kernel in the cache"
        )

    def __repr__(self) -> str:
        where = f"{self.backend.name} ({self.backend.hardware.name})"
        return f"<Plan: {self.problem} on {where}: {self.config}; {self.reason}>"


def _cleared(slots: Sequence[Slot], names: Sequence[str], *, runs: bool) -> Iterator[tuple[int, int, int]]:
    """What is zero before a launch: the largest magnitude and, unless a kernel runs, the sums of columns.

    Of each piece: the position of its array, how many bytes it lies behind the address, and its size.
    """
    for slot in slots:
        name = names[slot.position]
        if name == output_key("amax"):
            yield slot.position, 0, fp32.nbytes
        elif name == output_key("column_sums") and not runs:
            (columns,), (stride,) = slot.shape, slot.strides
            if stride == 1:
                yield slot.position, 0, columns * fp32.nbytes
            else:
                yield from ((slot.position, i * stride * fp32.nbytes, fp32.nbytes) for i in range(columns))
