"""The tuner, on stands without a GPU: what it measures, what it believes, and what it keeps."""

import ctypes
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest

from support.tuning import InstantPool, PretendedStand, Turns
from tilewright.backends.emulated import EmulatedBackend
from tilewright.bench.inputs import Shape
from tilewright.cli.products import problem_of
from tilewright.dtypes import bf16, fp16, fp32
from tilewright.errors import UnavailableError, UnsupportedError
from tilewright.expression.grammar import parse
from tilewright.hardware import A100, H200
from tilewright.jit.cache import build
from tilewright.jit.compile import nvrtc_version
from tilewright.kernels.config_fields import values_of
from tilewright.measure.protocol import Sample, Work
from tilewright.planner.tuned_table import Key
from tilewright.planner.tuning import Settings, tune
from tilewright.planner.tuning.candidates import ranked, untuned, variants
from tilewright.planner.tuning.stand import GpuStand, Stand
from tilewright.problem import Epilogue, Matrix, Problem


def product(m=512, n=768, k=1024, dtype=bf16, **changes):
    matrices = {"a": Matrix(dtype, k, 1), "b": Matrix(dtype, 1, k), "out": Matrix(dtype, n, 1)}
    return Problem(**{"m": m, "n": n, "k": k} | matrices | changes)


SETTINGS = Settings(seconds=inf, settled=Turns(cycles=5))


@pytest.mark.parametrize("seed", range(5))
def test_the_quickest_config_is_found_among_tilings_and_their_variants(seed):
    problem = product()
    first = untuned(problem, H200)
    tilings = list(ranked(first, problem, H200, 40))
    assert len({each.config for each in tilings}) == len(tilings) == 40
    target = tilings[seed * 7 + 1]
    best = next(each.config for each in variants(target, problem, H200) if each.config.group_m == 32)

    def us(config):
        slower = 1.0 if config == best else 1.03 if config == target.config else 1.2
        return 20 * slower

    pool = InstantPool(seed=seed)
    found = tune(problem, PretendedStand(us), pool, settings=replace(SETTINGS, hopeless=inf))  # the model is not asked
    assert found.best[0].config == best
    assert found.best[0].us == pytest.approx(20, rel=0.03)
    assert found.best[0].gain == pytest.approx(1.2, rel=0.03)
    assert found.entry.made_config() == best
    assert (found.entry.m, found.entry.key.n, found.entry.key.k) == (512, 768, 1024)
    assert found.entry.nvrtc == nvrtc_version()
    assert found.measured > 40
    assert found.best[-1].config == first.config
    assert found.best[-1].gain == 1.0


class Scripted(Turns):
    """Measurements that give these gains over the untuned choice, in three cycles."""

    gains = ((1, 1.10, 0.90, 1.004, 1.05), (1, 1.12, 0.98, 0.99, 0.97), (1, 1.14, 0.97, 1.3, 1.07))

    def measure(self, contenders, sensors=None):
        for gains in self.gains:
            yield {name: Sample(1e-5 / gains[int(name)]) for name in contenders}


class HardlyQuicker(Scripted):
    gains = ((1, 1.009, 0.9, 0.98, 1.002),)


def test_the_quickest_comes_first_and_what_is_no_quicker_than_the_untuned_choice_comes_last():
    settings = replace(SETTINGS, settled=Scripted(cycles=3))
    found = tune(product(), PretendedStand(lambda config: 20.0), InstantPool(), settings=settings)
    assert [each.gain for each in found.best] == pytest.approx([1.12, 1.05, 1.0, 1.004, 0.97])


def test_a_gain_that_two_measurements_may_differ_by_changes_nothing():
    problem = product()
    settings = replace(SETTINGS, settled=HardlyQuicker(cycles=1))
    found = tune(problem, PretendedStand(lambda config: 20.0), InstantPool(), settings=settings)
    assert found.entry.made_config() == found.best[0].config == untuned(problem, H200).config
    assert [each.gain for each in found.best] == pytest.approx([1.0, 1.009, 1.002, 0.98, 0.9])


def test_a_search_whose_time_is_over_keeps_the_untuned_choice_and_says_what_it_left_out():
    problem = product()
    stand = PretendedStand(lambda config: 20.0)
    found = tune(problem, stand, InstantPool(), settings=replace(SETTINGS, seconds=0.0))
    first = untuned(problem, H200)
    assert stand.timed == [first.config]
    assert found.entry.made_config() == found.best[0].config == first.config
    others = list(variants(first, problem, H200))
    assert (found.measured, found.hopeless, found.late) == (1, 0, 39 + len(others))


