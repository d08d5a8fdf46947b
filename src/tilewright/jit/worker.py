"""A process that compiles for another one, which starts it by `jit/pool.py`.

It reads pickled requests, (TranslationUnit, arch), from its standard input, and answers each with a CompiledKernel or
an exception on what its standard output was at the start. It ends with its input: if its parent is killed, after the
unit that it compiles.
"""

import os
import pickle
import sys

from tilewright.errors import TilewrightError
from tilewright.jit.cache import build


def main() -> None:
    """Serve requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    requests = sys.stdin.buffer
    while True:
        try:
            unit, arch = pickle.load(requests)  # our own parent's bytes
        except EOFError:
            return
        try:
            answer: object = build(unit, arch)
        except TilewrightError as error:
            answer = error
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            return
