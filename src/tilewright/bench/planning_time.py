"""Host time of a product that was not met before and whose kernel is already compiled and loaded.

    python -m tilewright.bench.planning_time --json results/planning_time.json

A new m is what a server meets at every step; new strides, or a new n and k, share nothing with an earlier call. On a
GPU with torch, this times `tilewright.plan` and `tilewright.matmul` as they are. Elsewhere it plans NumPy arrays for
GPUs that are not there, and the time leaves out loading the kernel, tensor maps and the launch.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import cycle
from time import perf_counter
from typing import Any

import numpy as np

from tilewright.api import matmul, plan
from tilewright.backends.absent import AbsentGpu
from tilewright.bench import torch_on_gpu
from tilewright.bench.host_calls import measure, options, report
from tilewright.hardware import A100, H200, Hardware

ROWS = range(136, 10_136)
"""Numbers of rows: more than any cache keeps, so that each is new, and too many for `gemv`."""

CALLS = 200
"""Calls per sample."""

CASES = (("bfloat16", H200), ("bfloat16", A100), ("float32", H200))
"""Element types, and the GPUs that get `wgmma`, `mma` and `simt` for them. A GPU that is there stands in for each."""

K, N = 64, 136

WEIGHTS = [(K + 8 * (number % 1001), N + 8 * (number % 300)) for number in range(5000)]
"""Pairs of k and n: more pairs, and more k, than any cache keeps; few n, since each may need a kernel of its own."""


class Product:
    """Products with any of ROWS rows on a GPU: the one that there is, or one that is not there."""

    def __init__(self, dtype: str, gpu: Hardware, torch: Any | None):
        self._backend: Any = "gpu" if torch else AbsentGpu(gpu)
        if torch:
            self._empty = partial(torch.empty, device="cuda", dtype=getattr(torch, dtype))
        else:
            self._empty = partial(np.empty, dtype="float32" if dtype == "float32" else "float16")
        most = ROWS[-1]
        self.a, self.b, self.out = (self._empty(shape) for shape in ((most, K), (K, N), (most, N)))
        self._range = plan(self.a, self.b, out=self.out, backend=self._backend, m=ROWS)  # compiles what they need
        for number in range(len(WEIGHTS)):
            self.plan_weights(number)

    @property
    def kernel(self) -> str:
        """The kernel that is chosen."""
        name: str = self.plan(ROWS[0]).kernel.name
        return name

    def plan(self, rows: int) -> Any:
        """Plan for so many rows."""
        return plan(self.a[:rows], self.b, out=self.out[:rows], backend=self._backend)

    def matmul(self, rows: int) -> Any:
        """Multiply so many rows, by the call that users make."""
        return matmul(self.a[:rows], self.b, out=self.out[:rows], backend=self._backend)

    def call_range(self, rows: int) -> Any:
        """Call the RangePlan of all ROWS, which keeps fewer plans than there are."""
        return self._range(self.a[:rows], self.b, out=self.out[:rows])

    def plan_strides(self, number: int) -> Any:
        """Plan for an a whose rows lie 8 elements further apart for each number."""
        rows, apart = ROWS[0], K + 8 * number
        spaced = self._memory[: rows * apart].reshape(rows, apart)[:, :K]
        return plan(spaced, self.b, out=self.out[:rows], backend=self._backend)

    def plan_weights(self, number: int) -> Any:
        """Plan for the b of this number of WEIGHTS."""
        k, n = WEIGHTS[number]
        rows = ROWS[0]
        a, b, out = self._memory[: rows * k], self._memory[: k * n], self._results[: rows * n]
        return plan(a.reshape(rows, k), b.reshape(k, n), out=out.reshape(rows, n), backend=self._backend)

    @cached_property
    def _results(self) -> Any:
        return self._empty((ROWS[0] * max(n for _, n in WEIGHTS),))

    @cached_property
    def _memory(self) -> Any:
        return self._empty((max(ROWS[0] * (K + 8 * len(ROWS)), *(k * max(n, ROWS[0]) for k, n in WEIGHTS)),))


def calls(products: Mapping[str, Product]) -> dict[str, Callable[[], Any]]:
    """The timed calls, each with the next of what was not met before."""
    found: dict[str, Callable[[], Any]] = {}
    for kernel, product in products.items():
        found[f"plan of a new m, {kernel}"] = _with_next(product.plan, ROWS)
        found[f"matmul of a new m, {kernel}"] = _with_next(product.matmul, ROWS)
        found[f"RangePlan of a new m, {kernel}"] = _with_next(product.call_range, ROWS)
        found[f"plan of new strides, {kernel}"] = _with_next(product.plan_strides, range(len(ROWS)))
        found[f"plan of a new n and k, {kernel}"] = _with_next(product.plan_weights, range(len(WEIGHTS)))
    return found


def _with_next(call: Callable[[int], Any], numbers: range) -> Callable[[], Any]:
    upcoming = cycle(numbers)
    return lambda: call(next(upcoming))


def in_a_row(product: Product) -> dict[str, Any]:
    """The median and the 99th percentile in us over one matmul of each number of rows, in random order.

    medians: those of a thousand calls after the other, which do not grow.
    """
    times = []
    for rows in np.random.default_rng(0).permutation(ROWS).tolist():
        start = perf_counter()
        product.matmul(rows)
        times.append((perf_counter() - start) * 1e6)
    medians = [float(np.median(times[start : start + 1000])) for start in range(0, len(times), 1000)]
    return {"median": float(np.median(times)), "percentile_99": float(np.percentile(times, 99)), "medians": medians}


def main() -> None:
    """Measure, print a table and write the JSON."""
    chosen, torch = options(__doc__), None
    try:
        torch = torch_on_gpu()
    except RuntimeError:
        print("no GPU with torch: NumPy arrays are planned for GPUs that are not there")
    products = {product.kernel: product for product in (Product(*case, torch) for case in CASES)}
    found = {kernel: in_a_row(product) for kernel, product in products.items()}
    for kernel, each in found.items():
        print("{median:7.2f} us, 99th percentile {percentile_99:.2f}".format(**each), end="  ")
        print(f"matmul of {len(ROWS):,} new m in a row, {kernel}; medians of each thousand:")
        print(*(f"{median:.1f}" for median in each["medians"]))
    times = measure(calls(products), chosen.samples, CALLS, torch)
    report("planning_time", chosen, times, torch, {"in_a_row": found})


if __name__ == "__main__":
    main()
