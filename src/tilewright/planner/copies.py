"""Operands that a kernel cannot read where they are: each call copies them to a workspace first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.backends.protocol import Backend, Executable
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel, Launch
from tilewright.kernels.registry import KERNELS
from tilewright.operand import contiguous_strides
from tilewright.problem import EXCHANGED, OPERANDS, Epilogue, Matrix, Problem
from tilewright.rounding import round_up

ROW_BYTES = 128
"""Rows of a copy begin on multiples of this many bytes: TMA reads others more slowly (docs/performance-log.md)."""

UNCOUNTED_BYTES = 1 << 26
"""A workspace may always have so many bytes, and else as many as the operands together."""


class Copy(NamedTuple):
    """The copy of an operand: a problem that stores it as `out`, `offset` bytes into the workspace."""

    operand: str
    problem: Problem
    offset: int

    def launch(self, hardware: Hardware) -> Launch:
        """The launch that makes it."""
        kernel = KERNELS["copy"]
        return kernel.assemble(kernel.best(self.problem, hardware), self.problem, hardware)

    def seconds(self, hardware: Hardware) -> float:
        """The predicted time that it takes."""
        kernel = KERNELS["copy"]
        prediction = kernel.predict(kernel.best(self.problem, hardware), self.problem, hardware)
        assert prediction is not None
        return prediction.seconds


class Copied(NamedTuple):
    """A problem as a kernel takes it, after `copies`, often none, to a workspace of `nbytes`; `reasons`: for each."""

    problem: Problem
    copies: tuple[Copy, ...]
    nbytes: int
    reasons: tuple[str, ...]

    def seconds(self, hardware: Hardware) -> float:
        """The predicted time of the copies."""
        return sum(copy.seconds(hardware) for copy in self.copies)

    def __str__(self) -> str:
        if not self.copies:
            return ""
        named = " and ".join(copy.operand for copy in self.copies)
        return f"each call copies {named} first, since {'; '.join(self.reasons)}"


def copied(problem: Problem, kernel: Kernel, hardware: Hardware) -> Copied | None:
    """The problem with copies of those operands whose layout the kernel refuses; None if it refuses for more.

    None also if the copies take much memory, and more than the operands: those of a broadcast operand may be any
    number of times as large as itself.
    """
    asked = problem
    copies: dict[str, Copy] = {}
    reasons, nbytes = [], 0
    while (refusal := kernel.refuses(problem, hardware)) is not None:
        name = refusal.operand
        if name is None or name in copies:
            return None
        matrix, making = _copy(problem, name)
        copies[name] = Copy(name, making, nbytes)
        reasons.append(refusal.reason)
        nbytes += making.batch_count * making.m * making.out.row_stride * matrix.dtype.nbytes
        problem = problem.with_operands({name: matrix})
    if nbytes > UNCOUNTED_BYTES and nbytes > asked.minimum_bytes:
        return None
    return Copied(problem, tuple(copies.values()), nbytes, tuple(reasons))


def _copy(problem: Problem, name: str) -> tuple[Matrix, Problem]:
    """An operand's copy: packed in the order in which it is stored but for the padding of rows; and the problem of it.

    Batches that are the same memory stay so.
    """
    source: Matrix = getattr(problem, name)
    rows, columns = problem.extents(name)
    as_stored = source.is_row_major
    if not as_stored:
        source, rows, columns = source.transposed, columns, rows
    batch, strides = problem.batch, source.batch_strides
    shared = not any(strides)
    if shared:
        batch, source = (), source._replace(batch_strides=())
    row_stride = round_up(columns, ROW_BYTES // source.dtype.nbytes)
    *steps, _, _ = contiguous_strides((*batch, rows, row_stride))
    copy = Matrix(source.dtype, row_stride, 1, tuple(steps))
    making = Problem(rows, columns, 0, source, source, copy, batch, Epilogue(c=source))
    place = copy._replace(batch_strides=(0,) * len(strides)) if shared else copy
    return (place if as_stored else place.transposed), making


class CopyingExecutable:
    """An Executable that copies operands to a workspace of its own before each launch."""

    def __init__(
        self, copied: Copied, makers: Sequence[Executable], multiply: Executable, backend: Backend, exchanged: bool
    ):
        """makers: the copies' executables, in order. exchanged: whether `multiply` takes a as b."""
        backend.prepare_workspace()
        self._multiply, self._backend, self._nbytes = multiply, backend, copied.nbytes
        roles = [OPERANDS.index(copy.operand) for copy in copied.copies]
        if exchanged:
            roles = [EXCHANGED[role] for role in roles]
        offsets = [copy.offset for copy in copied.copies]
        self._copies = tuple(zip(makers, roles, offsets, strict=True))

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Copy and multiply, in the order of the stream; returns what the product's launch returns, and all counts."""
        pointers, counted = list(pointers), []
        with self._backend.workspace(self._nbytes, stream) as workspace:
            for make, role, offset in self._copies:
                place = workspace + offset
                counted.append(make([0, 0, pointers[role], 0, place], 1.0, 1.0, stream))
                pointers[role] = place
            counters = self._multiply(pointers, alpha, beta, stream)
        if counters is not None:
            for each in counted:
                counters.merge(each)
        return counters
