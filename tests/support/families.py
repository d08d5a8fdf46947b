"""Plans that are made of an earlier one or of nothing, without a compiler, and all that tells them apart."""

from contextlib import contextmanager
from unittest import mock

from support.doubles import RecordingBackend
from tilewright import api
from tilewright.errors import TilewrightError
from tilewright.planner import family, planning
from tilewright.planner.family import Families
from tilewright.planner.plan_cache import PlanCache


class Loaded(RecordingBackend):
    """Has loaded every kernel."""

    def has_loaded(self, compiled):
        return True


@contextmanager
def all_compiled():
    """Every kernel is in memory, and nothing of earlier calls is known."""
    with (
        mock.patch.object(planning, "in_memory", lambda unit, arch: (unit, arch)),
        mock.patch.object(family, "in_memory", lambda unit, arch: (unit, arch)),
        mock.patch.object(api, "_families", Families()),
        mock.patch.object(api, "_plans", PlanCache()),
    ):
        yield


def afresh(function):
    """What a function returns, or the error that it raises, if no family is known."""
    with mock.patch.object(api, "_families", Families()):
        return outcome(function)


def outcome(function):
    try:
        return function()
    except (TilewrightError, ValueError) as error:
        return type(error), str(error)


def facts(plan, backend):
    """All that a call of a Plan depends on, which was the last to be made."""
    launches = [
        (compiled, shape, arguments.tensor_maps, bytes(arguments.structure()))
        for compiled, shape, arguments in backend.prepared
    ]
    backend.prepared.clear()
    return {
        "plan": (plan.problem, plan.kernel, plan.config, plan.reason, plan.alpha, plan.beta),
        "launches": (plan.compiled, launches),
        "call": (plan.slots, plan.pointers, plan._roles),
        "form": {name: value for name, value in vars(plan.form).items() if not callable(value)},
    }
