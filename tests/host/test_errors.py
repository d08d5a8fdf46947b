"""Bad input: the right exception, which names the argument, its value, the rule and what to do; nothing runs."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.doubles import V100, GpuArray, RecordingBackend
from tilewright import api
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnavailableError, UnsupportedError
from tilewright.hardware import H200
from tilewright.planner import planning

CASES = {}

OURS = {
    TypeError: ArgumentTypeError,
    ValueError: ArgumentValueError,
    NotImplementedError: UnsupportedError,
    RuntimeError: UnavailableError,
}
"""What is raised for a built-in error, which it also is."""


def bad(exception, *fragments, backend=None):
    """Register a function that returns (positional, keyword) arguments of a call that must raise `exception`.

    The message must contain every fragment; the last one is the remedy.
    """

    def register(function):
        CASES[function.__name__] = (function, exception, fragments, backend)
        return function

    return register


def f16(*shape):
    return np.zeros(shape, np.float16)


@bad(ValueError, "a has shape (3, 4)", "b (5, 6)", "last dimension (4)", "(5)", "transposed?")
def inner_extents_differ():
    return (f16(3, 4), f16(5, 6)), {}


@bad(ValueError, "(2, 3, 4)", "(3, 4, 5)", "(2,)", "(3,)", "do not broadcast", "must be equal or 1")
def batches_do_not_broadcast():
    return (f16(2, 3, 4), f16(3, 4, 5)), {}


@bad(NotImplementedError, "5 batch dimensions (2, 2, 2, 2, 2)", "cannot be merged", "contiguous or loop")
def batches_that_no_kernel_walks():
    shape = (2,) * 5
    return (f16(*shape, 3, 4).transpose(4, 3, 2, 1, 0, 5, 6), f16(*shape, 4, 5)), {}


@bad(ValueError, "b is a scalar", "one or more dimensions", "use *")
def scalar_operand():
    return (f16(3, 4), np.array(2, np.float16)), {}


@bad(ValueError, "bias has shape (3,)", "(3, 5)", "does not broadcast", "must be 1 or match", "the shape (3, 1)")
def bias_along_m_without_an_axis():
    return (f16(3, 4), f16(4, 5)), {"bias": f16(3)}


@bad(ValueError, "c has shape (2, 3, 5)", "does not broadcast", "(3, 5)", "must be 1 or match")
def c_has_more_dimensions_than_out():
    return (f16(3, 4), f16(4, 5), f16(2, 3, 5)), {}


@bad(ValueError, "out has shape (5, 3)", "(3, 5)", "pass an out of that shape")
def out_has_another_shape():
    return (f16(3, 4), f16(4, 5)), {"out": f16(5, 3)}


@bad(TypeError, "a is a list", "no array interface", "pass a NumPy, torch")
def a_list():
    return ([[1.0, 2.0]], f16(2, 2)), {}


@bad(TypeError, "bias is a float", "which is a number", "pass an array of it")
def bias_is_a_number():
    return (f16(3, 4), f16(4, 5)), {"bias": 1.0}


@bad(TypeError, "a.dtype=float64", "bf16, fp16, fp32", "convert it first")
def float64_operands():
    return (np.zeros((3, 4)), np.zeros((4, 5))), {}


@bad(TypeError, "operands['r'].dtype=float64", "use bf16, fp16, fp32 (an array of another: convert it first)")
def float64_beside_an_expression():
    return (f16(3, 4), f16(4, 5)), {"epilogue": "acc + r", "operands": {"r": np.zeros((3, 5))}}


@bad(TypeError, "bias is int32", "bf16, fp16 or fp32", "convert it")
def integer_bias():
    return (f16(3, 4), f16(4, 5)), {"bias": np.zeros(5, np.int32)}


@bad(TypeError, "a is fp16", "b is bf16", "one dtype", "convert one")
def mixed_dtypes():
    return (f16(3, 4), np.zeros((4, 5), ml_dtypes.bfloat16)), {}


@bad(TypeError, "a is fp8_e4m3 and b is fp16", "fp8_e4m3 or fp8_e5m2", "convert one")
def fp8_beside_another_type():
    return (np.zeros((3, 4), ml_dtypes.float8_e4m3fn), f16(4, 5)), {}


@bad(TypeError, "a is int32", "not multiplied", "convert it to one of bf16")
def sums_as_an_input():
    return (np.zeros((3, 4), np.int32), np.zeros((4, 5), np.int32)), {}


@bad(TypeError, "out is int32", "fp16 by fp16", "fp16, bf16, fp32")
def integers_of_a_product_of_floats():
    return (f16(3, 4), f16(4, 5)), {"out": np.zeros((3, 5), np.int32)}


@bad(TypeError, "gate was given and out is int32", "take an out of fp32")
def gate_of_whole_numbers():
    return (np.zeros((3, 4), np.int8), np.zeros((4, 6), np.int8)), {"gate": "stacked"}


@bad(TypeError, "outputs was given and out is int32", "take an out of fp32")
def largest_of_whole_numbers():
    return (np.zeros((3, 4), np.int8), np.zeros((4, 6), np.int8)), {"outputs": {"amax": ones(1)}}


@bad(TypeError, "operands['r'] is int8", "an epilogue computes with bf16, fp16 or fp32", "acc + r")
def operand_of_integers():
    return (f16(3, 4), f16(4, 5)), {"epilogue": "acc + r", "operands": {"r": np.zeros((3, 5), np.int8)}}


def e4m3(*shape):
    return np.zeros(shape, ml_dtypes.float8_e4m3fn)


def ones(*shape):
    return np.ones(shape, np.float32)


@bad(NotImplementedError, "k is 131072", "131071 products of int8 may overflow int32", "split k")
def sums_that_may_overflow():
    return (np.zeros((3, 131072), np.int8), np.zeros((131072, 5), np.int8)), {}


@bad(ValueError, "alpha=2.0 scales sums", "out is int32", "leave it out, or take an out of fp32")
def scaled_whole_numbers():
    return (np.zeros((3, 4), np.int8), np.zeros((4, 5), np.int8)), {"alpha": 2.0}


@bad(TypeError, "bias was given and out is int32", "take an out of fp32")
def whole_numbers_and_a_bias():
    return (np.zeros((3, 4), np.int8), np.zeros((4, 5), np.int8)), {"bias": ones(5)}


@bad(TypeError, "activation was given and out is int32", "take an out of fp32")
def whole_numbers_and_an_activation():
    return (np.zeros((3, 4), np.int8), np.zeros((4, 5), np.int8)), {"activation": "relu"}


@bad(TypeError, "a.dtype=>f4", "byte-swapped", "astype")
def byte_swapped():
    return (np.zeros((3, 4), ">f4"), np.zeros((4, 5), ">f4")), {}


@bad(TypeError, "a is a masked array", "fill the mask")
def masked():
    return (np.ma.masked_array(f16(3, 4)), f16(4, 5)), {}


@bad(TypeError, "a.dtype=int64 is not a supported dtype: use bf16, fp16, fp32, fp8_e4m3, fp8_e5m2, int8 (an array of")
def int64_factors():
    return (np.zeros((3, 4), np.int64), np.zeros((4, 5), np.int64)), {}


@bad(ValueError, "epilogue: with a gate there is no acc: its sums are x and y")
def acc_of_a_gate():
    return (f16(3, 4), f16(4, 6)), {"epilogue": "acc", "gate": "stacked"}


@bad(TypeError, "out.dtype=float64 is not a supported dtype: pass an out of bf16, fp16, fp32")
def float64_out():
    return (f16(3, 4), f16(4, 5)), {"out": np.zeros((3, 5))}


@bad(TypeError, "out is int8", "fp16 by fp16", "fp16, bf16, fp32")
def unsupported_out_dtype():
    return (f16(3, 4), f16(4, 5)), {"out_dtype": "int8"}


@bad(TypeError, "out_dtype=('f4', -1)", "bf16, fp16, fp32", "int32")
def out_dtype_that_numpy_refuses():
    return (f16(3, 4), f16(4, 5)), {"out_dtype": ("f4", -1)}


@bad(TypeError, "out_dtype=>f4", "bf16, fp16, fp32", "int32")
def out_dtype_is_byte_swapped():
    return (f16(3, 4), f16(4, 5)), {"out_dtype": np.dtype(">f4")}


@bad(TypeError, "out_dtype=3.0", "bf16, fp16, fp32", "int32")
def out_dtype_is_a_number():
    return (f16(3, 4), f16(4, 5)), {"out_dtype": np.float32(3)}


@bad(TypeError, "out is fp16", "out_dtype=fp32", "drop one")
def out_dtype_contradicts_out():
    return (f16(3, 4), f16(4, 5)), {"out": f16(3, 5), "out_dtype": "fp32"}


@bad(ValueError, "a has strides of (8, 3) bytes", "2-byte elements", "copy it first")
def strides_between_elements():
    memory = np.zeros(64, np.uint8)
    return (np.ndarray((3, 2), np.float16, memory, 0, (8, 3)), f16(2, 5)), {}


@bad(ValueError, "b is on the CPU", "a on GPU 0", "one device", "move b")
def operands_on_cpu_and_gpu():
    return (GpuArray(f16(3, 4)), f16(4, 5)), {"out": GpuArray(f16(3, 5))}


@bad(ValueError, "bias is on GPU 1", "a on GPU 0", "one device", "move bias")
def operands_on_two_gpus():
    a, b, out = GpuArray(f16(3, 4)), GpuArray(f16(4, 5)), GpuArray(f16(3, 5))
    return (a, b), {"out": out, "bias": GpuArray(f16(5), device=1)}


@bad(ValueError, "a is on GPU 0", "backend='emulator'", "host memory", "move the operands", backend="emulator")
def emulator_with_gpu_operands():
    return (GpuArray(f16(3, 4)), GpuArray(f16(4, 5))), {"out": GpuArray(f16(3, 5))}


@bad(ValueError, "out shares memory with a", "overwritten", "pass another out")
def out_is_an_input():
    a = f16(4, 4)
    return (a, f16(4, 4)), {"out": a}


@bad(ValueError, "out shares memory with b", "overwritten", "pass another out")
def out_overlaps_an_input_partly():
    memory = f16(8, 4)
    return (f16(4, 4), memory[:4]), {"out": memory[3:7]}


@bad(ValueError, "out shares memory with c", "only c may be out itself", "same shape, strides and dtype")
def out_is_c_shifted():
    memory = f16(5, 4)
    return (f16(4, 4), f16(4, 4), memory[:4]), {"out": memory[1:]}


@bad(ValueError, "out shares memory with c", "only c may be out itself", "same shape, strides and dtype")
def out_is_c_transposed():
    c = f16(4, 4)
    return (f16(4, 4), f16(4, 4), c), {"out": c.T}


@bad(ValueError, "out with shape (3, 5) and strides of (0, 1) elements", "memory twice", "without overlap")
def out_is_broadcast():
    out = np.lib.stride_tricks.as_strided(f16(5), (3, 5), (0, 2))
    return (f16(3, 4), f16(4, 5)), {"out": out}


@bad(ValueError, "out is read-only", "pass a writable array")
def out_is_read_only():
    out = f16(3, 5)
    out.flags.writeable = False
    return (f16(3, 4), f16(4, 5)), {"out": out}


@bad(ValueError, "beta=2.0", "c, which is not given", "pass c=")
def beta_without_c():
    return (f16(3, 4), f16(4, 5)), {"beta": 2.0}


@bad(TypeError, "beta=array([1., 2.])", "not a real number", "pass a float")
def beta_is_an_array_without_c():
    return (f16(3, 4), f16(4, 5)), {"beta": np.array([1.0, 2.0])}


@bad(TypeError, "alpha='2'", "not a real number", "pass a float")
def alpha_is_text():
    return (f16(3, 4), f16(4, 5)), {"alpha": "2"}


@bad(ValueError, "alpha has over 308 digits", "does not fit fp32", "at most 3.40282e+38")
def alpha_is_an_integer_that_no_float_holds():
    return (f16(3, 4), f16(4, 5)), {"alpha": 10**5000}


@bad(ValueError, "activation=array(['relu', 'silu']", "relu, gelu, gelu_tanh, silu")
def activation_is_an_array():
    return (f16(3, 4), f16(4, 5)), {"activation": np.array(["relu", "silu"])}


@bad(ValueError, "activation='swish'", "relu, gelu, gelu_tanh, silu")
def unknown_activation():
    return (f16(3, 4), f16(4, 5)), {"activation": "swish"}


@bad(ValueError, "kernel='cublas'", "does not exist", "use 'auto' or one of", "mma")
def unknown_kernel():
    return (f16(3, 4), f16(4, 5)), {"kernel": "cublas"}


@bad(ValueError, "backend='cpu'", "unknown", "use 'auto', 'gpu' or 'emulator'", backend="cpu")
def unknown_backend():
    return (f16(3, 4), f16(4, 5)), {}


@bad(ValueError, "kernel='mma' does not take", "a is fp32", "use kernel='auto'")
def kernel_for_other_dtypes():
    return (np.zeros((3, 4), np.float32), np.zeros((4, 5), np.float32)), {"kernel": "mma"}


@bad(ValueError, "kernel='wgmma' does not take", "A100", "use kernel='auto'")
def kernel_for_a_later_gpu():
    return (f16(8, 8), f16(8, 8)), {"kernel": "wgmma"}


@bad(TypeError, "config={'tile_m': 64}", "not a Config of any kernel", "MmaConfig")
def config_is_a_dictionary():
    return (f16(3, 4), f16(4, 5)), {"config": {"tile_m": 64}}


@bad(
    tw.ConfigError,
    "config: it is not what kernel 'wgmma' takes",
    "tilewright.WgmmaConfig(...)",
    "another kernel=; the Config is MmaConfig()",
    backend=RecordingBackend(H200),
)
def config_of_another_kernel():
    return (f16(8, 8), f16(8, 8)), {"config": tw.MmaConfig(), "kernel": "wgmma"}


@bad(
    tw.ConfigError,
    "config: it breaks the rule",
    "make tile_m a multiple of 16 * warps_m",
    "the Config is MmaConfig(tile_m=100)",
)
def config_breaks_a_rule():
    return (f16(3, 4), f16(4, 5)), {"config": tw.MmaConfig(tile_m=100)}


@bad(tw.ConfigError, "stages=4.0 of type float", "stages is of type int", "convert it")
def config_field_of_another_type():
    return (f16(3, 4), f16(4, 5)), {"config": tw.MmaConfig(stages=4.0)}


@bad(tw.ConfigError, "stages=12", "bytes of shared memory", "A100 has 166912", "take fewer stages or a smaller tile")
def config_is_too_large_for_the_gpu():
    return (f16(3, 4), f16(4, 5)), {"config": tw.MmaConfig(stages=12)}


@bad(NotImplementedError, "no kernel takes", "V100", "sm_80 or later", "sm_70", backend=RecordingBackend(V100))
def gpu_is_too_old():
    return (f16(3, 4), f16(4, 5)), {}


@bad(NotImplementedError, "simt needs", "bf16", "sm_80 or later", "V100 is sm_70", backend=RecordingBackend(V100))
def gpu_is_too_old_for_fp32():
    return (np.zeros((3, 4), np.float32), np.zeros((4, 5), np.float32)), {}


@bad(RuntimeError, "backend='gpu'", "none is usable", "tilewright doctor", backend="gpu")
def no_gpu_at_all():
    return (f16(3, 4), f16(4, 5)), {}


@bad(
    RuntimeError,
    "4096x4096x65536 fp16",
    "minutes",
    "use a GPU or a smaller product",
    "TILEWRIGHT_EMULATOR_SECONDS=",
    backend="auto",
)
def large_product_without_a_gpu():
    zero = np.zeros(1, np.float16)
    return (np.broadcast_to(zero, (4096, 65536)), np.broadcast_to(zero, (65536, 4096))), {}


@pytest.fixture
def nothing_compiles(monkeypatch):
    def build(unit, arch):
        raise AssertionError(f"{unit.name} was compiled for {arch}")

    monkeypatch.setattr(planning, "build", build)
    monkeypatch.setattr(planning, "in_memory", lambda unit, arch: None)
    monkeypatch.setattr(api, "gpu_count", lambda: 0)


@pytest.mark.usefixtures("nothing_compiles")
def test_a_product_whose_padding_takes_too_long_is_refused(monkeypatch):
    long = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 100_000_000), (0, 0))
    with pytest.raises(RuntimeError, match=r"1x1x100000000 .* would take .* about .* minutes, and it stops at"):
        tw.plan(long, long.T)
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "inf")
    with pytest.raises(AssertionError, match="was compiled"):
        tw.plan(long, long.T)


@pytest.mark.parametrize("call", [tw.matmul, tw.plan])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("nothing_compiles")
def test_bad_input_is_explained_before_anything_runs(name, call):
    function, exception, fragments, backend = CASES[name]
    recording = backend if isinstance(backend, RecordingBackend) else RecordingBackend()
    arrays, keywords = function()
    with pytest.raises(exception) as caught:
        call(*arrays, **keywords, backend=backend or recording)
    assert caught.type is OURS.get(exception, exception)
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert not recording.prepared
    assert not recording.launched
