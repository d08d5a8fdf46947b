"""Plans for a range of rows: what is compiled before, that nothing is afterwards, and what is refused."""

import copy
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilewright as tw
from support.doubles import RecordingBackend, Shared
from tilewright import api
from tilewright.arrays import describe
from tilewright.backends.emulated import EmulatedBackend
from tilewright.bench.inputs import Shape
from tilewright.cli.options import ActivationName
from tilewright.cli.products import problem_of
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.jit import cache
from tilewright.jit.compile import CompilationError
from tilewright.jit.pool import CompilerPool
from tilewright.planner import ahead, call_arguments, family, planning, range_plan, slots, tuned
from tilewright.planner.family import Families
from tilewright.planner.tuning import ensure


def f16(*shape):
    return np.ones(shape, np.float16)


class Recording(RecordingBackend):
    """Knows what was compiled."""

    compiled: list[object]


@pytest.fixture
def backend(monkeypatch):
    """An H200 that runs nothing, on which every unit is its own kernel, and compiled ones are remembered."""
    built = {}
    monkeypatch.setattr(cache, "_built", built)
    monkeypatch.setattr(cache.KernelCache, "find", lambda *_: None)
    compiled = []

    def build_all(pool, units, arch):
        for unit in units:
            compiled.append(unit)
            built[unit, arch] = unit
            yield unit, unit

    def build(unit, arch):
        compiled.append(unit)
        return built.setdefault((unit, arch), unit)

    monkeypatch.setattr(CompilerPool, "build_all", build_all)
    monkeypatch.setattr(planning, "build", build)
    recording = Recording(H200, host_in_place=True)
    recording.compiled = compiled
    return recording


def test_no_call_in_the_range_compiles_loads_or_asks_about_a_capture(backend):
    rows = range(1, 300)
    plan = tw.plan(f16(7, 4096), f16(4096, 512), m=rows, backend=backend)
    assert isinstance(plan, tw.RangePlan)
    assert len(backend.compiled) == len(set(backend.compiled)) == plan.kernels > 3
    loaded = len({id(compiled) for compiled, *_ in backend.prepared})
    assert loaded == plan.kernels
    backend.captured_streams = (0,)
    done = len(backend.compiled)
    for m in (*rows, 5, 299):
        out = plan(f16(m, 4096), f16(4096, 512))
        assert out.shape == (m, 512)
    for m in rows:
        tw.matmul(f16(m, 4096), f16(4096, 512), backend=backend)
    assert len(backend.compiled) == done
    assert len({id(compiled) for compiled, *_ in backend.prepared}) == loaded
    assert len(backend.launched) == 2 * len(rows) + 2


