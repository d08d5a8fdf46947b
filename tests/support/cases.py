"""Generated products: one generator for the emulator and for GPUs.

A case is drawn from a `random.Random`. Its variant fixes what is compiled in; a draw that would need another
translation unit (an extent of 1 can change which dimension counts as contiguous) is drawn again, at last with fewer
liberties.
"""

import dataclasses
from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, prod
from random import Random

import numpy as np
from hypothesis import strategies as st

import tilewright as tw
from support import views
from support.memory import Buffer, View, require_no_stray_writes
from support.outputs import check_outputs, output_views
from support.reference import check, reference
from support.rungs import LADDER_VARIANTS, RUNGS, draw_rung
from support.variant import Variant
from support.variants import VARIANTS
from tilewright import dtypes
from tilewright.expression.grammar import parse
from tilewright.expression.tree import GIVEN, SCALES
from tilewright.hardware import H200
from tilewright.kernels.code_sums import with_sums
from tilewright.kernels.registry import EVERY_KERNEL
from tilewright.operand import HOST, Operand, byte_range
from tilewright.planner.binding import bind
from tilewright.problem import OPERANDS, WRITTEN, key_of, output_key

MAX_CTAS = 8

_PLAIN_N = {1: 63, 2: 62, 4: 60, 8: 64, 16: 64, 32: 64, 256: 256}
"""n of a case without liberties, by the variant's `n_multiple`: a multiple of no more than that."""


