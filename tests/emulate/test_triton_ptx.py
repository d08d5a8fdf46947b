"""PTX of another compiler: matrix products by Triton are right and silent; without a wait or a fence they are not.

ptx/README.md says how the files were made.
"""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tilewright.emulator import Device

FOLDER = Path(__file__).parent / "ptx"
SHARED_BYTES = 98 * 1024
POLICIES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(3))]
each_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy[0]}{policy[1]}")


def ptx_of(name):
    return gzip.decompress((FOLDER / f"triton_{name}.ptx.gz").read_bytes()).decode()


def multiply_by_pointers(ptx, tile, threads, policy):
    """Whether a product of awkward shape is exact, and the device; sizes and strides are multiples of 16."""
    m, n, k = 208, 272, 160
    generator = np.random.default_rng(0)
    a = generator.integers(-3, 4, (m, k)).astype(np.float16)
    b = generator.integers(-3, 4, (k, n)).astype(np.float16)
    device = Device(memory_bytes=1 << 22, asynchrony=policy[0], seed=policy[1])
    operands = [device.upload(a), device.upload(b), device.allocate(2 * m * n)]
    grid = -(-m // tile[0]) * -(-n // tile[1])
    arguments = [*operands, m, n, k, k, n, n, 0, 0]  # the last two are scratch memory that these kernels do not use
    device.launch(device.load(ptx), (grid,), (threads,), arguments, shared_bytes=SHARED_BYTES)
    c = device.read(operands[2], 2 * m * n).view(np.float16).reshape(m, n)
    return np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32)), device


def multiply_by_tma(ptx, tile, threads, policy):
    """The same with B (n, k) and tensor maps, of shapes that tiles divide."""
    m, n, k = 2 * tile[0], 2 * tile[1], 320
    generator = np.random.default_rng(0)
    a = generator.integers(-3, 4, (m, k)).astype(np.float16)
    b = generator.integers(-3, 4, (n, k)).astype(np.float16)
    device = Device(memory_bytes=1 << 22, asynchrony=policy[0], seed=policy[1])
    operands = [device.upload(a), device.upload(b), device.allocate(2 * m * n)]
    arguments = []
    for address, (rows, columns) in zip(operands, ((m, k), (n, k), (m, n)), strict=True):
        tensor_map = device.tensor_map(
            address=address, dtype="f16", shape=(columns, rows), strides=(2 * columns,), box=(64, 128), swizzle=128
        )
        arguments += [tensor_map, rows, columns, columns, 1]
    device.launch(device.load(ptx), (4,), (threads,), [*arguments, m, n, k, 0, 0], shared_bytes=SHARED_BYTES)
    c = device.read(operands[2], 2 * m * n).view(np.float16).reshape(m, n)
    return np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32)), device


KERNELS = {
    "sm80_4_warps": (multiply_by_pointers, (64, 128), 128),
    "sm80_8_warps": (multiply_by_pointers, (128, 128), 256),
    "sm90_4_warps": (multiply_by_pointers, (64, 128), 128),
    "sm90_8_warps": (multiply_by_pointers, (128, 128), 256),
    "sm90_tma": (multiply_by_tma, (128, 128), 256),
}


def multiply(name, ptx, policy):
    function, tile, threads = KERNELS[name]
    return function(ptx, tile, threads, policy)


@each_policy
@pytest.mark.parametrize("name", KERNELS)
def test_product(name, policy):
    exact, _ = multiply(name, ptx_of(name), policy)
    assert exact


MUTANTS = [
    ("sm80_4_warps", "cp.async.wait_group", (0,), "read-before-wait"),
    ("sm80_4_warps", "cp.async.wait_group", (2, 3), "read-before-wait"),
    ("sm80_4_warps", "cp.async.wait_group", (4,), "overwrite-before-wait"),
    ("sm80_4_warps", "bar.sync", (0,), "race"),
    ("sm80_4_warps", "bar.sync", (1, 3), "race"),
    ("sm80_4_warps", "bar.sync", (2,), "race"),
    ("sm80_4_warps", "bar.sync", (4,), "race"),
    ("sm80_8_warps", "cp.async.wait_group", (0,), "read-before-wait"),
    ("sm80_8_warps", "cp.async.wait_group", (4,), "overwrite-before-wait"),
    ("sm80_8_warps", "bar.sync", (2,), "race"),
    ("sm90_4_warps", "cp.async.wait_group", (0,), "overwrite-before-wait"),
    ("sm90_4_warps", "fence.proxy.async", (0,), "proxy-fence"),
    ("sm90_4_warps", "wgmma.fence", (0,), "wgmma-fence"),
    ("sm90_4_warps", "wgmma.wait_group", (0,), "overwrite-before-wait"),
    ("sm90_4_warps", "wgmma.wait_group", (1,), "accumulator-before-wait"),
    ("sm90_4_warps", "bar.sync", (4,), "race"),
    ("sm90_8_warps", "cp.async.wait_group", (1,), "overwrite-before-wait"),
    ("sm90_8_warps", "fence.proxy.async", (0,), "proxy-fence"),
    ("sm90_8_warps", "wgmma.fence", (0,), "wgmma-fence"),
    ("sm90_8_warps", "bar.sync", (1,), "overwrite-before-wait"),
    ("sm90_tma", "bar.sync", (0, 1, 2, 3, 4, 5), "mbarrier-init"),
    ("sm90_tma", "bar.sync", (7, 8, 9), "overwrite-before-wait"),
    ("sm90_tma", "bar.sync", (11,), "race"),
    ("sm90_tma", "wgmma.fence", (0,), "wgmma-fence"),
    ("sm90_tma", "wgmma.wait_group", (0,), "overwrite-before-wait"),
    ("sm90_tma", "wgmma.wait_group", (1,), "accumulator-before-wait"),
    ("sm90_tma", "fence.proxy.async", (0,), "proxy-fence"),
]
"""File, an instruction, which of its occurrences are dropped, and what is then reported under eager asynchrony.

Others can be dropped without harm: waits and barriers that the next ones repeat.
"""


@pytest.mark.planted_fault
@pytest.mark.parametrize(("name", "instruction", "which", "kind"), MUTANTS)
def test_dropped_instruction(name, instruction, which, kind, reports):
    lines = ptx_of(name).split("\n")
    places = [number for number, line in enumerate(lines) if instruction in line]
    for index in which:
        lines[places[index]] = ""
    multiply(name, "\n".join(lines), ("eager", 0))
    assert kind in {report.kind for report in reports()}


@pytest.mark.planted_fault
@each_policy
def test_dropped_wait_for_the_store(policy, reports):
    """What the kernel computes is right all the same, so the launch goes on."""
    text = ptx_of("sm90_tma")
    exact, _ = multiply("sm90_tma", text.replace("cp.async.bulk.wait_group", "// "), policy)
    assert exact
    assert "exit-before-wait" in {report.kind for report in reports()}
