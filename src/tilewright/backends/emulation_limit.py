"""How long a product would keep the emulator busy, and which are refused for it."""

import os
from math import ceil, nan

from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.hardware import Unit
from tilewright.problem import Problem

EMULATOR_FLOPS: dict[Unit, float] = {"wgmma": 2e9, "mma": 4e8, "cuda_cores": 5e7}
"""The approximate rate at which the emulator multiplies with each unit.

The estimate of a product's time uses it to decide on a refusal. The larger an instruction, the more of it NumPy does at
once.
"""

EMULATOR_LIMIT_SECONDS = 120.0
EMULATOR_LIMIT_VARIABLE = "TILEWRIGHT_EMULATOR_SECONDS"
"""Longest emulation that is not refused, and the environment variable that overrides it."""


def refuse_long_emulation(problem: Problem, unit: Unit) -> None:
    """Raise RuntimeError for a product that would keep the emulator of that unit busy beyond the limit."""
    seconds = problem.flops / EMULATOR_FLOPS[unit]
    if seconds > emulation_limit():
        raise UnavailableError(long_emulation(str(problem), seconds, "use a GPU or a smaller product"))


def long_emulation(subject: str, seconds: float, remedy: str, at_least: bool = False) -> str:
    """Why something is not emulated, and what to do. at_least: whether the seconds are only a lower bound."""
    limit = _duration(emulation_limit())
    how, enough = ("more than", "inf") if at_least else ("about", ceil(2 * seconds))
    return (
        f"{subject} would take the emulator {how} {_duration(seconds)}, and it stops at {limit}: "
        f"{remedy}, or set {EMULATOR_LIMIT_VARIABLE}={enough} to wait"
    )


def emulation_limit() -> float:
    """Seconds beyond which no product is emulated; a ValueError where the environment names no such number."""
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
