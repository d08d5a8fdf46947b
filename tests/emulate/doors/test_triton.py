"""Triton kernels in `tilewright.check`, where Triton is installed: launched as Triton launches them."""

import json
from typing import NamedTuple

import numpy as np
import pytest

import tilewright as tw
from support.commands import in_json, invoke
from support.compilers import needing
from support.lines import place_of

kernels = needing("triton", "emulate.doors.triton_kernels")
torch = needing("torch")


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))


def operands(n=500):
    rng = np.random.default_rng(0)
    return rng.standard_normal(n, np.float32), rng.standard_normal(n, np.float32), np.full(n, np.nan, np.float32)


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy])
def test_arrays_of_each_library(of):
    x, y, out = operands()
    result = tw.check(kernels.add, of(x), of(y), of(out), 500, grid=lambda meta: (-(-500 // meta["BLOCK"]),), BLOCK=128)
    assert result.verified
    assert (result.kernel, result.product) == ("add", "triton_kernels.py")
    np.testing.assert_array_equal(out, x + y)
    assert any(line.startswith("triton_kernels.py:") for line in result.counters["by_line"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.float64])
def test_element_types(dtype):
    x, out = torch.arange(256).to(dtype), torch.zeros(256, dtype=dtype)
    assert tw.check(kernels.add, x, x, out, 256, grid=2, BLOCK=128, num_warps=2, schedules=0).verified
    assert (out == 2 * x).all()


def test_arguments_are_specialized_as_on_a_gpu():
    x, y, out = operands(513)

    def requests(first, n):
        result = tw.check(kernels.add, x[first:], y[first:], out[first:], n, grid=1, BLOCK=512, schedules=0)
        assert result.verified
        return result.counters["totals"]["global_requests"]["ld"]

    assert requests(0, 512) == 2 * 4
    assert requests(0, 511) == 4 * requests(0, 512)  # 511 is not a multiple of 16
    assert requests(1, 512) == 4 * requests(0, 512)  # nor is the address


@pytest.mark.planted_fault
def test_a_fault_has_its_source_line():
    x, y, out = operands()
    result = tw.check(kernels.add_beyond, x, y, out, 500, grid=4, BLOCK=128, schedules=0)
    (report,) = result.reports
    assert report["kind"] == "OutOfBounds"
    assert "past the end of the allocation of 2000 bytes" in report["message"]
    assert "(x)" in report["message"]
    assert "at triton_kernels.py:20 " in report["locations"][0]


def test_heuristics_and_the_first_config():
    x, _, out = operands(256)
    assert tw.check(kernels.with_heuristics, x, out, 250, grid=2, BLOCK=128).verified
    np.testing.assert_array_equal(out[:250], -x[:250])
    result = tw.check(kernels.autotuned, x, out, 256, grid=lambda meta: (256 // meta["BLOCK"],))
    assert result.verified
    np.testing.assert_array_equal(out, x)
    assert sum(result.counters["totals"]["warp_instructions"].values()) > 0
    assert not kernels.autotuned.cache
    assert "do_bench" not in vars(kernels.autotuned)
    assert tw.check(kernels.autotuned.fn, x, out, 256, grid=2, BLOCK=128).verified


def test_tensor_descriptors():
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.integers(-3, 4, (128, 96)).astype(np.float16)) for _ in "ab")
    c = torch.empty(128, 128, dtype=torch.float16)
    described = [kernels.TensorDescriptor.from_tensor(each, [64, 64]) for each in (a, b, c)]
    result = tw.check(kernels.multiply, *described, 96, grid=(2, 2), M=64, N=64, STEP=64, schedules=1)
    assert result.verified, result.reports
    assert result.counters["totals"]["tma_stored_bytes"] == c.nbytes
    np.testing.assert_array_equal(c, a.float() @ b.float().T)


def test_descriptors_made_by_the_kernel():
    a = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    out = np.zeros_like(a)
    result = tw.check(kernels.double, a, out, 64, 64, grid=(2, 2), TILE=32, schedules=0)
    assert result.verified, result.reports
    np.testing.assert_array_equal(out, 2 * a)


@pytest.mark.parametrize("negate", [True, False])
def test_numbers_tuples_and_none(negate):
    x = np.arange(512, dtype=np.float32)
    result = tw.check(kernels.mixed, x, 1.5, negate, (0, 256), None, grid=1, N=256, schedules=0)
    assert result.verified, result.reports
    np.testing.assert_array_equal(x[256:], np.arange(256) * (-1.5 if negate else 1.5))


class Pair(NamedTuple):
    first: object
    second: object


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("kind", [lambda *parts: parts, Pair])
def test_arrays_in_tuples(of, kind):
    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    result = tw.check(kernels.copies, kind(of(x), of(out)), grid=1, N=128, schedules=0)
    assert result.verified, result.reports
    np.testing.assert_array_equal(out, x)


def test_a_driver_of_the_caller_stays():
    from triton.runtime import driver

    before = driver._active
    test_numbers_tuples_and_none(True)
    assert driver._active is before


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"BLOCK": None}, TypeError, "add missing 1 required positional argument: 'BLOCK'"),
        ({"BLOCK": 100}, tw.CompilationError, "range must be a power of 2"),
        ({"num_warps": 3}, TypeError, "num_warps must be a power of 2"),
        ({"warps": 4}, TypeError, "argument warps was specified"),
        ({"grid": None}, TypeError, "grid is missing: give the grid of add"),
        ({"grid": 0}, ValueError, "grid=0 must be one to three integers from 1 on"),
        ({"grid": lambda meta: (0,)}, ValueError, "grid=(0,) must be one to three"),
        ({"block": 128}, TypeError, "block=128 is not for a Triton kernel: its warps are given by num_warps"),
        ({"cluster": 2}, TypeError, "give num_ctas"),
        ({"entry": "add"}, TypeError, "entry='add' is not for a Triton kernel"),
    ],
)
def test_wrong_calls_are_refused(change, error, message):
    x, y, out = operands()
    options = {"grid": 4, "BLOCK": 128} | change
    with pytest.raises(error) as refusal:
        tw.check(kernels.add, x, y, out, 500, **{name: value for name, value in options.items() if value is not None})
    assert message in str(refusal.value)
    assert isinstance(refusal.value, tw.TilewrightError)


