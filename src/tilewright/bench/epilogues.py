"""Contenders with an epilogue of a user's own, beside which the plain product shows what it costs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tilewright.arrays import adopt
from tilewright.bench.contender import Absent, Contender, Prepared
from tilewright.bench.contenders import EPILOGUE, OURS, planned
from tilewright.bench.inputs import Inputs
from tilewright.dtypes import fp32
from tilewright.expression.evaluation import Bounded
from tilewright.expression.tree import Expression
from tilewright.planner.binding import bind
from tilewright.planner.choose import choose
from tilewright.problem import OperandForm, key_of, output_key
from tilewright.reference import Array, agree, applied, outputs_agree, stored


class Added(NamedTuple):
    """What a set has besides a and b: the operands and the outputs of the expression by name, and out."""

    operands: dict[str, Any]
    outputs: dict[str, Any]
    out: Any

    def arrays(self) -> dict[str, Any]:
        """As `plan` takes them; it takes no empty mapping for none."""
        return {"out": self.out, "operands": self.operands or None, "outputs": self.outputs or None}


class WithEpilogue(Contender):
    """A Plan with an expression in its epilogue, chosen as that of the plain product.

    forms: of the expression's operands, which have random values of the product's dtype.
    """

    def __init__(self, expression: Expression, forms: Sequence[OperandForm] = ()):
        self.expression, self.forms = expression, tuple(forms)
        gate = f"{expression.gate} " if expression.gate else ""
        outputs = f" -> {','.join(expression.outputs)}" if expression.outputs else ""
        self.name = f"{OURS}: {', '.join([f'{gate}{expression}{outputs}', *map(str, self.forms)])}"

    def prepare(self, inputs: Inputs, choice: Any = None) -> Prepared:
        """Make the operands, and plan for the first set."""
        if inputs.elements.recipe is not None:
            raise Absent("an epilogue is timed without scales: leave --recipe out")
        expression = self.expression
        added = [self._added(inputs) for _ in inputs.sets]
        named = {"a": inputs.sets[0][0], "b": inputs.sets[0][1], "out": added[0].out}
        named |= {key_of(name): array for name, array in added[0].operands.items()}
        named |= {output_key(name): array for name, array in added[0].outputs.items()}
        calls = [(a, b, each.arrays()) for (a, b, _), each in zip(inputs.sets, added, strict=True)]
        try:
            operands = {name: adopt(array, name) for name, array in named.items()}
            problem = bind(operands, activation=None, expression=expression).problem
            chosen = choose(problem, inputs.hardware, measured=False)
            prepared = planned(
                calls, chosen.kernel, chosen.config, chosen.reason, epilogue=expression.text, gate=expression.gate
            )
        except (NotImplementedError, ValueError) as refusal:
            raise Absent(str(refusal)) from None
        about = prepared.about | {EPILOGUE: str(expression)}
        ending = ExpressionEnding(inputs, expression, added)
        return replace(prepared, about=about, outs=[each.out for each in added], ending=ending)

    def _added(self, inputs: Inputs) -> Added:
        m, n = inputs.shape.m, inputs.shape.n
        columns = n if self.expression.gate is None else n // 2
        shapes = {"acc": (m, n), "amax": (1,), "column_sums": (columns,)}
        outputs = {
            name: inputs.empty(*shapes[name], kind=None if name == "acc" else fp32) for name in self.expression.outputs
        }
        operands = {form.name: inputs.make(*form.shape(m, columns)) for form in self.forms}
        return Added(operands, outputs, inputs.empty(m, columns))


class ExpressionEnding:
    """The results of an expression: the Ending of a WithEpilogue."""

    def __init__(self, inputs: Inputs, expression: Expression, added: Sequence[Added]):
        self._inputs, self._expression, self._added = inputs, expression, added
        self._kind = inputs.problem.out.dtype
        self._sums = Bounded(np.zeros(()), np.zeros(()))

    def expected(self, number: int, sums: Array, error: Array) -> Bounded:
        """The expression of the sums of a set, and the error that each element may have."""
        self._sums = Bounded(sums, error + 2.0**-22 * np.abs(sums))
        numbers = self._inputs.numbers
        operands = {name: numbers(self._rows(array)) for name, array in self._added[number].operands.items()}
        return stored(self._kind, applied(self._expression, self._sums, operands, self._kind))

    def is_complete(self, number: int, out: Any) -> bool:
        """Whether the sums of the compared rows are right, and the other outputs agree with all of out."""
        numbers = self._inputs.numbers
        outputs = {name: numbers(array) for name, array in self._added[number].outputs.items() if name != "acc"}
        right = not outputs or outputs_agree(numbers(out), outputs, self._kind)
        if "acc" in self._added[number].outputs:
            found = numbers(self._rows(self._added[number].outputs["acc"]))
            right &= bool(agree(found, *stored(self._kind, self._sums)).all())
        return right

    def _rows(self, array: Any) -> Any:
        """The compared rows of an array, or the row that stands for all."""
        return array if array.shape[0] == 1 else array[self._inputs.rows]