def arguments_of(draw):
    """A function of a number of rows that gives a product's arguments for so many, and the most rows that it has."""
    n, k = 16 * draw(st.integers(1, 12)), draw(st.integers(8, 200))
    most = draw(st.sampled_from([15, 18, 40, 300]))
    wide, transposed = draw(st.sampled_from([0, 1, 8])), draw(st.booleans())
    a, c, out = f16(most, k + wide)[:, :k], f16(most, n), f16(most, n + wide)[:, :n]
    b, bias, factor = f16(n, k).T if transposed else f16(k, n), f16(n), np.ones((most, 1), np.float32)
    kind = draw(st.sampled_from(["plain", "bias", "c", "out", "expression", "gate", "stacked", "sums", "invariant"]))

    def arguments(m):
        options: dict[str, Any] = {
            "plain": {},
            "bias": {"bias": bias, "activation": "gelu"},
            "c": {"beta": 0.5},
            "out": {"out": out[:m]},
            "expression": {"epilogue": "acc * s + 1", "operands": {"s": factor[:m]}},
            "gate": {"gate": "interleaved", "activation": "silu"},
            "stacked": {"gate": "stacked", "activation": "silu"},
            "sums": {"epilogue": "acc", "outputs": {"column_sums": np.zeros(n, np.float32)}},
            "invariant": {"batch_invariant": True},
        }[kind]
        return ((a[:m], b, c[:m]) if kind == "c" else (a[:m], b)), options

    return arguments, most


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_the_product_no_call_in_the_range_compiles_or_loads(backend, data):
    arguments, most = arguments_of(data.draw)
    rows = range(data.draw(st.integers(0, 9)), most + 1, data.draw(st.sampled_from([1, 3, 8])))
    arrays, options = arguments(most)
    backend.captured_streams = ()
    plan = tw.plan(*arrays, **options, m=rows, backend=backend)
    backend.captured_streams = (0,)  # in which nothing may be compiled or loaded
    compiled, loaded = len(backend.compiled), {id(kernel) for kernel, *_ in backend.prepared}
    for m in data.draw(st.permutations(rows)):
        arrays, options = arguments(m)
        columns = arrays[1].shape[1] // (2 if "gate" in options else 1)
        known = {name: value for name, value in options.items() if name in ("bias", "operands", "outputs", "out")}
        assert plan(*arrays, **known).shape == (m, columns)
        if m:
            tw.matmul(*arrays, **options, backend=backend)
    assert len(backend.compiled) == compiled
    assert {id(kernel) for kernel, *_ in backend.prepared} <= loaded


@pytest.mark.parametrize(("n", "k"), [(512, 256), (96, 1000), (40, 333)])
@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize(("bias", "activation"), [(False, None), (True, ActivationName.gelu)])
def test_after_compile_for_so_many_rows_packed_operands_need_nothing_else(backend, n, k, layout, bias, activation):
    rows = range(1, 300, 1 if bias else 3)
    units = ahead.units_of((problem_of(Shape(m, n, k, "fp16", layout), bias, activation) for m in rows), H200)
    a, b, out = f16(rows[-1], k), f16(n, k).T if layout == "nt" else f16(k, n), f16(rows[-1], n)
    options = {"bias": f16(n), "activation": "gelu"} if bias else {}
    for m in rows:
        tw.matmul(a[:m].copy(), b, out=out[:m], backend=backend, **options)
    assert backend.compiled
    assert set(backend.compiled) <= set(units)


def test_no_rows_give_an_empty_out(backend):
    a, b, out = f16(7, 64), f16(64, 32), f16(7, 64)[:, :32]
    plan = tw.plan(a, b, out=out, bias=f16(32), m=range(8), backend=backend)
    for m in (0, 5, 0):
        launched = len(backend.launched)
        assert plan(a[:m], b, out=out[:m], bias=f16(32)).shape == (m, 32)
        assert len(backend.launched) == launched + (m > 0)
    assert plan(f16(0, 64), b, bias=f16(32), out=f16(0, 32)).shape == (0, 32)
    with pytest.raises(ValueError, match="make another plan"):
        plan(f16(0, 64), f16(64, 40), bias=f16(40), out=f16(0, 40))
    with pytest.raises(ValueError, match="a is not as the plan wants it: fp32"):
        plan(a[:0].astype(np.float32), b.astype(np.float32), bias=f16(32), out=out[:0])
    alone = tw.plan(a, b, m=range(1), backend=backend)
    assert (alone.kernels, alone(a[:0], b).shape) == (0, (0, 32))


def test_the_rows_of_no_rows_are_summed_to_zeros():
    a, b, sums = f16(8, 16), f16(16, 24), np.full(24, 7, np.float32)
    plan = tw.plan(a, b, epilogue="acc", outputs={"column_sums": sums}, m=range(9), backend=EmulatedBackend())
    plan(a[:0], b, outputs={"column_sums": sums})
    np.testing.assert_array_equal(sums, 0)


