"""Host functions of CuTe DSL in `tilewright.check`, where the DSL is installed: launched as they launch."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.compilers import needing
from support.lines import place_of

kernels = needing("cutlass", "emulate.doors.cute_kernels")
cute_runtime = needing("cutlass", "cutlass.cute.runtime")
torch = needing("torch")


@pytest.mark.parametrize("of", [np.asarray, torch.from_numpy])
def test_the_launch_is_that_of_the_host_function(of):
    a, b = (np.random.default_rng(seed).standard_normal(500, np.float32) for seed in (0, 1))
    c = np.full(500, np.nan, np.float32)
    result = tw.check(kernels.add, of(a), of(b), of(c))
    assert result.verified
    assert (result.kernel, result.product) == ("add_kernel", "cute_kernels.py")
    np.testing.assert_array_equal(c, a + b)
    assert result.counters["totals"]["global_requests"] == {"ld": 2 * 16, "st": 16}
    assert any(line.startswith("cute_kernels.py:") for line in result.counters["by_line"])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32])
def test_element_types(dtype):
    a, c = np.arange(128).astype(dtype), np.zeros(128, dtype)
    assert tw.check(kernels.add, a, a, c, schedules=0).verified
    np.testing.assert_array_equal(c, a + a)


def test_tensors_of_the_caller_stay_as_they_are():
    x = torch.arange(128.0)
    a, c = cute_runtime.from_dlpack(x), cute_runtime.from_dlpack(torch.zeros(128))
    before = a.memspace
    assert tw.check(kernels.add, a, a, c, schedules=0).verified
    assert a.memspace is before


@pytest.mark.planted_fault
def test_each_launch_is_checked_on_what_the_ones_before_left():
    x, y, z = (torch.arange(128.0) for _ in range(3))
    result = tw.check(kernels.shift_both, x, (y, z[64:]), 64, 64, schedules=0)
    (report,) = result.reports
    assert report["kind"] == "OutOfBounds"
    assert "(pair[1])" in report["message"]
    assert "cute_kernels.py:" in report["locations"][0]
    assert result.kernel == "shift_kernel"
    assert x[:64].tolist() == y[:64].tolist() == list(range(64, 128))
    again = tw.check(kernels.shift_both, x, (x, x), 64, 64, schedules=0)
    assert again.verified
    assert sum(again.counters["totals"]["global_requests"].values()) == 3 * 4
    assert set(again.counters["totals"]["sectors_per_request"].values()) == {4.0}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
def test_tma_descriptors_and_clusters(dtype):
    source, out = torch.arange(128 * 192).reshape(128, 192).to(dtype), torch.zeros(128, 192, dtype=dtype)
    result = tw.check(kernels.Doubling(waits=True), source, out, schedules=1)
    assert result.verified, result.reports
    assert torch.equal(out, 2 * source)
    assert result.counters["totals"]["tma_loaded_bytes"] == source.nbytes


@pytest.mark.planted_fault
def test_a_wait_that_lacks_is_found():
    source, out = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    result = tw.check(kernels.Doubling(waits=False), source, out, schedules=0)
    assert "read-before-wait" in {report["kind"] for report in result.reports}


def test_another_way_of_compiling_is_refused(monkeypatch):
    executor = kernels.cutlass.cutlass_dsl.cuda_jit_executor
    monkeypatch.delattr(executor, "CudaDialectJitCompiledFunction")
    x = np.zeros(128, np.float32)
    with pytest.raises(NotImplementedError, match="pip install --upgrade nvidia-cutlass-dsl"):
        tw.check(kernels.add, x, x, x)


def test_what_the_host_function_cannot_take_is_refused():
    x = np.zeros(128, np.float32)
    with pytest.raises(tw.CompilationError, match="Required argument `c` is missing") as refusal:
        tw.check(kernels.add, x, x)
    assert "\x1b" not in str(refusal.value)
    with pytest.raises(TypeError, match=r"kernel is the @cute\.kernel add_kernel: pass the @cute\.jit function that"):
        tw.check(kernels.add_kernel, x, x, x)
    with pytest.raises(TypeError, match=r"grid=4 is not for a function of CuTe DSL: its \.launch\(\.\.\.\) says it"):
        tw.check(kernels.add, x, x, x, grid=4)
    with pytest.raises(TypeError, match="a is a tensor on meta"):
        tw.check(kernels.add, torch.empty(128, device="meta"), x, x)
    pointer = cute_runtime.make_ptr(kernels.cutlass.Float32, x.ctypes.data)
    with pytest.raises(TypeError, match="b is a pointer, and how much memory it leads to is unknown"):
        tw.check(kernels.add, np.zeros(1), pointer, np.zeros(1))
    compiled = kernels.cute.compile(kernels.add, *[cute_runtime.from_dlpack(x)] * 3)
    with pytest.raises(ValueError, match=r"compiled without its PTX: pass the @cute\.jit function"):
        tw.check(compiled, *[cute_runtime.from_dlpack(x)] * 3)


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("masks_floats", "x[0] & 1", "TypeError: unsupported operand type(s) for &"),
        ("asserts", "assert cutlass.const_expr", "AssertionError: x must be Int32"),
        (
            "launches_a_function",
            "undecorated(x).launch",
            "decorate the function that is launched here with @cute.kernel",
        ),
        ("lacks_a_name", "missing_name", "name 'missing_name' is not defined"),
    ],
)
def test_an_error_in_a_function_has_the_line_in_its_file(name, place, said):
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check(getattr(kernels, name), np.zeros(128, np.float32))
    message = str(refusal.value)
    assert message.startswith(f"CuTe DSL cannot compile {name}: ")
    assert place_of(place, kernels) in message
    assert said in message


def test_what_a_function_prints_is_not_in_the_json():
    ran = subprocess.run(
        [sys.executable, "-m", "tilewright", "check", f"{kernels.__file__}:prints", "--arg", "f32[128]", "--json"],
        capture_output=True,
        text=True,
    )
    assert json.loads(ran.stdout)["kernel"] == "printing_kernel"
    assert "printed by Python" in ran.stderr
    assert "printed by C: 128" in ran.stderr
