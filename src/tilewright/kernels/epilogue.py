"""The compiled-in part of an epilogue: what cuda/epilogue/ reads of a Config, and the CUDA of an expression."""

from functools import cache
from typing import NamedTuple

from tilewright.dtypes import DType
from tilewright.expression.tree import OUT_SCALE, SCALES, Expression
from tilewright.jit.source import Constant, CudaType
from tilewright.kernels.parameters import same_parameters
from tilewright.problem import RECIPES, Matrix, Problem, cuts_k

_FUNCTORS = {None: "Identity", "relu": "Relu", "gelu": "Gelu<{}>", "gelu_tanh": "GeluTanh<{}>", "silu": "Silu"}
"""The functor of each activation in cuda/epilogue/activation.cuh; some take the type of out."""


def stored_at_once(out: Matrix, neighbors: int) -> int:
    """How many neighbors of a row of out one store may write: `neighbors`, 2 or 4, or what is aligned everywhere."""
    return min(out.vector_bytes("column") // out.dtype.nbytes, neighbors)


class EpilogueConstants(NamedTuple):
    """The constants that cuda/epilogue/epilogue.cuh reads; Activation is a functor type."""

    Output: DType
    Addend: DType
    Bias: DType
    has_c: bool
    has_bias: bool
    Activation: CudaType
    store_elements: int
    expression: "ExpressionConstants | None" = None

    @classmethod
    def of(cls, problem: Problem, halves: bool = False, neighbors: int = 2) -> "EpilogueConstants":
        """The epilogue of a problem; it stores two or four elements at a time if out is aligned for them.

        halves: whether half of a tile's columns come from each half of a stacked b, rather than by turns.
        neighbors: the columns that a thread has beside each other, 2 or 4.
        """
        out, epilogue = problem.out, problem.epilogue
        c = None if epilogue.c is None else epilogue.c.dtype
        bias = None if epilogue.bias is None else epilogue.bias.dtype
        constants = cls._of(out.dtype, c, bias, epilogue.activation, stored_at_once(out, neighbors))
        if epilogue.expression is None:
            return constants
        # Of neighbors by turns, a thread makes single columns.
        halves = halves and epilogue.is_stacked
        columns = problem.columns if epilogue.expression.gate is None or halves else 1
        of_sums = columns if epilogue.is_stacked else problem.n
        scales = len(epilogue.expression.scales)
        rows = tuple(
            OperandRow.of(matrix, of_sums if number < scales else columns)
            for number, matrix in enumerate(epilogue.operands)
        )
        written = zip(epilogue.expression.outputs, epilogue.outputs, strict=True)
        outputs = tuple(
            OperandRow.of(matrix, of_sums) if name == "acc" else OperandRow(matrix.dtype, 0, False)
            for name, matrix in written
        )
        return constants._replace(expression=ExpressionConstants(epilogue.expression, out.dtype, rows, outputs))

    @classmethod
    @cache
    def _of(
        cls, out: DType, c: DType | None, bias: DType | None, activation: str | None, store_elements: int
    ) -> "EpilogueConstants":
        return cls(
            Output=out,
            Addend=c or out,
            Bias=bias or out,
            has_c=c is not None,
            has_bias=bias is not None,
            Activation=CudaType(_FUNCTORS[activation].format(out.cuda)),
            store_elements=store_elements,
        )

    @property
    def gate(self) -> str | None:
        """How columns of sums become pairs, if they do."""
        return None if self.expression is None else self.expression.expression.gate

    @property
    def is_stacked(self) -> bool:
        """Whether they are half of b apart."""
        return self.gate == "stacked"

    @property
    def sums_columns(self) -> bool:
        """Whether the results are also added over rows."""
        return self.expression is not None and "column_sums" in self.expression.expression.outputs

    @property
    def scaled_columns(self) -> int:
        """The columns of a block of b that has a scale of its own; 0 without scales that change along k."""
        return 0 if self.expression is None else scaled_columns(self.expression.expression.recipe)

    def by_name(self) -> dict[str, Constant | DType]:
        """The constants by name as CUDA knows them."""
        values = self._asdict()
        if values.pop("expression") is not None:
            values["Expression"] = CudaType(_STRUCT)
        gated = self.gate is not None
        return values | {
            "gated": gated,
            "stacked": self.is_stacked,
            "sums_columns": self.sums_columns,
            "scaled_columns": self.scaled_columns,
        }

    @property
    def parameters(self) -> str:
        """The type of the parameters that the kernel takes."""
        return "GemmParameters" if self.expression is None else self.expression.parameters

    @property
    def static_asserts(self) -> tuple[tuple[str, str], ...]:
        """What must hold of these parameters beyond SAME_PARAMETERS."""
        return () if self.expression is None else (same_parameters(self.parameters, self.expression.matrices),)

    @property
    def definitions(self) -> str:
        """The CUDA of the expression."""
        return "" if self.expression is None else self.expression.definition


_STRUCT = "EpilogueExpression"


class OperandRow(NamedTuple):
    """What is compiled in of an operand or an output: its type, its step along a row if it is 0 or 1, else -1.

    pairs: whether two neighbors are accessed at once. alike: whether all rows are one.
    """

    dtype: DType
    step: int
    pairs: bool
    alike: bool = False

    @classmethod
    def of(cls, matrix: Matrix, columns: int) -> "OperandRow":
        """Of an operand with so many columns."""
        step = matrix.column_stride if matrix.column_stride in (0, 1) else -1
        pairs, alike = step != 0 and has_pairs(matrix, columns), matrix.row_stride == 0
        return cls(matrix.dtype, step, pairs, alike)

    @property
    def operand(self) -> str:
        """The type of an operand's rows."""
        return f"OperandRow<{self.dtype.cuda}, {self.step}, {_flag(self.pairs)}, {_flag(self.alike)}>"

    @property
    def whole(self) -> str:
        """The type of the rows of an operand of whole numbers."""
        return f"WholeRow<{self.step}, {_flag(self.pairs)}, {_flag(self.alike)}>"

    @property
    def sums(self) -> str:
        """The type of the rows of an output of sums."""
        return f"SumsRow<{self.dtype.cuda}, {self.step}, {_flag(self.pairs)}>"


class ExpressionConstants(NamedTuple):
    """An expression with what is compiled in of its result, its operands and its outputs, in its order."""

    expression: Expression
    out: DType
    rows: tuple[OperandRow, ...]
    outputs: tuple[OperandRow, ...] = ()

    @property
    def parameters(self) -> str:
        """The type of the parameters of its kernels."""
        return f"ExpressionParameters<{self.matrices}>" if self.matrices else "GemmParameters"

    @property
    def matrices(self) -> int:
        """The number of operands and outputs."""
        return len(self.rows) + len(self.outputs)

    @property
    def definition(self) -> str:
        """The struct that cuda/epilogue/expression.cuh describes."""
        names = {name: name for name in self.expression.sums} | {name: f"{name}_" for name in self.expression.named}
        scales = len(self.expression.scales)
        rows = [row.operand for row in self.rows]
        formal = ", ".join(f"float {name}" for name in names.values())
        written = {
            "acc": "using Sums = {};",
            "amax": "using Maximum = MaximumRow;",
            "column_sums": "static constexpr bool sums_columns = true;",
        }
        named = zip(self.expression.outputs, self.outputs, strict=True)
        defined = "".join(f"  {written[name].format(row.sums)}\n" for name, row in named)
        if columns := scaled_columns(self.expression.recipe):
            defined = f"  using Blocks = BlockScales<{columns}>;\n{defined}"
        elif self.expression.recipe is not None:
            zero = ""
            if self.expression.sums_b:
                zero = "  using Zero = ZeroRow;\n"
            elif self.expression.has_zero:
                zero_a, sums_of_b = (row.whole for row in self.rows[len(SCALES) : len(SCALES) + 2])
                zero = f"  using Zero = ShiftRow<{zero_a}, {sums_of_b}>;\n"
            defined = f"  using Scales = OperandRows<{', '.join(rows[: len(SCALES)])}>;\n{zero}{defined}"
        if OUT_SCALE in self.expression.scales:
            defined = f"  using Stored = OutScale;\n{defined}"
        return f"""\
// {self.expression}
struct {_STRUCT} : ExpressionDefaults {{
  using Output = {self.out.cuda};
  using Operands = OperandRows<{", ".join(rows[scales:])}>;
{defined}
  static __device__ __forceinline__ float apply({formal}) {{
    return {self.expression.cuda(names)};
  }}
}};"""


def scaled_columns(recipe: str | None) -> int:
    """The columns of a block of b that has a scale of its own; 0 without scales that change along k."""
    return (RECIPES[recipe][1].columns or 0) if recipe is not None and cuts_k(recipe) else 0


def _flag(value: bool) -> str:
    return str(value).lower()


def has_pairs(matrix: Matrix | None, columns: int) -> bool:
    """Whether columns 2i and 2i + 1 of all rows can be accessed at once."""
    return matrix is not None and columns % 2 == 0 and matrix.vector_bytes("column") >= 2 * matrix.dtype.nbytes
