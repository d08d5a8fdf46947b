"""`tilewright check`: run kernels in the emulator under every order of asynchronous completion."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.check_result import Checked, Part, Schedule, schedules_of
from tilewright.cli.options import ActivationOption, DTypeName, Json, K, M, N, OwnLayoutOption, Seed, shape_of
from tilewright.cli.output import (
    BAD_REQUEST,
    INTERRUPTED,
    NOT_VERIFIED,
    paragraph,
    print_json,
    reports_errors,
)
from tilewright.errors import ArgumentValueError, message_of

if TYPE_CHECKING:
    from tilewright.cli.product import Product

SHAPES = ((151, 77, 203), (264, 328, 456))
"""Tried in this order: nothing is a multiple of anything; then rows of whole 16 bytes, for kernels that need TMA.

Both end in the middle of a tile along m, n and k and go round a ring of stages more than once.
"""

SMS = 2
"""Multiprocessors of the emulated GPU: so few that persistent kernels go through several tiles each."""

COVERED = {
    "all": "the kernels that the planner chooses from; `tilewright check ladder` checks the rungs of the ladder",
    "ladder": "the rungs of the ladder; `tilewright check all` checks the kernels that the planner chooses from",
}
"""Names that stand for several kernels, and what they cover."""

PTX_OPTIONS = "Launch of a PTX file"


@reports_errors
def check(
    kernel: Annotated[
        str,
        typer.Argument(
            help="The name of a kernel or of a rung of the ladder, all (kernels that the planner chooses from), ladder "
            "(all its rungs), or the path of a PTX file.",
            show_default=False,
        ),
    ],
    m: M = None,
    n: N = None,
    k: K = None,
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; by default the first that the kernel takes.")
    ] = None,
    layout: OwnLayoutOption = None,
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Add a vector along N.")] = True,
    activation: ActivationOption = None,
    entry: Annotated[
        str | None,
        typer.Option("--entry", help="The kernel, of several: its name or a part.", rich_help_panel=PTX_OPTIONS),
    ] = None,
    grid: Annotated[
        str | None, typer.Option("--grid", help="CTAs, as X,Y,Z or XxYxZ; 1 by default.", rich_help_panel=PTX_OPTIONS)
    ] = None,
    block: Annotated[
        str | None, typer.Option("--block", help="Threads, as X,Y,Z or XxYxZ.", rich_help_panel=PTX_OPTIONS)
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="CTAs of a cluster, as X,Y,Z or XxYxZ.", rich_help_panel=PTX_OPTIONS)
    ] = None,
    smem: Annotated[
        int, typer.Option("--smem", help="Dynamic shared memory in bytes.", min=0, rich_help_panel=PTX_OPTIONS)
    ] = 0,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            help="An argument, once for each: 5, f32:1.5, out=f32[64,32], a=bf16[64,32]:random, ptr:out, "
            "tensormap(a, box=\\[64,32], swizzle=64), bytes:00ff; see docs/emulator.md. An array holds random, zeros, "
            "ones, arange, a number, FILE.npy or, by default, poison: bytes ff, NaN where they are floats.",
            show_default=False,
            rich_help_panel=PTX_OPTIONS,
        ),
    ] = None,
    schedules: Annotated[int, typer.Option("--schedules", help="Random orders, besides eager and lazy.", min=0)] = 2,
    lines: Annotated[
        bool | None,
        typer.Option(
            "--lines/--no-lines", help="Counters per source line; by default of a PTX file.", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Run a kernel's PTX in the emulator, eager, lazy and in random order, and report every rule that it breaks.

    A product of a kernel of tilewright is verified each time; without M N K it is
    small and fits no tile, unless a rung takes whole tiles only. The results, or all arrays that a PTX file's kernel
    gets, must be equal bit for bit under every order.

    A launch of a PTX file that would take minutes ends early with the estimate;
    TILEWRIGHT_EMULATOR_SECONDS sets the limit. Ctrl-C shows what was found so far.

    Exit code 1 when something is reported, 2 for what cannot run or ends early,
    130 after Ctrl-C. --json prints {kernel, product, config, verified, skipped,
    reports, counters: {totals, by_line, by_line_inclusive}, schedules}, and error
    where it ends early; of all and ladder {verified, results}, a list of such
    objects; of what cannot run {error}.

    \b
    Examples:
      tilewright check all
      tilewright check ladder --schedules 0
      tilewright check wgmma_basic 128 128 64
      tilewright check wgmma 264 520 136 --layout tn --schedules 5 --lines
      tilewright check mma 33 65 17 --dtype fp16 --activation silu --json
      tilewright check scale.ptx --block 256 --arg out=f32[256] --arg 2.5
      tilewright check lib.ptx --entry scale --block 64 --smem 256 --arg f32[64]
    """
    orders = schedules_of(schedules, seed)
    launch = {"entry": entry, "grid": grid, "block": block, "cluster": cluster, "smem": smem, "arg": arg}
    if set("./") & set(kernel):
        if m is not None:
            raise ArgumentValueError(f"M is {m}, and a PTX file has no M N K: describe its arguments with --arg")
        found = _check_file(Path(kernel), launch, orders, seed)
        lines = lines is not False
    else:
        if given := [f"--{name}" for name, value in launch.items() if value]:
            are = "are" if len(given) > 1 else "is"
            raise ArgumentValueError(
                f"{', '.join(given)} {are} for the launch of a PTX file, and {kernel!r} is none: name FILE.ptx"
            )
        epilogue = {"bias": bias, "activation": activation.value if activation else None}
        element_type = dtype.value if dtype else None
        found = _check_kernels(
            kernel, shape_of(m, n, k), element_type, layout.value if layout else None, epilogue, orders, seed
        )
    results: list[Checked] = []
    for result in found:
        if kernel in COVERED and not as_json and not results:
            paragraph(f"Checking {COVERED[kernel]}.", 0)
        results.append(result)
        if not as_json:
            result.show(bool(lines))
        if result.error:
            typer.echo(f"tilewright: {result.error}", err=True)
            break
    if as_json:
        print_json(_record_of_all(results) if kernel in COVERED else results[0].as_dict())
    elif kernel in COVERED:
        _show_summary(results)
    if results[-1].interrupted:
        raise typer.Exit(INTERRUPTED)
    if _verified(results) is False:
        raise typer.Exit(NOT_VERIFIED)
    if results[-1].error:
        raise typer.Exit(BAD_REQUEST)


