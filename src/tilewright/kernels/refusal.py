"""The reason why a kernel does not take a problem, or TMA does not take an operand."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason in words, and the operand to blame if another layout of it would be taken."""

    reason: str
    operand: str | None = None

    @property
    def avoidable(self) -> bool:
        """Whether another layout of an operand would be taken."""
        return self.operand is not None

    def __str__(self) -> str:
        return self.reason
