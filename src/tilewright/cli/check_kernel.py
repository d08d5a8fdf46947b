"""Checks of tilewright's own kernels: a product of random matrices, verified against float64."""

from typing import TYPE_CHECKING, Any

from tilewright.cli.check_result import Checked, Part, Schedule, run_schedules

if TYPE_CHECKING:
    from tilewright.cli.check_result import Array, Run
    from tilewright.cli.product import Product
    from tilewright.emulator import Counters, Device
    from tilewright.kernels.kernel import Kernel


def require_emulation(kernel: "Kernel", product: "Product") -> None:
    """Raise a ValueError or RuntimeError where the product takes too much memory or time."""
    from tilewright.api import refuse_long_emulation

    product.require_memory()
    refuse_long_emulation(product.problem, kernel.unit)


def check_kernel(
    kernel: "Kernel", product: "Product", hardware: Any, schedules: list[Schedule], seed: int, part: Part
) -> Checked:
    """Multiply with the first Config that the kernel has for the product."""
    from tilewright.backends.emulated import EmulatedBackend

    problem = product.problem
    if problem.is_empty:
        return Checked(kernel.name, str(product), skipped="the product has no elements, so that nothing runs")
    config = kernel.configs(problem, hardware)[0]
    result = Checked(kernel.name, str(product), str(config))
    operands = product.operands(seed)

    def prepare(schedule: Schedule, options: dict[str, Any]) -> "tuple[Device, Run]":
        backend = EmulatedBackend(hardware, **options)

        def run() -> "tuple[dict[str, Array], Counters | None]":
            out, counters = _multiply(kernel, config, product, backend, operands)
            comparison = product.verify(out, operands, kernel.accumulator(config))
            if not comparison.verified:
                rule = (
                    f"the product has a relative error of {comparison.relative_error:.2e} against float64, and at most "
                    f"{comparison.error_bound:.2e} is explained by rounding"
                )
                result.report(schedule, "WrongProduct", rule)
            return {"the product": out}, counters

        return backend.device, run

    run_schedules(result, schedules, prepare, part=part)
    return result


def _multiply(
    kernel: "Kernel", config: Any, product: "Product", backend: Any, operands: "dict[str, Array]"
) -> "tuple[Array, Counters | None]":
    from tilewright.api import plan

    a, b, bias = operands["a"], operands["b"], operands.get("bias")
    planned = plan(
        a,
        b,
        bias=bias,
        activation=product.activation,
        out_dtype=product.out_dtype.name,
        kernel=kernel.name,
        config=config,
        backend=backend,
    )
    return planned(a, b, bias=bias), planned.counters
