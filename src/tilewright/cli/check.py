"""`tilewright check`: run kernels in the emulator under every order of asynchronous completion."""

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tilewright.cli.options import ActivationOption, DTypeName, Json, K, Layout, LayoutOption, M, N, Seed, shape_of
from tilewright.cli.output import NOT_VERIFIED, console, counter_rows, print_json, reports_errors, table

if TYPE_CHECKING:
    from tilewright.cli.product import Product
    from tilewright.kernels.family import Kernel
    from tilewright.reference import Array

SHAPES = ((151, 77, 203), (264, 328, 456))
"""Tried in this order: nothing is a multiple of anything; then rows of whole 16 bytes, for kernels that need TMA.

Both end in the middle of a tile along m, n and k and go round a ring of stages more than once.
"""

SMS = 2
"""Multiprocessors of the emulated GPU: so few that persistent kernels go through several tiles each."""

_SOURCE_LINE = re.compile(r"[\w/.-]+\.cuh?:\d+")


@dataclass(frozen=True, slots=True)
class Schedule:
    """When asynchronous copies and multiplications complete; see `EmulatedBackend`."""

    asynchrony: Literal["eager", "lazy", "random"]
    seed: int = 0

    def __str__(self) -> str:
        return f"random({self.seed})" if self.asynchrony == "random" else self.asynchrony


@dataclass(slots=True)
class Checked:
    """What was found about one kernel."""

    kernel: str
    product: str
    config: str
    verified: bool = True
    reports: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=dict)
    schedules: list[str] = field(default_factory=list)

    def report(self, schedule: Schedule, kind: str, rule: str) -> None:
        """Add a finding."""
        locations = list(dict.fromkeys(_SOURCE_LINE.findall(rule)))
        self.reports.append({"schedule": str(schedule), "kind": kind, "rule": rule, "locations": locations})
        self.verified = False


@reports_errors
def check(
    kernel: Annotated[str, typer.Argument(help="A kernel's name, or all.", show_default=False)],
    m: M = None,
    n: N = None,
    k: K = None,
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; by default the first that the kernel takes.")
    ] = None,
    layout: LayoutOption = Layout.nt,
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Add a vector along N.")] = True,
    activation: ActivationOption = None,
    schedules: Annotated[int, typer.Option("--schedules", help="Random orders, besides eager and lazy.", min=0)] = 2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a kernel's PTX in the emulator, eager, lazy and in random order, and report every rule that it breaks.

    The product is verified each time, and the results must be equal bit for bit. Without M N K the product is
    small and fits no tile. Exit code 1 when something is reported.

    \b
    Examples:
      tilewright check all
      tilewright check wgmma 264 520 136 --layout tn --schedules 5
      tilewright check mma 33 65 17 --dtype fp16 --activation silu --json
    """
    if kernel.endswith(".ptx"):
        raise NotImplementedError(
            f"{kernel}: checking a PTX file is not there yet; name a kernel of tilewright, or all of them with `all`"
        )
    given = shape_of(m, n, k)
    from tilewright.cli.product import first_accepted, kernel_named
    from tilewright.hardware import H200
    from tilewright.kernels.registry import KERNELS

    hardware = dataclasses.replace(H200, sm_count=SMS)
    epilogue = {"bias": bias, "activation": activation.value if activation else None}
    orders = [Schedule("eager"), Schedule("lazy"), *(Schedule("random", seed + i) for i in range(schedules))]
    results = []
    for chosen in KERNELS.values() if kernel == "all" else [kernel_named(kernel)]:
        shapes = [given] if given else SHAPES
        product = first_accepted(chosen, hardware, shapes, dtype.value if dtype else None, layout.value, **epilogue)
        results.append(_check(chosen, product, hardware, orders, seed))
        if not as_json:
            _show(results[-1])
    if as_json:
        print_json(_record(kernel, results))
    if not all(result.verified for result in results):
        raise typer.Exit(NOT_VERIFIED)


def _check(kernel: "Kernel", product: "Product", hardware: Any, orders: list[Schedule], seed: int) -> Checked:
    from tilewright.emulator.errors import EmulatorError

    problem = product.problem
    config = kernel.configs(problem, hardware)[0]
    result = Checked(kernel.name, str(problem), str(config))
    operands = product.operands(seed)
    first: tuple[Schedule, Array] | None = None
    for schedule in orders:
        result.schedules.append(str(schedule))
        try:
            out, result.counters = _run(kernel, config, product, hardware, operands, schedule)
        except EmulatorError as error:
            result.report(schedule, type(error).__name__, str(error))
            continue
        comparison = product.verify(out, operands)
        if not comparison.verified:
            rule = (
                f"the product has a relative error of {comparison.relative_error:.2e} against float64, and at most "
                f"{comparison.error_bound:.2e} is explained by rounding"
            )
            result.report(schedule, "WrongProduct", rule)
        if first is None:
            first = (schedule, out)
        elif out.tobytes() != first[1].tobytes():
            rule = f"the product differs from that of {first[0]}: something is read before it is complete"
            result.report(schedule, "Race", rule)
    return result


def _run(
    kernel: "Kernel",
    config: Any,
    product: "Product",
    hardware: Any,
    operands: "dict[str, Array]",
    schedule: Schedule,
) -> "tuple[Array, dict[str, Any]]":
    from tilewright.api import plan
    from tilewright.backends.emulated import EmulatedBackend

    backend = EmulatedBackend(hardware, asynchrony=schedule.asynchrony, seed=schedule.seed, count_memory=True)
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
    out = planned(a, b, bias=bias)
    return out, planned.counters.as_dict() if planned.counters else {}


def _record(kernel: str, results: list[Checked]) -> dict[str, Any]:
    if kernel != "all":
        return dataclasses.asdict(results[0])
    return {
        "kernel": "all",
        "verified": all(result.verified for result in results),
        "reports": [{"kernel": result.kernel, **report} for result in results for report in result.reports],
        "checks": [dataclasses.asdict(result) for result in results],
    }


def _show(result: Checked) -> None:
    verdict = "[green]clean[/green]" if result.verified else f"[red]{len(result.reports)} reports[/red]"
    console().print(f"[bold]{result.kernel}[/bold] {result.product} under {', '.join(result.schedules)}: {verdict}")
    console().print(f"  {result.config}", markup=False)
    for report in result.reports:
        console().print(f"  {report['kind']} ({report['schedule']}): {report['rule']}", markup=False)
    if result.counters:
        table("", counter_rows(result.counters))
