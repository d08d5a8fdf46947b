"""Copies by `repack`, in the emulator with its checks: every skew of rows of any length, by each way of sharing them.

Operands end where their last row does, so that the emulator reports what is read beside them.
"""

import re

import numpy as np
import pytest

from support.doubles import CountingBackend
from tilewright.backends.emulated import EmulatedBackend
from tilewright.dtypes import bf16, int8
from tilewright.hardware import H200
from tilewright.jit.cache import build
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.registry import KERNELS
from tilewright.kernels.repack import RepackConfig
from tilewright.planner.copies import REPACK, copied
from tilewright.problem import Matrix, Problem


class HastyBackend(EmulatedBackend):
    """An emulated GPU whose CTAs do not wait for their own threads."""

    def prepare(self, compiled, shape, arguments):
        ptx, waits = re.subn(r"bar(rier)?\.sync[^;]*;", "", compiled.ptx)
        assert waits
        return super().prepare(compiled._replace(ptx=ptx), shape, arguments)


CONFIGS = (RepackConfig(), RepackConfig(32, 1), RepackConfig(64, 4), RepackConfig(128, 3))


def of_strides(m, k, n, a, b, batch=(), dtype=bf16):
    """A product whose operands have these (row stride, column stride, batch strides)."""
    return Problem(m, n, k, Matrix(dtype, *a), Matrix(dtype, *b), Matrix(bf16, n, 1, (m * n,) * len(batch)), batch)


def copies_of(problem, config, first=0, backend=None):
    """The copies that a launch makes of operands `first` elements behind 16 bytes, and what they are copies of."""
    backend, nbytes = backend or EmulatedBackend(H200, checks=True), problem.a.dtype.nbytes
    words = np.dtype(f"u{nbytes}")
    taken = copied(problem, KERNELS["wgmma"], H200)
    launch = REPACK.assemble(config, taken.repacking, H200)
    compiled, device = build(launch.source, H200.virtual_arch), backend.device
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


@pytest.mark.parametrize("config", [RepackConfig(), RepackConfig(32), RepackConfig(1024)], ids=str)
@pytest.mark.parametrize("first", [0, 1, 13])
def test_what_is_not_contiguous_along_k_is_turned(first, config):
    """Bytes of rows of every skew, with edges in and beside the chunks and tiles."""
    for m, k, n in ((2, 5, 3), (17, 33, 300), (130, 257, 191), (600, 2, 16)):
        problem = of_strides(m, k, n, (1, m + first, ()), (n + first, 1, ()), dtype=int8)
        names = []
        for name, found, source in copies_of(problem, config, first):
            np.testing.assert_array_equal(found, source, err_msg=f"{name}, {m} x {k} x {n}")
            names.append(name)
        assert names == ["a", "b"]


def test_turned_batches_and_bytes_that_lie_apart():
    problem = of_strides(140, 37, 150, (2, 283, (0, 37 * 283)), (303, 2, (2 * 37 * 303, 37 * 303)), (2, 2), int8)
    for name, found, source in copies_of(problem, RepackConfig()):
        np.testing.assert_array_equal(found, source, err_msg=name)


def test_one_operand_is_turned_and_the_other_moved():
    problem = of_strides(35, 200, 150, (201, 1, ()), (150, 1, ()), dtype=int8)
    for name, found, source in copies_of(problem, RepackConfig(), 3):
        np.testing.assert_array_equal(found, source, err_msg=name)


def test_turning_has_no_bank_conflicts_and_moves_whole_sectors():
    backend = CountingBackend()
    problem = of_strides(256, 384, 512, (1, 256, ()), (512, 1, ()), dtype=int8)
    for name, found, source in copies_of(problem, RepackConfig(), backend=backend):
        np.testing.assert_array_equal(found, source, err_msg=name)
    (total,) = backend.counted
    sectors = 384 * (256 + 512) // 32
    assert not sum(total.shared_conflicts.values())
    assert (total.global_sectors["ld"], total.global_sectors["st"]) == (sectors, sectors)


@pytest.mark.planted_fault
def test_a_tile_that_is_read_without_waiting_is_reported():
    problem = of_strides(130, 257, 191, (1, 130, ()), (191, 1, ()), dtype=int8)
    with pytest.raises(AssertionError, match="race"):
        list(copies_of(problem, RepackConfig(), backend=HastyBackend(H200, checks=True)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (RepackConfig(threads=48), "take 32 threads for each"),
        (RepackConfig(thread_rows=9), "take 1 to 8 rows"),
        (RepackConfig(threads=96), "share the 1024 chunks of a turned tile evenly"),
    ],
)
def test_illegal_configs(config, message):
    taken = copied(of_strides(9, 33, 3, (33, 1, ()), (3, 1, ()), dtype=int8), KERNELS["wgmma"], H200)
    with pytest.raises(ConfigError, match=message):
        REPACK.check(config, taken.repacking, H200)
