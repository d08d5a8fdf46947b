"""Textures and surfaces: what they give by hand calculation, their rules, and the checks of their memory."""

import numpy as np
import pytest

from emulate.lookups import FLOATS, ONE, first, looked_up
from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device, EmulatorError, Misaligned, OutOfBounds, UnsupportedInstruction


def test_the_nearest_texel_is_that_in_which_the_place_lies():
    places = [(0, 0), (0.99, 0), (1, 0), (2.5, 1.5), (-3, 0), (9, 0), (9, 9)]
    assert first(ONE, FLOATS, places) == [1, 1, 2, 32, 1, 4, 32]
    assert first(ONE, FLOATS, places, address="border") == [1, 1, 2, 32, 0, 0, 0]


def test_normalized_coordinates_wrap_and_mirror():
    places = [(0.5, 0.25), (1.0, 0.25), (-0.1, 0.75), (2.4, 1.75)]
    assert first(ONE, FLOATS, places, normalized=True) == [2, 4, 8, 32]
    assert first(ONE, FLOATS, places, normalized=True, address="wrap") == [2, 1, 32, 16]
    assert first(ONE, FLOATS, places, normalized=True, address="mirror") == [2, 4, 8, 2]


def test_channels_layers_depth_and_types():
    four = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    assert looked_up("tex2D<float4>(t, c.x, c.y)", four, [(1, 1)])[0].tolist() == [16, 17, 18, 19]
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    three = "make_float4(tex3D<float>(t, c.x, c.y, c.z), 0, 0, 0)"
    assert first(three, cube, [(3, 2, 1), (9, 0, 0)], 3) == [23, 3]
    assert first(three, cube, [(2, 1.5, 1)], 3, filter="linear") == [(5 + 6 + 17 + 18) / 4]
    layers = "make_float4(tex2DLayered<float>(t, c.x, c.y, (int)c.z), tex2DLayered<float>(t, c.x, c.y, 7), 0, 0)"
    assert looked_up(layers, cube, [(1, 1, 0)], 2, layered=True)[0, :2].tolist() == [5, 17]
    rows = "make_float4(tex1DLayered<float>(t, c.x, (int)c.y), 0, 0, 0)"
    assert first(rows, FLOATS, [(2, 1)], 1, layered=True) == [32]
    whole = "make_float4(tex1D<int>(t, c.x), tex1D<unsigned>(t, c.x), 0, 0)"
    assert looked_up(whole, np.array([-7, 9], np.int16), [(0,)], 1)[0, 0] == -7
    assert first(whole.replace("int>", "unsigned char>"), np.array([200], np.uint8), [(0,)], 1) == [200]


def test_integers_read_as_floats():
    one = "make_float4(tex1D<float>(t, c.x), 0, 0, 0)"
    signed = np.array([-128, -127, 0, 127], np.int8)
    places = [(0,), (1,), (2,), (3,)]
    assert first(one, signed, places, 1, read="normalized") == [-1, -1, 0, 1]
    assert first(one, np.array([0, 65535], np.uint16), [(1,)], 1, read="normalized") == [1]
    between = first(one, np.array([0, 255], np.uint8), [(1,)], 1, read="normalized", filter="linear")
    assert between == [np.float32(32768 / 65535)]


def test_texels_by_number():
    fetch = "make_float4(tex1Dfetch<float>(t, (int)c.x), 0, 0, 0)"
    assert first(fetch, FLOATS[0], [(2,), (-1,), (3,)], 1) == [4, 0, 0]


def test_gathering_goes_counter_clockwise_from_the_lower_left():
    gathered = looked_up("tex2Dgather<float4>(t, c.x, c.y, 0)", FLOATS, [(1, 1), (3, 1)])
    assert gathered.tolist() == [[8, 16, 2, 1], [32, 32, 4, 4]]


SURFACES = """
extern "C" __global__ void surfaces(float* out, cudaSurfaceObject_t s, int x, int y) {
  int t = threadIdx.x;
  BODY;
}
"""


