"""The arrays, the scalars and the stream of a call: their valid values, and the values that launches use."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tilewright.arrays import describe
from tilewright.backends.protocol import Backend
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.expression.tree import GIVEN, Expression
from tilewright.operand import Signature
from tilewright.problem import OPERANDS, Problem, operand_names

_OPTIONAL = OPERANDS.index("c"), OPERANDS.index("out")
"""The first and the last position of operands that may be missing."""

_FP32_MAX = 3.4028234663852886e38


class Arrays(NamedTuple):
    """The arrays of a call in the order of `names`, as read; None and 0 for those that are not there."""

    arrays: Sequence[Any]
    signatures: Sequence[Signature | None]
    pointers: list[int]
    names: tuple[str, ...] = OPERANDS

    @classmethod
    def of(cls, arrays: Sequence[Any], expression: Expression | None = None) -> "Arrays":
        """Read the arrays in the order of `operand_names`, of which c, bias and out may be None.

        Raises what `describe` raises.
        """
        names = operand_names(expression)
        signatures: list[Signature | None] = [None] * len(names)
        pointers = [0] * len(names)
        position = 0
        try:
            for position, array in enumerate(arrays):
                if array is not None or not _OPTIONAL[0] <= position <= _OPTIONAL[1]:
                    signatures[position], pointers[position] = describe(array, names[position])
        except ArgumentTypeError as error:
            from tilewright.planner.element_types import placed  # a call without errors does not need it

            raise placed(error, names[position], expression) from None
        return cls(arrays, signatures, pointers, names)


NamedArrays: TypeAlias = tuple[Any, Any, Any, Any, Any, Any]
"""Of a Plan's call: operands, outputs, scale_a, scale_b, zero_a and scale_out, None for what is not given."""


def in_order(expression: Expression | None, bias: Any, named: NamedArrays) -> tuple[Any, tuple[Any, ...]]:
    """The bias and the arrays of an expression in its order, as a Plan with this expression is called.

    A bias beside scales is an operand of the expression. Raises a ValueError if others are given than it wants.
    """
    if expression is None and not [each for each in named if each is not None]:
        return bias, ()
    operands, outputs, *scales = named
    operands, outputs = mapping_of("operands", operands, "'bias': bias"), mapping_of("outputs", outputs, "'acc': sums")
    if bias is not None and not operands and expression is not None and expression.scales:
        operands, bias = {"bias": bias}, None
    given_scales = {name: array for name, array in zip(GIVEN, scales, strict=True) if array is not None}
    arrays: list[Any] = []
    arguments = (("scales", "scales", given_scales), ("operands", "named", operands), ("outputs", "outputs", outputs))
    for argument, attribute, mapping in arguments:
        wanted: tuple[str, ...] = () if expression is None else getattr(expression, attribute)
        given = tuple(mapping)
        if set(given) != set(wanted):
            raise ArgumentValueError(
                f"the plan was made for {argument} named {', '.join(wanted) or 'nothing'} and called with "
                f"{', '.join(map(str, given)) or 'none'}: pass exactly these, or make another plan"
            )
        arrays += [mapping[name] for name in wanted]
    return bias, tuple(arrays)


def mapping_of(argument: str, value: Any, example: str) -> Mapping[str, Any]:
    """The arrays by name; a TypeError if they are none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"{argument} is a {type(value).__name__}: pass a mapping of names to arrays, such as {{{example}}}"
        )
    return value


def scalars(c: Any, alpha: float, beta: float | None) -> tuple[float, float]:
    """alpha and beta rounded to fp32; beta defaults to 1 if c is given, else to 0.

    Raises TypeError or ValueError that names the invalid one, or beta if there is no c to scale.
    """
    if beta is None:
        beta = 0.0 if c is None else 1.0
    elif type(beta) is not float or (beta != 0.0 and beta != 1.0):
        beta = _fp32("beta", beta)
    if c is None and beta:
        raise ArgumentValueError(f"beta={beta} scales c, which is not given: pass c=, or leave beta out")
    if type(alpha) is not float or alpha != 1.0:
        alpha = _fp32("alpha", alpha)
    return alpha, beta


def check_alpha(problem: Problem, alpha: float) -> None:
    """Raise a ValueError if alpha scales whole numbers, which are stored as they are."""
    if problem.out.dtype.kind == "integer" and alpha not in (0.0, 1.0):
        raise ArgumentValueError(
            f"alpha={alpha} scales sums, and out is {problem.out.dtype}, which holds them as they are: leave it out, "
            f"or take an out of fp32"
        )


def _fp32(name: str, value: Any) -> float:
    if getattr(value, "requires_grad", False):
        raise UnsupportedError(f"{name} requires grad and tilewright has no autograd yet: pass {name}.item()")
    try:
        number = value.__float__()  # unlike float(value), it does not read text
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:  # the last from torch
        raise ArgumentTypeError(f"{name}={value!r} is not a real number: pass a float") from error
    except OverflowError as error:  # Python may refuse to write so long a number
        raise _too_large(f"{name} has over 308 digits and") from error
    if _FP32_MAX < abs(number) < float("inf"):
        raise _too_large(f"{name}={number}")
    return ctypes.c_float(number).value  # rounded, so a value that the kernel sees as 0 counts as 0


def _too_large(subject: str) -> ArgumentValueError:
    return ArgumentValueError(f"{subject} does not fit fp32, in which sums are scaled: at most {_FP32_MAX:.6g}")


def stream_handle(stream: Any, backend: Backend) -> int:
    """The CUstream number of an int, torch or CuPy stream, or anything with `__cuda_stream__`."""
    if isinstance(stream, int):
        handle = stream
    elif hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        handle = int((protocol() if callable(protocol) else protocol)[1])
    elif hasattr(stream, "cuda_stream"):  # torch
        handle = int(stream.cuda_stream)
    elif hasattr(stream, "ptr"):  # CuPy
        handle = int(stream.ptr)
    else:
        raise ArgumentTypeError(
            f"stream is a {type(stream).__name__}: pass a CUstream number, a torch or CuPy stream, or anything with "
            f"__cuda_stream__"
        )
    backend.check_stream(handle)
    return handle
