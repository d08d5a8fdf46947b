"""The words of messages: about a launch, on the command line and in Python; of remedies, in the kernel's language."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of messages for options and arguments.

    option, value: formats of an option's name, and of an option with its value.
    quoted: puts a text in the quotes that it needs as such a value.
    given: a format for the number of arguments, in a clause.
    address, structure: the accepted arguments of an 8-byte integer and of a parameter of `size` bytes.
    typed: further accepted arguments of a structure, by its size in bytes.
    """

    option: str
    value: str
    quoted: Callable[[str], str]
    given: str
    address: str
    structure: str
    typed: Mapping[int, str]

    def name(self, option: str) -> str:
        """An option's name in messages."""
        return self.option.format(option)

    def of_value(self, option: str) -> str:
        """A format of an option with a value that is still to come."""
        return self.value.replace("{}", option, 1)

    def written(self, option: str, value: object) -> str:
        """An option with a value in messages."""
        return self.value.format(option, self.quoted(value) if isinstance(value, str) else value)


PYTHON = Wording(
    option="{}",
    value="{}={!r}",
    quoted=str,
    given="{count} kernel arguments are given",
    address="a NumPy array, a TensorMap, None for null, or an integer",
    structure="a structure of {size} bytes: a Struct, a ctypes.Structure, a NumPy scalar or bytes",
    typed={2: ", such as np.float16(1.5)", 128: "; or a TensorMap"},
)

COMMAND_LINE = Wording(
    option="--{}",
    value="--{} {}",
    quoted=shlex.quote,
    given="--arg is given {times}",
    address="f32[1024]:random or the like, ptr:NAME, tensormap(...) or an integer",
    structure="a structure: bytes:HEX of {size} bytes (with pointers in it, a tilewright.Struct in Python)",
    typed={2: ", or f16:1.5 or bf16:1.5", 4: ", or f32:1.5", 128: ", or tensormap(...)"},
)

HOST_ADDRESSES = "is it of the host, in the bytes of a structure? Pass a tilewright.Struct, which puts arrays in there"
"""What is asked about an address far from every allocation where a structure was passed as plain bytes."""

TRITON_WORDS = {
    "a flag with __threadfence() on either side": 'a flag, written with sem="release" and read with sem="acquire"',
    "__syncwarp() if only this warp shares it, else __syncthreads()": "such as tl.debug_barrier()",
    "at least __syncwarp()": "such as tl.debug_barrier()",
    "__syncwarp()": "tl.debug_barrier()",
    "__syncthreads()": "tl.debug_barrier()",
}
"""What remedies in reports call CUDA's functions in Triton, longer words first."""

CUTE_WORDS = {
    "__syncwarp()": "cute.arch.sync_warp()",
    "__syncthreads()": "cute.arch.sync_threads()",
    "__threadfence()": "cute.arch.fence_acq_rel_gpu()",
}
"""The same in CuTe DSL."""


def in_words(text: str, words: Mapping[str, str]) -> str:
    """A text with the words of another language for those of CUDA C++."""
    for of_cuda, other in words.items():
        text = text.replace(of_cuda, other)
    return text