def test_candidates_that_the_model_sees_far_behind_are_not_timed_and_its_first_ones_are():
    problem = product(1024, 1024, 1024)
    tilings = list(ranked(untuned(problem, H200), problem, H200, 40))
    kernel = tilings[0].kernel
    seconds = [kernel.predict(each.config, problem, H200, "recorded").seconds for each in tilings]
    far = [each.config for each, predicted in zip(tilings, seconds, strict=True) if predicted > 1.3 * seconds[0]]
    near = [each.config for each, predicted in zip(tilings, seconds, strict=True) if predicted < 1.1 * seconds[0]]
    assert far
    assert near
    stand = PretendedStand(lambda config: 1e6 * kernel.predict(config, problem, H200, "recorded").seconds, noise=0.0)
    found = tune(problem, stand, InstantPool(), settings=replace(SETTINGS, promising=0))
    assert not set(far) & set(stand.timed)
    assert set(near) <= set(stand.timed)
    assert found.hopeless >= len(far)
    assert found.late == 0
    stand = PretendedStand(stand.us, noise=0.0)
    tune(problem, stand, InstantPool(), settings=replace(SETTINGS, promising=40))
    assert {each.config for each in tilings} <= set(stand.timed)


def test_candidates_far_behind_at_first_sight_are_run_twice_and_no_more():
    problem = product()
    first = untuned(problem, H200).config
    stand = PretendedStand(lambda config: 10.0 if config == first else 20.0, noise=0.0)
    found = tune(problem, stand, InstantPool(), settings=SETTINGS)
    assert found.best == (found.best[0],)
    assert set(stand.runs.values()) == {2, stand.runs[first]}


def test_what_the_seconds_went_into_is_told_and_adds_up():
    found = tune(product(), PretendedStand(lambda config: 20.0), InstantPool(), settings=SETTINGS)
    assert set(found.spent) == {"operands", "compilers", "verification", "timing", "finals", "other"}
    assert all(seconds >= 0 for seconds in found.spent.values())
    assert found.as_dict()["seconds"] == sum(found.as_dict()["spent"].values()) == found.seconds


VARIED = "group_m", "prefetch", "epilogue", "overlap", "wait_depth", "stages"
"""The fields in which variants of a tiling differ."""


def test_finalists_are_the_quickest_of_different_tilings():
    problem = product()
    first = untuned(problem, H200).config

    def tiling(config):
        return replace(config, **dict.fromkeys(VARIED, 0))

    _, second, *_ = ranked(untuned(problem, H200), problem, H200, 40)
    assert len({each.source for each in variants(second, problem, H200)}) >= 4
    stand = PretendedStand(lambda config: 19.0 if tiling(config) == tiling(second.config) else 20.0, noise=0.0)
    found = tune(problem, stand, InstantPool(), settings=SETTINGS)
    challengers = [each.config for each in found.best if each.config != first]
    assert len({tiling(each) for each in challengers}) == len(challengers) == 3  # the untuned choice is the fourth


def test_wrong_results_and_units_that_do_not_compile_are_reported_and_never_timed():
    problem = product()
    tilings = list(ranked(untuned(problem, H200), problem, H200, 40))
    wrong, failing = tilings[3], tilings[5]
    stand = PretendedStand(
        lambda config: 1.0 if config in (wrong.config, failing.config) else 10.0, wrong={wrong.config}
    )
    found = tune(problem, stand, InstantPool(failing={failing.source}), settings=SETTINGS)
    faults = dict(found.faults)
    assert faults[wrong.config] == "it is wrong"
    assert faults[failing.config] == "ptxas is unhappy"
    assert wrong.config not in stand.timed
    assert all(each.config not in faults for each in found.best)


def test_a_wrong_untuned_choice_ends_the_search():
    problem = product()
    first = untuned(problem, H200)
    stand = PretendedStand(lambda config: 1.0, wrong={first.config})
    with pytest.raises(UnavailableError, match="nothing can be tuned: it is wrong"):
        tune(problem, stand, InstantPool(), settings=SETTINGS)
    assert not stand.timed


@pytest.mark.parametrize(("dtype", "hardware", "kernel"), [(fp32, H200, "simt"), (fp16, A100, "mma")])
def test_other_kernels_are_tuned_over_their_configs(dtype, hardware, kernel):
    problem = product(dtype=dtype)
    *_, last = ranked(untuned(problem, hardware), problem, hardware, SETTINGS.promising)
    best = last.config
    stand = PretendedStand(lambda config: 1.0 if config == best else 2.0, hardware=hardware)
    found = tune(problem, stand, InstantPool(), settings=SETTINGS)
    assert (found.entry.kernel, found.entry.config) == (kernel, values_of(best))


def test_a_product_that_no_kernel_takes_is_refused():
    with pytest.raises(UnsupportedError, match="no kernel takes"):
        tune(product(), PretendedStand(lambda config: 1.0, hardware=A100._replace(arch="sm_70")), InstantPool())


def test_progress_never_goes_back_and_ends_at_one():
    told = []
    tune(product(), PretendedStand(lambda _: 1.0), InstantPool(), settings=SETTINGS, report=lambda x, _: told.append(x))
    assert told == sorted(told)
    assert told[-1] == 1.0


EPILOGUES = {
    "plain": Epilogue(),
    "gelu": Epilogue(bias=Matrix(fp16, 0, 1), activation="gelu"),
    "c": Epilogue(c=Matrix(fp16, 48, 1)),
}
SUMS = Epilogue(expression=parse("relu(acc)", [])._replace(outputs=("column_sums",)), outputs=(Matrix(fp32, 0, 1),))

