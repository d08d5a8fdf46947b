"""The Problem: shapes, layouts, dtypes and epilogue of one product. It knows no kernel and holds no data."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

from tilewright.dtypes import FP8, DType
from tilewright.expression.tree import HIDDEN, OUTPUTS, SCALES, Expression, finished_text, instructions_of
from tilewright.hardware import sector_bytes
from tilewright.rounding import ceil_div

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)

Extent: TypeAlias = Literal["m", "n", "k"]

PROMOTED = 128
"""Sums of fp8 leave the tensor cores, which lose bits of them, after so many products, unless told otherwise."""

ADDENDS = ("c", "bias")
"""The operands of the epilogue, which broadcast to the result."""

EXTENTS: dict[str, tuple[Extent, Extent]] = {
    "a": ("m", "k"),
    "b": ("k", "n"),
    **dict.fromkeys(ADDENDS, ("m", "n")),
    "out": ("m", "n"),
}
"""Every operand by name, with the extents of its rows and columns."""

OPERANDS = tuple(EXTENTS)
"""The order in which kernels take operands, and executables their addresses; those of an expression follow."""

EXCHANGED = tuple(OPERANDS.index({"a": "b", "b": "a"}.get(name, name)) for name in OPERANDS)
"""The place in OPERANDS of the operand behind each role, if the transposed product is computed."""


def operand_names(expression: Expression | None) -> tuple[str, ...]:
    """OPERANDS and what an expression reads and writes, by the names that they have beside those."""
    if expression is None:
        return OPERANDS
    return (*OPERANDS, *map(key_of, expression.operands), *map(output_key, expression.outputs))


def key_of(name: str) -> str:
    """What an operand of an expression is called beside a, b, c and the others: as its user reaches it."""
    return name if name in HIDDEN else f"operands[{name!r}]"


def output_key(name: str) -> str:
    """The same of a further output."""
    return f"outputs[{name!r}]"


class Blocks(NamedTuple):
    """The rows and columns of a matrix that one scale is for; None for all of them."""

    rows: int | None = None
    columns: int | None = None

    def shape(self, rows: int, columns: int) -> tuple[int, int]:
        """The shape of the scales of a matrix; blocks at its edges may be partial."""
        return (
            1 if self.rows is None else ceil_div(rows, self.rows),
            1 if self.columns is None else ceil_div(columns, self.columns),
        )

    @property
    def cuts_k(self) -> bool:
        """Whether a row of a matrix has several scales, or a column, so that sums cannot be scaled as a whole."""
        return 128 in self


RECIPES: dict[str, tuple[Blocks, Blocks]] = {
    "tensor": (Blocks(), Blocks()),
    "row": (Blocks(rows=1), Blocks(columns=1)),
    "1x128_128x128": (Blocks(1, 128), Blocks(128, 128)),
    "1x128_1x128": (Blocks(1, 128), Blocks(128, 1)),
}
"""What each scale of a (m, k) and of b (k, n) is for."""


def cuts_k(recipe: str | None) -> bool:
    """Whether scales change along k."""
    return recipe is not None and RECIPES[recipe][0].cuts_k


QUANTIZED = tuple(f"out[{number}]" for number in range(4))
"""What `quantize` writes: codes and scale of x, and then of x transposed."""

WRITTEN = ("out", *map(output_key, OUTPUTS), *QUANTIZED)
"""The operands that a kernel writes."""

MAX_BATCH_DIMS = 4
"""The most batch dimensions of a kernel, after neighbors that one stride can walk are merged."""


class Matrix(NamedTuple):
    """The place of one operand's matrices in memory: everything except the pointer.

    Strides count elements and may be zero or negative; `batch_strides` has one entry per dimension of `Problem.batch`;
    `alignment` is the largest power of two, at most 16, that divides the address in bytes.
    """

    dtype: DType
    row_stride: int
    column_stride: int
    batch_strides: tuple[int, ...] = ()
    alignment: int = 16

    @property
    def transposed(self) -> "Matrix":
        """The same memory read with rows and columns exchanged."""
        return Matrix(self.dtype, self.column_stride, self.row_stride, self.batch_strides, self.alignment)

    @property
    def is_row_major(self) -> bool:
        """Whether walking a row, rather than a column, follows memory: a stride of 1, else the shorter stride."""
        if (self.row_stride == 1) != (self.column_stride == 1):
            return self.column_stride == 1
        return abs(self.column_stride) <= abs(self.row_stride)

    def vector_bytes(self, along: Literal["row", "column"]) -> int:
        """The widest access (16, 8, 4 or 2 bytes...) that is aligned everywhere when walking along one dimension.

        `along="column"` walks the elements of a row. The result is one element's width if the dimension is not
        contiguous.
        """
        step, other = (
            (self.column_stride, self.row_stride) if along == "column" else (self.row_stride, self.column_stride)
        )
        if step != 1:
            return self.dtype.nbytes
        nbytes = self.dtype.nbytes
        bits = self.alignment | other * nbytes
        for stride in self.batch_strides:
            bits |= stride * nbytes
        return max(bits & -bits, nbytes)  # the lowest bit: the largest power of two that divides them all


def merged_batch(batch: tuple[int, ...], matrices: Mapping[str, Matrix]) -> tuple[tuple[int, ...], dict[str, Matrix]]:
    """The batch without dimensions of extent 1, and with neighbors that all matrices walk with one stride as one."""
    dims: list[tuple[int, dict[str, int]]] = []
    for position, extent in enumerate(batch):
        if extent == 1:
            continue
        strides = {name: matrix.batch_strides[position] for name, matrix in matrices.items()}
        if dims and all(dims[-1][1][name] == stride * extent for name, stride in strides.items()):
            dims[-1] = (dims[-1][0] * extent, strides)
        else:
            dims.append((extent, strides))
    merged = {
        name: matrix._replace(batch_strides=tuple(strides[name] for _, strides in dims))
        for name, matrix in matrices.items()
    }
    return tuple(extent for extent, _ in dims), merged


class OperandForm(NamedTuple):
    """An operand of an expression, and whether it has an element of its own for each row and for each column."""

    name: str
    rows: bool
    columns: bool

    def shape(self, m: int, n: int) -> tuple[int, int]:
        """Its shape beside a result of (m, n)."""
        return (m if self.rows else 1), (n if self.columns else 1)

    def __str__(self) -> str:
        extents = [name for name, own in (("m", self.rows), ("n", self.columns)) if own]
        shape = "m,1" if extents == ["m"] else ",".join(extents) or "1"
        return f"{self.name}={shape}"

    def matrix(self, dtype: DType, n: int) -> Matrix:
        """The place of a packed one."""
        return Matrix(dtype, (n if self.columns else 1) if self.rows else 0, int(self.columns))


class Epilogue(NamedTuple):
    """The operation on a sum before it is stored: activation(alpha * sum + beta * c + bias), or an expression.

    c, bias: the ADDENDS' places in memory, None if they are not read.
    activation: one of ACTIVATIONS, or None.
    expression: what becomes of alpha * sum, without c, bias and activation; operands: those of the expression, in its
    order. If it has a gate, it makes one column of two. outputs: those of the expression, in its order; what is one
    number has strides of 0.
    """

    c: Matrix | None = None
    bias: Matrix | None = None
    activation: str | None = None
    expression: Expression | None = None
    operands: tuple[Matrix, ...] = ()
    outputs: tuple[Matrix, ...] = ()

    @property
    def text(self) -> str:
        """What becomes of the sum, as an expression; `acc` if nothing does."""
        if self.expression is not None:
            return self.expression.text
        sums = "acc" + " + beta * c" * (self.c is not None) + " + bias" * (self.bias is not None)
        return finished_text(self.activation, sums=sums)

    @property
    def is_linear(self) -> bool:
        """Whether the result is alpha * sum, or its positive part: no operand is read and no function is computed."""
        plain = self.c is None and self.bias is None and self.expression is None
        return plain and self.activation in (None, "relu")

    @property
    def reads(self) -> int:
        """How many operands it reads, but for scales and zero points."""
        return sum(name not in HIDDEN for name, _ in self.read())

    @property
    def instructions(self) -> float:
        """About how many it takes to finish a sum: three to read an operand."""
        if self.is_linear:
            return 0.0
        if self.expression is None:
            return instructions_of(filter(None, [self.activation])) + 4 * self.reads
        return (self.expression.instructions + 3 * self.reads) / len(self.expression.sums)

    @property
    def sums_columns(self) -> bool:
        """Whether the results are also added over rows."""
        return self.expression is not None and "column_sums" in self.expression.outputs

    @property
    def is_stacked(self) -> bool:
        """Whether columns are paired over half of b."""
        return self.expression is not None and self.expression.gate == "stacked"

    @property
    def keeps_columns(self) -> bool:
        """Whether columns mean something by themselves, so that the transposed product is another one."""
        expression = self.expression
        return expression is not None and (
            self.sums_columns or expression.gate is not None or cuts_k(expression.recipe) or expression.sums_b
        )

    @property
    def transposed(self) -> "Epilogue":
        """The same of the transposed result."""
        if self.c is None and self.bias is None and not (self.operands or self.outputs):
            return self
        return self._replace(
            c=self.c and self.c.transposed,
            bias=self.bias and self.bias.transposed,
            operands=tuple(matrix.transposed for matrix in self.operands),
            outputs=tuple(matrix.transposed for matrix in self.outputs),
        )

    def read(self) -> Iterator[tuple[str, Matrix]]:
        """Everything that is read besides the sum, by name."""
        for name in ADDENDS:
            matrix: Matrix | None = getattr(self, name)
            if matrix is not None:
                yield name, matrix
        if self.expression is not None:
            yield from zip(map(key_of, self.expression.operands), self.operands, strict=True)

    def written(self) -> Iterator[tuple[str, Matrix]]:
        """The further outputs, by name."""
        if self.expression is not None:
            yield from zip(map(output_key, self.expression.outputs), self.outputs, strict=True)


FAST = "fast"
"""What the text of factors says of sums of fp8 that may stay in the tensor cores."""


def factors_text(a: DType, b: DType, recipe: str | None, fast_accumulation: bool) -> str:
    """The types of a and b, and what else of them is not usual, such as `fp8_e4m3 by fp8_e5m2 row fast`."""
    words = [a.name, *([] if b is a else ["by", b.name]), *([] if recipe is None else [recipe])]
    return " ".join([*words, *([FAST] if fast_accumulation else [])])


class Problem(NamedTuple):
    """The product out = activation(alpha * a @ b + beta * c + bias), or of an expression, for every index of `batch`.

    a is (m, k), b is (k, n), and all others are (m, n), as in EXTENTS; broadcast dimensions have stride 0. The
    epilogue has no c if beta is 0, and `k` is 0 if alpha is 0: operands that are not read do not appear. With
    `batch_invariant`, the bits of a row of out depend on no other row, nor on how many there are. With
    `fast_accumulation`, sums of fp8 may stay in the tensor cores, which cut them.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    out: Matrix
    batch: tuple[int, ...] = ()
    epilogue: Epilogue = Epilogue()
    batch_invariant: bool = False
    fast_accumulation: bool = False

    @property
    def recipe(self) -> str | None:
        """Which of RECIPES the scales follow; None without scales."""
        return None if self.epilogue.expression is None else self.epilogue.expression.recipe

    @property
    def cut_after(self) -> int | None:
        """How many products of fp8 tensor cores add, which cut their sums, until fp32 takes over; None for others."""
        if self.a.dtype not in FP8:
            return None
        return max(self.k, 1) if self.fast_accumulation else PROMOTED

    @property
    def batch_count(self) -> int:
        """Number of matrix products."""
        count = 1
        for extent in self.batch:
            count *= extent
        return count

    @property
    def flops(self) -> int:
        """Multiplications and additions of the product itself."""
        return 2 * self.batch_count * self.m * self.n * self.k

    @property
    def is_empty(self) -> bool:
        """Whether out has no element, so there is nothing to do."""
        return self.m == 0 or self.n == 0 or self.batch_count == 0

    @property
    def layout(self) -> str:
        """`nt`, `nn`, `tn` or `tt`: t where the matrix is stored transposed (a as (k, m), b as (n, k))."""
        return ("n" if self.a.is_row_major else "t") + ("n" if self.b.is_row_major else "t")

    @property
    def minimum_bytes(self) -> int:
        """Bytes that must cross GMEM: each sector of the inputs once, however often it is used, and of out once."""
        return sum(self.crossing_bytes(*operand) for operand in self.operands())

    def crossing_bytes(self, name: str, matrix: Matrix) -> int:
        """Bytes of an operand: the elements, which strides of 0 repeat, and what lies between them in their sectors."""
        strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
        return sector_bytes((*self.batch, *self.extents(name)), strides, matrix.dtype.nbytes)

    def extents(self, operand: str) -> tuple[int, int]:
        """Rows and columns of an operand's matrices."""
        if operand in ("a", "b"):
            rows, columns = EXTENTS[operand]
            return getattr(self, rows), getattr(self, columns)
        if operand in SCALES and cuts_k(self.recipe):
            side = SCALES.index(operand)
            return RECIPES[self.recipe or ""][side].shape(*self.extents("ab"[side]))
        if operand in (output_key("acc"), *HIDDEN):
            return self.m, self.n
        return self.m, self.columns

    def with_rows(self, rows: int, *, exchanged: bool = False) -> "Problem":
        """The same problem with another m; exchanged: with another n, since it is the transposed one."""
        extents = (self.m, rows) if exchanged else (rows, self.n)
        return Problem._make((*extents, *self[2:]))  # half the time of _replace

    @property
    def columns(self) -> int:
        """Columns of the result: n, or half of it with a gate."""
        expression = self.epilogue.expression
        return self.n if expression is None or expression.gate is None else self.n // 2

    def operands(self) -> Iterator[tuple[str, Matrix]]:
        """The operands that take part, by name, in the order of OPERANDS, and then those of an expression."""
        for name in OPERANDS:
            matrix = getattr(self.epilogue if name in ADDENDS else self, name)
            if matrix is not None:
                yield name, matrix
        if self.epilogue.expression is not None:
            yield from (each for each in self.epilogue.read() if each[0] not in ADDENDS)
            yield from self.epilogue.written()

    def with_operands(self, matrices: Mapping[str, Matrix]) -> "Problem":
        """The same problem with other matrices for the named operands."""
        added = {name: matrix for name, matrix in matrices.items() if name in ADDENDS}
        multiplied = {name: matrix for name, matrix in matrices.items() if name in OPERANDS and name not in ADDENDS}
        epilogue = self.epilogue._replace(**added) if added else self.epilogue  # type: ignore[arg-type]
        if epilogue.expression is not None:
            read = (each for each in epilogue.read() if each[0] not in ADDENDS)
            epilogue = epilogue._replace(
                operands=tuple(matrices.get(name, old) for name, old in read),
                outputs=tuple(matrices.get(name, old) for name, old in epilogue.written()),
            )
        return self._replace(epilogue=epilogue, **multiplied)  # type: ignore[arg-type]

    def with_strides(self, name: str, row: int, column: int) -> "Problem":
        """The same problem with other strides of rows and columns of the named operand."""
        matrix = dict(self.operands())[name]
        return self.with_operands({name: matrix._replace(row_stride=row, column_stride=column)})

    @property
    def transposed(self) -> "Problem":
        """The same product as out.T = b.T @ a.T: a column-major `out` becomes a row-major one."""
        a, b, out = self.b.transposed, self.a.transposed, self.out.transposed
        return self._replace(m=self.n, n=self.m, a=a, b=b, out=out, epilogue=self.epilogue.transposed)

    def __str__(self) -> str:
        batch = "x".join(map(str, self.batch)) + " of " if self.batch else ""
        factors = factors_text(self.a.dtype, self.b.dtype, self.recipe, self.fast_accumulation)
        return f"{batch}{self.m}x{self.n}x{self.k} {factors} {self.layout} -> {self.out.dtype}"
