"""What calls of the device's runtime say.

They are vprintf(format, values) and __assertfail(message, file, line, function, character size).
Source: CUDA C++ Programming Guide, "Formatted Output" and "Assertion".
"""

import re

import numpy as np

from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import GLOBAL_BASE, LOCAL_WINDOW
from tilewright.emulator.ptx.syntax import Instruction, Symbol

ASSERTFAIL = "__assertfail"
_LONGEST, _LONGEST_SHOWN = 4096, 200
"""Characters of a text, and of one in a message; longer ones are cut."""
_WIDEST = 200
"""Characters that a width or a precision may ask for."""

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[a-zA-Z%])"
)
_WIDE = {"l", "ll", "j", "z", "t"}
_FLOATS, _SIGNED, _UNSIGNED = "aAeEfFgG", "di", "ouxX"


def failed_assertion(wave: Wave, call: Instruction, lane: int) -> str:
    """The assertion of a call by a lane, in words; empty if its arguments are not where compilers put them."""
    places = [symbol for symbol in call.operands[1:] if isinstance(symbol, Symbol)]
    if len(places) < 4:
        return ""
    message, file, line, function = (_argument(wave, lane, place) for place in places[:4])
    texts = [_shown(_text(wave, address, _LONGEST_SHOWN)) for address in (message, function, file)]
    return "assertion `{}` failed in {} at {}".format(*texts) + f":{line & 0xFFFFFFFF}"


def printed(wave: Wave, call: Instruction, lane: int) -> str:
    """The text that a call of vprintf by a lane prints."""
    form, place = (_argument(wave, lane, symbol) for symbol in call.operands if isinstance(symbol, Symbol))
    values = _Values(wave, lane, place - LOCAL_WINDOW)
    return _CONVERSION.sub(lambda match: _converted(match, values), _text(wave, form))


class _Values:
    """The values that a lane prints, in its local memory: each at a multiple of its size."""

    def __init__(self, wave: Wave, lane: int, offset: int) -> None:
        self.wave, self._lane, self._offset = wave, lane, offset

    def next(self, nbytes: int) -> int:
        """The next value, of 4 or 8 bytes."""
        start = -(-self._offset // nbytes) * nbytes
        self._offset = start + nbytes
        return _local(self.wave, self._lane, start, nbytes)


def _converted(match: re.Match[str], values: _Values) -> str:
    kind, wide = match["kind"], match["length"] in _WIDE
    if kind == "%":
        return "%"
    width, precision = (
        _signed(values.next(4), 32) if given == "*" else int(given) if given else None
        for given in (match["width"], match["precision"])
    )
    if match["precision"] == "":
        precision = 0
    flags = match["flags"] + ("-" if width is not None and width < 0 else "")
    form = "%" + flags
    form += "" if width is None else str(min(abs(width), _WIDEST))
    form += "" if precision is None or precision < 0 else f".{min(precision, _WIDEST)}"
    if kind in _FLOATS:
        number = float(np.uint64(values.next(8)).view(np.float64))
        return number.hex() if kind in "aA" else (form + kind) % number
    if kind == "s":
        return (form + "s") % _text(values.wave, values.next(8))
    if kind == "p":
        return (form + "s") % hex(values.next(8))
    if kind == "c":
        return (form + "c") % (values.next(4) & 0xFF)
    if kind not in _SIGNED + _UNSIGNED:
        return match[0]
    bits = {"hh": 8, "h": 16}.get(match["length"] or "", 64 if wide else 32)
    number = values.next(8 if wide else 4) & (1 << bits) - 1
    if kind == "o" and "#" in flags:  # Python writes 0o10
        return (form.replace("#", "") + "s") % f"0{number:o}"
    return (form + kind.replace("u", "d").replace("i", "d")) % (_signed(number, bits) if kind in _SIGNED else number)


def _signed(number: int, bits: int) -> int:
    return number - (number >> bits - 1 << bits)


def _argument(wave: Wave, lane: int, place: Symbol) -> int:
    """An argument of up to 8 bytes in the local memory of a lane."""
    variable = wave.program.entry.local[place.name]
    return _local(wave, lane, variable.offset + place.offset, min(variable.size, 8))


def _local(wave: Wave, lane: int, offset: int, nbytes: int) -> int:
    """Bytes of the local memory of a lane as a number; zero beyond its end."""
    size = wave.access.local_bytes
    start = lane * size + offset
    inside = 0 <= offset <= size - nbytes
    return int.from_bytes(wave.access.local.bytes[start : start + nbytes].tobytes(), "little") if inside else 0


def _text(wave: Wave, address: int, longest: int = _LONGEST) -> str:
    """The string at an address of global memory; a question mark where there is none."""
    memory, where = wave.access.memory, np.int64(address - GLOBAL_BASE if GLOBAL_BASE <= address < 1 << 63 else -1)
    owner = memory.containing(int(where)) if where >= 0 else None
    if owner is None:
        return "?"
    end = min(int(where) + longest, owner.start + owner.size)
    return memory.bytes[int(where) : end].tobytes().partition(b"\0")[0].decode(errors="replace")


def _shown(text: str) -> str:
    """A text without characters that cannot be shown."""
    return "".join(character if character.isprintable() else "?" for character in text)
