"""`tilewright tune`: the quickest Configs of products, measured on this GPU and kept for the planner."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.bench.options import ShapeOptions, SuiteArgument
from tilewright.cli.command import BAD_REQUEST, INTERRUPTED, command
from tilewright.cli.options import ActivationOption, Jobs, Json, WithBias, planned_gpu, require_writable
from tilewright.cli.output import console, grid, print_json, progress
from tilewright.cli.products import problem_of
from tilewright.errors import ArgumentValueError, UnavailableError, message_of
from tilewright.hardware import with_article

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.cli.output import Bar
    from tilewright.hardware import Hardware
    from tilewright.jit.pool import CompilerPool
    from tilewright.planner.tuned import Store
    from tilewright.planner.tuned_table import Entry
    from tilewright.planner.tuning import Tuned
    from tilewright.planner.tuning.search import Progress
    from tilewright.problem import Problem

SHOWN = 5
"""The finalists of a product that are printed."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What is done with the table besides adding to it."""

    listed: Annotated[bool, typer.Option("--list", help="List the table, and measure nothing.")] = False
    export: Annotated[Path | None, typer.Option("--export", help="Write the table to a file.", show_default=False)] = (
        None
    )
    imported: Annotated[
        Path | None,
        typer.Option("--import", help="Add a file's entries; of two, the later one counts.", show_default=False),
    ] = None
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="The GPU whose table it is, where none is here.", show_default=False)
    ] = None

    @property
    def asked(self) -> bool:
        """Whether anything is to be done with it."""
        return self.listed or self.export is not None or self.imported is not None


@command
def tune(
    suite: SuiteArgument = None,
    *,
    shapes: ShapeOptions,
    bias: WithBias = False,
    activation: ActivationOption = None,
    again: Annotated[bool, typer.Option("--again", help="Also products that are in the table.")] = False,
    seconds: Annotated[
        float,
        typer.Option("--seconds", help="How long a product may take, about; with more, more is measured.", min=1),
    ] = 10,
    jobs: Jobs = None,
    to: TableOptions,
    as_json: Json = False,
) -> None:
    """Measure which Config multiplies each product quickest, and keep it: the planner takes it from then on.

    Needs a GPU that does nothing else. Each product takes some 10 seconds at most: up to forty Configs are compiled,
    verified and timed; the best are varied, and timed again at the power limit. The last line says where the seconds
    went. What is done is kept, also after Ctrl-C.

    \b
    Examples:
      tilewright tune llama-7b
      tilewright tune --shape 512,12288,4096 --bias --activation gelu
      tilewright tune --shape 16384 --seconds 30
      tilewright tune llama-7b --dtype fp8_e4m3 --recipe row
      tilewright tune --list --gpu H200
      tilewright tune --export h200.json
      tilewright tune --import h200.json
    """
    from tilewright.planner.tuned import label, store, write_whole
    from tilewright.planner.tuned_table import Table, encode

    measures = suite is not None or bool(shapes.shape)
    wanted = shapes.of(suite, False) if measures or not to.asked else []  # which says what to give
    require_writable("--export", to.export)
    hardware = _hardware(to.gpu, measures)
    kept = store(label(hardware))
    record: dict[str, Any] = {"gpu": kept.gpu, "table": str(kept.path), "products": [], "interrupted": False}
    show: Callable[[str], None] = (lambda _: None) if as_json else console().print
    if to.imported is not None:
        record["imported"] = _import(to.imported, kept, hardware)
        show(f"{to.imported}: entries read: {record['imported']}")
    problems = [(shape, problem_of(shape, bias, activation)) for shape in wanted]
    _measure(problems, hardware, kept, record, again=again, seconds=seconds, jobs=jobs, show=show)
    table = kept.table() if to.listed or to.export is not None else Table()
    if to.export is not None:
        write_whole(to.export, encode(table, kept.gpu))
        record["exported"] = len(table)
        show(f"{to.export}: entries written: {len(table)}")
    if not table and (to.listed or to.export is not None):
        show(f"nothing was tuned for {with_article(kept.gpu)}: `tilewright tune SUITE` does it, on that GPU")
        if to.export is not None:
            show("an export has what was tuned here, and not what the package ships")
    if to.listed:
        shipped = kept.shipped().entries()
        record["entries"] = [entry.as_dict() for entry in table.entries()]
        others = {str(path): other.entries() for path, other in kept.others().items()}
        record["others"] = {path: [entry.as_dict() for entry in entries] for path, entries in others.items()}
        record["shipped"] = [entry.as_dict() for entry in shipped]
        if not as_json:
            _list(table.entries(), f"Tuned for {with_article(kept.gpu)}")
            for path, entries in others.items():
                _list(entries, f"In {path}, which counts where no table before it has one that can be used")
            _list(shipped, "In the package's own table, which counts where no other has one that can be used")
    if as_json:
        print_json(record)
    if record["interrupted"]:
        raise typer.Exit(INTERRUPTED)
    if any("error" in product for product in record["products"]):
        raise typer.Exit(BAD_REQUEST)


