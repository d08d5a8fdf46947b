"""What `tilewright.quantize` refuses, in whose words, and how it cuts x."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.doubles import Shared
from tilewright.backends.absent import AbsentGpu
from tilewright.dtypes import bf16, fp16, fp32, int8
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnavailableError, UnsupportedError
from tilewright.hardware import A100, H200
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.quantize import LONGEST_ROW, QuantizeConfig, config_of, constants_of, launches, validate
from tilewright.operand import HOST, Operand, contiguous_strides
from tilewright.planner.quantizing import Operands, Options, bind, forms

X = np.ones((6, 300), np.float16)
SCALE = np.ones((6, 3), np.float32)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": "bf16"}, ArgumentTypeError, "dtype=bf16 is not a type that quantize makes: use one of fp8_e4m3"),
        ({"dtype": "fp4"}, ArgumentTypeError, "dtype=fp4"),
        ({"x": np.ones((4, 4))}, ArgumentTypeError, "x.dtype=float64 is not a supported dtype"),
        ({"x": np.ones((4, 4), np.int8)}, ArgumentTypeError, "x is int8, which is not quantized"),
        ({"x": np.ones(4, np.float32)}, ArgumentValueError, r"x has shape \(4,\)"),
        ({"x": 3}, ArgumentTypeError, "x is a int, which is a number"),
        ({"block": "column"}, ArgumentValueError, "block='column' is unknown: use one of 'tensor', 'row'"),
        ({"block": ["row"]}, ArgumentValueError, "is unknown"),
        ({"transposed": 1}, ArgumentTypeError, "transposed=1 is not a bool"),
        ({"dtype": "int8", "saturate": False}, ArgumentValueError, "for which int8 has no codes"),
        ({"scale": SCALE, "power_of_two": True}, ArgumentValueError, "drop one"),
        ({"scale": SCALE, "transposed": True}, ArgumentValueError, "call quantize for each"),
        ({"scale": SCALE[:5]}, ArgumentValueError, r"scale has shape \(5, 3\), .* it is \(6, 3\)"),
        ({"scale": SCALE, "block": "tensor"}, ArgumentValueError, r"it is \(\)"),
        ({"scale": SCALE.astype(np.float16)}, ArgumentTypeError, "scale is fp16 and must be fp32"),
        ({"scale": SCALE * 0}, ArgumentValueError, "scale has 0.0 among its elements"),
        ({"scale": SCALE * -1}, ArgumentValueError, "scale has -1.0 among its elements"),
        ({"scale": SCALE * np.nan}, ArgumentValueError, "scale has nan among its elements"),
        ({"scale": SCALE * np.inf}, ArgumentValueError, "scale has inf among its elements"),
        ({"scale": SCALE * np.float32(1e-40)}, ArgumentValueError, "and a scale is finite and at least 2"),
        ({"scale": 2.0}, ArgumentTypeError, "scale is a float"),
        ({"out": X}, ArgumentTypeError, "out is a ndarray: pass a tuple of 2 arrays"),
        ({"out": (None,)}, ArgumentValueError, "out has 1 elements, and the result 2"),
        ({"out": (None, SCALE), "scale": SCALE}, ArgumentValueError, r"out\[1\] is the scale, which is given"),
        ({"out": (None,) * 3 + (SCALE,), "block": "tensor", "transposed": True}, ArgumentValueError, r"out\[3\] is"),
        ({"out": (np.zeros((6, 300), np.int8), None)}, ArgumentTypeError, r"out\[0\] is int8 and must be fp8_e4m3"),
        ({"out": (None, np.ones((6, 2), np.float32))}, ArgumentValueError, r"out\[1\] has shape \(6, 2\)"),
        ({"out": (None, read_only(SCALE.copy()))}, ArgumentValueError, r"out\[1\] is read-only"),
        ({"out": (None, np.broadcast_to(SCALE[:1], (6, 3)))}, ArgumentValueError, r"out\[1\] is read-only"),
        ({"backend": "cpu"}, ArgumentValueError, "backend='cpu' is unknown"),
    ],
)  # fmt: skip
def test_refusals(options, error, message):
    call = {"x": X, "dtype": "fp8_e4m3", "block": "1x128", "backend": "emulator"} | options
    with pytest.raises(error, match=message):
        tw.quantize(call.pop("x"), call.pop("dtype"), **call)


def test_codes_that_are_not_neighbors():
    codes = np.zeros((6, 600), ml_dtypes.float8_e4m3fn)[:, ::2]
    with pytest.raises(ArgumentValueError, match=r"out\[0\] has strides of \(600, 2\) elements"):
        tw.quantize(X, "fp8_e4m3", out=(codes, None), backend="emulator")


def test_outs_that_overlap():
    memory = np.zeros(6 * 300 * 2, np.uint8)
    x = memory.view(np.float16).reshape(6, 300)
    codes = memory[:1800].view(np.int8).reshape(6, 300)
    with pytest.raises(ArgumentValueError, match=r"out\[0\] overlaps x"):
        tw.quantize(x, "int8", out=(codes, None), backend="emulator")
    both = np.zeros(1800, np.int8)
    out = (both.reshape(6, 300), None, both.reshape(300, 6), None)
    with pytest.raises(ArgumentValueError, match=r"out\[2\] overlaps out\[0\]"):
        tw.quantize(X, "int8", out=out, transposed=True, backend="emulator")


def test_fp8_of_an_older_gpu():
    backend = AbsentGpu(A100)
    with pytest.raises(UnsupportedError, match="dtype=fp8_e5m2 needs the conversions of sm_89 or later, and A100"):
        tw.quantize(X, "fp8_e5m2", backend=backend)


def test_what_takes_the_emulator_too_long(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "0.001")
    with pytest.raises(UnavailableError, match="quantizing 1800 elements would take the emulator about"):
        tw.quantize(X, "fp8_e4m3", block="128x128", saturate=False, backend="emulator")


def test_more_batch_dimensions_than_can_be_walked():
    x = np.ones((2, 3, 2, 3, 2, 4, 4), np.float32)[::-1, :, ::-1, :, ::-1].transpose(0, 2, 4, 1, 3, 5, 6)
    with pytest.raises(UnsupportedError, match="batch dimensions"):
        tw.quantize(x, "int8", block="128x128", backend="emulator")


def operand(shape, dtype=bf16, strides=None):
    return Operand(16, shape, strides or contiguous_strides(shape), dtype, HOST, True, None)


def question_of(shape, *, dtype=bf16, strides=None, **flags):
    """The Quantization of a call whose outs are packed, and whether it is that of x.T."""
    named = {"block": "tensor", "power_of_two": False, "saturate": True, "transposed": False} | flags
    options = Options.of("fp8_e4m3", **named)
    made = [operand(form.shape, form.dtype) for form in forms(options, shape)]
    return bind(Operands(operand(shape, dtype, strides), None, made), options)


def test_x_is_taken_as_it_lies_in_memory():
    question, exchanged = question_of((256, 512), strides=(1, 256), block="row")
    assert exchanged
    assert (question.rows, question.columns) == (512, 256)
    assert question.codes is None
    assert question.transposed_codes is not None
    assert question.transposed_codes.row_stride == 512
    assert question.maxima_bytes == (512 + 256) * 4  # its columns are in several tiles
    assert not question_of((256, 512), block="row")[0].maxima_bytes


def test_batches_of_rows_are_rows():
    question, _ = question_of((4, 8, 16, 64), block="row")
    assert (question.rows, question.batch) == (512, ())
    question, _ = question_of((4, 8, 16, 64), block="128x128")
    assert (question.rows, question.batch) == (16, (32,))


@pytest.mark.parametrize("columns", [129, 1000, 4096, 5120, 11008, 28672, LONGEST_ROW])
@pytest.mark.parametrize("dtype", [bf16, fp16, fp32])
def test_a_row_fits_its_tile(columns, dtype):
    question, _ = question_of((64, columns), dtype=dtype, block="row")
    config = config_of(question)
    assert columns <= config.tile_n < 2 * columns + 512
    assert config.threads <= 512
    assert config.tile_m * config.tile_n <= 40960  # codes in static shared memory
    assert not question.maxima_count


@pytest.mark.parametrize("dtype", [bf16, fp16, fp32])
@pytest.mark.parametrize("block", ["tensor", "row", "1x128", "128x128"])
@pytest.mark.parametrize("columns", [5, 128, 1000, 4096, 40000])
def test_the_usual_config_is_allowed(dtype, block, columns):
    for transposed in (False, True):
        question, _ = question_of((300, columns), dtype=dtype, block=block, transposed=transposed)
        validate(question, config_of(question))


@pytest.mark.parametrize(
    ("config", "options", "rule"),
    [
        (QuantizeConfig(threads=512), {"transposed": True}, "threads are at most 256, for 16 rows at once"),
        (QuantizeConfig(64, 128, 128), {"transposed": True}, "with codes of x.T, the tile is 128 x 128"),
        (QuantizeConfig(threads=100), {}, "threads are whole warps"),
        (QuantizeConfig(threads=0), {}, "threads are whole warps"),
        (QuantizeConfig(ahead=-1), {}, "ahead is 0 to 1023"),
        (QuantizeConfig(128, 100), {}, "tile_n is a multiple of 8"),
        (QuantizeConfig(128, 24), {}, "a warp loads whole rows of a tile"),
        (QuantizeConfig(2, 4096, 256), {}, "threads are a multiple of the 512 that load a row"),
        (QuantizeConfig(8, 128, 256), {}, "threads share the tile evenly"),
        (QuantizeConfig(1, 2048, 128), {"block": "row"}, "take a tile_n of 4096 or more"),
        (QuantizeConfig(64, 256, 128), {"block": "1x128"}, "take a tile of any x 128"),
        (QuantizeConfig(64, 128, 128), {"block": "128x128"}, "take a tile of 128 x 128"),
    ],
)
def test_configs_that_are_refused(config, options, rule):
    question, _ = question_of((256, 4096), **options)
    with pytest.raises(ConfigError, match=rule):
        launches(question, H200, config)


def test_accesses_are_as_wide_as_memory_allows():
    for shape, strides, load, store in (
        ((8, 64), None, 16, 16),
        ((8, 24), None, 16, 8),
        ((8, 64), (68, 1), 8, 16),
        ((8, 7), None, 2, 1),
        ((8, 64), (128, 2), 2, 16),
    ):
        question, _ = question_of(shape, strides=strides, block="1x128")
        constants = constants_of(question, config_of(question), measures=False)
        assert (constants.load_bytes, constants.direct_bytes) == (load, store)


def test_forms_of_results():
    for block, shapes in (
        ("tensor", [(300, 260), (), (260, 300)]),
        ("row", [(300, 260), (300, 1), (260, 300), (260, 1)]),
        ("1x128", [(300, 260), (300, 3), (260, 300), (260, 3)]),
        ("128x128", [(300, 260), (3, 3), (260, 300)]),
    ):
        made = forms(Options(int8, block, False, True, True), (300, 260))
        assert [form.shape for form in made] == shapes


def test_a_scale_that_has_no_views_is_refused_before_anything_is_written():
    scale, codes = np.ones((1, 3), np.float32), np.full(X.shape, 7, np.int8)
    options = {"block": "128x128", "transposed": True, "backend": "emulator"}
    with pytest.raises(TypeError, match=r"scale is a Shared without swapaxes, .* pass an array of a library"):
        tw.quantize(X, "int8", scale=Shared(scale), out=(codes, None, None, None), **options)
    with pytest.raises(TypeError, match=r"out\[1\] is a Shared without swapaxes"):
        tw.quantize(X, "int8", out=(codes, Shared(scale), None, None), **options)
    assert (codes == 7).all()
    tw.quantize(X, "int8", scale=Shared(scale), block="128x128", backend="emulator")
