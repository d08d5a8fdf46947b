"""Generated calls of `tilewright.quantize`: one generator for the emulator and for GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from random import Random

import numpy as np

import tilewright as tw
from support import views
from support.memory import Buffer, View, require_no_stray_writes
from support.quantization import BLOCKS, KINDS, assert_quantized
from tilewright import dtypes
from tilewright.planner.quantizing import Options, forms
from tilewright.problem import QUANTIZED

WAYS = tuple(product(KINDS, BLOCKS, (False, True)))
"""The codes, the blocks of scales, and whether those of the transposed matrix are made as well."""

EXTENTS = (1, 2, 7, 31, 64, 127, 128, 129, 260)
LONG = 33000
"""The columns of rows that no CTA keeps."""


@dataclass(frozen=True)
class QuantizationCase:
    """One call: the views of its arrays, by name, and its options. `strange`: whether x has infinities and NaN."""

    arrays: tuple[tuple[str, View], ...]
    dtype: str
    block: str
    transposed: bool
    power_of_two: bool
    saturate: bool
    strange: bool
    seed: int

    in_place = False

    def views(self):
        """The arrays by name: x, the scale if it is given, and what is written."""
        return dict(self.arrays)

    @cached_property
    def is_given(self):
        """Whether the scale is given."""
        return "scale" in self.views()

    def call(self, arrays, backend, **changes):
        """Quantize; `changes`: other keywords than the case's."""
        out = [arrays.get(name) for name in QUANTIZED[: 4 if self.transposed else 2]]
        options = {name: getattr(self, name) for name in ("block", "transposed", "power_of_two", "saturate")}
        options |= {"scale": arrays.get("scale"), "out": out}
        tw.quantize(arrays["x"], self.dtype, backend=backend, **(options | changes))

    def memory(self, on_tensor_cores=False):
        """Its arrays in memory; the results are the same with tensor cores or without."""
        return QuantizationMemory(self)


class QuantizationMemory:
    """The arrays of a case in poisoned buffers, filled with its data."""

    def __init__(self, case: QuantizationCase):
        self.case = case
        self.buffers = {name: Buffer(view) for name, view in case.views().items()}
        self.arrays = {name: buffer.array for name, buffer in self.buffers.items()}
        random, x = np.random.default_rng(case.seed), self.arrays["x"]
        values = random.standard_normal(x.shape) * np.exp(random.standard_normal((*x.shape[:-1], 1)))
        values[random.random(x.shape) < 0.05] = 0
        if case.strange:
            odd = random.random(x.shape) < 0.02
            values[odd] = random.choice((np.nan, np.inf, -np.inf), np.count_nonzero(odd))
        x[...] = values.astype(x.dtype)
        if case.is_given:
            self.arrays["scale"][...] = random.uniform(0.005, 0.03, self.arrays["scale"].shape)
        self._before = {name: buffer.bytes.copy() for name, buffer in self.buffers.items()}

    def verify(self):
        """Raise an AssertionError unless codes and scales are right to the bit, and no other byte has changed."""
        case, x, given = self.case, self.arrays["x"], self.arrays.get("scale")
        codes, scale, codes_of_t, scale_of_t = (self.arrays.get(name) for name in QUANTIZED)
        if given is not None:
            scale = given
        how = (case.dtype, case.block, case.power_of_two, case.saturate)
        assert_quantized((codes, scale), x, *how, given=given)
        if case.transposed:
            if scale_of_t is None:
                scale_of_t = scale if case.block == "tensor" else scale.swapaxes(-1, -2)
            of_t = None if given is None else scale_of_t
            assert_quantized((codes_of_t, scale_of_t), x.swapaxes(-1, -2), *how, given=of_t)
        require_no_stray_writes(self.buffers, self._before)


def quantization_cases(count: int, seed: int | str, first: int = 0) -> Iterator[QuantizationCase]:
    """`count` cases, the WAYS in turn from number `first` on."""
    random = Random(seed)
    for number in range(first, first + count):
        dtype, block, transposed = WAYS[number % len(WAYS)]
        yield _draw(dtype, block, transposed, random)


def _draw(dtype, block, transposed, random):
    kind = random.choice(dtypes.FLOATS)
    batch = random.choice([(), (), (), (2,), (1, 3), (2, 1, 2)])
    shape = (*batch, random.choice(EXTENTS), random.choice(EXTENTS))
    if random.random() < 0.05:
        shape = (random.choice((1, 3)), LONG)
    takes_scale = not (transposed and block in ("row", "1x128"))
    given = takes_scale and random.random() < 0.25
    power_of_two = not given and random.random() < 0.5
    saturate = dtype == "int8" or random.random() < 0.5
    options = Options.of(dtype, block, power_of_two, saturate, transposed)
    x = views.view(kind.name, shape, random.choice((-1, -1, -2)), random.choice((kind.nbytes, 16)), random, True, True)
    arrays = [("x", x)]
    for name, form in zip(QUANTIZED, forms(options, shape), strict=False):
        if form.dtype is not dtypes.fp32:
            arrays.append((name, _codes(dtype, form.shape, random)))
        else:
            arrays.append(("scale" if given else name, _scales(form.shape, random)))
    return QuantizationCase(
        tuple(arrays), dtype, block, transposed, power_of_two, saturate, random.random() < 0.3,
        random.randrange(1 << 30),
    )  # fmt: skip


def _codes(dtype, shape, random):
    """Neighbors along the last dimension, in rows that begin anywhere or are aligned."""
    aligned = random.choice((1, 2, 4, 8, 16))
    return views.view(dtype, shape, -1, aligned, random, True, True, distinct=True, apart=False)


def _scales(shape, random):
    if not shape:
        return View("fp32", (), (), random.randrange(4))
    return views.view("fp32", shape, random.choice((-1, -2)), 4, random, True, True, distinct=True)
