"""Host time of the first product of a process whose kernel is in the cache on disk, up to loading it into the driver.

    python -m tilewright.bench.first_call --json results/first_call.json

Each sample is a process of its own, which has imported NumPy. It plans for an H200 that is not there, so the time
leaves out the driver. Modules come as bytecode, as pip installs them.
"""

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from tilewright.bench.host_calls import options, report

CHILD = """
import json
from time import perf_counter

import numpy as np

start = perf_counter()
import tilewright as tw
tw.plan
imported = perf_counter()
from tilewright.backends.absent import AbsentGpu

a, b, out, gpu = *(np.empty((512, 512), np.float16) for _ in range(3)), AbsentGpu()
ready = perf_counter()
tw.plan(a, b, out=out, backend=gpu)
print(json.dumps([1e6 * (imported - start), 1e6 * (perf_counter() - ready)]))
"""


def sample(environment: dict[str, str]) -> list[float]:
    """The time in us to import tilewright, and to plan, in a new process."""
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure, print a table and write the JSON."""
    chosen = options(__doc__)
    with TemporaryDirectory() as folder:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONPYCACHEPREFIX": folder,
            "TILEWRIGHT_CACHE_DIR": folder,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        sample(environment)  # writes bytecode, and compiles
        imports, plans = zip(*(sample(environment) for _ in range(chosen.samples)), strict=True)
    sums = [sum(pair) for pair in zip(imports, plans, strict=True)]
    phases = {"import tilewright": list(imports), "plan, kernel from the disk": list(plans), "both": sums}
    report("first_call", chosen, phases)


if __name__ == "__main__":
    main()
