"""The reason why a kernel does not take a problem, or TMA does not take an operand."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason in words, and whether it is `avoidable`, since another layout of the operands would be taken."""

    reason: str
    avoidable: bool = False

    def __str__(self) -> str:
        return self.reason
