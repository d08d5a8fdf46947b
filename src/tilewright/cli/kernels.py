"""`tilewright kernels`: what each kernel takes, and what of it a GPU has verified."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import records
from tilewright.cli.command import command
from tilewright.cli.options import FactorName, Json, RecipeName
from tilewright.cli.output import console, grid, print_json
from tilewright.dtypes import parse
from tilewright.errors import ArgumentValueError
from tilewright.hardware import with_article

if TYPE_CHECKING:
    from tilewright.checking.support import Support

RECORD = Path("results/gpu_verification.json")
"""Where a source tree has the record of its last GPU run."""


@command
def kernels(
    *,
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="One kernel, or a rung of the ladder.", show_default=False)
    ] = None,
    dtype: Annotated[
        FactorName | None, typer.Option("--dtype", help="Only what takes an A of this type.", show_default=False)
    ] = None,
    recipe: Annotated[
        RecipeName | None, typer.Option("--recipe", help="Only what takes these scales.", show_default=False)
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="Only what runs on this GPU, such as A100.", show_default=False)
    ] = None,
    ladder: Annotated[bool, typer.Option("--ladder", help="The rungs of the ladder too.")] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            help="What `make test-gpu` wrote about a GPU run; by default the source tree's.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """What each kernel takes: element types, scales, layouts and GPUs, by its own rules.

    The last column says whether a GPU has verified it, among how many generated products of the kernel, or the emulator
    alone.
    With copies of operands, the planner may also use a kernel for other layouts.

    \b
    Examples:
      tilewright kernels
      tilewright kernels --dtype fp8_e4m3 --gpu H200
      tilewright kernels --recipe row --json
      tilewright kernels --kernel wgmma_basic
    """
    from tilewright.checking.support import support
    from tilewright.explaining.explained import gpu_of
    from tilewright.kernels.registry import EVERY_KERNEL, KERNELS, kernel_named

    arch = None if gpu is None else gpu_of(gpu, dtype=parse(dtype or "fp32", "--dtype"))[0].arch
    wanted = [kernel_named(kernel, "--kernel")] if kernel else (EVERY_KERNEL if ladder else KERNELS).values()
    verified = _record(record)
    rows = [row for each in wanted for row in support(each, verified) if _is_meant(row, dtype, recipe, arch)]
    if as_json:
        facts = None if verified is None else {name: verified[name] for name in ("gpu", "date")}
        print_json({"verified": facts, "kernels": [row.as_dict() for row in rows]})
        return
    if not rows:
        console().print("no kernel takes that")
        return
    _show(rows, verified)


def _record(path: Path | None) -> dict[str, Any] | None:
    """The record of a GPU run; None without one."""
    import tilewright
    from tilewright.cli.verification import Verification
    from tilewright.hardware import GPUS

    own = Path(tilewright.__file__).parents[2] / RECORD
    if path is None and not own.is_file():
        return None
    found = records.read(path or own, "make test-gpu", Verification)
    if found["gpu"] not in GPUS:
        raise ArgumentValueError(f"--record={path} is of the GPU {found['gpu']!r}: name one of {', '.join(GPUS)}")
    return found


def _is_meant(row: "Support", dtype: FactorName | None, recipe: RecipeName | None, arch: str | None) -> bool:
    """Whether a row has what the options ask for."""
    of_type = dtype is None or parse(dtype, "--dtype").name in {name.partition(" ")[0] for name in row.types}
    of_recipe = recipe is None or recipe.value in {name.partition(" ")[0] for name in row.scales}
    return of_type and of_recipe and (arch is None or arch in row.architectures)


def _show(rows: "list[Support]", verified: dict[str, Any] | None) -> None:
    headings = ("kernel", "a and b", "scales", "layouts", "architectures", "verified")
    place = "" if verified is None else f" on {with_article(verified['gpu'])}"
    cells = [
        (
            row.kernel, row.types_text, ", ".join(row.scales), " ".join(row.layouts), ", ".join(row.architectures),
            f"among {row.cases:,} products{place}" if row.cases else "in the emulator",
        )
        for row in rows
    ]  # fmt: skip
    grid("", headings, cells)
