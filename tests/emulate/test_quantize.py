"""`tilewright.quantize` in the emulator with its checks, against NumPy bit for bit."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from support.doubles import CountingBackend
from support.quantization import BLOCKS, KINDS, assert_quantized
from tilewright.backends.emulated import EmulatedBackend
from tilewright.hardware import A100, H200, Hardware, standing_for

INPUTS = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp32": np.float32}


def uneven(shape, kind="bf16", seed=0):
    """Numbers of many magnitudes, zeros among them."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape) * np.exp(generator.standard_normal((*shape[:-1], 1)))
    values[generator.random(shape) < 0.05] = 0
    return values.astype(INPUTS[kind])


def quantized(x, dtype, hardware: Hardware = H200, **options):
    """The result, made under all checks."""
    backend = EmulatedBackend(hardware, checks=True)
    result = tw.quantize(x, dtype, backend=backend, **options)
    assert not backend.device.reports
    return result


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_each_block(block, transposed):
    x = uneven((150, 272))
    assert_quantized(quantized(x, "fp8_e4m3", block=block, transposed=transposed), x, "fp8_e4m3", block)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("kind", INPUTS)
def test_each_type(kind, dtype):
    x = uneven((40, 144), kind)
    assert_quantized(quantized(x, dtype, block="1x128"), x, dtype, "1x128")


def test_memory_order_of_block_scales():
    x = uneven((2, 3, 7, 300))
    codes, scale = quantized(x, "int8", block="1x128")
    assert scale.strides == (3 * 7 * 4, 7 * 4, 4, 44 * 4)  # rows of all batches are neighbors, padded to 16 bytes
    assert codes.flags.c_contiguous
    assert_quantized((codes, scale), x, "int8", "1x128")


def viewed(x, layout):
    """x with another memory layout."""
    if layout == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "spaced":
        return np.repeat(np.repeat(x, 2, -2), 3, -1)[..., ::2, ::3]
    if layout == "reversed":
        return x[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
    if layout == "skewed":  # rows begin anywhere
        wide = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
        wide[..., 1:-2] = x
        return wide[..., 1:-2]
    return x


@st.composite
def cases(draw):
    shape = draw(st.sampled_from([(1, 1), (5, 7), (3, 1040), (129, 130), (2, 9, 33), (2, 1, 2, 17, 128)]))
    dtype = draw(st.sampled_from(sorted(KINDS)))
    return {
        "x": uneven(shape, draw(st.sampled_from(sorted(INPUTS))), draw(st.integers(0, 99))),
        "layout": draw(st.sampled_from(["packed", "transposed", "spaced", "reversed", "skewed"])),
        "dtype": dtype,
        "block": draw(st.sampled_from(sorted(BLOCKS))),
        "transposed": draw(st.booleans()),
        "power_of_two": draw(st.booleans()),
        "saturate": dtype == "int8" or draw(st.booleans()),
        "strange": draw(st.sampled_from([(), (np.inf, np.nan, -np.inf), (np.nan,)])),
    }


@settings(max_examples=12)
@given(cases())
def test_generated_cases(case):
    x, layout, strange = case.pop("x"), case.pop("layout"), case.pop("strange")
    x.reshape(-1)[: len(strange)] = strange[: x.size]
    result = quantized(viewed(x, layout), **case)
    assert_quantized(result, x, case["dtype"], case["block"], case["power_of_two"], case["saturate"])


def test_values_at_the_end_of_the_range():
    ends = {
        "fp8_e4m3": [448, 463.99, 464, 464.01, 465, 1e30],
        "fp8_e5m2": [57344, 61439, 61439.99, 61440, 61441, 1e30],
        "int8": [126.5, 127.49, 127.5, 127.51, 128.5, 1e30],
    }
    for dtype, values in ends.items():
        x = np.array([[*values, np.inf, np.nan], [-v for v in (*values, np.inf, np.nan)]], np.float32)
        for saturate in (True,) if dtype == "int8" else (True, False):
            scale = np.ones((), np.float32)
            result = quantized(x, dtype, scale=scale, saturate=saturate)
            assert result[1] is scale
            assert_quantized(result, x, dtype, "tensor", saturate=saturate, given=scale)


def test_small_magnitudes():
    x = np.zeros((6, 4), np.float32)
    x[:5, 0] = [1e-45, 2.0**-126, 2.0**-130, 3e38, -1e-38]
    for power_of_two in (False, True):
        result = quantized(x, "fp8_e4m3", block="row", power_of_two=power_of_two)
        assert_quantized(result, x, "fp8_e4m3", "row", power_of_two)
        assert (result[1] > 0).all()
        assert result[1][5] == 1


@pytest.mark.parametrize("power_of_two", [False, True])
def test_codes_are_within_half_a_unit(power_of_two):
    x = uneven((64, 128), "fp32")
    for dtype, units in (("fp8_e4m3", 2.0**-3), ("fp8_e5m2", 2.0**-2), ("int8", 0)):
        codes, scale = quantized(x, dtype, block="row", power_of_two=power_of_two)
        ratio = x.astype(np.float64) / scale
        least = 2.0**-6 if dtype == "fp8_e4m3" else 2.0**-14
        unit = 1 if dtype == "int8" else units * np.maximum(2.0 ** np.floor(np.log2(np.abs(ratio) + 1e-99)), least)
        off = np.abs(codes.astype(np.float64) - ratio)
        assert (off <= unit / 2 + (0 if power_of_two else 2.0**-22 * np.abs(ratio))).all()
        assert (off > unit * 0.49).any()


@pytest.mark.parametrize("block", BLOCKS)
def test_given_scales_of_any_strides(block):
    x = uneven((130, 140))
    rows, columns = {"tensor": (1, 1), "row": (130, 1), "1x128": (130, 2), "128x128": (2, 2)}[block]
    spaced = np.random.default_rng(0).uniform(0.005, 0.03, (2 * columns, 3 * rows)).astype(np.float32)
    scale = spaced[::-2, ::3].T
    result = quantized(x, "int8", block=block, scale=scale, transposed=block in ("tensor", "128x128"))
    assert_quantized(result[:2], x, "int8", block, given=scale)
    if len(result) == 4:
        assert np.shares_memory(result[3], scale)
        np.testing.assert_array_equal(result[2], result[0].T)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0, 4, 4), (2, 3, 0)])
