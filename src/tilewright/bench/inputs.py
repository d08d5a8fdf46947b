"""The inputs of contenders: sets of random operands, enough that none stays in L2, and the check of the results."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from typing import Any, Protocol, TypeAlias, get_args

import numpy as np

from tilewright import dtypes
from tilewright.backends.gpu import backend
from tilewright.bench.torch_work import replayed, timed
from tilewright.dtypes import DType
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.expression.evaluation import Bounded
from tilewright.expression.tree import SCALES
from tilewright.measure.data import Data
from tilewright.measure.elements import LARGEST, SIGMAS, Elements
from tilewright.measure.layouts import place_of
from tilewright.measure.protocol import Work
from tilewright.model.speed_of_light import speed_of_light
from tilewright.planner.call_arguments import Arrays
from tilewright.planner.expressions import expression_of
from tilewright.planner.request import bound, operands_of
from tilewright.planner.scaling import Scaling
from tilewright.problem import RECIPES, Blocks, Problem
from tilewright.reference import Array, agree, stored
from tilewright.reference.bounds import sum_bound
from tilewright.rounding import round_up

Launch: TypeAlias = Callable[[int], object]
"""A function that launches the product of the set with the given number on torch's current stream."""

POISON = {2: 0x7FDA, 4: 0x7FDA7FDA}
"""The bits of a NaN, by the bytes of its type: bf16 or fp16, and fp32. GPUs and libraries make others."""

SAMPLED_ROWS = 64
"""Number of rows of each result that are compared with float64; the first and the last are always among them."""

MOST_SETS = 1024
"""The most sets. Very small products would need more, so they find some operands in L2; the record has the sizes."""

GRAPH_SECONDS = 1e-3
"""Minimum GPU time of a graph of launches: a replay then takes the host less time than the GPU."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A product to be timed: its extents, the text of its Elements, its layout, and a label for people."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    layout: str = "nt"
    label: str = ""

    @property
    def elements(self) -> Elements:
        """The element types and the recipe of scales."""
        return Elements.parse(self.dtype)

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.m * self.n * self.k

    def require(self, data: Data) -> None:
        """Raise a ValueError if the product is empty, or if its k does not suit the data."""
        if min(self.m, self.n, self.k) < 1:
            raise ArgumentValueError(f"{self} has nothing to time: make m, n and k at least 1")
        if data == "2:4" and self.elements.a not in dtypes.FLOATS:
            raise ArgumentValueError(f"data='2:4' is made of bf16, fp16 and fp32, and dtype={self.dtype!r}: use randn")
        if data == "2:4" and self.k % 4:
            raise ArgumentValueError(
                f"data='2:4' has groups of four along k, and k is {self.k}: make k a multiple of 4"
            )

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of results with float64.

    verified: all elements were written, and those of the sampled rows are within their bounds.
    relative_error: the largest of any set, in the Frobenius norm, of finite elements that are known; NaN if an element
    was not written, or is not finite where it should be.
    """

    verified: bool
    relative_error: float


class Ending(Protocol):
    """What a contender makes of the sums, if it is more than to store them."""

    def expected(self, number: int, sums: Array, error: Array) -> Bounded:
        """The compared rows of the result of a set in float64, and the error that each element may have.

        sums, error: those of the product.
        """

    def is_complete(self, number: int, out: Any) -> bool:
        """Whether the further outputs of a set agree with its out and with the sums that `expected` was given last."""


