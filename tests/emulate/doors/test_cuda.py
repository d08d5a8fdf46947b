"""CUDA C++ in `tilewright.check` and on the command line, compiled by NVRTC with headers, macros and the cache."""

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from support.commands import error, in_json, invoke
from tilewright.jit import compile as compiler
from tilewright.jit.cache import KernelCache
from tilewright.jit.user_source import UserSource

SOURCE = """#include "factor.h"
template <typename T, int N>
__global__ void scale(T* x, T factor) { x[blockIdx.x * N + threadIdx.x] *= factor * FACTOR; }
__global__ void add(float* x) { x[threadIdx.x] += STEP; }
__global__ void add_twice(float* x) { x[threadIdx.x] += 2 * STEP; }
namespace mine { __global__ void nothing() {} }
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The path of a source with a header in another folder; the cache is empty."""
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers/factor.h").write_text("#define FACTOR 2\n")
    path = tmp_path / "kernels.cu"
    path.write_text(SOURCE)
    cache = KernelCache(tmp_path / "cache")
    monkeypatch.setattr("tilewright.jit.user_source.default_cache", lambda: cache)
    return path


def check(source, *arguments, **options):
    include = source.parent / "headers"
    return tw.check(source, *arguments, include=include, define={"STEP": 0.5}, schedules=0, **options)


def test_a_function_is_found_by_its_name(source):
    x = np.ones(32, np.float32)
    result = check(source, x, block=32, entry="add")
    assert result.verified
    assert (result.kernel, result.product) == ("add", "kernels.cu")
    assert set(x) == {1.5}
    assert list(result.counters["by_line"]) == ["kernels.cu:4"]
    assert check(source, x, block=32, entry="add_twice").verified
    assert set(x) == {2.5}


def test_an_instantiation_is_named_as_in_cpp(source):
    x = np.ones(64, np.float32)
    result = check(source, x, 1.5, grid=2, block=32, entry="scale<float, 32>")
    assert result.verified
    assert result.kernel == "scale<float, 32>"
    assert set(x) == {3.0}
    assert check(source, block=1, entry="mine::nothing").verified


def test_text_is_compiled_too():
    x = np.zeros(8, np.float32)
    result = tw.check("#include <cuda_runtime.h>\n__global__ void one(float* x) { x[threadIdx.x] = 1; }\n", x, block=8)
    assert result.verified
    assert set(x) == {1.0}


def test_the_cache_knows_the_headers(source, monkeypatch):
    runs = []
    translate = compiler.translate

    def counted(*arguments, **options):
        runs.append(arguments)
        return translate(*arguments, **options)

    monkeypatch.setattr(compiler, "translate", counted)

    def value(step="0.5"):
        x = np.ones(1, np.float32)
        include = source.parent / "headers"
        assert tw.check(
            str(source), x, 1.0, block=1, entry="scale<float, 1>", include=[include], define={"STEP": step}, schedules=0
        ).verified
        return x[0]

    assert [value(), value(), len(runs)] == [2.0, 2.0, 1]
    (source.parent / "headers/factor.h").write_text("#define FACTOR 3\n")
    assert [value(), value(), len(runs)] == [3.0, 3.0, 2]
    (source.parent / "headers/more.h").write_text("#undef FACTOR\n#define FACTOR 5\n")
    (source.parent / "headers/factor.h").write_text('#if 1\n# include "more.h"\n#endif\n')
    assert [value(), value(), len(runs)] == [5.0, 5.0, 3]
    (source.parent / "headers/more.h").write_text("#define FACTOR 7\n")
    assert [value(), len(runs)] == [7.0, 4]
    value("0.25")
    assert len(runs) == 5
    source.write_text('#define NAME "factor.h"\n' + SOURCE.replace('"factor.h"', "NAME"))
    assert [value(), value(), len(runs)] == [7.0, 7.0, 7]  # which file a macro names is unknown, so nothing is kept


