"""Errors of a compiler in Python, and of the user's code that it runs, as errors for the caller."""

import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import ArgumentTypeError, TilewrightError
from tilewright.jit.compile import CompilationError

Place = tuple[str, int]
"""A file and a line."""

OURS = f"{Path(__file__).parents[2]}{os.sep}"
"""The folder of tilewright's code."""

REMEDY = "change the kernel, or pass other arguments or constants"
_OF_A_CALL = (AssertionError, KeyError, OverflowError, TypeError, ValueError)
"""What a compiler raises for arguments that a function does not take."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that runs in Python.

    packages: the modules whose code is its own, and not the user's.
    remedies: what to do about an error, by a pattern of its words; groups of the pattern may stand in the remedy, which
    is empty where the compiler says it itself.
    """

    name: str
    packages: tuple[str, ...]
    remedies: Mapping[str, str]

    @contextmanager
    def readable_errors(self, function: str) -> Iterator[None]:
        """Turn errors while it compiles a function into errors for the caller; defects of tilewright stay."""
        try:
            yield
        except (TilewrightError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            place, is_ours = self._place(error)
            if is_ours:
                raise
            said = str(error.args[0] if len(error.args) == 1 else error)
            if place is None and isinstance(error, _OF_A_CALL):
                said = said.replace("dynamic_func()", function)
                raise ArgumentTypeError(f"{self.name} refuses this call of {function}: {said}") from error
            raise self.refusal(function, f"{type(error).__name__}: {said}", place) from error

    def refusal(self, function: str, said: str, place: Place | None = None) -> CompilationError:
        """The error that a function does not compile: with the line of the user's file, if that is known."""
        log = said
        if place is not None:
            text = linecache.getline(*place).strip()
            log = f"{place[0]}:{place[1]}: {said}" + (f"\n    {text}" if text else "")
        found = ((re.search(pattern, said), remedy) for pattern, remedy in self.remedies.items())
        remedy = next((match.expand(remedy) for match, remedy in found if match), REMEDY)
        return CompilationError(f"{self.name} cannot compile {function}: {log}\n{remedy}".rstrip(), log)

    def _place(self, error: BaseException) -> tuple[Place | None, bool]:
        """The innermost line of the user's code, if the compiler ran any; whether the error comes from tilewright."""
        compilers = tuple(
            f"{Path(str(sys.modules[name].__file__)).parent}{os.sep}" for name in self.packages if name in sys.modules
        )
        place, is_ours, entered = None, False, False
        for frame, line in traceback.walk_tb(error.__traceback__):
            file = frame.f_code.co_filename
            if file.startswith(OURS):
                is_ours = entered
            elif file.startswith(compilers):
                entered = True
            elif entered and not _is_library(file):
                place, is_ours = (file, line), False
        return place, is_ours


def _is_library(file: str) -> bool:
    """Whether a file is of the standard library or of NumPy, or none at all."""
    folder, inside = sysconfig.get_path("stdlib"), file.split("site-packages" + os.sep)
    return inside[1].startswith("numpy") if len(inside) > 1 else file.startswith((folder, "<"))