def test_a_new_number_of_rows_is_bound_and_chosen_for_once(backend, monkeypatch):
    a, b, out = f16(600, 64), f16(64, 512), f16(600, 512)
    plan = tw.plan(a, b, m=range(601), backend=backend)
    for arrays in ((a[:9], b), (a[:7], b)):
        plan(*arrays)
        plan(*arrays, out=out[: len(arrays[0])])
    monkeypatch.setattr(api, "_request", mock.Mock(side_effect=AssertionError("bound again")))
    monkeypatch.setattr(planning, "choose", mock.Mock(side_effect=AssertionError("chosen again")))
    monkeypatch.setattr(family, "Offers", mock.Mock(side_effect=AssertionError("chosen again")))
    for m in (2, 16, 17, 300, 600):
        assert plan(a[:m], b).shape == (m, 512)
        assert plan(a[:m], b, out=out[:m]).base is out
    with pytest.raises(AssertionError, match="bound again"):
        plan(a[:1], b)


def test_the_plan_of_a_number_of_rows_is_kept_when_it_comes_again(backend, monkeypatch):
    a, b = f16(600, 64), f16(64, 512)
    plan = tw.plan(a, b, m=range(64, 601), backend=backend)

    def prepared(rows):
        before = len(backend.prepared)
        plan(a[:rows], b)
        return len(backend.prepared) - before

    assert [prepared(rows) for rows in (64, 64)] == [1, 0]  # the first one of all comes from planning
    assert [prepared(rows) for rows in (100, 101, 100, 100, 101, 101)] == [1, 1, 1, 0, 1, 0]
    monkeypatch.setattr(range_plan, "MOST_PLANS", 2)
    for rows in (*range(200, 216), *range(200, 216)):
        prepared(rows)
    assert 1 <= len(plan._plans) <= 2


def test_copies_of_a_range_plan_are_itself():
    plan = tw.plan(f16(4, 8), f16(8, 8), m=range(1, 9), backend=RecordingBackend(H200, host_in_place=True))
    assert copy.copy(plan) is copy.deepcopy({"layer": plan})["layer"] is plan


def test_plans_that_no_family_makes_are_kept_at_once(backend):
    """Those of single rows, whose strides mean nothing."""
    plan = tw.plan(f16(7, 64), f16(64, 512), m=range(1, 8), backend=backend)
    for expected in (1, 0, 0):
        before = len(backend.prepared)
        plan(f16(1, 64), f16(64, 512))
        assert len(backend.prepared) - before == expected


def test_choices_that_differ_in_rows_alone_are_one(backend, monkeypatch):
    made = mock.Mock(wraps=Families)
    monkeypatch.setattr(planning, "Families", made)
    tw.plan(f16(7, 64), f16(64, 512), m=range(2, 1001), backend=backend)
    (choices,) = made.call_args.args
    assert list(choices) == list(range(2, 1001))
    assert len({id(choice) for choice in choices.values()}) < 60


@pytest.mark.parametrize("rows", [3, 4])
def test_an_a_may_say_its_rows_by_dlpack_alone(backend, rows):
    plan = tw.plan(f16(4, 8), f16(8, 8), m=range(1, 9), backend=backend)
    assert plan(Shared(f16(rows, 8)), f16(8, 8)).shape == (rows, 8)


def test_the_arrays_of_a_first_call_are_read_once(backend, monkeypatch):
    a, b, c, out = f16(64, 32), f16(32, 48), f16(64, 48), f16(64, 48)
    plan = tw.plan(a, b, c, m=range(2, 65), backend=backend)
    plan(a, b, c)
    described = mock.Mock(side_effect=describe)
    for module in (call_arguments, slots):
        monkeypatch.setattr(module, "describe", described)
    plan(a[:40], b, c[:40], alpha=2.0, beta=3.0, out=out[:40])
    assert described.call_count == 4
    pointers, alpha, beta, _ = backend.launched[-1]
    assert (alpha, beta) == (2.0, 3.0)
    assert set(pointers) >= {array.ctypes.data for array in (a, b, c, out)}
    with pytest.raises(ValueError, match="for the operands a, b, c and called with a, b "):
        plan(a[:24], b, c[:24], beta=0.0)
    with pytest.raises(ValueError, match="alpha=0"):
        plan(a[:16], b, c[:16], alpha=0.0)


