"""Multimem addresses: what all places hold is reduced, stored and added to, on values worked out by hand."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, Misaligned, OutOfBounds, PtxSyntaxError, UnsupportedInstruction

SOURCE = """
extern "C" __global__ void all(TYPE* out, TYPE* many, const TYPE* in) {
  int t = threadIdx.x;
  TYPE* at = many + t * COUNT;
  BODY;
}
"""


def run(body, kind, places, values, count=1, threads=4, shift=0):
    """What a kernel leaves in `out` and in each place."""
    dtype = places[0].dtype
    device = Device(memory_bytes=1 << 20)
    addresses = [device.upload(place) for place in places]
    out, given = device.allocate(places[0].nbytes), device.upload(np.asarray(values, dtype))
    source = SOURCE.replace("TYPE", kind).replace("COUNT", str(count)).replace("BODY", body)
    many = device.multicasts.bind(addresses, places[0].nbytes) + shift
    device.launch(device.load(compile_ptx(source)), 1, threads, [out, many, given])
    assert not device.reports
    return [device.read(address, places[0].nbytes).view(dtype) for address in (out, *addresses)]


THREE = [np.array([1, 2, 3, 4], np.uint32), np.array([10, 20, 30, 40], np.uint32), np.array([5, 6, 7, 0], np.uint32)]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", [16, 28, 40, 44]),
        ("max.s32", [10, 20, 30, 40]),
        ("min.u32", [1, 2, 3, 0]),
        ("or.b32", [15, 22, 31, 44]),
    ],
)
def test_a_load_reduces_what_all_places_hold(operation, expected):
    body = f'unsigned v; asm volatile("multimem.ld_reduce.{operation} %0, [%1];" : "=r"(v) : "l"(at)); out[t] = v'
    out, *places = run(body, "unsigned", THREE, [0] * 4)
    assert out.tolist() == expected
    assert [place.tolist() for place in places] == [place.tolist() for place in THREE]


def test_a_store_goes_to_all_places():
    body = 'asm volatile("multimem.st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(at), "r"(in[t]) : "memory")'
    _, *places = run(body, "unsigned", THREE, [7, 8, 9, 10])
    assert [place.tolist() for place in places] == [[7, 8, 9, 10]] * 3


def test_a_reduction_goes_to_all_places_and_is_atomic():
    body = 'asm volatile("multimem.red.add.u32 [%0], %1;" :: "l"(many), "r"(in[t]) : "memory")'
    _, *places = run(body, "unsigned", THREE, [1, 2, 3, 4])
    assert [place.tolist() for place in places] == [[11, 2, 3, 4], [20, 20, 30, 40], [15, 6, 7, 0]]


def test_vectors_of_floats():
    places = [np.arange(8, dtype=np.float32), np.full(8, 0.5, np.float32)]
    body = (
        'float4 v; asm volatile("multimem.ld_reduce.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"'
        ' : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));'
        " out[4 * t] = v.x; out[4 * t + 1] = v.y; out[4 * t + 2] = v.z; out[4 * t + 3] = v.w"
    )
    out, *_ = run(body, "float", places, [0] * 8, count=4, threads=2)
    assert out.tolist() == [index + 0.5 for index in range(8)]


@pytest.mark.parametrize(("precision", "expected"), [("", 2048), (".acc::f32", 2050)])
def test_halves_are_summed_in_their_own_type_or_in_f32(precision, expected):
    """2048 and 1 are 2048 in fp16, and so a second time; in f32 they are 2050, which is an fp16 again."""
    places = [np.full(2, value, np.float16).view(np.uint32) for value in (2048, 1, 1)]
    body = (
        f'unsigned v; asm volatile("multimem.ld_reduce.add{precision}.f16x2 %0, [%1];" : "=r"(v) : "l"(at)); out[t] = v'
    )
    out, *_ = run(body, "unsigned", places, [0], threads=1)
    assert out.view(np.float16).tolist() == [expected] * 2


@pytest.mark.planted_fault
def test_a_vector_is_aligned_as_a_whole():
    body = 'asm volatile("multimem.red.add.v4.f32 [%0], {%1, %1, %1, %1};" :: "l"(at), "f"(1.0f) : "memory")'
    places = [np.zeros(8, np.float32)] * 2
    _, *places = run(body, "float", places, [0], threads=1)
    assert [place.tolist() for place in places] == [[1, 1, 1, 1, 0, 0, 0, 0]] * 2
    with pytest.raises(Misaligned, match=r"accesses 16 bytes .* not a multiple of 16"):
        run(body, "float", places, [0], threads=1, shift=4)


@pytest.mark.planted_fault
def test_only_multimem_addresses_and_only_by_multimem():
    body = 'asm volatile("multimem.st.u32 [%0], %1;" :: "l"(AT), "r"(1) : "memory")'
    for at in ("in", "at + 4"):
        with pytest.raises(OutOfBounds, match="no multimem address"):
            run(body.replace("AT", at), "unsigned", THREE, [0] * 4)
    with pytest.raises(OutOfBounds, match="outside every allocation"):
        run("out[t] = at[0]", "unsigned", THREE, [0] * 4)


@pytest.mark.planted_fault
def test_a_race_in_a_place_is_reported():
    source = """
    extern "C" __global__ void race(unsigned* place, unsigned* many) {
      if (threadIdx.x == 0) asm volatile("multimem.st.u32 [%0], %1;" :: "l"(many), "r"(1) : "memory");
      if (threadIdx.x == 40) place[1] = place[0];
    }
    """
    device = Device(memory_bytes=1 << 20)
    places = [device.upload(np.zeros(4, np.uint32)) for _ in range(2)]
    device.launch(device.load(compile_ptx(source)), 1, 64, [places[1], device.multicasts.bind(places, 16)])
    assert [report.kind for report in device.reports] == ["race"]


def test_what_ptx_does_not_have():
    module = ".version 8.1\n.target sm_90\n.visible .entry e() {{ .reg .b64 %a; .reg .b32 %r; .reg .b16 %h; {} ret; }}"
    for instruction, message in (
        ("multimem.red.min.f32 [%a], %r;", "no emulation of .*min"),
        ("multimem.st.f16 [%a], %h;", "16 bits, and floating-point types take 32, 64 or 128"),
        ("multimem.ld_reduce.max.acc::f32.f16x2 %r, [%a];", "needs PTX 8.2 or later"),
    ):
        with pytest.raises((UnsupportedInstruction, PtxSyntaxError), match=message):
            Device(memory_bytes=1 << 20).load(module.format(instruction))
    device = Device(memory_bytes=1 << 20)
    place = device.allocate(64)
    wrong = (([], 16, "places is"), ([place + 4], 16, "multiples of 16"), ([place], 65, "bounds"))
    for places, nbytes, message in wrong:
        with pytest.raises(ValueError, match=message):
            device.multicasts.bind(places, nbytes)
