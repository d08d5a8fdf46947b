"""Requests, sectors and wavefronts of the emulator against those that Nsight Compute reads from the hardware."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.profiles import PROFILES
from support.proof import EQUAL

TESTS = Path(__file__).parents[2]
SECONDS = 240
WAVEFRONT_TOLERANCE = 0.02
"""Most are equal, but PTX can have a load that ptxas drops: simt's has 52 or 51, by chance, where SASS has 51."""


@dataclass(frozen=True)
class Comparison:
    """Metrics of ncu, and the emulator's counter whose keys add up to their sum; None stands for all keys."""

    metrics: tuple[str, ...]
    counter: str
    keys: tuple[str, ...] | None


_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_SHARED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_BYPASS = _SHARED.format("ldgsts_cache_bypass")
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
COMPARISONS = (
    *(
        Comparison((_GLOBAL.format(unit, kind),), f"global_{unit}", (kind,))
        for unit in ("requests", "sectors")
        for kind in ("ld", "st")
    ),
    Comparison((_SHARED.format("ld"), _SHARED.format("ldsm")), "shared_wavefronts", ("ld", "ldmatrix")),
    Comparison((_SHARED.format("st"), _SHARED.format("stsm")), "shared_wavefronts", ("st", "stmatrix")),
    Comparison((_SHARED.format("ldgsts_cache_access"), _BYPASS), "shared_wavefronts", ("cp.async",)),
    Comparison((_CONFLICTS,), "shared_conflicts", None),
)
"""Wavefronts are those that each instruction needs for itself. The counters of L1, as of the conflicts, have collisions
of different warps in them too, which depend on timing: conflicts are compared only where there is no cp.async.
"""
_METRICS = tuple(metric for comparison in COMPARISONS for metric in comparison.metrics)

EXPLAINED = {
    ("smem_tiles", _SHARED.format("ld")): (
        (32 + 8 * 2) / 64,
        "of 64 loads a step, ptxas joins the 32 of A by fours into 8 LDS.128 of one address, of 2 wavefronts each",
    ),
    ("volta_mma", _CONFLICTS): (
        None,
        "each mma is a call with 20 SHFL, which collide with loads of other warps; the loads alone have no conflict",
    ),
    **{
        (kernel, _BYPASS): (
            None,
            "cp.async.cg is LDGSTS.BYPASS, of which ncu counts what L2 delivers instead of passes over the banks: "
            "lines of SMEM, once per line of the source: 4 for 512 bytes in a row, 8 for rows of 64; zeros alter it",
        )
        for kernel in ("mma", "async_copies", "mma_swizzled")
    },
}
"""Kernel and metric: by how much ptxas changes the emulator's number (None: it is another quantity), and why."""


@pytest.fixture(scope="module")
def hardware(proof, tmp_path_factory):
    """ncu's values: name of the profile -> metric -> number. Skips where ncu may not count, and says so on record."""
    folder = tmp_path_factory.mktemp("ncu")
    measured, reason = _measure(folder / "log.csv", folder / "launched.json")
    proof.attach("counters", ncu=reason, table=[])
    if not measured:
        pytest.skip(reason)
    return measured


def _measure(log, launched):
    """The values, and what is to be said about them."""
    ncu = _find_ncu()
    if ncu is None:
        return {}, "ncu is not installed"
    command = [
        ncu, "--csv", "--print-units", "base", "--clock-control", "none", "--log-file", str(log),
        "--metrics", ",".join(_METRICS), sys.executable, "-m", "support.profiles", str(launched),
    ]  # fmt: skip
    paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = subprocess.run(
            command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        said = f"exit status {done.returncode}: {done.stderr[-1500:]}"
    except subprocess.TimeoutExpired:
        said = f"ncu did not end in {SECONDS} seconds"
    text = log.read_text() if log.exists() else ""
    if "ERR_NVGPUCTRPERM" in text:
        return {}, "no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM)"
    names = json.loads(launched.read_text()) if launched.exists() else []
    rows = _rows(text)
    if len(rows) != len(names):
        return {}, f"ncu saw {len(rows)} launches of {len(names)}; {said}; log: {text[-500:]}"
    return dict(zip(names, rows, strict=True)), f"{ncu}, {said}"


def _find_ncu():
    candidates = [shutil.which("ncu"), "/usr/local/cuda/bin/ncu", *map(str, Path("/opt").glob("nvidia/*/*/ncu"))]
    return next((path for path in candidates if path and Path(path).exists()), None)


def _rows(text):
    """The metrics of each launch, in order."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches = defaultdict(dict)
    for row in csv.DictReader(lines[start:]):
        if row["Metric Name"] in _METRICS:
            value = row["Metric Value"].replace(",", "")
            launches[int(row["ID"])][row["Metric Name"]] = float(value) if value not in ("", "n/a") else None
    return [launches[number] for number in sorted(launches)]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: type(profile).__name__)
def test_the_counters_are_the_hardwares(profile, hardware, proof):
    if profile.name not in hardware:
        proof.add("counters", profile.name, "failed on the GPU")
        pytest.fail("it did not run on the GPU")
    counted, measured = profile.count().as_dict(), hardware[profile.name]
    kernel = getattr(profile, "kernel", None)
    said = {EQUAL: [], "explained": [], "different": []}
    for comparison in COMPARISONS:
        outcome, sentence = _compare(comparison, kernel, counted, measured)
        said[outcome].append(sentence)
    outcome = "different" if said["different"] else "explained" if said["explained"] else EQUAL
    proof.add("counters", profile.name, outcome, said["different"] + said["explained"])
    proof.tabulate(profile.name, measured, counted)
    assert not said["different"]


def _compare(comparison, kernel, counted, measured):
    """The outcome for one counter, and what is to be said of it."""
    numbers = counted[comparison.counter]
    if comparison.counter == "shared_conflicts" and "cp.async" in numbers:
        return EQUAL, ""
    ours = sum(number for key, number in numbers.items() if comparison.keys is None or key in comparison.keys)
    values = {metric: measured[metric] for metric in comparison.metrics}
    if None in values.values():
        return "different", f"ncu has no {', '.join(values)}"
    theirs = sum(values.values())
    tolerance = _tolerance(comparison.counter, theirs, measured)
    if abs(ours - theirs) <= tolerance:
        return EQUAL, ""
    sentence = f"{comparison.counter}: {ours} by the PTX {numbers}, {theirs:g} by ncu"
    for metric in filter(values.get, values):
        factor, why = EXPLAINED.get((kernel, metric), (0, ""))
        if factor is None or abs(ours * factor - theirs) <= tolerance:
            return "explained", f"{sentence}; {why}"
    return "different", sentence


def _tolerance(counter, value, measured):
    """How far the emulator may be from ncu's value."""
    if counter == "shared_conflicts":  # wavefronts too many, and so a part of all
        value = sum(measured[metric] for metric in _METRICS if "wavefronts" in metric)
    return WAVEFRONT_TOLERANCE * value if counter.startswith("shared") else 0
