"""A product through a ring of TMA stages, right under every order of completion, and with planted faults."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from emulate.nvrtc import compile_ptx
from support.policies import each_policy
from support.ring_gemm import RING_GEMM
from tilewright.emulator import (
    AsyncHazard,
    BarrierProtocol,
    Deadlock,
    Device,
    EmulatorError,
    MbarrierLifetime,
    OutOfBounds,
)


def ring_gemm(fault, policy=("eager", 0), m=128, n=128, k=320):
    """The error of the product, computed in a device of its own."""
    generator = np.random.default_rng(7)
    a, b = generator.integers(-4, 5, (m, k)), generator.integers(-4, 5, (n, k))
    device = Device(memory_bytes=1 << 24, asynchrony=policy[0], seed=policy[1])
    maps = [
        device.tensor_map(
            address=device.upload(matrix.astype(bfloat16)), dtype="bf16", shape=(k, len(matrix)),
            strides=(2 * k,), box=(64, box_rows), swizzle=128,
        )
        for matrix, box_rows in ((a, 64), (b, 32))
    ]  # fmt: skip
    c = device.allocate(4 * m * n)
    kernel = device.load(compile_ptx(RING_GEMM, "sm_90a", f"-DFAULT={fault}"))
    device.launch(
        kernel, (m // 64, n // 64), (160,), [*maps, c, n, k], cluster=(2, 1, 1), shared_bytes=2 * 2 * 8192 + 32
    )
    result = device.read(c, 4 * m * n).view(np.float32).reshape(m, n)
    return float(np.abs(result - a @ b.T).max())


@each_policy
def test_ring_gemm(policy):
    assert ring_gemm(0, policy) == 0


@pytest.mark.planted_fault
def test_consumer_that_does_not_wait_for_the_data():
    with pytest.raises(AsyncHazard, match=r"wgmma\.mma_async.*test\.cu:\d+"):
        ring_gemm(1, ("lazy", 0))


@pytest.mark.planted_fault
def test_slot_released_before_wgmma_has_read_it():
    with pytest.raises(AsyncHazard, match=r"wgmma\.wait_group"):
        ring_gemm(2, ("lazy", 0))


@pytest.mark.planted_fault
@each_policy
def test_arrival_that_expects_no_bytes(policy):
    try:
        error = ring_gemm(3, policy)
    except EmulatorError:
        return
    assert error != 0


def test_over_arrival():
    with pytest.raises(BarrierProtocol, match=r"arrives too often.*takes 2 arrivals"):
        ring_gemm(4)


def test_mbarrier_without_initialization():
    with pytest.raises(MbarrierLifetime, match="not initialized"):
        ring_gemm(5)


def test_slot_that_is_never_released():
    with pytest.raises(Deadlock) as caught:
        ring_gemm(6)
    assert "pending arrivals 2 of 2" in str(caught.value)
    assert "mbarrier.try_wait" in str(caught.value)
    assert "test.cu:" in str(caught.value)


@pytest.mark.planted_fault
def test_cta_that_exits_while_its_peer_multicasts_into_it():
    def until_it_matters():
        for seed in range(8):
            ring_gemm(7, ("random", seed))

    with pytest.raises(MbarrierLifetime, match="has exited"):
        until_it_matters()


def test_expecting_too_many_bytes():
    with pytest.raises(Deadlock, match="missing bytes 16"):
        ring_gemm(8)


@pytest.mark.planted_fault
def test_accumulators_read_before_the_last_wait():
    with pytest.raises(AsyncHazard):
        ring_gemm(9, ("lazy", 0))


def test_tensor_map_larger_than_its_allocation():
    with pytest.raises(OutOfBounds, match="not in one allocation"):
        ring_gemm_past_the_end()


def ring_gemm_past_the_end():
    """A launch with more CTAs along m than A has rows, though its tensor map claims to have them."""
    device = Device(memory_bytes=1 << 24)
    matrix = device.upload(np.zeros((128, 64), np.uint16))
    maps = [
        device.tensor_map(address=matrix, dtype="bf16", shape=(64, 4096), strides=(128,), box=(64, rows), swizzle=128)
        for rows in (64, 32)
    ]
    kernel = device.load(compile_ptx(RING_GEMM, "sm_90a", "-DFAULT=0"))
    c = device.allocate(4 * 256 * 64)
    device.launch(kernel, (4, 1), (160,), [*maps, c, 64, 64], cluster=(2, 1, 1), shared_bytes=2 * 2 * 8192 + 32)