@pytest.mark.parametrize("step", [1, 7])
def test_strides_addends_and_outs_are_those_of_the_arrays(backend, step):
    wide, bias = f16(40, 1024), np.ones(64, np.float32)
    a, out = wide[:, :512], f16(40, 128)[:, :64]
    rows = range(1, 41, step)
    plan = tw.plan(
        a, f16(64, 512).T, f16(40, 64), bias=bias, out=out, activation="gelu", m=rows, backend=backend
    )  # fmt: skip
    backend.captured_streams = (0,)
    for m in rows:
        result = plan(a[:m], f16(64, 512).T, f16(m, 64), bias=bias, out=out[:m], beta=2.0)
        assert np.shares_memory(result, out)
    assert [call[1:3] for call in backend.launched] == [(1.0, 2.0)] * len(rows)


def test_alpha_and_beta_are_the_defaults_of_its_calls():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((8, 16), (16, 24), (8, 24)))
    backend = EmulatedBackend()
    alpha: Any = np.array(0.5)
    plan = tw.plan(a, b, c, alpha=alpha, beta=2.0, m=range(1, 9), backend=backend)
    alpha[...] = 0.0  # read once
    for m in (1, 3):
        expected = tw.matmul(a[:m], b, c[:m], alpha=0.5, beta=2.0, backend=backend)
        np.testing.assert_array_equal(plan(a[:m], b, c[:m]), expected)


@pytest.mark.parametrize("first", [0, 1])
def test_where_beta_is_zero_c_may_be_left_out_or_not(first):
    a, b, c = np.ones((8, 16), np.float32), np.ones((16, 24), np.float32), np.ones((8, 24), np.float32)
    plan = tw.plan(a, b, c, beta=0.0, m=range(1, 9), backend=EmulatedBackend())
    for with_c in (first, 1 - first):
        np.testing.assert_array_equal(plan(*((a, b, c) if with_c else (a, b))), a @ b)


def test_the_results_are_those_of_matmul():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32).astype(np.float16) for shape in ((40, 72), (72, 48)))
    backend = EmulatedBackend()
    plan = tw.plan(a, b, m=range(1, 41, 13), backend=backend)
    for m in range(1, 41, 13):
        np.testing.assert_array_equal(plan(a[:m], b), tw.matmul(a[:m], b, backend=backend))
    kernels = f"{plan.kernels} kernel{'' if plan.kernels == 1 else 's'};"
    assert repr(plan).startswith(f"<RangePlan: m=range(1, 41, 13), {kernels} ")


def test_a_kernel_that_does_not_compile_is_an_error_of_the_plan(backend, monkeypatch):
    failing = CompilationError("ptxas is unhappy", "log")
    monkeypatch.setattr(CompilerPool, "build_all", lambda self, units, arch: ((unit, failing) for unit in units))
    with pytest.raises(CompilationError, match="ptxas is unhappy"):
        tw.plan(f16(7, 4096), f16(4096, 512), m=range(1, 300), backend=backend)


