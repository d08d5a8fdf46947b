"""Generated cases of the kernels that are in no registry: what products launch besides, and `quantize`."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, TypeAlias

from support.cases import Case, random_case, random_cases, variants_of
from support.quantization_cases import quantization_cases
from tilewright.hardware import H200
from tilewright.kernels.registry import EVERY_KERNEL, KERNELS
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner.copies import Copied, copied

COPIED = "wgmma, operands copied"
"""What records call products with operands that `repack` copies."""


def copying(case: Case):
    """How a product of `copied_cases` is called; half of the columns of a tile may be those of a gate."""
    config = WgmmaConfig(64, 128, 3, tile_k=128 // case.problem().a.dtype.nbytes, epilogue="direct", overlap=False)
    return {"kernel": "wgmma", "config": config}


def copied_cases(count: int, seed: int | str):
    """`count` cases of `mma`, with an operand that `wgmma` takes as a copy alone."""
    found = 0
    for case in random_cases("mma", 10 * count, seed):
        problem = case.problem()
        taken = None if problem.is_empty else copied(problem, EVERY_KERNEL["wgmma"], H200)
        if isinstance(taken, Copied) and taken.copies:
            found += 1
            yield case
        if found == count:
            return
    raise AssertionError(f"only {found} cases need a copy")


SUMS = ("code_sums", "column_sums")
"""The launches that sum columns beside products."""


def variants_with(launch: str):
    """The variants of production kernels whose products launch `code_sums` first, or `column_sums` in the end."""
    if launch == "code_sums":
        return [variant for variant in variants_of("wgmma") if variant.zero]
    return [variant for kernel in KERNELS for variant in variants_of(kernel) if launch in variant.outputs]


def summed_cases(launch: str, count: int, seed: int | str, first: int = 0):
    """`count` cases with such a launch, their variants in turn from number `first` on."""
    random, variants = Random(seed), variants_with(launch)
    for number in range(first, first + count):
        yield random_case(variants[number % len(variants)], random)


Drawn: TypeAlias = Iterator[tuple[Any, dict[str, Any]]]
"""Cases, and other keywords than theirs for their calls."""


def _as_they_are(draw: Callable[..., Iterator[Any]], count: int, seed: int | str, first: int) -> Drawn:
    return ((case, {}) for case in draw(count, seed, first))


def _copied(count: int, seed: int | str, first: int) -> Drawn:
    return ((case, copying(case)) for case in copied_cases(count, seed))


FURTHER: dict[str, Callable[[int, int | str, int], Drawn]] = {
    COPIED: _copied,
    **{launch: partial(_as_they_are, partial(summed_cases, launch)) for launch in SUMS},
    "quantize": partial(_as_they_are, quantization_cases),
}
"""What draws so many cases of each, from a seed and the number of the first one."""


def drawn_cases(name: str, count: int, seed: int | str, first: int = 0) -> Drawn:
    """`count` cases of a kernel, of the registry or one of FURTHER."""
    if name in FURTHER:
        return FURTHER[name](count, seed, first)
    return _as_they_are(partial(random_cases, name), count, seed, first)
