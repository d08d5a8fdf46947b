"""`tilewright bench`: kernels and libraries timed against each other on the same inputs."""

import dataclasses
import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import records
from tilewright.cli.options import DTypeName, Json, Layout, Seed, parse_shape, require_plot, require_writable
from tilewright.cli.output import (
    BAD_REQUEST,
    INTERRUPTED,
    NOT_VERIFIED,
    console,
    print_json,
    progress,
    reports_errors,
)
from tilewright.errors import ArgumentValueError, UnavailableError, message_of

if TYPE_CHECKING:
    from tilewright.bench.contenders import Contender
    from tilewright.bench.inputs import Shape
    from tilewright.bench.session import Outcome, Settings
    from tilewright.cli.output import Report

SELF_CHECK_SHAPE = "4096,4096,4096"
DEFAULT_BASELINE = "cublas"


class DataName(StrEnum):
    """Distributions of operands, as `tilewright.bench.inputs` has them."""

    randn = "randn"
    uniform = "uniform"
    two_of_four = "2:4"


class ProtocolName(StrEnum):
    """Which protocols are run."""

    both = "both"
    burst = "burst"
    settled = "settled"


@reports_errors
def bench(
    context: typer.Context,
    suite: Annotated[
        str | None,
        typer.Argument(
            help="squares, llama-7b, llama-70b, decode, narrow, short-k, long-k, odd, a TOML file of your own, or a "
            "record (.json) to be shown again.",
            show_default=False,
        ),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="M,N,K instead of a suite; may be repeated.", show_default=False)
    ] = None,
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; the suite's by default, or bf16.")
    ] = None,
    layout: Annotated[
        Layout | None, typer.Option("--layout", help="How A and B are stored; the suite's by default, or nt.")
    ] = None,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            help="tilewright, tilewright:KERNEL, cublas, cublaslt, triton, quack; may be repeated. All by default, but "
            "for forced kernels.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            help="The contender that ratios are to; cublas by default, or the first where it takes no part.",
            show_default=False,
        ),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            "--configs",
            help="Look at all Configs of the planner's kernel first, or at those with this text, such as tile_n=200; "
            "the best are then measured in place of its choice.",
            metavar="all|TEXT",
            show_default=False,
        ),
    ] = None,
    finalists: Annotated[int, typer.Option("--finalists", help="How many of these are measured.", min=1)] = 2,
    protocol: Annotated[
        ProtocolName, typer.Option("--protocol", help="Right after idle, at the power limit, or both.")
    ] = ProtocolName.both,
    rounds: Annotated[int, typer.Option("--rounds", help="Cycles of burst.", min=1)] = 5,
    cycles: Annotated[int, typer.Option("--cycles", help="Cycles of settled.", min=1)] = 7,
    slice_seconds: Annotated[float, typer.Option("--slice", help="Seconds of a settled turn.", min=0.02)] = 0.6,
    data: Annotated[
        DataName,
        typer.Option("--data", help="Normal, uniform from -1 to 1, or normal with an A of which 2 of 4 are zero."),
    ] = DataName.randn,
    seed: Seed = 0,
    self_check: Annotated[
        bool, typer.Option("--self-check", help="Time one contender against itself: the medians must agree within 1%.")
    ] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the rates into this file.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the JSON record to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Time products against the libraries found on this machine: verified, interleaved, right after idle and settled.

    Needs a GPU and torch; a record that was written before is shown anywhere. Ctrl-C ends it with what was measured.
    Exit code 1 when a result is wrong, nothing could be timed, or the self-check disagrees.

    \b
    Examples:
      tilewright bench llama-7b
      tilewright bench squares --contender tilewright --contender cublas
      tilewright bench --shape 8192,8192,8192 --protocol burst
      tilewright bench squares --configs all --output record.json
      tilewright bench record.json --plot rates.png
      tilewright bench --self-check --json
    """
    from tilewright.bench.plot import draw

    if suite is not None and suite.endswith(".json"):
        require_plot(plot)
        records.refuse_measuring(context, suite, {"suite", "plot", "as_json"})
        record = _read(Path(suite))
        drawn = records.drawn(record, plot, draw)
        _show(record, as_json=as_json)
        if not drawn:
            raise typer.Exit(BAD_REQUEST)
        return
    from tilewright.bench.session import Settings
    from tilewright.measure.protocol import Burst, Settled

    shapes = _shapes(suite, shape or ([SELF_CHECK_SHAPE] if self_check and suite is None else []), dtype, layout)
    chosen, against = _contenders(contender, baseline, self_check, configs)
    protocols = (Burst(cycles=rounds), Settled(cycles=cycles, slice_seconds=slice_seconds))
    wanted = tuple(each for each in protocols if protocol in (ProtocolName.both, each.name))
    settings = Settings(
        contenders=tuple(chosen),
        protocols=wanted,
        baseline=against,
        data=data.value,
        seed=seed,
        configs="" if configs == "all" else configs,
        finalists=finalists,
    )
    for each in shapes:
        each.require(settings.data)
    require_writable("--output", output)
    require_plot(plot)
    _require_gpu()
    _measure(shapes, settings, suite, self_check=self_check, plot=plot, output=output, as_json=as_json)


def _shapes(suite: str | None, texts: list[str], dtype: DTypeName | None, layout: Layout | None) -> "list[Shape]":
    """The shapes to be timed, with the dtype and layout that were asked for."""
    from tilewright.bench import suites
    from tilewright.bench.inputs import Shape

    if (suite is None) == (not texts):
        given = (
            "neither SUITE nor --shape is given" if suite is None else f"SUITE is {suite} and --shape is given as well"
        )
        raise ArgumentValueError(f"{given}: give one of them; suites are {', '.join(suites.names())}")
    shapes = list(suites.load(suite).shapes) if suite else [Shape(*parse_shape(text, "--shape")) for text in texts]
    asked: dict[str, Any] = {
        name: option.value for name, option in (("dtype", dtype), ("layout", layout)) if option is not None
    }
    return [dataclasses.replace(each, **asked) for each in shapes]


def _contenders(
    names: list[str] | None, baseline: str | None, self_check: bool, configs: str | None
) -> "tuple[list[Contender], str]":
    """The contenders of these names, and the one that ratios are to; for the self-check one of them twice."""
    from tilewright.bench.contenders import OURS, PEERS, contenders_named

    if not self_check:
        chosen = contenders_named(names or [OURS, *PEERS])
        known = [each.name for each in chosen]
        ours = [name for name in known if name.partition(":")[0] == OURS]
        if configs is not None and len(ours) > 1:
            raise ArgumentValueError(
                f"--configs={configs} is of one kernel, and there are {', '.join(ours)}: name one of them"
            )
        if baseline is not None and baseline not in known:
            raise ArgumentValueError(f"--baseline={baseline} is no contender: use {', '.join(known)}")
        return chosen, baseline or (DEFAULT_BASELINE if DEFAULT_BASELINE in known else known[0])
    if baseline is not None:
        raise ArgumentValueError(
            f"--self-check is against the contender itself, and --baseline={baseline}: leave one out"
        )
    if configs is not None:
        raise ArgumentValueError(
            f"--self-check times one contender, and --configs={configs} finds several: leave one out"
        )
    names = names or [OURS]
    if len(names) > 1:
        raise ArgumentValueError(
            f"--self-check times one contender against itself, and {len(names)} are given: name one"
        )
    (first,), (second,) = contenders_named(names), contenders_named(names)
    first.name, second.name = "first", "second"
    return [first, second], second.name


def _require_gpu() -> None:
    from tilewright.api import gpu_count
    from tilewright.bench.inputs import torch_on_gpu

    if not gpu_count():
        raise UnavailableError(
            "bench measures time on an NVIDIA GPU, and none is usable here (`tilewright doctor` says why). Here work: "
            "`tilewright run`, which counts in the emulator and predicts the time; `tilewright check` and `tilewright "
            "inspect`; and `tilewright bench RECORD.json`, which shows what was measured elsewhere"
        )
    torch_on_gpu()


def _measure(
    shapes: "list[Shape]",
    settings: "Settings",
    suite: str | None,
    *,
    self_check: bool,
    plot: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure all shapes, showing and writing each as it is done, and exit with what it means."""
    from tilewright.bench import session
    from tilewright.bench.comparison import first_line
    from tilewright.bench.plot import draw
    from tilewright.cli.bench_table import show

    record: dict[str, Any] = {
        **session.machine(), "suite": suite, **settings.as_dict(), "interrupted": False, "products": []
    }  # fmt: skip
    outcomes: list[Outcome] = []
    try:
        for number, shape in enumerate(shapes):
            done, share = number / len(shapes), 1 / len(shapes)
            with progress(f"{shape}", done) as report:
                try:
                    outcomes.append(session.measure(shape, settings, _part(report, done, share)))
                except Exception as error:  # whatever it is: the other products are still measured
                    outcomes.append(session.skipped(shape, settings, message_of(error) or first_line(error)))
            record["products"].append(outcomes[-1].as_dict())
            record["interrupted"] = outcomes[-1].comparison.interrupted
            _write(record, output)
            if not as_json:
                show(record["products"][-1], list(record["protocols"]))
            if record["interrupted"]:
                break
    except KeyboardInterrupt:
        record["interrupted"] = True
    verdict = _self_check(record, outcomes) if self_check else _right(outcomes)
    _write(record, output)
    drawn = records.drawn(record, plot, draw)
    if as_json:
        print_json(record)
    if record["interrupted"]:
        complete = sum(not outcome.comparison.interrupted for outcome in outcomes)
        typer.echo(f"tilewright: interrupted: {complete} of {len(shapes)} products are complete", err=True)
    if record["interrupted"]:
        raise typer.Exit(INTERRUPTED)
    if not verdict:
        raise typer.Exit(NOT_VERIFIED)
    if not drawn:
        raise typer.Exit(BAD_REQUEST)


