"""Scales of a and b: what a call gives, what they must be, and how they lie over the sums."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.arrays import adopt
from tilewright.dtypes import FP8, DType, fp32, int8
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.tree import SCALES
from tilewright.operand import HOST, Operand, values_of
from tilewright.problem import RECIPES, cuts_k

_WHOLE = tuple(recipe for recipe in RECIPES if not cuts_k(recipe))
SCALED: dict[DType, tuple[str, ...]] = {**dict.fromkeys(FP8, tuple(RECIPES)), int8: _WHOLE}
"""The recipes that each type of a and b may have."""


class Scaling(NamedTuple):
    """The scales of a call: the recipe and the arrays, None for what is not given."""

    recipe: Any = None
    scale_a: Any = None
    scale_b: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in their order."""
        return () if self.recipe is None else SCALES

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays."""
        return () if self.recipe is None else (self.scale_a, self.scale_b)

    def check(self) -> None:
        """Raise a ValueError for an unknown recipe, scales without a recipe, and a recipe without scales."""
        if self.recipe is not None and not (isinstance(self.recipe, str) and self.recipe in RECIPES):
            raise ArgumentValueError(f"recipe={self.recipe!r} is unknown: use None or one of {_RECIPES}")
        for name, array in zip(SCALES, (self.scale_a, self.scale_b), strict=True):
            if self.recipe is None and array is not None:
                raise ArgumentValueError(
                    f"{name} was given without recipe=, which says what each scale is for: pass one of {_RECIPES}"
                )
            if self.recipe is not None and array is None:
                raise ArgumentValueError(
                    f"recipe={self.recipe!r} needs {name}, which is missing: pass an array of fp32 numbers"
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


def over_sums(scale: Operand, recipe: str, shape: tuple[int, ...]) -> Operand:
    """A scale as it is broadcast: to sums of `shape`, or, where it changes along k, to their batches."""
    if recipe == "tensor":
        return scale._replace(shape=shape, strides=(0,) * len(shape))
    wanted = (*shape[:-2], *scale.shape[-2:]) if cuts_k(recipe) else shape
    missing = len(wanted) - len(scale.shape)
    pairs = zip(scale.shape, wanted[max(missing, 0) :], strict=False)
    if missing < 0 or any(extent not in (1, target) for extent, target in pairs):
        raise ArgumentValueError(
            f"a scale has shape {scale.shape}, whose batch dimensions do not broadcast to those of the result, "
            f"{shape[:-2]}: each must be 1 or match, counted from the last"
        )
    kept = (
        stride if extent == target else 0
        for extent, stride, target in zip(scale.shape, scale.strides, wanted[missing:], strict=True)
    )
    return scale._replace(shape=wanted, strides=(0,) * missing + tuple(kept))


def check_values(scales: Mapping[str, Any]) -> None:
    """Raise a ValueError if one of these arrays in host memory has an element that is not positive and finite."""
    for name, array in scales.items():
        values = values_of(adopt(array, name))
        wrong = values[~((values > 0) & np.isfinite(values))]
        if wrong.size:
            raise ArgumentValueError(
                f"{name} has {wrong.flat[0]} among its elements, and a scale is a positive, finite number: put 1 "
                f"where all elements of a block are 0"
            )


def host_scales(operands: Mapping[str, Operand]) -> tuple[str, ...]:
    """The names of the scales whose elements can be looked at: those in host memory."""
    return tuple(name for name in SCALES if name in operands and operands[name].device == HOST)
