"""The time that the emulator would take for a product, and the refusal of products that would take too long."""

import os
from math import ceil, nan

from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.hardware import Unit
from tilewright.problem import Problem

EMULATOR_FLOPS: dict[Unit, float] = {"wgmma": 2e9, "mma": 4e8, "cuda_cores": 5e7}
"""The approximate rate at which the emulator multiplies with each unit, for the estimate of a product's time.

Units with larger instructions are faster, because NumPy does more work in each call.
"""

EMULATOR_LIMIT_SECONDS = 120.0
EMULATOR_LIMIT_VARIABLE = "TILEWRIGHT_EMULATOR_SECONDS"
"""The longest emulation that is not refused, and the environment variable that overrides it."""


def refuse_long_emulation(problem: Problem, unit: Unit) -> None:
    """Raise RuntimeError for a product that would take the emulator longer than the limit, multiplied by `unit`."""
    seconds = problem.flops / EMULATOR_FLOPS[unit]
    if seconds > emulation_limit():
        raise UnavailableError(long_emulation(str(problem), seconds, "use a GPU or a smaller product"))


def long_emulation(subject: str, seconds: float, remedy: str, at_least: bool = False) -> str:
    """The message that refuses an emulation and says what to do. at_least: the seconds are only a lower bound."""
    limit = _duration(emulation_limit())
    how, enough = ("more than", "inf") if at_least else ("about", ceil(2 * seconds))
    return (
        f"{subject} would take the emulator {how} {_duration(seconds)}, and it stops at {limit}: "
        f"{remedy}, or set {EMULATOR_LIMIT_VARIABLE}={enough} to wait"
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
