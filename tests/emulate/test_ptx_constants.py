"""Constants and expressions of them, wherever PTX takes a number."""

import numpy as np
import pytest

from tilewright.emulator import Device, PtxSyntaxError
from tilewright.emulator.ptx.constants import constant_of
from tilewright.emulator.ptx.syntax import Float

MODULE = """
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .u32 tab[8] = {1, 2, 3, 4, 5*2, 1<<4|1, 7 > 3 ? 9 : 2, ~0};
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .f32 %f<2>;
  .shared .align 4 .b32 buf[32];
  ld.param.u64 %d1, [out];
  cvta.to.global.u64 %d1, %d1;
BODY
  ret;
}
"""


def run(body):
    """What a body stores in eight words of zeros."""
    device = Device(memory_bytes=1 << 20)
    words = device.upload(np.zeros(8, np.int32))
    device.launch(device.load(MODULE.replace("BODY", body)), (1,), (1,), [words])
    return device.read(words, 32).view(np.int32).tolist()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4*3", 12),
        ("2+3*4-6/4", 13),
        ("(2+3)*4", 20),
        ("-7/2", -3),
        ("-7 % 3", 0),
        ("7 % 3 > -1", 0),
        ("1<<5|1", 33),
        ("-8 >> 1", -4),
        ("~0 >> 4", (1 << 60) - 1),
        ("~0 > 1", 1),
        ("-1 < 0", 1),
        ("-1 < 0U", 0),
        ("-1 > (.u64)1", 1),
        ("(.s64)0xffffffffffffffff < 0", 1),
        ("0xff ^ 0x0f & 3", 0xFC),
        ("!5 + !0", 1),
        ("5 && 0 || 3", 1),
        ("(3 == 3) + (2 != 2) + (2 <= 2)", 2),
        ("1 ? 2 : 0 ? 3 : 4", 2),
        ("0 ? 2 : 0 ? 3 : 4", 4),
        ("WARP_SZ*2", 64),
        ("1 << 65", 2),
        ("0x7fffffffffffffff + 1", -(1 << 63)),
        ("0xffffffffffffffff", (1 << 64) - 1),
        ("- 5", -5),
        ("1.5*2.0", 3.0),
        ("1.0/4.0 - 1.0", -0.75),
        ("1.0/0.0", float("inf")),
        ("-(1.0 + 0f3F800000)", -2.0),
        ("1.5 > 1.0", 1),
    ],
)
def test_expressions_have_the_values_of_ptxas(text, value):
    found = constant_of(text)
    assert isinstance(found, Float) == isinstance(value, float)
    assert found.value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        "4*",
        "4 4",
        "*4",
        "a*2",
        "%r1",
        "!%p1",
        "-%r1",
        "4)",
        "-0f3F800000",
        "1?2",
        "~1.5",
        "0f12 + 1",
        "1 + " + "9" * 60,
    ],
)
def test_other_texts_are_none(text):
    assert constant_of(text) is None


def test_nesting_has_an_end():
    assert constant_of("(" * 64 + "1" + ")" * 64).value == 1
    assert constant_of("1" + "+1" * 5000).value == 5001
    for text in ("(" * 100_000 + "1", "-" * 100_000 + "1", "(.s64)" * 100 + "1", "1 ? " * 100 + "1" + ": 1" * 100):
        with pytest.raises(ValueError, match="nested more than 64 deep"):
            constant_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [("1/0", "divided by zero"), ("5 % (2-2)", "divided by zero"), ("1.5+1", "floating-point constant on one")],
)
def test_expressions_without_a_value_are_refused(text, said):
    with pytest.raises(PtxSyntaxError, match=rf"PTX line \d+.*{said}"):
        run(f"mov.b32 %r1, {text};")


def test_expressions_are_operands_offsets_and_initial_values():
    words = run("""
  mov.b32 %r1, (1<<5)|1;             st.global.b32 [%d1], %r1;
  add.u32 %r1, %r1, -(2+3);          st.global.b32 [%d1+2*2], %r1;
  ld.const.b32 %r1, [tab+(2+2)*4];   st.global.b32 [%d1+12-4], %r1;
  mov.u64 %d2, tab+4*5;              ld.const.b32 %r1, [%d2]; st.global.b32 [%d1+12], %r1;
  mov.f32 %f1, 1.5*2.0;              st.global.f32 [%d1+16], %f1;
  ld.const.b32 %r1, [tab+24];        st.global.b32 [%d1+20], %r1;
  ld.const.b32 %r1, [tab+28];        st.global.b32 [%d1+24], %r1;
""")
    assert words[:4] == [33, 28, 10, 17]
    assert np.array(words[4], np.int32).view(np.float32) == 3.0
    assert words[5:7] == [9, -1]


def test_elements_of_arrays_are_addresses_without_brackets():
    words = run("""
  ld.const.b32 %r1, tab[4];     st.global.b32 [%d1], %r1;
  ld.const.b32 %r1, [tab[1+2]]; st.global.b32 [%d1+4], %r1;
  st.shared.b32 buf[2*3], 7;    ld.shared.b32 %r1, [buf+24]; st.global.b32 [%d1+8], %r1;
""")
    assert words[:3] == [10, 4, 7]


def test_a_label_is_defined_once_in_a_scope():
    with pytest.raises(PtxSyntaxError, match="PTX line 14: the label again is defined twice in one scope"):
        run("again: mov.b32 %r1, 1;\n  mov.b32 %r2, 2;\nagain: mov.b32 %r3, 3;")
    assert run("{ again: mov.b32 %r1, 1; }\n { again: mov.b32 %r1, 2; }\n st.global.b32 [%d1], %r1;")[0] == 2


@pytest.mark.parametrize(
    "access",
    ["ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d1];", "st.global.v4.b64 [%d1], {%d1,%d1,%d1,%d1};"],
)
def test_accesses_of_32_bytes_need_their_version(access):
    with pytest.raises(PtxSyntaxError, match=r"needs sm_100 or higher, this module says \.target sm_90"):
        run(access)
