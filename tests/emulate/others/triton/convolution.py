"""A convolution of images (batch, height, width, channels) as a matmul whose rows are gathered, without padding."""

import triton
import triton.language as tl


@triton.jit
def convolution(
    x, weight, out, height, width, filters, STRIDE: tl.constexpr, SIZE: tl.constexpr, CHANNELS: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr,
):  # fmt: skip
    out_height = (height - SIZE) // STRIDE + 1
    out_width = (width - SIZE) // STRIDE + 1
    image = tl.program_id(2)
    pixel = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    inside = pixel < out_height * out_width
    row = pixel // out_width * STRIDE
    column = pixel % out_width * STRIDE
    one = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    channel = tl.arange(0, CHANNELS)
    sums = tl.zeros((TILE_M, TILE_N), tl.float32)
    for tap in range(SIZE * SIZE):
        at = ((image * height + row + tap // SIZE) * width + column + tap % SIZE) * CHANNELS
        left = tl.load(x + at[:, None] + channel[None, :], mask=inside[:, None], other=0.0)
        right = tl.load(
            weight + (tap * CHANNELS + channel[:, None]) * filters + one[None, :],
            mask=one[None, :] < filters,
            other=0.0,
        )
        sums = tl.dot(left, right, sums)
    place = (image * out_height * out_width + pixel[:, None]) * filters + one[None, :]
    tl.store(out + place, sums.to(tl.float16), mask=inside[:, None] & (one[None, :] < filters))
