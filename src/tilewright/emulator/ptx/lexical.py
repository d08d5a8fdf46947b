"""The smallest pieces of PTX text: lists, variable declarations, and where an error is."""

import re
import struct
from bisect import bisect_left
from collections import Counter
from functools import lru_cache
from math import prod

from tilewright.emulator.errors import PtxSyntaxError
from tilewright.emulator.ptx.constants import constant_of
from tilewright.emulator.ptx.syntax import TYPE_BITS, Float, Integer, Variable

_SKIP = re.compile(r"(?:\s+|//[^\n]*|/\*[\s\S]*?\*/)*")
VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s*)*\.(?P<space>global|const|shared|local)\s*"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(?P<align>\d{1,9})\s*)?\.(?P<type>\w+)\s+(?P<name>[\w$]+)\s*"
    r"(?P<shape>(?:\[\s*(?:\d{1,18}\s*)?\]\s*)*)(?:=\s*(?P<data>\{[^}]*\}|[^;]*+))?\s*;"
)
_NUMBERS = r"\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})"
LOC = re.compile(
    rf"\.loc{_NUMBERS}(?:[^\n]*?\bfunction_name\s+(?P<function>[\w$]+))?"
    rf"(?P<inlined>[^\n]*?\binlined_at{_NUMBERS})?[^\n]*",
    re.A,
)
_LOC_OR_END = re.compile(rf"{LOC.pattern}|^\}}", re.A | re.M)
_ASSEMBLY = re.compile(r"//[ \t]*(begin|end) inline asm\b")
_SYMBOL = re.compile(r"[A-Za-z_$%]")
LARGEST_ALIGNMENT = 1 << 16
"""The largest alignment of a variable: far above the needs of memories, and low enough to compute with."""
_LARGEST_VARIABLE = 1 << 48


def skip_blank(text: str, position: int) -> int:
    """The position after white space and comments."""
    match = _SKIP.match(text, position)
    return match.end() if match else position


def split_list(text: str) -> list[str]:
    """Split at the commas that stand outside brackets and braces."""
    if "{" not in text and "[" not in text:
        return [item.strip() for item in text.split(",")] if text.strip() else []
    items, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth == 0:
            items.append(text[start:index].strip())
            start = index + 1
    items.append(text[start:].strip())
    return items


def alignment(text: str | None, width: int, line: int) -> int:
    """The alignment that a declaration asks for, or else its type's."""
    align = int(text) if text else width
    if align < 1 or align & (align - 1) or align > LARGEST_ALIGNMENT:
        raise PtxSyntaxError(f"PTX line {line}: the alignment {align} is not a power of two up to {LARGEST_ALIGNMENT}")
    return align


def _float_bits(value: Float) -> int:
    return int.from_bytes(struct.pack("<f" if value.bits == 32 else "<d", value.value), "little")


def variable_of(match: re.Match[str], line: int) -> Variable:
    """The variable that a match of VARIABLE declares, not placed yet."""
    if TYPE_BITS.get(match["type"], 0) < 8:
        raise PtxSyntaxError(f"PTX line {line}: unknown type .{match['type']}")
    width = TYPE_BITS[match["type"]] // 8
    shape = [int(extent or 0) for extent in re.findall(r"\[\s*(\d*)\s*\]", match["shape"])]
    count = prod(shape)
    if width * count > _LARGEST_VARIABLE:
        raise PtxSyntaxError(f"PTX line {line}: {match['name']} has more than {_LARGEST_VARIABLE} bytes")
    data, refusal = bytearray(), ""
    for item in split_list((match["data"] or "").strip("{} \n")):
        try:
            value = constant_of(item)
        except ValueError as error:
            raise PtxSyntaxError(f"PTX line {line}: initializer {item!r} of {match['name']}: {error}") from None
        if value is None and _SYMBOL.match(item):
            refusal = (
                f"PTX line {line}: initializer {item!r} of {match['name']} is the address of a function or a variable, "
                "which is not emulated; so virtual functions and tables of function pointers are not either"
            )
            break
        if value is None:
            raise PtxSyntaxError(f"PTX line {line}: initializer {item!r} of {match['name']} is not a number")
        bits = value.value if isinstance(value, Integer) else _float_bits(value)
        data += (bits & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if len(data) > width * count:
        raise PtxSyntaxError(f"PTX line {line}: {match['name']} has more initial values than elements")
    return Variable(
        match["name"],
        alignment(match["align"], width, line),
        width * count,
        data=bytes(data),
        element=width if len(shape) == 1 else 0,
        refusal=refusal,
    )


def matching_brace(text: str, start: int) -> int:
    """The position of the brace that closes the one at `start`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise syntax_error(text, start, "a brace is never closed")


def short_names(paths: dict[int, str]) -> dict[int, str]:
    """The shortest names of paths, of any system: as many last components as distinguish each from the others."""
    components = {path: [part for part in re.split(r"[/\\]+", path) if part] for path in paths.values()}
    taken = Counter(tuple(parts[-n:]) for parts in components.values() for n in range(1, len(parts) + 1))

    def short(path: str) -> str:
        parts = components[path]
        unique = (n for n in range(1, len(parts) + 1) if taken[tuple(parts[-n:])] == 1)
        return "/".join(parts[-next(unique, len(parts)) :]) or "?"

    return {number: short(path) for number, path in paths.items()}


def line_of(text: str, position: int) -> int:
    """The number of the line that holds a position."""
    return bisect_left(_line_ends(text), position) + 1


@lru_cache(maxsize=1)
def _line_ends(text: str) -> list[int]:
    return [match.start() for match in re.finditer("\n", text)]


def named_line(text: str, loc: re.Match[str]) -> re.Match[str] | None:
    """A match of LOC that names a line: this one, or for line 0 the next one in its body.

    Compilers write line 0 at the start of a block whose first instructions come from no line, so they are not
    attributed to the line before.
    """
    return loc if int(loc[2]) else _lines_after(text).get(loc.start())


@lru_cache(maxsize=1)
def _lines_after(text: str) -> dict[int, re.Match[str] | None]:
    """The next .loc in its body that names a line, for each .loc of line 0, by position."""
    after: dict[int, re.Match[str] | None] = {}
    following: re.Match[str] | None = None
    for match in reversed(list(_LOC_OR_END.finditer(text))):
        if match[2] and not int(match[2]):
            after[match.start()] = following
        elif not in_assembly(text, match.start()):
            following = match if match[2] else None
    return after


def in_assembly(text: str, position: int) -> bool:
    """Whether a position is in inline assembly, by the comments of compilers.

    LLVM writes a .loc for each line of the assembly there, as if these lines were in the source, one below the other.
    The .loc before the assembly has the line that it stands in.
    """
    starts, begins = _assembly_marks(text)
    mark = bisect_left(starts, position) - 1
    return mark >= 0 and begins[mark]


@lru_cache(maxsize=1)
def _assembly_marks(text: str) -> tuple[list[int], list[bool]]:
    """The positions where inline assembly begins or ends, and whether it begins there."""
    marks = list(_ASSEMBLY.finditer(text))
    return [mark.start() for mark in marks], [mark[1] == "begin" for mark in marks]


def excerpt(text: str, position: int) -> str:
    """The beginning of the text at a position, for messages."""
    return text[position : position + 60].split("\n")[0]


def syntax_error(text: str, position: int, message: str) -> PtxSyntaxError:
    """An error that names the line."""
    return PtxSyntaxError(f"PTX line {line_of(text, position)}: {message}")
