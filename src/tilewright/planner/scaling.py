"""Scales of a and b: what a call gives, what they must be, and how they lie over the sums."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.arrays import adopt
from tilewright.dtypes import FP8, DType, fp32, int8, int32
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.tree import GIVEN, OUT_SCALE, SCALES, ZERO
from tilewright.operand import Operand, values_of
from tilewright.problem import RECIPES, cuts_k

_WHOLE = tuple(recipe for recipe in RECIPES if not cuts_k(recipe))
SCALED: dict[DType, tuple[str, ...]] = {**dict.fromkeys(FP8, tuple(RECIPES)), int8: _WHOLE}
"""The recipes that each type of a and b may have."""

LEAST_SCALE = 2.0**-126
"""The least normal number of fp32, and the least scale to divide by: the reciprocal of one below may be infinite."""


class Scaling(NamedTuple):
    """The scales of a call: the recipe and the arrays, None for what is not given."""

    recipe: Any = None
    scale_a: Any = None
    scale_b: Any = None
    zero_a: Any = None
    scale_out: Any = None

    @property
    def given(self) -> dict[str, Any]:
        """The arrays that there are, by name."""
        named = zip(GIVEN, self[1:], strict=True)
        return {name: array for name, array in named if array is not None}

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise a ValueError for an unknown recipe, scales without a recipe, and a recipe without scales.

        given: the property, which takes time to make.
        """
        if self.recipe is not None and not (isinstance(self.recipe, str) and self.recipe in RECIPES):
            raise ArgumentValueError(f"recipe={self.recipe!r} is unknown: use None or one of {_RECIPES}")
        for name in GIVEN:
            if self.recipe is None and name in given and name != OUT_SCALE:
                wanted = f"one of {_RECIPES}" if name in SCALES else "tensor or row, with scales of an a of int8"
                raise ArgumentValueError(
                    f"{name} was given without recipe=, which says what each scale is for: pass {wanted}"
                )
            if self.recipe is not None and name in SCALES and name not in given:
                raise ArgumentValueError(
                    f"recipe={self.recipe!r}, which is for an a of fp8 or int8, needs {name}, which is missing: pass "
                    f"an array of fp32 numbers"
                )


_RECIPES = ", ".join(RECIPES)
NO_SCALING = Scaling()
"""That of a call without scales."""


def check_scales(operands: Mapping[str, Operand], recipe: str) -> None:
    """Raise an error unless a and b may have this recipe, and the scales are of its shapes, in fp32."""
    a, b = operands["a"], operands["b"]
    if recipe not in (allowed := SCALED.get(a.dtype, ())):
        remedy = f"use {' or '.join(allowed)}" if allowed else "leave it out: other numbers have their scale in them"
        raise ArgumentTypeError(f"recipe={recipe!r} is not for {a.dtype}, which a is: {remedy}")
    for name, scaled, blocks in zip(SCALES, (a, b), RECIPES[recipe], strict=True):
        scale = operands[name]
        if scale.dtype is not fp32:
            raise ArgumentTypeError(f"{name} is {scale.dtype}, and scales are fp32: convert it")
        if recipe == "tensor":
            if prod(scale.shape) != 1:
                raise ArgumentValueError(
                    f"{name} has shape {scale.shape}, and recipe='tensor' takes one number: pass an array of shape ()"
                )
            continue
        if len(scaled.shape) < 2:
            raise ArgumentValueError(
                f"{name[-1]} has shape {scaled.shape}, and recipe={recipe!r} scales rows and columns of matrices: give "
                f"it two dimensions, or use recipe='tensor'"
            )
        wanted = blocks.shape(*scaled.shape[-2:])
        if scale.shape[-2:] != wanted:
            of_batch = "" if len(scaled.shape) == 2 else ", behind those of batches"
            raise ArgumentValueError(
                f"{name} has shape {scale.shape}, and recipe={recipe!r} takes {wanted} for {name[-1]} of shape "
                f"{scaled.shape}{of_batch}: pass an array of that shape"
            )

    if "zero_a" in operands:
        _check_zero(operands["zero_a"], a)


def _check_zero(zero: Operand, a: Operand) -> None:
    """Raise an error unless a may have this zero point."""
    if a.dtype is not int8:
        raise ArgumentTypeError(f"zero_a is for int8, and a is {a.dtype}: leave it out")
    if zero.dtype is not int32:
        raise ArgumentTypeError(f"zero_a is {zero.dtype}, and zero points are int32: convert it")
    if prod(zero.shape) != 1 and (len(a.shape) < 2 or zero.shape[-2:] != (a.shape[-2], 1)):
        raise ArgumentValueError(
            f"zero_a has shape {zero.shape}, and a of shape {a.shape} has one zero point, or one for each row: pass an "
            f"array of shape () or of (m, 1)"
        )


def check_out_scale(scale: Operand, out: Operand) -> None:
    """Raise an error unless results of out's type may have this scale."""
    if out.dtype not in FP8:
        raise ArgumentTypeError(
            f"scale_out divides results that are stored as fp8, and out is {out.dtype}: pass out_dtype='fp8_e4m3' or "
            f"'fp8_e5m2', or leave scale_out out"
        )
    if scale.dtype is not fp32:
        raise ArgumentTypeError(f"scale_out is {scale.dtype}, and scales are fp32: convert it")
    if prod(scale.shape) != 1:
        raise ArgumentValueError(
            f"scale_out has shape {scale.shape}, and all results have one scale: pass an array of shape ()"
        )


def over_sums(name: str, scale: Operand, recipe: str, shape: tuple[int, ...]) -> Operand:
    """A scale or zero point as it is broadcast: to sums of `shape`, or, where it changes along k, to their batches.

    name: that of the argument, for errors.
    """
    if prod(scale.shape) == 1 and not cuts_k(recipe):
        return scale._replace(shape=shape, strides=(0,) * len(shape))
    wanted = (*shape[:-2], *scale.shape[-2:]) if cuts_k(recipe) else shape
    seen = scale.broadcast(wanted)
    if seen is None:
        raise ArgumentValueError(
            f"{name} has shape {scale.shape}, whose batch dimensions do not broadcast to those of the result, "
            f"{shape[:-2]}: each must be 1 or match, counted from the last"
        )
    return seen


def check_values(scales: Mapping[str, Any]) -> None:
    """Raise a ValueError if one of these arrays in host memory has an element that is no scale or zero point."""
    for name, array in scales.items():
        values = values_of(adopt(array, name))
        if name == ZERO:
            beyond = values[(values < -128) | (values > 127)]
            if beyond.size:
                raise ArgumentValueError(
                    f"{name} has {beyond.flat[0]} among its elements, and a zero point is a code of int8: take one "
                    f"from -128 to 127"
                )
            continue
        wrong = values[~((values > 0) & np.isfinite(values))]
        if not wrong.size and name == OUT_SCALE and (small := values[values < LEAST_SCALE]).size:
            raise ArgumentValueError(
                f"{name} is {small.flat[0]}, and results are multiplied by its reciprocal, which must be finite: take "
                f"2^-126 or more"
            )
        if wrong.size:
            of_zeros = wrong.flat[0] == 0 and name != OUT_SCALE
            remedy = "put 1 where all elements of a block are 0" if of_zeros else "pass another"
            raise ArgumentValueError(
                f"{name} has {wrong.flat[0]} among its elements, and a scale is a positive, finite number: {remedy}"
            )
