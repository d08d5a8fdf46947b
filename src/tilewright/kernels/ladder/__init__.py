"""The ladder: from a naive kernel to the state of the art, one idea at a time."""

from tilewright.kernels.ladder import cuda_cores, hopper, warp_tensor_cores
from tilewright.kernels.ladder.rung import Rung

LADDER: dict[str, Rung] = {rung.name: rung for rung in (*cuda_cores.RUNGS, *warp_tensor_cores.RUNGS, *hopper.RUNGS)}
"""Every rung by its kernel's name, the first to be climbed first."""

__all__ = ["LADDER", "Rung"]
