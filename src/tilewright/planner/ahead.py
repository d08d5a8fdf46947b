"""All the kernels that the planner may choose for many products, compiled before they are needed."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tilewright.errors import TilewrightError
from tilewright.hardware import Hardware
from tilewright.jit import cache
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import TranslationUnit
from tilewright.planner.choose import choose
from tilewright.problem import Problem


class Ahead(NamedTuple):
    """The kernels by unit, the number of them that had to be compiled, and the errors of units that failed."""

    kernels: dict[TranslationUnit, CompiledKernel]
    compiled: int
    failures: dict[TranslationUnit, TilewrightError]


def units_of(problems: Iterable[Problem], hardware: Hardware) -> list[TranslationUnit]:
    """The distinct units that `choose` leads to; problems without elements need none. Raises what `choose` raises."""
    found: dict[TranslationUnit, None] = {}
    for problem in problems:
        if not problem.is_empty:
            launches = choose(problem, hardware).launches(hardware)
            found |= {launch.source: None for launch in launches}
    return list(found)


def prepare(
    units: Iterable[TranslationUnit],
    arch: str,
    *,
    jobs: int | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Ahead:
    """Compile what neither memory nor the disk has, several at once; `report` is told how many of how many are done.

    A single one is compiled here, since starting a process takes longer.
    """
    kernels: dict[TranslationUnit, CompiledKernel] = {}
    failures: dict[TranslationUnit, TilewrightError] = {}
    missing = []
    for unit in units:
        if (known := cache.known(unit, arch)) is None:
            missing.append(unit)
        else:
            kernels[unit] = known
    report(0, len(missing))
    if len(missing) == 1:
        try:
            kernels[missing[0]] = cache.build(missing[0], arch)
        except TilewrightError as error:
            failures[missing[0]] = error
        report(1, 1)
    elif missing:
        from tilewright.jit.pool import CompilerPool  # late: planning one product needs no processes

        with CompilerPool(jobs) as pool:
            for done, (unit, found) in enumerate(pool.build_all(missing, arch), 1):
                if isinstance(found, TilewrightError):
                    failures[unit] = found
                else:
                    kernels[unit] = found
                report(done, len(missing))
    return Ahead(kernels, len(missing) - len(failures), failures)