STRIDED = {"a": Matrix(fp16, -150, 2), "b": Matrix(fp16, 1, 75, alignment=2), "out": Matrix(fp16, 1, 44)}
BATCHED = {
    "a": Matrix(fp16, 40, 1, (2880, 960)),
    "b": Matrix(fp16, 1, 40, (0, 640)),
    "out": Matrix(fp16, 16, 1, (1152, 384)),
}

SMALL = {
    **{name: product(40, 48, 72, fp16, epilogue=epilogue) for name, epilogue in EPILOGUES.items()},
    "strides": product(40, 48, 72, fp16, **STRIDED),
    "batch": product(24, 16, 40, fp16, batch=(2, 3), **BATCHED),
    "fp32": product(20, 24, 12, fp32),
    **{
        text: problem_of(Shape(40, 48, 272, text), bias=False, activation=None)
        for text in (
            "int8",
            "int8 row",
            "fp8_e4m3",
            "fp8_e4m3 by fp8_e5m2 tensor fast -> fp16",
            "fp8_e5m2 row -> fp32",
            "fp8_e4m3 1x128_128x128",
            "fp8_e4m3 1x128_1x128",
        )
    },
}


class LastElement:
    """A backend's memory in which the last element of each larger read is another."""

    def __init__(self, memory, value):
        self.copy_in, self.free, self._memory, self._value = memory.copy_in, memory.free, memory, value

    def copy_out(self, host, address, nbytes):
        self._memory.copy_out(host, address, nbytes)
        if nbytes > self._value.nbytes:
            ctypes.memmove(host + nbytes - self._value.nbytes, self._value.ctypes.data, self._value.nbytes)


@pytest.mark.parametrize("name", SMALL)
def test_a_stand_finds_the_kernel_right_and_notices_one_wrong_element(name):
    backend = EmulatedBackend()
    problem = SMALL[name]
    candidate = untuned(problem, backend.hardware)
    compiled = build(candidate.source, backend.arch)
    with Stand(problem, backend, sets=2) as stand:
        assert stand.fault(candidate, compiled) == ""
        assert stand.fault(candidate, compiled) == ""
        for value in (1e4, np.nan) if problem.out.dtype.kind == "float" else (1e4, -1):
            stand._memory = LastElement(backend.memory, np.array([value], problem.out.dtype.numpy_dtype))
            assert "untuned choice" in stand.fault(candidate, compiled)


def test_of_a_product_that_may_be_copied_all_ways_are_measured_as_plans_run_them():
    backend = EmulatedBackend()
    problem = product(16, 48, 75, fp16)
    of_all = list(ranked(untuned(problem, H200), problem, H200, 30))
    candidates = {each.kernel.name: each for each in reversed(of_all)}  # the model's first, which no search leaves out
    assert {name: each.copied and each.copied.copies for name, each in candidates.items()} == {
        "gemv": (), "wgmma": ("a", "b"), "mma": ()
    }  # fmt: skip
    with Stand(problem, backend) as stand:
        for candidate in candidates.values():
            assert stand.fault(candidate, build(candidate.source, backend.arch)) == ""
    copying = candidates["wgmma"]
    others = list(variants(copying, problem, H200))
    assert others
    assert all(each.copied == copying.copied for each in others)
    kept = tune(
        problem, PretendedStand(lambda config: 1 + 9 * (config != copying.config)), InstantPool(), settings=SETTINGS
    )
    assert (kept.entry.key, kept.entry.kernel) == (Key.of(problem), "wgmma")


def test_a_stand_has_room_for_the_sums_of_groups():
    backend = EmulatedBackend(checks=True)
    problem = product(40, 48, 72, fp16, epilogue=SUMS)
    candidate = untuned(problem, backend.hardware)
    with Stand(problem, backend) as stand:
        assert stand.fault(candidate, build(candidate.source, backend.arch)) == ""


def test_a_stand_notices_a_kernel_of_another_product():
    backend = EmulatedBackend()
    problem, other = product(40, 48, 72, fp16), product(40, 48, 64, fp16, a=Matrix(fp16, 72, 1), b=Matrix(fp16, 1, 72))
    wrong = untuned(other, backend.hardware)
    with Stand(problem, backend) as stand:
        fault = stand.fault(wrong, build(wrong.source, backend.arch))
    assert "of 144 sampled elements are wrong: out[" in fault


@pytest.mark.parametrize(("ms", "launches"), [(13.0, [2]), (0.3, [2, 4]), (0.01, [2, 80])])
def test_long_work_is_its_own_graph_and_short_work_is_repeated_in_one(monkeypatch, ms, launches):
    made, open_graphs = [], []

    @contextmanager
    def graph_work(launch, count):
        made.append(count)
        open_graphs.append(count)
        yield Work(lambda times: times * count * ms * 1e-3, count)
        open_graphs.remove(count)

    monkeypatch.setattr("tilewright.planner.tuning.stand.graph_work", graph_work)
    with ExitStack() as until:
        work = GpuStand.replays(SimpleNamespace(sets=2), lambda number, stream: None, until)
        assert made == launches
        assert open_graphs == [work.launches] == launches[-1:]
    assert open_graphs == []
