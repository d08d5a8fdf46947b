"""Several products, one after the other, and the record of all."""

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
"""How all Configs are looked at before the best are measured."""

AGREEMENT = 0.01
"""How far from 1 the median ratio of a contender to itself may be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured of each product.

    `configs`: before that, look at all of the kernel's Configs whose description holds this text ("" is in all), and
    measure the best `finalists` of them in place of the planner's choice; None leaves it at that.
    """

    contenders: tuple[Contender, ...]
    protocols: tuple[Protocol, ...]
    baseline: str
    data: Data = "randn"
    seed: int = 0
    configs: str | None = None
    finalists: int = 2

    def as_dict(self) -> dict[str, Any]:
        """How it was measured, for JSON."""
        protocols = {protocol.name: asdict(protocol) for protocol in self.protocols}
        return {"data": self.data, "seed": self.seed, "protocols": protocols}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A product's comparison, and that of all Configs where they were swept; without contenders why it was skipped."""

    comparison: Comparison
    sweep: Comparison | None = None
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        record = self.comparison.as_dict()
        sweep = {} if self.sweep is None else {"sweep": self.sweep.as_dict()["contenders"]}
        return {**record, **sweep, **({"skipped": self.skipped} if self.skipped else {})}


def measure(shape: Shape, settings: Settings, progress: Progress) -> Outcome:
    """Measure one product, after a sweep where that is asked for."""
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
    """A product that could not be measured."""
    product = {**asdict(shape), "data": settings.data, "seed": settings.seed}
    return Outcome(Comparison(product, shape.flops, math.nan), skipped=reason)


def swept(inputs: Inputs, text: str, name: str = "auto") -> list[Tilewright]:
    """Every Config that a kernel, or that of the planner, has for the product and whose description holds the text."""
    kernel = choose(inputs.problem, inputs.hardware, kernel=name).kernel
    every = [Tilewright(kernel.name, config) for config in kernel.configs(inputs.problem, inputs.hardware)]
    found = [contender for contender in every if text in contender.name]
    if not found:
        raise ArgumentValueError(
            f"--configs={text!r} is in no Config of {kernel.name} for {inputs.shape}: use all, or a part of one of "
            f"{', '.join(contender.name.removeprefix(f'{OURS}:') for contender in every)}"
        )
    return found


def best(sweep: Comparison, contenders: Sequence[Tilewright], count: int) -> list[Tilewright]:
    """Of the contenders that are right the quickest; those that are not follow, so that they are reported."""
    times = {entry.contender: entry.seconds(SWEEP.name) for entry in sweep.entries}
    ranked = sorted((c for c in contenders if times[c.name]), key=lambda c: median(times[c.name]))
    return [*ranked[:count], *(c for c in contenders if sweep.entry(c.name).status in ("wrong", "failed"))]


def disagreement(comparison: Comparison) -> dict[str, float]:
    """By protocol how far the median ratio of the first contender to the second is from 1; {} unless both are timed."""
    timed = [entry.contender for entry in comparison.entries if entry.samples]
    if len(timed) < 2:
        return {}
    first, second = timed
    protocols = comparison.entry(first).samples
    ratios = {protocol: comparison.ratio(protocol, first, second) for protocol in protocols}
    return {protocol: abs(ratio.median - 1) for protocol, ratio in ratios.items() if ratio is not None}


def machine() -> dict[str, Any]:
    """What a record says of the GPU, the time and the versions."""
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
