"""The headers that CUDA C++ finds: those of C that NVRTC has built in, those that it brings, and where others are."""

import math
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.jit import headers
from tilewright.jit.cache import KernelCache
from tilewright.jit.compile import load_nvrtc

OWN = sorted(path.name for path in Path(headers.OWN).iterdir())

ORDINARY = """
#include <assert.h>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

static_assert(sizeof(std::int8_t) == 1 && sizeof(uint64_t) == 8 && sizeof(std::uintptr_t) == sizeof(void*));
static_assert(sizeof(std::sqrt(1.0f)) == 4 && sizeof(std::exp(1.0)) == 8);
static_assert(INT32_MIN == -2147483647 - 1 && UINT64_MAX == ~std::uint64_t(0) && SIZE_MAX == ~std::size_t(0));
static_assert(INT64_C(1) << 40 > UINT_MAX && CHAR_BIT == 8);

__global__ void ordinary(float* x) {
  std::uint32_t lane = threadIdx.x;
  assert(lane < 8 && offsetof(float4, z) == 8);
  std::nullptr_t none = nullptr;
  const float values[] = {std::sqrt(2.0f), INFINITY,    -HUGE_VALF, static_cast<float>(M_PI),
                          FLT_MAX,         FLT_EPSILON, NAN,        std::abs(-3.5f)};
  std::memcpy(x + lane, values + lane, sizeof(float));
  if (none != nullptr) std::printf("never");
}
"""


@pytest.fixture
def without_a_toolkit(tmp_path, monkeypatch):
    """A machine without headers of CUDA and without a cache."""
    monkeypatch.setattr("cuda.pathfinder.find_nvidia_header_directory", lambda library: None)
    monkeypatch.setattr(headers, "find_spec", lambda name: None)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    cache = KernelCache(tmp_path / "cache")
    for module in ("headers", "user_source"):
        monkeypatch.setattr(f"tilewright.jit.{module}.default_cache", lambda: cache)
    headers.toolkit_folders.cache_clear()
    yield cache
    headers.toolkit_folders.cache_clear()


def brings_headers():
    try:
        return bool(load_nvrtc().nvrtcGetBundledHeadersInfo()[1].available)
    except (AttributeError, RuntimeError):
        return False


def check_ordinary():
    x = np.zeros(8, np.float32)
    assert tw.check(ORDINARY, x, block=8, schedules=0).verified
    limits = np.finfo(np.float32)
    expected = [math.sqrt(2), math.inf, -math.inf, math.pi, limits.max, limits.eps, math.nan, 3.5]
    np.testing.assert_array_equal(x, np.array(expected, np.float32))


def test_what_the_compiler_has_built_in_needs_no_toolkit(without_a_toolkit, monkeypatch):
    monkeypatch.setattr(headers, "_bundled", list)
    check_ordinary()


def test_ordinary_headers_go_with_those_of_a_toolkit():
    check_ordinary()


@pytest.mark.parametrize("name", OWN)
def test_each_header_stands_alone_and_may_come_twice(name):
    assert tw.check(f"#include <{name}>\n#include <{name}>\n__global__ void nothing() {{}}\n", block=1).verified


@pytest.mark.skipif(not brings_headers(), reason="this NVRTC brings no headers")
@pytest.mark.parametrize("own_first", [True, False])
def test_the_headers_that_the_compiler_brings_are_found(without_a_toolkit, own_first):
    ours = "".join(f"#include <{name}>\n" for name in OWN)
    brought = (
        "cuda_fp16.h",
        "cuda_bf16.h",
        "cuda/std/cstdint",
        "cuda/std/cmath",
        "cuda/barrier",
        "cooperative_groups.h",
    )
    theirs = "".join(f"#include <{name}>\n" for name in brought)
    x = np.zeros(32, np.float16)
    text = "__global__ void one(__half* x) { x[cooperative_groups::this_grid().thread_rank()] = __float2half(1); }\n"
    assert tw.check((ours + theirs if own_first else theirs + ours) + text, x, block=32, schedules=0).verified
    assert set(x) == {1}
    (folder,) = without_a_toolkit.directory.glob("headers-*")
    assert (folder / "cuda_fp16.h").is_file()


