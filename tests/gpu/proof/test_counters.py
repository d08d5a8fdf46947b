"""Requests, sectors and wavefronts of the emulator against those that Nsight Compute reads from the hardware."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.profiles import PROFILES, counted_aside
from support.proof import EQUAL
from tilewright.errors import UnavailableError
from tilewright.measure import ncu

TESTS = Path(__file__).parents[2]
WAVEFRONT_TOLERANCE = 0.02
"""Most are equal, but NVRTC's PTX of simt has by chance 51 or 52 loads from shared memory, of which ptxas keeps 51."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The emulator's counter, whose keys (none: all) add up to the sum of ncu's metrics, each so many times."""

    counter: str
    metrics: dict[str, int]
    keys: tuple[str, ...] = ()

    @property
    def name(self):
        """The counter and its keys."""
        return f"{self.counter} of {', '.join(self.keys)}" if self.keys else self.counter

    def counted(self, counters):
        """The emulator's number."""
        numbers = counters[self.counter]
        return numbers if isinstance(numbers, int) else sum(numbers.get(key, 0) for key in self.keys or numbers)

    def measured(self, values):
        """ncu's number; None where it has not all metrics."""
        if any(values.get(metric) is None for metric in self.metrics):
            return None
        return sum(values[metric] * factor for metric, factor in self.metrics.items())


_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_SHARED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_BYPASS = _SHARED.format("ldgsts_cache_bypass")
_OF_ONE = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_self.sum"
_OF_MANY = "l1tex__m_l1tex2xbar_read_requests_mem_global_op_tma_ld_dest_multicast_size_{}B.sum"
_LOADS = Comparison("shared_wavefronts", {_SHARED.format("ld"): 1, _SHARED.format("ldsm"): 1}, ("ld", "ldmatrix"))
_STORES = Comparison("shared_wavefronts", {_SHARED.format("st"): 1, _SHARED.format("stsm"): 1}, ("st", "stmatrix"))
_COPIES = Comparison("shared_wavefronts", {_SHARED.format("ldgsts_cache_access"): 1}, ("cp.async",))
_CONFLICTS = Comparison("shared_conflicts", {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 1})
_COPIES_CONFLICTS = Comparison(
    "shared_conflicts", {"smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum": 1}, ("cp.async",)
)
COMPARISONS = (
    *(
        Comparison(f"global_{unit}", {_GLOBAL.format(unit, kind): 1}, (kind,))
        for unit in ("requests", "sectors")
        for kind in ("ld", "st")
    ),
    *(_LOADS, _STORES, _COPIES, _COPIES_CONFLICTS, _CONFLICTS),
    Comparison("tma_read_bytes", {_OF_ONE: 1, **{_OF_MANY.format(nbytes): nbytes for nbytes in (32, 64, 96, 128)}}),
    Comparison("tma_stored_bytes", {"l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum": 1}),
)
"""Wavefronts are those that each instruction needs for itself. What L1 counts as conflicts of all instructions is also
collisions of different warps, which depend on timing: they are compared only where there is no cp.async.
"""
# Only tabulated, as requests of neighbors may be joined on the way.
_READ_OF_L2 = "lts__t_sectors_srcunit_tex_op_read.sum"
_METRICS = (*(metric for comparison in COMPARISONS for metric in comparison.metrics), _BYPASS, _READ_OF_L2)

EXPLAINED = {
    ("smem_tiles", _LOADS): (
        (32 + 8 * 2) / 64,
        "of 64 loads a step, ptxas joins the 32 of A by fours into 8 LDS.128 of one address, of 2 wavefronts each",
    ),
    ("volta_mma", _CONFLICTS): (
        None,
        "each mma is a call with 20 SHFL, which collide with loads of other warps; the loads alone have no conflict",
    ),
}
"""By how much ptxas changes the emulator's number of a kernel (None: incomparable), and how the SASS shows it."""
_OF_BYPASS = (
    "cp.async.cg is LDGSTS.BYPASS, whose data L2 delivers: ncu counts lines, here {:g}, and no passes over the banks"
)


@pytest.fixture(scope="module")
def both(proof, tmp_path_factory):
    """A function of a profile that gives its counters, and ncu's values: name of the profile -> metric -> number.

    The emulator runs while ncu does. Skips where ncu may not count, and says so on record.
    """
    try:
        tool = ncu.find_ncu()
        with counted_aside(PROFILES) as counted:
            measured = _measured(tool, tmp_path_factory.mktemp("ncu") / "launched.json")
            proof.attach("counters", ncu=str(tool), table=[])
            yield counted, measured
    except UnavailableError as unavailable:
        proof.attach("counters", ncu=str(unavailable), table=[])
        pytest.skip(str(unavailable))


def _measured(tool, launched):
    """The values; raises UnavailableError if ncu may not count, or does not see each launch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), str(TESTS.parent / "src")]), prepend=os.pathsep)
        rows = ncu.profile(tool, [sys.executable, "-m", "support.profiles", str(launched)], _METRICS, whole=True)
    names = json.loads(launched.read_text())
    if len(rows) != len(names):
        raise UnavailableError(f"ncu saw {len(rows)} launches of {len(names)}")
    return dict(zip(names, rows, strict=True))


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: type(profile).__name__)
def test_the_counters_are_the_hardwares(profile, both, proof):
    emulator, hardware = both
    if profile.name not in hardware:
        proof.add("counters", profile.name, "failed on the GPU")
        pytest.fail("it did not run on the GPU")
    counted, measured = emulator(profile), hardware[profile.name]
    said = {EQUAL: [], "explained": [], "different": []}
    compared = [comparison for comparison in COMPARISONS if _is_meant(comparison, profile, counted, measured)]
    for comparison in compared:
        outcome, sentence = _compare(comparison, getattr(profile, "kernel", None), counted, measured)
        said[outcome].append(sentence)
    outcome = "different" if said["different"] else "explained" if said["explained"] else EQUAL
    proof.add("counters", profile.name, outcome, said["different"] + said["explained"])
    proof.tabulate(profile.name, measured, counted, [comparison.name for comparison in compared])
    assert not said["different"]


def _is_meant(comparison, profile, counted, measured):
    """Whether both numbers are of the same things."""
    if profile.spins and comparison.counter.startswith("shared"):
        return False
    if comparison is _CONFLICTS:
        return "cp.async" not in counted["shared_conflicts"]
    return comparison is not _COPIES_CONFLICTS or not measured.get(_BYPASS)


def _compare(comparison, kernel, counted, measured):
    """The outcome for one counter, and what is to be said of it."""
    ours, theirs = comparison.counted(counted), comparison.measured(measured)
    if theirs is None:
        return "different", f"{comparison.name}: ncu has no {', '.join(comparison.metrics)}"
    tolerance = 0
    if comparison.counter == "shared_wavefronts":
        tolerance = WAVEFRONT_TOLERANCE * theirs
    elif comparison is _CONFLICTS:  # wavefronts too many
        tolerance = WAVEFRONT_TOLERANCE * sum(filter(None, map(measured.get, (*_LOADS.metrics, *_STORES.metrics))))
    if abs(ours - theirs) <= tolerance:
        return EQUAL, ""
    sentence = f"{comparison.name}: {ours} by the PTX, {theirs:g} by ncu"
    if comparison is _COPIES and measured[_BYPASS] and not theirs:
        return "explained", f"{sentence}; {_OF_BYPASS.format(measured[_BYPASS])}"
    factor, why = EXPLAINED.get((kernel, comparison), (1, ""))
    if factor is None or abs(ours * factor - theirs) <= tolerance:
        return "explained", f"{sentence}; {why}"
    return "different", sentence
