"""How `mma` stores rows of out that begin at odd elements, and columns: gathered in shared memory, in few sectors."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.backends.emulated import EmulatedBackend
from tilewright.kernels.mma import MmaConfig

M, N, K = 70, 65, 24


def stored_sectors(out, config):
    """What a product of ones writes; out has every sum, and nothing around it is written."""
    backend = EmulatedBackend(count_memory=True)
    a, b = np.ones((M, K), np.float16), np.ones((N, K), np.float16).T
    plan = tw.plan(a, b, out=out, kernel="mma", config=config, backend=backend)
    _, counters = plan.counted(a, b, out=out)
    assert (out == K).all()
    return counters.global_sectors["st"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("config", "across"), [(MmaConfig(64, 64), 32), (MmaConfig(warps_m=4), 32), (MmaConfig(64, 96, warps_m=1), 16)]
)
def test_lanes_write_neighbors_of_odd_rows(dtype, config, across):
    """A row has 65 elements: so many neighbors in an access, which begins and ends within sectors."""
    out = np.zeros((M, N), dtype)
    assert stored_sectors(out, config) <= M * (N * out.itemsize / 32 + -(-N // across))


@pytest.mark.parametrize("config", [MmaConfig(64, 64), MmaConfig(warps_m=4)])
def test_lanes_write_neighbors_of_columns(config):
    """Here rows are neighbors, and those of a column begin anywhere."""
    out = np.zeros((N, 71), np.float16)[:, 1:].T
    assert stored_sectors(out, config) <= N * (M * out.itemsize / 32 + -(-M // 32))


def test_no_neighbor_of_a_strided_out_is_written():
    """Two strides are over 1."""
    base = np.full((M, 2 * N + 1), 7, np.float16)
    assert stored_sectors(base[:, 1::2], MmaConfig(64, 64)) > 0
    assert (base[:, ::2] == 7).all()
