"""What a record of `tilewright bench` holds, as far as it is shown."""

from typing import Annotated, Any, Literal

from pydantic import Field

from tilewright.cli.schema import ABSENT, Extent, Figure, Median, Part, Positive, Ratio, Text


class Measurement(Part):
    """What a protocol measured of a contender."""

    time_us: Positive
    tflops: Positive
    tflops_interval: Median
    speed_of_light_share: Figure = ABSENT
    ratio: Ratio = ABSENT
    watts: Figure = ABSENT
    joules_per_tflop: Figure = ABSENT
    sm_clock_mhz: Figure = ABSENT
    celsius: Figure = ABSENT


class Entry(Part):
    """A contender at a product."""

    contender: Text
    status: Text
    why: Text = ABSENT
    burst: Measurement | None = None
    settled: Measurement | None = None


class Product(Part):
    """A product and its contenders."""

    m: Extent
    n: Extent
    k: Extent
    dtype: Text
    layout: Text
    data: Text
    label: Text = ABSENT
    baseline: Text | None
    interrupted: bool
    contenders: list[Entry]
    sweep: list[Entry] = ABSENT
    skipped: Text = ABSENT


class Bench(Part):
    """A record."""

    gpu: Text
    date: Text
    command: Text
    data: Text
    protocols: dict[Literal["burst", "settled"], dict[str, Any]]
    products: Annotated[list[Product], Field(max_length=10_000)]
