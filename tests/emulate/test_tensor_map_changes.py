"""tensormap.replace and tensormap.cp_fenceproxy: maps that a kernel changes or makes, as a grouped product does."""

import numpy as np
import pytest

from emulate.nvrtc import compile_ptx
from support.policies import each_policy
from tilewright.emulator import Device, DivergedCollective, EmulatorError, Misaligned, OutOfBounds
from tilewright.emulator import UnsupportedInstruction as Unsupported

SOURCE = """
struct __align__(64) Map { unsigned long long opaque[16]; };
#define REPLACE(field, type, value) \\
  asm volatile("tensormap.replace.tile." field ".b1024." type " [%0], %1;" :: "l"(place), value : "memory")
// Loads boxes (box_rows, 32) of float matrices of several sizes, by a map for each that the kernel makes.
extern "C" __global__ void gather(float* out, const __grid_constant__ Map pattern, Map* maps, const float* const* from,
                                  const int* rows, const int* columns) {
  __shared__ __align__(128) Map map;
  __shared__ __align__(1024) float tile[8 * 32];
  __shared__ unsigned long long arrived;
  int t = threadIdx.x, group = blockIdx.x;
  unsigned barrier = __cvta_generic_to_shared(&arrived);
  unsigned long long place = (unsigned)__cvta_generic_to_shared(&map);
  if (t < 16) map.opaque[t] = ZEROS ? 0 : pattern.opaque[t];
  if (t == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                 " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(barrier) : "memory");
  __syncwarp();
  if (t == 0) {
    REPLACE("global_address.shared::cta", "b64", "l"(from[group]));
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;"
                 " tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %2;"
                 " tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %3;"
                 :: "l"(place), "r"(columns[group]), "r"(rows[group]), "l"(4ull * columns[group]) : "memory");
#if ZEROS
    asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;"
                 " tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, 32;"
                 " tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, 8;"
                 " tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;"
                 " tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;"
                 " tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 7;"
                 " tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;"
                 " tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;"
                 " tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" :: "l"(place) : "memory");
#endif
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
               :: "l"(maps + group), "l"(place) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(maps + group) : "memory");
  if (t == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %2}], [%3];"
                 :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(maps + group), "r"(0), "r"(barrier) : "memory");
  __syncwarp();
  asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W;}"
               :: "r"(barrier) : "memory");
  for (int row = 0; row < 8; row++) out[256 * group + 32 * row + t] = tile[32 * row + ((t / 4 ^ row) * 4 + t % 4)];
}
"""
SHAPES = ((5, 24), (8, 32), (20, 64))


@each_policy
@pytest.mark.parametrize("zeros", [0, 1])
def test_a_map_for_each_matrix(zeros, policy):
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    matrices = [np.random.default_rng(rows).standard_normal((rows, columns), np.float32) for rows, columns in SHAPES]
    addresses = [device.upload(matrix) for matrix in matrices]
    pattern = device.tensor_map(
        dtype=np.float32, address=addresses[1], shape=(32, 8), strides=(128,), box=(32, 8), swizzle=128
    )
    out = device.allocate(3 * 1024)
    arguments = [out, pattern, device.allocate(3 * 128), device.upload(np.array(addresses, np.uint64)),
                 *(device.upload(np.array(extents, np.int32)) for extents in zip(*SHAPES, strict=True))]  # fmt: skip
    device.launch(device.load(compile_ptx(SOURCE, "sm_90a", f"-DZEROS={zeros}")), 3, 32, arguments)
    for number, matrix in enumerate(matrices):
        expected = np.zeros((8, 32), np.float32)
        part = matrix[:8, :32]
        expected[: part.shape[0], : part.shape[1]] = part
        np.testing.assert_array_equal(device.read(out + 1024 * number, 1024).view(np.float32).reshape(8, 32), expected)


