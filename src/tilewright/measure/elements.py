"""The elements of a product: the types of A, B and the result, what scales are for, and how the numbers are drawn."""

from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright import dtypes
from tilewright.dtypes import DType
from tilewright.errors import ArgumentValueError
from tilewright.problem import FAST, RECIPES, Problem, factors_text

LARGEST = {dtypes.fp8_e4m3: 448.0, dtypes.fp8_e5m2: 57344.0, dtypes.int8: 127.0}
"""The largest number of each type of 8 bits."""

SIGMAS = 4.0
"""The largest code in standard deviations of random codes, about as `quantize` makes them of normal numbers."""


class Elements(NamedTuple):
    """The element types of a product, the recipe of its scales, and whether sums of fp8 stay in the tensor cores.

    The text of it, such as `fp8_e4m3 by fp8_e5m2 row fast -> fp16`, says what is not usual: B's type is A's, there are
    no scales, and the result has the usual type of such a product.
    """

    a: DType
    b: DType
    out: DType
    recipe: str | None = None
    fast_accumulation: bool = False

    @classmethod
    def of(
        cls,
        a: DType,
        b: DType | None = None,
        out: DType | None = None,
        recipe: str | None = None,
        fast_accumulation: bool = False,
    ) -> "Elements":
        """What is None is as usual: B as A, no scales, and the usual type of the result."""
        b = b or a
        usual = next(iter(dtypes.results(a, b, scaled=recipe is not None)), a)
        return cls(a, b, out or usual, recipe, fast_accumulation)

    @classmethod
    def of_problem(cls, problem: Problem) -> "Elements":
        """Those of a problem."""
        return cls(problem.a.dtype, problem.b.dtype, problem.out.dtype, problem.recipe, problem.fast_accumulation)

    @classmethod
    def parse(cls, text: str, argument: str = "dtype") -> "Elements":
        """The Elements of their text; an ArgumentValueError names the argument."""
        factors, arrow, out = text.partition("->")
        words = factors.replace(" by ", " ", 1).split()
        recipe = next((word for word in words if word in RECIPES), None)
        kinds = [dtypes.by_name(word) for word in words if word not in RECIPES and word != FAST]
        result = dtypes.by_name(out.strip()) if arrow else None
        if len(kinds) not in (1, 2) or None in kinds or (arrow and result is None):
            raise ArgumentValueError(
                f"{argument}={text!r}: use {dtypes.NAMES}, or write 'A by B', a recipe of {', '.join(RECIPES)}, "
                f"{FAST!r} and '-> OUT' behind it"
            )
        first, second = kinds[0], kinds[-1]
        assert first is not None
        return cls.of(first, second, result, recipe, FAST in words)

    def __str__(self) -> str:
        usual = Elements.of(self.a, self.b, None, self.recipe)
        return self.factors if self.out is usual.out else f"{self.factors} -> {self.out}"

    @property
    def factors(self) -> str:
        """The text without the type of the result."""
        return factors_text(self.a, self.b, self.recipe, self.fast_accumulation)

    @property
    def beside(self) -> DType:
        """The type of what an epilogue reads and of the sums that it writes: the result's, or bf16 of fp8."""
        return dtypes.bf16 if self.out in dtypes.FP8 else self.out

    @property
    def is_plain(self) -> bool:
        """Whether all are of one type that needs no scales."""
        return self.a is self.b is self.out and self.a in dtypes.FLOATS

    @property
    def poison(self) -> float:
        """What fills a result before it is written: NaN, or the least number of int32, which no sum is."""
        return nan if self.out.kind == "float" else -(2.0**31)

    def spread(self, kind: DType) -> float:
        """The standard deviation of random numbers of this type, so that results have the range of any float."""
        if kind not in LARGEST:
            return 1.0
        wide = self.recipe is not None or self.out.kind == "integer"
        return LARGEST[kind] / SIGMAS if wide else SIGMAS

    def numbers(self, kind: DType, normal: NDArray[np.float32]) -> NDArray[Any]:
        """Random numbers of this type, made of normal ones."""
        if kind in LARGEST:
            normal = (normal * self.spread(kind)).clip(-LARGEST[kind], LARGEST[kind])
        return (normal.round() if kind.kind == "integer" else normal).astype(kind.numpy_dtype)