def test_wrong_arguments_are_refused():
    x, y, out = operands()
    with pytest.raises(TypeError, match="add takes 5 positional arguments but 6 were given"):
        tw.check(kernels.add, x, y, out, 500, 128, 3, grid=4)
    with pytest.raises(TypeError, match="failed to specialize argument of type: object"):
        tw.check(kernels.add, x, object(), out, 500, grid=4, BLOCK=128)
    with pytest.raises(TypeError, match=r"TensorMap: pass triton\.tools"):
        tw.check(kernels.add, x, tw.TensorMap(y, (16,)), out, 500, grid=4, BLOCK=128)
    with pytest.raises(TypeError, match=r"arguments\[1\] is a tensor on meta"):
        tw.check(kernels.add, x, torch.empty(500, device="meta"), out, 500, grid=4, BLOCK=128)


@pytest.mark.parametrize(
    ("name", "size", "place", "said"),
    [
        ("calls_plain", 8, "plain(1.0)", ["<function plain at ", "\ndecorate plain with @triton.jit"]),
        ("calls_a_wrong_one", 2, "static_assert", ["N is too small\nchange the kernel, or pass other arguments"]),
        ("calls_a_wrong_one", 8, 'x + "a"', ["adds_a_string(1.0))\n", "unsupported operand type"]),
    ],
)
def test_an_error_in_a_kernel_has_the_line_in_its_file(name, size, place, said):
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check(getattr(kernels, name), np.zeros(8, np.float32), grid=1, N=size)
    message = str(refusal.value)
    for words in (f"Triton cannot compile {name}: {kernels.__file__}:", place_of(place, kernels), *said):
        assert words in message


def test_an_error_in_heuristics_has_their_line():
    x = np.zeros(128, np.float32)
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check(kernels.wrong_heuristics, x, x, 128, grid=1, BLOCK=128)
    assert f"{place_of('wrong_heuristics =', kernels)}: KeyError: none" in str(refusal.value)


def test_the_command_line_prints_documents_of_errors_alone():
    options = ("check", f"{kernels.__file__}:calls_plain", "-D", "N=8", "--grid", 1, "--arg", "f32[8]")
    assert "decorate plain with @triton.jit" in in_json(*options, code=2)["error"]
    shown = invoke(*options, "--format", "sarif", code=2).stdout
    (invocation,) = json.loads(shown)["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]
    assert "decorate plain" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert invoke(*options, "--format", "github", code=2).stdout.startswith("::error title=")
