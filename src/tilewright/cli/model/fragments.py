"""The topic `fragments`: which lane holds which elements of a matrix in which register."""

from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import PictureOptions
from tilewright.cli.output import columns, console
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.model.fragments.fragment import Fragment

LETTERS = {
    "g": "g = lane // 4", "t": "t = lane % 4", "w": "w the warp", "q": "q the quad pair, lane // 4 % 4",
    "h": "h = 4 in lanes 16 to 31, else 0", "i": "i the register", "e": "e the element in it",
}  # fmt: skip
"""What the letters of formulas mean; g counts within a warp."""


@command
def fragments(
    output: PictureOptions,
    instruction: Annotated[
        str,
        typer.Argument(
            help="Its name, shape and types: mma.m16n8k16, mma.m16n8k32.s8, mma.sp.m16n8k32, wgmma.m64n128k16.bf16, "
            "wgmma.sp.m64n128k32, mma.m16n8k64.e2m1, wmma.m16n16k16, "
            "wmma.volta.m16n16k16, mma.m8n8k4.f16.col.row, ldmatrix.x4.trans, stmatrix.x2, movmatrix.",
            show_default=False,
        ),
    ],
    lane: Annotated[
        int | None,
        typer.Option("--lane", help="List what this lane holds; up to 127 for wgmma.", show_default=False),
    ] = None,
    element: Annotated[
        str | None,
        typer.Option("--element", help="Say who holds an element: MATRIX,ROW,COLUMN.", show_default=False),
    ] = None,
) -> None:
    """Who holds what: the elements of A, B and D in the registers of each lane, by formula, list or picture.

    \b
    Examples:
      tilewright model fragments mma.m16n8k16 --lane 5
      tilewright model fragments mma.m16n8k16 --element A,9,3
      tilewright model fragments ldmatrix.x4.trans --lane 0 --json
      tilewright model fragments wgmma.m64n32k16.bf16 --lane 5 --plot wgmma-fragments.svg
    """
    from tilewright.model.fragments.instructions import fragments_of

    found = fragments_of(instruction)
    record = found.as_dict(lane)
    owners = []
    if element is not None:
        matrix, row, column = _element(element)
        owners = found.of(matrix).owners(row, column)
        record["owners"] = [owner._asdict() for owner in owners]

    def show() -> None:
        console().print(found.name, style="italic", markup=False)
        columns([("matrix", "extents", "registers", "elements in each", "row", "column"), *(
            (each.matrix, f"{each.rows} x {each.columns}", str(each.registers), str(each.per_register), each.row,
             each.column)
            for each in found.fragments
        )], indent=2, gap=3, headings=1)  # fmt: skip
        used = {letter for each in found.fragments for letter in each.row + each.column}
        console().print("  " + ", ".join(text for letter, text in LETTERS.items() if letter in used), markup=False)
        for note in found.notes:
            console().print(f"  {note}", markup=False)
        if lane is not None:
            _show_lane(found.fragments, lane)
        for owner in owners:
            console().print(
                f"{element}: lane {owner.lane}, register {owner.register}, element {owner.element}", markup=False
            )

    def draw() -> "Figure":
        from tilewright.plots.fragments import held_by_lanes

        return held_by_lanes(found, lane)

    output.show(record, show, draw)


def _show_lane(fragments: "tuple[Fragment, ...]", lane: int) -> None:
    """What a lane holds: a row a register, a column a matrix."""
    held = [[in_brackets(register) for register in each.held(lane)] for each in fragments]
    rows = max(map(len, held))
    filled = [registers + [""] * (rows - len(registers)) for registers in held]
    heading = (f"lane {lane}", *(each.matrix for each in fragments))
    columns([heading, *(
        (f"register {number}", *cells) for number, cells in enumerate(zip(*filled, strict=True))
    )], indent=2, gap=3, headings=1)  # fmt: skip


def in_brackets(places: list[tuple[int, int]]) -> str:
    """Elements as indices of C: [1][2..3] for neighbors in a row, [2..3][1] for those in a column."""
    (row, column), (last_row, last_column) = places[0], places[-1]
    if len(places) == 1:
        return f"[{row}][{column}]"
    steps = {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)}
    if steps == {(0, 1)}:
        return f"[{row}][{column}..{last_column}]"
    assert steps == {(1, 0)}, places
    return f"[{row}..{last_row}][{column}]"


def _element(text: str) -> tuple[str, int, int]:
    matrix, *numbers = text.split(",")
    if len(numbers) != 2 or not all(number.strip().isdecimal() for number in numbers):
        raise ArgumentValueError(f"--element={text!r} is not MATRIX,ROW,COLUMN: write it like A,9,3")
    return matrix.strip(), int(numbers[0]), int(numbers[1])
