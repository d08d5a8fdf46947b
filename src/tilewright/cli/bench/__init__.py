"""`tilewright bench`: kernels and libraries timed against each other on the same inputs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import records
from tilewright.cli.bench.options import (
    ContenderOptions,
    DataOption,
    EpilogueOptions,
    ProtocolOptions,
    RecordOptions,
    ShapeOptions,
)
from tilewright.cli.command import BAD_REQUEST, INTERRUPTED, NOT_VERIFIED, command
from tilewright.cli.options import Seed, require_plot
from tilewright.cli.output import console, print_json, progress
from tilewright.cli.products import require_elements
from tilewright.errors import ArgumentValueError, UnavailableError, message_of

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.bench.record import Record
    from tilewright.bench.session import Outcome, Settings
    from tilewright.cli.output import Bar

GPU_LOST = "a contender broke the GPU's context, so nothing more can be measured in this process"


@command
def bench(
    context: typer.Context,
    *,
    suite: Annotated[
        str | None,
        typer.Argument(
            help="proof, low-precision, squares, llama-7b, llama-70b, deepseek-v3, qwen3, gpt-oss, decode, few-rows, "
            "batches, chains, narrow, short-k, long-k, odd, strided, random, invariant, a TOML file of your own, "
            "or a record (.json) to be shown again.",
            show_default=False,
        ),
    ] = None,
    shapes: ShapeOptions,
    contenders: ContenderOptions,
    epilogues: EpilogueOptions,
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
    The exit code is 1 if a result is wrong, nothing could be timed, or the self-check disagrees. `tilewright bench
    micro` measures single instructions.

    \b
    Examples:
      tilewright bench llama-7b
      tilewright bench proof --against best --resume proof.json --time-limit 540
      CUDA_VISIBLE_DEVICES=1 tilewright bench proof --against best --resume proof.json  # beside it, on another GPU
      tilewright bench squares --contender tilewright --contender cublas
      tilewright bench --shape 8192,8192,8192 --protocol burst
      tilewright bench low-precision --resume low.json --time-limit 540
      tilewright bench llama-7b --dtype fp8_e4m3 --recipe row
      tilewright bench --shape 4096 --dtype int8 --contender tilewright --contender torch --contender cublas
      tilewright bench --shape 4096 --epilogue "gelu(acc + bias)" --epilogue "acc -> amax" --operand bias=n
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
    from tilewright.dtypes import FP8

    wanted = shapes.of(suite, self_check, seed)
    plain = all(each.elements.a.bits > 8 for each in wanted)
    chosen, baseline = contenders.chosen(suite, self_check, epilogues.chosen(self_check), plain=plain)
    settings = Settings(
        contenders=tuple(chosen),
        protocols=protocols.wanted(),
        baseline=baseline,
        data=data,
        seed=seed,
        against=contenders.against.value,
        configs=contenders.text,
        finalists=contenders.finalists,
    )
    for each in wanted:
        each.require(settings.data)
        require_elements(each.elements)
        if each.elements.out in FP8:
            raise ArgumentValueError(
                f"--out-dtype={each.elements.out} has a scale, which peers take in ways of their own: time it with "
                "`tilewright run`, or take another"
            )
    to.require(self_check)
    _require_gpu()
    record = _record(wanted, settings, suite, to)
    outcomes = _measure(record, settings, to)
    _finish(record, outcomes, to, self_check=self_check)


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


def _record(shapes: "list[Shape]", settings: "Settings", suite: str | None, to: RecordOptions) -> "Record":
    """A new record, or the one to go on with."""
    from tilewright import __version__
    from tilewright.bench.record import Record, conditions

    here, estimate = conditions(shapes, settings, suite, __version__), settings.seconds()
    looked = None if to.first_look is None else _first_look(to.first_look, here)
    if to.resume is None:
        return Record.begin(here, estimate, to.output, looked=looked)
    from tilewright.bench.claims import Claims
    from tilewright.cli.bench.schema import Resumable

    claims = Claims(to.resume)
    with claims.exclusive:  # of two processes that find no record, one begins it
        if to.resume.exists():
            known = records.read(to.resume, "tilewright bench --resume", Resumable)
            return Record.resume(known, here, estimate, to.resume, claims)
        record = Record.begin(here, estimate, to.resume, claims, looked)
        record.write()
        return record


def _first_look(path: Path, here: dict[str, Any]) -> dict[str, Any]:
    """The record whose first looks at peers and tuners' choices are taken."""
    from tilewright.bench.first_look import require_same_peers
    from tilewright.cli.bench.schema import Resumable

    known = records.read(path, "tilewright bench --resume", Resumable)
    require_same_peers(path, known, here)
    return known


