"""What the emulator counted on one line of a CUDA header."""

import importlib.resources


def counts_at(counters, header, text):
    """The counts of the one line of a header in cuda/ that has this text, with what is inlined into it."""
    lines = (importlib.resources.files("tilewright") / "cuda" / header).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return counters.by_line_inclusive[f"{header.rpartition('/')[2]}:{number}"]
