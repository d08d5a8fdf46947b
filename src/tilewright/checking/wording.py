"""How those who describe a launch write what it takes: the words of messages, on the command line and in Python."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """What messages call options and arguments.

    option, value: formats of an option's name, and of an option with its value.
    given: a format of how many arguments there are, in a clause.
    address, structure: what an 8-byte integer and a parameter of `size` bytes take.
    typed: what a structure of so many bytes also takes.
    """

    option: str
    value: str
    given: str
    address: str
    structure: str
    typed: Mapping[int, str]

    def name(self, option: str) -> str:
        """An option as messages name it."""
        return self.option.format(option)

    def written(self, option: str, value: str) -> str:
        """An option as it is written with a value."""
        return self.value.format(option, value)


PYTHON = Wording(
    option="{}",
    value="{}={!r}",
    given="{count} kernel arguments are given",
    address="a NumPy array, None for null, or an integer",
    structure="a structure: bytes, or a NumPy scalar, of {size} bytes",
    typed={2: ", such as np.float16(1.5)", 128: ", or a TensorMap"},
)

COMMAND_LINE = Wording(
    option="--{}",
    value="--{} {}",
    given="--arg is given {times}",
    address="f32[1024]:random or the like, ptr:NAME or an integer",
    structure="a structure: bytes:HEX of {size} bytes",
    typed={2: ", or f16:1.5 or bf16:1.5", 4: ", or f32:1.5", 128: ", or tensormap(...)"},
)
