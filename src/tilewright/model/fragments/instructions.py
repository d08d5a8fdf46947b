"""The instructions whose fragments are known, by name: mma.m16n8k16, wgmma.m64n128k16.bf16, ldmatrix.x4.trans...

A name is that of PTX without what does not matter here: an instruction, its shape, the type of A and B, the type of
accumulators, and the layouts of A and B where these change what lanes hold.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tilewright.errors import ArgumentValueError
from tilewright.model.fragments.fragment import Fragment
from tilewright.model.fragments.layouts import (
    accumulators,
    quad_pair,
    quad_pairs_together,
    rows_of_pieces,
    stacked_matrices,
)


class Element(NamedTuple):
    """A type of A and B: its bits in a register, the types of its sums, and the K of its dense and its sparse mma."""

    bits: int
    accumulators: tuple[str, ...]
    depths: tuple[int, ...]
    sparse_depths: tuple[int, ...] = ()

    @property
    def per_register(self) -> int:
        """Elements in a register, of 64 bits for f64 and of 32 for others."""
        return max(1, 32 // self.bits)


_HALF = ("f32", "f16")
ELEMENTS = {
    "f16": Element(16, _HALF, (8, 16), (16, 32)),
    "bf16": Element(16, ("f32",), (8, 16), (16, 32)),
    "tf32": Element(32, ("f32",), (4, 8), (8, 16)),
    "e4m3": Element(8, _HALF, (16, 32), (64,)),
    "e5m2": Element(8, _HALF, (16, 32), (64,)),
    "s8": Element(8, ("s32",), (16, 32), (32, 64)),
    "u8": Element(8, ("s32",), (16, 32), (32, 64)),
    "s4": Element(4, ("s32",), (32, 64), (64, 128)),
    "u4": Element(4, ("s32",), (32, 64), (64, 128)),
    "b1": Element(1, ("s32",), (128, 256)),
    "f64": Element(64, ("f64",), (4, 8, 16)),
    "e3m2": Element(8, _HALF, (32,), (64,)),
    "e2m3": Element(8, _HALF, (32,), (64,)),
    "e2m1": Element(4, _HALF, (32, 64), (64, 128)),
}
"""Types by their names in PTX; of fewer than 8 bits, floats have a byte each but for e2m1 with the larger K."""

_SMALL = ("e3m2", "e2m3", "e2m1")
"""Types that tensor cores multiply since Blackwell."""
_WITH_M8 = ("s8", "u8", "s4", "u4", "b1", "f64")
"""Types with an mma of 8 rows, whose K is the lowest."""

_WMMA_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), ("m16n16k16", "m32n8k16", "m8n32k16")),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
    "b1": ("m8n8k128",),
}
_WGMMA_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1")
_EXAMPLES = (
    "mma.m16n8k16, mma.m16n8k32.s8, mma.m8n8k4.f16.row.col, mma.sp.m16n8k32, wmma.m16n16k16, wmma.volta.m16n16k16, "
    "wgmma.m64n128k16.bf16, wgmma.sp.m64n128k32, ldmatrix.x4, ldmatrix.x2.trans, stmatrix.x4, movmatrix"
)


@dataclass(frozen=True)
class Fragments:
    """What an instruction's operands hold.

    name: in full. fragments: in the order of the operands, of which C and D are one. notes: sentences about what the
    formulas leave out. addressed: lane r gives the address of row r.
    """

    name: str
    fragments: tuple[Fragment, ...]
    notes: tuple[str, ...] = ()
    addressed: bool = False

    def of(self, matrix: str) -> Fragment:
        """The fragment of a matrix by its name, in any case; an ArgumentValueError lists the names."""
        for fragment in self.fragments:
            if matrix.lower() == fragment.matrix.lower() or (matrix.upper() == "C" and fragment.matrix == "D"):
                return fragment
        raise ArgumentValueError(
            f"matrix={matrix!r} is none of {self.name}: use {', '.join(each.matrix for each in self.fragments)}"
        )

    def as_dict(self, lane: int | None = None) -> dict[str, Any]:
        """For JSON; lane: as in Fragment.as_dict."""
        matrices = [fragment.as_dict(lane) for fragment in self.fragments]
        return {"instruction": self.name, "notes": list(self.notes), "fragments": matrices}


def fragments_of(name: str) -> Fragments:
    """The fragments of an instruction.

    What a name leaves out is the first choice of PTX: f16 if the shape allows, accumulated in f32, A by rows and B by
    columns. An ArgumentValueError says which shapes and types there are.
    """
    if not isinstance(name, str):
        raise ArgumentValueError(f"name={name!r} is no text: use one such as {_EXAMPLES}")
    instruction, *words = name.strip().lower().split(".")
    if instruction in ("ldmatrix", "stmatrix"):
        return _matrices(instruction, words, name)
    if instruction == "movmatrix":
        given, got = (
            replace(stacked_matrices(1, transposed=got), matrix=("given", "got")[got]) for got in (False, True)
        )
        return Fragments("movmatrix.trans", (given, got))
    kinds = {"mma": _mma, "wmma": _wmma, "wgmma": _wgmma}
    if instruction == "tcgen05":
        raise ArgumentValueError(
            f"{name!r} is not known here: tcgen05.mma has its operands in SMEM and TMEM, so that lanes hold none, and "
            f"tcgen05.ld and tcgen05.st move them; use one such as {_EXAMPLES}"
        )
    if instruction not in kinds:
        raise ArgumentValueError(f"{name!r} is no instruction with fragments: use one such as {_EXAMPLES}")
    variant = words.pop(0) if words and words[0] in ("sp", "volta") else ""
    shape = words.pop(0) if words and re.fullmatch(r"m\d+n\d+k\d+", words[0]) else None
    if shape is None:
        raise ArgumentValueError(f"{name!r} has no shape after {instruction}: write it as in {_EXAMPLES}")
    layouts = [word for word in words if word in ("row", "col")]
    types = [word for word in words if word not in layouts]
    if len(types) > 2 or len(layouts) not in (0, 2):
        raise ArgumentValueError(
            f"{name!r} has unknown words: write the type of A and B, that of the sums, and both layouts or none"
        )
    m, n, k = map(int, re.findall(r"\d+", shape))
    return kinds[instruction](name, variant, (m, n, k), types, layouts or ["row", "col"])


def _types(name: str, types: list[str], having: list[str], shapes: str) -> tuple[str, str]:
    """The types of A and B, and of the sums: as given, or the first; having: types with this shape."""
    kind = types[0] if types else (having or [""])[0]
    if kind not in having:
        known = f" of {kind}" if kind in ELEMENTS else ""
        raise ArgumentValueError(f"{name!r} does not exist: the shapes{known} are given by {shapes}; use one of these")
    sums = types[1] if len(types) > 1 else ELEMENTS[kind].accumulators[0]
    if sums not in ELEMENTS[kind].accumulators:
        allowed = " or ".join(ELEMENTS[kind].accumulators)
        raise ArgumentValueError(f"{name!r} sums {kind} in {sums}: use {allowed}")
    return kind, sums


def _mma(name: str, variant: str, shape: tuple[int, int, int], types: list[str], layouts: list[str]) -> Fragments:
    m, n, k = shape
    sparse = variant == "sp"
    if (m, n, k) == (8, 8, 4) and types[:1] != ["f64"] and not variant:
        return _quad_pairs(name, types, layouts)
    having = [
        kind
        for kind, element in ELEMENTS.items()
        if n == 8
        and ((m == 16 and k in (element.sparse_depths if sparse else element.depths))
             or (m == 8 and not sparse and kind in _WITH_M8 and k == element.depths[0]))
    ]  # fmt: skip
    depths = "; ".join(
        f"{kind} {', '.join(map(str, each))}"
        for kind, element in ELEMENTS.items()
        if (each := element.sparse_depths if sparse else element.depths)
    )
    shapes = f"m16n8kK with K of {depths}" + ("" if sparse else f"; m8n8kK with the lowest K of {', '.join(_WITH_M8)}")
    kind, sums = _types(name, types, having if variant in ("", "sp") else [], shapes)
    if layouts != ["row", "col"]:
        raise ArgumentValueError(f"{name!r} does not exist: only mma.m8n8k4.f16 has other layouts; leave them out")
    element = ELEMENTS[kind]
    in_bytes = kind == "e2m1" and k == (element.sparse_depths if sparse else element.depths)[0]
    p = 4 if in_bytes else element.per_register
    if kind == "e2m1" and p == 8 and sums == "f16":
        raise ArgumentValueError(f"{name!r} sums pairs of e2m1 in f16: use f32, or half of this K")
    a = rows_of_pieces("A", m, k // 2 if sparse else k, p)
    b, d = rows_of_pieces("B", 8, k, p, transposed=True), accumulators("D", m, 8, packed=sums == "f16")
    notes = ["A has the half of each row that is kept.", _metadata_note(kind, k, p)] if sparse else []
    if kind in _SMALL:
        held = "Each element has a byte of its register" if p == 4 else "Scales have registers of their own"
        notes.append(f"{held}; for sm_120a and later.")
    return Fragments(f"mma{'.sp' * sparse}.m{m}n{n}k{k}.{kind}.{sums}", (a, b, d), tuple(notes))


def _metadata_note(kind: str, k: int, per_register: int) -> str:
    """Which lanes hold the metadata of mma.sp, which say what elements of a row are kept (PTX ISA, "Sparse matrix")."""
    row_bits = 2 * k if kind == "tf32" else k // 2 if per_register == 8 else k
    if per_register <= 2:
        count = row_bits // 16
        which = "selector" if count == 1 else "2 selector and 2 selector + 1"
        lanes = f"those with t = {which} have 16 bits of row g in their lower half and of row g + 8 in the upper one"
    elif row_bits == 32:
        lanes = "the one with t = 2 selector has row g, and the next one row g + 8"
    else:
        lanes = "those with even t have row g, and those with odd t row g + 8, 32 bits each"
    return f"Metadata: {row_bits} bits for each row of A. Of four lanes, {lanes}."


def _quad_pairs(name: str, types: list[str], layouts: list[str]) -> Fragments:
    _, sums = _types(name, types, ["f16"], "m8n8k4 of f16 and f64")
    fragments = (quad_pair("A", layouts[0]), quad_pair("B", layouts[1]), quad_pair("D", packed=sums == "f16"))
    note = "Lanes 4 q to 4 q + 3 and 16 + 4 q to 16 + 4 q + 3 are quad pair q, and each quad pair has its own matrices."
    return Fragments(f"mma.m8n8k4.f16.{sums}.{'.'.join(layouts)}", fragments, (note,))


def _wmma(name: str, variant: str, shape: tuple[int, int, int], types: list[str], layouts: list[str]) -> Fragments:
    m, n, k = shape
    having = [kind for kind, shapes in _WMMA_SHAPES.items() if f"m{m}n{n}k{k}" in shapes]
    volta = variant == "volta"
    if volta:
        having = ["f16"] if shape == (16, 16, 16) else []
    table = "; ".join(f"{kind} {', '.join(shapes)}" for kind, shapes in _WMMA_SHAPES.items())
    kind, sums = _types(name, types, having if variant in ("", "volta") else [], "m16n16k16" if volta else table)
    if layouts != ["row", "col"]:
        raise ArgumentValueError(f"{name!r}: PTX does not say what lanes hold of other layouts; leave them out")
    full = f"wmma{'.volta' * volta}.m{m}n{n}k{k}.{kind}.{sums}"
    if volta:
        fragments = tuple(quad_pairs_together(matrix, packed=sums == "f16") for matrix in ("A", "B", "D"))
        return Fragments(full, fragments, ("Lanes of two quad pairs hold each element of A and of B.",))
    p = ELEMENTS[kind].per_register
    a, b = rows_of_pieces("A", m, k, p), rows_of_pieces("B", n, k, p, transposed=True)
    note = (
        "PTX does not say what a lane of wmma holds: these are the elements that ptxas lets it access from sm_80 on, "
        "and a program must not rely on them."
    )
    return Fragments(full, (a, b, accumulators("D", m, n, packed=sums == "f16")), (note,))


def _wgmma(name: str, variant: str, shape: tuple[int, int, int], types: list[str], layouts: list[str]) -> Fragments:
    m, n, k = shape
    kept = k // 2 if variant == "sp" else k
    having = [kind for kind in _WGMMA_TYPES if kept * ELEMENTS[kind].bits == 256 and not (variant and kind == "b1")]
    table = "m64nNkK with N = 8, 16 ... 256 and K of 32 bytes: 8 of tf32, 16 of 16 bits, 32 of 8 bits, 256 of b1"
    table += "; of wgmma.sp twice these, but for b1"
    fits = m == 64 and 8 <= n <= 256 and n % 8 == 0 and variant in ("", "sp")
    kind, sums = _types(name, types, having if fits else [], table)
    a = rows_of_pieces("A", 16, kept, ELEMENTS[kind].per_register, warps=4)
    notes = ["B is read from SMEM by a descriptor, and so may A; these are the registers of A otherwise."]
    if variant:
        notes.append(
            "A has the half of each row that is kept. Metadata say which: the selector names those of four lanes that "
            "hold it for both of their rows."
        )
    fragments = (a, accumulators("D", 16, n, packed=sums == "f16", warps=4))
    return Fragments(f"wgmma{'.sp' * bool(variant)}.m64n{n}k{k}.{kind}.{sums}", fragments, tuple(notes))


def _matrices(instruction: str, words: list[str], name: str) -> Fragments:
    rest = [word for word in words if word not in ("trans", "m8n8", "b16")]
    counts = {"x1": 1, "x2": 2, "x4": 4}
    if {"m16n16", "m8n16", "m16n8"} & set(rest):
        raise ArgumentValueError(
            f"{name!r} moves matrices of 8 bits or fewer, which Blackwell brought and which are not known here: write "
            f"{instruction}.x1, .x2 or .x4, and .trans or not, for those of 8 x 8 elements of 16 bits"
        )
    if len(rest) != 1 or rest[0] not in counts:
        raise ArgumentValueError(f"{name!r} does not exist: write {instruction}.x1, .x2 or .x4, and .trans or not")
    count, transposed = counts[rest[0]], "trans" in words
    note = "Lane r gives the address of row r, 16 bytes in SMEM; register i belongs to rows 8 i to 8 i + 7."
    full = f"{instruction}.x{count}" + ".trans" * transposed
    return Fragments(full, (stacked_matrices(count, transposed=transposed),), (note,), addressed=True)
