"""The predicted time of a pass through a language model, on any chip: by the cost model, or by a roofline.

The cost model knows the kernels here. Where none takes a product, the time is that of the roofline, divided by a share
of it that kernels here reach elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite

from tilewright.dtypes import PRODUCTS, DType, bf16
from tilewright.errors import TilewrightError
from tilewright.hardware import LEAST_CAPABILITY, Hardware
from tilewright.kernels.registry import KERNELS
from tilewright.model.chips import BYTES, AnyChip, chip_of
from tilewright.model.llm.products import Product
from tilewright.model.llm.time import Pass, Times, Work
from tilewright.planner.choose import choose
from tilewright.problem import Matrix, Problem

EFFICIENCY = {"compute": 0.66, "memory": 0.86}
"""Shares of the roofline that count where no kernel is known, by what bounds the work: medians on an H200.

compute: products in bf16 at the power limit (results/proof_first_look.json). memory: up to 16 rows by weights of 30 MB
and more (results/gemv_h200.json).
"""

ROOFLINE = "roofline"
"""Stands where a kernel's name would."""


@dataclass(frozen=True, slots=True)
class PredictedWork:
    """The predicted time of some work in one layer.

    seconds: of all copies of a product, one launch. by: the kernel of which the cost model says so, or ROOFLINE.
    reason: why it is not a kernel's; "" if it is.
    """

    seconds: float
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PredictedPass:
    """The predicted time of a pass: each of its products, attention itself, and all together."""

    gemms: tuple[PredictedWork, ...]
    attention: PredictedWork
    times: Times

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why products are not predicted by a kernel's time, each reason once."""
        return tuple(dict.fromkeys(each.reason for each in self.gemms if each.reason))


def predicted_pass(
    least: Pass, products: Sequence[Product], chip: AnyChip, operands: str, weight_bits: float | None = None
) -> PredictedPass:
    """The predicted times of a pass whose least times are known.

    least, products: of the same model and tokens. operands, weight_bits: as `least_pass` got them. Attention itself has
    no kernel here. Times are those at the power limit with settled clocks.
    """
    chip = chip_of(chip)
    multiplied = chip.rate(operands).operands
    why = _kernelless(chip.gpu, multiplied, weight_bits)
    gemms = tuple(
        by_roofline(work, why) if why else _by_kernel(product, work, multiplied, chip.gpu)
        for product, work in zip(products, least.gemms, strict=True)
    )
    attention = by_roofline(least.attention, "tilewright has no kernel of attention")
    return PredictedPass(gemms, attention, least.times([each.seconds for each in (*gemms, attention)]))


def by_roofline(work: Work, reason: str) -> PredictedWork:
    """The roofline's time of some work over the share of it that kernels reach."""
    return PredictedWork(work.light.seconds / EFFICIENCY[work.light.bound], ROOFLINE, reason)


def _kernelless(gpu: Hardware, multiplied: str, weight_bits: float | None) -> str | None:
    """Why no kernel here makes such products on a GPU; None if one may."""
    if weight_bits is not None and weight_bits != 8 * BYTES[multiplied]:
        return f"no kernel here reads weights of {weight_bits:g} bits and multiplies them in {multiplied}"
    if multiplied not in _kinds():
        return f"tilewright has no kernel that multiplies {multiplied}; it has some for {', '.join(_kinds())}"
    if gpu.capability < LEAST_CAPABILITY:
        return f"{gpu.name} is {gpu.arch}, and tilewright's kernels need sm_{LEAST_CAPABILITY}"
    unit = gpu.peak_unit(_kinds()[multiplied])
    if unit not in {kernel.unit for kernel in KERNELS.values()}:
        return f"{gpu.name} multiplies {multiplied} best by {unit}, but no kernel here uses it"
    return None


def _kinds() -> dict[str, DType]:
    """The types that kernels multiply, by the names that chips have for them."""
    kinds: dict[str, DType] = {}
    for a, b in PRODUCTS:
        if a is b:
            kinds.setdefault(a.name.partition("_")[0], a)
    return kinds


def _by_kernel(product: Product, work: Work, multiplied: str, gpu: Hardware) -> PredictedWork:
    """What the cost model says of the kernel that the planner chooses; the roofline if none takes the product.

    It was fitted to an H200, and what it says of reads elsewhere may be too quick: it counts as the least time then.
    """
    problem = _problem(product, _kinds()[multiplied])
    try:
        choice = choose(problem, gpu, measured=False)
    except TilewrightError as error:
        return by_roofline(work, str(error))
    seconds = choice.seconds(gpu, power="settled")
    if not isfinite(seconds):
        return by_roofline(work, f"the cost model has no time for {choice.kernel.name} on {gpu.name}")
    return PredictedWork(max(seconds, work.light.seconds), choice.kernel.name)


def _problem(product: Product, dtype: DType) -> Problem:
    """All copies of a product as one batched Problem in layout nt; experts have their mean rows, rounded up."""
    m, n, k, copies = ceil(product.m), product.n, product.k, max(1, round(product.copies))
    batch = (copies,) if copies > 1 else ()

    def matrix(dtype: DType, rows: int, columns: int, *, transposed: bool = False) -> Matrix:
        strides = (1, rows) if transposed else (columns, 1)
        return Matrix(dtype, *strides, (rows * columns,) * len(batch))

    out = matrix(bf16 if dtype.nbytes == 1 else dtype, m, n)
    return Problem(m, n, k, matrix(dtype, m, k), matrix(dtype, k, n, transposed=True), out, batch)
