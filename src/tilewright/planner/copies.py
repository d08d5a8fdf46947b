"""Operands that a kernel cannot read where they are: each call copies them to a workspace first."""

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from tilewright.backends.protocol import Executable, Workspaces
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel, Launch
from tilewright.kernels.repack import Part, RepackConfig, RepackKernel, repacking
from tilewright.operand import contiguous_strides
from tilewright.problem import Matrix, Problem
from tilewright.rounding import round_up

REPACK = RepackKernel()
"""The kernel that copies."""

ROW_BYTES = 128
"""Rows of a copy begin on multiples of this many bytes: TMA reads others more slowly (docs/performance-log.md)."""

UNCOUNTED_BYTES = 1 << 26
"""A workspace may always have so many bytes, and else as many as the operands together."""


class Copied(NamedTuple):
    """A problem as a kernel takes it, with copies of operands, often none, in a workspace of `nbytes`.

    repacking: the problem of `repack` that makes the copies. offsets: of each copy in the workspace, by operand.
    reasons: why each is needed.
    """

    problem: Problem
    repacking: Problem | None = None
    offsets: Mapping[str, int] = MappingProxyType({})
    nbytes: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def copies(self) -> tuple[str, ...]:
        """The operands that are copied."""
        return tuple(self.offsets)

    def launches(self, hardware: Hardware) -> list[Launch]:
        """The launch that makes the copies, if there are any."""
        if self.repacking is None:
            return []
        return [REPACK.assemble(RepackConfig(), self.repacking, hardware)]

    def seconds(self, hardware: Hardware, rows: int | None = None) -> float:
        """The predicted time of the copies, or of those of so many rows."""
        if self.repacking is None:
            return 0.0
        repacking = self.repacking if rows is None else self.repacking._replace(m=rows)
        return REPACK.predict(RepackConfig(), repacking, hardware).seconds

    def resized(self, problem: Problem) -> "Copied | None":
        """The same copies of a problem that differs in m; None as in `copying`."""
        return copying(problem, self.copies, self.reasons)

    def remark(self, hardware: Hardware) -> str:
        """What each call copies and why, and what that costs; nothing without copies."""
        if not self.copies:
            return ""
        cost = f"in about {self.seconds(hardware) * 1e6:.0f} us"
        operands = " and ".join(map(self._named, self.copies))
        return f"each call copies {operands} first, {cost}, since {'; '.join(self.reasons)}"

    def _named(self, name: str) -> str:
        """A copy's operand, and whether memory is transposed on the way."""
        turned = self.repacking is not None and Part.of(self.repacking, name).turned
        return f"{name} (transposed)" if turned else name


def copied(problem: Problem, kernel: Kernel, hardware: Hardware) -> Copied | None:
    """The problem with copies of those operands whose layout the kernel refuses; None if it refuses for more.

    None also if the copies take much memory, and more than the operands, since those of a broadcast operand may be any
    number of times as large as itself, and the problem may be given to another kernel.
    """
    asked, names = problem, []
    reasons = []
    while (refusal := kernel.refuses(problem, hardware)) is not None:
        name = refusal.operand
        if name not in ("a", "b") or name in names:
            return None
        names.append(name)
        reasons.append(refusal.reason)
        problem = problem.with_operands({name: _copy(problem, name)[0]})
    return copying(asked, names, tuple(reasons))


def copying(problem: Problem, names: Sequence[str], reasons: tuple[str, ...]) -> Copied | None:
    """The problem with copies of the named operands, each needed for its reason; None if they take too much memory.

    That is much, and more than the operands, unless the problem may be given to no other kernel.
    """
    if not names:
        return Copied(problem)
    copies: dict[str, Matrix] = {}
    offsets: dict[str, int] = {}
    nbytes = 0
    for name in names:
        copies[name], size = _copy(problem, name)
        offsets[name], nbytes = nbytes, nbytes + size
    if nbytes > UNCOUNTED_BYTES and nbytes > problem.minimum_bytes and not problem.batch_invariant:
        return None
    return Copied(problem.with_operands(copies), repacking(problem, copies), offsets, nbytes, reasons)


def _copy(problem: Problem, name: str) -> tuple[Matrix, int]:
    """An operand's copy, and its bytes: packed in the order in which it is stored but for the padding of rows.

    Elements of 1 byte become neighbors along k, since `wgmma` reads no others. Batches that are the same memory stay
    so.
    """
    source: Matrix = getattr(problem, name)
    row_major = _row_major_copy(name, source)
    rows, columns = problem.extents(name)
    if not row_major:
        rows, columns = columns, rows
    batch = problem.batch if any(source.batch_strides) else ()
    row_stride = round_up(columns, ROW_BYTES // source.dtype.nbytes)
    *steps, _, _ = contiguous_strides((*batch, rows, row_stride))
    copy = Matrix(source.dtype, row_stride, 1, tuple(steps) or (0,) * len(problem.batch))
    nbytes = prod((*batch, rows, row_stride)) * source.dtype.nbytes
    return (copy if row_major else copy.transposed), nbytes


def _row_major_copy(name: str, source: Matrix) -> bool:
    return source.is_row_major if source.dtype.nbytes > 1 else name == "a"


class CopyingExecutable:
    """An Executable that copies operands to a workspace of its own before each launch."""

    def __init__(
        self, copied: Copied, repack: Executable, multiply: Executable, workspaces: Workspaces, exchanged: bool
    ):
        """exchanged: whether `multiply` takes a as b, and is called with pointers in that order."""
        workspaces.prepare_workspace()
        self._repack, self._multiply, self._workspaces, self._nbytes = repack, multiply, workspaces, copied.nbytes
        self._a, self._b = (1, 0) if exchanged else (0, 1)
        places = {"a": self._a, "b": self._b}
        self._copies = tuple((places[name], offset) for name, offset in copied.offsets.items())

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Copy and multiply, in the order of the stream; returns what the product's launch returns, and all counts."""
        pointers, copies = list(pointers), [0, 0]
        a, b = self._a, self._b
        sources = pointers[a], pointers[b]
        with self._workspaces.workspace(self._nbytes, stream) as workspace:
            for role, offset in self._copies:
                pointers[role] = copies[role] = workspace + offset
            counted = self._repack([*sources, copies[a], copies[b], 0], 1.0, 1.0, stream)
            counters = self._multiply(pointers, alpha, beta, stream)
        if counters is not None:
            counters.merge(counted)
        return counters
