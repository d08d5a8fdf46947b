"""The topics `coalescing`, `banks` and `swizzle`: what a warp's addresses cost in GMEM and in SMEM."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import PictureOptions, Record, recorded, whole_numbers
from tilewright.cli.output import columns, console, table
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.model.memory.swizzle import Swizzle

Width = Annotated[int, typer.Option("--width", help="Bytes that each lane accesses: 1, 2, 4, 8 or 16.")]


@dataclass(frozen=True, slots=True)
class WarpOptions:
    """The addresses of a warp: an expression, or a list."""

    expression: Annotated[
        str | None,
        typer.Argument(help="The address of each lane in bytes, as an expression of `lane`.", show_default=False),
    ] = None
    listed: Annotated[
        str | None,
        typer.Option(
            "--addresses", help="The addresses instead, one for each lane, such as 0,4,-,128; - is none.",
            show_default=False,
        ),
    ] = None  # fmt: skip
    lanes: Annotated[
        int | None,
        typer.Option("--lanes", help="Only so many lanes access, the first ones.", show_default="all 32"),
    ] = None

    def addresses(self) -> "tuple[list[int | None], str]":
        """The addresses, and how they were given; an ArgumentValueError says if they were not, or are none."""
        from tilewright.model.memory.pattern import addresses_of

        if (self.expression is None) == (self.listed is None):
            given = "neither is given" if self.listed is None else "both are given"
            raise ArgumentValueError(f"EXPRESSION and --addresses are two ways to ask, and {given}: give one of them")
        if self.expression is not None:
            found = addresses_of(self.expression, 32 if self.lanes is None else self.lanes).tolist()
            return [None if each < 0 else each for each in found], self.expression
        parts = [part.strip() for part in str(self.listed).split(",")]
        if not all(part == "-" or (part.isdecimal() and len(part) < 16) for part in parts):
            raise ArgumentValueError(f"--addresses={self.listed!r} is no list: write numbers and -, such as 0,4,-,128")
        if self.lanes is not None:
            raise ArgumentValueError(f"--lanes={self.lanes} is for an expression: leave it out, the list has its lanes")
        return [None if part == "-" else int(part) for part in parts], ",".join(parts)


class AccessName(StrEnum):
    """What a warp does; ldmatrix and stmatrix access 16 bytes a lane."""

    ld = "ld"
    st = "st"
    ldmatrix = "ldmatrix"
    stmatrix = "stmatrix"


@command
def coalescing(output: PictureOptions, options: WarpOptions, width: Width = 4) -> None:
    """The sectors and lines of GMEM that one access of a warp touches.

    The addresses are an expression, or a list of --addresses. An expression has whole numbers, `lane`,
    + - * // % & | ^ << >>, comparisons, and `X if CONDITION else None`, where None means that a lane does not access.

    \b
    Examples:
      tilewright model coalescing "lane*4"
      tilewright model coalescing "lane*8192" --plot columns.svg
      tilewright model coalescing "lane%4*16+lane//4*4096" --width 16 --json
      tilewright model coalescing --addresses 0,4,8,128,-,60
    """
    from tilewright.model.memory.banks import warp_addresses
    from tilewright.model.memory.coalescing import coalescing as coalescing_of

    places, addresses = options.addresses()
    found = coalescing_of(places, width)
    title = f"{found.lanes} lanes access {width} bytes each at {addresses}"

    def show() -> None:
        table(title, {
            "sectors of 32 bytes": len(found.sectors), "sectors of as many bytes in a row": found.ideal_sectors,
            "lines of 128 bytes": len(found.lines), "bytes that lanes want": found.useful_bytes,
            "bytes that move": found.moved_bytes, "of them wanted": f"{found.efficiency:.1%}",
        })  # fmt: skip

    def draw() -> "Figure":
        from tilewright.plots.memory import sectors_of_lines

        return sectors_of_lines(warp_addresses(places, width), width, found, title)

    output.show({"addresses": addresses, "width": width, **found.as_dict()}, show, draw)


@command
def banks(
    output: PictureOptions,
    options: WarpOptions,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", help="Bytes that each lane accesses: 1, 2, 4, 8 or 16.", show_default="4, or 16 for matrices"
        ),
    ] = None,
    access: Annotated[AccessName, typer.Option("--access", help="What the warp does.")] = AccessName.ld,
    record: Record = None,
) -> None:
    """The passes over SMEM's banks that one access of a warp takes: phases, conflicts and multicast.

    The addresses are those of `coalescing`; an expression may call swizzle128(X), swizzle64(X) and swizzle32(X). With
    --record of `bench micro banks`, it shows the clocks of that record beside their passes instead.

    \b
    Examples:
      tilewright model banks "lane*128"
      tilewright model banks "lane*132"
      tilewright model banks --addresses 4,4,8,8,8 --json
      tilewright model banks "lane%8*128+lane//8*16" --access ldmatrix --plot conflict.svg
      tilewright model banks "swizzle128(lane%8*128+lane//8*16)" --access ldmatrix
    """
    from tilewright.model.memory.banks import bank_use

    if record is not None:
        if options != WarpOptions() or width is not None or access != AccessName.ld:
            raise ArgumentValueError(
                f"--record={record} has addresses of its own: leave EXPRESSION, --addresses, --lanes, --width and "
                "--access out"
            )
        _measured_banks(output, record)
        return
    matrices = access in (AccessName.ldmatrix, AccessName.stmatrix)
    nbytes = (16 if matrices else 4) if width is None else width
    if matrices and nbytes != 16:
        raise ArgumentValueError(f"--width={nbytes} does not fit --access {access.value}: leave it out, rows have 16")
    places, addresses = options.addresses()
    use = bank_use(places, nbytes, "ld" if access == AccessName.ld else "st")
    title = f"{access.value} of {nbytes} bytes a lane at {addresses}"

    def show() -> None:
        table(title, {
            "wavefronts (passes over the banks)": use.wavefronts, "without conflicts": use.ideal,
            "bank conflicts": use.conflicts, "times as long as without": f"{use.ways:g}",
            "words that go to several lanes": sum(phase.multicasts for phase in use.phases),
        })  # fmt: skip
        rows = [("phase", "lanes", "words", "passes", "banks that are used most")]
        for number, phase in enumerate(use.phases):
            worst = [bank for bank, words in sorted(phase.words.items()) if len(words) == phase.wavefronts]
            shown = ", ".join(map(str, worst[:6])) + (", ..." if len(worst) > 6 else "")
            count = sum(map(len, phase.words.values()))
            rows.append((str(number), str(len(phase.lanes)), str(count), str(phase.wavefronts), shown))
        columns(rows, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.memory import passes_over_banks

        return passes_over_banks(use, title)

    output.show({"addresses": addresses, "width": nbytes, "access": access.value, **use.as_dict()}, show, draw)


def _measured_banks(output: PictureOptions, record: Path) -> None:
    """What `bench micro banks` has measured, beside the passes."""
    content = recorded(record, "banks", None)
    cases = [case for case in content["cases"] if case["median"] is not None]
    if not cases:
        raise ArgumentValueError(f"--record={record} has no measured read: give one of a GPU")
    title = f"clocks of a warp's read of SMEM on {content['gpu']}, with 16 warps on each SM"

    def show() -> None:
        console().print(title, style="italic", markup=False)
        rows = [("a lane's address", "read", "passes", "median", "least", "most")]
        rows += [
            (case["addresses"], f"{case['access']} of {case['width']} B", f"{case['model']:g}",
             *(f"{case[part]:.2f}" for part in ("median", "least", "most")))
            for case in cases
        ]  # fmt: skip
        columns(rows, indent=2, gap=2, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.memory import clocks_of_reads

        return clocks_of_reads(cases, title)

    output.show({"gpu": content["gpu"], "measured": cases}, show, draw)


@command
def swizzle(
    output: PictureOptions,
    span: Annotated[int, typer.Argument(help="The span of a swizzle of TMA in bytes: 128, 64 or 32.")] = 128,
    offset: Annotated[
        int | None,
        typer.Option("--offset", help="A byte of the tile whose place is computed.", show_default="row 5, chunk 3"),
    ] = None,
    bms: Annotated[
        str | None, typer.Option("--bms", help="B,M,S of another Swizzle<B,M,S>.", show_default=False)
    ] = None,
) -> None:
    """A swizzle bit by bit, where it puts a tile's chunks, and what that does to bank conflicts.

    The table at the end compares layouts of a tile that a warp writes along rows and reads down columns. It does not
    depend on the address, and is left out where --offset gives one.

    \b
    Examples:
      tilewright model swizzle
      tilewright model swizzle 64 --offset 200
      tilewright model swizzle --bms 2,4,3 --json
      tilewright model swizzle 128 --plot swizzle.svg
    """
    from tilewright.model.memory.layouts import linear, padded, swizzled, transposition, usual_layouts, volta
    from tilewright.model.memory.swizzle import (
        CHUNK_BYTES,
        PATTERN_BYTES,
        SWIZZLES,
        Swizzle,
        chunks_of_column,
        swizzle_of,
    )
    from tilewright.rounding import ceil_div

    chosen = swizzle_of(span) if bms is None else Swizzle(*whole_numbers(bms, "--bms", "B,M,S", least=0))
    if chosen.period > PATTERN_BYTES:
        raise ArgumentValueError(
            f"--bms={bms} repeats after {chosen.period:,} bytes, and the pattern has 16 bits: give B+M+S up to 16"
        )
    steps = chosen.steps(5 * chosen.span + 3 * CHUNK_BYTES % chosen.span if offset is None else offset)
    layouts = [transposition(layout) for layout in usual_layouts()]
    record = {
        **chosen.as_dict(),
        "steps": {name: getattr(steps, name) for name in ("offset", "masked", "shifted", "result")},
        "chunks_of_column_0": chunks_of_column(chosen) if chosen in SWIZZLES.values() else None,
        "layouts": [each.as_dict() for each in layouts],
    }

    def show() -> None:
        about = f"{chosen}: of {1 << chosen.base}-byte chunks within {chosen.span} bytes"
        console().print(about, style="italic", markup=False)
        shown = {"bit mask": steps.bit_mask, "source mask": steps.source_mask, "offset": steps.offset,
                 "masked": steps.masked, "shifted": steps.shifted, "result": steps.result}  # fmt: skip
        groups = max(2, ceil_div(max(shown.values()).bit_length(), 8))
        rows = [(name, _bits(value, groups), f"{value:,}") for name, value in shown.items()]
        pattern = "x" * 8 + "_"
        columns([*rows, ("pattern", pattern * (groups - 2) + chosen.pattern(), "")], indent=2, gap=2)
        if chosen in SWIZZLES.values():
            console().print(f"column 0 of eight rows lies in chunks {' '.join(map(str, chunks_of_column(chosen)))}")
        if offset is not None:
            return
        console().print()
        heading = ("a tile in SMEM", "bytes", "writes", "reads", "ideal", "times as long")
        columns([heading, *(
            (each.layout.name, f"{each.layout.nbytes:,}", str(each.write.wavefronts), str(each.read.wavefronts),
             str(each.read.ideal), f"{each.ways:g}")
            for each in layouts
        )], indent=2, gap=2, headings=1)  # fmt: skip

    def draw() -> "Figure":
        from tilewright.plots.memory import tiles_in_banks

        return tiles_in_banks(_before_and_after(chosen), f"Tiles of 16-byte chunks before and after {chosen}")

    def _before_and_after(chosen: "Swizzle") -> list[Any]:
        if chosen not in SWIZZLES.values():
            raise ArgumentValueError(f"--plot draws the swizzles of TMA, and {chosen} is none of them: leave --bms out")
        chunks = chosen.span // CHUNK_BYTES
        return [transposition(each) for each in (linear(chunks=chunks), swizzled(chosen.span), padded(16), volta())]

    output.show(record, show, draw)


def _bits(value: int, groups: int) -> str:
    """The low bits in groups of eight."""
    return "_".join(f"{value >> 8 * group & 0xFF:08b}" for group in reversed(range(groups)))
