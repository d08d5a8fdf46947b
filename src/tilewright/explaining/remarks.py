"""Remarks on a compiled kernel: where its code is not what its source means, with the evidence and a remedy."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.explaining.unrolling import Unrolled
from tilewright.jit.accesses import access_of
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.instructions import Instruction, Listing, Place
from tilewright.jit.loops import Loop

WIDEST = 16
"""The bytes that one instruction can load or store for a thread."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark.

    kind: "unrolling", "narrow", "spill", "local", "serialized", "fp64" or "division".
    place: FILE:LINE, or the name of the kernel if the line is unknown. evidence: what stands in the code.
    """

    kind: str
    place: str
    evidence: str
    remedy: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def remarks_of(
    compiled: CompiledKernel, pragmas: Sequence[Unrolled], ptx: Listing, loops: Sequence[Loop], sass: Listing | None
) -> tuple[Remark, ...]:
    """All remarks on a kernel. pragmas: loops that have one. loops: those of the PTX. sass: None without nvdisasm."""
    found = [
        *_serialized(compiled, ptx),
        *_spills(compiled, ptx, sass),
        *_local(compiled, ptx),
        *_not_unrolled(pragmas),
        *_narrow(ptx, sass),
        *_fp64(ptx),
        *_divisions(loops),
    ]
    return tuple(dict.fromkeys(found))


def _serialized(compiled: CompiledKernel, ptx: Listing) -> Iterator[Remark]:
    """What ptxas says of wgmma, C7510 to C7518, at the line of the PTX that it names."""
    said = [warning.partition("info")[2].lstrip(" :") or warning for warning in compiled.warnings if "wgmma" in warning]
    if not said:
        return
    named = next((int(line[1]) for each in said if (line := re.search(r"in line (\d+)", each))), 0)
    multiplies = [each for each in ptx.instructions if each.short == "wgmma.mma_async"]
    at = next((each for each in ptx.instructions if each.line >= named > 0), multiplies[0] if multiplies else None)
    yield Remark(
        "serialized",
        _where(at, compiled),
        "ptxas says: " + "; ".join(said),
        "each wgmma waits for the one before: touch no register of an accumulator between the first wgmma and its "
        "wait, keep accumulators in registers of the same function, and wait in the same branch",
    )


def _spills(compiled: CompiledKernel, ptx: Listing, sass: Listing | None) -> Iterator[Remark]:
    if not compiled.spill_bytes:
        return
    moved = [each for each in (sass or ptx).instructions if each.name in ("STL", "LDL")]
    yield Remark(
        "spill",
        _where(moved[0] if moved else ptx.instructions[0], compiled),
        f"ptxas spills {compiled.spill_bytes} bytes of a thread's registers, with {compiled.registers} in use"
        + (f": {len(moved)} STL and LDL" if moved else ""),
        "keep less at once: a smaller tile for each thread, fewer loads ahead, more threads to a tile, or a lower "
        "number of CTAs per SM in __launch_bounds__",
    )


def _local(compiled: CompiledKernel, ptx: Listing) -> Iterator[Remark]:
    accesses = [each for each in ptx.instructions if (access := access_of(each)) and access.space == "local memory"]
    if accesses and compiled.stack_bytes:
        yield Remark(
            "local",
            _where(accesses[0], compiled),
            f"an array of {compiled.stack_bytes} bytes lies in local memory, which is GMEM: {len(accesses)} ld.local "
            "and st.local in the PTX",
            "registers have no index: unroll the loops that index the array, so that each index is a constant, or keep "
            "the array in SMEM",
        )


def _not_unrolled(loops: Sequence[Unrolled]) -> Iterator[Remark]:
    for loop in loops:
        if loop.copies is not None and loop.copies < loop.wanted:
            yield Remark(
                "unrolling",
                str(loop.place),
                f"the loop has {loop.pragma}, and a turn in the PTX is {loop.copies} of its turns",
                "give the loop a number of turns that the compiler knows, a constant or a template parameter, and "
                "no break or return inside; or leave the pragma out",
            )


_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]")


def _narrow(ptx: Listing, sass: Listing | None) -> Iterator[Remark]:
    """Accesses of neighboring addresses by one thread, which one instruction of 16 bytes could make."""
    heads = set(ptx.labels.values())
    open_runs: defaultdict[tuple[str, str], dict[int, Instruction]] = defaultdict(dict)
    found: dict[Place | None, Remark] = {}
    wide = {each.ptx_line for each in sass.instructions if _is_wide(each)} if sass else set()

    def close(key: tuple[str, str]) -> None:
        for run in _runs(open_runs.pop(key)):
            access, first = access_of(run[0]), run[0]
            assert access is not None
            if not any(each.line in wide for each in run):
                found.setdefault(
                    first.place,
                    Remark(
                        "narrow",
                        str(first.place or first.line),
                        f"{len(run)} {access.kind} of {access.nbytes} bytes lie side by side: {first.opcode} "
                        f"{first.operands} and those behind it",
                        f"one access of {WIDEST} bytes moves {WIDEST // access.nbytes} of them, such as a float4, "
                        f"where the address is a multiple of {WIDEST}",
                    ),
                )

    for number, each in enumerate(ptx.instructions):
        if number in heads or each.target or each.name in ("bar", "barrier"):
            for key in [*open_runs]:
                close(key)
        access, address = access_of(each), _ADDRESS.search(each.operands)
        is_plain = each.name in ("ld", "st") and not each.guard
        if access and address and is_plain and access.space in ("GMEM", "SMEM") and access.nbytes < WIDEST:
            open_runs[each.opcode, address[1]].setdefault(int(address[2] or 0), each)
        written = each.operands.split(",")[0].strip()
        for key in [key for key in open_runs if key[1] == written and each.name != "st"]:
            close(key)
    for key in [*open_runs]:
        close(key)
    yield from found.values()


def _is_wide(instruction: Instruction) -> bool:
    access = access_of(instruction)
    return access is not None and access.nbytes >= WIDEST


def _runs(by_offset: Mapping[int, Instruction]) -> Iterator[list[Instruction]]:
    """The runs of accesses without a gap that are 16 bytes or more."""
    run: list[Instruction] = []
    end: int | None = None
    for offset in [*sorted(by_offset), None]:
        if run and (offset is None or offset != end):
            access = access_of(run[0])
            if access is not None and len(run) * access.nbytes >= WIDEST:
                yield run
            run = []
        if offset is not None and (access := access_of(by_offset[offset])) is not None:
            run.append(by_offset[offset])
            end = offset + access.nbytes


def _fp64(ptx: Listing) -> Iterator[Remark]:
    """Arithmetic in fp64 on numbers that were not: a constant without f, or a function of C for double."""
    into = [each for each in ptx.instructions if re.match(r"cvt(?:\.\w+)*\.f64\.(?:f32|f16|bf16)", each.opcode)]
    places = {each.place for each in into}
    by_place: defaultdict[Place | None, list[Instruction]] = defaultdict(list)
    for each in ptx.instructions:
        if each.name in ("add", "sub", "mul", "div", "fma", "sqrt", "rcp", "setp") and each.opcode.endswith(".f64"):
            by_place[each.place].append(each)
    for place, found in by_place.items():
        if place in places or into:
            yield Remark(
                "fp64",
                str(place or found[0].line),
                f"{', '.join(dict.fromkeys(each.opcode for each in found))} on numbers that were fp32 or smaller",
                "write constants with f (0.5f) and functions for float (expf); most GPUs have 1/64 of the fp32 rate in "
                "fp64, and an H200 a half",
            )


def _divisions(loops: Sequence[Loop]) -> Iterator[Remark]:
    for loop in loops:
        divisions = [
            each for each in loop.own if re.match(r"(?:div|rem)\.(?:[us]\d+|rn)", each.opcode) and not each.guard
        ]
        if loop.innermost and divisions:
            whole = divisions[0].opcode.split(".")[1][0] in "us"
            yield Remark(
                "division",
                str(divisions[0].place or divisions[0].line),
                f"{divisions[0].opcode} in every turn of the innermost loop at {loop.place or loop.lines[0]}",
                "a division of integers takes about 20 instructions: divide by a constant, or count up instead of "
                "dividing"
                if whole
                else "an exact division takes about 10 instructions: multiply by the reciprocal, taken once ahead of "
                "the loop, or use __fdividef",
            )


def _where(instruction: Instruction | None, compiled: CompiledKernel) -> str:
    return str(instruction.place) if instruction and instruction.place else compiled.name
