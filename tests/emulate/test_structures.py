"""Structures passed by value, with pointers and TMA descriptors in them."""

import ctypes

import numpy as np
import pytest

import tilewright as tw
from emulate.nvrtc import compile_ptx
from support.sources import PTX_WRAPPERS
from tilewright.emulator import Device

SOURCE = (
    PTX_WRAPPERS
    + """
struct Pointers { const float* factors; float* out; };
struct Params { TensorMap tma; Pointers to; int rows; };
static_assert(sizeof(Params) == 192, "as below");

// out = factors * the first rows of a tile of 8 x 16
extern "C" __global__ void scale(const __grid_constant__ Params params) {
  __shared__ alignas(128) float tile[8 * 16];
  __shared__ alignas(8) u64 barrier;
  unsigned b = shared_address(&barrier);
  if (threadIdx.x == 0) {
    mbarrier_init(b, 1);
    mbarrier_expect(b, sizeof(tile));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %3}], [%2];"
                 :: "r"(shared_address(tile)), "l"(&params.tma), "r"(b), "r"(0) : "memory");
  }
  __syncthreads();
  mbarrier_wait(b, 0);
  int row = threadIdx.x / 16;
  if (row < params.rows) params.to.out[threadIdx.x] = params.to.factors[row] * tile[threadIdx.x];
}
"""
)


class Pointers(ctypes.Structure):
    _fields_ = (("factors", ctypes.c_void_p), ("out", ctypes.c_void_p))


class Params(ctypes.Structure):
    _fields_ = (
        ("tma", ctypes.c_char * 128),
        ("to", Pointers),
        ("rows", ctypes.c_int),
        ("padding", ctypes.c_char * 44),
    )


POINTERS = np.dtype([("factors", "u8"), ("out", "u8")])
PARAMS = np.dtype(
    {
        "names": ["tma", "to", "rows"],
        "formats": ["V128", POINTERS, "i4"],
        "offsets": [0, 128, 144],
        "itemsize": 192,
    }
)


def numpy_params(rows):
    params = np.zeros((), PARAMS)
    params["rows"] = rows
    return params[()]


def operands():
    matrix = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    return matrix, np.arange(1, 9, dtype=np.float32), np.zeros((8, 16), np.float32)


def checked(data, tma="tma", factors="to.factors", out="to.out", size_of_out=8):
    """The result of a check of `scale`, and whether `out` is right in the first five rows and unchanged below."""
    matrix, factor, result = operands()
    struct = tw.Struct(data, {tma: tw.TensorMap(matrix, (8, 16)), factors: factor, out: result[:size_of_out]})
    checked = tw.check(compile_ptx(SOURCE), struct, grid=1, block=128, schedules=0)
    expected = np.where(np.arange(8)[:, None] < 5, factor[:, None] * matrix, 0)
    return checked, np.array_equal(result, expected)


@pytest.mark.parametrize("data", [Params(rows=5), numpy_params(5)], ids=["ctypes", "numpy"])
def test_arrays_and_descriptors_take_the_places_of_fields(data):
    result, right = checked(data)
    assert result.verified, result
    assert right


def test_arrays_and_descriptors_take_places_by_their_offsets():
    result, right = checked(bytes(Params(rows=5)), 0, 128, 136)
    assert result.verified, result
    assert right


@pytest.mark.planted_fault
def test_an_overflow_of_an_array_in_a_structure_names_its_field():
    result, _ = checked(Params(rows=5), size_of_out=4)
    (report,) = result.reports
    assert report["kind"] == "OutOfBounds"
    assert "past the end of the allocation of 256 bytes" in report["message"]
    assert "(arguments[0].to.out" in report["message"]


@pytest.mark.planted_fault
def test_a_read_before_the_wait_for_a_descriptor_in_a_structure_is_reported():
    matrix, factors, out = operands()
    struct = tw.Struct(Params(rows=5), {"tma": tw.TensorMap(matrix, (8, 16)), "to.factors": factors, "to.out": out})
    faulty = SOURCE.replace("  mbarrier_wait(b, 0);\n  int", "  int")
    result = tw.check(compile_ptx(faulty), struct, grid=1, block=128, schedules=0)
    assert "read-before-wait" in {report["kind"] for report in result.reports}


def test_a_descriptor_in_a_field_of_a_pointer_is_passed_by_its_address():
    source = SOURCE.replace("{ TensorMap tma; Pointers", "{ const TensorMap* tma; Pointers")
    source = source.replace("&params.tma", "params.tma").replace("== 192", "== 32")
    layout = np.dtype([("tma", "u8"), ("to", POINTERS), ("rows", "i4"), ("padding", "i4")])
    params = np.zeros((), layout)
    params["rows"] = 8
    matrix, factors, out = operands()
    places = {"tma": tw.TensorMap(matrix, (8, 16)), "to.factors": factors, "to.out": out}
    assert tw.check(compile_ptx(source), tw.Struct(params[()], places), grid=1, block=128, schedules=0).verified
    assert np.array_equal(out, factors[:, None] * matrix)


TAKE = """
struct Pair { const float* in; float* out; };
extern "C" __global__ void take(Pair pair) { *pair.out = pair.in == nullptr ? 7 : *pair.in; }
"""


