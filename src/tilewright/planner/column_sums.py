"""Sums of columns: a product leaves those of groups of rows in a workspace, and a launch behind it adds them."""

from typing import Any

from tilewright.backends.protocol import Backend, Executable
from tilewright.hardware import Hardware
from tilewright.kernels.column_sums import ColumnSumsConfig, ColumnSumsKernel, summing
from tilewright.kernels.kernel import Launch
from tilewright.problem import OPERANDS, Problem, operand_names, output_key

ADD = ColumnSumsKernel()
"""The kernel that adds."""


def adding(problem: Problem, hardware: Hardware) -> list[Launch]:
    """The launch behind a product that sums columns; none behind others."""
    sums = summing(problem)
    return [] if sums is None else [ADD.assemble(ColumnSumsConfig(), sums, hardware)]


class SummingExecutable:
    """An Executable that sums columns with a workspace of its own in each launch."""

    def __init__(self, problem: Problem, multiply: Executable, add: Executable, backend: Backend):
        backend.prepare_workspace()
        self._multiply, self._add, self._backend = multiply, add, backend
        names = operand_names(problem.epilogue.expression)
        self._place = names.index(output_key("column_sums"))
        sums = summing(problem)
        assert sums is not None
        self._nbytes = sums.k * sums.n * sums.b.dtype.nbytes

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Multiply and add, in the order of the stream; returns what the product's launch returns, and all counts."""
        pointers = list(pointers)
        ends = dict.fromkeys(OPERANDS, 0) | {"out": pointers[self._place]}
        with self._backend.workspace(self._nbytes, stream) as workspace:
            ends["b"] = pointers[self._place] = workspace
            counters = self._multiply(pointers, alpha, beta, stream)
            counted = self._add(list(ends.values()), 1.0, 0.0, stream)
        if counters is not None:
            counters.merge(counted)
        return counters
