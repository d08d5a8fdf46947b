"""Copies by `repack`, in the emulator with its checks: every skew of rows of any length, by each way of sharing them.

Operands end where their last row does, so that the emulator reports what is read beside them.
"""

import numpy as np
import pytest

from tilewright.backends.emulated import EmulatedBackend
from tilewright.dtypes import bf16, int8
from tilewright.hardware import H200
from tilewright.jit.cache import build
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.repack import RepackConfig
from tilewright.planner.copies import REPACK, copied
from tilewright.problem import Matrix, Problem

CONFIGS = (RepackConfig(), RepackConfig(32, 1), RepackConfig(64, 4), RepackConfig(128, 3))


def of_strides(m, k, n, a, b, batch=(), dtype=bf16):
    """A product whose operands have these (row stride, column stride, batch strides)."""
    return Problem(m, n, k, Matrix(dtype, *a), Matrix(dtype, *b), Matrix(bf16, n, 1, (m * n,) * len(batch)), batch)


def copies_of(problem, config, first=0):
    """The copies that a launch makes of operands `first` elements behind 16 bytes, and what they are copies of."""
    backend, nbytes = EmulatedBackend(H200, checks=True), problem.a.dtype.nbytes
    words = np.dtype(f"u{nbytes}")
    taken = copied(problem, KERNELS["wgmma"], H200)
    launch = REPACK.assemble(config, taken.repacking, H200)
    compiled, device = build(launch.source, H200.arch), backend.device
    pointers, sources = [], {}
    for name in ("a", "b"):
        matrix, extents = getattr(problem, name), (*problem.batch, *problem.extents(name))
        strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
        last = sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))
        flat = np.arange(1, first + last + 2).astype(words)
        address = device.allocate(flat.nbytes)
        device.write(address, flat.view(np.uint8))
        pointers.append(address + nbytes * first)
        sources[name] = np.lib.stride_tricks.as_strided(flat[first:], extents, [nbytes * stride for stride in strides])
    workspace = device.allocate(taken.nbytes)
    device.write(workspace, np.full(taken.nbytes, 0xA5, np.uint8))
    to = [workspace + taken.offsets[name] if name in taken.offsets else 0 for name in ("a", "b")]
    backend.prepare(compiled, launch.shape, launch.arguments)([*pointers, *to, 0], 1.0, 1.0, 0)
    assert not device.reports
    flat = np.asarray(device.read(workspace, taken.nbytes)).view(words)
    for name, offset in taken.offsets.items():
        matrix, extents = getattr(taken.problem, name), sources[name].shape
        strides = [nbytes * stride for stride in (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)]
        found = np.lib.stride_tricks.as_strided(flat[offset // nbytes :], extents, strides)
        yield name, found, sources[name]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "columns"),
    [
        *((bf16, columns) for columns in (2, 7, 8, 9, 16, 23, 24, 25, 31, 33, 255, 263, 264, 530)),
        *((int8, columns) for columns in (2, 15, 16, 17, 31, 33, 47, 48, 49, 65, 530)),
    ],
    ids=str,
)
def test_rows_of_any_length_begin_anywhere(dtype, columns, config):
    for first in (0, 1, 7):
        stride = (columns | 1) + 2 * (first == 0)  # rows of every skew
        problem = of_strides(17 if dtype is int8 else 9, columns, 3, (stride, 1, ()), (1, stride, ()), dtype=dtype)
        names = []
        for name, found, source in copies_of(problem, config, first):
            np.testing.assert_array_equal(found, source, err_msg=f"{name}, {first}")
            names.append(name)
        assert names


def test_batches_and_elements_that_lie_apart():
    problem = of_strides(5, 37, 11, (91, 2, (0, 5 * 91)), (11, 1, (2 * 407, 407)), (2, 2))
    for name, found, source in copies_of(problem, RepackConfig(32, 2)):
        np.testing.assert_array_equal(found, source, err_msg=name)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (RepackConfig(threads=48), "take 32 threads for each"),
        (RepackConfig(thread_rows=9), "take 1 to 8 rows"),
    ],
)
def test_illegal_configs(config, message):
    taken = copied(of_strides(9, 33, 3, (33, 1, ()), (1, 33, ())), KERNELS["wgmma"], H200)
    with pytest.raises(ConfigError, match=message):
        REPACK.check(config, taken.repacking, H200)
