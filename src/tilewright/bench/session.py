"""A benchmark session: several products are measured one after the other, into one record."""

import datetime
import math
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tilewright.bench.comparison import Comparison, Progress, compare
from tilewright.bench.contenders import OURS, Contender, Tilewright
from tilewright.bench.inputs import Inputs, Shape, torch_on_gpu
from tilewright.data import Data
from tilewright.errors import ArgumentValueError
from tilewright.jit.compile import nvrtc_version
from tilewright.measure.protocol import Protocol, Settled
from tilewright.planner.choose import choose

SWEEP = Settled(cycles=2, slice_seconds=0.2)
"""The protocol for a first look at all Configs, before the best are measured."""

AGREEMENT = 0.01
"""The largest allowed distance from 1 of a contender's median ratio to itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the measurement of each product.

    configs: a text. All of the kernel's Configs whose description contains it are swept first ("" is in all), and the
    best `finalists` are measured in place of the planner's choice. None: no sweep.
    """

    contenders: tuple[Contender, ...]
    protocols: tuple[Protocol, ...]
    baseline: str
    data: Data = "randn"
    seed: int = 0
    configs: str | None = None
    finalists: int = 2

    def as_dict(self) -> dict[str, Any]:
        """The data and the protocols, for JSON."""
        protocols = {protocol.name: asdict(protocol) for protocol in self.protocols}
        return {"data": self.data, "seed": self.seed, "protocols": protocols}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one product.

    comparison: its measurement; without contenders if the product was skipped.
    sweep: the first look at all Configs, if there was one.
    skipped: why the product could not be measured; empty otherwise.
    """

    comparison: Comparison
    sweep: Comparison | None = None
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        record = self.comparison.as_dict()
        sweep = {} if self.sweep is None else {"sweep": self.sweep.as_dict()["contenders"]}
        return {**record, **sweep, **({"skipped": self.skipped} if self.skipped else {})}


def measure(shape: Shape, settings: Settings, progress: Progress) -> Outcome:
    """Measure one product, after a sweep if the settings have one."""
    progress(0.0, f"{shape}: making inputs")
    inputs = Inputs(shape, data=settings.data, seed=settings.seed)
    contenders, sweep = list(settings.contenders), None
    if settings.configs is not None:
        kernels = [contender.kernel for contender in contenders if isinstance(contender, Tilewright)]
        every = swept(inputs, settings.configs, next(iter(kernels), "auto"))
        peers = [contender for contender in contenders if not isinstance(contender, Tilewright)]
        against = [contender for contender in peers if contender.name == settings.baseline]
        sweep = compare([*against, *every], inputs, [SWEEP], baseline=settings.baseline, progress=progress)
        if sweep.interrupted:
            return Outcome(sweep)
        contenders = [*best(sweep, every, settings.finalists), *peers]
    found = compare(contenders, inputs, settings.protocols, baseline=settings.baseline, progress=progress)
    return Outcome(found, sweep)


def skipped(shape: Shape, settings: Settings, reason: str) -> Outcome:
    """The Outcome of a product that could not be measured."""
    product = {**asdict(shape), "data": settings.data, "seed": settings.seed}
    return Outcome(Comparison(product, shape.flops, math.nan), skipped=reason)


def swept(inputs: Inputs, text: str, name: str = "auto") -> list[Tilewright]:
    """A contender for every Config of the named kernel, or of the planner's, whose description contains the text."""
    kernel = choose(inputs.problem, inputs.hardware, kernel=name).kernel
    every = [Tilewright(kernel.name, config) for config in kernel.configs(inputs.problem, inputs.hardware)]
    found = [contender for contender in every if text in contender.name]
    if not found:
        raise ArgumentValueError(
            f"--configs={text!r} matches no Config of {kernel.name} for {inputs.shape}: use all, or a part of one of "
            f"{', '.join(contender.name.removeprefix(f'{OURS}:') for contender in every)}"
        )
    return found


def best(sweep: Comparison, contenders: Sequence[Tilewright], count: int) -> list[Tilewright]:
    """The `count` quickest right contenders, followed by the wrong and the failed ones, so these are reported."""
    times = {entry.contender: entry.seconds(SWEEP.name) for entry in sweep.entries}
    ranked = sorted((c for c in contenders if times[c.name]), key=lambda c: median(times[c.name]))
    return [*ranked[:count], *(c for c in contenders if sweep.entry(c.name).status in ("wrong", "failed"))]


def disagreement(comparison: Comparison) -> dict[str, float]:
    """For each protocol, the distance from 1 of the median ratio of two contenders; {} unless both are timed."""
    timed = [entry.contender for entry in comparison.entries if entry.samples]
    if len(timed) < 2:
        return {}
    first, second = timed
    protocols = comparison.entry(first).samples
    ratios = {protocol: comparison.ratio(protocol, first, second) for protocol in protocols}
    return {protocol: abs(ratio.median - 1) for protocol, ratio in ratios.items() if ratio is not None}


def machine() -> dict[str, Any]:
    """The GPU, the date, the command and the versions, for a record."""
    torch = torch_on_gpu()
    return {
        "gpu": torch.cuda.get_device_name(0),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["tilewright", *sys.argv[1:]]),
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda),
            "nvrtc": str(nvrtc_version()),
        },
    }