def test_a_folder_of_the_user_comes_first(tmp_path):
    (tmp_path / "math.h").write_text("#define M_PI 3\n")
    x = np.zeros(1, np.float32)
    text = "#include <math.h>\n__global__ void pi(float* x) { *x = M_PI; }\n"
    assert tw.check(text, x, block=1, include=tmp_path, schedules=0).verified
    assert x[0] == 3


def test_kernels_print_once_and_apart(capsys):
    text = '#include <stdio.h>\n__global__ void says() { printf("thread %d\\n", threadIdx.x); }\n'
    assert tw.check(text, block=2).verified
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "thread 0\nthread 1\n")


@pytest.mark.planted_fault
def test_a_failed_assertion_is_a_report_with_its_line():
    text = "#include <assert.h>\n__global__ void fails(int n) {\n  assert(threadIdx.x < n);\n}\n"
    (report,) = tw.check(text, 30, block=32).reports
    assert report["kind"] == "KernelTrap"
    assert report["message"].startswith("assertion `threadIdx.x < n` failed in void fails(int) at kernel.cu:3: CTA 0")
    assert "at kernel.cu:3 " in report["locations"][0]
    assert report["threads"] == "CTA 0, threads 30-31"


def test_ndebug_turns_assertions_off():
    kernel = "#include <cassert>\n__global__ void fails() { assert(blockIdx.x == 1); }\n"
    assert not tw.check(kernel, block=1, schedules=0).verified
    assert tw.check(f"#define NDEBUG\n{kernel}", block=1, schedules=0).verified


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("cuda_fp16.h", "pip install nvidia-cuda-runtime"),
        ("cuda/barrier", "pip install nvidia-cuda-cccl"),
        ("cub/cub.cuh", "pip install nvidia-cuda-cccl"),
        ("crt/mma.h", "pip install nvidia-cuda-"),
        ("curand_kernel.h", "pip install nvidia-curand"),
        ("cute/tensor.hpp", "pip install nvidia-cutlass brings it"),
        ("vector", "it is for the host; NVRTC compiles device code alone, so put host code and its headers"),
        ("factors.h", "name its folder with include"),
    ],
)
def test_what_is_missing_is_named_with_who_has_it(without_a_toolkit, monkeypatch, name, remedy):
    monkeypatch.setattr(headers, "_bundled", list)
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check(f"#include <{name}>\n__global__ void nothing() {{}}\n", block=1)
    assert f"\n{name} cannot be found: {remedy}" in str(refusal.value)


@pytest.mark.skipif(not brings_headers(), reason="this NVRTC brings no headers")
def test_the_header_of_all_of_cub_is_not_for_device_code():
    with pytest.raises(tw.CompilationError, match=r"cub/cub\.cuh has host code, too: .* <cub/block/block_reduce\.cuh>"):
        tw.check("#include <cub/cub.cuh>\n__global__ void nothing() {}\n", block=1)


def test_a_header_that_a_comment_names_is_not_advised_about():
    with pytest.raises(tw.CompilationError) as raised:
        tw.check("// not #include <cub/cub.cuh>\n#include <cutlass/no_such.h>\n__global__ void nothing() {}\n", block=1)
    assert "cutlass/no_such.h cannot be found" in str(raised.value)
    assert "host code" not in str(raised.value)


@pytest.mark.skipif(not brings_headers(), reason="this NVRTC brings no headers")
def test_a_header_of_cpp_has_another_name_for_device_code(without_a_toolkit):
    with pytest.raises(
        tw.CompilationError, match="limits cannot be found: include <cuda/std/limits>, which has it for"
    ):
        tw.check("#include <limits>\n__global__ void nothing() {}\n", block=1)


def test_a_cache_that_is_not_trusted_holds_no_headers(without_a_toolkit):
    without_a_toolkit.directory.mkdir()
    without_a_toolkit.directory.chmod(0o777)
    assert headers.toolkit_folders() == ()