def test_views_of_one_array_overlap_and_none_is_a_null_pointer():
    memory = np.arange(8, dtype=np.float32)
    pair = Pointers(1, 1)  # addresses that no array replaces stay what they are
    struct = tw.Struct(pair, {"factors": memory, "out": memory[4:]})
    assert tw.check(compile_ptx(TAKE), struct, grid=1, block=1, schedules=0).verified
    assert memory.tolist() == [0, 1, 2, 3, 0, 5, 6, 7]
    struct = tw.Struct(pair, {"factors": None, "out": memory})
    assert tw.check(compile_ptx(TAKE), struct, grid=1, block=1, schedules=0).verified
    assert memory[0] == 7


def test_a_structure_of_ctypes_is_an_argument():
    source = """
    struct Pair { int count; float factor; };
    extern "C" __global__ void take(float* out, Pair pair) { *out = pair.count * pair.factor; }
    """

    class Pair(ctypes.Structure):
        _fields_ = (("count", ctypes.c_int), ("factor", ctypes.c_float))

    out = np.zeros(1, np.float32)
    assert tw.check(compile_ptx(source), out, Pair(3, 0.5), grid=1, block=1, schedules=0).verified
    assert out[0] == 1.5
    device = Device()
    address = device.upload(out)
    device.launch(device.load(compile_ptx(source)), 1, 1, [address, Pair(4, 0.5)])
    assert device.read(address, 4).view(np.float32) == 2


X = np.zeros(8, np.float32)
MAP = tw.TensorMap(np.zeros((8, 16), np.float32), (8, 16))


@pytest.mark.parametrize(
    ("data", "places", "error", "message"),
    [
        (
            Params(), {"too": X}, ValueError,
            r"arguments\[0\] has no field 'too': the fields of Params are tma, to, rows, padding; name one",
        ),
        (Params(), {"to.in": X}, ValueError, "no field 'to.in': the fields of Pointers are factors, out"),
        (numpy_params(1), {"to.in": X}, ValueError, "no field 'to.in': the fields of a .* are factors, out"),
        (Params(), {"rows.x": X}, ValueError, "'rows.x': the fields of c_int are none; .* give its offset"),
        (bytes(192), {"rows": X}, ValueError, "no field 'rows': the fields of bytes are none; .* give its offset"),
        (Params(), {"rows": X}, ValueError, r"\[0\].rows takes 8 bytes from 144 on, and the field has 4: name"),
        (Params(), {"tma": X}, ValueError, r"tma takes 8 bytes from 0 on, and the field has 128"),
        (Params(), {"to": MAP}, ValueError, r"to takes 128 bytes from 128 on, and the field has 16"),
        (bytes(192), {188: X}, ValueError, r"arguments\[0\]\[188\] takes 8 bytes from 188 on, and the structure ends"),
        (bytes(192), {128: MAP}, ValueError, r"\[128\] takes 128 bytes from 128 on, and the structure ends after 192"),
        (bytes(192), {-8: X}, ValueError, r"arguments\[0\]: the offset=-8 must be an integer from 0 on"),
        (bytes(192), {1: X}, ValueError, r"\[1\] puts an address at 1, and a pointer lies at a multiple of 8"),
        (Params(), {144: X}, ValueError, r"puts an address into a field of 4 bytes at 144, and a pointer takes a"),
        (numpy_params(1), {144: X}, ValueError, r"puts an address into a field of 4 bytes at 144"),
        (bytes(192), {0: MAP, 120: X}, ValueError, r"arguments\[0\]\[120\] and arguments\[0\]\[0\] overlap in"),
        (bytes(192), {0: 5}, TypeError, r"arguments\[0\]\[0\] is a int: put a NumPy array, a torch"),
        (bytes(192), [X], TypeError, r"arguments\[0\]: places=.* must be a dictionary, of arrays by the names"),
        (np.zeros(1, PARAMS), {0: X}, TypeError, r"a Struct of a ndarray: .* scalar of a structured dtype \(array"),
        (bytes(184), {0: MAP}, ValueError, r"\] has 184 bytes: parameter 1 .* takes a structure of 192 bytes: a S"),
    ],
)  # fmt: skip
def test_structures_that_are_refused(data, places, error, message):
    with pytest.raises(error, match=message) as raised:
        tw.check(compile_ptx(SOURCE), tw.Struct(data, places), grid=1, block=128)
    assert isinstance(raised.value, tw.TilewrightError)


def test_host_addresses_in_plain_bytes_are_told_of_struct():
    memory = np.zeros(8, np.float32)
    for pair in (Pointers(0, 5 << 50), bytes(Pointers(0, 5 << 50))):
        (report,) = tw.check(compile_ptx(TAKE), pair, grid=1, block=1, schedules=0).reports
        assert "outside every allocation" in report["message"]
        assert "Pass a tilewright.Struct" in report["message"]
    struct = tw.Struct(Pointers(0, 5 << 50), {"factors": memory})
    (report,) = tw.check(compile_ptx(TAKE), struct, grid=1, block=1, schedules=0).reports
    assert "Pass a tilewright.Struct" not in report["message"]


def test_a_structure_of_ctypes_has_the_size_of_its_parameter():
    with pytest.raises(ValueError, match=r"\] has 16 bytes: parameter 1 .* takes a structure of 192 bytes"):
        tw.check(compile_ptx(SOURCE), Pointers(), grid=1, block=128)
    device = Device()
    with pytest.raises(tw.TilewrightError, match=r"args\[0\] has 16 bytes; parameter scale_param_0 .* has 192"):
        device.launch(device.load(compile_ptx(SOURCE)), 1, 128, [Pointers()])
