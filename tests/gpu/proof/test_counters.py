"""Requests, sectors and wavefronts of the emulator against those that Nsight Compute reads from the hardware."""

import csv
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from support.profiles import PROFILES
from support.proof import EQUAL

TESTS = Path(__file__).parents[2]
SECONDS = 240
WAVEFRONT_TOLERANCE = 0.02

METRICS = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("global_requests", ("ld",)),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": ("global_requests", ("st",)),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("global_sectors", ("ld",)),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("global_sectors", ("st",)),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("shared_wavefronts", ("ld", "ldmatrix")),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": ("shared_wavefronts", ("st", "stmatrix")),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("shared_conflicts", None),
}
"""ncu's metrics, and the emulator's counter with the keys that add up to them; None stands for all keys.

What cp.async (LDGSTS) writes to shared memory is in none of these wavefronts. The conflicts count it, together with the
collisions of its writes and other accesses, which depend on timing: they are compared only where there is no cp.async.
A conflict is a wavefront too many, so that the tolerance of conflicts is that of all wavefronts.
"""

EXPLAINED = {
    ("smem_tiles", "shared_wavefronts", ("ld", "ldmatrix")): (
        (32 + 8 * 2) / 64,
        "of 64 loads a step, ptxas joins the 32 of A by fours into 8 LDS.128 of one address, of 2 wavefronts each",
    ),
}
"""Kernel and counter: what ptxas makes of the emulator's number, and how that is seen in the SASS."""


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
        "--metrics", ",".join(METRICS), sys.executable, "-m", "support.profiles", str(launched),
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
        if row["Metric Name"] in METRICS:
            value = row["Metric Value"].replace(",", "")
            launches[int(row["ID"])][row["Metric Name"]] = float(value) if value not in ("", "n/a") else None
    return [launches[number] for number in sorted(launches)]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: type(profile).__name__)
def test_the_counters_are_the_hardwares(profile, hardware, proof):
    if profile.name not in hardware:
        proof.add("counters", profile.name, "failed on the GPU")
        pytest.fail("it did not run on the GPU")
    counted = profile.count().as_dict()
    differing, explained = [], []
    values = hardware[profile.name]
    wavefronts = sum(values.get(metric) or 0 for metric, (name, _) in METRICS.items() if name == "shared_wavefronts")
    for metric, value in values.items():
        counter, keys = METRICS[metric]
        if counter not in counted or value is None or (keys is None and "cp.async" in counted[counter]):
            continue
        ours = sum(number for key, number in counted[counter].items() if keys is None or key in keys)
        if (known := EXPLAINED.get((getattr(profile, "kernel", None), counter, keys))) is not None:
            factor, sentence = known
            explained.append(f"{metric}: {ours} by the PTX; {sentence}")
            ours *= factor
        expected = {"shared_wavefronts": value, "shared_conflicts": wavefronts}
        tolerance = WAVEFRONT_TOLERANCE * expected.get(counter, 0)
        if abs(ours - value) > tolerance:
            differing.append(f"{metric}: emulator {ours} {counted[counter]}, ncu {value:g}")
    outcome = "different" if differing else "explained" if explained else EQUAL
    proof.add("counters", profile.name, outcome, [*differing, *explained])
    proof.tabulate(profile.name, hardware[profile.name], counted)
    assert not differing