@pytest.mark.parametrize(
    ("error", "message", "a", "arguments"),
    [
        (TypeError, r"m=7 is not a range: pass one, such as range\(1, 4097\)", f16(8, 8), {"m": 7}),
        (
            ValueError,
            r"m=range\(-1, 4\) must have 1 to 1,048,576 numbers of rows, none below 0",
            f16(8, 8),
            {"m": range(-1, 4)},
        ),
        (ValueError, r"m=range\(1, 1\) must have", f16(8, 8), {"m": range(1, 1)}),
        (ValueError, r"m=range\(1, 2097152\) must have", f16(8, 8), {"m": range(1, 1 << 21)}),
        (
            ValueError,
            r"a has shape \(2, 8, 8\), and m= is for 2-D arrays: pass a.resh",
            f16(2, 8, 8),
            {"m": range(1, 4)},
        ),
        (ValueError, r"a has shape \(8,\), and m= is for 2-D arrays: pass a.resh", f16(8), {"m": range(1, 4)}),
        (ValueError, r"a has shape \(0, 8\), and the strides of no rows", f16(0, 8), {"m": range(1, 4)}),
        (ValueError, r"kernel= and m=range\(1, 4\) were given", f16(8, 8), {"m": range(1, 4), "kernel": "mma"}),
        (ValueError, r"config= and m=", f16(8, 8), {"m": range(1, 4), "config": tw.MmaConfig()}),
        (ValueError, r"tune= and m=", f16(8, 8), {"m": range(1, 4), "tune": True}),
    ],
)
def test_bad_ranges_are_refused(backend, error, message, a, arguments):
    with pytest.raises(error, match=message):
        tw.plan(a, f16(8, 8), backend=backend, **arguments)
    with pytest.raises(ValueError, match=r"b has shape \(8,\), and m= is for 2-D arrays: pass b\.reshape\(-1, 1\)"):
        tw.plan(f16(8, 8), f16(8), m=range(1, 4), backend=backend)
    assert not backend.compiled


