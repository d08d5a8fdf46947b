"""What records are made of: the kinds of their values, which are checked once, when a record is read."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tilewright.errors import ArgumentValueError

Text = Annotated[str, Field(max_length=10_000)]
Extent = Annotated[int, Field(ge=0, lt=2**63)]
Figure = Annotated[float, Field(ge=0, le=1e30)]
Positive = Annotated[float, Field(ge=1e-30, le=1e30)]

ABSENT: Any = None
"""The default of a member that need not be there; null in its place is refused all the same."""


class Part(BaseModel):
    """An object of a record, which may hold more than is shown; values are of their kind, and never converted."""

    model_config = ConfigDict(strict=True, extra="allow")


class Median(Part):
    """A median with its interval."""

    low: Figure
    median: Positive
    high: Figure

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low <= self.median <= self.high:
            found = f"{self.low}, {self.median}, {self.high}"
            raise ArgumentValueError(f"low, median and high are {found}: put them in this order")
        return self


class Ratio(Median):
    """A ratio to the baseline, and how certain its interval is."""

    confidence: Annotated[float, Field(ge=0, le=1)]
