"""Plans for another number of rows: made of an earlier one, they equal those that are made of nothing."""

from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from support.families import Loaded, afresh, all_compiled, facts, outcome
from tilewright import api
from tilewright.hardware import A100, H200
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.registry import FEW_ROWS
from tilewright.model.cost import found_of
from tilewright.model.ranking import ranking
from tilewright.planner import family, tuned
from tilewright.planner.choose import Offers
from tilewright.planner.tuned_table import Entry, Key

MOST_ROWS = 600

BEST = tuned.best
"""What tests else replace."""


def padded(rows, columns, dtype, transposed, padding, offset):
    """A matrix whose rows, or columns, are `padding` elements apart, from element `offset` of its memory on."""
    if transposed:
        return padded(columns, rows, dtype, False, padding, offset).T
    memory = np.zeros(rows * (columns + padding) + offset + 8, dtype)
    memory = memory[-memory.ctypes.data % 16 // memory.itemsize + offset :]
    return memory[: rows * (columns + padding)].reshape(rows, columns + padding)[:, :columns]


def mostly(usual, *others):
    """Six times in seven `usual`, so that all of a product's parts often are."""
    return st.integers(0, 6).flatmap(lambda die: st.just(usual) if die else st.sampled_from(others))


matrices = st.tuples(st.booleans(), mostly(0, 8, 3), mostly(0, 1, 4))
rowwise = st.tuples(mostly(False, True), mostly(0, 8, 3), mostly(0, 1, 4))
extents = mostly(8, 1).flatmap(lambda step: st.integers(1, 40).map(lambda count: count * step))


@st.composite
def products(draw):
    """A function of a number of rows that gives the arguments of `plan` for so many."""
    n, k = draw(extents), draw(extents)
    dtype, result = (draw(mostly(np.float16, np.float32, ml_dtypes.bfloat16)) for _ in range(2))
    a = padded(MOST_ROWS, k, dtype, *draw(matrices))
    b = padded(k, n, dtype, *draw(matrices))
    out = draw(st.none() | st.builds(lambda form: padded(MOST_ROWS, n, result, *form), rowwise))
    c = draw(mostly("none", "rows", "row", "column", "out"))
    c = {
        "none": None,
        "rows": np.zeros((MOST_ROWS, n), dtype),
        "row": np.zeros((1, n), dtype),
        "column": np.zeros((MOST_ROWS, 1), dtype),
        "out": out,
    }[c]
    bias = draw(mostly(None, np.zeros(n, dtype), np.zeros((MOST_ROWS, 1), dtype)))
    options = {
        "alpha": draw(mostly(1.0, 2.0, 0.0)),
        "activation": draw(mostly(None, "relu", "gelu")),
    }

    if out is None and draw(mostly(False, True)):
        b = b[None]

    def arguments(rows, first):
        taken = [array if array is None or len(array) == 1 else array[first : first + rows] for array in (c, out)]
        added = bias[:rows] if bias is not None and bias.ndim == 2 else bias
        return (a[first : first + rows], b, taken[0]), options | {"out": taken[1], "bias": added}

    return arguments


several = st.lists(st.integers(1, MOST_ROWS - 8), min_size=2, max_size=4)
near = st.integers(1, MOST_ROWS - 48).flatmap(lambda m: st.lists(st.integers(m, m + 40), min_size=3, max_size=4))
firsts = mostly(0, 8, 1)


@settings(max_examples=400)
@given(products(), several | near, firsts, st.sampled_from([H200, H200, A100]))
def test_a_plan_of_a_family_equals_one_from_nothing(arguments, rows, last_first, gpu):
    backend = Loaded(gpu, host_in_place=True)
    with all_compiled():
        for number, first in zip(rows, [0] * (len(rows) - 1) + [last_first], strict=True):

            def plan(number=number, first=first):
                arrays, options = arguments(number, first)
                return facts(tw.plan(*arrays, **options, backend=backend), backend)

            assert outcome(plan) == afresh(plan)


def f16(*shape):
    return np.zeros(shape, np.float16)


@pytest.fixture
def backend():
    with all_compiled():
        yield Loaded(H200, own_streams=(0, 7), host_in_place=True)


def test_of_a_family_nothing_is_bound_again(backend, monkeypatch):
    a, b, c, out = f16(64, 32), f16(32, 48), f16(64, 48), f16(64, 48)
    tw.matmul(a, b, backend=backend)
    tw.matmul(a[:40], b, c[:40], bias=f16(48), out=out[:40], backend=backend)
    monkeypatch.setattr(api, "_request", mock.Mock(side_effect=AssertionError("bound again")))
    for rows in (56, 48, 31, 2):
        tw.matmul(a[:rows], b, backend=backend)
        tw.matmul(a[:rows], b, c[:rows], bias=f16(48), out=out[:rows], backend=backend)
    pointers, alpha, beta, _ = backend.launched[-1]
    assert (alpha, beta) == (1.0, 1.0)
    assert set(pointers) >= {a.ctypes.data, b.ctypes.data, c.ctypes.data, out.ctypes.data}
    assert tw.matmul(a[:24], b, backend=backend).shape == (24, 48)
    with pytest.raises(AssertionError, match="bound again"):  # a row alone has other strides
        tw.matmul(a[:1], b, backend=backend)


def test_other_alignments_and_batches_are_other_families(backend):
    memory, b = f16(64 * 512 + 8), f16(512, 48)
    memory = memory[-memory.ctypes.data % 16 // 2 :]
    for offset, copies in ((0, False), (1, True), (0, False)):
        for rows in (48, 40, 32):
            a = memory[offset : offset + rows * 512].reshape(rows, 512)
            assert ("each call copies a" in tw.plan(a, b, kernel="wgmma", backend=backend).reason) is copies
            assert ("each call copies a" in tw.plan(a, b, backend=backend).reason) is copies
            assert tw.matmul(a, b[None], backend=backend).shape == (1, rows, 48)


def test_copies_have_the_size_of_each_number_of_rows(backend, monkeypatch):
    a, b = f16(640, 1001), f16(1001, 512)

    def planned(rows):
        return facts(tw.plan(a[:rows], b, backend=backend), backend)

    afresh_of = {rows: afresh(lambda rows=rows: planned(rows)) for rows in (640, 633, 600, 313, 24, 17)}
    assert all("each call copies a" in found["plan"][3] for found in afresh_of.values())
    assert all(len(found["launches"][1]) == 2 for found in afresh_of.values())
    planned(512)
    monkeypatch.setattr(api, "_request", mock.Mock(side_effect=AssertionError("bound again")))
    assert {rows: planned(rows) for rows in afresh_of} == afresh_of


@pytest.mark.parametrize(
    "call",
    [
        lambda tw, a, b, out, go: go(a[:9], b, out=out[:8]),
        lambda tw, a, b, out, go: go(a[:9], b[:16], out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b.astype(np.float32), out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b, out=np.broadcast_to(out[:1], (9, 48))),
        lambda tw, a, b, out, go: go(out[1:10, :32], b, out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b, out[1:10], out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b, out[:8], out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b, bias=out[:8, 0], out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b, bias=out[:8, :1], out=out[:9]),
        lambda tw, a, b, out, go: go(a[:9], b, out=out[:9], stream=9),
        lambda tw, a, b, out, go: go(a[:9], b, out=out[:9], activation=["gelu"]),
        lambda tw, a, b, out, go: go(a[:9], b, out=out[:9], beta=2.0),
        lambda tw, a, b, out, go: go(a[:9], b, out=out[:9], out_dtype="fp32"),
        lambda tw, a, b, out, go: go("a", b, out=out[:9]),
    ],
)
def test_errors_are_those_of_planning_from_nothing(backend, call):
    a, b, out = f16(64, 32), f16(32, 48), f16(64, 48)

    def go(*arrays, **options):
        return tw.plan(*arrays, **options, backend=backend)

    for added in ({}, {"bias": f16(48)}, {"bias": f16(8, 1)}):
        go(a[:8], b, **added, out=out[:8])
        go(a[:8], b, f16(8, 48), **added, out=out[:8])
    found = outcome(lambda: call(tw, a, b, out, go))
    assert isinstance(found, tuple)
    assert found == afresh(lambda: call(tw, a, b, out, go))


def test_c_may_be_out_and_views_may_be_interleaved(backend):
    memory, b = f16(64, 96), f16(32, 48)
    for rows in (32, 24, 16):
        tw.matmul(memory[:rows, :32], b, memory[:rows, 48:], out=memory[:rows, 48:], backend=backend)
    assert len(backend.launched) == 3


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The only tables of tuned Configs."""
    store = tuned.Store(tuned.label(H200), [tmp_path])
    monkeypatch.setattr(tuned, "_SHIPPED", tmp_path / "none")
    monkeypatch.setattr(tuned, "store", lambda gpu: store)
    monkeypatch.setattr(tuned, "best", BEST)
    return store


def entry_of(plan, config):
    return Entry(Key.of(plan.problem), plan.problem.m, plan.kernel.name, values_of(config), 1.0, "2026-01-01", "13.0")


def test_what_was_tuned_meanwhile_counts_for_its_rows_and_near_ones(backend, kept):
    a, b = f16(640, 64), f16(64, 512)

    def planned(rows):
        return tw.plan(a[:rows], b, backend=backend)

    planned(600)
    untuned = {rows: planned(rows) for rows in range(360, 385)}
    configs = untuned[380].kernel.configs(untuned[380].problem, H200)
    near, far = (next(other for other in order if other != untuned[380].config) for order in (configs, configs[::-1]))
    kept.add([entry_of(untuned[380], near)])
    assert {rows for rows in untuned if planned(rows).config == near} >= {380, 377, 384}
    assert "tuned for 380 rows" in planned(378).reason
    kept.add([entry_of(untuned[380], far)], replaces=True)
    assert {rows for rows in untuned if planned(rows).config == far} == {380}
    assert planned(378).config == untuned[378].config


def counted_choices(monkeypatch):
    """A Mock that stands for `Offers.choice`."""
    chosen = mock.create_autospec(Offers.choice, side_effect=Offers.choice)
    monkeypatch.setattr(Offers, "choice", chosen)
    return chosen


def test_of_a_family_with_tuned_rows_each_choice_is_made_once(backend, kept, monkeypatch):
    a, b = f16(640, 64), f16(64, 512)
    first = tw.plan(a[:600], b, backend=backend)
    kept.add([entry_of(first, first.config)])
    chosen = counted_choices(monkeypatch)
    for rows in (600, 593, 595, 599, 600, 64, 63):
        tw.plan(a[:rows], b, backend=backend)
    assert [call.args[1].m for call in chosen.call_args_list] == [600, 593, 64]


def test_a_kernel_that_is_not_loaded_is_not_taken_from_a_family_while_capturing(backend, monkeypatch):
    a, b = f16(600, 32), f16(32, 512)
    tw.plan(a[:8], b, backend=backend)
    monkeypatch.setattr(backend, "has_loaded", lambda compiled: False)
    backend.captured_streams = (0,)
    with pytest.raises(RuntimeError, match="captured into a CUDA graph"):
        tw.plan(a, b, backend=backend)


def test_numbers_of_rows_that_come_once_do_not_drive_out_plans_of_others(backend):
    a, b = f16(6000, 32), f16(32, 48)
    tw.matmul(a[:640], b, backend=backend)
    for rows in range(641, 5641):
        tw.matmul(a[:rows], b, backend=backend)
    assert len(api._plans) == 1
    prepared = len(backend.prepared)
    for _ in range(3):
        tw.matmul(a[:640], b, backend=backend)
        tw.matmul(a[:5600], b, backend=backend)
        assert len(api._plans) == 2
        assert len(backend.prepared) - prepared == 1
    assert len(backend.launched) == 1 + 5000 + 6


def test_neither_families_nor_their_choices_grow_without_end(backend, monkeypatch):
    monkeypatch.setattr(family, "MOST", 3)
    monkeypatch.setattr(family, "MOST_CHOICES", 2)
    a = f16(64, 32)
    for columns in (8, 16, 24, 32, 40):
        for rows in (64, 48, 32, 16):
            tw.plan(a[:rows], f16(32, columns), backend=backend)
            tw.matmul(a[:rows], f16(32, columns), backend=backend)
    known = api._families._known
    assert 1 <= len(known) <= 3
    assert all(len(each._known.choices) <= 2 and len(each._launches) <= 2 for each in known.values())
    assert all(len(each._met) <= 2 for each in known.values())


@pytest.mark.parametrize("columns", [8, 16, 24])
def test_launches_are_as_few_as_configs_and_remainders_of_rows(backend, columns):
    a, b = f16(3000, 32), f16(32, columns)
    for rows in range(2, 3001):
        tw.plan(a[:rows], b, backend=backend)
    (known,) = api._families._known.values()
    launches = [each._known for each in known._launches.values()]
    assert sum(map(len, launches)) <= 4 * len(launches) + FEW_ROWS
    assert len(launches) < 100


def test_of_ten_thousand_numbers_of_rows_the_model_is_asked_about_every_eighth(backend, monkeypatch):
    asked, chosen = mock.Mock(side_effect=found_of), counted_choices(monkeypatch)
    monkeypatch.setattr(ranking, "found_of", asked)
    rows = range(64, 10_064)
    a, b, out = f16(rows[-1], 64), f16(64, 96), f16(rows[-1], 96)
    for m in np.random.default_rng(0).permutation(rows).tolist():
        tw.plan(a[:m], b, out=out[:m], backend=backend)
    (known,) = api._families._known.values()
    assert chosen.call_count == len(known._known.choices) + 1
    assert asked.call_count <= len(known._known.choices) + 1 <= len(rows) // 8 + 3
