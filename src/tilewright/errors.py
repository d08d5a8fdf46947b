"""The errors that tilewright raises for its caller, all of them a `TilewrightError`, and the warnings that it logs."""

import sys


class TilewrightError(Exception):
    """Base of every error whose message tells the caller what is wrong and what to change.

    Each is also the built-in exception that Python's users expect in its place, so `except ValueError` works too. Any
    other exception that leaves tilewright is a defect of tilewright.
    """


class ArgumentTypeError(TilewrightError, TypeError):
    """An argument is of the wrong kind: not an array, an unsupported or mixed dtype, not a Config, not a stream."""


class ArgumentValueError(TilewrightError, ValueError):
    """An argument has the wrong value: shapes, devices, overlap, names, files."""


class UnsupportedError(TilewrightError, NotImplementedError):
    """The request is well posed and tilewright cannot do it."""


class UnavailableError(TilewrightError, RuntimeError):
    """The machine or its state forbids it: no GPU, a missing package, an emulation that takes too long."""


class OutOfMemoryError(TilewrightError, MemoryError):
    """The memory of an emulated GPU is full."""


def warn(message: str, *values: object) -> None:
    """Log a warning under the name of the calling module, with `values` for the % fields of the message."""
    import logging  # late: few processes have a warning, and it takes 2 ms

    logger = logging.getLogger(sys._getframe(1).f_globals["__name__"])
    bare = not logger.hasHandlers()  # Python then prints the message alone
    logger.warning(f"tilewright: {message}" if bare else message, *values, stacklevel=2)


def silence(module: str) -> None:
    """Log no warnings of a module from now on, unless the user has set a level for it."""
    import logging

    logger = logging.getLogger(module)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)


def message_of(error: Exception) -> str | None:
    """The message of an error for the caller; None for a defect, whose traceback matters."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's is a RuntimeError
        return f"not enough memory: take a smaller product ({error})"
    return str(error) if isinstance(error, TilewrightError) else None
