"""What each call makes in a workspace ahead of its product: copies of operands, and sums of the columns of b."""

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from tilewright.backends.protocol import Executable, Workspaces
from tilewright.dtypes import int8, int32
from tilewright.expression.tree import SUMS_OF_B
from tilewright.hardware import Hardware
from tilewright.kernels.code_sums import CodeSumsConfig, CodeSumsKernel, summing_codes, with_sums
from tilewright.kernels.kernel import Kernel, Launch
from tilewright.kernels.refusal import Refusal
from tilewright.kernels.repack import STREAMED, Part, RepackConfig, RepackKernel, repacking
from tilewright.operand import contiguous_strides
from tilewright.problem import Matrix, Problem, operand_names
from tilewright.rounding import round_up

REPACK, SUM_CODES = RepackKernel(), CodeSumsKernel()
"""The kernels that copy, and that sum columns."""

ROW_BYTES = 128
"""Rows of a copy begin on multiples of this many bytes: TMA reads others more slowly (docs/performance-log.md)."""

UNCOUNTED_BYTES = 1 << 26
"""A workspace may always have so many bytes, and else as many as the operands together."""

WAIT_SECONDS = 0.62e-6
"""How much later than both their times a product ends that waits for copies.

It and what follows were fitted to launches of `wgmma` in results/narrow*_h100.json; they miss the 213 that are there
now by 10%, and elsewhere they are guesses.
"""

FOUND_SHARE, FOUND_BYTES, RESULT_SECONDS = 0.54, 1 << 24, 0.56e-12
"""The share of the time in which up to so many bytes are copied that their product spares, since it finds them in L2,
and what its ranked time lacks for each result."""


class Step(NamedTuple):
    """A launch ahead of a product: its kernel, Config and problem."""

    kernel: Kernel
    config: Any
    problem: Problem

    def seconds(self, hardware: Hardware, rows: int | None = None) -> float:
        """Its predicted time, or that of the step for so many rows."""
        problem = self.problem if rows is None else self.problem._replace(m=rows)
        predicted = self.kernel.predict(self.config, problem, hardware)
        assert predicted is not None
        return predicted.seconds


class Copied(NamedTuple):
    """A problem as a kernel takes it, with copies of operands, often none, in a workspace of `nbytes`.

    repacking: the problem of `repack` that makes the copies. offsets: of each copy in the workspace, by operand.
    reasons: why each is needed. summing: the problem of `code_sums`, if the kernel reads the sums of b's columns, which
    are of b's copy if it has one.
    """

    problem: Problem
    repacking: Problem | None = None
    offsets: Mapping[str, int] = MappingProxyType({})
    nbytes: int = 0
    reasons: tuple[str, ...] = ()
    summing: Problem | None = None

    @property
    def copies(self) -> tuple[str, ...]:
        """The operands that each call makes: those that are copied, and SUMS_OF_B."""
        return (*self.offsets, *(() if self.summing is None else (SUMS_OF_B,)))

    @property
    def steps(self) -> list[Step]:
        """How they are made, in this order."""
        repack = [] if self.repacking is None else [Step(REPACK, RepackConfig(), self.repacking)]
        return repack if self.summing is None else [*repack, Step(SUM_CODES, CodeSumsConfig(), self.summing)]

    def launches(self, hardware: Hardware) -> list[Launch]:
        """The launches that make them, in this order."""
        return [kernel.assemble(config, problem, hardware) for kernel, config, problem in self.steps]

    def seconds(self, hardware: Hardware, rows: int | None = None) -> float:
        """The predicted time of these, or of those of so many rows."""
        return sum((step.seconds(hardware, rows) for step in self.steps), 0.0)

    def ranked_seconds(self, hardware: Hardware, rows: int | None = None) -> float:
        """What they add to the time by which a kernel is ranked, which does not know of them."""
        seconds, problem = self.seconds(hardware, rows), self.problem
        if seconds == 0:
            return 0.0
        results = (problem.m if rows is None else rows) * problem.n * problem.batch_count
        spared = FOUND_SHARE * 2 * min(self.nbytes, FOUND_BYTES) / (STREAMED * hardware.memory_bandwidth)
        return seconds + WAIT_SECONDS - spared + RESULT_SECONDS * results

    def before(
        self, multiply: Executable, ahead: Sequence[Executable], workspaces: Workspaces, exchanged: bool
    ) -> Executable:
        """An Executable that makes them by `ahead`, those of `launches`, before each launch of `multiply`.

        exchanged: whether `multiply` takes a as b, and is called with pointers in that order.
        """
        if self.summing is not None:
            multiply = CodeSummingExecutable(self, ahead[-1], multiply, workspaces, exchanged)
        if self.repacking is not None:
            multiply = CopyingExecutable(self, ahead[0], multiply, workspaces, exchanged)
        return multiply

    def resized(self, problem: Problem) -> "Copied | None":
        """The same copies of a problem that differs in m; None as in `copying`."""
        return copying(problem, self.copies, self.reasons)

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes that are read and written to make them."""
        read = written = 0
        if (repack := self.repacking) is not None:
            read = sum(repack.crossing_bytes(name, getattr(repack, name)) for name in self.offsets)
            written = self.nbytes
        if (add := self.summing) is not None:
            read += add.batch_count * add.n * add.k * int8.nbytes
            written += add.batch_count * add.n * int32.nbytes
        return read, written

    def remarks(self, hardware: Hardware) -> tuple[str, ...]:
        """What each call makes first and why, and what that costs; none if it makes nothing."""
        said = []
        for made, step in zip(self._made("copies", "sums"), self.steps, strict=True):
            work = "copying" if step.kernel is REPACK else "summing"
            said += [f"each call {made}", f"{work} takes about {step.seconds(hardware) * 1e6:.0f} us"]
        return tuple(said)

    def wanted(self) -> str:
        """What is made and why, behind `would`."""
        return "; and ".join(self._made("copy", "sum"))

    def _made(self, copy: str, add: str) -> list[str]:
        """What each step makes and why, behind forms of the verbs `copy` and `sum`."""
        said = []
        if self.repacking is not None:
            operands = " and ".join(map(self._named, self.offsets))
            said.append(f"{copy} {operands} first, since {'; '.join(self.reasons)}")
        if self.summing is not None:
            said.append(f"{add} the columns of b first, since zero_a is multiplied by the sums")
        return said

    def _named(self, name: str) -> str:
        """A copy's operand, and whether memory is transposed on the way."""
        turned = self.repacking is not None and Part.of(self.repacking, name).turned
        return f"{name} (transposed)" if turned else name


