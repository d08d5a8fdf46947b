"""What a record of `tilewright ladder` holds, as far as it is shown."""

from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Discriminator, Field, Tag

from tilewright.cli.ladder.table import ran
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


class Profile(Part):
    """What the hardware counted of a launch, as `ladder.profile.Profile`."""

    tensor: Figure | None
    fma: Figure | None
    issue: Figure | None
    occupancy: Figure | None
    states: dict[Text, Figure]
    sectors_per_load: Figure | None
    microseconds: Figure | None


class Profiled(LeftOut):
    """A rung with the hardware's counters."""

    profile: Profile


def _tag(rung: object) -> str:
    return "shown" if isinstance(rung, dict) and ran(rung) else "left out"


R = TypeVar("R")
Rungs: TypeAlias = Annotated[
    list[Annotated[Annotated[R, Tag("shown")] | Annotated[LeftOut, Tag("left out")], Discriminator(_tag)]],
    Field(max_length=300),  # more would be no picture
]


class _Climb(Part):
    m: Extent
    n: Extent
    k: Extent


class _GpuClimb(_Climb):
    backend: Literal["gpu"]
    gpu: Text
    date: Text


class TimedClimb(_GpuClimb):
    """A record of a GPU's times."""

    rungs: Rungs[Timed]


class ProfiledClimb(_GpuClimb):
    """A record of a GPU's counters."""

    rungs: Rungs[Profiled]


class CountedClimb(_Climb):
    """A record of the emulator."""

    backend: Literal["emulator"]
    rungs: Rungs[Counted]


def _kind(record: object) -> str:
    found = record if isinstance(record, dict) else {}
    return "counters" if found.get("counters") is True else str(found.get("backend"))


Climb: TypeAlias = Annotated[
    Annotated[TimedClimb, Tag("gpu")]
    | Annotated[ProfiledClimb, Tag("counters")]
    | Annotated[CountedClimb, Tag("emulator")],
    Discriminator(_kind),
]
"""A record."""
