"""An Explanation: what the planner does with a product and why, as data and as one screen of text."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.explaining.screen import text
from tilewright.kernels.config_fields import values_of
from tilewright.model.speed_of_light import SpeedOfLight
from tilewright.model.tiling.levels import Level
from tilewright.problem import Problem


class Time(NamedTuple):
    """The predicted time of a call.

    seconds: at the power limit with settled clocks. burst: right after idle. parts: of the settled one, by name; they
    add up to it. limits: what the main loop would take if one thing alone limited it, by name, the longest first.
    """

    seconds: float
    burst: float
    parts: dict[str, float]
    limits: dict[str, float]

    @property
    def bound(self) -> str:
        """What limits the call: `copies` if they take most of it; else the first of `limits`, or `launch` if that does.

        The kernel's loop is limited by `limits`; `launch` is what surrounds it, if that takes longer.
        """
        loop, copies = self.parts["main loop"] + self.parts["tail"], self.parts.get("copies", 0.0)
        around = self.seconds - loop - copies
        if copies > max(loop, around):
            return "copies"
        return next(iter(self.limits)) if loop > around else "launch"


class Tiles(NamedTuple):
    """How tiles cover the result.

    ctas: tiles, each once for every CTA that sums a part of it. slots: how many work at once. waves: rounds. edges:
    the share of their elements that lie inside the result. busy: the share of all places of all waves with a tile.
    """

    tile_m: int
    tile_n: int
    ctas: int
    slots: int
    waves: int
    edges: float
    busy: float


class Rival(NamedTuple):
    """A Config that was not chosen: its time by the model that ranks.

    behind: seconds more than the choice takes. grew: of them, those of each part that differs, negative for a shorter
    one. limit: what limits its main loop.
    """

    kernel: str
    config: Any
    seconds: float
    behind: float
    grew: dict[str, float]
    limit: str


class Remedy(NamedTuple):
    """A change of the call that the model takes to be quicker: its seconds for the same work, and the share gained."""

    change: str
    seconds: float
    gain: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the planner takes a kernel and a Config for a product on a GPU, and what follows.

    `str()` is one screen; `as_dict()` is for programs. taken: the problem as the kernel takes it, maybe with copies.
    gpu: the name of the GPU. present: whether it is there. config: of `kernel`. decision: the planner's way to it, in
    sentences. tiles, levels: how it cuts the result, and the traffic of each level of memory. ahead: the bytes that
    copies read and write before the kernel. light: the least time by the data sheet. time: None for kernels that the
    model does not know. rivals: the next best Configs. remedies: what would help, the best first, behind the planner's
    own choice where another was asked for. free_rows: so many rows take as long; 0 if the time is not known.
    """

    problem: Problem
    taken: Problem
    gpu: str
    present: bool
    kernel: str
    config: Any
    reason: str
    decision: tuple[str, ...]
    tiles: Tiles
    levels: tuple[Level, ...]
    ahead: tuple[int, int]
    light: SpeedOfLight
    time: Time | None
    rivals: tuple[Rival, ...]
    remedies: tuple[Remedy, ...]
    free_rows: int

    def as_dict(self) -> dict[str, Any]:
        """For JSON; times are in microseconds."""
        problem = self.problem
        record: dict[str, Any] = {
            "product": str(problem), **product_record(problem),
            "gpu": self.gpu, "present": self.present, "kernel": self.kernel, "config": values_of(self.config),
            "reason": self.reason, "decision": list(self.decision),
            "speed_of_light_us": self.light.seconds * 1e6, "speed_of_light_bound": self.light.bound,
            "tiles": self.tiles._asdict(),
            "levels": [level.as_dict() for level in self.levels],
        }  # fmt: skip
        if self.ahead != (0, 0):
            record["ahead"] = dict(zip(("read_bytes", "written_bytes"), self.ahead, strict=True))
        if self.time is not None:
            record |= {
                "predicted_time_us": self.time.seconds * 1e6, "burst_time_us": self.time.burst * 1e6,
                "predicted_tflops": problem.flops / self.time.seconds / 1e12,
                "parts_us": _us(self.time.parts), "bound": self.time.bound, "limits_us": _us(self.time.limits),
            }  # fmt: skip
        rivals = [
            {
                "kernel": rival.kernel, "config": values_of(rival.config), "time_us": rival.seconds * 1e6,
                "behind_us": rival.behind * 1e6, "grew_us": _us(rival.grew), "limit": rival.limit,
            }
            for rival in self.rivals
        ]  # fmt: skip
        remedies = [
            {"change": remedy.change, "time_us": remedy.seconds * 1e6, "gain": remedy.gain} for remedy in self.remedies
        ]
        return record | {"rivals": rivals, "remedies": remedies, "free_rows": self.free_rows}

    def __str__(self) -> str:
        return text(self.as_dict())


def product_record(problem: Problem) -> dict[str, Any]:
    """What a problem asks for, by the names that all records of products have."""
    expression = problem.epilogue.expression
    return {
        "m": problem.m, "n": problem.n, "k": problem.k,
        "batch": list(problem.batch), "batch_count": problem.batch_count, "batch_invariant": problem.batch_invariant,
        "dtype": problem.a.dtype.name, "b_dtype": problem.b.dtype.name, "out_dtype": problem.out.dtype.name,
        "recipe": problem.recipe, "fast_accumulation": problem.fast_accumulation,
        "zero_a": expression is not None and expression.has_zero, "layout": problem.layout,
        "epilogue": problem.epilogue.text, "gate": expression and expression.gate,
        "outputs": [] if expression is None else list(expression.outputs),
    }  # fmt: skip


def _us(seconds: dict[str, float]) -> dict[str, float]:
    return {name: value * 1e6 for name, value in seconds.items()}
