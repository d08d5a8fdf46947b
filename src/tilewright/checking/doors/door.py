"""The interface of a front door, and the call that it opens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from tilewright.checking.launch import Extents, Launch
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.rounding import integers

Perform: TypeAlias = Callable[[Launch], None]
"""Checks a launch and writes its results into the caller's arrays, as a GPU would run it."""


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of `tilewright.check`, which documents them; options: those of the kernel's own language."""

    kernel: Any
    arguments: Sequence[Any] = ()
    grid: Any = None
    block: Any = None
    cluster: Any = None
    shared_bytes: int = 0
    entry: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def extents(self, name: str) -> Extents | None:
        """grid, block or cluster as up to three numbers; None if it is not given."""
        value = getattr(self, name)
        return None if value is None else extents(name, value)

    def refuse(self, what: str, *names: str, remedy: str = "leave it out") -> None:
        """Raise an ArgumentTypeError if one of these arguments is given, which `what` does not take."""
        for name in names:
            if getattr(self, name) not in (None, 0):
                raise ArgumentTypeError(f"{name}={getattr(self, name)!r} is not for {what}: {remedy}")

    def refuse_options(self, what: str, options: Mapping[str, Any] | None = None) -> None:
        """Raise an ArgumentTypeError if an option is given that `what` does not take; by default any."""
        for name, value in (self.options if options is None else options).items():
            raise ArgumentTypeError(f"{name}={value!r} is not an argument of a check of {what}: leave it out")


class Door(Protocol):
    """A front door: it knows the kernels of one compiler."""

    def has(self, kernel: object) -> bool:
        """Whether the kernel is of this compiler; must not import the compiler."""

    def run(self, call: Call, perform: Perform) -> None:
        """Compile the kernel and perform its launches, in order.

        Raises:
            TilewrightError: for a call that does not fit the kernel, and for a kernel that does not compile.
        """


def extents(name: str, value: object) -> Extents:
    """One to three positive integers, or an ArgumentValueError that names the argument."""
    numbers = integers(value)
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise ArgumentValueError(f"{name}={value!r} must be one to three integers from 1 on: give n, or (x, y, z)")
    return numbers
