"""The arguments that `tilewright check --arg` describes."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.checking.parameters import fit
from tilewright.checking.wording import COMMAND_LINE
from tilewright.cli.check.arguments import parse_arguments
from tilewright.emulator import Device


def test_arguments_reach_the_kernel(tmp_path):
    np.save(tmp_path / "a.npy", np.float32([[1, 2], [3, 4]]))
    texts = ["5", "-3", "0x10", "1.5", "bf16:1.5", "u8:255", "ptr:null", "bytes:0aff", "f32[2]", "x=s16[2,3]:arange",
             "ptr:x", "ptr:x+4", f"f32[2,2]:{tmp_path}/a.npy", "u8[4]:7", "e4m3[2]:ones", "f64[3]:zeros"]  # fmt: skip
    arguments = parse_arguments(texts)
    arrays = arguments.initial(0)
    assert list(arrays) == ["arg8", "x", "arg12", "arg13", "arg14", "arg15"]
    assert np.isnan(arrays["arg8"]).all()
    assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["arg12"].tolist() == [[1, 2], [3, 4]]
    assert arrays["arg13"].tolist() == [7] * 4
    assert arrays["arg14"].astype(float).tolist() == [1, 1]
    assert arrays["arg15"].tolist() == [0] * 3
    device = Device(memory_bytes=1 << 16)
    addresses = {name: device.upload(array) for name, array in arrays.items()}
    values = arguments.values(device, addresses)
    assert values[:4] == [5, -3, 16, 1.5]
    assert [value.tobytes() for value in values[4:6]] == [b"\xc0\x3f", b"\xff"]
    assert values[6:8] == [0, b"\x0a\xff"]
    assert values[8:12] == [addresses["arg8"], addresses["x"], addresses["x"], addresses["x"] + 4]


@settings(max_examples=300)
@given(
    st.text(alphabet="abfstu 0123489xe.,:=+-[]()") | st.from_regex(r"\A(tensormap\()?a?=?[fsu](8|16|32)\[\d?,?\d\].*\Z")
)
def test_any_other_text_is_refused_by_name(text):
    refusal = "--arg"
    try:
        parse_arguments([text])
    except ValueError as error:  # anything else is a defect
        refusal = str(error)
    assert refusal.startswith("--arg")


@pytest.mark.parametrize("digits", ["zz", "0"])
def test_bytes_that_are_not_hexadecimal_are_refused(digits):
    with pytest.raises(ValueError, match=f"--arg 'bytes:{digits}': {digits} is not hexadecimal: write two digits"):
        parse_arguments([f"bytes:{digits}"])


def test_random_values_depend_on_the_seed_alone():
    first, again, other = (parse_arguments(["f32[9]:random", "f32[9]:random"]).initial(seed) for seed in (1, 1, 2))
    assert first["arg0"].tobytes() == again["arg0"].tobytes()
    assert first["arg0"].tobytes() != other["arg0"].tobytes()
    assert first["arg0"].tobytes() != first["arg1"].tobytes()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["five"], "--arg 'five': write 5, f32:1.5, f32"),
        (["f31:1"], "'f31' is not an element type: use one of f16, bf16"),
        (["f31[2]"], "'f31' is not an element type"),
        (["f32[2,0]"], r"\[2,0\] must be positive numbers"),
        (["f32[]"], r"\[\] must be positive numbers"),
        (["u8:256"], "256 does not fit uint8, which holds 0 to 255"),
        (["u8:1.5"], "'1.5' is not an integer"),
        (["f32[2]:rand"], "'rand' is not a number, nor one of random, zeros"),
        (["ptr:out"], "no array is named 'out': there are none"),
        (["a=f32[2]", "a=f32[2]"], "the name 'a' is taken"),
        (["tensormap(a, swizzle=128)"], r"write tensormap\(ARRAY, box=\[64,64\]"),
        (["tensormap(a=f32[8,8], box=[8,8], swizzle=big)"], "swizzle=big must be"),
        (["tensormap(b, box=[8,8])", "a=f32[2]"], "no array is named 'b': there are a"),
        (["bytes:0g"], "--arg 'bytes:0g'"),
    ],
)
def test_arguments_that_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        parse_arguments(texts)


STRUCTURE = """
struct Pair { int count; float factor; long long rest; };
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void take(unsigned long long p, unsigned n, float f, double d, unsigned char c, Pair pair,
                                unsigned short half, Map map) {}
"""


def test_arguments_take_the_types_of_their_parameters(ptx):
    kernel = Device().load(ptx(STRUCTURE).read_text())
    fitting = ["f32[4]", "-1", "3", "4", "255", "bytes:" + "00" * 16, "f16:1.5", "tensormap(a=f32[8,8], box=[8,8])"]
    arguments = parse_arguments(fitting)
    fit(arguments, kernel, COMMAND_LINE)
    assert arguments.items[1:5] == [-1, 3.0, 4.0, 255]
    assert [type(item) for item in arguments.items[1:5]] == [int, float, float, int]
    wrong = [(0, "1.5", r"ptr:NAME, tensormap\(\.\.\.\) or an"), (0, "f32:1", "ptr:NAME"),
             (1, "f32[4]", "a 4-byte integer"),
             (1, "4294967296", "a 4-byte integer"), (2, "f32[4]", "a number such as 1.5"), (2, "f64:1", "a number"),
             (3, "f32:1", "a number"),
             (4, "256", "a 1-byte integer"), (5, "bytes:00", "tilewright.Struct"), (5, "5", "bytes:HEX of 16"),
             (6, "1.5", "a 2-byte integer"), (7, "f32[4]", "tensormap"),
             (1, "tensormap(b=f32[8,8], box=[8,8])", "a 4-byte"),
             ]  # fmt: skip
    for number, text, taken in wrong:
        texts = [*fitting[:number], text, *fitting[number + 1 :]]
        declared = rf"( has \d+ bytes)?: parameter {number + 1} of take, \.\w+"
        with pytest.raises(ValueError, match=rf"^--arg '{re.escape(text)}'{declared}.*, takes .*{taken}"):
            fit(parse_arguments(texts), kernel, COMMAND_LINE)