def copied(problem: Problem, kernel: Kernel, hardware: Hardware) -> Copied | Refusal:
    """The problem with what the kernel refuses to do without: copies of operands, sums of b; or why that is not enough.

    Copies are refused too if they take much memory, and more than the operands, since those of a broadcast operand may
    be any number of times as large as itself, and the problem may be given to another kernel.
    """
    asked, names = problem, []
    reasons = []
    first: Refusal | None = None
    while (refusal := kernel.refuses(problem, hardware)) is not None:
        first, name = first or refusal, refusal.operand
        if name not in ("a", "b", SUMS_OF_B) or name in names:
            return first if first is refusal else _nor_with_copies(first, refusal.reason)
        names.append(name)
        if name == SUMS_OF_B:
            problem = with_sums(problem)
        else:
            reasons.append(refusal.reason)
            problem = problem.with_operands({name: _copy(problem, name)[0]})
    if (made := copying(asked, names, tuple(reasons))) is not None:
        return made
    assert first is not None
    nbytes = sum(_copy(asked, name)[1] for name in names if name != SUMS_OF_B)
    return _nor_with_copies(
        first, f"copies would take {nbytes:,} bytes, more than {UNCOUNTED_BYTES:,} and than all operands"
    )


def _nor_with_copies(refusal: Refusal, reason: str) -> Refusal:
    return refusal._replace(reason=f"{refusal}; nor with copies: {reason}")


def copying(problem: Problem, names: Sequence[str], reasons: tuple[str, ...]) -> Copied | None:
    """The problem with the named operands made by each call, copies for these reasons; None if they take much memory.

    That is more than the operands, and more than UNCOUNTED_BYTES, unless the problem may be given to no other kernel.
    """
    if not names:
        return Copied(problem)
    copies: dict[str, Matrix] = {}
    offsets: dict[str, int] = {}
    nbytes = 0
    for name in (each for each in names if each != SUMS_OF_B):
        copies[name], size = _copy(problem, name)
        offsets[name], nbytes = nbytes, nbytes + size
    if nbytes > UNCOUNTED_BYTES and nbytes > problem.minimum_bytes and not problem.batch_invariant:
        return None
    posed = problem.with_operands(copies)
    repack = repacking(problem, copies) if copies else None
    if SUMS_OF_B not in names:
        return Copied(posed, repack, offsets, nbytes, reasons)
    return Copied(with_sums(posed), repack, offsets, nbytes, reasons, summing_codes(posed))


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


class CodeSummingExecutable:
    """An Executable that sums the columns of b into a workspace of its own before each launch."""

    def __init__(self, copied: Copied, add: Executable, multiply: Executable, workspaces: Workspaces, exchanged: bool):
        """exchanged: as in CopyingExecutable."""
        workspaces.prepare_workspace()
        assert copied.summing is not None
        self._add, self._multiply, self._workspaces = add, multiply, workspaces
        self._b = 0 if exchanged else 1
        self._place = operand_names(copied.problem.epilogue.expression).index(SUMS_OF_B)
        self._nbytes = copied.summing.batch_count * copied.summing.n * int32.nbytes

    def __call__(self, pointers: list[int], alpha: float, beta: float, stream: int) -> Any:
        """Add and multiply, in the order of the stream; returns what the product's launch returns, and all counts."""
        before, behind = pointers[: self._place], pointers[self._place :]
        with self._workspaces.workspace(self._nbytes, stream) as sums:
            counted = self._add([0, pointers[self._b], 0, 0, sums], 1.0, 0.0, stream)
            counters = self._multiply([*before, sums, *behind], alpha, beta, stream)
        if counters is not None:
            counters.merge(counted)
        return counters