def _write(record: dict[str, Any], output: Path | None) -> None:
    if output is not None:
        output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _part(report: "Report", start: float, length: float) -> Callable[[float, str], None]:
    """The progress of one product as a part of all."""
    return lambda share, doing: report(start + length * share, doing)


def _right(outcomes: "list[Outcome]") -> bool:
    """Whether every product was timed, no contender's result is wrong, and none of our kernels failed."""
    from tilewright.bench.contenders import OURS

    comparisons = [outcome.comparison for outcome in outcomes]
    comparisons += [outcome.sweep for outcome in outcomes if outcome.sweep is not None]
    return all(
        any(entry.samples for entry in comparison.entries)
        and not any(entry.status == "wrong" for entry in comparison.entries)
        and not any(entry.status == "failed" and entry.contender.startswith(OURS) for entry in comparison.entries)
        for comparison in comparisons
    )


def _self_check(record: dict[str, Any], outcomes: "list[Outcome]") -> bool:
    """Whether the contender agrees with itself; noted in the record and said on stderr."""
    from tilewright.bench.session import AGREEMENT, disagreement

    agrees = bool(outcomes)
    for outcome, product in zip(outcomes, record["products"], strict=False):
        product["disagreement"] = disagreement(outcome.comparison)
        for protocol in record["protocols"]:
            found = product["disagreement"].get(protocol)
            agrees &= found is not None and found < AGREEMENT
            said = "was not measured" if found is None else f"differs from itself by {found:.2%} at the median"
            typer.echo(f"{product['m']}x{product['n']}x{product['k']} {protocol}: {said}", err=True)
    record["agrees"] = agrees
    return agrees


def _read(path: Path) -> dict[str, Any]:
    """A record that --output wrote; a ValueError for anything else."""

    def complete(record: Any) -> bool:
        return (
            records.has_parts(record, "products")
            and records.has(record, "gpu", "date", "command", "data", "protocols")
            and isinstance(record["protocols"], dict)
            and all(whole(product) for product in record["products"])
        )

    def whole(product: Any) -> bool:
        return (
            records.has_parts(product, "contenders")
            and records.has(product, "m", "n", "k", "dtype", "layout", "data", "baseline", "interrupted")
            and all(records.has(entry, "contender", "status") for entry in product["contenders"])
        )

    return records.read(path, "tilewright bench --output", complete)


def _show(record: dict[str, Any], *, as_json: bool) -> None:
    """A record that was read, as it was shown when it was measured."""
    from tilewright.cli.bench_table import show

    if as_json:
        print_json(record)
        return
    console().print(f"{record['gpu']}, {record['date']}: {record['command']}", markup=False)
    for product in record["products"]:
        show(product, list(record["protocols"]))
