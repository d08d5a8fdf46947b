"""`tilewright check`: run kernels in the emulator under every order of asynchronous completion."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.check.formats import github, sarif
from tilewright.cli.check.options import CheckedProduct, LaunchOptions
from tilewright.cli.check.show import show, show_summary
from tilewright.cli.command import BAD_REQUEST, INTERRUPTED, NOT_VERIFIED, command, refuse
from tilewright.cli.options import Json, Seed, TensorCores, TensorCoresOption
from tilewright.cli.output import paragraph, print_json, progress
from tilewright.errors import ArgumentValueError, message_of

if TYPE_CHECKING:
    from tilewright.checking.asynchrony import Asynchrony
    from tilewright.checking.launch import Launch
    from tilewright.checking.result import CheckResult
    from tilewright.cli.output import Bar
    from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
    from tilewright.kernels.kernel import Kernel


class Format(StrEnum):
    """How findings are printed."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"


COVERED = {
    "all": "the kernels that the planner chooses from; `tilewright check ladder` checks the rungs of the ladder",
    "ladder": "the rungs of the ladder; `tilewright check all` checks the kernels that the planner chooses from",
}
"""The names that stand for several kernels, and these kernels."""


@command
def check(
    kernel: Annotated[
        str,
        typer.Argument(
            help="The name of a kernel or of a rung of the ladder, all (kernels that the planner chooses from), ladder "
            "(all its rungs), or a file: FILE.ptx, FILE.cu, or FILE.py:NAME for a kernel of Triton, CuTe DSL, CuPy or "
            "cuda-core.",
            show_default=False,
        ),
    ],
    product: CheckedProduct,
    launch: LaunchOptions,
    schedules: Annotated[int, typer.Option("--schedules", help="Random orders, besides eager and lazy.", min=0)] = 2,
    lines: Annotated[
        bool | None,
        typer.Option("--lines/--no-lines", help="Counters per source line; by default of a file.", show_default=False),
    ] = None,
    tensor_cores: TensorCoresOption = TensorCores.exact,
    seed: Seed = 0,
    as_json: Json = False,
    format: Annotated[
        Format,
        typer.Option("--format", help="For people, as JSON (--json), as SARIF, or for GitHub."),
    ] = Format.text,
) -> None:
    """Run a kernel's PTX in the emulator, eager, lazy and in random order, and report every rule that it breaks.

    A kernel of tilewright multiplies on two SMs, where CTAs that stay make several tiles, with the Config
    that the planner takes for so few, or with that of --config, on as many SMs as its clusters have CTAs;
    its product is verified each time. Without M N K, the product is small and
    does not consist of whole tiles, unless a rung takes nothing else. The results must be equal bit for
    bit under every order. For a file, these are all arrays that the kernel gets.

    A launch that would take minutes ends early with the estimate;
    TILEWRIGHT_EMULATOR_SECONDS sets the limit. Ctrl-C shows what was found so far.

    The exit code is 1 if something is reported, 2 if the check cannot run or ends early,
    and 130 after Ctrl-C. --json prints {kernel, product, config, sms, verified, skipped,
    reports, unlisted, warnings, waived, unused_waivers, counters: {totals, by_line, by_line_inclusive},
    coverage, schedules}, with the key error if the check ends early, and registers with
    --at. For all and ladder it prints {verified, results}, where results lists such
    objects. If the check cannot run, it prints {error}. --format sarif prints a SARIF
    2.1.0 log, and --format github a line for each report that GitHub shows in a pull
    request.

    \b
    Examples:
      tilewright check all
      tilewright check ladder --schedules 0
      tilewright check wgmma_basic 128 128 64
      tilewright check wgmma 264 520 136 --layout tn --schedules 5 --lines
      tilewright check wgmma 100 256 1024 --config tile_m=64,tile_n=64,split_k=4
      tilewright check wgmma 128 128 4096 --tensor-cores hardware
      tilewright check mma --dtype int8 --gpu A100
      tilewright check mma 33 65 17 --dtype fp16 --activation silu --json
      tilewright check wgmma --epilogue "silu(acc) * scale" --operand scale=m,1 --outputs amax,column_sums
      tilewright check scale.ptx --block 256 --arg out=f32[256] --arg 2.5
      tilewright check lib.ptx --entry sum --block 64 --shared-bytes 64 --arg 5
      tilewright check lib.ptx --entry scale --block 64 --ignore race@scale.cu:9
      tilewright check mma.cu --block 32 --arg a=f16[16,16]:random --at mma.cu:30@5
      tilewright check sum.cu -D TILE=64 --grid 4 --block 256 --arg out=f32[4]
      tilewright check add.py:add_kernel -D BLOCK=128 --grid 4 --arg f32[500]
    """
    from tilewright.checking.asynchrony import asynchronies
    from tilewright.checking.result import CheckResult

    if as_json and format not in (Format.text, Format.json):
        raise ArgumentValueError(f"--json and --format {format.value} are two formats: give one of them")
    written = Format.json if as_json else format
    results: list[CheckResult] = []
    try:
        orders = asynchronies(schedules, seed)
        if is_file := bool(set("./") & set(kernel)):
            refuse(
                product,
                "a product of tilewright's kernels, and a kernel of a file has none",
                "describe its arguments with --arg",
            )
            found = _check_file(kernel, launch, orders, seed, tensor_cores.value)
        else:
            refuse(
                launch,
                f"the launch of a file's kernel, and {kernel!r} is no file",
                "name FILE.ptx, FILE.cu or FILE.py:NAME",
            )
            found = _check_kernels(kernel, product, orders, seed, tensor_cores.value)
        for result in found:
            if kernel in COVERED and written is Format.text and not results:
                paragraph(f"Checking {COVERED[kernel]}.", 0)
            results.append(result)
            if written is Format.text:
                show(result, is_file if lines is None else lines, bool(product.config))
            for waiver in result.unused_waivers:
                typer.echo(
                    f"tilewright: the waiver {waiver} covers no report: leave it out, or mend its place", err=True
                )
            if result.error:
                typer.echo(f"tilewright: {result.error}", err=True)
                break
    except Exception as error:  # the command prints it, and as JSON
        if (said := message_of(error)) is not None:
            _print_for_others(written, [*results, CheckResult(kernel, error=said)])
        raise
    if written is Format.json:
        print_json(_record_of_all(results) if kernel in COVERED else results[0].as_dict())
    elif written is not Format.text:
        _print_for_others(written, results)
    elif kernel in COVERED:
        show_summary(results, list(_covered(kernel)))
    if results[-1].interrupted:
        raise typer.Exit(INTERRUPTED)
    if _verified(results) is False:
        raise typer.Exit(NOT_VERIFIED)
    if results[-1].error:
        raise typer.Exit(BAD_REQUEST)


