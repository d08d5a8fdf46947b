"""The topic `tensor-map`: what a kernel tells TMA of its operands, field by field."""

from typing import Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.model.cut import CutOptions, K, M, N
from tilewright.cli.options import Json
from tilewright.cli.output import facts, print_json, table
from tilewright.errors import ArgumentValueError


@command
def tensor_map(
    m: M,
    n: N,
    k: K,
    options: CutOptions,
    operand: Annotated[str, typer.Option("--operand", help="a, b or out.")] = "a",
    values: Annotated[bool, typer.Option("--values", help="Print fields without what they mean.")] = False,
    as_json: Json = False,
) -> None:
    """The tensor map of a kernel's operand, field by field, and what a copy of its box moves.

    \b
    Examples:
      tilewright model tensor-map 4096 4096 4096
      tilewright model tensor-map 1000 3000 2000 --operand b --layout nn --values
      tilewright model tensor-map 4096 4096 4096 --kernel wgmma_stmatrix --operand out --json
    """
    if operand not in ("a", "b", "out"):
        raise ArgumentValueError(f"--operand={operand!r} has no tensor map in any kernel: give a, b or out")
    cut = options.of(m, n, k)
    launch = cut.kernel.assemble(cut.config, cut.problem, cut.chip.gpu)
    roles = {"a": "b", "b": "a"} if launch.exchanged else {}
    maps = {roles.get(spec.operand, spec.operand): spec.model for spec in launch.arguments.tensor_maps}
    if operand not in maps:
        if not maps:
            raise ArgumentValueError(
                f"kernel {cut.kernel.name!r} does not use TMA, so it has no tensor maps: use one of Hopper, as wgmma"
            )
        known = ", ".join(maps)
        raise ArgumentValueError(f"--operand={operand!r} of {cut.kernel.name} has no tensor map: use {known}")
    found = maps[operand]
    if as_json:
        print_json({"kernel": cut.kernel.name, "operand": operand, **found.as_dict()})
        return
    facts({
        field.name: field.value if values else f"{field.value}: {field.meaning} ({field.rule})"
        for field in found.fields
    })  # fmt: skip
    rows: dict[str, object] = {
        "bytes in SMEM, as an mbarrier counts them": found.box_bytes, "sectors of GMEM": found.box_sectors,
        "boxes of the tensor": " x ".join(map(str, found.boxes)),
    }  # fmt: skip
    table(f"a copy of a box of {operand} by {cut.kernel.name}", rows)
