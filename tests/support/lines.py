"""Lines of sources by their text: in a file of Python, and what the emulator counted on one of a CUDA header."""

import importlib.resources
import inspect


def counts_at(counters, header, text):
    """The counts of the one line of a header in cuda/ that has this text, with what is inlined into it."""
    source = (importlib.resources.files("tilewright") / "cuda" / header).read_text()
    return counters.by_line_inclusive[f"{header.rpartition('/')[2]}:{_number_of(text, source)}"]


def place_of(text, module):
    """FILE:LINE of the one line with a text in the file of a module."""
    return f"{module.__file__}:{_number_of(text, inspect.getsource(module))}"


def _number_of(text, source):
    (number,) = [number for number, line in enumerate(source.splitlines(), 1) if text in line]
    return number
