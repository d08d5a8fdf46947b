"""The figure of a rung, and the sizes of its kernel."""

from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewright.cli.product import Product
from tilewright.hardware import H200
from tilewright.kernels.ladder import LADDER

CUBE = 4096
"""The product whose usual Config is drawn."""


def figure(width: float, height: float, **grid: Any) -> tuple[Figure, list[Axes]]:
    """A white figure of so many inches and its panels, row by row; grid: what `Figure.subplots` takes."""
    found = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    return found, list(found.subplots(squeeze=False, **grid).flat)


@cache
def constants(name: str) -> dict[str, Any]:
    """What the rung's kernel is compiled with in its usual Config for a product of 4096^3."""
    rung = LADDER[name]
    kind = rung.inputs[0]
    problem = Product(CUBE, CUBE, CUBE, kind, kind, rung.layout).problem
    config = rung.kernel.configs(problem, H200)[0]
    return dict(rung.kernel.constants(config, problem))
