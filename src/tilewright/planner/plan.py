"""A Plan: one Problem bound to a kernel, its Config and a backend, prepared so that a call does little but launch."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

from tilewright.arrays import library_of
from tilewright.arrays.torch import TORCH
from tilewright.backends.protocol import Executable
from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.kernel import Kernel
from tilewright.operand import HOST, contiguous_strides
from tilewright.planner.call_arguments import NamedArrays, check_alpha, in_order, scalars, stream_handle
from tilewright.planner.choose import Choice
from tilewright.planner.direct_call import DirectCall, direct_call
from tilewright.planner.form import Bounds, Form
from tilewright.planner.scaling import check_values
from tilewright.planner.slots import OUT, C, Reader, Slot, out_allocator, reader, with_out
from tilewright.problem import Problem

_CALLS_TO_DIRECT = 1
"""The number of calls before the shortest way is built; building it costs more than a call."""


class Prepared(NamedTuple):
    """The kernel and Config of a Plan, compiled and loaded.

    choice: the product's; where nothing is copied, maybe that of another m. exchanged: whether its a is the problem's
    b.
    """

    choice: Choice
    compiled: CompiledKernel
    executable: Executable
    exchanged: bool


class Plan:
    """A Problem bound to a kernel, its Config and a backend. Call it with arrays like those it was made for.

    `problem` is the Problem and `backend` the backend. `alpha` and `beta` are those it was planned with, and the
    defaults of its calls; `beta` is None without c.
    """

    def __init__(
        self,
        form: Form,
        problem: Problem,
        prepared: Prepared | None,
        slots: Callable[[], Sequence[Slot]],
        pointers: list[int],
        *,
        alpha: float,
        beta: float | None,
        allocate: Callable[[], Any] | None = None,
        bounds: Bounds = (),
    ):
        """Prepare calls with arrays that fit `slots`; `prepared` is None if out has no elements.

        slots: makes those of inputs in their order, and out's as the last, which a Plan that is called once needs not.
        pointers: the addresses of the arrays that it is made for, in the order of `operand_names`, 0 for those that are
        not there; they do not overlap. `beta` is None without c. `allocate` makes an out; by default an out is made
        like the first call's a. bounds: those of the slots, if they are known.
        """
        self.alpha, self.beta = alpha, beta
        self.problem = problem
        self.backend = form.backend
        self.form = form
        self._prepared = prepared
        self._executable = prepared.executable if prepared else None
        self._make_slots = slots
        self._reader: Reader | None = None  # building it costs more than a call
        self._allocate = allocate
        self._disjoint = pointers  # addresses that are known not to overlap
        self._bounds = bounds
        self._direct: DirectCall | None = None
        self._calls_to_direct = _CALLS_TO_DIRECT if form.may_be_direct else -1  # never
        self._roles = form.roles if prepared and prepared.exchanged else None

    @property
    def kernel(self) -> Kernel | None:
        """The kernel; None if out has no elements, since nothing runs."""
        return self._prepared.choice.kernel if self._prepared else None

    @property
    def config(self) -> Any:
        """The kernel's Config; None if nothing runs."""
        return self._prepared.choice.config if self._prepared else None

    @property
    def compiled(self) -> CompiledKernel | None:
        """The compiled kernel, on the emulator without machine code; None if nothing runs."""
        return self._prepared.compiled if self._prepared else None

    @property
    def reason(self) -> str:
        """Why the kernel was chosen, in a sentence."""
        if not self._prepared:
            return "out has no elements, so nothing runs"
        return "; ".join(self._prepared.choice.reasons_for(self.problem))

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The expected form of each array of a call, in the order of `operand_names`, but with out's as the last."""
        return tuple(self._make_slots())

    @property
    def pointers(self) -> list[int]:
        """The addresses of the arrays that it was last called with, or else made for, in that order."""
        return self._disjoint.copy()

    @property
    def accumulator(self) -> DType:
        """The type in which products are added; fp32 if nothing runs."""
        kernel = self.kernel
        return fp32 if kernel is None else kernel.accumulator(self.config)

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
        number and for arrays that no plan takes.
        """
        if TORCH.traces():
            return TORCH.untraced(self.__call__)(
                a, b, c, bias=bias, alpha=alpha, beta=beta, operands=operands, outputs=outputs, scale_a=scale_a,
                scale_b=scale_b, zero_a=zero_a, scale_out=scale_out, out=out, stream=stream,
            )  # fmt: skip
        unscaled = self.alpha == 1 if alpha is None else type(alpha) is float and alpha == 1.0
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
        bias, of_expression = in_order(expression, arrays[C + 1], named)
        if bias is not arrays[C + 1] or of_expression:
            arrays = (*arrays[: C + 1], bias, arrays[OUT], *of_expression)
        if alpha is None:
            alpha = self.alpha
        if beta is None and c is not None:
            beta = self.beta
        alpha, beta = scalars(c, alpha, beta)
        if beta == 0:
            arrays = (*arrays[:C], None, *arrays[C + 1 :])
        self.form.check_present(arrays)
        multiplies = self.form.multiplies
        if (alpha != 0) is not multiplies:
            raise ArgumentValueError(
                f"alpha={alpha}: this plan was made for alpha {'other than' if multiplies else 'of'} 0 (a and b "
                f"are not read where it is 0): make another plan"
            )
        if pointers is None:
            read = self._reader or self._make_reader()
            pointers = read(arrays) or self.form.read_checking(arrays, self.slots)
        return self.launch(arrays, pointers, alpha, beta, stream)

    def launch(
        self, arrays: Sequence[Any], pointers: list[int], alpha: float, beta: float, stream: Any
    ) -> tuple[Any, Any]:
        """Launch on arrays that fit and their addresses, 0 for a missing out; returns out and the counters."""
        form, out = self.form, arrays[OUT]
        handle = None if stream is None else stream_handle(stream, self.backend)
        if out is None:
            with nullcontext() if handle is None else library_of(arrays[0], "a").on_stream(handle, form.device):
                out = (self._allocate or self._allocator(arrays[0]))()
            arrays = with_out(arrays, out)
            pointers[OUT] = form.address(out)
        if pointers != self._disjoint:
            self.check_overlap(arrays, pointers)
        if form.is_checked:
            check_alpha(self.problem, alpha)
            check_values({form.names[position]: arrays[position] for position in form.scales})
        if self._executable is None and not form.cleared:
            return out, None
        counters = None
        if handle is None:
            handle = form.stream(out, form.device)
        if form.in_place:
            self._run(pointers, alpha, beta, handle)
        else:
            with self.backend.resident(form.adopted(arrays), handle) as addresses:
                moved = [addresses.get(name, 0) for name in form.names]
                counters = self._run(moved, alpha, beta, handle)
        if form.written is not None and arrays[OUT] is not None:
            form.written((out, *[arrays[position] for position in form.outputs]))
        if self._calls_to_direct >= 0 and stream is None:
            self._calls_to_direct -= 1
            if self._calls_to_direct < 0:
                self._direct = self._make_direct(arrays)
        return out, counters

    def _run(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Launch on the backend's addresses, in the order of `operand_names`; returns the counters."""
        for position, offset, nbytes in self.form.cleared:
            self.backend.fill(pointers[position] + offset, nbytes, 0, stream)
        if self._executable is None:
            return None
        roles = self._roles
        return self._executable(pointers if roles is None else [pointers[role] for role in roles], alpha, beta, stream)

    def _make_reader(self) -> Reader:
        """Make the Reader of the slots, built at the first use: a Plan that is called once does not need it."""
        self._reader = found = reader(self.slots, self.form.tensors, self.form.names)
        return found

    def _make_direct(self, arrays: Sequence[Any]) -> DirectCall | None:
        """Build the shortest way for tensors like `arrays`, which fit; a Plan that is called once does not need it."""
        a, b, out = arrays[0], arrays[1], arrays[OUT]
        form = self.form
        assert self._executable is not None
        assert form.written is not None
        return direct_call(
            (a, b, out),
            self.slots,
            self._executable,
            exchanged=self._roles is not None,
            device=form.device,
            stream=TORCH.current_stream() if form.device != HOST else lambda device: 0,
            allocate=self._allocate or self._allocator(a),
            written=form.written,
            check_overlap=self.check_overlap,
        )

    def _allocator(self, a: Any) -> Callable[[], Any]:
        """The function that makes outs in the library and on the device of `a`; kept from then on."""
        out = self.slots[-1]
        packed = contiguous_strides(out.shape)
        if all(s == p or extent <= 1 for extent, s, p in zip(out.shape, out.strides, packed, strict=True)):
            self._allocate = out_allocator(a, out)
        else:
            self._allocate = self._refuse_to_allocate
        return self._allocate

    def _refuse_to_allocate(self) -> Any:
        strides = self.slots[-1].signature[2]
        raise ArgumentValueError(
            f"out is missing, and the plan was made for one with strides of {tuple(strides)} elements: pass out="
        )

    def check_overlap(self, arrays: Sequence[Any], pointers: list[int]) -> None:
        """Raise a ValueError if out shares memory with an input of a call, other than with c as a whole."""
        if not self._bounds:
            self._bounds = [(slot.position, *slot.bounds()) for slot in self.slots]
        self.form.check_overlap(arrays, pointers, self._bounds)
        self._disjoint = pointers

    def __copy__(self) -> "Plan":
        return self  # nothing that a caller can see of a Plan changes

    def __deepcopy__(self, memo: object) -> "Plan":
        return self

    def __reduce__(self) -> NoReturn:
        raise not_pickled("a Plan")

    def __repr__(self) -> str:
        where = f"{self.backend.name} ({self.backend.hardware.name})"
        return f"<Plan: {self.problem} on {where}: {self.config}; {self.reason}>"


def not_pickled(kind: str) -> ArgumentTypeError:
    """The error about pickling what holds kernels."""
    return ArgumentTypeError(
        f"{kind} cannot be pickled, since it holds kernels that are loaded in this process: call tilewright.plan in "
        f"the other one, which finds the compiled kernels in the cache"
    )
