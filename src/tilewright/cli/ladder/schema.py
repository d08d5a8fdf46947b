"""What a record of `tilewright ladder` holds, as far as it is shown."""

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Discriminator, Field, Tag

from tilewright.cli.schema import ABSENT, Extent, Figure, Part, Positive, Ratio, Text


class PublishedFigure(Part):
    """A figure from an article, as `kernels.ladder.rung.Published`."""

    model_config = ConfigDict(extra="forbid")
    tflops: Figure
    shape: Annotated[list[Extent], Field(min_length=3, max_length=3)]
    gpu: Text
    source: Text
    upto: Figure | None = None


class LeftOut(Part):
    """A rung without figures."""

    name: Text
    road: Text
    data: Text
    verified: bool | None
    m: Extent
    n: Extent
    k: Extent
    published: list[PublishedFigure]
    note: Text = ABSENT
    skipped: Text = ABSENT
    ignored: list[Text] = ABSENT


class Measurement(Part):
    """What a protocol measured of a rung."""

    tflops: Positive
    ratio: Ratio = ABSENT


class Timed(LeftOut):
    """A rung with times."""

    tflops: Positive
    measured: dict[Literal["burst", "settled"], Measurement]
    speed_of_light_share: Figure | None = None
    cublas_ratio: Figure | None = None
    gain: Figure | None = None


class Counted(LeftOut):
    """A rung with counters."""

    sectors_per_load: Figure | None
    conflicts_per_request: Figure | None
    flops_per_smem_byte: Figure | None
    flops_per_l2_byte: Figure
    rereads: Positive
    explanation: Text


def _tag(rung: object) -> str:
    return "shown" if isinstance(rung, dict) and ("tflops" in rung or "rereads" in rung) else "left out"


R = TypeVar("R")
Rungs: TypeAlias = Annotated[
    list[Annotated[Annotated[R, Tag("shown")] | Annotated[LeftOut, Tag("left out")], Discriminator(_tag)]],
    Field(max_length=300),  # more would be no picture
]


class _Climb(Part):
    m: Extent
    n: Extent
    k: Extent


class TimedClimb(_Climb):
    """A record of a GPU."""

    backend: Literal["gpu"]
    gpu: Text
    date: Text
    rungs: Rungs[Timed]


class CountedClimb(_Climb):
    """A record of the emulator."""

    backend: Literal["emulator"]
    rungs: Rungs[Counted]


Climb: TypeAlias = Annotated[TimedClimb | CountedClimb, Discriminator("backend")]
"""A record."""