def _check_file(path: Path, launch: dict[str, Any], orders: list[Schedule], seed: int) -> Iterator[Checked]:
    from tilewright.cli.check_ptx import LaunchOptions, check_ptx

    arguments = tuple(launch.pop("arg") or ())
    yield check_ptx(path, LaunchOptions(**launch, arguments=arguments), orders, seed)


def _check_kernels(
    name: str,
    shape: tuple[int, int, int] | None,
    dtype: str | None,
    layout: str | None,
    epilogue: dict[str, Any],
    orders: list[Schedule],
    seed: int,
) -> Iterator[Checked]:
    """Check the kernel of that name, or those that it stands for."""
    from tilewright.cli.check_kernel import check_kernel, require_emulation
    from tilewright.cli.product import NotTaken, first_accepted, whole_tiles
    from tilewright.hardware import H200
    from tilewright.kernels.ladder import LADDER
    from tilewright.kernels.registry import EVERY_KERNEL, KERNELS, kernel_named

    hardware = dataclasses.replace(H200, sm_count=SMS)
    if name in COVERED:
        chosen = [EVERY_KERNEL[each] for each in (KERNELS if name == "all" else LADDER)]
    else:
        chosen = [kernel_named(name, "KERNEL", "all, ladder, the path of a PTX file such as ./kernel.ptx,")]
    products: dict[str, Product] = {}
    refusals: dict[str, ValueError | RuntimeError] = {}
    for kernel in chosen:
        try:
            product = first_accepted(
                kernel, hardware, [shape] if shape else [*SHAPES, *whole_tiles(kernel)], dtype, layout, **epilogue
            )
            require_emulation(kernel, product)
            products[kernel.name] = product
        except (ValueError, RuntimeError) as refusal:
            refusals[kernel.name] = refusal
    if not products:
        raise ArgumentValueError("; ".join(dict.fromkeys(map(str, refusals.values()))))
    for number, kernel in enumerate(chosen):
        if (refused := refusals.get(kernel.name)) is not None:
            reason = f"does not take it: {refused.refusal}" if isinstance(refused, NotTaken) else str(refused)
            yield Checked(kernel.name, skipped=reason)
            continue
        product = products[kernel.name]
        try:
            result = check_kernel(kernel, product, hardware, orders, seed, Part(number, len(chosen)))
        except KeyboardInterrupt:
            result = Checked(kernel.name, str(product), error="interrupted", interrupted=True)
        except Exception as error:
            if len(chosen) == 1 or (said := message_of(error)) is None:
                raise
            result = Checked(kernel.name, str(product), verified=False, skipped=said)
        yield result


def _show_summary(results: list[Checked]) -> None:
    """How many of several kernels are clean, and the names of the others."""
    counts = {
        "clean": [result.kernel for result in results if result.verified],
        "reported": [result.kernel for result in results if result.verified is False],
        "not run": [result.kernel for result in results if result.verified is None],
    }
    clean, *others = counts.items()
    parts = [
        f"{len(clean[1])} of {len(results)} clean",
        *(f"{what}: {', '.join(names)}" for what, names in others if names),
    ]
    paragraph("; ".join(parts), 0)


def _record_of_all(results: list[Checked]) -> dict[str, Any]:
    record = {"verified": _verified(results), "results": [result.as_dict() for result in results]}
    return {**record, "error": results[-1].error} if results[-1].error else record


def _verified(results: list[Checked]) -> bool | None:
    """Whether everything that ran is clean; None where nothing ran, or not to its end."""
    verdicts = [result.verified for result in results if result.verified is not None]
    return None if not verdicts or (all(verdicts) and results[-1].error) else all(verdicts)
