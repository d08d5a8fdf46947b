"""The kernel families, in the order in which the planner prefers them. Adding one is a line here.

A kernel's module is imported when the kernel is first asked for: most processes need one.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import DType, fp32
from tilewright.errors import ArgumentValueError
from tilewright.kernels.kernel import Kernel
from tilewright.problem import Problem

_TYPES = {
    "wgmma": ("wgmma.kernel", "WgmmaKernel"),
    "mma": ("mma", "MmaKernel"),
    "simt": ("simt", "SimtKernel"),
    "gemv": ("gemv", "GemvKernel"),
    "copy": ("copy", "CopyKernel"),
}
"""The modules and classes of kernels."""

WITHOUT_SUM = "copy"
"""The kernel of products whose k or alpha is 0, which takes no others."""

FEW_ROWS = 16
"""The rows of the largest tiles of `gemv`."""


def few_rows(dtype: DType) -> int:
    """The most rows, or columns, of products that `gemv` is considered for: more of fp32, where `simt` is slow."""
    return 8 * FEW_ROWS if dtype == fp32 else FEW_ROWS


class _Production(Mapping[str, Kernel]):
    """The kernels by name."""

    def __init__(self) -> None:
        self._made: dict[str, Kernel] = {}

    def __getitem__(self, name: str) -> Kernel:
        kernel = self._made.get(name)
        if kernel is None:
            module, kernel_type = _TYPES[name]
            made = getattr(import_module(f"tilewright.kernels.{module}"), kernel_type)()
            kernel = self._made.setdefault(name, made)
        return kernel

    def __iter__(self) -> Iterator[str]:
        return iter(_TYPES)

    def __len__(self) -> int:
        return len(_TYPES)


KERNELS: Mapping[str, Kernel] = _Production()
"""The production kernels."""

if TYPE_CHECKING:
    EVERY_KERNEL: dict[str, Kernel]
    """All kernels, including the ladder's, which run only when named."""


def __getattr__(name: str) -> Any:
    if name == "EVERY_KERNEL":
        return _every_kernel()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _every_kernel() -> dict[str, Kernel]:
    from tilewright.kernels.ladder import LADDER

    return {**KERNELS, **{name: rung.kernel for name, rung in LADDER.items() if name not in KERNELS}}


def considered(problem: Problem) -> Iterator[Kernel]:
    """The kernels that may suit a problem, the best one first: where no product is summed, that is `copy`."""
    names = [name for name in KERNELS if name not in ("gemv", WITHOUT_SUM)]
    if min(problem.m, problem.n) <= few_rows(problem.a.dtype):
        names.insert(0, "gemv")
    return (KERNELS[name] for name in (names if problem.k else [WITHOUT_SUM, *names]))


def kernel_named(name: object, argument: str, besides: str = "", *, without: str | None = None) -> Kernel:
    """The kernel of that name; raises a ValueError with the nearest names and all names if there is none.

    besides: the other values that the argument takes, in words. without: a kernel that the argument does not take; the
    caller says why.
    """
    if isinstance(name, str) and (kernel := KERNELS.get(name) or _every_kernel().get(name)):
        return kernel
    from difflib import get_close_matches

    known = [each for each in _every_kernel() if each != without]
    nearest = get_close_matches(str(name).lower(), known)
    meant = f": did you mean {' or '.join(nearest)}? Use " if nearest else ": use "
    others = f"{besides} or " if besides else ""
    raise ArgumentValueError(f"{argument}={name!r} does not exist{meant}{others}one of {', '.join(known)}")
