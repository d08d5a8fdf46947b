"""A benchmark session: several products are measured one after the other, into one record."""

import datetime
import math
import platform
import shlex
import sys
from collections.abc import Container, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Literal

from tilewright.bench.comparison import Comparison, Progress, compare
from tilewright.bench.contender import Contender
from tilewright.bench.contenders import OURS, Tilewright, is_peer
from tilewright.bench.inputs import Inputs, Shape, torch_on_gpu
from tilewright.errors import ArgumentValueError
from tilewright.jit.compile import nvrtc_version
from tilewright.measure.data import Data
from tilewright.measure.protocol import Burst, Protocol, Settled
from tilewright.planner.choose import choose

SWEEP = Settled(cycles=2, slice_seconds=0.2)
"""The protocol for a first look at all Configs, before the best are measured."""

HEATS = (Burst(cycles=1, idle_seconds=0.5), SWEEP)
"""The protocols for a first look at all peers, before the best are measured."""

PREPARING_SECONDS = 1.0
"""About how long a contender takes to be compiled, verified and captured, its tuner apart; for estimates."""

AGREEMENT = 0.01
"""The largest allowed distance from 1 of a contender's median ratio to itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the measurement of each product.

    against: "best": all peers are looked at first, and then ours are measured with the baseline and, for each protocol,
    the quickest peer. The second measurement is a new one, so being picked favors nobody.
    configs: a text. All of the kernel's Configs whose description contains it are swept first ("" is in all), and the
    best `finalists` are measured in place of the planner's choice. None: no sweep.
    """

    contenders: tuple[Contender, ...]
    protocols: tuple[Protocol, ...]
    baseline: str
    data: Data = "randn"
    seed: int = 0
    against: Literal["all", "best"] = "all"
    configs: str | None = None
    finalists: int = 2

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "data": self.data,
            "seed": self.seed,
            "protocols": {protocol.name: asdict(protocol) for protocol in self.protocols},
            "contenders": [contender.name for contender in self.contenders],
            "baseline": self.baseline,
            "against": self.against,
            "configs": self.configs,
            "finalists": self.finalists,
        }

    @property
    def heats(self) -> tuple[Protocol, ...]:
        """The protocols of the first look at all peers; empty if there is none."""
        if self.against == "all" or len(peers_among(self.contenders)) < 2:
            return ()
        wanted = {protocol.name for protocol in self.protocols}
        return tuple(protocol for protocol in HEATS if protocol.name in wanted)

    def seconds(self, tuned: Container[str] = ()) -> float:
        """About how long a product takes, without a sweep; the contenders in `tuned` need not tune."""
        peers = len(peers_among(self.contenders))
        last = len(self.contenders) - (peers - min(peers, 2) if self.heats else 0)  # the baseline, and one best peer
        tuning = sum(each.tuning_seconds for each in self.contenders if each.name not in tuned)
        preparing = PREPARING_SECONDS * (last + (peers if self.heats else 0))
        looking = sum(protocol.seconds(peers) for protocol in self.heats)
        return tuning + preparing + looking + sum(protocol.seconds(last) for protocol in self.protocols)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one product.

    comparison: its measurement; without contenders if the product was skipped.
    sweep: the first look at all Configs, if there was one.
    heat: the first look at all peers, if there was one.
    skipped: why the product could not be measured; empty otherwise.
    """

    comparison: Comparison
    sweep: Comparison | None = None
    heat: Comparison | None = None
    skipped: str = ""

    @property
    def comparisons(self) -> list[Comparison]:
        """All that was compared."""
        return [each for each in (self.comparison, self.sweep, self.heat) if each is not None]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        record = self.comparison.as_dict()
        looks = {"sweep": self.sweep, "heat": self.heat}
        looked = {name: look.as_dict()["contenders"] for name, look in looks.items() if look is not None}
        return {**record, **looked, **({"skipped": self.skipped} if self.skipped else {})}


def measure(
    shape: Shape,
    settings: Settings,
    progress: Progress,
    choices: MutableMapping[str, Any] | None = None,
    best_peers: Mapping[str, str] | None = None,
) -> Outcome:
    """Measure one product, after first looks if the settings have some.

    choices: those of tuners, by contender. best_peers: by protocol, what a first look at all peers found; where a
    protocol is missing, they are looked at.
    """
    progress(0.0, f"{shape}: making inputs")
    inputs = Inputs(shape, data=settings.data, seed=settings.seed)
    contenders, sweep, heat = list(settings.contenders), None, None
    timed = partial(
        compare,
        inputs=inputs,
        baseline=settings.baseline,
        choices={} if choices is None else choices,
        progress=progress,
    )
    if settings.configs is not None:
        ours = [each for each in contenders if isinstance(each, Tilewright)]
        replaced = [each for each in ours if not each.batch_invariant and not each.serial]
        kernels = [contender.kernel for contender in replaced]
        every = swept(inputs, settings.configs, next(iter(kernels), "auto"))
        others = [contender for contender in contenders if contender not in replaced]
        against = [contender for contender in others if contender.name == settings.baseline]
        sweep = timed([*against, *every], protocols=[SWEEP])
        if sweep.interrupted:
            return Outcome(sweep)
        contenders = [*best(sweep, every, settings.finalists), *others]
    if settings.heats:
        wanted, known = [protocol.name for protocol in settings.heats], best_peers or {}
        if not known.keys() >= set(wanted):
            heat = timed(peers_among(contenders), protocols=settings.heats)
            if heat.interrupted:
                return Outcome(heat, sweep)
        last = {settings.baseline, *(known[name] if heat is None else quickest_peer(heat, name) for name in wanted)}
        contenders = [each for each in contenders if not is_peer(each.name) or each.name in last]
    return Outcome(timed(contenders, protocols=settings.protocols), sweep, heat)


def peers_among(contenders: Sequence[Contender]) -> list[Contender]:
    """The contenders that are not ours."""
    return [contender for contender in contenders if is_peer(contender.name)]


def quickest_peer(comparison: Comparison, protocol: str) -> str | None:
    """The contender of others with the shortest median time; None if none was timed."""
    times = {
        entry.contender: median(seconds)
        for entry in comparison.entries
        if is_peer(entry.contender) and (seconds := entry.seconds(protocol))
    }
    return min(times, key=times.__getitem__, default=None)


def skipped(shape: Shape, settings: Settings, reason: str) -> Outcome:
    """The Outcome of a product that could not be measured."""
    product = {**asdict(shape), "data": settings.data, "seed": settings.seed}
    return Outcome(Comparison(product, shape.flops, math.nan), skipped=reason)


def swept(inputs: Inputs, text: str, name: str = "auto") -> list[Tilewright]:
    """A contender for every Config of the named kernel, or of the planner's, whose description contains the text."""
    choice = choose(inputs.problem, inputs.hardware, kernel=name)
    kernel = choice.kernel
    every = [Tilewright(kernel.name, config) for config in kernel.configs(choice.copied.problem, inputs.hardware)]
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


def gpu_is_usable() -> bool:
    """Whether this process can still use the GPU; an illegal access of any contender ends that."""
    torch = torch_on_gpu()
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


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
