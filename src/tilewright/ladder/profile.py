"""What the hardware counts of one launch, in the words of the ladder."""

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.measure.ncu import Counted

SHARES = {
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "fma": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""ncu's percentages of the clocks in which an SM works, by what they are shares of."""

STALL_METRIC = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
STALLS = {
    "selected": "issues an instruction",
    "not_selected": "could issue, but another warp does",
    "long_scoreboard": "a load from GMEM, L2 or local memory",
    "short_scoreboard": "a load from SMEM, or another answer of its unit (MIO)",
    "gmma": "wgmma, which must wait for registers or for earlier ones",
    "math_pipe_throttle": "a unit that computes, which is busy",
    "mio_throttle": "room in the queue of the SMEM unit (MIO)",
    "lg_throttle": "room in the queue of loads and stores to GMEM",
    "tex_throttle": "room in the queue of the texture unit",
    "barrier": "the other warps of the CTA at a barrier",
    "membar": "a fence of memory",
    "wait": "the fixed latency of the instruction before",
    "dispatch_stall": "the dispatcher",
    "no_instruction": "the next instruction to be fetched",
    "imc_miss": "a constant that was not in its cache",
    "branch_resolving": "the target of a branch",
    "sleeping": "the end of a sleep",
    "drain": "its stores, after its last instruction",
    "misc": "something else",
}
"""What a warp does or waits for, by ncu's name of the state."""

_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
_SECONDS = "gpu__time_duration.sum"
METRICS = (*SHARES.values(), *map(STALL_METRIC.format, STALLS), _SECTORS, _REQUESTS, _SECONDS)
"""All that is counted."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What the hardware counted of one launch, with empty caches.

    tensor, fma: the shares of the SMs' active clocks in which tensor cores work, and in which FMA units get work.
    issue: of the schedulers' active clocks, the share in which they issue. occupancy: resident warps, of all possible.
    states: of the warps' clocks, the share in each state of `STALLS`; together 1.
    sectors_per_load: of a warp's load from GMEM, which the emulator counts too; None without such loads.
    microseconds: of the launch, at whatever clocks it had.
    """

    tensor: float | None
    fma: float | None
    issue: float | None
    occupancy: float | None
    states: dict[str, float]
    sectors_per_load: float | None
    microseconds: float | None

    @classmethod
    def of(cls, counted: Counted) -> "Profile":
        """The profile that `METRICS` make."""
        shares = {name: _share(counted[metric]) for name, metric in SHARES.items()}
        states = {name: _share(counted[STALL_METRIC.format(name)]) for name in STALLS}
        sectors, requests, duration = counted[_SECTORS], counted[_REQUESTS], counted[_SECONDS]
        return cls(
            **shares,
            states={name: share for name, share in states.items() if share},
            sectors_per_load=sectors / requests if sectors is not None and requests else None,
            microseconds=None if duration is None else duration / 1e3,
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100