def on_surface(body, texels, dimensions=2, x=0, y=0, threads=4, layered=False):
    """A surface after a kernel, what the kernel put into `out`, and the device."""
    device = Device(memory_bytes=1 << 22)
    image = device.images.make(texels, dimensions, layered=layered)
    out = device.upload(np.zeros(4 * threads, np.float32))
    kernel = device.load(compile_ptx(SURFACES.replace("BODY", body)))
    device.launch(kernel, 1, threads, [out, device.images.surface(image), x, y])
    return device.images.read(image), device.read(out, 16 * threads).view(np.float32), device


def test_surfaces_are_read_and_written_by_bytes():
    texels = np.arange(12, dtype=np.float32).reshape(3, 4)
    body = "surf2Dwrite(2 * surf2Dread<float>(s, 4 * t, 1), s, 4 * t, 2); out[t] = surf2Dread<float>(s, 4 * t, 2)"
    after, out, device = on_surface(body, texels)
    assert after.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 10, 12, 14]]
    assert out[:4].tolist() == [8, 10, 12, 14]
    assert not device.reports


def test_outside_a_surface():
    texels = np.arange(8, dtype=np.float32).reshape(2, 4)
    read = "out[t] = surf2Dread<float>(s, 4 * (t + 2), y, cudaBoundaryMode{})"
    assert on_surface(read.format("Clamp"), texels, y=5)[1][:4].tolist() == [6, 7, 7, 7]
    assert on_surface(read.format("Zero"), texels, y=1)[1][:4].tolist() == [6, 7, 0, 0]
    write = "surf2Dwrite(9.0f, s, 4 * (t + 2), 1, cudaBoundaryModeZero)"
    assert on_surface(write, texels)[0].tolist() == [[0, 1, 2, 3], [4, 5, 9, 9]]


@pytest.mark.planted_fault
def test_a_trap_outside_a_surface_names_the_place():
    texels = np.zeros((2, 4), np.float32)
    with pytest.raises(OutOfBounds, match=r"4 bytes at \(16, 0\), of which x counts bytes"):
        on_surface("surf2Dwrite(1.0f, s, 4 * (t + 1), 0)", texels)
    with pytest.raises(Misaligned, match="no multiple of 4"):
        on_surface("surf2Dwrite(1.0f, s, 2, 0)", texels)


def test_vectors_layers_and_volumes():
    bytes_ = np.zeros((2, 3, 4), np.uint8)
    after, _, _ = on_surface("if (t == 0) surf2Dwrite(make_uchar4(1, 2, 3, 4), s, 4 * x, y)", bytes_, x=2, y=1)
    assert after[1, 2].tolist() == [1, 2, 3, 4]
    assert np.count_nonzero(after) == 4
    shorts = np.zeros((2, 2, 3), np.int16)
    after, _, _ = on_surface("if (t == 0) surf2DLayeredwrite<short>(-5, s, 2 * x, y, 1)", shorts, 2, 1, 0, layered=True)
    assert after[1, 0, 1] == -5
    volume = np.zeros((2, 2, 3), np.float32)
    after, _, _ = on_surface("if (t == 0) surf3Dwrite<float>(7, s, 4 * x, y, 1)", volume, 3, 2, 1)
    assert after[1, 1, 2] == 7


def test_reductions_of_a_surface():
    counts = np.zeros((1, 2), np.uint32)
    body = 'asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" :: "l"(s), "r"(4 * (t & 1)), "r"(0), "r"(t))'
    after, _, device = on_surface(body, counts, threads=8)
    assert after.tolist() == [[0 + 2 + 4 + 6, 1 + 3 + 5 + 7]]
    assert not device.reports


@pytest.mark.parametrize("layer", [-1, 2, 3])
def test_clamp_takes_the_last_layer_for_every_number_beyond(layer):
    """The number is unsigned; results of an H200."""
    texels = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    read = "out[t] = surf2DLayeredread<float>(s, 4 * t, 1, x, cudaBoundaryModeClamp)"
    assert on_surface(read, texels, x=layer, threads=2, layered=True)[1][:2].tolist() == [10, 11]
    write = "surf2DLayeredwrite(99.0f, s, 4 * t, 1, x, cudaBoundaryModeClamp)"
    after, _, _ = on_surface(write, texels, x=layer, threads=2, layered=True)
    assert np.argwhere(after == 99).tolist() == [[2, 1, 0], [2, 1, 1]]


