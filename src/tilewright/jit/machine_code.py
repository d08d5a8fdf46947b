"""The machine words of a cubin, read from the file itself."""

import struct

from tilewright.errors import UnavailableError
from tilewright.jit.compile import CompiledKernel

WORD_BYTES = 16
"""Of an instruction, since Volta."""


def words(compiled: CompiledKernel) -> list[int]:
    """The instructions of a compiled kernel, 128 bits each, in their order in memory.

    Raises an UnavailableError if the cubin has no code of this name.
    """
    cubin = compiled.cubin
    for name, start, size in _sections(cubin):
        if name == f".text.{compiled.name}":
            code = cubin[start : start + size]
            return [int.from_bytes(code[at : at + WORD_BYTES], "little") for at in range(0, size, WORD_BYTES)]
    raise UnavailableError(f"the cubin of {compiled.name} has no section of its code: compile it with another NVRTC")


def _sections(cubin: bytes) -> list[tuple[str, int, int]]:
    """Name, offset and size of each section of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_bytes, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    entries = [struct.unpack_from("<IIQQQQ", cubin, table + number * entry_bytes) for number in range(count)]
    names = entries[names_at][4]
    found = []
    for name, _, _, _, offset, size in entries:
        begin = names + name
        found.append((cubin[begin : cubin.index(b"\0", begin)].decode(), offset, size))
    return found
