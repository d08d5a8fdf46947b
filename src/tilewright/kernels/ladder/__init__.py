"""The ladder: from a naive kernel to the state of the art, one idea at a time."""

from collections.abc import Collection, Mapping

from tilewright.kernels.ladder import cuda_cores, hopper, warp_tensor_cores
from tilewright.kernels.ladder.rung import Road, Rung

LADDER: dict[str, Rung] = {rung.name: rung for rung in (*cuda_cores.RUNGS, *warp_tensor_cores.RUNGS, *hopper.RUNGS)}
"""Every rung by its kernel's name, in climbing order."""


def before(names: Collection[str]) -> dict[str, str]:
    """The rung that each of these is compared with, by name: the one before it on its road, among these.

    The first rung of a road has none; a side step is neither compared nor compared with.
    """
    found: dict[str, str] = {}
    last: dict[Road, str] = {}
    for name, rung in LADDER.items():
        if name not in names or rung.side_step:
            continue
        if rung.road in last:
            found[name] = last[rung.road]
        last[rung.road] = name
    return found


def gains(seconds: Mapping[str, float]) -> dict[str, float]:
    """The speed of each rung relative to the one `before` it, by name, among those whose seconds are given."""
    return {name: seconds[other] / seconds[name] for name, other in before(seconds).items()}


__all__ = ["LADDER", "Rung", "before", "gains"]