def _print_for_others(written: Format, results: "Sequence[CheckResult]") -> None:
    """Print what SARIF's consumers and GitHub read, if that is asked for."""
    if written is Format.sarif:
        print_json(sarif(results))
    elif written is Format.github:
        for line in github(results):
            typer.echo(line)


def _check_file(
    target: str, options: LaunchOptions, orders: "Sequence[Asynchrony]", seed: int, tensor_cores: "Arithmetic"
) -> "Iterator[CheckResult]":
    from tilewright.checking.host_memory import write_back
    from tilewright.checking.result import merged
    from tilewright.emulator import Coverage

    waivers, coverage, place = options.accepted(), Coverage(), options.place()
    results: list[CheckResult] = []

    def perform(launch: "Launch") -> None:
        if results and results[-1].interrupted:
            return
        with progress(f"checking {launch.title or launch.kernel.name}") as bar:
            result, contents = launch.check(
                orders, seed, waivers=waivers, coverage=coverage, at=place, tensor_cores=tensor_cores, progress=bar
            )
        results.append(result)
        write_back(launch.arguments, contents or {})

    options.run(target, seed, perform)
    yield merged(results)


def _check_kernels(
    name: str, product: CheckedProduct, orders: "Sequence[Asynchrony]", seed: int, tensor_cores: "Arithmetic"
) -> "Iterator[CheckResult]":
    """Check the kernel of that name, or the kernels that it stands for."""
    from tilewright.checking.kernels import checks_of
    from tilewright.checking.result import CheckResult
    from tilewright.kernels.registry import kernel_named

    if name in COVERED:
        if product.config:
            fields = ",".join(product.config)
            raise ArgumentValueError(f"--config={fields} is for one kernel, and {name} are several: name one")
        chosen = list(_covered(name).values())
    else:
        chosen = [kernel_named(name, "KERNEL", "all, ladder, a file (FILE.ptx, FILE.cu, FILE.py:NAME, ./FILE)")]
    checks = checks_of(chosen, **product.wanted())
    count = len(checks)
    for number, each in enumerate(checks):
        which = f", {number + 1} of {count}" if count > 1 else ""
        try:
            with progress(f"checking {each.kernel.name}{which}", number / count or None) as bar:
                result = each.run(orders, seed, partial(_set, bar, number, count), tensor_cores=tensor_cores)
        except KeyboardInterrupt:
            result = CheckResult(each.kernel.name, each.about, error="interrupted", interrupted=True)
        except Exception as error:
            if count == 1 or (said := message_of(error)) is None:
                raise
            result = CheckResult(each.kernel.name, each.about, verified=False, skipped=said)
        yield result


def _covered(name: str) -> "Mapping[str, Kernel]":
    """The kernels that a name of COVERED stands for."""
    from tilewright.kernels.ladder import LADDER
    from tilewright.kernels.registry import EVERY_KERNEL, KERNELS

    return {each: EVERY_KERNEL[each] for each in (KERNELS if name == "all" else LADDER)}


def _set(bar: "Bar", number: int, count: int, share: float) -> None:
    """Set a bar of several kernels to a share of one of them, given its number."""
    bar((number + share) / count)


def _record_of_all(results: "Sequence[CheckResult]") -> dict[str, Any]:
    record = {"verified": _verified(results), "results": [result.as_dict() for result in results]}
    return {**record, "error": results[-1].error} if results[-1].error else record


def _verified(results: "Sequence[CheckResult]") -> bool | None:
    """Whether all runs are clean; None if nothing ran, or not to its end."""
    verdicts = [result.verified for result in results if result.verified is not None]
    return None if not verdicts or (all(verdicts) and results[-1].error) else all(verdicts)
