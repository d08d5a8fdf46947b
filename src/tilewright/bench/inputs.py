"""The inputs of contenders: sets of random operands, enough that none stays in L2, and the check of the results."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import count
from typing import Any, Protocol, TypeAlias, get_args

from tilewright import dtypes
from tilewright.arrays import adopt
from tilewright.backends.gpu import backend
from tilewright.bench.torch_work import replayed, timed
from tilewright.dtypes import DType
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.measure.data import Data
from tilewright.measure.protocol import Work
from tilewright.model.speed_of_light import speed_of_light
from tilewright.planner.binding import bind
from tilewright.problem import Problem
from tilewright.reference import Array, stored_bound, sum_bound

Launch: TypeAlias = Callable[[int], object]
"""A function that launches the product of the set with the given number on torch's current stream."""

SAMPLED_ROWS = 64
"""Number of rows of each result that are compared with float64; the first and the last are always among them."""

MOST_SETS = 1024
"""The most sets. Very small products would need more, so they find some operands in L2; the record has the sizes."""

GRAPH_SECONDS = 1e-3
"""Minimum GPU time of a graph of launches: a replay then takes the host less time than the GPU."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A product to be timed: its extents, the name of its dtype, its layout, and a label for people."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    layout: str = "nt"
    label: str = ""

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.m * self.n * self.k

    def require(self, data: Data) -> None:
        """Raise a ValueError if the product is empty, or if its k does not suit the data."""
        if min(self.m, self.n, self.k) < 1:
            raise ArgumentValueError(f"{self} has nothing to time: make m, n and k at least 1")
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
    relative_error: the largest of any set, in the Frobenius norm; NaN if an element was not written.
    """

    verified: bool
    relative_error: float


class Ending(Protocol):
    """What a contender makes of the sums, if it is more than to store them."""

    def expected(self, number: int, sums: Any, error: Any) -> tuple[Any, Any]:
        """The compared rows of the result of a set in float64, and the error that each element may have.

        sums, error: those of the product, as float64 arrays of NumPy.
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
        kind = dtypes.parse(shape.dtype, "dtype")
        self.torch, self.shape, self.data, self.seed, self.device = torch, shape, data, seed, device
        self.hardware = backend(device).hardware
        self.l2_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self.set_bytes = kind.nbytes * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n)
        self._generator = torch.Generator(f"cuda:{device}").manual_seed(seed)
        self._element = getattr(torch, kind.torch.removeprefix("torch."))
        self.sets = tuple(
            (
                self.make(shape.m, shape.k, shape.layout[0] == "t"),
                self.make(shape.k, shape.n, shape.layout[1] == "t"),
                self.empty(shape.m, shape.n),
            )
            for _ in range(sets_beyond(self.l2_bytes, self.set_bytes))
        )
        if data == "2:4":
            for a, _, _ in self.sets:
                keep_two_of_four(a)
        self._kind = kind
        self._by_accumulator: dict[DType, list[tuple[Any, Any]]] = {}

    def make(self, rows: int, columns: int, transposed: bool = False) -> Any:
        """A further matrix of random values of the shape's dtype."""
        values = self.empty(columns, rows) if transposed else self.empty(rows, columns)
        if self.data == "uniform":
            values.uniform_(-1, 1, generator=self._generator)
        else:
            values.normal_(generator=self._generator)
        return values.t() if transposed else values

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        """Memory for an array, of the shape's dtype or of the given one of torch."""
        return self.torch.empty(shape, device=f"cuda:{self.device}", dtype=dtype or self._element)

    def numbers(self, tensor: Any) -> Array:
        """The numbers of a tensor in float64, on the host."""
        numbers: Array = tensor.double().cpu().numpy()
        return numbers

    @cached_property
    def problem(self) -> Problem:
        """The Problem that every set poses to a kernel."""
        named = zip(("a", "b", "out"), self.sets[0], strict=True)
        return bind({name: adopt(array, name) for name, array in named}, activation=None).problem

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
        """Fill the outs with NaN, run `work`, and compare the result of every set with the product in float64.

        accumulator: the type that `work` sums in. An element is not compared if its fp16 sum may have overflowed.
        outs: where `work` leaves the results, one per set; it may replace them. By default the sets' own.
        ending: what the results are instead of the product.
        """
        torch = self.torch
        outs = [out for _, _, out in self.sets] if outs is None else outs
        for out in outs:
            out.fill_(math.nan)
        work()
        torch.cuda.synchronize(self.device)
        verified, worst = True, 0.0
        for number, (out, (sums, rounding)) in enumerate(zip(outs, self._sums(accumulator), strict=True)):
            expected, bound = self._expected(number, sums, rounding, ending)
            error = (out[self.rows].double() - expected).abs()
            certain = bound.isfinite()
            written = bool(out.isfinite().all()) or (accumulator is dtypes.fp16 and not bool(out.isnan().any()))
            verified &= bool((error <= bound).all()) and written
            verified &= ending is None or ending.is_complete(number, out)
            found = float(error[certain].norm() / expected[certain].norm()) if written else math.nan
            worst = found if found != found else max(worst, found)
        return Verdict(verified, worst)

    @cached_property
    def rows(self) -> Any:
        """The indices of the compared rows."""
        m, torch = self.shape.m, self.torch
        if m <= SAMPLED_ROWS:
            return torch.arange(m, device=f"cuda:{self.device}")
        generator = torch.Generator().manual_seed(self.seed)
        inner = 1 + torch.randperm(m - 2, generator=generator)[: SAMPLED_ROWS - 2]
        return torch.cat([torch.tensor([0]), inner, torch.tensor([m - 1])]).to(f"cuda:{self.device}")

    def _sums(self, accumulator: DType) -> list[tuple[Any, Any]]:
        """For each set, the compared rows of the product in float64, and the error that each of its sums may have."""
        if accumulator not in self._by_accumulator:
            rows = ((a[self.rows].double(), b.double()) for a, b, _ in self.sets)
            self._by_accumulator[accumulator] = [(a @ b, sum_bound(a, b, accumulator)) for a, b in rows]
        return self._by_accumulator[accumulator]

    def _expected(self, number: int, sums: Any, error: Any, ending: Ending | None) -> tuple[Any, Any]:
        """What becomes of the sums of a set, and the error that it may have."""
        if ending is None:
            return sums, stored_bound(self._kind, sums, error)
        expected, bound = ending.expected(number, self.numbers(sums), self.numbers(error))
        return tuple(self.torch.from_numpy(each).to(sums.device) for each in (expected, bound))

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
