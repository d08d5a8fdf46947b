"""`tilewright report`: one page of what is known about a product or a kernel, which needs no network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.options import AnyGpuOption, DTypeName, Json, OwnLayoutOption, require_writable, shape_of, with_sums
from tilewright.cli.output import print_json, progress
from tilewright.errors import ArgumentValueError
from tilewright.hardware import with_article

if TYPE_CHECKING:
    from tilewright.explaining.explanation import Explanation


def _kernel_or_extents(words: list[str] | None) -> list[str] | None:
    """One name, or a shape, or nothing."""
    if words and len(words) > 1 and not words[0][:1].isdecimal():
        raise typer.BadParameter(f"{' '.join(words)!r} is neither: name a kernel, or give M N K")
    return words


USUAL, OF_KERNEL = (4096, 4096, 4096), (1024, 1024, 1024)
"""The product without any words, and that of a kernel."""


@command
def report(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KERNEL | M N K]",
            help="A kernel, or a product; by default 4096 4096 4096.",
            show_default=False,
            callback=_kernel_or_extents,
        ),
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    record: Annotated[
        list[Path] | None,
        typer.Option(
            "--record", help="What `ladder --json` or `bench --output` wrote; once for each.", show_default=False
        ),
    ] = None,
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; by default the first that is taken.")
    ] = None,
    layout: OwnLayoutOption = None,
    gpu: AnyGpuOption = None,
    as_json: Json = False,
) -> None:
    """Write one page about a product or a kernel: plan, roofline, waves, tile, swizzle, fragments, time line, counters.

    The page needs no network. The time line and the counters are of the emulator, which takes some seconds; measured
    times are those of --record.

    \b
    Examples:
      tilewright report 4096 4096 4096 -o report.html
      tilewright report 16 28672 8192 --gpu H20
      tilewright report mma --gpu A100 -o mma.html
      tilewright report 1024 1024 1024 --record ladder.json --record bench.json --json
    """
    from tilewright import __version__
    from tilewright.explaining.report.page import page, require_packages

    require_packages()
    require_writable("--output", output)
    explanation = _explained(words or [], dtype and dtype.value, layout and layout.value, gpu)
    with progress("running the kernel in the emulator"):
        text = page(explanation, record or (), __version__)
    output.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"output": str(output), "bytes": len(text.encode()), **explanation.as_dict()})
    else:
        typer.echo(
            f"written to {output}: {explanation.problem} by {explanation.kernel} on {with_article(explanation.gpu)}"
        )


def _explained(words: list[str], dtype: str | None, layout: str | None, gpu: str | None) -> "Explanation":
    """The product of a shape, or that of a kernel."""
    from tilewright.checking.product import NotTaken, Product, first_accepted
    from tilewright.dtypes import bf16, parse
    from tilewright.explaining.explained import explained, gpu_of
    from tilewright.kernels.registry import WITHOUT_SUM, kernel_named
    from tilewright.measure.elements import Elements

    hardware, present = gpu_of(gpu)
    elements = None if dtype is None else Elements.of(parse(dtype, "--dtype"))
    if words and not words[0][:1].isdecimal():
        kernel = kernel_named(words[0], "KERNEL", without=WITHOUT_SUM)
        if kernel.name == WITHOUT_SUM:
            raise ArgumentValueError(
                f"KERNEL={kernel.name!r} takes products without a sum, and a report is about sums: name another "
                f"kernel, or give M N K"
            )
        try:
            product = first_accepted(kernel, hardware, [OF_KERNEL], elements, layout)
        except NotTaken as error:
            raise ArgumentValueError(f"{error}: use another --gpu, --dtype or --layout") from None
        return explained(product.problem, hardware, present=present, kernel=kernel.name)
    product = Product.of(with_sums(shape_of(words) or USUAL), elements or Elements.of(bf16), layout or "nt")
    return explained(product.problem, hardware, present=present)
