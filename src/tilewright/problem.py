"""What is asked: the shapes, layouts, dtypes and epilogue of one product. Knows no kernel and holds no data."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, get_args

from tilewright.dtypes import DType

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)

MAX_BATCH_DIMS = 4
"""Batch dimensions a kernel takes after neighbours that can be walked with one stride were merged."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """How one operand's matrices lie in memory: everything about it but its pointer.

    Strides count elements and may be zero or negative; `batch_strides` has one entry per dimension of
    `Problem.batch`; `alignment` is the largest power of two, at most 16, that divides the address in bytes.
    """

    dtype: DType
    row_stride: int
    column_stride: int
    batch_strides: tuple[int, ...] = ()
    alignment: int = 16

    @property
    def transposed(self) -> "Matrix":
        """The same memory read with rows and columns exchanged."""
        return replace(self, row_stride=self.column_stride, column_stride=self.row_stride)

    @property
    def is_row_major(self) -> bool:
        """Whether walking a row, rather than a column, follows memory: a stride of 1, else the shorter one."""
        if (self.row_stride == 1) != (self.column_stride == 1):
            return self.column_stride == 1
        return abs(self.column_stride) <= abs(self.row_stride)

    def vector_bytes(self, along: Literal["row", "column"]) -> int:
        """Widest access (16, 8, 4 or 2 bytes...) that is aligned everywhere when walking along one dimension.

        `along="column"` walks the elements of a row. One element's width where the dimension is not contiguous.
        """
        step, other = (
            (self.column_stride, self.row_stride) if along == "column" else (self.row_stride, self.column_stride)
        )
        if step != 1:
            return self.dtype.nbytes
        width = self.alignment
        for stride in (other, *self.batch_strides):
            while (stride * self.dtype.nbytes) % width:
                width //= 2
        return max(width, self.dtype.nbytes)


@dataclass(frozen=True, slots=True)
class Problem:
    """out = activation(alpha * a @ b + beta * c + bias), for every index of `batch`.

    a is (m, k), b is (k, n), out, c and bias are (m, n); broadcast dimensions have stride 0. `c` is None where
    beta is 0, `k` is 0 where alpha is 0: what is not to be read is not there.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    out: Matrix
    batch: tuple[int, ...] = ()
    c: Matrix | None = None
    bias: Matrix | None = None
    activation: str | None = None

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
        """Whether out has no element, so that nothing is to be done."""
        return self.m == 0 or self.n == 0 or self.batch_count == 0

    @property
    def layout(self) -> str:
        """`nt`, `nn`, `tn` or `tt`: t where the matrix is stored transposed (a as (k, m), b as (n, k))."""
        return "".join("n" if matrix.is_row_major else "t" for matrix in (self.a, self.b))

    @property
    def minimum_bytes(self) -> int:
        """Bytes that must cross GMEM: each element of the inputs once, however often used, and of out once."""
        extents = {"a": (self.m, self.k), "b": (self.k, self.n)}
        total = 0
        for name, matrix in self.operands():
            shape = (*self.batch, *extents.get(name, (self.m, self.n)))
            strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
            steps = (extent for extent, stride in zip(shape, strides, strict=True) if stride or not extent)
            total += matrix.dtype.nbytes * prod(steps)
        return total

    def operands(self) -> Iterator[tuple[str, Matrix]]:
        """The operands that take part, by name."""
        for name, matrix in (
            ("a", self.a),
            ("b", self.b),
            ("c", self.c),
            ("bias", self.bias),
            ("out", self.out),
        ):
            if matrix is not None:
                yield name, matrix

    @property
    def transposed(self) -> "Problem":
        """The same product as out.T = b.T @ a.T: a column-major `out` becomes a row-major one."""
        return replace(
            self,
            m=self.n,
            n=self.m,
            a=self.b.transposed,
            b=self.a.transposed,
            out=self.out.transposed,
            c=self.c and self.c.transposed,
            bias=self.bias and self.bias.transposed,
        )

    def __str__(self) -> str:
        batch = "x".join(map(str, self.batch)) + " of " if self.batch else ""
        return f"{batch}{self.m}x{self.n}x{self.k} {self.a.dtype} {self.layout} -> {self.out.dtype}"
