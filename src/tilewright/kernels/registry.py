"""The kernel families, in the order in which the planner prefers them. Adding one is a line here."""

from difflib import get_close_matches

from tilewright.errors import ArgumentValueError
from tilewright.kernels.copy import CopyKernel
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.ladder import LADDER
from tilewright.kernels.mma import MmaKernel
from tilewright.kernels.simt import SimtKernel
from tilewright.kernels.wgmma import WgmmaKernel
from tilewright.problem import Problem

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for kernel in (WgmmaKernel(), MmaKernel(), SimtKernel(), CopyKernel())
}
"""The kernels that the planner chooses from."""

EVERY_KERNEL: dict[str, Kernel] = KERNELS | {name: rung.kernel for name, rung in LADDER.items() if name not in KERNELS}
"""All kernels, including the ladder's, which run only when named."""


def considered(problem: Problem) -> list[Kernel]:
    """The kernels that may suit a problem, the best one first: `copy` where no product is summed, else the others."""
    return [kernel for kernel in KERNELS.values() if isinstance(kernel, CopyKernel) == (problem.k == 0)]


def kernel_named(name: object, argument: str, besides: str = "") -> Kernel:
    """The kernel of that name; raises a ValueError with the nearest names and all names if there is none.

    besides: the other values that the argument takes, in words.
    """
    kernel = EVERY_KERNEL.get(name) if isinstance(name, str) else None
    if kernel is None:
        nearest = get_close_matches(str(name).lower(), EVERY_KERNEL)
        meant = f": did you mean {' or '.join(nearest)}? Use " if nearest else ": use "
        others = f"{besides} or " if besides else ""
        raise ArgumentValueError(f"{argument}={name!r} does not exist{meant}{others}one of {', '.join(EVERY_KERNEL)}")
    return kernel
