"""Layer normalization, forward and backward.

Backward, each program adds the gradients of weight and bias of its rows to one of LOCKS buffers, under its lock. A lock
is 0 if free; `filled` says whether the buffer has a first value.
"""

import triton
import triton.language as tl


@triton.jit
def forward(x, weight, bias, out, means, inverses, columns, epsilon, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    inside = column < columns
    values = tl.load(x + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(values, 0) / columns
    centered = tl.where(inside, values - mean, 0.0)
    inverse = tl.rsqrt(tl.sum(centered * centered, 0) / columns + epsilon)
    tl.store(means + row, mean)
    tl.store(inverses + row, inverse)
    scaled = centered * inverse * tl.load(weight + column, mask=inside) + tl.load(bias + column, mask=inside)
    tl.store(out + row * columns + column, scaled, mask=inside)


@triton.jit
def backward(
    d_out, x, weight, means, inverses, dx, d_weight, d_bias, locks, filled, columns, LOCKS: tl.constexpr,
    WIDTH: tl.constexpr, NO_LOCK: tl.constexpr = False, NO_RELEASE: tl.constexpr = False,
    NO_BARRIER: tl.constexpr = False,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    inside = column < columns
    slope = tl.load(d_out + row * columns + column, mask=inside, other=0.0)
    inverse = tl.load(inverses + row)
    centered = (tl.load(x + row * columns + column, mask=inside, other=0.0) - tl.load(means + row)) * inverse
    centered = tl.where(inside, centered, 0.0)
    weighted = slope * tl.load(weight + column, mask=inside, other=0.0)
    along = tl.sum(centered * weighted, 0) / columns
    mean = tl.sum(weighted, 0) / columns
    tl.store(dx + row * columns + column, (weighted - (centered * along + mean)) * inverse, mask=inside)

    of_weight = slope * centered
    of_bias = slope
    lock = row % LOCKS
    place = lock * columns + column
    if not NO_LOCK:
        while tl.atomic_cas(locks + lock, 0, 1) == 1:
            pass
    before = tl.load(filled + lock)  # reported: NO_BARRIER
    if not NO_BARRIER:
        tl.debug_barrier()  # all threads load it, and one of them stores
    if before == 0:
        tl.store(filled + lock, 1)  # reported: NO_BARRIER
    else:
        of_weight += tl.load(d_weight + place, mask=inside, other=0.0)  # reported: NO_LOCK, NO_RELEASE
        of_bias += tl.load(d_bias + place, mask=inside, other=0.0)
    tl.store(d_weight + place, of_weight, mask=inside)  # reported: NO_LOCK, NO_RELEASE
    tl.store(d_bias + place, of_bias, mask=inside)
    tl.debug_barrier()
    if NO_RELEASE:
        tl.atomic_xchg(locks + lock, 0, sem="relaxed")
    else:
        tl.atomic_xchg(locks + lock, 0)
