"""Host time of a product that was not met before and whose kernel is already compiled and loaded.

    python -m tilewright.bench.planning_time --json results/planning_time.json

A new m is what a server meets at every step; new strides share nothing with an earlier call. On a GPU with torch, this
times `tilewright.plan` and `tilewright.matmul` as they are. Elsewhere it plans NumPy arrays for an H200 that is not
there, and the time leaves out loading the kernel, tensor maps and the launch.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import cycle
from time import perf_counter
from typing import Any

import numpy as np

from tilewright.api import matmul, plan
from tilewright.backends.protocol import Executable
from tilewright.bench import torch_on_gpu
from tilewright.bench.host_calls import options, report
from tilewright.hardware import H200
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.parameters import KernelArguments, LaunchShape, gemm_parameters
from tilewright.operand import Operand

ROWS = range(64, 10_064)
"""Numbers of rows: more than any cache keeps, so that each is new."""

CALLS = 200
"""Calls per sample."""

KERNELS = {"wgmma": ("bfloat16", 64), "mma": ("bfloat16", 63), "simt": ("float32", 64)}
"""The element type and the extent k for which each kernel is chosen on an H200."""


class AbsentGpu:
    """A Backend that stands in for an H200 and never launches anything."""

    name = "absent"
    hardware = H200

    def prepare(self, compiled: CompiledKernel, shape: LaunchShape, arguments: KernelArguments) -> Executable:
        """Write the parameters, as the backend of a GPU does, and return an Executable that launches nothing."""
        gemm_parameters(arguments)
        return lambda pointers, alpha, beta, stream: None

    @contextmanager
    def resident(self, operands: Mapping[str, Operand], stream: int) -> Iterator[Mapping[str, int]]:
        """Copy nothing: there are no addresses."""
        yield {}

    @contextmanager
    def workspace(self, nbytes: int, stream: int) -> Iterator[int]:
        """No memory: nothing is launched."""
        yield 0

    def reads_in_place(self, device: int) -> bool:
        """Always, as a GPU reads its own memory."""
        return True

    def has_loaded(self, compiled: CompiledKernel) -> bool:
        """Always: there is nothing to load."""
        return True

    def check_stream(self, stream: int) -> None:
        """Accept any stream."""

    def is_capturing(self, stream: int) -> bool:
        """Never: there are no streams."""
        return False


class Product:
    """Products of `kernel` with any of ROWS rows, on the GPU that there is, or for one that is not there."""

    def __init__(self, kernel: str, torch: Any | None):
        name, self._k = KERNELS[kernel]
        self._backend: Any = "gpu" if torch else AbsentGpu()
        if torch:
            self._empty = partial(torch.empty, device="cuda", dtype=getattr(torch, name))
        else:
            self._empty = partial(np.empty, dtype="float32" if name == "float32" else "float16")
        most = ROWS[-1]
        self.a, self.b, self.out = (self._empty(shape) for shape in ((most, self._k), (self._k, 64), (most, 64)))
        plan(self.a, self.b, out=self.out, backend=self._backend, m=ROWS)  # compiles what they need
        chosen = self.plan(ROWS[0]).kernel
        assert chosen is not None
        assert chosen.name == kernel

    def plan(self, rows: int) -> Any:
        """Plan for so many rows."""
        return plan(self.a[:rows], self.b, out=self.out[:rows], backend=self._backend)

    def matmul(self, rows: int) -> Any:
        """Multiply so many rows, by the call that users make."""
        return matmul(self.a[:rows], self.b, out=self.out[:rows], backend=self._backend)

    def plan_strides(self, number: int) -> Any:
        """Plan for an a whose rows lie 8 elements further apart for each number."""
        rows, apart = 64, self._k + 8 * number
        spaced = self._memory[: rows * apart].reshape(rows, apart)[:, : self._k]
        return plan(spaced, self.b, out=self.out[:rows], backend=self._backend)

    @cached_property
    def _memory(self) -> Any:
        return self._empty((64 * (self._k + 8 * len(ROWS)),))


def calls(products: Mapping[str, Product]) -> dict[str, Callable[[], Any]]:
    """The timed calls, each with the next of what was not met before."""
    found: dict[str, Callable[[], Any]] = {}
    for kernel, product in products.items():
        found[f"plan of a new m, {kernel}"] = _with_next(product.plan, ROWS)
        found[f"matmul of a new m, {kernel}"] = _with_next(product.matmul, ROWS)
        found[f"plan of new strides, {kernel}"] = _with_next(product.plan_strides, range(len(ROWS)))
    return found


def _with_next(call: Callable[[int], Any], numbers: range) -> Callable[[], Any]:
    upcoming = cycle(numbers)
    return lambda: call(next(upcoming))


def in_a_row(product: Product) -> dict[str, float]:
    """The median and the 99th percentile in us over one matmul of each number of rows, in random order."""
    times = []
    for rows in np.random.default_rng(0).permutation(ROWS).tolist():
        start = perf_counter()
        product.matmul(rows)
        times.append((perf_counter() - start) * 1e6)
    return {"median": float(np.median(times)), "percentile_99": float(np.percentile(times, 99))}


def main() -> None:
    """Measure, print a table and write the JSON."""
    chosen, torch = options(__doc__), None
    try:
        torch = torch_on_gpu()
    except RuntimeError:
        print("no GPU with torch: NumPy arrays are planned for an H200 that is not there")
    products = {kernel: Product(kernel, torch) for kernel in KERNELS}
    found = {kernel: in_a_row(product) for kernel, product in products.items()}
    for kernel, times in found.items():
        print("{median:7.2f} us, 99th percentile {percentile_99:.2f}".format(**times), end="  ")
        print(f"matmul of {len(ROWS):,} new m in a row, {kernel}")
    report("planning_time", chosen, calls(products), CALLS, torch, {"in_a_row": found})


if __name__ == "__main__":
    main()
