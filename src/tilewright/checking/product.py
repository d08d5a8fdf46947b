"""The product that a command multiplies: its Problem and random operands."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Any

import numpy as np

from tilewright import dtypes
from tilewright.checking.memory import available_memory
from tilewright.dtypes import FP8, DType, fp32, int8, int32
from tilewright.errors import ArgumentValueError
from tilewright.expression.grammar import parse
from tilewright.expression.tree import GIVEN, OUT_SCALE, SCALES, ZERO, Expression
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.registry import WITHOUT_SUM
from tilewright.measure.data import Data
from tilewright.measure.elements import LARGEST, Elements
from tilewright.planner.binding import normalized
from tilewright.problem import (
    RECIPES,
    Blocks,
    Epilogue,
    Matrix,
    OperandForm,
    Problem,
    cuts_k,
    key_of,
    output_key,
)
from tilewright.reference import FULL_REFERENCE_FLOPS, Array, Comparison, compare, outputs_agree

FREE_SIGMAS = 8.0
"""The largest number of an fp8 result in standard deviations of the sums, so that none of these is cut."""

MAX_EXTENT = 2**63 - 1
"""The largest extent of an array: NumPy counts by signed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Product:
    """activation(a @ b + bias), or an expression of a @ b, with packed operands; `bias` has shape (n,).

    dtype: of a, and of b without a b_dtype. forms: those of the expression's operands, which have the result's dtype,
    or bf16 beside a result of fp8, which has a scale. recipe: of scales, beside which bias and activation are in the
    expression, as beside a result of fp8. zero_a: whether rows of a have zero points. batch: how many products, each
    with an a, a b and an out of its own; they share all else that is read. batch_invariant: as `plan` takes it.
    """

    m: int
    n: int
    k: int
    dtype: DType
    out_dtype: DType
    layout: str = "nt"
    bias: bool = False
    activation: str | None = None
    expression: Expression | None = None
    forms: tuple[OperandForm, ...] = ()
    b_dtype: DType | None = None
    recipe: str | None = None
    fast_accumulation: bool = False
    zero_a: bool = False
    batch: int = 1
    batch_invariant: bool = False

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            if getattr(self, name) > MAX_EXTENT:
                raise ArgumentValueError(f"{name} is more than {MAX_EXTENT}, which no array can have: take less")
        if self.zero_a and (self.dtype is not int8 or self.recipe is None):
            remedy = "pass recipe tensor or row, too" if self.dtype is int8 else "leave it out"
            raise ArgumentValueError(
                f"zero_a=True is for int8 beside scales, and a is {self.dtype}, recipe={self.recipe}: {remedy}"
            )

    @classmethod
    def of(cls, shape: tuple[int, int, int], elements: Elements, layout: str, **epilogue: Any) -> "Product":
        """The product of these elements, with the other fields by name."""
        dtype, b_dtype, out_dtype, recipe, fast = elements
        return cls(
            *shape, dtype=dtype, b_dtype=b_dtype, out_dtype=out_dtype, layout=layout, recipe=recipe,
            fast_accumulation=fast, **epilogue,
        )  # fmt: skip

    @property
    def problem(self) -> Problem:
        """The Problem with the strides of operands as they are stored."""
        m, n, k, b_dtype = self.m, self.n, self.k, self.elements.b
        forms = (form.matrix(self.beside, self.columns) for form in self.forms)
        problem = Problem(
            m=m,
            n=n,
            k=k,
            a=Matrix(self.dtype, k, 1) if self.layout[0] == "n" else Matrix(self.dtype, 1, m),
            b=Matrix(b_dtype, n, 1) if self.layout[1] == "n" else Matrix(b_dtype, 1, k),
            out=Matrix(self.out_dtype, self.columns, 1),
            epilogue=Epilogue(
                bias=Matrix(self.out_dtype, 0, 1) if self.bias else None,
                activation=self.activation,
                expression=self._scaled(self.expression, self._hidden),
                operands=(*self._scales(), *self._out_scale(), *forms),
                outputs=tuple(self._output(name) for name in self._outputs),
            ),
            batch_invariant=self.batch_invariant,
            fast_accumulation=self.fast_accumulation,
        )
        if not self.batches:
            return problem
        apart = {"a": m * k, "b": k * n, "out": m * self.columns, output_key("acc"): m * n}
        strides = {name: matrix._replace(batch_strides=(apart.get(name, 0),)) for name, matrix in problem.operands()}
        return problem.with_operands(strides)._replace(batch=self.batches)

    @property
    def batches(self) -> tuple[int, ...]:
        """What stands before the rows and columns of a, b and out in their shapes: nothing for one product."""
        return (self.batch,) if self.batch > 1 else ()

    @property
    def as_called(self) -> Problem:
        """The Problem that a call solves, in which no stride of an extent of 1 means anything."""
        return normalized(self.problem)

    @property
    def elements(self) -> Elements:
        """The element types and the recipe of scales."""
        return Elements(self.dtype, self.b_dtype or self.dtype, self.out_dtype, self.recipe, self.fast_accumulation)

    @property
    def beside(self) -> DType:
        """The type of what the epilogue reads, and of the sums that it writes."""
        return self.elements.beside

    @property
    def _of_sums(self) -> tuple[str, ...]:
        """The operands that act on sums."""
        return () if self.recipe is None else (*SCALES, ZERO) if self.zero_a else SCALES

    @property
    def _hidden(self) -> tuple[str, ...]:
        """The operands that no text names."""
        return (*self._of_sums, OUT_SCALE) if self.out_dtype in FP8 else self._of_sums

    def _scaled(self, expression: Expression | None, hidden: tuple[str, ...]) -> Expression | None:
        """The expression with hidden operands, the plain one if there is none."""
        if not hidden:
            return expression
        expression = expression or parse("acc", [])
        return expression._replace(operands=(*hidden, *expression.operands), recipe=self.recipe)

    def _scales(self) -> Iterator[Matrix]:
        """The places of the scales and zero points as `Problem` has them."""
        for blocks, (rows, columns) in self._scaled_extents():
            if not cuts_k(self.recipe):
                yield Matrix(fp32, int(blocks.rows == 1), int(blocks.columns == 1))
            else:
                yield Matrix(fp32, 1, rows) if _by_columns(blocks) else Matrix(fp32, columns, 1)
        if self.zero_a:
            yield Matrix(int32, 1, 0)

    def _out_scale(self) -> Iterator[Matrix]:
        """The place of the scale of a result of fp8."""
        if self.out_dtype in FP8:
            yield Matrix(fp32, 0, 0)

    def _scaled_extents(self) -> Iterator[tuple[Blocks, tuple[int, int]]]:
        """What each scale is for, and the shape of the scales, of a and of b."""
        if self.recipe is not None:
            of_a, of_b = RECIPES[self.recipe]
            yield of_a, of_a.shape(self.m, self.k)
            yield of_b, of_b.shape(self.k, self.n)

    @property
    def _outputs(self) -> tuple[str, ...]:
        return () if self.expression is None else self.expression.outputs

    def _output(self, name: str) -> Matrix:
        """The place of a packed one."""
        if name == "acc":
            return Matrix(self.beside, self.n, 1)
        return Matrix(fp32, 0, 0 if name == "amax" else 1)

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.n if self.expression is None or self.expression.gate is None else self.n // 2

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.batches, self.m, self.columns)

    @property
    def epilogue(self) -> dict[str, Any]:
        """The arguments of `plan` that say how sums are made and what becomes of them, arrays apart."""
        of_sums = {name: getattr(self, name) for name in ("recipe", "fast_accumulation", "batch_invariant")}
        if self.expression is None:
            return {"activation": self.activation, **of_sums}
        return {"epilogue": self.expression.text, "gate": self.expression.gate, **of_sums}

    def added(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call besides a, b and out, among arrays such as `operands` and `outputs` give."""
        named = {form.name: arrays[key_of(form.name)] for form in self.forms}
        outputs = {name: arrays[output_key(name)] for name in self._outputs}
        scales = {name: arrays[name] for name in GIVEN if name in arrays}
        return {"bias": arrays.get("bias"), "operands": named or None, "outputs": outputs or None, **scales}

    @property
    def host_bytes(self) -> int:
        """An estimate of the host memory that multiplying and verifying takes at once, in bytes.

        Operands and result exist twice, as arrays and as the emulator's copies. The float64 reference needs values and
        magnitudes of one input, and several arrays of the result's shape if all of it is compared.
        """
        whole = self.m * self.n if self.problem.flops <= FULL_REFERENCE_FLOPS else 0
        return 2 * self.problem.minimum_bytes + 16 * self.k * max(self.m, self.n) + 48 * whole

    def require_memory(self) -> None:
        """Raise a ValueError if it takes more than half of the available memory."""
        limit = available_memory() / 2
        if self.host_bytes > limit:
            raise ArgumentValueError(
                f"{self} takes about {self.host_bytes / 1e9:,.1f} GB of host memory, and half of what is available "
                f"here is {limit / 1e9:,.1f} GB: take a smaller product"
            )

    def resized(self, m: int, n: int, k: int) -> "Product":
        """The same product of another shape."""
        return dataclasses.replace(self, m=m, n=n, k=k)

    def operands(self, seed: int, data: Data = "randn") -> dict[str, Array]:
        """Normally distributed a, b and what the epilogue reads, in host memory and in the product's layout.

        With data "2:4", a keeps only the larger two of each four neighbors along k and is zero elsewhere; k must
        consist of whole groups.
        """
        rng = np.random.default_rng(seed)

        def normal(
            dtype: DType, rows: int, columns: int, transposed: bool = False, batches: tuple[int, ...] = ()
        ) -> Array:
            stored = (columns, rows) if transposed else (rows, columns)
            array = self.elements.numbers(dtype, rng.standard_normal((*batches, *stored), np.float32))
            return array.swapaxes(-1, -2) if transposed else array

        arrays = {
            "a": normal(self.dtype, self.m, self.k, self.layout[0] == "t", self.batches),
            "b": normal(self.elements.b, self.k, self.n, self.layout[1] == "t", self.batches),
        }
        kinds = (self.dtype, self.elements.b)
        for name, kind, (blocks, shape) in zip(SCALES, kinds, self._scaled_extents(), strict=False):
            by_columns = _by_columns(blocks)
            drawn = rng.uniform(0.5, 2, shape[::-1] if by_columns else shape) / self.elements.spread(kind)
            arrays[name] = (drawn.T if by_columns else drawn).astype(np.float32, order="K")
        if self.zero_a:
            arrays[ZERO] = rng.integers(-128, 128, (self.m, 1), np.int32)
        if data == "2:4":
            groups = arrays["a"].astype(np.float32).reshape(*self.batches, self.m, -1, 4)
            np.put_along_axis(groups, np.abs(groups).argsort(axis=-1)[..., :2], 0, axis=-1)
            arrays["a"][...] = groups.reshape(arrays["a"].shape)
        if self.bias:
            arrays["bias"] = normal(self.out_dtype, 1, self.n)[0]
        for form in self.forms:
            arrays[key_of(form.name)] = normal(self.beside, *form.shape(self.m, self.columns))
        if self.out_dtype in FP8:
            kept = 4.0 if self.recipe is not None else self.elements.spread(self.dtype) * self.elements.spread(kinds[1])
            sigmas = FREE_SIGMAS * kept * max(self.k, 1) ** 0.5  # each scale is at most 2
            arrays[OUT_SCALE] = np.array(sigmas / LARGEST[self.out_dtype], np.float32)
        return arrays

    def outputs(self) -> dict[str, Array]:
        """Arrays for the further outputs, of NaN, which shows elements that are not written."""
        shapes = {"acc": (*self.batches, self.m, self.n), "amax": (1,), "column_sums": (self.columns,)}
        return {
            output_key(name): np.full(shapes[name], np.nan, self._output(name).dtype.numpy_dtype)
            for name in self._outputs
        }

    def verify(self, out: Array, arrays: Mapping[str, Array], accumulator: DType = fp32) -> Comparison:
        """Compare a result that was summed in `accumulator` with the float64 reference, and the outputs with both.

        Outputs that agree with a result of which nothing is known verify nothing.

        arrays: those of `operands` and of `outputs`.
        """
        a, b = arrays["a"], arrays["b"]
        agrees = partial(compare, accumulator=accumulator, cut_after=self.problem.cut_after)
        found = agrees(out, a, b, self.problem.epilogue, arrays)
        outputs = {name: arrays[output_key(name)] for name in self._outputs}
        wrong = found.verified is False
        if (acc := outputs.pop("acc", None)) is not None:
            sums = Epilogue(expression=self._scaled(None, self._of_sums), operands=tuple(self._scales()))
            wrong |= agrees(acc, a, b, sums, arrays).verified is False
        if outputs and not wrong:  # else they may be of anything
            scale = float(arrays.get(OUT_SCALE, 1.0))  # which divides a result behind these
            numbers = {name: array.astype(np.float64) / scale for name, array in outputs.items()}
            rows = out.reshape(self.batch * self.m, self.columns).astype(np.float64)
            wrong = not outputs_agree(rows, numbers, self.out_dtype)
        return dataclasses.replace(found, verified=False if wrong else found.verified)

    def __str__(self) -> str:  # a Problem does not show its layout if an extent is 1
        zero = " with zero points" if self.zero_a else ""
        finished = shorten(self.problem.epilogue.text, 60, placeholder="...")
        of_sum = f", {finished}" if finished != "acc" else ""
        shape = f"{self.batch} of " * bool(self.batches) + f"{self.m}x{self.n}x{self.k}"
        return f"{shape} {self.elements.factors}{zero} {self.layout} -> {self.out_dtype}{of_sum}"


def _by_columns(blocks: Blocks) -> bool:
    """Whether scales lie by columns, as `quantize` leaves those of blocks of a, and of squares of b's transpose."""
    return blocks.columns == 128


class NotTaken(ArgumentValueError):
    """A kernel does not take the product; `refusal` is its reason."""

    def __init__(self, kernel: Kernel, hardware: Hardware, refusal: str):
        super().__init__(f"kernel {kernel.name!r} does not take this product on {hardware.place}: {refusal}")
        self.refusal = refusal


def suited(shape: tuple[int, int, int], kernel: Kernel) -> tuple[int, int, int]:
    """The shape, but without a sum for the kernel that takes no other."""
    m, n, k = shape
    return (m, n, 0 if kernel.name == WITHOUT_SUM else k)


def whole_tiles(kernel: Kernel) -> list[tuple[int, int, int]]:
    """The shape of a small product of whole tiles, for a rung that takes no other; none for other kernels.

    It has six k-blocks: a ring of four stages wraps.
    """
    if not isinstance(kernel, LadderKernel):
        return []
    return [(2 * kernel.tile_m, 2 * kernel.tile_n, 6 * max(kernel.tile_k, 16))]


def first_accepted(
    kernel: Kernel,
    hardware: Hardware,
    shapes: Iterable[tuple[int, int, int]],
    elements: Elements | None = None,
    layout: str | None = None,
    **epilogue: Any,
) -> Product:
    """The first product, by shape and then by element type, that the kernel takes; NotTaken if there is none.

    If `elements` is None, bf16, fp16 and fp32 are tried, those of them that a rung has; `layout` None is the kernel's
    own or nt. epilogue: further fields of the Product.
    """
    layout = layout or (kernel.layout if isinstance(kernel, LadderKernel) else "nt")
    own = kernel.inputs if isinstance(kernel, LadderKernel) else dtypes.FLOATS
    tried = [Elements.of(each) for each in dtypes.FLOATS if each in own] if elements is None else [elements]
    refusal = ""
    for shape in shapes:
        for each in tried:
            product = Product.of(shape, each, layout, **epilogue)
            reason = kernel.refuses(product.problem, hardware)
            if reason is None:
                return product
            copies = reason.operand in ("a", "b")
            copied = "; a call copies it first, and a check makes no copies: give extents that need none"
            refusal = refusal or f"{reason}{copied if copies else ''}"
    raise NotTaken(kernel, hardware, refusal)