def _measure(record: "Record", settings: "Settings", to: RecordOptions) -> "list[Outcome]":
    """Measure what is left, until the time limit; show and write each product as it is done."""
    from tilewright.bench import session
    from tilewright.bench.comparison import first_line
    from tilewright.cli.bench.table import show

    outcomes: list[Outcome] = []
    begun, total = time.monotonic(), len(record.shapes)
    tried: set[Shape] = set()
    _say_progress(record)
    try:
        while True:
            spent = time.monotonic() - begun
            if outcomes and to.time_limit is not None and spent + record.longest_seconds > to.time_limit:
                break
            if (shape := record.attempt(but=tried)) is None:
                break
            tried.add(shape)
            done = 1 - len(record.left) / total
            with progress(f"{shape}", done) as bar:
                started = time.monotonic()
                try:
                    part, known = _part(bar, done, 1 / total), record.best_peers(shape)
                    outcome = session.measure(shape, settings, part, record.choices(shape), known)
                except Exception as error:  # any failure: the other products are still measured
                    outcome = session.skipped(shape, settings, message_of(error) or first_line(error))
            outcomes.append(outcome)
            lost = not session.gpu_is_usable()
            product = outcome.as_dict()
            if lost:
                product |= {"skipped": f"{GPU_LOST}{_first_failure(outcome)}", "contenders": []}
            record.add(shape, product, time.monotonic() - started)
            if not to.as_json:
                show(product, list(record.content["protocols"]))
            if product["interrupted"] or lost:
                break
            _say_progress(record)
    except KeyboardInterrupt:
        record.interrupt()
    finally:
        record.leave()
    return outcomes


def _first_failure(outcome: "Outcome") -> str:
    """What failed first in a product, as the end of a sentence."""
    failed = [entry for each in outcome.comparisons for entry in each.entries if entry.status == "failed"]
    reasons = [f"{entry.contender}, {entry.reason}" for entry in failed] or [outcome.skipped]
    return f": {reasons[0]}" if reasons[0] else ""


def _say_progress(record: "Record") -> None:
    """Say on stderr how much is done, and about how long the rest takes."""
    total, left = len(record.shapes), len(record.left)
    if total > 1 and left:
        typer.echo(f"{total - left} of {total} products are done; {_rest(record)}", err=True)


def _rest(record: "Record") -> str:
    """About how long the rest takes, in words."""
    seconds = len(record.left) * record.product_seconds
    return f"the rest takes about {f'{seconds / 60:.0f} min' if seconds >= 120 else f'{seconds:.0f} s'}"


def _finish(record: "Record", outcomes: "list[Outcome]", to: RecordOptions, *, self_check: bool) -> None:
    """Write and draw the record, say what it amounts to, and exit with the matching code."""
    from tilewright.bench.charts.plot import draw
    from tilewright.cli.bench.table import show_standing

    content = record.content
    verdict = _self_check(content, outcomes) if self_check else _right(outcomes)
    record.write()
    drawn = records.drawn(content, to.plot, draw)
    if to.as_json:
        print_json(content)
    else:
        show_standing(content)
    complete, total = len(record.shapes) - len(record.left), len(record.shapes)
    again = "; give the same command again to go on" if to.resume is not None else ""
    if content["interrupted"]:
        typer.echo(f"tilewright: interrupted: {complete} of {total} products are complete{again}", err=True)
        raise typer.Exit(INTERRUPTED)
    if complete < total:
        typer.echo(f"tilewright: {complete} of {total} products are complete; {_rest(record)}{again}", err=True)
    if not verdict:
        raise typer.Exit(NOT_VERIFIED)
    if not drawn:
        raise typer.Exit(BAD_REQUEST)


def _part(bar: "Bar", start: float, length: float) -> Callable[[float, str], None]:
    """The progress of one product as a part of the whole."""
    return lambda share, doing: bar(start + length * share, doing)


def _right(outcomes: "list[Outcome]") -> bool:
    """Whether every product was timed, no contender's result is wrong, and none of our kernels failed."""
    from tilewright.bench.contenders import is_ours

    return all(
        any(entry.samples for entry in comparison.entries)
        and not any(entry.status == "wrong" for entry in comparison.entries)
        and not any(entry.status == "failed" and is_ours(entry.contender) for entry in comparison.entries)
        for outcome in outcomes
        for comparison in outcome.comparisons
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
    from tilewright.bench.charts.plot import draw
    from tilewright.bench.record import session_lines
    from tilewright.cli.bench.table import show, show_standing

    drawn = records.drawn(record, to.plot, draw)
    if to.as_json:
        print_json(record)
    else:
        console().print(f"{record['gpu']}, {record['date']}: {record['command']}", markup=False)
        for line in session_lines(record):
            console().print(line, markup=False)
        for product in record["products"]:
            show(product, list(record["protocols"]))
        show_standing(record)
        if left := record.get("left"):
            console().print(f"not measured yet: {', '.join(left)}", markup=False)
    if not drawn:
        raise typer.Exit(BAD_REQUEST)
