"""Which Plans are kept: the least recently used one makes room, and nothing else is lost."""

import numpy as np
import pytest

import tilewright as tw
from support.doubles import RecordingBackend
from tilewright import api
from tilewright.planner import planning
from tilewright.planner.plan_cache import PlanCache


class FakePlan:
    """Something to keep."""


def plans(count):
    return [FakePlan() for _ in range(count)]


def test_the_least_recently_used_plan_makes_room():
    cache = PlanCache(capacity=3)
    first, second, third, fourth = plans(4)
    for key, plan in zip("abc", (first, second, third), strict=True):
        cache.add(key, plan)
    cache.used(first)
    cache.add("d", fourth)
    assert [cache.find(key, ()) for key in "abcd"] == [(first,), (), (third,), (fourth,)]
    assert len(cache) == 3


def test_of_one_key_too_the_least_recently_used_makes_room():
    cache = PlanCache(capacity=10, alike=2)
    first, second, third, other = plans(4)
    cache.add("b", other)
    cache.add("a", first)
    cache.add("a", second)
    cache.used(first)
    cache.add("a", third)
    assert cache.find("a", ()) == (first, third)
    assert cache.find("b", ()) == (other,)


def test_plans_of_one_key_leave_one_by_one():
    cache = PlanCache(capacity=2)
    first, second, third = plans(3)
    cache.add("a", first)
    cache.add("a", second)
    cache.add("b", third)
    assert (cache.find("a", ()), cache.find("b", ())) == ((second,), (third,))


def test_a_plan_that_has_left_meanwhile_may_have_been_used():
    cache = PlanCache(capacity=1)
    first, second = plans(2)
    cache.add("a", first)
    cache.add("b", second)
    cache.used(first)
    assert (cache.find("a", ()), cache.find("b", ()), len(cache)) == ((), (second,), 1)


def test_what_cannot_be_hashed_is_a_type_error():
    with pytest.raises(TypeError):
        PlanCache().find(([],), ())


def test_matmul_keeps_the_plans_that_are_used_and_is_never_left_without(monkeypatch):
    monkeypatch.setattr(api, "_plans", PlanCache(capacity=4))
    monkeypatch.setattr(planning, "build", lambda source, arch: None)
    backend = RecordingBackend()

    def multiply(m):
        tw.matmul(np.ones((m, 8), np.float16), np.ones((8, 8), np.float16), backend=backend)

    multiply(8)
    for m in range(9, 20):
        multiply(m)
        multiply(8)  # of all the one in use
    assert len(backend.prepared) == 1 + 11
    multiply(19)
    multiply(18)
    assert len(backend.prepared) == 12
    multiply(9)
    assert len(backend.prepared) == 13