@pytest.mark.parametrize(
    "line",
    [
        '/* here */ #include "factor.h"',
        '%:include "factor.h"',
        '#\\\ninclude "factor.h"',
        '#define NAME "factor.h"\n#include NAME',
        '#if __has_include("factor.h")\n#include "factor.h"\n#endif',
    ],
)
def test_a_header_that_changes_is_never_missed(source, line):
    source.write_text(SOURCE.replace('#include "factor.h"', line).replace("STEP", "FACTOR"))
    for factor in (2, 5):
        (source.parent / "headers/factor.h").write_text(f"#define FACTOR {factor}\n")
        x = np.zeros(32, np.float32)
        assert check(source, x, block=32, entry="add").verified
        assert set(x) == {factor}


def test_what_does_not_compile_is_shown_by_the_compiler_itself(source):
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check(source, block=1, define={"STEP": 1})
    message = str(refusal.value)
    assert f'{source}(1): catastrophic error: cannot open source file "factor.h"' in message
    assert "factor.h cannot be found: name its folder with include" in message
    broken = "".join(f"__global__ void k{n}() {{ x{n} = 1; }}\n" for n in range(9))
    with pytest.raises(tw.CompilationError, match="9 errors detected") as refusal:
        tw.check(broken, block=1)
    assert 'kernel.cu(3): error: identifier "x2" is undefined' in str(refusal.value)
    assert "x3" not in str(refusal.value)
    assert "x8" in refusal.value.log


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, ValueError, "has 3 entries: choose with entry='NAME'"),
        ({"entry": "none"}, ValueError, "entry='none' names none of them"),
        ({"entry": "scale<int>"}, tw.TilewrightError, "cannot determine which instance"),
        ({"entry": "add", "tile": 3}, TypeError, "tile=3 is not an argument of a check of CUDA C++"),
        ({"entry": "add", "define": "N=3"}, TypeError, "define='N=3' must be macros by name"),
        ({"entry": "add", "include": "/none"}, ValueError, "include='/none' is no folder: name one with headers"),
        ({"entry": "add", "include": 3}, TypeError, "include=3 must be the path of a folder"),
        ({"entry": "add", "block": None}, ValueError, "block is missing and the PTX does not say it: give block=128"),
    ],
)
def test_wrong_calls_are_refused(source, options, kind, message):
    given = {"block": 32, "define": {"STEP": 1}, "include": source.parent / "headers"} | options
    with pytest.raises(kind) as refusal:
        tw.check(source, np.zeros(32, np.float32), **given)
    assert message in str(refusal.value)


HOST = """#include <cstdio>
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
#ifndef GUARD
int main() {
  float* x;
  cudaMalloc(&x, 128);
  twice<<<1, 32>>>(x);
  cudaDeviceSynchronize();
}
#endif
"""


def test_host_code_is_named_with_what_to_do():
    x = np.ones(32, np.float32)
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check(HOST, x, block=32)
    said = (
        "cudaMalloc is of the host: NVRTC compiles device code alone, so put host code and its headers between #ifndef"
    )
    assert said in str(refusal.value)
    assert tw.check(HOST.replace("GUARD", "__CUDACC_RTC__"), x, block=32, schedules=0).verified
    with pytest.raises(tw.CompilationError) as refusal:
        tw.check("#ifndef __CUDACC_RTC__\n#endif\n__global__ void f() { x = 1; }", block=1)
    assert "host" not in str(refusal.value)


TEMPLATES = """
template <int N>
__global__ void __launch_bounds__(256, (N > 1 ? 1 : 2)) scan(float* x) { x[threadIdx.x] *= N; }
template <typename T, class U, bool FAST, unsigned N = 3>
static __global__ void mix(T* x, U y) { *x = y; }  // template <int N> __global__ void comment()
template <int N> __device__ int helper() { return N; }
"""


def test_a_template_that_nobody_instantiates_is_named_with_an_example():
    for entry, example in ((None, "scan<128>"), ("scan", "scan<128>"), ("mix", "mix<float, float, true>")):
        with pytest.raises(ValueError, match=rf"is a template: instantiate it with entry='{example}' or the like"):
            tw.check(TEMPLATES, np.ones(1, np.float32), block=1, entry=entry)
    assert UserSource("k.cu", TEMPLATES).templates == ["scan<128>", "mix<float, float, true>"]
    with pytest.raises(ValueError, match=r"(?s)has no entry.*'scan<128>' or the like\nmix is a template"):
        tw.check(TEMPLATES, block=1, entry="nope")
    x = np.ones(2, np.float32)
    assert tw.check(TEMPLATES, x, block=2, entry="scan<128>", schedules=0).verified
    assert set(x) == {128}
    there = TEMPLATES + "template __global__ void scan<2>(float*);\ntemplate __global__ void scan<3>(float*);\n"
    with pytest.raises(ValueError, match=r"entry='scan' names several of them: choose .*:\n  scan<2>\n  scan<3>$"):
        tw.check(there, x, block=2, entry="scan")
    with pytest.raises(ValueError, match="mix is a template"):
        tw.check(there, x, block=2, entry="mix")


