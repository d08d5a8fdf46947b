"""The sizes of a rung's kernel."""

from functools import cache
from typing import Any

from tilewright.checking.product import Product
from tilewright.hardware import H200
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import LADDER
from tilewright.problem import Problem

CUBE = 4096
"""The product whose usual Config is drawn."""


@cache
def constants(name: str) -> dict[str, Any]:
    """The constants of the rung's kernel in its usual Config, for a product of 4096^3."""
    kernel, config, problem = _usual(name)
    by_name: dict[str, Any] = kernel.constants(config, problem).by_name()
    return by_name


def ctas(name: str) -> int:
    """Number of CTAs that an H200 runs for the rung."""
    kernel, config, problem = _usual(name)
    return kernel.assemble(config, problem, H200).shape.grid


def _usual(name: str) -> tuple[Kernel, Any, Problem]:
    rung = LADDER[name]
    kind = rung.inputs[0]
    problem = Product(CUBE, CUBE, CUBE, kind, kind, rung.layout).problem
    return rung.kernel, rung.kernel.configs(problem, H200)[0], problem
