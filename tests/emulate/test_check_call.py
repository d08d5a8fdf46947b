"""`tilewright.check`: PTX on NumPy arrays, which are written in place."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from emulate.nvrtc import compile_ptx
from support.commands import in_json
from support.sources import LOAD_TILE, PTX_WRAPPERS
from tilewright.emulator import LaunchError, PtxSyntaxError

SCALE = """
extern "C" __global__ void scale(float* out, const float* in, int stride, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = factor * in[i * stride];
}
extern "C" __global__ void shift(float* x) {
  float next = x[threadIdx.x + 1];
  __syncthreads();
  x[threadIdx.x] = next;
}
"""


def scaled(out, values, stride, factor, **options):
    return tw.check(
        compile_ptx(SCALE), out, values, stride, factor, **{"grid": 2, "block": 32, "entry": "scale"} | options
    )


def test_arrays_are_written_in_place():
    values, out = np.arange(64, dtype=np.float32), np.full(64, np.nan, np.float32)
    result = scaled(out, values, 1, 2.5)
    assert result.verified is True
    assert out.tolist() == (2.5 * values).tolist()
    assert values.tolist() == list(range(64))
    assert result.schedules == ["eager", "lazy", "random(0)", "random(1)"]
    assert result.counters["totals"]["global_sectors"] == {"ld": 8, "st": 8}
    assert set(result.as_dict()) == {
        "kernel", "product", "config", "sms", "verified", "skipped", "reports", "unlisted", "warnings", "waived",
        "unused_waivers", "counters",
        "coverage", "schedules",
    }  # fmt: skip


def test_a_file_is_read(tmp_path):
    path = tmp_path / "scale.ptx"
    path.write_text(compile_ptx(SCALE))
    for kernel in (path, str(path), path.read_bytes()):
        out = np.zeros(64, np.float32)
        values = np.ones(64, np.float32)
        result = tw.check(kernel, out, values, 1, 3.0, grid=(2, 1), block=[32], entry="sca", schedules=0)
        assert result.product in ("scale.ptx", "kernel")
        assert set(out) == {3.0}


def test_views_keep_their_strides_and_their_place():
    memory = np.arange(200, dtype=np.float32)
    out, values = memory[136:], memory[:127:2]
    expected = 2 * values
    assert scaled(out, values, 2, 2).verified
    assert out.tolist() == expected.tolist()
    assert memory[:136].tolist() == list(range(136))


def test_arrays_that_overlap_do_so_on_the_device():
    x = np.arange(65, dtype=np.float32)
    result = tw.check(compile_ptx(SCALE), x, grid=1, block=64, entry="shift", schedules=0)
    assert result.verified
    assert x.tolist() == [*range(1, 65), 64]
    memory = np.arange(96, dtype=np.float32)
    result = scaled(memory[32:], memory[:64], 1, 2.0, block=16, schedules=0)
    assert result.verified, result.reports
    assert memory.tolist() == [*range(32), *range(0, 64, 2), *range(64, 96)]
    backwards = np.arange(64, dtype=np.float32)[::-1]
    assert scaled(np.empty(64, np.float32), backwards, -1, 1.0).verified


@pytest.mark.planted_fault
def test_an_access_beyond_an_array_names_it():
    x = np.arange(64, dtype=np.float32)
    result = tw.check(compile_ptx(SCALE), x, grid=1, block=64, entry="shift", schedules=0)
    assert result.verified is False
    (report,) = result.reports
    assert report["kind"] == "OutOfBounds"
    assert "past the end of the allocation of 256 bytes" in report["message"]
    assert "(arguments[0])" in report["message"]
    assert x.tolist() == list(range(64))


@pytest.mark.planted_fault
def test_an_access_beyond_an_array_into_one_that_follows_it_names_the_first():
    memory = np.arange(128, dtype=np.float32)
    out, values = memory[:64], memory[64:]
    assert scaled(out, values, 1, 2.0, schedules=0).verified
    (report,) = scaled(memory[:60], memory[60:124], 1, 2.0, schedules=0).reports
    assert report["kind"] == "OutOfBounds"
    assert "(arguments[0])" in report["message"]


RACE = 'extern "C" __global__ void race(int* x) { x[threadIdx.x] = 1; x[threadIdx.x ^ 1] = 2; }'


@pytest.mark.planted_fault
def test_kinds_of_reports_are_ignored_by_name():
    x = np.zeros(64, np.int32)
    found = tw.check(compile_ptx(RACE), x, grid=1, block=64, schedules=0)
    assert {report["kind"] for report in found.reports} == {"race"}
    for ignored in ("race", ["race"], iter(["race"])):
        assert tw.check(compile_ptx(RACE), x, grid=1, block=64, schedules=0, ignore=ignored).verified


def test_a_tensor_map_is_of_an_array():
    whole = np.arange(12 * 256).astype(ml_dtypes.bfloat16).reshape(12, 256)
    wrong, ptx = np.zeros(1, np.int32), compile_ptx(LOAD_TILE)
    for array in (np.ascontiguousarray(whole[:, :128]), whole[:, 128:]):
        same = np.ascontiguousarray(array)
        result = tw.check(ptx, tw.TensorMap(array, (8, 64), swizzle=128), same, wrong, grid=1, block=512, schedules=1)
        assert result.verified, result.reports
        assert result.counters["totals"]["tma_loaded_bytes"] == 1024
        assert wrong[0] == 0
    nan_outside = tw.TensorMap(same, (8, 64), swizzle=128, oob_fill="nan")
    assert tw.check(ptx, nan_outside, same, wrong, grid=1, block=512, schedules=0).verified
    assert wrong[0] == 1


def test_a_tensor_map_for_a_pointer_is_passed_by_its_address(ptx):
    path = ptx(
        LOAD_TILE.replace("const __grid_constant__ TensorMap map", "const TensorMap* map").replace("&map", "map")
    )
    array, wrong = np.arange(12 * 128).astype(np.uint16).reshape(12, 128), np.zeros(1, np.int32)
    result = tw.check(path, tw.TensorMap(array, (8, 64), swizzle=128), array, wrong, grid=1, block=512, schedules=0)
    assert result.verified, result.reports
    assert result.counters["totals"]["tma_loaded_bytes"] == 1024
    assert wrong[0] == 0
    arguments = ("tensormap(a=u16[12,128]:arange, box=[8,64], swizzle=128)", "ptr:a", "wrong=s32[1]:zeros")
    options = [text for argument in arguments for text in ("--arg", argument)]
    record = in_json("check", path, "--block", 512, *options, "--schedules", 0)
    assert record["counters"]["totals"]["tma_loaded_bytes"] == 1024


def test_structures_null_and_scalars():
    source = """
    struct Pair { int count; float factor; };
    extern "C" __global__ void take(float* out, const float* nothing, Pair pair, unsigned short half, double d) {
      out[0] = pair.count * pair.factor + half + d + (nothing == nullptr);
    }
    """
    pair = np.zeros((), [("count", np.int32), ("factor", np.float32)])
    pair["count"], pair["factor"] = 3, 0.5
    out = np.zeros(1, np.float32)
    for given in (pair[()], pair.tobytes()):
        out[0] = 0
        assert tw.check(compile_ptx(source), out, None, given, np.uint16(4), 8, grid=1, block=1, schedules=0).verified
        assert out[0] == 1.5 + 4 + 8 + 1


def test_a_read_only_array_may_be_read_and_not_written():
    values, out = np.ones(64, np.float32), np.empty(64, np.float32)
    values.flags.writeable = False
    assert scaled(out, values, 1, 1.0).verified
    with pytest.raises(ValueError, match=r"arguments\[0\] is read-only and the kernel writes to it: pass a writable"):
        scaled(values, out, 1, 2.0)
    assert set(values) == {1.0}


X = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (
            (X, X, 1),
            {},
            ValueError,
            r"3 kernel arguments are given and scale takes 4 arguments: give one for each\n",
        ),
        ((X, X, X, 1.0), {}, ValueError, r"arguments\[2\]: parameter 3 of scale, \.u32, takes a 4-byte integer"),
        (
            (1.5, X, 1, 1.0),
            {},
            ValueError,
            r"arguments\[0\]: parameter 1 .* takes a NumPy array, a TensorMap, None for null",
        ),
        (
            ([1.0], X, 1, 1.0),
            {},
            TypeError,
            r"arguments\[0\] is a list: pass a NumPy array, a torch tensor on the CPU, a",
        ),
        ((np.array([None]), X, 1, 1.0), {}, TypeError, r"arguments\[0\] is an array of object: pass one of numbers"),
        (
            (tw.TensorMap(X[::2], (8,)), X, 1, 1.0),
            {},
            ValueError,
            r"arguments\[0\] is a TensorMap of .* contig",
        ),
        ((tw.TensorMap([1], (8,)), X, 1, 1.0), {}, TypeError, r"arguments\[0\] is a TensorMap of a list: pass one of"),
        ((X, X, 1, 1.0), {"grid": 0}, ValueError, r"grid=0 must be one to three integers from 1 on: give n, or \(x, y"),
        ((X, X, 1, 1.0), {"block": "32"}, ValueError, r"block='32' must be one to three integers"),
        ((X, X, 1, 1.0), {"cluster": (1, 1, 1, 1)}, ValueError, r"cluster=\(1, 1, 1, 1\) must be"),
        ((X, X, 1, 1.0), {"shared_bytes": -1}, ValueError, r"shared_bytes=-1 must be an integer from 0 on"),
        ((X, X, 1, 1.0), {"schedules": 1.5}, ValueError, r"schedules=1.5 must be an integer from 0 on"),
        (
            (X, X, 1, 1.0),
            {"entry": "s"},
            ValueError,
            r"kernel has 2 entries, and entry='s' names several of them: ",
        ),
        ((X, X, 1, 1.0), {"ignore": ["rave"]}, ValueError, r"ignore='rave' is not a kind of reports: use race, "),
        ((X, X, 1, 1.0), {"ignore": None}, TypeError, "ignore=None is not a waiver: leave it"),
        ((X, X, 1, 1.0), {"entry": 5}, TypeError, "entry=5 is not a name: give the kernel's"),
        ((X, X, 1, 10**400), {}, ValueError, r"arguments\[3\]: parameter 4 of scale, .* takes a number such as 1.5"),
        (
            (tw.TensorMap(X, None), X, 1, 1.0),
            {},
            ValueError,
            r"arguments\[0\]: box=None must be integers, one for each dimension",
        ),
        ((tw.TensorMap(X, (8.0,)), X, 1, 1.0), {}, ValueError, r"arguments\[0\]: box=\(8\.0,\) must be integers"),
        (
            (tw.TensorMap(X, 8, element_strides="1"), X, 1, 1.0),
            {},
            ValueError,
            r"arguments\[0\]: element_strides='1' must be integers",
        ),
        ((tw.TensorMap(X, 8, swizzle=32.0), X, 1, 1.0), {}, ValueError, r"arguments\[0\]: swizzle=32\.0 must be"),
        ((X, X, 1, 1.0), {"block": 2048}, LaunchError, r"2048 threads; the limit is 1024"),
    ],
)
def test_what_cannot_be_launched_is_refused_with_the_remedy(arguments, options, error, message):
    with pytest.raises(error, match=message) as raised:
        tw.check(compile_ptx(SCALE), *arguments, **{"grid": 2, "block": 32, "entry": "scale"} | options)
    assert isinstance(raised.value, tw.TilewrightError)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("missing.ptx", ValueError, "missing.ptx cannot be read: No such file"),
        ("a\0b", ValueError, r"'a\\x00b' cannot be read: .*null.*; name a PTX file"),
        (3, TypeError, "kernel is a int: pass PTX text, the path of a PTX or CUDA"),
        ("", ValueError, "kernel is empty: give "),
        ("int main() {\n}\n", PtxSyntaxError, "version"),
    ],
)
def test_what_is_no_ptx_is_refused(kernel, error, message):
    with pytest.raises(error, match=message):
        tw.check(kernel, grid=1, block=1)


def test_a_tensor_map_that_the_driver_would_refuse_names_its_argument():
    with pytest.raises(ValueError, match=r"arguments\[0\]: box.*\(innermost dimension first\)"):
        tw.check(
            compile_ptx(PTX_WRAPPERS + 'extern "C" __global__ void k(const TensorMap map) {}'),
            tw.TensorMap(np.zeros((8, 512), np.float32), (8, 512)),
            grid=1,
            block=1,
        )


def test_a_launch_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_SECONDS", "0")
    source = (
        'extern "C" __global__ void endless(volatile int* out, int n) { for (int i = 0; i != n; i += 2) *out = i; }'
    )
    out = np.full(1, 5, np.int32)
    result = tw.check(compile_ptx(source), out, 1, grid=2, block=32)
    assert result.verified is None
    assert "take a smaller grid or fewer schedules, or set TILEWRIGHT_EMULATOR_SECONDS=inf" in result.error
    assert out[0] == 5


def test_ctrl_c_stays_ctrl_c(monkeypatch):
    def interrupt(self, done):
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.checking.time_limit.TimeLimit.__call__", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted under eager"):
        scaled(np.zeros(64, np.float32), np.zeros(64, np.float32), 1, 1.0)


@pytest.mark.planted_fault
def test_a_view_is_as_misaligned_as_on_the_host():
    source = 'extern "C" __global__ void zero(float4* x) { x[threadIdx.x] = float4{0, 0, 0, 0}; }'
    memory = np.ones(72, np.float32)
    assert memory.ctypes.data % 16 == 0
    assert tw.check(compile_ptx(source), memory[4:68], grid=1, block=16, schedules=0).verified
    assert memory.tolist() == [1] * 4 + [0] * 64 + [1] * 4
    (report,) = tw.check(compile_ptx(source), memory[1:], grid=1, block=16, schedules=0).reports
    assert report["kind"] == "Misaligned"