class Inputs:
    """Operands of a product on a GPU: `sets` holds tuples (a, b, out) that together exceed twice its L2.

    The values come from a torch generator with the given seed. Raises RuntimeError without a GPU or torch, and
    ValueError for a Shape or data that cannot be timed.
    """

    def __init__(self, shape: Shape, *, data: Data = "randn", seed: int = 0, device: int = 0):
        torch = torch_on_gpu()
        if data not in get_args(Data):
            raise ArgumentValueError(f"data={data!r} is unknown: use {', '.join(map(repr, get_args(Data)))}")
        shape.require(data)
        self.elements = elements = shape.elements
        self.torch, self.shape, self.data, self.seed, self.device = torch, shape, data, seed, device
        self.hardware = backend(device).hardware
        self.l2_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        m, n, k = shape.m, shape.n, shape.k
        self.set_bytes = elements.a.nbytes * m * k + elements.b.nbytes * n * k + elements.out.nbytes * m * n
        self._generator = torch.Generator(f"cuda:{device}").manual_seed(seed)
        self.scales = self._scales()
        self.sets = tuple(
            (
                self.make(m, k, shape.layout[0], elements.a),
                self.make(k, n, shape.layout[1], elements.b),
                self.empty(m, n),
            )
            for _ in range(sets_beyond(self.l2_bytes, self.set_bytes))
        )
        if data == "2:4":
            for a, _, _ in self.sets:
                keep_two_of_four(a)
        self._by_accumulator: dict[DType, list[tuple[Bounded, Bounded]]] = {}

    def make(self, rows: int, columns: int, letter: str = "n", kind: DType | None = None) -> Any:
        """A further matrix of random numbers, stored as a letter of layouts says; of the result's type by default."""
        kind = kind or self.elements.out
        drawn = kind if kind in dtypes.FLOATS else dtypes.fp32
        extents, strides = place_of(letter, rows, columns)
        values = self.empty(*extents, kind=drawn)
        spread, largest = self.elements.spread(kind), LARGEST.get(kind, math.inf)
        if self.data == "uniform":
            widest = min(SIGMAS * spread, largest) if kind is not drawn else 1
            values.uniform_(-widest, widest, generator=self._generator)
        else:
            values.normal_(std=spread, generator=self._generator)
        if kind is not drawn:
            whole = values.round_() if kind.kind == "integer" else values
            values = whole.clamp_(-largest, largest).to(self.type_of(kind))
        return values.as_strided((rows, columns), strides)

    def empty(self, *shape: int, kind: DType | None = None) -> Any:
        """Memory for an array, of the result's type by default."""
        kind = self.type_of(kind or self.elements.out)
        return self.torch.empty(shape, device=f"cuda:{self.device}", dtype=kind)

    def type_of(self, kind: DType) -> Any:
        """torch's object for an element type."""
        return getattr(self.torch, kind.torch.removeprefix("torch."))

    def _scales(self) -> dict[str, Any]:
        """The scales of all sets by name, uneven ones; they lie as `quantize` leaves those of A and of the weight."""
        if self.elements.recipe is None:
            return {}
        sides = zip(SCALES, RECIPES[self.elements.recipe], self._factors(), strict=True)
        return {name: self._scale(blocks, *factor) for name, blocks, factor in sides}

    def _factors(self) -> tuple[tuple[int, int, DType], tuple[int, int, DType]]:
        shape = self.shape
        return (shape.m, shape.k, self.elements.a), (shape.k, shape.n, self.elements.b)

    def _scale(self, blocks: Blocks, rows: int, columns: int, kind: DType) -> Any:
        rows, columns = blocks.shape(rows, columns)
        if blocks.columns == 128:  # padded as libraries want it
            scale = self.empty(columns, round_up(rows, 4), kind=dtypes.fp32).t()[:rows]
        else:
            scale = self.empty(rows, columns, kind=dtypes.fp32)
        spread = self.elements.spread(kind)
        return scale.uniform_(0.5 / spread, 2 / spread, generator=self._generator)

    def numbers(self, tensor: Any) -> Array:
        """The numbers of a tensor in float64, on the host."""
        numbers: Array = tensor.double().cpu().numpy()
        return numbers

    @cached_property
    def problem(self) -> Problem:
        """The Problem that every set poses to a kernel."""
        a, b, out = self.sets[0]
        scaling = Scaling(self.elements.recipe, *(self.scales.get(name) for name in SCALES))
        expression, scales = expression_of(None, None, None, None, None, scaling, c=None, beta=None, bias=None)
        call = Arrays.of((a, b, None, None, out, *scales), expression)
        return bound(
            operands_of(call, None, expression), activation=None, expression=expression, alpha=1.0,
            batch_invariant=False, fast_accumulation=self.elements.fast_accumulation,
        ).problem  # fmt: skip

    @property
    def light_seconds(self) -> float:
        """The speed of light of the product on this GPU."""
        return speed_of_light(self.problem, self.hardware).seconds

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **asdict(self.shape),
            "data": self.data,
            "seed": self.seed,
            "input_sets": len(self.sets),
            "input_bytes": len(self.sets) * self.set_bytes,
            "l2_bytes": self.l2_bytes,
        }

    def verify(
        self,
        work: Callable[[], object],
        accumulator: DType = dtypes.fp32,
        outs: Sequence[Any] | None = None,
        ending: Ending | None = None,
    ) -> Verdict:
        """Fill the outs with poison, run `work`, and compare the result of every set with the product in float64.

        What must be infinite or NaN is compared as such. An element of which nothing is known is not compared, such as
        one whose fp16 sum may have overflowed. Where all compared elements must be finite, all others must, too.

        accumulator: the type that `work` sums in.
        outs: where `work` leaves the results, one per set; it may replace them. By default the sets' own.
        ending: what the results are instead of the product.
        """
        torch = self.torch
        outs = [out for _, _, out in self.sets] if outs is None else outs
        for out in outs:
            self._bits(out).fill_(self._poison)
        work()
        torch.cuda.synchronize(self.device)
        verified, worst = True, 0.0
        for number, (out, (sums, results)) in enumerate(zip(outs, self._sums(accumulator), strict=True)):
            expected, bound = results if ending is None else ending.expected(number, *sums)
            found, finite = self.numbers(out[self.rows]), np.isfinite(expected) & np.isfinite(bound)
            written = not bool((self._bits(out) == self._poison).any())
            written &= not finite.all() or bool(torch.isfinite(out).all())
            verified &= written and bool(agree(found, expected, bound).all())
            verified &= ending is None or ending.is_complete(number, out)
            norm = float(np.linalg.norm(expected[finite])) or 1.0
            error = float(np.linalg.norm(found[finite] - expected[finite])) / norm if written else math.nan
            worst = error if error != error else max(worst, error)
        return Verdict(verified, worst)

    def _bits(self, out: Any) -> Any:
        """The elements of a result as whole numbers."""
        return out.view(getattr(self.torch, f"int{8 * self.elements.out.nbytes}"))

    @property
    def _poison(self) -> int:
        """The bits that fill results before they are written: a NaN that no arithmetic makes, or what no sum is."""
        return POISON[self.elements.out.nbytes] if self.elements.out.kind == "float" else int(self.elements.poison)

    @cached_property
    def rows(self) -> Any:
        """The indices of the compared rows."""
        m, torch = self.shape.m, self.torch
        if m <= SAMPLED_ROWS:
            return torch.arange(m, device=f"cuda:{self.device}")
        generator = torch.Generator().manual_seed(self.seed)
        inner = 1 + torch.randperm(m - 2, generator=generator)[: SAMPLED_ROWS - 2]
        return torch.cat([torch.tensor([0]), inner, torch.tensor([m - 1])]).to(f"cuda:{self.device}")

    def _sums(self, accumulator: DType) -> list[tuple[Bounded, Bounded]]:
        """For each set, the sums of the compared rows in float64, and what they are as results."""
        accumulator = dtypes.int32 if self.elements.a is dtypes.int8 else accumulator
        if accumulator not in self._by_accumulator:
            rows = ((self._values(0, self._compared(a)), self._values(1, b)) for a, b, _ in self.sets)
            after = self.problem.cut_after
            sums = [Bounded(*map(self.numbers, (a @ b, sum_bound(a, b, accumulator, after)))) for a, b in rows]
            self._by_accumulator[accumulator] = [(each, self._stored(each)) for each in sums]
        return self._by_accumulator[accumulator]

    def _compared(self, a: Any) -> Any:
        """The compared rows of A; torch does not index fp8."""
        if a.element_size() > 1:
            return a[self.rows]
        return a.view(self.torch.uint8)[self.rows].view(a.dtype)

    def _values(self, side: int, codes: Any) -> Any:
        """What compared rows of A, side 0, or what B stands for, in float64."""
        values = codes.float().double() if codes.element_size() == 1 else codes.double()
        if self.elements.recipe is None:
            return values
        scale = self.scales[SCALES[side]].double()
        blocks = RECIPES[self.elements.recipe][side]
        if side == 0 and blocks.rows == 1:
            scale = scale[self.rows]
        for axis, size in enumerate(blocks):
            if size is not None and size > 1:
                scale = scale.repeat_interleave(size, axis).narrow(axis, 0, codes.shape[axis])
        return values * scale

    def _stored(self, sums: Bounded) -> Bounded:
        """Sums as results, and the error that these may have; whole numbers are what they are."""
        return sums if self.elements.out.kind == "integer" else stored(self.elements.out, sums)

    def work(self, launch: Launch, *, graph: bool = False) -> Work:
        """Launches on torch's current stream that take the sets in turn; with `graph`, replays of a graph of these."""
        torch, turn = self.torch, count()

        def launches(times: int) -> None:
            for _ in range(times):
                launch(next(turn) % len(self.sets))

        seconds = timed(torch, launches)
        if not graph:
            return Work(seconds)
        each = max(seconds(len(self.sets)) / len(self.sets), 1e-7)
        total = len(self.sets) * max(1, math.ceil(GRAPH_SECONDS / (each * len(self.sets))))
        return replayed(torch, lambda: launches(total), total)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the GPU torch's current one, and torch sum products of 2-byte elements in fp32, as tilewright does."""
        matmul = self.torch.backends.cuda.matmul
        names = ("allow_tf32", "allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")
        allowed = [name for name in names if getattr(matmul, name)]
        try:
            for name in allowed:
                setattr(matmul, name, False)
            with self.torch.cuda.device(self.device):
                yield
        finally:
            for name in allowed:
                setattr(matmul, name, True)


def keep_two_of_four(a: Any) -> None:
    """Set the smaller two of each four neighbors in a row of a torch tensor (m, k) to zero."""
    groups = a.unflatten(1, (-1, 4))
    groups.scatter_(2, groups.abs().topk(2, dim=2, largest=False).indices, 0)


def sets_beyond(l2_bytes: int, set_bytes: int) -> int:
    """The number of sets for which at least twice the L2 is read and written between two uses of one set."""
    return min(MOST_SETS, 1 + math.ceil(2 * l2_bytes / set_bytes))


def torch_on_gpu() -> Any:
    """torch, which owns the operands of benchmarks; raises a RuntimeError if it is missing or sees no GPU."""
    try:
        import torch
    except ImportError:
        raise UnavailableError(
            "timing needs torch and an NVIDIA GPU, and torch is not installed: pip install torch"
        ) from None
    if not torch.cuda.is_available():
        raise UnavailableError("timing needs torch and an NVIDIA GPU, and torch sees no GPU: see `tilewright doctor`")
    return torch
