"""The clocks of chains of dependent multiply-adds: how many chains, in one warp or in several, hide the latency.

The model beside it is `tilewright.model.tiling.chains`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.micro.clocks import Clocks, clocks_between, wrong_result
from tilewright.bench.micro.runners import Runner
from tilewright.dtypes import fp32
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import TranslationUnit, translation_unit
from tilewright.kernels.parameters import LaunchShape
from tilewright.model.tiling.chains import FMA_LATENCY, SCHEDULERS, operation_clocks
from tilewright.rounding import ceil_div

STEPS = 32
"""Steps of a round without a branch."""
ROUNDS = 1024
"""Rounds of a measurement; what they add up to is exact in fp32."""
MOST_CHAINS = 32


@dataclass(frozen=True, slots=True)
class Case:
    """So many chains in each of so many warps of an SM."""

    chains: int
    warps: int = 1

    def __post_init__(self) -> None:
        for name, most in (("chains", MOST_CHAINS), ("warps", 32)):
            if not 1 <= getattr(self, name) <= most:
                raise ArgumentValueError(f"{name}={getattr(self, name)} are not in one CTA: use 1 to {most}")

    @property
    def together(self) -> int:
        """Chains of the scheduler that has most of them."""
        return self.chains * ceil_div(self.warps, SCHEDULERS)

    def unit(self) -> TranslationUnit:
        """The kernel."""
        threads = 32 * self.warps
        return translation_unit(
            entry=f"fma_chain_{self.chains}_{self.warps}",
            kernel_header="micro/fma_chain.cuh",
            kernel_template="fma_chain_kernel",
            constants={"chains": self.chains, "steps": STEPS, "threads": threads},
            parameters=[("const float*", "factors"), ("float*", "out"), ("int64_t*", "spans"), ("int", "rounds")],
            launch_bounds=(threads, 1),
        )


def run(case: Case, kernel: CompiledKernel, runner: Runner, rounds: int) -> NDArray[np.float64]:
    """The clocks of one multiply-add of a scheduler, on each SM; a TilewrightError if the numbers are wrong.

    The clocks of the emulator are no times.
    """
    ctas = runner.hardware.sm_count if runner.name == "gpu" else 1
    out = np.full((32 * case.warps, case.chains), np.nan, np.float32)
    spans = np.zeros((ctas, case.warps, 2), np.int64)
    factors = np.array([1, 1], np.float32)
    runner.run(kernel, LaunchShape(ctas, 32 * case.warps, 1, 0), [factors], [out, spans], [rounds])
    if not (out == np.arange(case.chains) + rounds * STEPS).all():
        raise wrong_result(kernel.name, runner.name)
    return clocks_between(spans) / (rounds * STEPS * case.together)


def model_clocks(case: Case, gpu: Hardware) -> float:
    """The clocks of one multiply-add of a scheduler in a long chain, by the model."""
    lanes = gpu.macs("cuda_cores", fp32) // SCHEDULERS
    return round(operation_clocks(case.chains, FMA_LATENCY, 32 // lanes, ceil_div(case.warps, SCHEDULERS)), 3)


def measure(wanted: Sequence[Case], runner: Runner, rounds: int = ROUNDS) -> Iterator[Clocks]:
    """The clocks of each case, in order."""
    for case in wanted:
        kernel = build(case.unit(), runner.hardware.arch)
        run(case, kernel, runner, 1)  # which brings the kernel to the SMs
        found = run(case, kernel, runner, rounds)
        yield Clocks.of({"chains": case.chains, "warps": case.warps}, found, model_clocks(case, runner.hardware))