@dataclass(frozen=True)
class Case:
    """One call: the views of its operands, scalars and data. With `in_place`, c is out itself.

    `data` is "integers" (small, so that sums are exact), "normal", or "special": normal with some NaN and infinities.
    """

    variant: Variant
    a: View
    b: View
    out: View
    c: View | None = None
    bias: View | None = None
    in_place: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    data: str = "integers"
    seed: int = 0
    operands: tuple[View, ...] = ()
    scales: tuple[View, ...] = ()

    @cached_property
    def expression(self):
        """The variant's epilogue, parsed."""
        variant = self.variant
        if variant.epilogue is None and not variant.hidden:
            return None
        parsed = parse(variant.epilogue or "acc", [name for name, _, _ in variant.operands], variant.gate)
        names = (*variant.hidden, *parsed.operands)
        return parsed._replace(operands=names, outputs=variant.outputs, recipe=variant.recipe)

    def views(self):
        """The operands by name; those that share memory appear once, as `out`."""
        views = {"a": self.a, "b": self.b, "c": None if self.in_place else self.c, "bias": self.bias, "out": self.out}
        views |= {key_of(name): view for (name, _, _), view in zip(self.variant.operands, self.operands, strict=True)}
        views |= dict(zip(self.variant.hidden, self.scales, strict=True))
        views |= output_views(self.variant.outputs, self.out, self.variant.gate, len(self.b.shape) == 1)
        return {name: view for name, view in views.items() if view is not None}

    @property
    def transposed(self):
        """The same product as out.T = b.T @ a.T."""
        swapped = {name: view.transposed for name, view in self.views().items() if name in OPERANDS}
        swapped |= {"a": self.b.transposed, "b": self.a.transposed}
        swapped["operands"] = tuple(view.transposed for view in self.operands)
        swapped["scales"] = tuple(view.transposed for view in reversed(self.scales))
        if self.in_place:
            swapped["c"] = swapped["out"]
        return dataclasses.replace(self, **swapped)

    @property
    def exact(self):
        """Whether nothing rounds but the result."""
        plain = self.variant.activation in (None, "relu") and self.variant.epilogue is None
        return self.data == "integers" and plain

    def problem(self):
        """The Problem that the call poses, without any memory."""
        operands, address = {}, 1 << 20
        for name, view in self.views().items():
            low, high = byte_range(0, view.shape, view.strides, view.nbytes)
            address += -(low // 16) * 16
            pointer = address + view.skew * view.nbytes
            address += -(-high // 16) * 16 + 32
            dtype = dtypes.parse(view.dtype, name)
            operands[name] = Operand(pointer, view.shape, view.strides, dtype, HOST, True, None)
        if self.in_place:
            operands["c"] = operands["out"]
        if self.beta == 0:
            operands.pop("c", None)
        activation = self.variant.activation
        bound = bind(operands, activation=activation, expression=self.expression, multiplies=self.alpha != 0)
        return bound.problem._replace(fast_accumulation=self.variant.fast_accumulation)

    def keywords(self, arrays):
        """The arguments of `tilewright.matmul` besides a, b, c and backend; `arrays`: what the call is given."""
        names = [name for name, _, _ in self.variant.operands]
        return {
            "bias": arrays.get("bias"),
            "out": arrays["out"],
            "epilogue": self.variant.epilogue,
            "gate": self.variant.gate,
            "operands": {name: arrays[key_of(name)] for name in names} if self.variant.epilogue else None,
            **{name: arrays.get(name) for name in GIVEN},
            "recipe": self.variant.recipe,
            "fast_accumulation": self.variant.fast_accumulation,
            "outputs": {name: arrays[output_key(name)] for name in self.variant.outputs} or None,
            "alpha": self.alpha,
            "beta": self.beta if "c" in arrays else None,
            "activation": self.variant.activation,
            "kernel": self.variant.kernel,
            "config": self.variant.config,
        }

    def call(self, arrays, backend, **changes):
        """Multiply; `changes`: other keywords than the case's."""
        a, b, c = (arrays.get(name) for name in "abc")
        result = tw.matmul(a, b, c, backend=backend, **(self.keywords(arrays) | changes))
        assert result is arrays["out"]

    def memory(self, on_tensor_cores: bool = False):
        """Its operands in memory."""
        return Memory(self, on_tensor_cores)


class Memory:
    """A case's operands in poisoned buffers, filled with its data; `arrays` are what the call is given.

    on_tensor_cores: those of a GPU or of the emulator's hardware arithmetic make the sums, and cut those of fp8.
    """

    def __init__(self, case: Case, on_tensor_cores: bool = False):
        self.case = case
        kernel = EVERY_KERNEL[case.variant.kernel]
        self._sums = {
            "accumulator": kernel.accumulator(case.variant.config),
            "cut_after": case.problem().cut_after if on_tensor_cores else None,
        }
        self.buffers = {name: Buffer(view) for name, view in case.views().items()}
        self.arrays = {name: buffer.array for name, buffer in self.buffers.items()}
        if case.in_place:
            self.arrays["c"] = self.arrays["out"]
        unread = {name for name, scale in (("a", case.alpha), ("b", case.alpha), ("c", case.beta)) if scale == 0}
        random = np.random.default_rng(case.seed)
        for name in sorted(self.arrays.keys() - set(WRITTEN) - unread):
            array = self.arrays[name]
            values = _scales(array.shape, random) if name.startswith("scale") else _values(case.data, array, random)
            array[...] = values.astype(array.dtype)
        self._before = {name: buffer.bytes.copy() for name, buffer in self.buffers.items()}
        self._expected = self._reference()

    def _reference(self):
        case = self.case
        a, b = (self.arrays[name] for name in "ab")
        if case.variant.recipe:
            a = a.astype(np.float64) - self.arrays.get("zero_a", 0)
            a, b = (
                x.astype(np.float64) * over_blocks(self.arrays[name], x.shape)
                for x, name in zip((a, b), SCALES, strict=True)
            )
        return reference(
            a,
            b,
            out_dtype=case.out.dtype,
            c=self.arrays.get("c"),
            bias=self.arrays.get("bias"),
            alpha=case.alpha,
            beta=case.beta,
            activation=case.variant.activation,
            expression=case.expression,
            out_scale=self.arrays.get("scale_out"),
            operands={name: self.arrays[key_of(name)] for name, _, _ in case.variant.operands},
            **self._sums,
            exact=case.exact,
        )

    def verify(self):
        """Raise an AssertionError unless out holds the product and no other byte has changed."""
        check(self.arrays["out"], self._expected)
        check_outputs(self.arrays, self._expected.dtype, self.case.alpha, **self._sums)
        require_no_stray_writes(self.buffers, self._before)


def _scales(shape, random):
    return 2.0 ** random.integers(-2, 3, shape)


def by_fours(scale):
    """The same scales of rows as neighbors in memory, those of each k-block from a multiple of 16 bytes on."""
    return np.asfortranarray(np.pad(scale, [(0, -len(scale) % 4), (0, 0)]))[: len(scale)]


def over_blocks(scales, shape):
    """The scales for each element of a matrix; one that is neither for one row or column nor for all is for 128."""
    for axis in (-2, -1) if scales.ndim else ():
        if scales.shape[axis] not in (1, shape[axis]):
            scales = np.repeat(scales, 128, axis).take(np.arange(shape[axis]), axis)
    return scales


def _values(data, array, random):
    shape = array.shape
    if array.dtype in (np.int8, np.int32):  # codes and zero points
        return random.integers(-128, 128, shape)
    if data == "integers":
        return random.integers(-4, 5, shape)
    values = random.standard_normal(shape)
    if data == "special":
        odd = random.random(shape) < 0.01
        values[odd] = random.choice((np.nan, np.inf, -np.inf), np.count_nonzero(odd))
    return values


# ---------------------------------------------------------------- the generator


def random_case(variant: Variant, random: Random) -> Case:
    """A case that runs on the variant's translation unit."""
    for liberties in (2, 2, 2, 2, 1, 1):
        case = _draw(variant, random, liberties)
        if unit_key(case) == _variant_key(variant):
            return case
    return _draw(variant, random, 0)


def case_of_extents(variant: Variant, random: Random, m, n, k) -> Case | None:
    """A case with these extents, if one of a few draws runs on the variant's translation unit.

    A gate takes pairs of columns.
    """
    if variant.gate and n % 2:
        return None
    draws = (_draw(variant, random, 2, (m, n, k, ())) for _ in range(32))
    return next((case for case in draws if unit_key(case) == _variant_key(variant)), None)


def cases(variant: Variant):
    """The hypothesis strategy of the same cases, drawn from seeds: hypothesis' own choices repeat themselves."""
    return st.builds(random_case, st.just(variant), st.randoms(use_true_random=True))


def variants_of(kernel: str):
    """The variants of one kernel, by its name."""
    return tuple(variant for variant in (*VARIANTS, *LADDER_VARIANTS) if variant.kernel == kernel)


def random_cases(kernel: str, count: int, seed: int | str, first: int = 0):
    """`count` cases of one kernel, its variants in turn from number `first` on."""
    random = Random(seed)
    variants = variants_of(kernel)
    for number in range(first, first + count):
        yield random_case(variants[number % len(variants)], random)


def posed(case: Case):
    """The Problem as its kernel takes it without copies: `wgmma` reads the sums of b's columns."""
    problem = case.problem()
    return with_sums(problem) if case.variant.zero and case.variant.kernel == "wgmma" else problem


def unit_of(variant: Variant, hardware):
    """The variant's translation unit."""
    problem = posed(_draw(variant, Random(0), 0))
    return EVERY_KERNEL[variant.kernel].assemble(variant.config, problem, hardware).source


def unit_key(case: Case):
    """What decides the translation unit of a case; None where its kernel does not take it."""
    problem = posed(case)
    kernel, config = EVERY_KERNEL[case.variant.kernel], case.variant.config
    if problem.is_empty or kernel.refuses(problem, H200) is not None:
        return None
    if problem.k <= case.variant.k_before_last > 0:
        return None
    return kernel.entry(config, problem), kernel.constants(config, problem)


@cache
def _variant_key(variant: Variant):
    key = unit_key(_draw(variant, Random(0), 0))
    assert key is not None, f"{variant.name} cannot run its own plain case"
    return key


def _draw(variant: Variant, random: Random, liberties: int, extents=None) -> Case:
    """A case of the variant: plain and packed without liberties, odd with 1, degenerate too with 2."""
    if variant.kernel in RUNGS:
        return Case(variant, **draw_rung(variant, random, liberties))
    free = liberties > 0
    plain = (64, _PLAIN_N[variant.n_multiple], 0 if variant.sumless else 64 + variant.k_before_last, ())
    m, n, k, batch = extents or (_extents(variant, random, liberties) if free else plain)
    vectors = liberties > 1 and variant.recipe is None
    row_vector = vectors and m == 1 and random.random() < 0.5
    column_vector = vectors and n == 1 and random.random() < 0.5
    rows, columns = () if row_vector else (m,), () if column_vector else (n // (2 if variant.gate else 1),)
    dtype = variant.dtype

    a_batch, b_batch = (views.broadcastable(batch, random) for _ in "ab")
    if np.broadcast_shapes(a_batch, b_batch) != batch:
        a_batch = batch
    a_fast, a_bytes = views.storage_class(variant.a, k_position=-1)
    b_fast, b_bytes = views.storage_class(variant.b, k_position=-2)
    a_shape = (k,) if row_vector else (*a_batch, m, k)
    b_shape = (k,) if column_vector else (*b_batch, k, n)
    if row_vector:
        batch = () if column_vector else b_batch
    elif column_vector:
        batch = a_batch
    result = batch + rows + columns
    signed = not variant.by_tma
    apart = not variant.of_neighbors
    a = views.view(dtype, a_shape, -1 if row_vector else a_fast, a_bytes, random, free, signed, apart=apart)
    b = views.view(
        variant.b_dtype or dtype, b_shape, -1 if column_vector else b_fast, b_bytes, random, free, signed, apart=apart
    )
    out = views.view(variant.out_dtype, result, -1, variant.out_bytes, random, free, signed, distinct=True)

    data = random.choice(("integers", "integers", "integers", "normal", "normal", "normal", "special"))
    if dtype == "int8":
        data = "integers"
    scalars = (1.0,) if variant.out_dtype == "int32" else (1.0, -0.5, 2.0) if data == "integers" else (1.0, 0.3, -1.7)
    alpha = 0.0 if liberties > 1 and not variant.gate and random.random() < 0.05 else random.choice(scalars)
    beta = random.choice(scalars) if variant.c else 0.0
    c = bias = None
    in_place = False
    if variant.c or (free and variant.may_add and random.random() < 0.1):
        c_dtype = variant.c or variant.out_dtype
        in_place = free and c_dtype == variant.out_dtype and random.random() < 0.25
        c = out if in_place else views.addend(c_dtype, result, random, free, variant.addend_pairs)
    if variant.bias:
        bias = views.addend(variant.bias, result, random, free, variant.addend_pairs, variant.bias_alike)
    forms = ((form, kind) for _, kind, form in variant.operands)
    operands = tuple(views.operand(*each, rows, columns, result, random, free) for each in forms)
    scales = views.scales(variant, a_shape, b_shape, random, free)
    seed = random.randrange(1 << 30)
    case = Case(variant, a, b, out, c, bias, in_place, alpha, beta, data, seed, operands, scales)
    flipped = (
        liberties > 1
        and not (variant.gate or variant.outputs or variant.scales_blocks or set(variant.hidden) - set(SCALES))
        and not row_vector
        and not column_vector
        and random.random() < 0.25
    )
    return case.transposed if flipped else case


def _extents(variant, random, liberties):
    """m, n, k and batch around the edges of tiles, a few CTAs in all."""
    tile_m, tile_n = variant.config.tile_m, variant.config.tile_n
    if getattr(variant.config, "swap_ab", False):
        tile_m, tile_n = tile_n, tile_m
    least = 1 if liberties > 1 else 2
    while True:
        m, n, k = (_extent(random, tile, least) for tile in (tile_m, tile_n, variant.k_block))
        n, k = -(-n // variant.n_multiple) * variant.n_multiple, variant.k_before_last + min(k, variant.most_k)
        batch = random.choice([(), (), (), (2,), (3,), (1,), (2, 2), (1, 3), (2, 1, 2), (5,)])
        summed = variant.by_tma or variant.gate
        if variant.sumless or (liberties > 1 and not summed and random.random() < 0.08):
            k = 0
        if ceil(m / tile_m) * ceil(n / tile_n) * prod(batch) <= MAX_CTAS:
            return m, n, k, batch


def _extent(random, tile, least):
    kind = random.randrange(6)
    if kind == 0:
        return random.choice((least, least, 2, 3, 5, 7))
    if kind == 1:
        return 8 * random.randint(1, max(tile // 4, 1))
    if kind == 2:
        return random.choice((11, 13, 17, 31, 37, 61, 97, 127))
    return max(least, random.choice((tile // 2, tile, tile, 2 * tile)) + random.randint(-2, 2))
