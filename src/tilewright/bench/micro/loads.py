"""The clocks from a load or an atomic to its value: from SMEM, from the SMEM of another SM, from L1 and from L2.

The model beside them is `tilewright.model.memory.dsmem`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.micro.clocks import Clocks, clocks_between, wrong_result
from tilewright.bench.micro.runners import Runner
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import TranslationUnit, translation_unit
from tilewright.kernels.parameters import LaunchShape
from tilewright.model.memory.coalescing import LINE_BYTES
from tilewright.model.memory.dsmem import levels

Place = Literal["SMEM", "DSMEM", "L1", "L2"]
PLACES: tuple[Place, ...] = get_args(Place)
Operation = Literal["load", "atomic", "index"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
"""What a step does. An `index` is loaded and made an address: how others have measured SMEM."""

ENTRIES = 64
"""Of a chain, a line of 128 bytes each: 8 KiB, which stay in L1."""
STEPS = 32
"""Steps of a round without a branch, as cuda/micro/load_chain.cuh has them."""
ROUNDS = 256


@dataclass(frozen=True, slots=True)
class Case:
    """A chain of steps, and where it lies; indices lie in SMEM only."""

    place: Place
    operation: Operation = "load"

    def __post_init__(self) -> None:
        if self.place not in PLACES or self.operation not in OPERATIONS:
            raise ArgumentValueError(
                f"{self.place}:{self.operation} is no chain: use one of {', '.join(PLACES)}, and load, atomic or index"
            )
        if (self.place, self.operation) == ("L1", "atomic"):
            raise ArgumentValueError("L1:atomic does not exist, since atomics on GMEM are done in L2: use L2:atomic")
        if self.operation == "index" and self.place != "SMEM":
            raise ArgumentValueError(f"{self.place}:index is not measured: use SMEM:index")

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return 2 if self.place == "DSMEM" else 1

    def unit(self) -> TranslationUnit:
        """The kernel."""
        return translation_unit(
            entry=f"load_chain_{self.place}_{self.operation}",
            kernel_header="micro/load_chain.cuh",
            kernel_template="load_chain_kernel",
            constants={
                "place": PLACES.index(self.place),
                "operation": OPERATIONS.index(self.operation),
                "entries": ENTRIES,
                "threads": 32,
            },
            parameters=[
                ("const uint32_t*", "order"),
                ("uint64_t*", "links"),
                ("uint32_t*", "out"),
                ("int64_t*", "spans"),
                ("int", "rounds"),
            ],
            launch_bounds=(32, 1),
        )


def chain(entries: int) -> NDArray[np.uint32]:
    """By entry, the next one: a random way through all of them and back to the first, the same each time."""
    way = np.concatenate([[0], 1 + np.random.default_rng(entries).permutation(entries - 1)])
    following = np.empty(entries, np.uint32)
    following[way] = np.roll(way, -1)
    return following


def run(case: Case, kernel: CompiledKernel, runner: Runner, rounds: int) -> NDArray[np.float64]:
    """The clocks of one step on each SM; a TilewrightError if a chain ends elsewhere than it must.

    The clocks of the emulator are no times.
    """
    ctas = (runner.hardware.sm_count if runner.name == "gpu" else 2) // case.cluster * case.cluster
    order = chain(ENTRIES)
    links = np.zeros((ctas, ENTRIES, LINE_BYTES // 8), np.uint64)
    out, spans = np.full(ctas, ENTRIES, np.uint32), np.zeros((ctas, 1, 2), np.int64)
    runner.run(kernel, LaunchShape(ctas, 32, case.cluster, 0), [order], [links, out, spans], [rounds])
    last = 0
    for _ in range(rounds * STEPS % ENTRIES):
        last = int(order[last])
    if (out != last).any():
        raise wrong_result(kernel.name, runner.name)
    return clocks_between(spans) / (rounds * STEPS)


CASES = tuple(
    Case(place, operation)
    for place in PLACES for operation in OPERATIONS
    if (place, operation) != ("L1", "atomic") and (place == "SMEM" or operation != "index")
)  # fmt: skip
"""All chains that there are."""


def model_clocks(case: Case, gpu: Hardware) -> float | None:
    """What the model says for a step; None if it does not know. Its loads from SMEM are published, and of indices.

    Raises an ArgumentValueError for a chip without published latencies, or without DSMEM.
    """
    known = {level.name: level for level in levels(gpu.name)}
    if case.place not in known:
        raise ArgumentValueError(f"{case.place} is not on {gpu.name}: use one of {', '.join(set(PLACES) & set(known))}")
    level = known[case.place]
    return level.atomic if case.operation == "atomic" else level.clocks


def measure(wanted: Sequence[Case], runner: Runner, rounds: int = ROUNDS) -> Iterator[Clocks]:
    """The clocks of each case, in order; raises as `model_clocks`."""
    by_model = [model_clocks(case, runner.hardware) for case in wanted]
    for case, clocks in zip(wanted, by_model, strict=True):
        kernel = build(case.unit(), runner.hardware.arch)
        run(case, kernel, runner, 1)  # which brings the kernel to the SMs
        found = run(case, kernel, runner, rounds)
        yield Clocks.of({"place": case.place, "operation": case.operation}, found, clocks)
