"""What a host can ask of the emulated GPU: arguments, tensor maps and PTX of any kind, and what it refuses."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, LaunchError, OutOfBounds, PtxSyntaxError
from tilewright.emulator.semantics.elements import ELEMENT_NAMES, element_dtype
from tilewright.emulator.semantics.tensor_map import decode_tensor_map

ARGUMENTS = """
struct Pair { int a, b; };
extern "C" __global__ void arguments(double* out, float f, double d, signed char c, unsigned short h, Pair pair) {
  out[0] = f; out[1] = d; out[2] = c; out[3] = h; out[4] = pair.a; out[5] = pair.b;
}
"""
BEFORE = (0.5, 1e300, -128, 65535, bytes(8))


def arguments(*values):
    device = Device(memory_bytes=1 << 16)
    out = device.allocate(48)
    device.launch(device.load(compile_ptx(ARGUMENTS)), (1,), (1,), [out, *values])
    return device.read(out, 48).view(np.float64).tolist()


@pytest.mark.parametrize(
    "values",
    [
        (0.5, 1e300, -128, 65535, np.int32([3, -4]).tobytes()),
        (np.float32(0.5), np.float64(1e300), np.int8(-128), np.uint16(65535), bytearray(np.int32([3, -4]).tobytes())),
        (np.uint32(0x3F000000), np.float64(1e300), 128, -1, b"\3\0\0\0\xfc\xff\xff\xff"),
    ],
)
def test_arguments_take_the_size_of_their_parameters(values):
    assert arguments(*values) == [0.5, 1e300, -128, 65535, 3, -4]


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (0, np.float64(1), r"args\[1\] has 8 bytes; parameter arguments_param_1 of arguments has 4"),
        (2, 256, r"args\[3\] is 256, which does not fit the 1 bytes of parameter arguments_param_3"),
        (2, -129, r"args\[3\] is -129, which does not fit"),
        (2, 1.5, r"args\[3\] is the float 1\.5; parameter arguments_param_3 is of type \.[us]8: give an int"),
        (3, 3.5, r"args\[4\] is the float 3\.5; parameter arguments_param_4 is of type \.u16: give an int"),
        (4, b"1234", r"args\[5\] has 4 bytes"),
        (0, np.zeros(1, np.float32), r"args\[1\] is a ndarray.*pass the address that Device\.upload returns"),
        (0, "1", r"args\[1\] is a str"),
    ],
)
def test_arguments_that_do_not_fit(index, value, message):
    values = list(BEFORE)
    values[index] = value
    with pytest.raises(LaunchError, match=message):
        arguments(*values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": (1, 70000)}, r"grid \(1, 70000, 1\) has an extent above the limits, \(2147483647, 65535, 65535\)"),
        ({"block": (1, 1, 65)}, r"block \(1, 1, 65\) has an extent above the limits"),
        ({"grid": (32,), "cluster": (32,)}, "more than 16 CTAs"),
        ({"shared_bytes": 233_000}, "needs 233000 bytes of shared memory; a CTA has 232448"),
    ],
)
def test_launches_that_no_gpu_takes(options, message):
    device = Device(memory_bytes=1 << 16)
    kernel = device.load(compile_ptx('extern "C" __global__ void nothing() {}'))
    with pytest.raises(LaunchError, match=message):
        device.launch(kernel, options.pop("grid", (1,)), options.pop("block", (1,)), [], **options)


@pytest.mark.parametrize("form", [6, np.int64(6), (6,), [6, 1], np.array([6, 1, 1])])
@pytest.mark.parametrize("argument", ["grid", "block", "cluster"])
def test_an_extent_is_a_number_or_up_to_three(argument, form):
    device = Device(memory_bytes=1 << 16)
    out = device.upload(np.zeros(1, np.uint32))
    kernel = device.load(compile_ptx('extern "C" __global__ void count(unsigned* out) { atomicAdd(out, 1); }'))
    device.launch(kernel, args=[out], **{"grid": 6, "block": 1, argument: form})
    assert device.read(out, 4).view(np.uint32) == (36 if argument == "block" else 6)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, (2.5,), "32", b"32", ("32",), None, (), (1, 1, 1, 1), (4, 0), (4, -1)])
@pytest.mark.parametrize("argument", ["grid", "block", "cluster"])
def test_what_is_no_extent_is_refused_by_name(argument, wrong):
    device = Device(memory_bytes=1 << 16)
    kernel = device.load(compile_ptx('extern "C" __global__ void nothing() {}'))
    message = f"{argument} is {wrong!r} and must be one to three integers from 1 on: give n, or (x, y, z)"
    with pytest.raises(LaunchError, match=re.escape(message)):
        device.launch(kernel, args=[], **{"grid": 1, "block": 1, argument: wrong})


NOTHING = 'extern "C" __global__ void nothing(void*) {}'
MAP = {"dtype": "float16", "address": 1 << 20, "shape": (8, 8), "strides": (16,), "box": (8, 8)}


@pytest.mark.parametrize("wrong", ["x", None, 1.5, [None], {}, -1, [-1], [1.5]], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda device, wrong: device.upload(wrong),
        lambda device, wrong: device.upload(np.array([wrong], object)),
        lambda device, wrong: device.write(device.allocate(16), wrong),
        lambda device, wrong: device.write(wrong, np.zeros(1)),
        lambda device, wrong: device.read(wrong, 1),
        lambda device, wrong: device.read(device.allocate(16), wrong),
        lambda device, wrong: device.free(wrong),
        lambda device, wrong: device.allocate(wrong),
        lambda device, wrong: device.allocate(16, align=wrong),
        lambda device, wrong: device.load(wrong),
        lambda device, wrong: device.load(compile_ptx(NOTHING), {"it": wrong}),
        lambda device, wrong: device.launch(wrong, 1, 32, [0]),
        lambda device, wrong: device.launch(device.load(compile_ptx(NOTHING)), 1, 32, 5 if wrong == [-1] else wrong),
        lambda device, wrong: device.launch(device.load(compile_ptx(NOTHING)), 1, 32, [0], shared_bytes=wrong),
        lambda device, wrong: device.launch(device.load(compile_ptx(NOTHING)), 1, 32, [0], max_steps=wrong),
        lambda device, wrong: Device(memory_bytes=wrong),
        lambda device, wrong: Device(seed=wrong),
        *(lambda device, wrong, key=key: device.tensor_map(**{**MAP, key: wrong})
          for key in ("address", "shape", "strides", "box", "swizzle", "interleave", "l2_promotion", "oob_fill")),
        lambda device, wrong: device.tensor_map(**{**MAP, "dtype": wrong or {1: 2}}),
    ],
)  # fmt: skip
def test_what_is_of_the_wrong_kind_is_refused_and_changes_nothing(call, wrong):
    device = Device(memory_bytes=1 << 16)
    with pytest.raises(tw.TilewrightError):
        call(device, wrong)
    assert device.read(device.upload(np.arange(4)), 32).view(np.int64).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("address", "nbytes", "said"),
    [
        (15, 2, "is out of bounds for 2 bytes: it is 1 byte before the end of the allocation of 16 bytes at 0x7"),
        (16, 1, "is out of bounds for 1 byte: it is 0 bytes past the end of the allocation of 16 bytes at 0x7"),
    ],
)
def test_what_is_out_of_bounds_is_said_in_grammar(address, nbytes, said):
    device = Device(memory_bytes=1 << 16)
    with pytest.raises(ValueError, match=said):
        device.read(device.allocate(16) + address, nbytes)


STRAY = """
struct Numbers { float v[100]; };
extern "C" __global__ void stray(float* x, int offset, Numbers numbers) {
  x[offset + threadIdx.x] = numbers.v[threadIdx.x];
}
"""


def stray(device, x, offset):
    device.launch(device.load(compile_ptx(STRAY)), 1, 4, [x, offset, bytes(400)])


@pytest.mark.parametrize("offset", [64, 100, 128, 131, 160, 227, 1000])
def test_no_wrong_index_into_an_array_leads_to_the_parameters(offset):
    device = Device(memory_bytes=1 << 16)
    x = device.upload(np.zeros(64, np.float32))
    stray(device, x, 60)
    with pytest.raises(OutOfBounds, match=f"it is {(offset - 64) * 4} bytes past the end of the allocation of 256"):
        stray(device, x, offset)


def test_no_parameters_take_the_place_of_what_was_freed():
    device = Device(memory_bytes=1 << 16)
    kept, freed = device.allocate(16), device.allocate(16)
    device.free(freed)
    with pytest.raises(OutOfBounds) as raised:
        stray(device, freed, 0)
    assert raised.value.address == freed
    stray(device, kept, 0)


VALID = {"dtype": "bf16", "address": 1 << 20, "shape": (64, 8), "strides": (128,), "box": (64, 8), "swizzle": 128}


INTERLEAVED = {
    "interleave": 32, "shape": (16, 8, 4), "strides": (128, 1024), "box": (16, 8, 4), "swizzle": 32,
}  # fmt: skip


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("dtype", ["bf16", np.float16, "u16", ml_dtypes.bfloat16])
def test_a_tensor_map_keeps_what_it_was_made_of(rank, dtype):
    shape, strides = (64, 5, 4, 3, 2)[:rank], (128, 640, 2560, 7680)[: rank - 1]
    data = Device(memory_bytes=1 << 16).tensor_map(
        dtype=dtype,
        address=1 << 20,
        shape=shape,
        strides=strides,
        box=(32,) * rank,
        element_strides=(1, 2, 3, 4, 8)[:rank],
        interleave=0,
        swizzle=64,
        l2_promotion=256,
        oob_fill="nan" if dtype != "u16" else "zeros",
    )
    assert len(data) == 128
    decoded = decode_tensor_map(data)
    assert (decoded.shape, decoded.strides, decoded.box) == (shape, strides, (32,) * rank)
    assert (decoded.address, decoded.element_bytes, decoded.swizzle) == (1 << 20, 2, 64)
    assert decoded.element_type == {"bf16": "bf16", np.float16: "f16", "u16": "u16"}.get(dtype, "bf16")
    assert decoded.tile == (32, 16, 11, 8, 4)[:rank]
    assert decoded.oob_nan == (dtype != "u16")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"dtype": "bf17"}, ValueError, "'bf17' is not an element type: use one of f16, bf16"),
        ({"address": 8}, ValueError, "address is 8 and must be positive and 16-byte aligned"),
        ({"shape": (64,) * 6}, ValueError, "must have 1 to 5 dimensions"),
        ({"strides": (129,)}, ValueError, r"strides\[0\] is 129 and must be a multiple of 16"),
        ({"box": (128, 8)}, ValueError, "at most the swizzle's 128"),
        ({"swizzle": 16}, ValueError, "swizzle is 16 and must be one of"),
        ({"l2_promotion": 32}, ValueError, "l2_promotion is 32 and must be 0, 64, 128 or 256"),
        ({"dtype": np.complex128}, ValueError, "element_type is u128 and must be one of u8, u16"),
        (
            {"element_strides": (1,)},
            ValueError,
            r"element_strides is \(1,\) and must have as many dimensions as shape, 2",
        ),
        ({"element_strides": (1, 0)}, ValueError, r"element_strides\[1\] is 0 and must be in 1..8"),
        ({"element_strides": (9, 1)}, ValueError, r"element_strides\[0\] is 9 and must be in 1..8"),
        ({"oob_fill": "ones"}, ValueError, "oob_fill is 'ones' and must be 'zeros' or 'nan'"),
        (
            {"oob_fill": "nan", "dtype": "u16"},
            ValueError,
            "oob_fill is 'nan' and needs floating-point elements, not u16",
        ),
        ({"interleave": 8}, ValueError, "interleave is 8 and must be 0, 16 or 32 bytes"),
        ({"interleave": 16}, ValueError, "interleave is 16 and needs a tensor of 3 to 5 dimensions, not 2"),
        (
            {**INTERLEAVED, "address": 1 << 20 | 16},
            ValueError,
            "address is .* must be 32-byte aligned where interleave",
        ),
        ({**INTERLEAVED, "strides": (128, 1040)}, ValueError, r"strides\[1\] is 1040 .* 32 bytes where interleave"),
        ({**INTERLEAVED, "swizzle": 64}, ValueError, "swizzle is 64 and must be 32 where interleave is 32"),
        (INTERLEAVED, NotImplementedError, "interleave is 32: only 0, no interleaving, is emulated"),
        ({**INTERLEAVED, "interleave": 16}, NotImplementedError, "interleave is 16: only 0"),
    ],
)
def test_tensor_maps_that_are_refused(changed, error, message):
    with pytest.raises(error, match=message):
        Device(memory_bytes=1 << 16).tensor_map(**{**VALID, **changed})


@pytest.mark.parametrize("name", ELEMENT_NAMES)
def test_element_types_have_the_width_of_their_names(name):
    bits = {"tf32": 32, "bf16": 16, "e4m3": 8, "e5m2": 8}.get(name) or int(name[1:])
    assert element_dtype(name).itemsize * 8 == bits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"PTX line 1: unexpected '' where PTX has \.version and \.target"),
        ("#include <cuda.h>", r"PTX line 1: unexpected '#include <cuda\.h>' .* like CUDA C\+\+, .*nvcc -ptx -lineinfo"),
        ('// k.cu\nextern "C" __global__ void k() {}', "PTX line 2: unexpected 'extern .*: this looks like CUDA C"),
        ("block sums/k.ptx", r"like a file's path, and the text is wanted, as Path\(\.\.\.\)\.read_text\(\)"),
        ("hello", "PTX line 1: unexpected 'hello' where PTX has .version and .target$"),
        (".version 8.0\n.address_size 64\n", r"PTX line 1: unexpected"),
        ("\n// x\n.version 17.0\n.target sm_90\n", r"PTX line 3: \.version 17\.0 is unknown: use one of 6\.0 to 9\.x"),
        (".version 8.0\n/* x */ .target sm_52\n", r"PTX line 2: \.target sm_52 is unknown: compile for one of sm_70,"),
        (".version 8.0\n.target sm_90b, debug\n", r"\.target sm_90b is unknown"),
    ],
)
def test_headers_that_are_refused(text, message):
    with pytest.raises(PtxSyntaxError, match=message):
        Device(memory_bytes=1 << 16).load(text)


@pytest.mark.parametrize("target", ["sm_70", "sm_80, debug", "sm_90a"])
def test_headers_that_are_taken(target):
    kernel = Device(memory_bytes=1 << 16).load(
        f"// by hand\n.version 8.0 .target {target}\n.address_size 64\n.visible .entry e() {{ ret; }}"
    )
    assert kernel.name == "e"


def test_a_path_is_no_text():
    with pytest.raises(TypeError, match=r"ptx is a \w*Path, and must be the text or its bytes"):
        Device().load(Path("kernel.ptx"))