def test_other_arrays_than_those_of_the_plan_are_refused(backend):
    plan = tw.plan(f16(7, 64), f16(64, 32), m=range(1, 9), backend=backend)
    for a, message in (
        (f16(9, 64), r"\(9, 64\), and the plan is for 2-D arrays of m=range\(1, 9\) rows: make a plan with a range"),
        (f16(2, 4, 64), r"a has shape \(2, 4, 64\), .*: pass a\.reshape\(-1, a\.shape\[-1\]\)"),
        (f16(64), r"a has shape \(64,\), .*: pass a\.reshape\(-1, a\.shape\[-1\]\)"),
        (f16(0, 64), r"a has shape \(0, 64\), .* of m=range\(1, 9\) rows: make a plan with a range"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(a, f16(64, 32))
    none = "exports no array interface"
    for a, lack in ((3, "is a number"), ([[1.0] * 64], none), (None, none)):
        with pytest.raises(TypeError, match=rf"a is a {type(a).__name__}, which {lack}"):
            plan(a, f16(64, 32))
    for a, b, addends, message in (
        (f16(5, 64), f16(64, 40), {}, "the arrays pose 5x40x64 .* was made for 5x32x64 .*: make another plan"),
        (f16(5, 128)[:, :64], f16(64, 32), {}, r"a is not as the plan wants it: .*strides of \(128, 1\) elements"),
        (f16(5 * 64 + 1)[1:].reshape(5, 64), f16(64, 32), {}, "a is not as .* aligned to 2 bytes instead of .*make"),
        (f16(5, 64).astype(np.float32), f16(64, 32).astype(np.float32), {}, "a is not as the plan wants it: fp32"),
        (f16(5, 64), f16(64, 32), {"bias": f16(32)}, "for the operands a, b and called with a, b, bias: make"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(a, b, **addends)
    plan(f16(5, 64), f16(64, 32))
    with pytest.raises(ValueError, match="make another plan"):
        plan(f16(5, 64), f16(64, 40))


def test_the_reasons_are_those_of_the_choices(backend):
    plan = tw.plan(f16(7, 64), f16(64, 32), m=range(2, 9), backend=backend)
    assert plan.reason == tw.plan(f16(7, 64), f16(64, 32), backend=backend).reason
    assert plan.reason in repr(plan)
    plan = tw.plan(f16(7, 64), f16(64, 4096), m=range(1, 400, 3), backend=backend)
    reasons = [tw.plan(f16(m, 64), f16(64, 4096), backend=backend).reason for m in plan.rows]
    kernel, counts = "", {}
    for line in plan.reason.splitlines():
        if not line.startswith("  "):
            kernel = line
            continue
        said, *own = line.strip().split(": ", 1)
        counts[frozenset("; ".join([kernel, *own]).split("; "))] = said
    assert counts.keys() == {frozenset(reason.split("; ")) for reason in reasons}
    assert len(counts) > 1
    for parts, said in counts.items():
        rows = [m for m, other in zip(plan.rows, reasons, strict=True) if set(other.split("; ")) == parts]
        assert said == f"{len(rows)} of 133 numbers of rows, from {rows[0]} to {rows[-1]}"
    nothing = tw.plan(f16(7, 64), f16(64, 0), m=range(1, 9), backend=backend)
    assert nothing.reason == "out has no elements, so nothing runs"


def test_the_reasons_of_copies_are_as_few_as_those_of_other_operands(backend):
    plan = tw.plan(f16(7, 1001), f16(1001, 1024), m=range(2, 400), backend=backend)
    lines = plan.reason.splitlines()
    assert len(lines) < 20
    assert plan.reason.count("each call copies a first, since a has row stride 1001") == 1


def test_a_table_that_changes_changes_no_choice_of_the_range(backend, monkeypatch):
    plan = tw.plan(f16(7, 512), f16(512, 512), m=range(1, 65), backend=backend)
    config = tw.WgmmaConfig(128, 64, 3, epilogue="direct", overlap=False)
    entry = SimpleNamespace(kernel="wgmma", m=64, made_config=lambda: config)
    monkeypatch.setattr(tuned, "best", lambda *_: entry)
    assert tw.plan(f16(64, 512), f16(512, 512), backend=backend).config == config
    backend.captured_streams = (0,)
    plan(f16(64, 512), f16(512, 512))


def test_no_range_is_compiled_or_loaded_while_a_stream_is_captured(backend):
    backend.captured_streams = (0,)
    with pytest.raises(RuntimeError, match=r"being captured.*before the capture"):
        tw.plan(f16(7, 512), f16(512, 512), m=range(1, 65), backend=backend)
    assert not backend.compiled
    assert not backend.prepared
    backend.captured_streams = ()
    tw.plan(f16(7, 512), f16(512, 512), m=range(1, 65), backend=backend)
    backend.captured_streams = (0,)
    tw.plan(f16(9, 512), f16(512, 512), m=range(1, 65), backend=backend)  # all is there


def test_tuning_is_refused_while_a_stream_is_captured_and_changes_nothing(backend, monkeypatch, tmp_path):
    kept = tuned.Store("H200-132", [tmp_path])
    monkeypatch.setattr(ensure, "store", lambda gpu: kept)
    monkeypatch.setattr(backend, "name", "gpu")
    backend.captured_streams = (0,)
    with pytest.raises(RuntimeError, match=r"tune=True while the current stream is being captured.*before the capture"):
        tw.plan(f16(8, 8), f16(8, 8), tune=True, backend=backend)
    assert not backend.compiled
    assert not list(tmp_path.iterdir())


def test_tuning_is_refused_where_nothing_can_be_measured(backend):
    with pytest.raises(ValueError, match="tune=True measures on a GPU, and backend is 'recording': leave tune out"):
        tw.plan(f16(8, 8), f16(8, 8), tune=True, backend=backend)
    with pytest.raises(ValueError, match="tune=True and kernel= or config= were given"):
        tw.plan(f16(8, 8), f16(8, 8), tune=True, backend=backend, kernel="mma")


def test_what_has_one_row_for_all_is_said_to_want_another_template():
    a, b = np.zeros((1, 8), np.float16), np.zeros((8, 16), np.float16)
    one = {"s": np.ones((1, 1), np.float16)}
    plan = tw.plan(a, b, m=range(1, 9), epilogue="acc * s", operands=one, backend="emulator")
    with pytest.raises(ArgumentValueError, match=r"make another plan, from operands\['s'\] of shape \(\) or \(n,\)$"):
        plan(np.zeros((4, 8), np.float16), b, operands=one)
