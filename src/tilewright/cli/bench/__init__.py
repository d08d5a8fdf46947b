"""`tilewright bench`: kernels and libraries timed against each other on the same inputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import records
from tilewright.cli.bench.options import ContenderOptions, DataOption, ProtocolOptions, RecordOptions, ShapeOptions
from tilewright.cli.command import BAD_REQUEST, INTERRUPTED, NOT_VERIFIED, command
from tilewright.cli.options import Seed, require_plot
from tilewright.cli.output import console, print_json, progress
from tilewright.errors import UnavailableError, message_of

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.bench.session import Outcome, Settings
    from tilewright.cli.output import Bar


@command
def bench(
    context: typer.Context,
    *,
    suite: Annotated[
        str | None,
        typer.Argument(
            help="squares, llama-7b, llama-70b, decode, narrow, short-k, long-k, odd, a TOML file of your own, or a "
            "record (.json) to be shown again.",
            show_default=False,
        ),
    ] = None,
    shapes: ShapeOptions,
    contenders: ContenderOptions,
    protocols: ProtocolOptions,
    data: DataOption = "randn",
    seed: Seed = 0,
    self_check: Annotated[
        bool, typer.Option("--self-check", help="Time one contender against itself: the medians must agree within 1%.")
    ] = False,
    to: RecordOptions,
) -> None:
    """Time products against the libraries found on this machine: verified, interleaved, right after idle and settled.

    Needs a GPU and torch; an earlier record is shown on any machine. Ctrl-C ends it with what was measured so far.
    The exit code is 1 if a result is wrong, nothing could be timed, or the self-check disagrees.

    \b
    Examples:
      tilewright bench llama-7b
      tilewright bench squares --contender tilewright --contender cublas
      tilewright bench --shape 8192,8192,8192 --protocol burst
      tilewright bench squares --configs all --output record.json
      tilewright bench record.json --plot rates.png
      tilewright bench --self-check --json
    """
    if suite is not None and suite.endswith(".json"):
        require_plot(to.plot)
        records.refuse_measuring(context, suite, {"suite", "plot", "as_json"})
        from tilewright.cli.bench.schema import Bench

        _show_again(records.read(Path(suite), "tilewright bench --output", Bench), to)
        return
    from tilewright.bench.session import Settings

    wanted = shapes.of(suite, self_check)
    chosen, baseline = contenders.chosen(self_check)
    settings = Settings(
        contenders=tuple(chosen),
        protocols=protocols.wanted(),
        baseline=baseline,
        data=data,
        seed=seed,
        configs=contenders.text,
        finalists=contenders.finalists,
    )
    for each in wanted:
        each.require(settings.data)
    to.require()
    _require_gpu()
    _measure(wanted, settings, suite, to, self_check=self_check)


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
    to: RecordOptions,
    *,
    self_check: bool,
) -> None:
    """Measure all shapes, show and write each as it is done, and exit with the matching code."""
    from tilewright.bench import session
    from tilewright.bench.comparison import first_line
    from tilewright.bench.plot import draw
    from tilewright.cli.bench.table import show

    record: dict[str, Any] = {
        **session.machine(), "suite": suite, **settings.as_dict(), "interrupted": False, "products": []
    }  # fmt: skip
    outcomes: list[Outcome] = []
    try:
        for number, shape in enumerate(shapes):
            done, share = number / len(shapes), 1 / len(shapes)
            with progress(f"{shape}", done) as bar:
                try:
                    outcomes.append(session.measure(shape, settings, _part(bar, done, share)))
                except Exception as error:  # any failure: the other products are still measured
                    outcomes.append(session.skipped(shape, settings, message_of(error) or first_line(error)))
            record["products"].append(outcomes[-1].as_dict())
            record["interrupted"] = outcomes[-1].comparison.interrupted
            _write(record, to.output)
            if not to.as_json:
                show(record["products"][-1], list(record["protocols"]))
            if record["interrupted"]:
                break
    except KeyboardInterrupt:
        record["interrupted"] = True
    verdict = _self_check(record, outcomes) if self_check else _right(outcomes)
    _write(record, to.output)
    drawn = records.drawn(record, to.plot, draw)
    if to.as_json:
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


def _part(bar: "Bar", start: float, length: float) -> Callable[[float, str], None]:
    """The progress of one product as a part of the whole."""
    return lambda share, doing: bar(start + length * share, doing)


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
    """Whether the contender agrees with itself; also recorded, and printed on stderr."""
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


def _show_again(record: dict[str, Any], to: RecordOptions) -> None:
    """Show a record that was read, as after its measurement."""
    from tilewright.bench.plot import draw
    from tilewright.cli.bench.table import show

    drawn = records.drawn(record, to.plot, draw)
    if to.as_json:
        print_json(record)
    else:
        console().print(f"{record['gpu']}, {record['date']}: {record['command']}", markup=False)
        for product in record["products"]:
            show(product, list(record["protocols"]))
    if not drawn:
        raise typer.Exit(BAD_REQUEST)
