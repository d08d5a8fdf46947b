"""What calls of a Plan do whatever their number of rows, and what they are checked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.arrays import adopt, describe, is_torch, library_of
from tilewright.backends.protocol import Backend
from tilewright.dtypes import fp32
from tilewright.errors import ArgumentValueError
from tilewright.expression.tree import HIDDEN
from tilewright.operand import HOST, Operand
from tilewright.planner.binding import bind
from tilewright.planner.slots import OUT, C, Slot
from tilewright.problem import EXCHANGED, OPERANDS, Problem, operand_names, output_key

Bounds = Sequence[tuple[int, int, int]]
"""Of each slot: its position, and the first and the one-past-last byte of its elements from the address on."""


class Form:
    """What the Plans of a family have in common: the roles of a call's arrays, their library and their device.

    names: `operand_names`. roles: the place of the operand behind each role, if a and b are exchanged.
    in_place: whether the kernel uses the arrays' own memory. tensors: whether all are torch's.
    stream, written, address: of out's library. outputs: the positions of further outputs.
    cleared: what is zero before a launch: positions, offsets and sizes in bytes. multiplies: whether a and b are read.
    present: which operands between b and out there are. may_be_direct: whether a DirectCall may do.
    scales: the positions of those on the host. is_checked: whether each call's scalars and scales are.
    """

    def __init__(
        self,
        problem: Problem,
        backend: Backend,
        slots: Sequence[Slot],
        arrays: Sequence[Any],
        *,
        multiplies: bool,
        runs: bool,
    ):
        """slots, arrays: as a Plan takes them. runs: whether a kernel does."""
        epilogue, out = problem.epilogue, slots[-1]
        self.backend, self.multiplies = backend, multiplies
        self.activation, self.expression = epilogue.activation, epilogue.expression
        self.names = operand_names(epilogue.expression)
        self.roles = (*EXCHANGED, *range(len(OPERANDS), len(self.names)))
        self.device, self.in_place = out.device, backend.reads_in_place(out.device)
        self.tensors = all(is_torch(array) for array in arrays if array is not None)
        self._libraries = {
            slot.position: library_of(arrays[slot.position], self.names[slot.position]) for slot in slots
        }
        library = self._libraries[OUT]
        self.stream = library.stream_reader(out.device)
        self.written = library.written()
        self.address = library.address
        self.outputs = tuple(self.names.index(name) for name, _ in epilogue.written())
        self.cleared = tuple(_cleared(slots, self.names, runs=runs))
        self.present = tuple([array is not None for array in arrays[C:OUT]])
        plain = multiplies and self.in_place and not any(self.present) and epilogue.expression is None
        self.may_be_direct = bool(runs and plain and self.written and self.tensors)
        out_form = out.shape, out.strides, out.dtype
        self._c_may_be_out = any(
            (slot.shape, slot.strides, slot.dtype) == out_form for slot in slots if slot.position == C
        )
        on_host = (slot.position for slot in slots if slot.device == HOST)
        self.scales = tuple(position for position in on_host if self.names[position] in HIDDEN)
        self.is_checked = bool(self.scales) or out.dtype.kind == "integer"

    def check_overlap(self, arrays: Sequence[Any], pointers: Sequence[int], bounds: Bounds) -> None:
        """Raise a ValueError if out shares memory with an input of a call, other than with c as a whole."""
        *inputs, (_, low, high) = bounds
        low, high = low + pointers[OUT], high + pointers[OUT]
        for index, first, last in inputs:
            if first + pointers[index] < high and low < last + pointers[index]:
                if index == C and self._c_may_be_out and pointers[C] == pointers[OUT]:
                    continue
                # The ranges overlap. Planning decides exactly whether elements do, and reports it.
                self._bind(arrays)
        for output in self.outputs:
            self._check_output(output, arrays, pointers, bounds)

    def _check_output(self, output: int, arrays: Sequence[Any], pointers: Sequence[int], bounds: Bounds) -> None:
        """The same for a further output of the expression."""
        spans = {index: (low + pointers[index], high + pointers[index]) for index, low, high in bounds}
        low, high = spans.pop(output)
        if any(first < high and low < last for first, last in spans.values()):
            self._bind(arrays)

    def _bind(self, arrays: Sequence[Any]) -> None:
        operands = self.adopted(arrays)
        bind(operands, activation=self.activation, expression=self.expression, multiplies=self.multiplies)

    def read_checking(self, arrays: Sequence[Any], slots: Sequence[Slot]) -> list[int]:
        """The addresses of arrays that fit, maybe with better alignment than needed; raises a ValueError for others."""
        pointers = [0] * len(self.names)
        for slot in slots:
            name, array = self.names[slot.position], arrays[slot.position]
            if array is None and slot.position == OUT:
                continue
            signature, pointer = describe(array, name)
            if signature != slot.signature or pointer % slot.alignment:
                self._check_form(array, slot)
            pointers[slot.position] = pointer
        return pointers

    def _check_form(self, array: Any, slot: Slot) -> None:
        """Raise a ValueError unless an array has the slot's form, also if its library describes it otherwise."""
        name = self.names[slot.position]
        operand = adopt(array, name)
        differences = slot.differences(operand)
        if not differences and not self._is_alike(array, slot):
            differences = f"it is a {type(array).__name__}, of another library"
        elif not differences and not operand.writable and (slot.position == OUT or slot.position in self.outputs):
            raise ArgumentValueError(f"{name} is read-only: pass a writable array")
        if differences:
            raise ArgumentValueError(f"{name} is not as the plan wants it: {differences}; make another plan")

    def _is_alike(self, array: Any, slot: Slot) -> bool:
        """Whether an array's library has the streams of the plan's, and is told of changes as that is."""
        here, there = library_of(array, self.names[slot.position]), self._libraries[slot.position]
        return here is there or (slot.device == HOST and here.written() is None and there.written() is None)

    def check_present(self, arrays: Sequence[Any]) -> None:
        """Raise a ValueError if a call has other operands between b and out than the plan was made for."""
        if tuple([array is not None for array in arrays[C:OUT]]) == self.present:
            return
        there = (True, True, *self.present)
        expected = [name for name, wanted in zip(OPERANDS[:OUT], there, strict=True) if wanted]
        given = [name for name, array in zip(OPERANDS[:OUT], arrays, strict=False) if array is not None]
        raise ArgumentValueError(
            f"the plan was made for the operands {', '.join(expected)} and called with {', '.join(given)} "
            f"(c counts where beta is not 0): make another plan"
        )

    def adopted(self, arrays: Sequence[Any]) -> Mapping[str, Operand]:
        """The Operands of a call by name."""
        named = zip(self.names, arrays, strict=True)
        return {name: adopt(array, name) for name, array in named if array is not None}


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
