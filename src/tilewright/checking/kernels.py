"""Checks of tilewright's own kernels: a product of random matrices, verified against float64."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.api import plan
from tilewright.backends.emulated import EmulatedBackend
from tilewright.backends.emulation_limit import refuse_long_emulation
from tilewright.checking.asynchrony import Asynchrony
from tilewright.checking.product import NotTaken, Product, first_accepted, suited, whole_tiles
from tilewright.checking.result import CheckResult, Findings
from tilewright.checking.runs import Run, ignored, run_under_each
from tilewright.emulator import Counters, Device
from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.expression.tree import Expression
from tilewright.hardware import H200, Hardware, with_article
from tilewright.kernels.kernel import Kernel
from tilewright.measure.elements import Elements
from tilewright.planner.plan import Plan
from tilewright.problem import Problem
from tilewright.reference import Array

SHAPES = ((151, 77, 203), (264, 328, 456), (264, 328, 464))
"""The shapes to try, in this order: unaligned extents, and for kernels that need TMA rows of whole 16 bytes of elements
of 2 bytes or more, and of 1 byte.

All end in the middle of a tile along m, n and k and go round a ring of stages more than once.
"""

SMS = 2
"""Multiprocessors of the emulated GPU: few, so persistent kernels go through several tiles each."""

Configured = Callable[[Kernel, Problem, Hardware], Any]
"""The Config of a kernel for a problem on a GPU."""


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """A kernel and the product that it is checked on, or the reason why it takes no product.

    config: by default the first that the kernel has for the product.
    """

    kernel: Kernel
    hardware: Hardware
    product: Product | None = None
    refusal: str = ""
    config: Any = None

    @property
    def about(self) -> str:
        """The product and the GPU, unless that is an H200; empty without a product."""
        if self.product is None:
            return ""
        place = "" if self.hardware.name == H200.name else f", on {with_article(self.hardware.name)}"
        return f"{self.product}{place}"

    def run(
        self,
        orders: Sequence[Asynchrony],
        seed: int = 0,
        progress: Callable[[float], None] = ignored,
        *,
        tensor_cores: Arithmetic = "exact",
    ) -> CheckResult:
        """Multiply random matrices under each order; raises a ConfigError for a Config that does not fit."""
        kernel, product = self.kernel, self.product
        if product is None:
            return CheckResult(kernel.name, skipped=self.refusal)
        if product.problem.is_empty:
            skipped = "the product has no elements, so nothing runs"
            return CheckResult(kernel.name, self.about, skipped=skipped)
        config = kernel.configs(product.problem, self.hardware)[0] if self.config is None else self.config
        findings = Findings(kernel.name, self.about, str(config), self.hardware.sm_count)
        operands = product.operands(seed)

        def prepare(order: Asynchrony, options: dict[str, Any]) -> tuple[Device, Run]:
            backend = EmulatedBackend(self.hardware, tensor_cores=tensor_cores, **options)

            def run() -> tuple[dict[str, Array], Counters | None]:
                written = product.outputs()
                out, counters = _multiply(kernel, config, product, backend, operands | written)
                comparison = product.verify(out, operands | written, kernel.accumulator(config))
                if comparison.verified is False:
                    rule = (
                        f"the product has a relative error of {comparison.relative_error:.2e} against float64, and "
                        f"rounding explains at most {comparison.error_bound:.2e}"
                    )
                    findings.report(order, "WrongProduct", rule)
                return {"the product": out, **written}, counters

            return backend.device, run

        run_under_each(orders, prepare, findings, progress)
        return findings.result()


def checks_of(
    kernels: Sequence[Kernel],
    shape: tuple[int, int, int] | None = None,
    elements: Elements | None = None,
    layout: str | None = None,
    *,
    hardware: Hardware = H200,
    expression: Expression | None = None,
    configured: Configured | None = None,
    **epilogue: Any,
) -> list[KernelCheck]:
    """A check of each kernel, on the given product or on a small one that it takes.

    hardware: the GPU that is emulated, with SMS of its multiprocessors, or as many as a cluster needs. configured:
    gives the Config of each kernel, where it is not the first for so few. expression, epilogue: what a Product has of
    it.

    Raises:
        ArgumentValueError: with every kernel's reason if no kernel takes it, or if it needs too much memory or time, or
            its Config breaks a rule.
    """
    whole, few = hardware, hardware._replace(sm_count=SMS)
    checks, refusals = [], []
    for kernel in kernels:
        shapes = [shape] if shape else [*(suited(each, kernel) for each in SHAPES), *whole_tiles(kernel)]
        if shape is None and expression is not None and expression.gate is not None:
            shapes = [(m, n + n % 2, k) for m, n, k in shapes]  # whole pairs
        try:
            product = first_accepted(kernel, few, shapes, elements, layout, expression=expression, **epilogue)
            product.require_memory()
            gpu, config = few, None
            if configured is not None:
                config = configured(kernel, product.problem, whole)
                cluster = kernel.check(config, product.problem, whole).cluster
                gpu = whole._replace(sm_count=max(SMS, cluster))
            elif not product.problem.is_empty:
                config = kernel.configs(product.problem, few)[0]
            if config is not None:
                refuse_long_emulation(kernel, config, product.problem, gpu)
            checks.append(KernelCheck(kernel, gpu, product, config=config))
        except (ArgumentValueError, UnavailableError) as error:
            refusals.append(str(error))
            reason = f"does not take it: {error.refusal}" if isinstance(error, NotTaken) else str(error)
            checks.append(KernelCheck(kernel, few, refusal=reason))
    if len(refusals) == len(checks):
        raise ArgumentValueError("; ".join(dict.fromkeys(refusals)))
    return checks


def _multiply(
    kernel: Kernel, config: Any, product: Product, backend: EmulatedBackend, arrays: dict[str, Array]
) -> tuple[Array, Counters | None]:
    a, b, added = arrays["a"], arrays["b"], product.added(arrays)
    planned: Plan = plan(
        a,
        b,
        **added,
        **product.epilogue,
        out_dtype=product.out_dtype.name,
        kernel=kernel.name,
        config=config,
        backend=backend,
    )
    return planned.counted(a, b, **added)
