"""The time that the emulator would take for a product, and the refusal of products that would take too long."""

import os
from math import ceil, nan
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.hardware import Hardware, Unit
from tilewright.kernels.kernel import Kernel
from tilewright.problem import Problem
from tilewright.rounding import ceil_div, round_up


class Pace(NamedTuple):
    """How fast the emulator multiplies with a unit. An estimate, which only decides on refusals.

    flops: per second, where many threads run together. The larger an instruction, the more of it NumPy does at once.
    index_seconds, thread_seconds: for each index along k, and for each product of a thread at it, since instructions
    that follow each other take this long however few threads run them.
    """

    flops: float
    index_seconds: float
    thread_seconds: float


PACES: dict[Unit, Pace] = {
    "wgmma": Pace(4e9, 1e-5, 1e-6),
    "mma": Pace(1.5e9, 3e-5, 2e-6),
    "cuda_cores": Pace(2e8, 6e-5, 13e-6),
}
STORED_PER_SECOND = 5e6
"""The elements of out that are stored in a second, padding included."""

QUANTIZED_PER_SECOND = 1e6
"""The elements that a launch of `quantize` reads in a second."""

EMULATOR_LIMIT_SECONDS = 120.0
EMULATOR_LIMIT_VARIABLE = "TILEWRIGHT_EMULATOR_SECONDS"
"""The longest emulation that is not refused, and the environment variable that overrides it."""


def refuse_long_emulation(kernel: Kernel, config: Any, problem: Problem, hardware: Hardware) -> None:
    """Raise RuntimeError for a product that would keep the emulator busy beyond the limit."""
    seconds = emulation_seconds(kernel, config, problem, hardware)
    if seconds > emulation_limit():
        raise UnavailableError(long_emulation(str(problem), seconds, "use a GPU or a smaller product"))


def refuse_long_quantization(elements: int, launches: int) -> None:
    """Raise RuntimeError for a quantization that would keep the emulator busy beyond the limit."""
    seconds = elements * launches / QUANTIZED_PER_SECOND
    if seconds > emulation_limit():
        raise UnavailableError(
            long_emulation(f"quantizing {elements} elements", seconds, "use a GPU or a smaller array")
        )


def emulation_seconds(kernel: Kernel, config: Any, problem: Problem, hardware: Hardware) -> float:
    """About how long a kernel with this Config keeps the emulator of `hardware` busy, padding of tiles included."""
    if problem.is_empty:
        return 0.0
    constants = kernel.constants(config, problem)
    problem = kernel.oriented(config, problem)
    tiles, shape = kernel.tile_count(constants, problem), kernel.launch_shape(constants, problem, hardware)
    made = tiles * constants.tile_m * constants.tile_n  # sums of parts of k, of which one part's are stored
    stored, indices = made // constants.split_k, round_up(ceil_div(problem.k, constants.split_k), constants.tile_k)
    pace = PACES[kernel.unit]
    one_tile = pace.index_seconds + constants.tile_m * constants.tile_n / shape.block * pace.thread_seconds
    in_turn = ceil_div(tiles, shape.grid) / share_together(shape.grid, shape.block, shape.cluster)
    seconds: float = stored / STORED_PER_SECOND + indices * (in_turn * one_tile + 2 * made / pace.flops)
    return seconds


def share_together(ctas: int, threads: int, cluster: int) -> float:
    """The share of a launch that runs together: all of a small one, else whole clusters up to CHUNK_LANES threads."""
    from tilewright.emulator.launch import CHUNK_LANES, RESIDENT_LANES  # late: on a GPU nobody needs the emulator

    total = ctas * threads
    return 1.0 if total <= RESIDENT_LANES else min(max(CHUNK_LANES, cluster * threads) / total, 1.0)


def long_emulation(subject: str, seconds: float, remedy: str, at_least: bool = False) -> str:
    """The message that refuses an emulation and says what to do. at_least: the seconds are only a lower bound."""
    limit = _duration(emulation_limit())
    how, enough = ("more than", "inf") if at_least else ("about", ceil(2 * seconds))
    return (
        f"{subject} would take the emulator {how} {_duration(seconds)}, and it stops at {limit}: "
        f"{remedy}, or set {EMULATOR_LIMIT_VARIABLE}={enough} to wait{'' if at_least else ' (twice the estimate)'}"
    )


def emulation_limit() -> float:
    """The time limit in seconds; raises a ValueError if the environment variable is not a number from 0 on."""
    text = os.environ.get(EMULATOR_LIMIT_VARIABLE, "")
    try:
        limit = float(text) if text else EMULATOR_LIMIT_SECONDS
    except ValueError:
        limit = nan
    if not limit >= 0:
        raise ArgumentValueError(
            f"{EMULATOR_LIMIT_VARIABLE}={text!r} is not a number of seconds: set it to one from 0 to inf, or unset it"
        )
    return limit


def _duration(seconds: float) -> str:
    for unit, length in (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{_rounded(seconds / length)} {unit}"
    return f"{_rounded(seconds)} s"


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
