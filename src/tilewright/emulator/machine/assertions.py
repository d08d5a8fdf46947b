"""The text of a failed assertion, from the arguments of __assertfail(message, file, line, function, character size)."""

import numpy as np

from tilewright.emulator.machine.wave import Wave
from tilewright.emulator.memory import GLOBAL_BASE
from tilewright.emulator.ptx.syntax import Instruction, Symbol

ASSERTFAIL = "__assertfail"
_LONGEST = 200
"""Characters of a message; longer ones are cut."""


def failed_assertion(wave: Wave, call: Instruction, lane: int) -> str:
    """The assertion of a call by a lane, in words; empty if its arguments are not where compilers put them."""
    places = [symbol for symbol in call.operands[1:] if isinstance(symbol, Symbol)]
    if len(places) < 4:
        return ""
    message, file, line, function = (_value(wave, lane, place) for place in places[:4])
    texts = [_text(wave, address) for address in (message, function, file)]
    return "assertion `{}` failed in {} at {}".format(*texts) + f":{line & 0xFFFFFFFF}"


def _value(wave: Wave, lane: int, place: Symbol) -> int:
    """An argument of up to 8 bytes in the local memory of a lane."""
    entry, access = wave.program.entry, wave.access
    variable = entry.local[place.name]
    start = lane * access.local_bytes + variable.offset + place.offset
    return int.from_bytes(access.local.bytes[start : start + min(variable.size, 8)].tobytes(), "little")


def _text(wave: Wave, address: int) -> str:
    """The string at an address of global memory, without characters that cannot be shown."""
    memory, where = wave.access.memory, np.int64(address - GLOBAL_BASE if GLOBAL_BASE <= address < 1 << 63 else -1)
    owner = memory.containing(int(where)) if where >= 0 else None
    if owner is None:
        return "?"
    end = min(int(where) + _LONGEST, owner.start + owner.size)
    text = memory.bytes[int(where) : end].tobytes().partition(b"\0")[0].decode(errors="replace")
    return "".join(character if character.isprintable() else "?" for character in text)
