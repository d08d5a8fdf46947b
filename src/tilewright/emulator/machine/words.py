"""Instructions, threads and places of the CTAs that run together, in words."""

from tilewright.emulator.lanes import Group, Indices, Topology, in_words
from tilewright.emulator.memory import SHARED_START
from tilewright.emulator.ptx.syntax import Entry, Instruction
from tilewright.emulator.ptx.variables import variable_at


class Words:
    """The words of messages for things. A site is the index of an instruction in its entry."""

    def __init__(self, entry: Entry, topology: Topology, cta_numbers: Indices) -> None:
        self.entry, self.topology, self.cta_numbers = entry, topology, cta_numbers

    def instruction(self, site: int) -> Instruction:
        """The instruction at a site."""
        return self.entry.instructions[site]

    def describe(self, site: int) -> str:
        """The instruction at a site, with its source line."""
        return str(self.entry.instructions[site])

    def modifiers(self, site: int) -> tuple[str, ...]:
        """The modifiers of the instruction at a site."""
        return self.entry.instructions[site].modifiers

    def name(self, group: Group) -> str:
        """The threads of a group, by CTA numbers of the grid."""
        return in_words(self.cta_numbers[group.cta], group.thread)

    def shared(self, offset: int) -> str:
        """An address of shared memory, with the variable there."""
        variable = variable_at(self.entry, offset - SHARED_START)
        return f"shared address {offset:#x}" + (f" ({variable})" if variable else "")
