"""Candidates on a GPU: random operands of a product, the check of results, and launches to be timed."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from math import ceil
from typing import Any, Protocol, Self

import numpy as np
from cuda.bindings import driver

from tilewright.backends.driver_calls import checked
from tilewright.backends.gpu import GpuBackend
from tilewright.backends.protocol import Backend, Executable, Memory
from tilewright.dtypes import DType
from tilewright.errors import ArgumentValueError
from tilewright.expression.tree import HIDDEN, OUT_SCALE, SCALES, ZERO
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.column_sums import summing
from tilewright.measure.elements import Elements
from tilewright.measure.graph import graph_work
from tilewright.measure.protocol import Work
from tilewright.operand import byte_range
from tilewright.planner.tuning.candidates import Candidate
from tilewright.problem import EXCHANGED, RECIPES, Matrix, Problem, operand_names, output_key
from tilewright.reference import agree, columns_of_b, reference, sampled_lines
from tilewright.rounding import round_up

PATTERN_BYTES = 1 << 23
"""Random numbers are made on the host for so many bytes, which are repeated over the operands."""

MOST_SETS = 256
"""The most sets of operands; very small products find some of theirs in L2."""

COMPARED_BYTES = 1 << 24
"""Of larger results, this much is compared, in evenly spaced windows."""
WINDOWS = 64

_SPREAD, _CUT_SPREAD = 0.01, 0.2
"""Parts of the mean magnitude by which results of two Configs may differ: with split k, sums are of other parts. Where
tensor cores cut sums of fp8, an element may be off by 5% of the mean at k = 16384, and more beside scales of rows."""

SAMPLED = 12
"""Rows and columns whose elements are compared with float64."""

GRAPH_SECONDS = 0.8e-3
"""Least GPU time of a graph."""

_ALIGNED = 256

POSITIVE = (*SCALES, OUT_SCALE)
"""Operands whose numbers are positive."""

_POISON = 0xFF
"""A byte of which NaNs of every type are made."""

LARGE_SETS = 16
"""Of sets that are so many times as large as the L2, one is enough: nearly nothing of it is found there again."""


def _kind(name: str, dtype: DType) -> str:
    """What operands with the same numbers have in common."""
    return name if name in (*POSITIVE, "b") else dtype.name


class _Place:
    """The memory of one operand: `nbytes` from `offset` on, in which element (0, 0) lies `origin` bytes further."""

    def __init__(self, matrix: Matrix, shape: tuple[int, ...]):
        self.matrix, self.shape = matrix, shape
        self.strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
        low, high = byte_range(0, shape, self.strides, matrix.dtype.nbytes)
        # Alignments below 16 bytes are kept: kernels are compiled for them.
        self.skew = matrix.alignment if matrix.alignment < 16 else 0
        self.nbytes, self.origin = high - low, -low
        self.offset = 0

    def elements(self, pattern: Any, index: tuple[Any, ...]) -> Any:
        """The operand's elements at broadcast indices, which the pattern gives."""
        place = sum(np.asarray(i) * stride for i, stride in zip(index, self.strides, strict=True))
        return pattern[(place + self.origin // self.matrix.dtype.nbytes) % len(pattern)]


class BackendWithMemory(Backend, Protocol):
    """A Backend that gives access to its memory."""

    @property
    def memory(self) -> Memory:
        """Where operands live."""


Numbers = Callable[[int], "np.ndarray[Any, np.dtype[np.float32]]"]
"""A function that gives so many numbers."""


class Stand:
    """Sets of operands of a Problem in a backend's memory, where candidates run; use it in a `with` block.

    All sets hold the same numbers at different addresses: `numbers`, or by default random ones, drawn by `seed`.
    """

    def __init__(
        self,
        problem: Problem,
        backend: BackendWithMemory,
        *,
        sets: int = 1,
        seed: int = 0,
        numbers: Numbers | None = None,
    ):
        self.problem, self.backend, self.hardware = problem, backend, backend.hardware
        self.sets, self._seed, self._memory = sets, seed, backend.memory
        self._numbers = numbers or partial(_normal, seed)
        self._places = places_of(problem)
        self.set_bytes = set_bytes_of(self._places)
        self._elements = Elements.of_problem(problem)
        self._patterns: dict[str, Any] = {}
        self._expected: list[tuple[Any, float]] = []
        self._base, self.operands_seconds = 0, 0.0

    def __enter__(self) -> Self:
        begun = time.monotonic()
        self._base = self._memory.allocate(self.sets * self.set_bytes)
        try:
            for name, place in self._places.items():
                if name != "out":
                    self._fill(name, place)
        except BaseException:
            self._memory.free(self._base)
            raise
        self.operands_seconds = time.monotonic() - begun
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.free(self._base)

    def _fill(self, name: str, place: _Place) -> None:
        """Repeat the pattern of random numbers over the operand in all sets; scales are positive."""
        dtype = place.matrix.dtype
        kind = _kind(name, dtype)
        if kind not in self._patterns:
            drawn = self._numbers(PATTERN_BYTES // dtype.nbytes - 3)  # rows of powers of two must not all be alike
            if name in SCALES:
                spread = self._elements.spread(self._places[name[-1]].matrix.dtype)
                self._patterns[kind] = np.exp2(drawn.clip(-1, 1)) / np.float32(spread)
            elif name == OUT_SCALE:
                self._patterns[kind] = np.exp2(drawn.clip(-1, 1))
            else:
                # A row of a that is one of b.T would be squared: no sum of such products is like others.
                turned = np.roll(drawn, drawn.size // 2) if name == "b" else drawn
                self._patterns[kind] = self._elements.numbers(dtype, turned)
        for number in range(self.sets):
            self._repeat(self._patterns[kind], self._base + number * self.set_bytes + place.offset, place.nbytes)

    def _elements_of(self, name: str, *index: Any) -> Any:
        """An operand's elements at broadcast indices."""
        place = self._places[name]
        return place.elements(self._patterns[_kind(name, place.matrix.dtype)], index)

    def _factor(self, side: int, batch: tuple[int, ...], rows: Any, columns: Any) -> Any:
        """The elements of A, side 0, or of B at broadcast indices, in float64 and scaled if they have scales."""
        found = self._elements_of("ab"[side], *batch, rows, columns)
        expression = self.problem.epilogue.expression
        if expression is None or expression.recipe is None:
            return found
        found = found.astype(np.float64)
        if side == 0 and expression.has_zero:
            found = found - self._elements_of(ZERO, *batch, rows, 0 * columns)
        blocks = RECIPES[expression.recipe][side]
        row, column = (
            0 * index if size is None else index // size for index, size in zip((rows, columns), blocks, strict=True)
        )
        return found * self._elements_of(SCALES[side], *batch, row, column)

    def _repeat(self, pattern: Any, address: int, nbytes: int) -> None:
        """Copy an array's bytes to an address, again and again, up to `nbytes`."""
        for start in range(0, nbytes, pattern.nbytes):
            self._memory.copy_in(address + start, pattern.ctypes.data, min(pattern.nbytes, nbytes - start))

    def fault(self, candidate: Candidate, compiled: CompiledKernel) -> str:
        """What is wrong with a candidate's result, in words; empty if it is right.

        Elements of sampled rows and columns are compared with float64, and all others with the first candidate's.
        """
        out = self._places["out"]
        start = self._base + out.offset
        self.backend.fill(start, out.nbytes, _POISON, 0)
        self._launcher(candidate, compiled)(0, 0)
        fault = self._against_float64(start, candidate)
        if fault:
            return fault
        found = list(self._windows(start))
        if not self._expected:
            self._expected = [(window, _mean_magnitude(window)) for window in found]
        return self._against_first(found)

    def _against_float64(self, start: int, candidate: Candidate) -> str:
        problem, places = self.problem, self._places
        rng = np.random.default_rng(self._seed)
        rows, columns = (sampled_lines(rng, extent, SAMPLED) for extent in (problem.m, problem.columns))
        expression = problem.epilogue.expression
        of_b = columns_of_b(expression and expression.gate, problem.columns, columns)
        batch = tuple(int(rng.integers(extent)) for extent in problem.batch)
        k = np.arange(problem.k)
        a = self._factor(0, batch, rows[:, None], k[None, :])
        b = self._factor(1, batch, k[:, None], of_b[None, :])
        at = (*batch, rows[:, None], columns[None, :])
        addends = {name: self._elements_of(name, *at) for name, _ in problem.epilogue.read() if name not in HIDDEN}
        if OUT_SCALE in places:
            addends[OUT_SCALE] = self._elements_of(OUT_SCALE, *batch, 0, 0)
        out = places["out"]
        kind = out.matrix.dtype
        found = np.empty((len(rows), len(columns)), kind.numpy_dtype)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                index = (*batch, int(row), int(column))
                element = sum(x * stride for x, stride in zip(index, out.strides, strict=True))
                address = start + out.origin + element * kind.nbytes
                self._memory.copy_out(found[i, j:].ctypes.data, address, kind.nbytes)
        accumulator = candidate.kernel.accumulator(candidate.config)
        expected, bound = reference(
            a, b, problem.epilogue, addends,
            accumulator=accumulator, cut_after=problem.cut_after, out_dtype=kind.name,
        )  # fmt: skip
        wrong = ~agree(found.astype(np.float64), expected, bound)
        if not wrong.any():
            return ""
        i, j = np.argwhere(wrong)[0]
        return (
            f"{int(wrong.sum())} of {wrong.size} sampled elements are wrong: out[{rows[i]}, {columns[j]}] is "
            f"{found[i, j]} instead of {expected[i, j]:.6g}"
        )

    def _windows(self, start: int) -> Iterator[Any]:
        """The result's bytes as arrays of its elements, or evenly spaced windows of them."""
        out, kind = self._places["out"], self.problem.out.dtype
        windows = [(0, out.nbytes)]
        if out.nbytes > COMPARED_BYTES:
            size = COMPARED_BYTES // WINDOWS
            last = (out.nbytes - size) // kind.nbytes
            windows = [(int(at) * kind.nbytes, size) for at in np.linspace(0, last, WINDOWS)]
        for offset, nbytes in windows:
            window = np.empty(nbytes // kind.nbytes, kind.numpy_dtype)
            self._memory.copy_out(window.ctypes.data, start + offset, window.nbytes)
            yield window

    def _against_first(self, found: list[Any]) -> str:
        """What differs from the first candidate's result by more than its rounding; unwritten gaps are NaN in both.

        Most Configs give the same bits, so only elements of which they differ are looked at as numbers.
        """
        kind = self.problem.out.dtype
        epsilon = kind.epsilon if kind.kind == "float" else 0.0  # sums of whole numbers are exact
        spread = _SPREAD if epsilon else 0.0
        if self.problem.cut_after and self.problem.fast_accumulation:
            spread = _CUT_SPREAD
        bits = np.dtype(f"u{kind.nbytes}")
        for window, (first, mean) in zip(found, self._expected, strict=True):
            differs = window.view(bits) != first.view(bits)
            if not differs.any():
                continue
            window, expected = (each[differs].astype(np.float32) for each in (window, first))
            known = np.isfinite(expected)
            if (np.isfinite(window) != known).any():
                changed = int((np.isfinite(window) != known).sum())
                return f"{changed} elements are not finite, or are written, unlike those of the untuned choice"
            error = np.abs(window[known] - expected[known])
            wrong = error > 2 * epsilon * np.abs(expected[known]) + spread * mean
            if wrong.any():
                return f"{int(wrong.sum())} elements differ from those of the untuned choice"
        return ""

    def pointers(self, number: int) -> list[int]:
        """The addresses of a set's operands, in order; 0 for what the Problem lacks."""
        first = self._base + number * self.set_bytes
        return [
            first + self._places[name].offset + self._places[name].origin if name in self._places else 0
            for name in operand_names(self.problem.epilogue.expression)
        ]

    def _launcher(self, candidate: Candidate, compiled: CompiledKernel) -> "_Launcher":
        launch, copied = candidate.launch, candidate.copied
        executable: Executable = self.backend.prepare(compiled, launch.shape, launch.arguments)
        if copied is not None:
            ahead = [
                self.backend.prepare(build(each.source, self.backend.arch), each.shape, each.arguments)
                for each in copied.launches(self.hardware)
            ]
            executable = copied.before(executable, ahead, self.backend, launch.exchanged)
        addresses = []
        for number in range(self.sets):
            by_name = self.pointers(number)
            exchanged = [by_name[role] for role in EXCHANGED] + by_name[len(EXCHANGED) :]
            addresses.append(exchanged if launch.exchanged else by_name)
        return _Launcher(executable, addresses, 1.0 if "c" in self._places else 0.0)


class GpuStand(Stand):
    """A Stand on a GPU, with more sets than its L2 holds.

    Raises an ArgumentValueError if not even one set fits into the free memory.
    """

    backend: GpuBackend

    def __init__(self, problem: Problem, backend: GpuBackend, *, seed: int = 0, numbers: Numbers | None = None):
        nbytes = set_bytes_of(places_of(problem))
        with backend.current():
            status, free, _ = driver.cuMemGetInfo()
            checked((status,), "cuMemGetInfo")
        if nbytes > 0.9 * free:
            raise ArgumentValueError(
                f"{problem} takes {nbytes / 1e9:.1f} GB and {free / 1e9:.1f} GB of {backend.hardware.name} are free: "
                f"tune a smaller product, or free memory"
            )
        enough = 1 if nbytes >= LARGE_SETS * backend.l2_bytes else 1 + ceil(2 * backend.l2_bytes / nbytes)
        sets = min(MOST_SETS, enough, int(0.9 * free // nbytes))
        super().__init__(problem, backend, sets=sets, seed=seed, numbers=numbers)
        self._until = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as until:
            until.enter_context(self.backend.current())
            super().__enter__()
            self._until = until.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._until.close()

    def work(self, candidate: Candidate, compiled: CompiledKernel, until: ExitStack) -> Work:
        """Replays of a graph of a candidate's launches that takes the sets in turn."""
        return self.replays(self._launcher(candidate, compiled), until)

    def replays(self, launch: Callable[[int, int], object], until: ExitStack) -> Work:
        """Replays of a graph of `launch(set, stream)` that takes the sets in turn."""
        turn = count()

        def next_set(stream: int) -> None:
            launch(next(turn) % self.sets, stream)

        with ExitStack() as unless_long:
            once = unless_long.enter_context(graph_work(next_set, self.sets))
            if once.run(1) > 2 * GRAPH_SECONDS:  # also if it takes less the next time
                until.push(unless_long.pop_all())
                return once
            rounds = max(1, ceil(GRAPH_SECONDS / max(once.run(1), 1e-7)))
        work = until.enter_context(graph_work(next_set, rounds * self.sets))
        work.run(1)  # a graph's first launch takes longer
        return work


class _Launcher:
    """Launches of one candidate on set after set."""

    def __init__(self, executable: Executable, addresses: list[list[int]], beta: float):
        self._executable, self._addresses, self._beta = executable, addresses, beta

    def __call__(self, number: int, stream: int) -> None:
        self._executable(self._addresses[number], 1.0, self._beta, stream)


def _mean_magnitude(window: Any) -> float:
    """The mean magnitude of a window's finite elements; 0 if there are none."""
    numbers = window.astype(np.float32)
    known = np.isfinite(numbers)
    return float(np.abs(numbers[known]).mean()) if known.any() else 0.0


def _normal(seed: int, count: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
    return np.random.default_rng(seed).standard_normal(count, np.float32)


def places_of(problem: Problem) -> dict[str, _Place]:
    """The memory of a set's operands, one after the other."""
    places = {name: _Place(matrix, (*problem.batch, *problem.extents(name))) for name, matrix in problem.operands()}
    if (sums := summing(problem)) is not None:  # candidates leave the sums of groups, which are measured alone
        places[output_key("column_sums")] = _Place(sums.b, (sums.k, sums.n))
    end = 0
    for place in places.values():
        place.offset = end + place.skew
        end = round_up(place.offset + place.nbytes, _ALIGNED)
    return places


def set_bytes_of(places: Mapping[str, _Place]) -> int:
    """The bytes of a set."""
    return max(round_up(place.offset + place.nbytes, _ALIGNED) for place in places.values())
