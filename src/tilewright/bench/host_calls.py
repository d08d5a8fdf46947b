"""Host times of calls: timed in turns, printed, and recorded."""

import argparse
import datetime
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilewright.measure.statistics import median_interval

Calls = Mapping[str, Callable[[], Any]]
"""The timed calls, by name."""


def options(description: str | None) -> argparse.Namespace:
    """The command line: `samples`, and `json`, the path of the record or None."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=25)
    parser.add_argument("--json", type=Path, help="where to write the record")
    return parser.parse_args()


def measure(calls: Calls, samples: int, count: int, torch: Any | None) -> dict[str, list[float]]:
    """Microseconds per call, with samples of `count` calls interleaved; with torch, each starts with an idle GPU."""
    ready = torch.cuda.synchronize if torch else lambda: None
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(samples + 2):
        for name, call in calls.items():
            ready()
            start = time.perf_counter()
            for _ in range(count):
                call()
            found[name].append((time.perf_counter() - start) / count * 1e6)
    return {name: times[2:] for name, times in found.items()}  # the first two warm up


def report(
    module: str,
    chosen: argparse.Namespace,
    times: Mapping[str, list[float]],
    torch: Any | None = None,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Print a table of samples in microseconds, and write the record if `chosen.json` names a file.

    torch: if it was measured. others: what else the record has.
    """
    found = {name: median_interval(each) for name, each in times.items()}
    for name, interval in found.items():
        print(f"{interval.median:7.2f} us  [{interval.low:.2f}, {interval.high:.2f}]  {name}")
    if chosen.json:
        record = {
            "gpu": torch.cuda.get_device_name(0) if torch else None,
            "cpu": platform.processor() or platform.machine(),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": f"python -m tilewright.bench.{module} --samples {chosen.samples}",
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__ if torch else None},
            "microseconds": {name: interval.as_dict() for name, interval in found.items()},
            **(others or {}),
        }
        chosen.json.write_text(json.dumps(record, indent=1) + "\n")
