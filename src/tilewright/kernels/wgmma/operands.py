"""How `wgmma` finds a problem's operands: A, B and out as TMA walks them, and the ways to store out."""

from math import gcd
from typing import Literal, NamedTuple

from tilewright.dtypes import FP8
from tilewright.kernels import tma
from tilewright.kernels.epilogue import has_pairs, scaled_columns
from tilewright.kernels.parameters import TMA_ALIGNMENT
from tilewright.kernels.refusal import Refusal
from tilewright.model.tiling.tiles import Promotion
from tilewright.problem import Matrix, Problem, cuts_k


class TmaOperands(NamedTuple):
    """A, B and out of a problem as TMA walks them, or the reason why it cannot."""

    a: tma.TmaFactor | Refusal
    b: tma.TmaFactor | Refusal
    out: tma.TmaTensor | Refusal

    @property
    def mn_major(self) -> tuple[bool, bool]:
        """Whether A and B are MN-major."""
        return _mn_major(self.a), _mn_major(self.b)


class Stores(NamedTuple):
    """How registers go to out: by columns or by rows, in 16 bytes at a time, and what is left in pairs of elements.

    chunks: 16 bytes at a time of rows that begin at any element.
    """

    by_columns: bool
    vectors: bool
    chunks: bool
    pairs: bool

    @staticmethod
    def of(out: Matrix, m: int, n: int) -> "Stores":
        """Of an (m, n) out."""
        halves = out.dtype.nbytes == 2
        by_columns = halves and out.column_stride != 1 and m % 2 == 0 and out.vector_bytes("row") >= 4
        nbytes, extent = (out.vector_bytes("row"), m) if by_columns else (out.vector_bytes("column"), n)
        vectors = out.dtype.nbytes <= 2 and extent * out.dtype.nbytes % 16 == 0 and nbytes == 16
        chunks = halves and out.column_stride == 1 and not vectors
        return Stores(by_columns, vectors, chunks, extent % 2 == 0 and nbytes >= 2 * out.dtype.nbytes)

    @property
    def scattered(self) -> bool:
        """Whether elements are stored one by one."""
        return not (self.chunks or self.pairs)


_EIGHT = TMA_ALIGNMENT // 2
"""Elements of 2 bytes where a box may begin along the inner dimension (seen on an H200)."""

_last: tuple[Problem, TmaOperands] | None = None


def operands_of(problem: Problem) -> TmaOperands:
    """A problem's operands as TMA walks them; kept for the last problem, since several methods ask in turn."""
    global _last
    if (last := _last) is None or last[0] is not problem:
        last = _last = (problem, _tma_operands(problem))
    return last[1]


def _tma_operands(problem: Problem) -> TmaOperands:
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    out: tma.TmaTensor | Refusal
    row_bytes = problem.columns * problem.out.dtype.nbytes
    if row_bytes % tma.STORE_BYTES:
        out = Refusal(
            f"out has rows of {row_bytes} bytes and TMA stores {tma.STORE_BYTES} at a time, past the end of a row"
        )
    else:
        out = tma.tensor("out", problem.out, m, problem.columns, batch, inner="column")
    a = _factor("a", problem.a, m, k, batch, k="column")
    b = _factor("b", problem.b, k, n, batch, k="row")
    if problem.epilogue.is_stacked and isinstance(b, tma.TmaFactor) and b.mn_major and n // 2 % _EIGHT:
        b = Refusal(
            f"half of b has rows of {n // 2} columns, and TMA reads the other half from a multiple of 8 on: pad both "
            "halves"
        )
    return TmaOperands(a, b, out)


