"""The figure of a rung, and the sizes of its kernel."""

from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from tilewright.checking.product import Product
from tilewright.hardware import H200
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import LADDER
from tilewright.problem import Problem

CUBE = 4096
"""The product whose usual Config is drawn."""


def figure(width: float, height: float, **grid: Any) -> tuple[Figure, list[Axes]]:
    """A white figure of this size in inches and its panels, row by row; grid: arguments of `Figure.subplots`."""
    found = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return found, list(found.subplots(squeeze=False, **grid).flat)


def parted(width: float, height: float, *ratios: float, beside: bool = False) -> tuple[Figure, list[SubFigure]]:
    """A white figure and its parts, stacked or side by side; each gets its own panels."""
    found = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    grid: dict[str, Any] = (
        {"ncols": len(ratios), "width_ratios": ratios} if beside else {"nrows": len(ratios), "height_ratios": ratios}
    )
    return found, list(found.subfigures(squeeze=False, **grid).flat)


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
