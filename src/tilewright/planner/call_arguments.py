"""The arrays, the scalars and the stream of a call: their valid values, and the values that launches use."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.arrays import describe
from tilewright.backends.protocol import Backend
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tilewright.operand import Signature
from tilewright.problem import OPERANDS

_FP32_MAX = 3.4028234663852886e38


class Arrays(NamedTuple):
    """The arrays of a call in the order of OPERANDS, as read; None and 0 for those that are not there."""

    arrays: Sequence[Any]
    signatures: Sequence[Signature | None]
    pointers: list[int]

    @classmethod
    def of(cls, *arrays: Any) -> "Arrays":
        """Read the arrays, of which a and b must be there; raises what `describe` raises."""
        signatures: list[Signature | None] = [None] * len(OPERANDS)
        pointers = [0] * len(OPERANDS)
        for position, array in enumerate(arrays):
            if array is not None or position < 2:
                signatures[position], pointers[position] = describe(array, OPERANDS[position])
        return cls(arrays, signatures, pointers)


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
