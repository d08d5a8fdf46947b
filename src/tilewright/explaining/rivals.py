"""The Configs that come next, and why they lose."""

from typing import Any, NamedTuple

from tilewright.explaining.explanation import Rival
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel
from tilewright.model.prediction import Breakdown, Power
from tilewright.planner.choose import Choice, asked
from tilewright.planner.copies import Copied
from tilewright.problem import Problem

RANKED: Power = "recorded"
"""The power state in which the planner ranks Configs."""

COMPARED = 8
"""How many Configs of the chosen kernel are looked at; of others, their own choice is."""


class _Ranked(NamedTuple):
    """copying: the seconds of it that copies take. corrects: whether measured launches correct such times."""

    kernel: Kernel
    config: Any
    seconds: float
    copying: float
    breakdown: Breakdown
    corrects: bool

    @property
    def corrected(self) -> float:
        """What is added to the model's arithmetic, or taken from it: by measured launches, or as memory takes more."""
        return self.seconds - self.copying - sum(self.breakdown.parts)

    @property
    def parts(self) -> dict[str, float]:
        named = {name.replace("_", " "): seconds for name, seconds in self.breakdown.parts._asdict().items()}
        return named | {"copies": self.copying}


def rivals(problem: Problem, hardware: Hardware, choice: Choice, most: int = 3) -> tuple[Rival, ...]:
    """The next best Configs of the chosen kernel, and the choice of those that contend, as the planner ranks them."""
    chosen = _ranked(choice.kernel, choice.config, choice.copied, hardware)
    if chosen is None:
        return ()
    candidates = choice.kernel.candidates(choice.copied.problem, hardware, COMPARED)
    ranked = [
        _ranked(choice.kernel, config, choice.copied, hardware) for config in candidates if config != choice.config
    ]
    compared = choice.compared_seconds(hardware)
    for kernel, taken in asked(problem, hardware):
        if isinstance(taken, Copied) and kernel is not choice.kernel:
            other = Choice(kernel, kernel.best(taken.problem, hardware), taken)
            found = _ranked(*other[:3], hardware)
            behind = other.compared_seconds(hardware) - compared
            ranked.append(found and found._replace(seconds=chosen.seconds + behind))
    known = sorted((each for each in ranked if each is not None), key=lambda each: each.seconds)
    return tuple(_rival(each, chosen) for each in known[:most])


def _ranked(kernel: Kernel, config: Any, taken: Copied, hardware: Hardware) -> _Ranked | None:
    found = kernel.breakdown(config, taken.problem, hardware, RANKED)
    if found is None:
        return None
    seconds, copying = kernel.ranked_seconds(config, taken.problem, hardware), taken.ranked_seconds(hardware)
    return _Ranked(kernel, config, seconds + copying, copying, found, kernel.corrects(taken.problem, hardware))


def _rival(other: _Ranked, chosen: _Ranked) -> Rival:
    own, best = other.parts, chosen.parts
    why = "as launches were measured" if other.corrects or chosen.corrects else "as it is ranked"
    behind = {name: own[name] - best[name] for name in own} | {why: other.corrected - chosen.corrected}
    grew = {name: seconds for name, seconds in behind.items() if abs(seconds) > 1e-12}
    limits, of_chosen = other.breakdown.limits, chosen.breakdown.limits
    limit = max(limits, key=lambda name: limits[name] - of_chosen.get(name, 0.0))
    if max(grew, key=lambda name: grew[name], default="") != "main loop":
        limit = max(limits, key=lambda name: limits[name])
    return Rival(other.kernel.name, other.config, other.seconds, other.seconds - chosen.seconds, grew, limit)
