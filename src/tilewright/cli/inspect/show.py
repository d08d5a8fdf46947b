"""An inspection for people: a summary, or PTX and machine code by lines of the source."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import typer

from tilewright.cli import output
from tilewright.cli.output import console, paragraph, table

if TYPE_CHECKING:
    from tilewright.explaining.inspection import Inspection
    from tilewright.jit.loops import Loop

MIX_LINES = 15
"""The number of opcodes shown to people besides the characteristic ones; --json has all."""
MOST_LOOPS = 12
"""The number of loops shown to people, the longest first in doubt."""
WIDTH, LEFT, LEAST = 100, 54, 30
"""The columns of the listing by lines, and those of its PTX, which the longest opcodes need."""
MOST_PARTS = 2
"""The lines that an instruction may take there; the rest of its operands is left out."""

_UNBROKEN = "\N{NO-BREAK SPACE}"


def show(found: "Inspection", about: Mapping[str, Any]) -> None:
    """Print resources, loads and stores, loops, remarks and instructions."""
    from tilewright.jit.listing import characteristic

    if "config" in about:
        config = ", ".join(f"{name}={value}" for name, value in about["config"].items())
        console().print(f"{about['kernel']} for {about['product']}", markup=False)
        console().print(f"Config: {config}", markup=False)
    else:
        console().print(f"{about['kernel']} of {about['file']}", markup=False)
    compiled = found.compiled
    launch = {"CTAs": about["grid"], "CTAs per cluster": about["cluster"]} if "grid" in about else {}
    spare = about.get("spare_smem_bytes")
    table(
        f"\nResources on {compiled.arch} (NVRTC {compiled.nvrtc_version})",
        {
            "registers per thread": compiled.registers,
            "spilled bytes": compiled.spill_bytes,
            "stack bytes": compiled.stack_bytes,
            "SMEM bytes per CTA": found.smem_bytes + compiled.static_smem_bytes,
            **({"of these, spared for an even share of CTAs": spare} if spare else {}),
            "threads per CTA": "unknown: give --block" if found.threads is None else found.threads,
            **_occupancy(found),
            **launch,
            "cubin bytes": len(compiled.cubin),
            "compile seconds": f"{compiled.compile_seconds:.2f}",
        },
    )
    if found.entries > 1:
        paragraph(f"Registers, spills and stack are the most of any of the {found.entries} kernels of the file.", 0)
    for warning in compiled.warnings:
        console().print(warning, style="yellow", markup=False)
    for kind, accesses in found.accesses.items():
        rows = {name: ", ".join(f"{count} of {size} B" for size, count in of.items()) for name, of in accesses.items()}
        if rows:
            table(f"\nLoads and stores in the {kind.upper()}, bytes for a thread", dict(rows))
    for kind, loops in found.loops.items():
        _show_loops(kind, loops)
    _show_remarks(found, about)
    mix = found.mixes["ptx"]
    special = characteristic(mix)
    table("\nPTX instructions that multiply, copy and synchronize", dict(special))
    others = [(opcode, count) for opcode, count in mix.items() if opcode not in special][:MIX_LINES]
    table(f"\nOf the others, the {len(others)} most frequent", dict(others))


def show_lines(found: "Inspection") -> None:
    """Print each line of the source, with its PTX on the left and its machine code on the right."""
    for line in found.lines:
        console().print(f"{line.place}  {line.text}"[:WIDTH], style="bold", markup=False)
        left, right = _wrapped(line.ptx, LEFT), _wrapped(line.sass, WIDTH - LEFT - 4)
        for one, other in zip_longest(left, right, fillvalue=""):
            typer.echo(f"  {one:<{LEFT}}  {other}".rstrip())
    if found.sass is None:
        _say_how_to_disassemble()


def _wrapped(instructions: Sequence[str], width: int) -> list[str]:
    return [
        part
        for text in instructions
        for part in textwrap.wrap(text, width, subsequent_indent="    ", max_lines=MOST_PARTS, placeholder=" ...")
    ]


def _occupancy(found: "Inspection") -> dict[str, str]:
    """CTAs and warps per SM, and what allows no more; nothing where that is unknown."""
    held = found.occupancy
    if held is None:
        return {}
    return {
        "CTAs per SM": f"{held.ctas}, limited by {' and '.join(held.limits)}",
        "warps per SM": f"{held.warps} of {held.most_warps} ({held.share:.1%})",
    }


def _show_loops(kind: str, loops: "Sequence[Loop]") -> None:
    """The loops as a table, indented by depth; those that only wait are counted."""
    shown = [loop for loop in loops if not loop.waits]
    longest = sorted(shown, key=lambda loop: len(loop.instructions), reverse=True)[:MOST_LOOPS]
    kept = [loop for loop in shown if any(loop is each for each in longest)]
    if not loops:
        return
    typer.echo()
    paragraph(f"Loops in the {kind.upper()}: turns of the source's loop in one, and what a turn does", 0)
    rows = [
        (
            f"{'  ' * (loop.depth - 1)}{loop.place or f'line {loop.lines[0]}'}",
            str(loop.copies),
            f"{len(loop.instructions):,}",
            "  " + ", ".join(f"{count}{_UNBROKEN}{name}" for name, count in loop.counts.items()),
        )
        for loop in kept
    ]
    head = ("loop", "turns", "instructions", "  of which")
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(3)]
    for place, turns, count, does in (head, *rows):
        start = f"  {place:<{widths[0]}}  {turns:>{widths[1]}}  {count:>{widths[2]}}"
        room = min(WIDTH, output.terminal_width())
        if room - len(start) < LEAST:
            typer.echo(start)
            start = " " * 6
        folded = textwrap.wrap(does.strip(), max(room - len(start) - 2, LEAST)) or [""]
        for number, part in enumerate(folded):
            typer.echo(f"{start if not number else ' ' * len(start)}  {part}".rstrip().replace(_UNBROKEN, " "))
    if left := len(shown) - len(kept):
        paragraph(f"and {left} shorter ones (--json has all)", 2)
    if waiting := len(loops) - len(shown):
        paragraph(f"and {waiting} in which a warp waits for a barrier", 2)


def _show_remarks(found: "Inspection", about: Mapping[str, Any]) -> None:
    console().print("\nRemarks", style="italic")
    for remark in found.remarks:
        console().print(f"  {remark.place}: {remark.kind}", style="yellow", markup=False)
        paragraph(f"{remark.evidence}.", 4)
        paragraph(f"{remark.remedy[0].upper()}{remark.remedy[1:]}.", 4)
    if not found.remarks:
        paragraph("None: loops, widths, registers and types are what the source means.", 2)
    name = about.get("file", about["kernel"])
    paragraph(f"Bank conflicts and sectors depend on addresses, which `tilewright check {name} --lines` counts.", 2)
    if found.sass is None:
        _say_how_to_disassemble()


def _say_how_to_disassemble() -> None:
    from tilewright.jit.listing import INSTALL_NVDISASM

    paragraph(f"Without nvdisasm there is no machine code here: {INSTALL_NVDISASM}", 2)
