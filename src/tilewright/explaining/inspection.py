"""A compiled kernel: its resources, loops, accesses and occupancy, and where it is not what its source means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from tilewright.explaining.remarks import Remark, remarks_of
from tilewright.explaining.unrolling import Unrolled, unrolled
from tilewright.hardware import LIMITS, standing_for
from tilewright.jit.accesses import widths
from tilewright.jit.compile import SOURCE_ROOT, CompiledKernel
from tilewright.jit.headers import OWN, toolkit_folders
from tilewright.jit.instructions import Listing, Place, ptx_instructions, sass_instructions
from tilewright.jit.listing import DisassemblerMissing, instruction_mix, resources, sass_listing
from tilewright.jit.loops import Loop, loops_of
from tilewright.jit.source import TranslationUnit
from tilewright.model.occupancy import Occupancy, occupancy


@dataclass(frozen=True, slots=True)
class LineCode:
    """The instructions that come from one line of the source. text: of the line, if the source is known."""

    place: Place
    text: str
    ptx: tuple[str, ...]
    sass: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"place": str(self.place), "source": self.text, "ptx": list(self.ptx), "sass": list(self.sass)}


@dataclass(frozen=True)
class Inspection:
    """A compiled kernel, looked at without running it.

    sources: the texts of the source's files, by their names in the line information.
    threads: of a CTA; None if they are unknown, and then the occupancy is.
    smem_bytes: dynamic SMEM of a CTA.
    sass_text: what nvdisasm prints of it; empty without nvdisasm.
    """

    compiled: CompiledKernel
    sources: Mapping[str, str]
    threads: int | None = None
    smem_bytes: int = 0
    sass_text: str = ""

    @classmethod
    def of(
        cls, compiled: CompiledKernel, sources: Mapping[str, str], threads: int | None = None, smem_bytes: int = 0
    ) -> "Inspection":
        """The inspection of a kernel, with SASS if there is an nvdisasm that reads it."""
        try:
            text = sass_listing(compiled, inlined=True)
        except DisassemblerMissing:
            text = ""
        return cls(compiled, sources, threads, smem_bytes, text)

    @cached_property
    def ptx(self) -> Listing:
        """The PTX."""
        return ptx_instructions(self.compiled.ptx, self.compiled.name)

    @cached_property
    def sass(self) -> Listing | None:
        """The SASS; None without nvdisasm."""
        return sass_instructions(self.sass_text, self.compiled.name) if self.sass_text else None

    @cached_property
    def loops(self) -> dict[str, list[Loop]]:
        """The loops of the PTX, and of the SASS if it is there."""
        return {listing.kind: loops_of(listing) for listing in self._listings}

    @cached_property
    def accesses(self) -> dict[str, dict[str, dict[int, int]]]:
        """By listing, how many loads and stores there are, by their kind and then by bytes for a thread."""
        return {listing.kind: widths(listing.instructions) for listing in self._listings}

    @cached_property
    def mixes(self) -> dict[str, dict[str, int]]:
        """By listing, how often each opcode occurs, in all kernels of the file."""
        sass = {"sass": instruction_mix(self.sass_text, "sass")} if self.sass_text else {}
        return {"ptx": instruction_mix(self.compiled.ptx, "ptx"), **sass}

    @property
    def entries(self) -> int:
        """The number of kernels in the PTX."""
        return len(re.findall(r"\.entry\b", self.compiled.ptx))

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """CTAs per SM, and what limits them; None for unknown threads, and on a GPU whose limits are unknown."""
        gpu = standing_for(self.compiled.arch)
        if self.threads is None or gpu.capability not in LIMITS:
            return None
        smem_bytes = self.smem_bytes + self.compiled.static_smem_bytes
        return occupancy(gpu, self.threads, self.compiled.registers, smem_bytes)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """Where the code is not what the source means."""
        return remarks_of(self.compiled, self.unrolled, self.ptx, self.loops["ptx"], self.sass)

    @cached_property
    def unrolled(self) -> list[Unrolled]:
        """What became of the loops that have a pragma."""
        return unrolled(self.sources, self.ptx, self.loops["ptx"])

    @cached_property
    def lines(self) -> list[LineCode]:
        """The instructions by lines of the source, in the order of the PTX."""
        found: dict[Place, tuple[list[str], list[str]]] = {}
        for listing in self._listings:
            for each in listing.instructions:
                if each.place:
                    found.setdefault(each.place, ([], []))[listing.kind == "sass"].append(each.text)
        return [LineCode(place, self._line(place), tuple(ptx), tuple(sass)) for place, (ptx, sass) in found.items()]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the listings."""
        return {
            **resources(self.compiled),
            "threads": self.threads,
            "smem_bytes": self.smem_bytes,
            "occupancy": self.occupancy and self.occupancy.as_dict(),
            "loops": {kind: [loop.as_dict() for loop in loops] for kind, loops in self.loops.items()},
            "unrolled": [each.as_dict() for each in self.unrolled],
            "accesses": self.accesses,
            "remarks": [remark.as_dict() for remark in self.remarks],
            "instruction_mix": self.mixes,
        }

    @property
    def _listings(self) -> list[Listing]:
        return [self.ptx, *([self.sass] if self.sass else [])]

    def _line(self, place: Place) -> str:
        lines = self.sources.get(place.file, "").splitlines()
        return lines[place.line - 1].strip() if place.line <= len(lines) else ""


def sources_of(unit: TranslationUnit) -> dict[str, str]:
    """The texts of a translation unit of ours and of its headers, by their names in the line information."""
    return {f"{SOURCE_ROOT}{unit.name}.cu": unit.text} | {
        SOURCE_ROOT + name: text for name, text in unit.header_texts().items()
    }


def sources_on_disk(compiled: CompiledKernel) -> dict[str, str]:
    """The texts of those files of the line information that are there and not a toolkit's."""
    found = {}
    for path in re.findall(r'^\s*\.file\s+\d+\s+"([^"]*)"', compiled.ptx, re.MULTILINE):
        own = not any(path.startswith(folder) for folder in (OWN, *toolkit_folders()))
        if own and Path(path).is_file():
            found[path] = Path(path).read_text(encoding="utf-8", errors="replace")
    return found


def threads_of(compiled: CompiledKernel) -> int | None:
    """The threads of a CTA that __launch_bounds__ allows or __block_size__ demands; None without either."""
    declared = compiled.ptx[compiled.ptx.index(f".entry {compiled.name}") :].partition("{")[0]
    bounds = re.search(r"\.(?:req|max)ntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", declared)
    return prod(int(each) for each in bounds.groups() if each) if bounds else None
