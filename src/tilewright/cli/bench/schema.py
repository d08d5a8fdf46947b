"""What a record of `tilewright bench` holds, as far as it is shown or resumed."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from tilewright.cli.schema import ABSENT, Extent, Figure, Median, Part, Positive, Ratio, Text
from tilewright.errors import ArgumentValueError


class Measurement(Part):
    """What a protocol measured of a contender."""

    time_us: Positive
    tflops: Positive
    tflops_interval: Median
    samples_us: Annotated[list[Positive], Field(min_length=1, max_length=10_000)]
    speed_of_light_share: Figure = ABSENT
    read_share: Figure = ABSENT
    cost: Annotated[float, Field(ge=-1, le=1e30)] = ABSENT
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
    heat: list[Entry] = ABSENT
    skipped: Text = ABSENT
    seconds: Figure = ABSENT
    session: Annotated[int, Field(ge=0)] = ABSENT

    @model_validator(mode="after")
    def _in_pairs(self) -> Self:
        for protocol in ("burst", "settled"):
            measured = [found for entry in self.contenders if (found := getattr(entry, protocol)) is not None]
            if len({len(found.samples_us) for found in measured}) > 1:
                raise ArgumentValueError(
                    f"contenders differ in the number of {protocol} samples: name a record whose cycles have all"
                )
        return self


class Session(Part):
    """A session that added to a record."""

    date: Text
    command: Text
    driver: Text = ABSENT
    power_limit_watts: Figure = ABSENT
    max_sm_clock_mhz: Figure = ABSENT


class Bench(Part):
    """A record."""

    gpu: Text
    date: Text
    command: Text
    suite: Text | None = None
    baseline: Text | None = None
    sessions: list[Session] = ABSENT
    left: list[Text] = ABSENT
    data: Text
    protocols: dict[Literal["burst", "settled"], dict[str, Any]]
    products: Annotated[list[Product], Field(max_length=10_000)]


class ResumedShape(Part):
    """A product that a record names; nothing else may stand there."""

    model_config = ConfigDict(strict=True, extra="forbid")

    m: Extent
    n: Extent
    k: Extent
    dtype: Text
    layout: Text
    label: Text


class FirstLook(Part):
    """What a record took from an earlier one."""

    date: Text
    best: dict[str, dict[Literal["burst", "settled"], Text]]


class Resumable(Bench):
    """A record that another session can add to."""

    sources: Text
    versions: dict[str, Text]
    suite: Text | None
    contenders: list[Text]
    baseline: Text
    against: Text
    configs: Text | None
    finalists: int
    seed: int
    shapes: list[ResumedShape]
    sessions: list[Session]
    choices: dict[str, dict[str, Any]]
    tries: dict[str, int]
    kernels: Text
    first_look: FirstLook = ABSENT

    @model_validator(mode="after")
    def _says_how_long(self) -> Self:
        if any(product.label is None or product.seconds is None for product in self.products):
            raise ArgumentValueError("a product has no label or no seconds: name a record that `bench --resume` wrote")
        return self


class WgmmaCase(Part):
    """The clocks of a wgmma."""

    kind: Text
    n: Extent
    warpgroups: Extent
    median: Positive | None


class MicroWgmma(Part):
    """A record of `tilewright bench micro wgmma`."""

    command: Literal["tilewright bench micro wgmma"]
    gpu: Text | None
    cases: Annotated[list[WgmmaCase], Field(max_length=10_000)]


class Clocks(Part):
    """The clocks of an instruction on all SMs; none of the emulator."""

    median: Positive | None
    least: Positive | None
    most: Positive | None

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        found = (self.least, self.median, self.most)
        known = [each for each in found if each is not None]
        if known != sorted(known) or len(known) not in (0, len(found)):
            raise ArgumentValueError(f"least, median and most are {found}: put them in this order, or null for all")
        return self


class FmaCase(Clocks):
    """The clocks of a multiply-add in so many chains of each warp."""

    chains: Annotated[int, Field(ge=1, le=32)]
    warps: Annotated[int, Field(ge=1, le=32)]


class MicroFma(Part):
    """A record of `tilewright bench micro fma`."""

    command: Literal["tilewright bench micro fma"]
    gpu: Text | None
    cases: Annotated[list[FmaCase], Field(max_length=10_000)]


class LoadsCase(Clocks):
    """The clocks of a load or an atomic."""

    place: Text
    operation: Text


class MicroLoads(Part):
    """A record of `tilewright bench micro loads`."""

    command: Literal["tilewright bench micro loads"]
    gpu: Text | None
    cases: Annotated[list[LoadsCase], Field(max_length=100)]


class BanksCase(Clocks):
    """The clocks of a warp's read of SMEM, and the model's passes."""

    addresses: Text
    width: Extent
    access: Text
    model: Positive


class MicroBanks(Part):
    """A record of `tilewright bench micro banks`."""

    command: Literal["tilewright bench micro banks"]
    gpu: Text | None
    cases: Annotated[list[BanksCase], Field(max_length=1000)]


class StridesCase(Part):
    """Bytes per second of wanted sectors."""

    stride: Extent
    fetch: Extent
    measured: Positive | None


class MicroStrides(Part):
    """A record of `tilewright bench micro strides`."""

    command: Literal["tilewright bench micro strides"]
    gpu: Text | None
    cases: Annotated[list[StridesCase], Field(max_length=10_000)]


class PowerCase(Part):
    """Watts, MHz and TFLOP/s with one kind of data."""

    data: Text
    watts: Positive | None
    mhz: Positive | None
    tflops: Positive | None


class MicroPower(Part):
    """A record of `tilewright bench micro power`."""

    command: Literal["tilewright bench micro power"]
    gpu: Text | None
    m: Extent
    n: Extent
    k: Extent
    cases: Annotated[list[PowerCase], Field(max_length=1000)]


class OccupancyCase(Part):
    """A rung with so many registers of a thread and CTAs of an SM."""

    rung: Text
    registers: Extent
    ctas: Extent
    tflops: Positive | None


class MicroOccupancy(Part):
    """A record of `tilewright bench micro occupancy`."""

    command: Literal["tilewright bench micro occupancy"]
    gpu: Text | None
    m: Extent
    n: Extent
    k: Extent
    cases: Annotated[list[OccupancyCase], Field(max_length=1000)]
