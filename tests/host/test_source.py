"""The translation unit that a Config becomes, as text."""

import re

import pytest

from tilewright.jit import source
from tilewright.jit.source import (
    CudaType,
    headers_digest,
    package_headers,
    reachable_headers,
    translation_unit,
    wgmma_wrapper,
)

HEADERS = {
    "base.cuh": "#pragma once\n",
    "ptx/wait.cuh": '#include "base.cuh"\n',
    "kernels/toy.cuh": '#pragma once\n#include "ptx/wait.cuh"\n  # include  "base.cuh"\n',
    "kernels/other.cuh": '#include "base.cuh"\n',
    "kernels/broken.cuh": '#include "absent.cuh"\n',
}


@pytest.fixture(autouse=True)
def toy_headers(monkeypatch):
    headers = dict(HEADERS)
    monkeypatch.setattr(source, "HEADERS", headers)
    headers_digest.cache_clear()
    yield headers
    headers_digest.cache_clear()


def unit(constants=None, **changes):
    arguments = {
        "entry": "toy_entry",
        "kernel_header": "kernels/toy.cuh",
        "kernel_template": "toy_kernel",
        "constants": {"tile_m": 128} if constants is None else constants,
        "parameters": [("TensorMap", "map_a"), ("float*", "out")],
        "launch_bounds": (384, 1),
    }
    return translation_unit(**(arguments | changes))


def test_unit_includes_the_header_and_defines_one_entry():
    made = unit()
    assert made.name == "toy_entry"
    assert made.text.count('#include "kernels/toy.cuh"') == 1
    assert made.text.count('extern "C" __global__ void __launch_bounds__(384, 1) toy_entry(') == 1
    assert "TensorMap const __grid_constant__ map_a" in made.text
    assert "float* const __grid_constant__ out" in made.text
    assert "toy_kernel<Config>(map_a, out);" in made.text


def test_unit_knows_the_headers_it_reaches_and_no_others():
    assert unit().headers == ("base.cuh", "kernels/toy.cuh", "ptx/wait.cuh")


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (True, "static constexpr bool x = true;"),
        (False, "static constexpr bool x = false;"),
        (-3, "static constexpr int x = -3;"),
        (2**31 - 1, "static constexpr int x = 2147483647;"),
        (CudaType("bf16"), "using x = bf16;"),
    ],
)
def test_each_kind_of_constant_is_stated_by_name(value, line):
    assert f"  {line}" in unit({"x": value}).text


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (2**31, ValueError),
        (-(2**31) - 1, ValueError),
        (0.5, TypeError),
        ("bf16", TypeError),
        (None, TypeError),
    ],
)
def test_a_constant_without_a_literal_is_refused_by_name(value, error):
    with pytest.raises(error, match="constant x"):
        unit({"x": value})


@pytest.mark.parametrize(
    "changes",
    [
        {"entry": "toy entry"},
        {"kernel_template": "toy<1>"},
        {"constants": {"tile-m": 1}},
        {"parameters": [("int", "2n")]},
    ],
)
def test_a_name_that_cpp_would_not_take_is_refused(changes):
    with pytest.raises(ValueError, match="not a C\\+\\+ identifier"):
        unit(**changes)


def test_static_asserts_follow_config_and_quote_their_message():
    text = unit(static_asserts=[("sizeof(Config) == 1", 'tile "m"\nbackslash \\')]).text
    asserted = 'static_assert(sizeof(Config) == 1, "tile \\"m\\"\\nbackslash \\\\");'
    assert text.index("struct Config") < text.index(asserted) < text.index('extern "C"')


def test_preamble_precedes_the_header_and_config_the_entry():
    text = unit(preamble="struct Before {};").text
    order = ["struct Before {};", '#include "kernels/toy.cuh"', "struct Config", 'extern "C"']
    places = [text.index(part) for part in order]
    assert places == sorted(places)


@pytest.mark.parametrize("header", ["kernels/broken.cuh", "toy.cuh"])
def test_an_include_that_the_package_lacks_is_named(header):
    missing = "absent.cuh" if header == "kernels/broken.cuh" else header
    with pytest.raises(ValueError, match=missing):
        unit(kernel_header=header)


def test_digest_depends_on_the_named_headers_alone(toy_headers):
    toy, other = (
        reachable_headers('#include "kernels/toy.cuh"'),
        reachable_headers('#include "kernels/other.cuh"'),
    )
    before = headers_digest(toy), headers_digest(other)
    toy_headers["ptx/wait.cuh"] += "// edited\n"
    headers_digest.cache_clear()
    after = headers_digest(toy), headers_digest(other)
    assert [a == b for a, b in zip(before, after, strict=True)] == [False, True]


def test_package_headers_are_found_by_their_include_names(monkeypatch):
    monkeypatch.setattr(source, "HEADERS", source.Headers())
    names = package_headers()
    assert "types.cuh" in names
    assert all(name.endswith(".cuh") and "\\" not in name for name in names)


@pytest.mark.parametrize("n", [8, 128, 256])
@pytest.mark.parametrize("input_type", ["bf16", "f16"])
@pytest.mark.parametrize(("a_major", "b_major", "bits"), [("K", "K", "0, 0"), ("K", "MN", "0, 1"), ("MN", "K", "1, 0")])
def test_wgmma_wrapper_numbers_its_operands(n, input_type, a_major, b_major, bits):
    text = wgmma_wrapper(n, input_type, a_major, b_major)
    registers = n // 2
    assert f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{input_type}.{input_type} " in text
    assert [int(i) for i in re.findall(r'"\+f"\(d\[(\d+)\]\)', text)] == list(range(registers))
    vector = text[text.index("k16.f32") : text.index('"}, %')]
    assert [int(i) for i in re.findall(r"%(\d+)", vector)] == list(range(registers))
    assert f'"}}, %{registers}, %{registers + 1}, scale_d, 1, 1, {bits};' in text
    assert f"setp.ne.b32 scale_d, %{registers + 2}, 0;" in text


@pytest.mark.parametrize(("input_type", "k", "majors"), [("bf16", 16, ", 1"), ("e4m3", 32, "")])
def test_wgmma_wrapper_takes_a_in_registers(input_type, k, majors):
    text = wgmma_wrapper(16, input_type, "K", "MN" if majors else "K", a_in_registers=True)
    assert f"m64n16k{k}.f32.{input_type}.{input_type} " in text
    assert f'"}}, {{%8, %9, %10, %11}}, %12, scale_d, 1, 1{majors};' in text
    assert "setp.ne.b32 scale_d, %13, 0;" in text
    with pytest.raises(ValueError, match="registers hold rows of A; give 'K'"):
        wgmma_wrapper(16, "bf16", "MN", a_in_registers=True)


@pytest.mark.parametrize(
    "arguments",
    [(12, "bf16"), (0, "bf16"), (264, "f16"), (64, "tf32"), (64, "bf16", "row"), (64, "e4m3", "MN")],
)
def test_wgmma_wrapper_refuses_shapes_that_the_instruction_lacks(arguments):
    with pytest.raises(ValueError, match=r"n = |input_type = |a_major = "):
        wgmma_wrapper(*arguments)
