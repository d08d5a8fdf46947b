"""The CPU time that the emulator takes for some kernels, and what for, as the table of docs/emulator.md.

    python tools/emulator_time.py [--profile KERNEL]

CPU time does not depend on what else the machine does, except through its caches. Each number is the least of some
runs. `--profile` prints the functions in which one of the kernels, fully checked, spends its time.
"""

import argparse
import cProfile
import os
import pstats
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

for library in ("OPENBLAS", "OMP"):  # one thread of BLAS, as in the tests
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np  # noqa: E402

import tilewright as tw  # noqa: E402
from emulate.nvrtc import compile_ptx  # noqa: E402
from support.attention import ATTENTION, attend  # noqa: E402
from tilewright.backends.emulated import EmulatedBackend  # noqa: E402
from tilewright.emulator import Coverage  # noqa: E402

RUNS = 3
SIZE = 1024
HEADS = 4


def product(kernel: str) -> Callable[..., Any]:
    """A product of 1024 x 1024 x 1024 in fp16 by a kernel; returns a function of the device's options."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in range(2))

    def run(**options: Any) -> None:
        tw.plan(a, b.T, kernel=kernel, backend=EmulatedBackend(**options))(a, b.T)

    return run


def attention() -> Callable[..., Any]:
    """A flash attention forward pass of 4 heads, 1024 queries and keys."""
    run: Callable[..., Any] = partial(attend, compile_ptx(ATTENTION), HEADS, SIZE)
    return run


WORKLOADS: dict[str, Callable[[], Callable[..., Any]]] = {
    "wgmma, 1024 x 1024 x 1024": lambda: product("wgmma"),
    "wgmma_hilbert, the same": lambda: product("wgmma_hilbert"),
    "mma, the same": lambda: product("mma"),
    "flash attention by mma.sync, 4 x 1024 x 64": attention,
}
PARTS: dict[str, dict[str, Any]] = {
    "checks": {"checks": True},
    "memory counters": {"count_memory": True},
    "coverage": {"observers": (Coverage(),)},
}
"""What a launch may do besides running, and the options that ask for it."""


def least(run: Callable[..., Any], **options: Any) -> float:
    """The least CPU time of some runs, in seconds."""
    return min(seconds(run, **{"checks": False, **options}) for _ in range(RUNS))


def seconds(run: Callable[..., Any], **options: Any) -> float:
    """The CPU time of one run."""
    start = time.process_time()
    run(**options)
    return time.process_time() - start


def main() -> None:
    """Print the table, or a profile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", metavar="KERNEL", help="the beginning of a kernel's name in the table")
    wanted = parser.parse_args().profile
    if wanted:
        run = next(make() for name, make in WORKLOADS.items() if name.startswith(wanted))
        everything = {"checks": True, "count_memory": True, "observers": (Coverage(),)}
        run(**everything)
        with cProfile.Profile() as profile:
            run(**everything)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    print(f"| seconds of CPU | loading | running | {' | '.join(f'+ {part}' for part in PARTS)} |")
    print("|---" * (3 + len(PARTS)) + "|")
    for name, make in WORKLOADS.items():
        run = make()
        first, alone = seconds(run, checks=False), least(run)
        others = [max(least(run, **options) - alone, 0.0) for options in PARTS.values()]
        cells = [max(first - alone, 0.0), alone, *others]
        print(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


if __name__ == "__main__":
    main()