def with_maps(body):
    """PTX with these statements, on a map of zeros in shared memory at [map], and one in global memory at [%copy]."""
    return f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry e(.param .u64 copies) {{
  .shared .align 128 .b8 map[256]; .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar;
  .reg .b64 %copy, %d; .reg .b32 %t, %r; .reg .pred %p, %q;
  ld.param.u64 %copy, [copies]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; setp.lt.u32 %q, %t, 32;
  mov.u32 %r, 0; mad.wide.u32 %d, %t, 4, 0; cvt.u32.u64 %t, %d; mov.u32 %r, map; add.u32 %t, %t, %r; mov.u32 %r, 0;
  @%q st.shared.b32 [%t], %r; mov.u32 %t, %tid.x; bar.sync 0;
  {body}
  ret;
}}
"""


def one(body, threads=32, **options):
    """Run statements on both maps; returns the one in global memory, with 128 bytes after it, and the device."""
    device = Device(memory_bytes=1 << 20, **options)
    copies = device.upload(np.zeros(256, np.uint8))
    device.launch(device.load(with_maps(body)), 1, threads, [copies])
    return device.read(copies, 256), device


COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.cta.sync.aligned [%copy], [map], 128;"
RANK = "@%p tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1; bar.warp.sync -1;"


def test_a_guard_chooses_the_warps_that_copy():
    copies, _ = one(f"{RANK} @%q {COPY}", threads=64, count_memory=True)
    expected, _ = one(f"{RANK} {COPY}")
    np.testing.assert_array_equal(copies, expected)


def test_a_copied_map_counts_its_sectors():
    device = Device(memory_bytes=1 << 20, count_memory=True)
    kernel = device.load(with_maps(f"{RANK} {COPY}"))
    counters = device.launch(kernel, 1, 32, [device.upload(np.zeros(256, np.uint8))])
    assert (counters.global_requests, counters.global_sectors) == ({"st": 1}, {"st": 4})


def test_each_space():
    shared, _ = one(f"{RANK} {COPY}")
    direct, _ = one("@%p tensormap.replace.tile.rank.global.b1024.b32 [%copy], 1;")
    generic, _ = one("@%p tensormap.replace.tile.rank.b1024.b32 [%copy], 1;")
    window, _ = one(
        "mov.u64 %d, map; cvta.shared.u64 %d, %d; @%p tensormap.replace.tile.rank.b1024.b32 [%d], 1;"
        f"bar.warp.sync -1; {COPY}"
    )
    assert shared[:128].any()
    assert not shared[128:].any()
    for other in (direct, generic, window):
        np.testing.assert_array_equal(other, shared)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 5;", EmulatorError, "rank is 5 and must be at most"),
        ("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 5, 8;", Unsupported, "ord is 5 and must be bel"),
        ("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 4, 8;", Unsupported, "must be below 4"),
        ("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [map], 8;", Unsupported, "flush subnormals"),
        ("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [map], 1;", Unsupported, "no interleaving"),
        ("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [map], 4;", Unsupported, "must be below 4"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [map+32], 1;", Misaligned, "not a multiple of 64"),
        ("@%p tensormap.replace.tile.rank.shared::cta.b1024.b32 [map+6016], 1;", OutOfBounds, "outside the"),
        ("tensormap.replace.tile.rank.global.b1024.b32 [%copy+192], 1;", OutOfBounds, "outside every allocation"),
        ("@%p st.shared.b32 [map], %r; @%p st.shared.b8 [map+9], 1;"
         "@%p tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;", EmulatorError, "the tensor map is missing"),
        ("@!%p bra OUT; " + COPY + " OUT:", DivergedCollective, "needs whole warps"),
        (COPY.replace("128;", "64;"), Unsupported, "a tensor map has 128 bytes"),
    ],
)  # fmt: skip
@pytest.mark.planted_fault
def test_what_is_wrong(body, error, message):
    with pytest.raises(error, match=message):
        one(body)


@pytest.mark.planted_fault
def test_a_map_that_is_incomplete_is_refused_where_it_is_used():
    load = (
        "@%p mbarrier.init.shared::cta.b64 [bar], 1; @%p cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [tile], [%copy, {%r, %r}], [bar];"
    )
    with pytest.raises(EmulatorError, match=r"has been overwritten, or never was one: address is 0 and must be pos"):
        one(f"{RANK} {COPY} {load}")
    with pytest.raises(EmulatorError, match="there is no tensor map"):
        one(load)


@pytest.mark.planted_fault
def test_a_map_that_two_threads_change_without_order_is_a_race():
    change = "@%p tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;"
    _, device = one(f"{change} setp.eq.u32 %p, %t, 1; {change}")
    assert {report.kind for report in device.reports} == {"race"}
    _, device = one(f"{change} {COPY}".replace("[map], 128", "[map+128], 128"))
    (report,) = device.reports
    assert report.kind == "uninitialized-shared"
