"""Special registers: %tid, %ctaid and the like. Source: PTX ISA, "Special Registers"."""

from collections.abc import Callable

import numpy as np

from tilewright.emulator.lanes import WARP, Array, Extent, Group
from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import SHARED_START
from tilewright.rounding import ceil_div, round_up

_TICKS_PER_STEP = 32
_SHARED_UNIT = 128
"""The granularity in bytes of the sizes of shared memory in special registers, from sm_80 on."""


class Specials:
    """The special registers of a wave. CTAs are in launch order: cluster by cluster, and by rank within each."""

    def __init__(self, wave: Wave, clock: Callable[[], int]) -> None:
        self._clock = clock
        launch, topology, cta_numbers = wave.launch, wave.topology, wave.cta_numbers
        grid, block, cluster = launch.grid, launch.block, launch.cluster
        clusters = (grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2])
        size = cluster[0] * cluster[1] * cluster[2]
        rank, number = cta_numbers % size, cta_numbers // size
        multiprocessors = min(grid[0] * grid[1] * grid[2], 2**32 - 1)
        values = {"cluster_ctarank": rank, "smid": cta_numbers % multiprocessors}
        for axis, tid, in_cluster, of_cluster in zip(
            "xyz",
            _unravel(np.arange(topology.threads), block),
            _unravel(rank, cluster),
            _unravel(number, clusters),
            strict=True,
        ):
            values[f"tid.{axis}"] = tid
            values[f"cluster_ctaid.{axis}"] = in_cluster
            values[f"clusterid.{axis}"] = of_cluster
            values[f"ctaid.{axis}"] = of_cluster * cluster["xyz".index(axis)] + in_cluster
        lane = np.arange(topology.threads) % WARP
        values |= {"laneid": lane, "warpid": np.arange(topology.threads) // WARP}
        values["nwarpid"] = np.full(topology.threads, ceil_div(topology.threads, WARP))
        bit = 1 << lane
        values |= {"lanemask_eq": bit, "lanemask_lt": bit - 1, "lanemask_le": 2 * bit - 1}
        values |= {"lanemask_ge": 0x1_0000_0000 - bit, "lanemask_gt": 0x1_0000_0000 - 2 * bit}
        per_cta = ("cluster", "ctaid", "smid")
        self._lanes = {
            name: (value[topology.cta] if name.startswith(per_cta) else value[topology.thread]).astype(np.uint32)
            for name, value in values.items()
        }
        extents = {"ntid": block, "nctaid": grid, "nclusterid": clusters, "cluster_nctaid": cluster}
        uniform = {f"{name}.{axis}": extent["xyz".index(axis)] for name, extent in extents.items() for axis in "xyz"}
        uniform |= {"cluster_nctarank": size, "nsmid": multiprocessors, "WARP_SZ": WARP}
        dynamic, total = launch.shared_bytes, launch.program.entry.shared_bytes + launch.shared_bytes
        uniform |= {"dynamic_smem_size": dynamic, "total_smem_size": round_up(total, _SHARED_UNIT)}
        uniform |= {"aggr_smem_size": total + SHARED_START}  # not in whole units on an H200
        uniform |= {"gridid": 1, "is_explicit_cluster": size > 1}  # one grid runs at a time
        self.uniform = {name: np.uint32(value) for name, value in uniform.items()}

    def of_lanes(self, name: str, group: Group) -> Array:
        """The special register of each lane of the group, uint32, or one value of a clock, uint64."""
        if name in self._lanes:
            return self._lanes[name][group.lanes]
        ticks = self._clock() * _TICKS_PER_STEP
        return np.asarray(np.uint64(ticks >> 32 if name == "clock_hi" else ticks))


def _unravel(index: Array, extent: Extent) -> tuple[Array, Array, Array]:
    """Coordinates x, y, z of a linear index, x fastest."""
    return index % extent[0], index // extent[0] % extent[1], index // (extent[0] * extent[1])
