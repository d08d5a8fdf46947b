"""The errors of the emulator: everything it can find wrong with a kernel, its PTX or its launch."""

import re
from typing import Any

from tilewright.emulator.lanes import Indices
from tilewright.errors import TilewrightError

_INSTRUCTION = re.compile(r"`[^`\n]+`(?: at [^`\n]+?)? \(PTX line \d+\)")
"""The form of an instruction in messages: str of a `tilewright.emulator.ptx.syntax.Instruction`."""


_PLACE = re.compile(
    r"`[^`\n]+`(?: at (?P<inner>[^`\n]+?)(?:, called from (?P<root>[^`\n]+))?)? \(PTX line (?P<ptx>\d+)\)"
)


def lines_of(location: str) -> tuple[str, ...]:
    """The source lines of an instruction in a message, that of the kernel and the called one, or else its PTX line."""
    match = _PLACE.fullmatch(location)
    if match is None:
        return (location,)
    return tuple(line for line in (match["root"], match["inner"]) if line) or (f"PTX:{match['ptx']}",)


class EmulatorError(TilewrightError):
    """Base of all errors of the emulator.

    threads, address: the threads, in words, and the place; None if unknown. lane: the lane; the machine finds the
    words. reported: whether a report says the same. counters: the `Counters` of a launch that this error ended,
    otherwise None. The device sets the last two.
    """

    counters: Any = None
    reported = False

    def __init__(
        self,
        message: str = "",
        *,
        threads: str | None = None,
        address: int | None = None,
        lane: Indices | None = None,
    ) -> None:
        super().__init__(message)
        self.threads, self.address, self.lane = threads, address, lane

    @property
    def locations(self) -> tuple[str, ...]:
        """The instructions that the message names, with their source lines, each once."""
        return tuple(dict.fromkeys(_INSTRUCTION.findall(str(self))))


class PtxSyntaxError(EmulatorError):
    """The PTX text does not parse, or could not be assembled for its target; the message names the line of the text."""


class UnsupportedInstruction(EmulatorError):
    """The PTX is well formed but contains an instruction, or a variant of one, that the emulator does not know."""


class LaunchError(EmulatorError):
    """Grid, block, cluster, shared memory or arguments do not fit the kernel."""


class KernelTrap(EmulatorError):
    """A thread executed `trap`, or a device assertion failed; then the message has its text."""


class OutOfBounds(EmulatorError):
    """An access outside live allocations or the shared or local memory of its thread."""


class UndefinedBranch(EmulatorError):
    """A brx.idx with an index beyond its list of targets."""


class DivergedCollective(EmulatorError):
    """Only a part of a warp or of a warpgroup executed an .aligned instruction; the checks report it, too."""


class Misaligned(EmulatorError):
    """An address that is not a multiple of the access size."""


class BarrierProtocol(EmulatorError):
    """A barrier used against its rules, for example by too many threads or by threads that disagree."""


class MbarrierLifetime(BarrierProtocol):
    """An mbarrier used before its initialization, after its end or that of its CTA, or initialized twice."""


class MbarrierState(BarrierProtocol):
    """An mbarrier tested with a state that it did not return, or returned too long ago."""


class MisdirectedStore(BarrierProtocol):
    """An st.async or red.async to a CTA other than its mbarrier's, or to one that it must not address."""


class StepLimit(EmulatorError):
    """A launch did not end within its `max_steps`; the message names where the kernel loops."""


class AsyncHazard(EmulatorError):
    """An asynchronous operation lacks the wait that its operands need."""


class Deadlock(EmulatorError):
    """No thread can make progress; the message names each waiting group, its line and what it waits for."""
