"""`tilewright compile`: the kernels of many products, compiled before they are needed."""

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.bench.options import ShapeOptions, SuiteArgument
from tilewright.cli.command import NOT_VERIFIED, command
from tilewright.cli.options import (
    ActivationOption,
    EpilogueOption,
    GateOption,
    Jobs,
    Json,
    OperandOption,
    OutputsOption,
    WithBias,
    expression_of,
    planned_gpu,
)
from tilewright.cli.output import console, print_json, progress
from tilewright.cli.products import problem_of
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.hardware import with_article

if TYPE_CHECKING:
    from tilewright.bench.inputs import Shape
    from tilewright.hardware import Hardware
    from tilewright.problem import Problem

MOST_PRODUCTS = 1_000_000

RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows", help="Values of M that replace the shapes' own: FIRST-LAST, or a list such as 1,2,4,8-64.",
        show_default=False,
    ),
]  # fmt: skip

GpuOption = Annotated[
    str | None,
    typer.Option("--gpu", help="The GPU, such as H200; by default this machine's first one.", show_default=False),
]


@command
def compile(
    suite: SuiteArgument = None,
    *,
    shapes: ShapeOptions,
    rows: RowsOption = None,
    bias: WithBias = False,
    activation: ActivationOption = None,
    epilogue: EpilogueOption = None,
    operand: OperandOption = None,
    gate: GateOption = None,
    outputs: OutputsOption = None,
    gpu: GpuOption = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Compile every kernel that the planner chooses for these products, into the cache; no GPU is needed.

    Afterwards no first call on that GPU compiles for packed and aligned operands of these shapes. Share the cache by
    TILEWRIGHT_CACHE_PATH, or build it into a container. The exit code is 1 if a kernel does not compile.

    \b
    Examples:
      tilewright compile llama-7b --gpu H200
      tilewright compile --shape 1,12288,4096 --rows 1-4096 --gpu H200
      tilewright compile --shape 512,4096,4096 --bias --activation gelu
      tilewright compile --shape 1,24576,4096 --rows 1-256 --epilogue "silu(x) * y" --gate interleaved --gpu H200
      tilewright compile qwen3 --dtype int8 --recipe row --rows 1-64 --gpu H200
    """
    from tilewright.jit.cache import default_cache
    from tilewright.planner.ahead import prepare, units_of

    wanted = shapes.of(suite, False)
    said = expression_of(epilogue, operand, gate, outputs, bias=bias, activation=activation)
    if said:
        bias, activation = False, None  # they are in it
    hardware = _hardware(gpu)
    begun = time.monotonic()
    products = list(_products(wanted, rows))
    with progress("choosing kernels") as bar:
        problems = _problems(_told(products, bar), bias, activation, said)
        units = units_of(problems, hardware)
    with progress("compiling") as bar:
        ahead = prepare(units, hardware.arch, jobs=jobs, report=lambda done, total: bar(done / max(total, 1)))
    cache = default_cache()
    lost = sum(cache.find(unit, hardware.arch) is None for unit in ahead.kernels) if ahead.compiled else 0
    if lost:
        raise UnavailableError(
            f"{lost} of {len(ahead.kernels)} compiled kernels are not in the cache {cache.directory}, which does not "
            f"take them: set TILEWRIGHT_CACHE_DIR to a directory of yours that can be written"
        )
    record: dict[str, Any] = {
        "gpu": hardware.name,
        "arch": hardware.arch,
        "products": len(products),
        "kernels": sorted(unit.name for unit in units),
        "compiled": ahead.compiled,
        "failures": {unit.name: str(error) for unit, error in ahead.failures.items()},
        "cache": str(cache.directory),
        "seconds": time.monotonic() - begun,
    }
    if as_json:
        print_json(record)
    else:
        one = len(products) == 1
        console().print(
            f"{len(products):,} product{'' if one else 's'} on {with_article(hardware.name)} take{'s' * one} "
            f"{len(units)} kernel{'s' * (len(units) != 1)}: {ahead.compiled} compiled, "
            f"{len(ahead.kernels) - ahead.compiled} were there, {len(ahead.failures)} failed; {record['seconds']:.1f} s"
        )
        for name, error in record["failures"].items():
            console().print(f"{name}: {error}")
    if ahead.failures:
        raise typer.Exit(NOT_VERIFIED)


def _hardware(name: str | None) -> "Hardware":
    from tilewright.api import gpu_count
    from tilewright.hardware import GPUS

    if name is not None:
        return planned_gpu(name)
    if not gpu_count():
        raise UnavailableError(f"no GPU is usable here: name one with --gpu, such as {', '.join(GPUS)}")
    from tilewright.backends.gpu import backend

    return backend(0).hardware


def _products(shapes: "list[Shape]", rows: str | None) -> "Iterator[Shape]":
    """The shapes, each with all the rows."""
    from dataclasses import replace

    values = None if rows is None else parse_rows(rows)
    if values is not None and len(values) * len(shapes) > MOST_PRODUCTS:
        raise ArgumentValueError(
            f"--rows={rows!r} makes {len(values) * len(shapes):,} products: name at most {MOST_PRODUCTS:,}"
        )
    if values is None:
        yield from shapes
        return
    for shape in dict.fromkeys(replace(each, m=1) for each in shapes):
        yield from (replace(shape, m=m) for m in values)


def _problems(products: "Iterable[Shape]", *epilogue: Any) -> "Iterator[Problem]":
    """What calls pose, results of fp8 with a scale and without one."""
    from tilewright.dtypes import FP8

    for product in products:
        yield problem_of(product, *epilogue)
        if product.elements.out in FP8:
            yield problem_of(product, *epilogue, scales_out=True)


def _told(products: "list[Shape]", bar: Any) -> "Iterator[Shape]":
    for number, product in enumerate(products):
        if number % 64 == 0:
            bar(number / len(products))
        yield product


def parse_rows(text: str) -> list[int]:
    """The values of "1-4096" or "1,2,4,8-64", in order and once; raises an ArgumentValueError for others."""
    found: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ArgumentValueError(f"--rows={text!r}: write numbers and ranges, such as 1-4096 or 1,2,4,8-64")
        low, high = int(first), int(last or first)
        if high < low:
            raise ArgumentValueError(f"--rows={text!r}: {part.strip()} ends before it begins; write {high}-{low}")
        if not 1 <= low <= high < low + MOST_PRODUCTS:
            raise ArgumentValueError(
                f"--rows={text!r}: write ranges of at most {MOST_PRODUCTS:,} values from 1 on, not {part.strip()}"
            )
        found |= dict.fromkeys(range(low, high + 1))
    return sorted(found)
