"""Host time of a call on torch tensors: from the call to its return, which includes the launch but not its completion.

    python -m tilewright.bench.host_time --json results/host_time.json

Needs torch and a GPU. The same run also times the driver's own launch call and torch.matmul.
"""

import sys
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver

from tilewright.api import matmul, plan
from tilewright.bench import torch_on_gpu
from tilewright.bench.host_calls import measure, options, report

CALLS = 400
"""Calls per sample: few enough that the launch queue never fills up and makes the host wait."""


def contenders(torch: Any) -> dict[str, Callable[[], Any]]:
    """The timed calls, on 64x64x64 bf16: the GPU keeps up with the host on such a small product."""
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
        "cuLaunchKernelEx alone": lambda: driver.cuLaunchKernelEx(*launch.kernel.launched),
    }


def main() -> None:
    """Measure, print a table and write the JSON."""
    chosen = options(__doc__)
    try:
        torch = torch_on_gpu()
    except RuntimeError as error:
        sys.exit(str(error))
    report("host_time", chosen, measure(contenders(torch), chosen.samples, CALLS, torch), torch)


if __name__ == "__main__":
    main()