def test_nothing_to_quantize(shape, block):
    x = np.zeros(shape, np.float16)
    assert_quantized(quantized(x, "fp8_e5m2", block=block, transposed=True), x, "fp8_e5m2", block)


def inside(shape, filler, kind, spread=1):
    """An array in another one that is larger and filled, and the places around it."""
    wide = np.full((shape[0] + 2, spread * shape[1] + 5), filler, kind)
    around = np.ones(wide.shape, bool)
    around[1:-1, 2:-3:spread] = False
    return wide[1:-1, 2:-3:spread], wide, around


@pytest.mark.parametrize("block", ["row", "1x128"])
def test_outs_with_gaps(block):
    """Nothing is written beside the outs, and everything in them."""
    x = uneven((131, 145))
    blocks = 1 if block == "row" else 2
    made = [
        inside((131, 145), 77, np.int8),
        inside((131, blocks), np.nan, np.float32, 3),
        inside((145, 131), 77, np.int8),
        inside((145, blocks), np.nan, np.float32, 2),
    ]
    result = quantized(x, "int8", block=block, transposed=True, out=[view for view, _, _ in made])
    assert all(each is view for each, (view, _, _) in zip(result, made, strict=True))
    assert_quantized(result, x, "int8", block)
    for _, wide, around in made:
        np.testing.assert_array_equal(wide[around], wide[0, 0])


@pytest.mark.parametrize("asynchrony", ["lazy", "random"])
def test_any_order_of_completion(asynchrony):
    x = uneven((129, 257), "fp16")
    for block in ("tensor", "1x128"):
        backend = EmulatedBackend(H200, checks=True, asynchrony=asynchrony, seed=3)
        result = tw.quantize(x, "fp8_e4m3", block=block, transposed=True, backend=backend)
        assert not backend.device.reports
        assert_quantized(result, x, "fp8_e4m3", block)


@pytest.mark.parametrize("block", BLOCKS)
def test_tiles_that_come_later_are_brought_to_l2(block):
    """On a GPU of one SM, where others follow each CTA, of the next matrix too."""
    x = uneven((2, 300, 384))
    result = quantized(x, "fp8_e4m3", H200._replace(sm_count=1), block=block)
    assert_quantized(result, x, "fp8_e4m3", block)


def test_all_sectors_of_a_later_tile_are_brought_to_l2():
    """Two threads have 5 chunks of 16 bytes in 5 sectors, so that a round and a half of all threads bring a row."""
    rows, ahead, columns = 12, 10, 2560
    backend = CountingBackend(H200._replace(sm_count=1))
    tw.quantize(uneven((rows, columns)), "fp8_e4m3", block="row", backend=backend)
    warps = backend.counted[0].warp_instructions["prefetch.global.L2"]
    assert 32 * warps == (rows - ahead) * columns * 2 // 32


def test_older_gpus():
    x = uneven((70, 144))
    for hardware, dtype in ((A100, "int8"), (standing_for("sm_89"), "fp8_e4m3")):
        result = quantized(x, dtype, hardware, block="1x128", transposed=True)
        assert_quantized(result, x, dtype, "1x128")


def test_the_examples_of_the_page_run():
    page = (Path(__file__).parents[2] / "docs/low-precision.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert examples
    names = {}
    for example in examples:  # each goes on where the last one ended
        exec(compile(example, "low-precision.md", "exec"), names)


@pytest.mark.parametrize("kind", ["bf16", "fp32"])
@pytest.mark.parametrize("block", BLOCKS)
def test_no_bank_conflicts_and_whole_sectors(block, kind):
    for layout in ("packed", "transposed"):
        backend = CountingBackend()
        x = uneven((256, 384), kind)
        tw.quantize(viewed(x, layout), "fp8_e4m3", block=block, transposed=True, backend=backend)
        total = backend.counted[0]  # which has merged the others
        assert not sum(total.shared_conflicts.values())
        reads = 2 if block in ("tensor", "row") else 1
        codes, scales = 2 * x.size // 32, 2 * 4 * x.size // 32 // 128
        assert x.nbytes * reads // 32 <= total.global_sectors["ld"] <= x.nbytes * reads // 32 + reads * scales + 64
        assert codes <= total.global_sectors["st"] <= codes + scales + 64
