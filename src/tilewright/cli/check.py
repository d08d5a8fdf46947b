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
    """What was found about one kernel; where nothing ran, `verified` is None and `skipped` says why."""

    kernel: str
    product: str = ""
    config: str = ""
    verified: bool | None = None
    skipped: str = ""
    reports: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=dict)
    schedules: list[str] = field(default_factory=list)

    def report(self, schedule: Schedule, kind: str, rule: str) -> None:
        """Add a finding."""
        locations = list(dict.fromkeys(_SOURCE_LINE.findall(rule)))
        self.reports.append({"schedule": str(schedule), "kind": kind, "rule": rule, "locations": locations})


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
    small and fits no tile. Exit code 1 when something is reported, 2 when no kernel takes the product.

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
    from tilewright.cli.product import NotTaken, first_accepted, kernel_named
    from tilewright.hardware import H200
    from tilewright.kernels.registry import KERNELS

    hardware = dataclasses.replace(H200, sm_count=SMS)
    epilogue = {"bias": bias, "activation": activation.value if activation else None}
    orders = [Schedule("eager"), Schedule("lazy"), *(Schedule("random", seed + i) for i in range(schedules))]
    chosen = list(KERNELS.values()) if kernel == "all" else [kernel_named(kernel)]
    shapes = [given] if given else SHAPES
    products: dict[str, Product] = {}
    refusals: dict[str, NotTaken] = {}
    for one in chosen:
        try:
            products[one.name] = first_accepted(
                one, hardware, shapes, dtype.value if dtype else None, layout.value, **epilogue
            )
        except NotTaken as refusal:
            refusals[one.name] = refusal
    if not products:
        raise ValueError("; ".join(map(str, refusals.values())))
    results = []
    for one in chosen:
        if one.name in refusals:
            results.append(Checked(one.name, skipped=f"does not take it: {refusals[one.name].refusal}"))
        else:
            results.append(_check(one, products[one.name], hardware, orders, seed))
        if not as_json:
            _show(results[-1])
    if as_json:
        print_json(_record(kernel, results))
    if _verified(results) is False:
        raise typer.Exit(NOT_VERIFIED)


def _check(kernel: "Kernel", product: "Product", hardware: Any, orders: list[Schedule], seed: int) -> Checked:
    from tilewright.api import refuse_long_emulation
    from tilewright.emulator.errors import EmulatorError

    problem = product.problem
    if problem.is_empty:
        return Checked(kernel.name, str(product), skipped="the product has no elements, so that nothing runs")
    product.require_memory()
    refuse_long_emulation(problem)
    config = kernel.configs(problem, hardware)[0]
    result = Checked(kernel.name, str(product), str(config))
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
    result.verified = not result.reports
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
        "verified": _verified(results),
        "reports": [{"kernel": result.kernel, **report} for result in results for report in result.reports],
        "checks": [dataclasses.asdict(result) for result in results],
    }


def _verified(results: list[Checked]) -> bool | None:
    """Whether everything that ran is clean; None where nothing ran."""
    return all(verdicts) if (verdicts := [r.verified for r in results if r.verified is not None]) else None


def _show(result: Checked) -> None:
    if result.skipped:
        console().print(f"[bold]{result.kernel}[/bold]{result.product and f' {result.product}:'} {result.skipped}")
        return
    verdict = "[green]clean[/green]" if result.verified else f"[red]{len(result.reports)} reports[/red]"
    console().print(f"[bold]{result.kernel}[/bold] {result.product} under {', '.join(result.schedules)}: {verdict}")
    console().print(f"  {result.config}", markup=False)
    for report in result.reports:
        console().print(f"  {report['kind']} ({report['schedule']}): {report['rule']}", markup=False)
    if result.counters:
        table("", counter_rows(result.counters))
