"""How a product of row-major matrices is asked of a BLAS, which takes column-major ones.

A row-major matrix of m x n is, byte for byte, the column-major matrix of n x m that is its transpose. So a BLAS that is
asked for the transpose of the product, out.T = op(B).T @ op(A).T, writes the row-major product, and no operand moves:
the operands change places, and so do m and n.
"""

from typing import Literal, NamedTuple

from tilewright.rounding import MOST_COUNTED, natural, one_of

LAYOUTS = ("nt", "nn", "tn", "tt")
"""Of A and of B: n as the product has it, t stored transposed."""


class BlasCall(NamedTuple):
    """The arguments of a GEMM of a BLAS, in its order: C (m, n) = op(A) (m, k) @ op(B) (k, n), all column-major.

    transa, transb: N: as it is, T: transposed. first, second: which operand of the product is passed as A and as B.
    lda, ldb, ldc: elements from one column to the next.
    """

    transa: Literal["N", "T"]
    transb: Literal["N", "T"]
    m: int
    n: int
    k: int
    first: Literal["a", "b"]
    lda: int
    second: Literal["a", "b"]
    ldb: int
    ldc: int


def blas_call(m: int, n: int, k: int, layout: str = "nt") -> BlasCall:
    """The call for out (m, n) = a @ b with packed row-major matrices in a layout.

    Raises an ArgumentValueError for an unknown layout, or an extent below 1.
    """
    for name, extent in (("m", m), ("n", n), ("k", k)):
        natural(name, extent, 1, MOST_COUNTED)
    one_of("layout", layout, LAYOUTS)
    a, b = layout[0], layout[1]
    return BlasCall(
        transa="T" if b == "t" else "N",
        transb="T" if a == "t" else "N",
        m=n,
        n=m,
        k=k,
        first="b",
        lda=k if b == "t" else n,
        second="a",
        ldb=m if a == "t" else k,
        ldc=n,
    )