def test_text_that_declares_no_template_is_read_once():
    for text in ("template<a>" * 3000 + "__global__ " * 3000, "template<" * 9000 + "__global__ f(", "__global__ f("):
        assert UserSource("k.cu", text).templates == []


@pytest.mark.parametrize(
    "given", [{"define": {"NAME": "\ud800"}}, {"entry": "add<\ud800>"}, {"kernel": SOURCE + "// \ud800"}]
)
def test_what_is_no_text_is_refused(given):
    kernel = given.pop("kernel", SOURCE)
    with pytest.raises(ValueError, match=r"'\\ud800' is no character, .*: leave it out"):
        tw.check(kernel, block=1, **given)


def test_a_header_that_cannot_be_read_is_left_to_the_compiler(source, monkeypatch):
    read = Path.read_text

    def refuse(path, **how):
        if path.name == "factor.h":
            raise PermissionError(path)
        return read(path, **how)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert check(source, np.zeros(32, np.float32), block=32, entry="add").verified


@pytest.mark.parametrize(("entry", "said"), [("scam<2>", '"scam" is undefined'), ("scan<2, 3>", "which instance")])
def test_an_instantiation_of_nothing_names_what_is_there(entry, said):
    names = r"\n  simple\n  scan<128>\n  mix<float, float, true>$"
    with pytest.raises(ValueError, match=rf"(?s)^entry='{entry}' names no kernel of .*{said}[^\n]*:{names}"):
        tw.check(TEMPLATES + "__global__ void simple() {}", block=1, entry=entry)


def test_a_source_of_one_line_is_no_path():
    x = np.zeros(1, np.float32)
    assert tw.check("__global__ void f(float* x) { x[0] = 1; }", x, block=1, schedules=0).verified
    assert x[0] == 1
    ptx = ".version 8.0 .target sm_90 .address_size 64 .visible .entry f() { ret; }"
    assert tw.check(ptx, block=1, schedules=0).verified


def test_files_that_are_none(tmp_path):
    with pytest.raises(ValueError, match=r"none\.cu cannot be read: No such file"):
        tw.check(tmp_path / "none.cu", block=1)
    (tmp_path / "empty.cu").write_text("int f() { return 1; }")
    with pytest.raises(ValueError, match=r"empty\.cu has no entry: compile a __global__ function"):
        tw.check(tmp_path / "empty.cu", block=1)
    (tmp_path / "data.cu").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="it is not text"):
        UserSource.read(tmp_path / "data.cu")


@pytest.mark.planted_fault
def test_the_command_line(source):
    options = ("--define", "STEP=0.5", "--include", source.parent / "headers", "--block", 32, "--schedules", 0)
    shown = invoke("check", source, "--entry", "scale<float, 8>", *options, "--arg", "f32[32]:ones", "--arg", 2).stdout
    assert shown.startswith("scale<float, 8> kernels.cu under eager, lazy: clean")
    assert "kernels.cu:3" in shown
    found = in_json("check", source, "--entry", "add", *options, "--arg", "x=f32[31]:ones", code=1)
    assert found["reports"][0]["kind"] == "OutOfBounds"
    assert "catastrophic error" in error("check", source, "--block", 1)
    assert "--include /none is no folder: name one" in error("check", source, "--block", 1, "-I", "/none")
    assert "has 3 entries: choose with --entry NAME, or a part of a name:\n  add\n" in error("check", source, *options)
    assert "with --entry 'scale<float, 128>' or the like" in error("check", source, "--entry", "scale", *options)
    assert "for sources, not PTX: leave out N=3" in error("check", "./kernel.ptx", "--define", "N=3")
