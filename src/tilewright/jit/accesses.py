"""How many bytes the loads and stores of a listing move for a thread."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from tilewright.jit.instructions import Instruction

Space = Literal["GMEM", "SMEM", "local memory", "GMEM to SMEM"]

_SPACES: dict[str, Space] = {"global": "GMEM", "shared": "SMEM", "local": "local memory"}
_SASS: dict[str, tuple[bool, Space]] = {
    "LDG": (False, "GMEM"), "STG": (True, "GMEM"), "LDS": (False, "SMEM"), "STS": (True, "SMEM"),
    "LDL": (False, "local memory"), "STL": (True, "local memory"), "LDSM": (False, "SMEM"), "STSM": (True, "SMEM"),
    "LDGSTS": (False, "GMEM to SMEM"),
}  # fmt: skip
_TYPE = re.compile(r"[busf](8|16|32|64|128)")
_SASS_BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
_MATRIX_BYTES = 4
"""What ldmatrix and stmatrix move for a thread of one matrix of 8x8 elements of two bytes."""


class Access(NamedTuple):
    """A load or store: of which memory, and how many bytes for one thread."""

    space: Space
    stores: bool
    nbytes: int

    @property
    def kind(self) -> str:
        """In words: loads from GMEM, stores to SMEM."""
        if self.space == "GMEM to SMEM":
            return f"copies from {self.space}"
        return f"{'stores to' if self.stores else 'loads from'} {self.space}"


def access_of(instruction: Instruction) -> Access | None:
    """The access of an instruction of PTX or SASS; None for others, and for those of parameters or unnamed memory."""
    name, *modifiers = instruction.opcode.split(".")
    if name in _SASS:
        stores, space = _SASS[name]
        if name in ("LDSM", "STSM"):
            return Access(space, stores, _MATRIX_BYTES * (int(modifiers[-1]) if modifiers[-1] in ("2", "4") else 1))
        return Access(space, stores, next((_SASS_BYTES[each] for each in modifiers if each in _SASS_BYTES), 4))
    if name in ("ldmatrix", "stmatrix"):
        count = next((int(each[1:]) for each in modifiers if each in ("x1", "x2", "x4")), 1)
        return Access("SMEM", name == "stmatrix", _MATRIX_BYTES * count)
    if name == "cp" and modifiers[:2] in (["async", "ca"], ["async", "cg"]):
        sizes = re.findall(r",\s*(\d+)", instruction.operands)
        return Access("GMEM to SMEM", False, int(sizes[0])) if sizes else None
    space_of = next(
        (_SPACES[each.partition("::")[0]] for each in modifiers if each.partition("::")[0] in _SPACES), None
    )
    width = next((int(found[1]) for each in reversed(modifiers) if (found := _TYPE.fullmatch(each))), None)
    if name not in ("ld", "st") or space_of is None or width is None:
        return None
    vector = next((int(each[1:]) for each in modifiers if each in ("v2", "v4", "v8")), 1)
    return Access(space_of, name == "st", vector * width // 8)


def widths(instructions: Iterable[Instruction]) -> dict[str, dict[int, int]]:
    """How many accesses there are, by their kind in words and then by bytes, the widest first."""
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for each in instructions:
        if access := access_of(each):
            found[access.kind][access.nbytes] += 1
    return {
        kind: {nbytes: found[kind][nbytes] for nbytes in sorted(found[kind], reverse=True)} for kind in sorted(found)
    }
