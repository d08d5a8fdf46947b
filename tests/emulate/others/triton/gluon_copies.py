"""A sum of rows in Gluon: cp.async fills a ring of slots ahead of the additions."""

import triton.experimental.gluon.language as gl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@gluon.jit
def sum_rows(x, out, rows, columns, WIDTH: gl.constexpr, SLOTS: gl.constexpr, WAIT_TOO_MANY: gl.constexpr = False):
    copied: gl.constexpr = gl.BlockedLayout([4], [32], [gl.num_warps()], [0])
    read: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    slots = gl.allocate_shared_memory(gl.float32, [SLOTS, WIDTH], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    column = gl.program_id(0) * WIDTH + gl.arange(0, WIDTH, copied)
    for row in gl.static_range(SLOTS - 1):
        async_copy.async_load(slots.index(row), x + row * columns + column, mask=row < rows)
        async_copy.commit_group()
    total = gl.zeros([WIDTH], gl.float32, read)
    for row in range(rows):
        async_copy.wait_group(SLOTS - 1 if WAIT_TOO_MANY else SLOTS - 2)
        total += slots.index(row % SLOTS).load(read)  # reported: WAIT_TOO_MANY
        ahead = row + SLOTS - 1
        async_copy.async_load(slots.index(ahead % SLOTS), x + ahead * columns + column, mask=ahead < rows)
        async_copy.commit_group()
    gl.store(out + gl.program_id(0) * WIDTH + gl.arange(0, WIDTH, read), total)
