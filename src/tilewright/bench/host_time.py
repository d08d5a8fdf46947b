"""Host time of a call on torch tensors: from the call to its return, the launch included, the GPU not waited for.

    python -m tilewright.bench.host_time --json results/host_time.json

Needs torch and a GPU. The driver's own launch call and torch.matmul are timed beside it in the same run.
"""

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from tilewright.api import matmul, plan
from tilewright.bench import torch_on_gpu
from tilewright.measure.statistics import median_interval

CALLS = 400
"""Calls per sample: so few that the launch queue never fills up and makes the host wait."""


def contenders(torch: Any) -> dict[str, Callable[[], Any]]:
    """The timed calls, on 64x64x64 bf16, which is so small that the GPU keeps up with the host."""
    a, b, out = (torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    planned = plan(a, b, out=out)
    planned(a, b, out=out)
    launch: Any = planned._executable
    return {
        "plan(a, b, out=out)": lambda: planned(a, b, out=out),
        "matmul(a, b, out=out)": lambda: matmul(a, b, out=out),
        "matmul(a, b)": lambda: matmul(a, b),
        "torch.matmul(a, b, out=out)": lambda: torch.matmul(a, b, out=out),
        "torch.matmul(a, b)": lambda: torch.matmul(a, b),
        "cuLaunchKernelEx alone": lambda: driver.cuLaunchKernelEx(*launch._launched),
    }


def measure(torch: Any, samples: int) -> dict[str, list[float]]:
    """Microseconds per call, with the calls interleaved."""
    calls = contenders(torch)
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(samples + 2):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: times[2:] for name, times in found.items()}  # the first two warm up


def main() -> None:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=25)
    parser.add_argument("--json", type=Path, help="where to write the record")
    arguments = parser.parse_args()
    try:
        torch = torch_on_gpu()
    except RuntimeError as error:
        sys.exit(str(error))
    found = {name: median_interval(times) for name, times in measure(torch, arguments.samples).items()}
    for name, interval in found.items():
        print(f"{interval.median:7.2f} us  [{interval.low:.2f}, {interval.high:.2f}]  {name}")
    if arguments.json:
        record = {
            "gpu": torch.cuda.get_device_name(0),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": "python -m tilewright.bench.host_time " + " ".join(sys.argv[1:]),
            "versions": {"python": sys.version.split()[0], "torch": torch.__version__},
            "microseconds": {name: interval.as_dict() for name, interval in found.items()},
        }
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
