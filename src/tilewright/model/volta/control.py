"""The control bits of machine instructions since Volta: what the compiler tells the scheduler.

An instruction has 128 bits, and bits 105 to 125 are for the scheduler, which does not look for dependences itself. An
instruction of known latency says how many clocks the next one waits. One of unknown latency, such as a load, counts up
one of six barriers, and who needs the result waits for it. GPUs before Volta kept these bits in words of their own.

Source: Z. Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018, section 2.1. NVIDIA
does not document them.
"""

from dataclasses import asdict, dataclass
from typing import Any

from tilewright.errors import ArgumentValueError
from tilewright.rounding import integers

FIRST_BIT, BITS = 105, 21
BARRIERS = 6
_NO_BARRIER = 7


@dataclass(frozen=True, slots=True)
class Control:
    """What an instruction tells the scheduler.

    stall: clocks until the warp's next instruction may be issued. yields: another warp should be preferred then.
    write_barrier: 0 to 5, counted down when the result is written; None: nobody waits so. read_barrier: the same, when
    the operands were read. waits: barriers that must be down before this instruction is issued. reuse: operands 0 to 3
    that stay in the cache of their slot for the next instruction.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]
    reuse: tuple[int, ...]

    def __str__(self) -> str:
        """As assemblers write it: waits, reads, writes, yield, stall; a dash for what is not there."""
        waits = "".join(str(each) if each in self.waits else "-" for each in range(BARRIERS))
        read, write = ("-" if each is None else str(each) for each in (self.read_barrier, self.write_barrier))
        return f"B{waits}:R{read}:W{write}:{'Y' if self.yields else '-'}:S{self.stall:02}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "text": str(self)}


def control_of(word: int) -> Control:
    """The Control of an instruction's 128 bits, or of its upper 64 alone.

    Raises an ArgumentValueError for a number that is no such word, and for a barrier that does not exist.
    """
    if not integers(word) or not 0 <= word < 1 << 128:
        shown = hex(word) if isinstance(word, int) else repr(word)
        raise ArgumentValueError(f"word={shown} is no instruction: give 128 bits, or the upper 64 of them")
    bits = word >> (FIRST_BIT if word >> 64 else FIRST_BIT - 64)
    fields = []
    for width in (4, 1, 3, 3, 6, 4):
        fields.append(bits & (1 << width) - 1)
        bits >>= width
    stall, stays, write, read, waits, reuse = fields
    if bits or BARRIERS in (write, read):
        raise ArgumentValueError(f"word={word:#x} is no instruction since Volta: give one from `nvdisasm -hex`")
    return Control(
        stall,
        not stays,
        None if write == _NO_BARRIER else write,
        None if read == _NO_BARRIER else read,
        tuple(each for each in range(BARRIERS) if waits >> each & 1),
        tuple(each for each in range(4) if reuse >> each & 1),
    )
