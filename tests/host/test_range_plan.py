"""Plans for a range of rows: what is compiled before, that nothing is afterwards, and what is refused."""

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from support.doubles import RecordingBackend
from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import H200
from tilewright.jit import cache
from tilewright.jit.compile import CompilationError
from tilewright.jit.pool import CompilerPool
from tilewright.planner import planning, tuned


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
    for given in (first, 1 - first):
        np.testing.assert_array_equal(plan(*((a, b, c) if given else (a, b))), a @ b)


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
            r"m=range\(0, 4\) must have 1 to 1,048,576 numbers of rows, from 1 on",
            f16(8, 8),
            {"m": range(4)},
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
        (f16(0, 64), r"a has shape \(0, 64\), .*: leave the call out, since the product of no rows has no elements"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(a, f16(64, 32))
    for a in (3, [[1.0] * 64], None):
        with pytest.raises(TypeError, match=rf"a is a {type(a).__name__}, which exports no array interface"):
            plan(a, f16(64, 32))
    for a, b, addends, message in (
        (f16(5, 64), f16(64, 40), {}, "the arrays pose 5x40x64 .* was made for 5x32x64 .*: make another plan"),
        (f16(5, 128)[:, :64], f16(64, 32), {}, r"a is not as the plan wants it: .*strides of \(128, 1\) elements"),
        (f16(5 * 64 + 1)[1:].reshape(5, 64), f16(64, 32), {}, "a is not as .* aligned to 2 bytes instead of .*make"),
        (f16(5, 64).astype(np.float32), f16(64, 32).astype(np.float32), {}, "a is not as the plan wants it: fp32"),
        (f16(5, 64), f16(64, 32), {"bias": f16(32)}, "for the operands a, b, out and called with a, b, bias, out"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(a, b, **addends)
    plan(f16(5, 64), f16(64, 32))
    with pytest.raises(ValueError, match="make another plan"):
        plan(f16(5, 64), f16(64, 40))


def test_the_reasons_are_those_of_the_choices(backend):
    plan = tw.plan(f16(7, 64), f16(64, 32), m=range(1, 9), backend=backend)
    assert plan.reason == tw.plan(f16(7, 64), f16(64, 32), backend=backend).reason
    assert plan.reason in repr(plan)
    plan = tw.plan(f16(7, 64), f16(64, 4096), m=range(1, 400, 3), backend=backend)
    reasons = [tw.plan(f16(m, 64), f16(64, 4096), backend=backend).reason for m in plan.rows]
    lines = dict(line.split(": ", 1)[::-1] for line in plan.reason.splitlines())
    assert lines.keys() == set(reasons)
    assert len(lines) > 1
    for reason, said in lines.items():
        rows = [m for m, other in zip(plan.rows, reasons, strict=True) if other == reason]
        assert said == f"{len(rows)} of 133 numbers of rows, from {rows[0]} to {rows[-1]}"
    nothing = tw.plan(f16(7, 64), f16(64, 0), m=range(1, 9), backend=backend)
    assert nothing.reason == "out has no elements, so nothing runs"


def test_the_reasons_of_copies_are_as_few_as_those_of_other_operands(backend):
    plan = tw.plan(f16(7, 1001), f16(1001, 1024), m=range(2, 400), backend=backend)
    lines = plan.reason.splitlines()
    assert any("each call copies a first, in about " in line for line in lines)
    assert len(lines) < 20


def test_a_table_that_changes_changes_no_choice_of_the_range(backend, monkeypatch):
    plan = tw.plan(f16(7, 512), f16(512, 512), m=range(1, 65), backend=backend)
    config = tw.WgmmaConfig(128, 64, 3, epilogue="direct", overlap=False)
    monkeypatch.setattr(tuned, "best", lambda *_: (config, "tuned for 64 rows"))
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


def test_tuning_is_refused_where_nothing_can_be_measured(backend):
    with pytest.raises(ValueError, match="tune=True measures on a GPU, and backend is 'recording': leave tune out"):
        tw.plan(f16(8, 8), f16(8, 8), tune=True, backend=backend)
    with pytest.raises(ValueError, match="tune=True and kernel= or config= were given"):
        tw.plan(f16(8, 8), f16(8, 8), tune=True, backend=backend, kernel="mma")
