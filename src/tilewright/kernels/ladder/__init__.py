"""The ladder: from a naive kernel to the state of the art, one idea at a time."""

from collections.abc import Mapping

from tilewright.kernels.ladder import cuda_cores, hopper, warp_tensor_cores
from tilewright.kernels.ladder.rung import Road, Rung

LADDER: dict[str, Rung] = {rung.name: rung for rung in (*cuda_cores.RUNGS, *warp_tensor_cores.RUNGS, *hopper.RUNGS)}
"""Every rung by its kernel's name, the first to be climbed first."""


def gains(seconds: Mapping[str, float]) -> dict[str, float]:
    """By name, how many times faster a rung is than the one before it on its road, of those whose seconds are given.

    The first of a road has no gain, and neither has a side step: it is not compared with any rung, nor any with it.
    """
    found: dict[str, float] = {}
    before: dict[Road, str] = {}
    for name, rung in LADDER.items():
        if name not in seconds or rung.side_step:
            continue
        if rung.road in before:
            found[name] = seconds[before[rung.road]] / seconds[name]
        before[rung.road] = name
    return found


__all__ = ["LADDER", "Rung", "gains"]
