"""The shortest way through a Plan: aligned torch tensors on a GPU, no c or bias, alpha 1, the current stream."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tilewright.arrays.torch import SUSPECT
from tilewright.backends.protocol import Executable
from tilewright.planner.slots import Slot, tensor_guard
from tilewright.problem import ADDENDS

DirectCall: TypeAlias = Callable[[Any, Any, Any], Any]
"""A function of (a, b, out) that multiplies.

It returns out, which it makes if None, or returns None, with nothing done, if the arrays do not fit.
"""


def direct_call(
    tensors: Sequence[Any],
    slots: Sequence[Slot],
    executable: Executable,
    *,
    exchanged: bool,
    device: int,
    stream: Callable[[int], int],
    allocate: Callable[[], Any],
    written: Callable[[tuple[Any]], None],
    check_overlap: Callable[[Sequence[Any], list[int]], None],
) -> DirectCall | None:
    """A DirectCall for tensors like `tensors`: a, b and out; None if one is not aligned or torch has no guard.

    It does the work of Plan.__call__, with all look-ups done beforehand; `exchanged`: whether the kernel's a is the
    call's b.
    """
    all_fit, inputs_fit = tensor_guard(tensors), tensor_guard(tensors[:2])
    if all_fit is None or inputs_fit is None or any(slot.alignment != 16 for slot in slots):
        return None
    launch = executable.__call__  # bound once
    disjoint: list[int] = []
    no_addends = (0,) * len(ADDENDS)

    def call(a: Any, b: Any, out: Any) -> Any:
        nonlocal disjoint
        if out is None:
            if not inputs_fit(a, b):
                return None
            result = allocate()
        elif all_fit(a, b, out):
            result = out
        else:
            return None
        at_a, at_b, at_out = a.data_ptr(), b.data_ptr(), result.data_ptr()
        if (at_a | at_b | at_out) & 15 or at_a < SUSPECT or at_b < SUSPECT or at_out < SUSPECT:
            return None  # not aligned, or perhaps freed
        pointers = [at_b, at_a, *no_addends, at_out] if exchanged else [at_a, at_b, *no_addends, at_out]
        if pointers != disjoint:
            check_overlap((a, b, *[None] * len(no_addends), result), [at_a, at_b, *no_addends, at_out])
            disjoint = pointers
        launch(pointers, 1.0, 0.0, stream(device))
        if out is not None:
            written((out,))
        return result

    return call