def _factor(
    operand: str, matrix: Matrix, rows: int, columns: int, batch: tuple[int, ...], k: Literal["row", "column"]
) -> tma.TmaFactor | Refusal:
    """A factor as TMA walks it and wgmma takes it: elements of 1 byte are K-major (PTX ISA, "wgmma.mma_async")."""
    factor = tma.factor(operand, matrix, rows, columns, batch, k)
    if matrix.dtype.nbytes > 1 or (isinstance(factor, tma.TmaFactor) and not factor.mn_major):
        return factor
    stride = matrix.row_stride if k == "row" else matrix.column_stride
    if isinstance(factor, Refusal) and stride == 1:
        return factor
    return Refusal(f"{operand} is not contiguous along k, as wgmma reads elements of 1 byte", operand)


def _mn_major(factor: tma.TmaFactor | Refusal) -> bool:
    return isinstance(factor, tma.TmaFactor) and factor.mn_major


def most_accumulators(problem: Problem) -> tuple[int, int]:
    """The most accumulators per thread, as the problem stands and transposed.

    The epilogue's code, unrolled over all of them, then compiles within 1.5 s; its operands are read in pairs of
    columns, of which a transposed problem has none. Long expressions, and those of many operands that are not read in
    pairs, leave few registers, and take some seconds even so.
    """
    epilogue = problem.epilogue
    if epilogue.is_linear:
        return 208, 208
    # Others are accessed once a row, and scales of blocks not at all.
    read = epilogue.operands[2:] if cuts_k(problem.recipe) else epilogue.operands
    operands = [matrix for matrix in (*read, *epilogue.outputs) if matrix.column_stride]
    unpaired = [matrix for matrix in operands if not has_pairs(matrix, problem.columns)]
    if epilogue.expression is not None and (epilogue.expression.operations > 24 or len(unpaired) > 4):
        return 64, 64
    accessed = (problem.out, epilogue.c, epilogue.bias, *operands)
    paired = all(matrix is None or has_pairs(matrix, problem.columns) for matrix in accessed)
    most = 208 if paired and not epilogue.sums_columns else 128
    return most, 64 if len(operands) > 4 else 128


def finish(problem: Problem) -> tuple[float, float]:
    """As in `Limits`: with more sums, three instructions more, or thirteen if an operand is read."""
    instructions = problem.epilogue.instructions
    return instructions, instructions + (13 if problem.epilogue.reads else 3 * bool(instructions))


def scattered(problem: Problem) -> tuple[bool, bool]:
    """Whether out is stored element by element, as the problem stands and transposed.

    That of 4-byte elements was not measured, and counts as no; so does 2-byte out that TMA can store.
    """
    m, n, out = problem.m, problem.columns, problem.out
    if out.dtype.nbytes > 2 or (out.dtype.nbytes == 2 and isinstance(operands_of(problem).out, tma.TmaTensor)):
        return False, False
    return Stores.of(out, m, n).scattered, Stores.of(out.transposed, n, m).scattered


def row_bytes(problem: Problem) -> int:
    """From one row of TMA's boxes to the next: of a, or of b if a's begin on lines of L2; what of it is in 128."""
    a, b, _ = operands_of(problem)
    assert isinstance(a, tma.TmaFactor)
    assert isinstance(b, tma.TmaFactor)
    return gcd(128, (b if a.tensor.strides[0] % 128 == 0 else a).tensor.strides[0])


def multiple_n(problem: Problem) -> int:
    """What tile_n is a multiple of."""
    if problem.columns == problem.n:
        return 8
    return 128 if problem.epilogue.is_stacked and operands_of(problem).mn_major[1] else 16


def promotes(problem: Problem) -> bool:
    """Whether sums leave the tensor cores after every 128 of k: those of fp8, which lose bits there."""
    return problem.a.dtype in FP8 and not problem.fast_accumulation


_PROMOTION = {0: Promotion(1.0, False), 128: Promotion(1.25, False), 1: Promotion(2.5, True)}
"""How products leave the tensor cores, by the columns of b that a scale of a block is for; loads are instructions."""


def promotion(problem: Problem) -> Promotion | None:
    """How the products of a problem leave the tensor cores after every k-block; None if they do not."""
    return _PROMOTION[scaled_columns(problem.recipe)] if promotes(problem) else None