def _hardware(given: str | None, measures: bool) -> "Hardware":
    from tilewright.api import gpu_count
    from tilewright.hardware import GPUS

    if given is not None:
        if measures:
            raise ArgumentValueError(
                f"--gpu={given} is for --list, --export and --import, and products are measured on the GPU that is "
                "here: leave it out"
            )
        return planned_gpu(given)
    if not gpu_count():
        raise UnavailableError(
            "tune measures time on an NVIDIA GPU, and none is usable here (`tilewright doctor` says why); for --list, "
            f"--export and --import, name the table's GPU with --gpu, such as {next(iter(GPUS))}"
        )
    from tilewright.backends.gpu import backend

    return backend(0).hardware


def _import(path: Path, kept: "Store", hardware: "Hardware") -> int:
    """Add a file's entries, and return their number; one that cannot be used is refused, and so are all."""
    from tilewright.planner.tuned import read, require_usable

    try:
        _, table = read(path, kept.gpu)
    except OSError as error:
        raise ArgumentValueError(f"--import={path} cannot be read: {error.strerror}: name another file") from None
    entries = table.entries()
    for entry in entries:
        try:
            require_usable(entry, hardware)
        except ArgumentValueError as error:
            raise ArgumentValueError(f"--import={path} cannot be used for {entry.product}: {error}") from None
    kept.add(entries)
    return len(entries)


def _measure(
    problems: "list[tuple[Shape, Problem]]",
    hardware: "Hardware",
    kept: "Store",
    record: dict[str, Any],
    *,
    again: bool,
    seconds: float,
    jobs: int | None,
    show: Callable[[str], None],
) -> None:
    """Tune each product; what is found is shown and kept at once, and stands in the record."""
    from tilewright.jit.pool import CompilerPool, compilations
    from tilewright.planner.choose import exact_entry

    try:
        with CompilerPool(jobs or compilations()) as pool:
            for number, (shape, problem) in enumerate(problems):
                if not again and (entry := exact_entry(problem, hardware)) is not None:
                    record["products"].append({"shape": str(shape), "known": entry.as_dict()})
                    show(f"{shape}: known, {entry.us:.2f} us (--again measures it again)")
                    continue
                with progress(f"{shape}", number / len(problems)) as bar:
                    outcome = _tune(problem, pool, seconds, _part(bar, shape, number, len(problems)))
                if isinstance(outcome, str):
                    record["products"].append({"shape": str(shape), "error": outcome})
                    show(f"{shape}: {outcome}")
                    continue
                kept.add([outcome.entry], replaces=True)
                record["products"].append({"shape": str(shape), **outcome.as_dict()})
                _show(shape, outcome, show)
    except KeyboardInterrupt:
        record["interrupted"] = True


def _tune(problem: "Problem", pool: "CompilerPool", seconds: float, report: "Progress") -> "Tuned | str":
    """What tuning found, or why it could not be done."""
    from tilewright.backends.gpu import backend
    from tilewright.errors import TilewrightError
    from tilewright.planner.tuning import tune as find
    from tilewright.planner.tuning.search import Settings
    from tilewright.planner.tuning.stand import GpuStand

    try:
        with GpuStand(problem, backend(0)) as stand:
            return find(problem, stand, pool, settings=Settings(seconds), report=report)
    except TilewrightError as error:
        return message_of(error) or type(error).__name__


def _part(bar: "Bar", shape: "Shape", number: int, total: int) -> "Progress":
    """The progress of one product as that of all."""
    return lambda share, doing: bar((number + share) / total, f"{shape}: {doing}")


def _show(shape: "Shape", found: "Tuned", show: Callable[[str], None]) -> None:
    from tilewright.planner.tuned import changed_fields

    faults = f", {len(found.faults)} not right" if found.faults else ""
    late = f", {found.late} left out for want of time (--seconds gives more)" if found.late else ""
    spent = ", ".join(f"{what} {seconds:.1f}" for what, seconds in found.spent.items())
    timed = f"{found.measured} Configs timed{faults}{late}, {found.seconds:.1f} s"
    show(f"{shape} {shape.layout} {shape.dtype}: {timed}")
    first = found.best[0].config
    for rank, each in enumerate(found.best[:SHOWN], 1):
        config = repr(each.config) if rank == 1 else changed_fields(each.config, first)
        rate = shape.flops / each.us / 1e6
        show(f"  {each.us:9.2f} us  {rate:6.1f} TFLOP/s  {each.gain:5.3f} of untuned  {config}")
    show(f"  seconds: {spent}")


def _list(entries: "list[Entry]", title: str) -> None:
    """A table of entries, if there are any."""
    if not entries:
        return
    headings = ("m", "n", "k", "layout", "dtype", "epilogue", "us", "measured", "Config")
    rows = [
        [
            *map(str, (entry.m, entry.key.n, entry.key.k)),
            *map(_shown, (entry.key.layout, entry.key.dtype, entry.key.epilogue)), f"{entry.us:.2f}",
            *map(_shown, (entry.date[:10], repr(entry.made_config()))),
        ]
        for entry in entries
    ]  # fmt: skip
    grid(title, headings, rows, numbers=("m", "n", "k", "us"))


def _shown(text: str) -> str:
    """The text of a table that others may have written, without control characters."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