def test_extents_are_asked_for():
    body = 'asm volatile("suq.width.b32 %0, [%2]; suq.height.b32 %1, [%2];" : "=r"(x), "=r"(y) : "l"(s)); '
    _, out, _ = on_surface(body + "out[0] = x; out[1] = y", np.zeros((2, 5), np.float32), threads=1)
    assert out[:2].tolist() == [5, 2]


@pytest.mark.planted_fault
def test_a_race_on_a_surface_is_reported():
    body = "if (t == 0) surf2Dwrite(1.0f, s, 0, 0); if (t == 40) out[0] = surf2Dread<float>(s, 0, 0)"
    _, _, device = on_surface(body, np.zeros((1, 4), np.float32), threads=64)
    assert [report.kind for report in device.reports] == ["race"]


@pytest.mark.planted_fault
def test_a_texture_of_what_the_kernel_writes_is_reported():
    source = """
    extern "C" __global__ void both(float* out, cudaTextureObject_t t, cudaSurfaceObject_t s) {
      surf1Dwrite(1.0f, s, 4 * threadIdx.x);
      __syncthreads();
      out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x);
    }
    """
    device = Device(memory_bytes=1 << 22)
    image = device.images.make(np.zeros(32, np.float32), 1)
    handles = device.images.texture(image), device.images.surface(image)
    device.launch(device.load(compile_ptx(source)), 1, 32, [device.allocate(128), *handles])
    assert [report.kind for report in device.reports] == ["read-only-load"]


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("expression", "texels", "dimensions", "message"),
    [
        ("tex2D<float4>(t, c.x, c.y)", FLOATS[0], 1, "is .2d, and its image is 1d"),
        ("tex2D<float4>(t, c.x, c.y)", FLOATS.astype(np.int32), 2, "gives integers"),
        ("tex2D<float4>(t + 9, c.x, c.y)", FLOATS, 2, "none of this device"),
        ("tex2Dgather<float4>(t, c.x, c.y, 1)", FLOATS, 2, "gathers channel 1 of 1"),
    ],
)
def test_handles_that_do_not_fit(expression, texels, dimensions, message):
    with pytest.raises(EmulatorError, match=message):
        looked_up(expression, texels, [(0, 0)], dimensions)


def test_what_is_not_emulated_is_refused_by_name():
    for expression in ("texCubemap<float4>(t, c.x, c.y, c.z)", "tex2DLod<float4>(t, c.x, c.y, c.z)"):
        with pytest.raises(UnsupportedInstruction, match=r"no emulation of \.(cube|level)"):
            looked_up(expression, FLOATS, [(0, 0)])
    asked = 'asm volatile("suq.array_size.b32 %0, [%1];" : "=r"(x) : "l"(s)); out[t] = x'
    with pytest.raises(UnsupportedInstruction, match=r"no emulation of \.array_size"):
        on_surface(asked, np.zeros((2, 5), np.float32), 1, layered=True)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"filter": "cubic"}, "filter is 'cubic'"),
        ({"address": "wrap"}, "needs normalized=True"),
        ({"read": "normalized"}, "needs integers of 8 or 16 bits"),
    ],
)
def test_textures_that_cuda_does_not_have(how, message):
    device = Device(memory_bytes=1 << 20)
    with pytest.raises(ValueError, match=message):
        device.images.texture(device.images.make(FLOATS, 2), **how)
    with pytest.raises(ValueError, match="'linear' and needs texels that are read as floats"):
        device.images.texture(device.images.make(FLOATS.astype(np.int32), 2), filter="linear")
    for texels, dimensions, error in ((FLOATS.astype(np.float64), 2, TypeError), (FLOATS, 3, ValueError)):
        with pytest.raises(error, match="texels"):
            device.images.make(texels, dimensions)


def test_what_is_no_image_is_refused():
    images = Device(memory_bytes=1 << 20).images
    for use in (images.texture, images.surface, images.read):
        with pytest.raises(TypeError, match=r"image is of type int: pass what images\.make returned"):
            use(99)
