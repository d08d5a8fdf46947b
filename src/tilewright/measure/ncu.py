"""Nsight Compute: what the hardware counts while a launch runs; `ncu` runs it several times."""

import csv
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import UnavailableError

Counted = dict[str, float | None]
"""The values of one launch by metric, in base units; None for what this GPU does not count."""

PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
"""Where installers of CUDA put ncu, besides PATH."""


class NcuMissing(UnavailableError):
    """No ncu was found."""


def find_ncu() -> Path:
    """ncu from PATH, or from where CUDA's installers put it; of several, the newest. Raises NcuMissing."""
    if on_path := shutil.which("ncu"):
        return Path(on_path)
    for place in PLACES:
        if found := sorted(Path("/").glob(place.lstrip("/"))):
            return found[-1]
    raise NcuMissing(
        f"the hardware's counters need ncu, which is neither on PATH nor at {' or '.join(PLACES)}: install Nsight "
        "Compute, a part of the CUDA toolkit (conda: nsight-compute), or put its folder on PATH"
    )


def profile(ncu: Path, command: Sequence[str], metrics: Sequence[str], *, whole: bool = False) -> list[Counted]:
    """The metrics of each launch that a command makes between the profiler's start and stop, in their order.

    whole: of each launch from the command's start to its end.
    The clocks stay as they are, and caches are empty before each pass. Raises UnavailableError if ncu may not count,
    or counts nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.csv")
        start = "on" if whole else "off"
        options = ("--csv", "--print-units", "base", "--clock-control", "none", "--profile-from-start", start)
        names = ",".join(_known(ncu, metrics))
        done = subprocess.run(
            [str(ncu), *options, "--log-file", str(log), "--metrics", names, *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    if "ERR_NVGPUCTRPERM" in text + done.stderr:
        raise UnavailableError(
            "ncu may not read this GPU's counters (ERR_NVGPUCTRPERM): call it as root, or give the driver's module "
            "the option NVreg_RestrictProfilingToAdminUsers=0"
        )
    launches = parse(text)
    if not launches:
        said = "\n".join((text + done.stdout + done.stderr).strip().splitlines()[-12:])
        raise UnavailableError(
            f"{ncu} counted no launch and ended with status {done.returncode}; see what it said:\n{said}"
        )
    return [{metric: launch.get(metric) for metric in metrics} for launch in launches]


def parse(text: str) -> list[Counted]:
    """The launches of what `ncu --csv --print-units base` prints: a line per launch and metric, after other lines."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    launches: defaultdict[int, Counted] = defaultdict(dict)
    for row in csv.DictReader(lines[start:]):
        launches[int(row["ID"])][row["Metric Name"]] = _number(row["Metric Value"])
    return [launches[number] for number in sorted(launches)]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:  # "n/a", or nothing
        return None


def _known(ncu: Path, metrics: Sequence[str]) -> list[str]:
    """Those metrics that ncu lists for this GPU, since it refuses to start with others; all if it lists none."""
    asked = subprocess.run([str(ncu), "--query-metrics"], capture_output=True, text=True, check=False)
    listed = {line.split()[0] for line in asked.stdout.splitlines() if line.strip()}
    return [metric for metric in metrics if metric.partition(".")[0] in listed] or list(metrics)
