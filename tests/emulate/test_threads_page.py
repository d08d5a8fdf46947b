"""The kernels of docs/machine/threads.md do what the page says: the same image, and the sectors of their warps."""

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw

PAGE = (Path(__file__).parents[2] / "docs/machine/threads.md").read_text(encoding="utf-8")
KERNELS = re.findall(r"^```cpp\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LAUNCHES = (((2, 3), (32, 32), 4), ((2, 3), 1024, 4), ((3, 2), (32, 32), 32))
"""Of each: the grid of an image of 70 x 50, the block, and the sectors of a whole warp."""


def run(kernel, tmp_path, rows, columns, grid, block):
    path = tmp_path / "image.cu"
    path.write_text(kernel)
    image = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    expected = image + 1
    result = tw.check(path, image, rows, columns, grid=grid, block=block)
    assert result.verified, str(result)
    np.testing.assert_array_equal(image, expected)
    return result.as_dict()["counters"]["totals"]


@pytest.mark.parametrize(("kernel", "launch"), list(zip(KERNELS, LAUNCHES, strict=True)))
def test_each_kernel_makes_every_pixel_brighter_once(kernel, launch, tmp_path):
    grid, block, _ = launch
    run(kernel, tmp_path, 70, 50, grid, block)


@pytest.mark.parametrize(("kernel", "launch"), list(zip(KERNELS, LAUNCHES, strict=True)))
def test_a_warp_touches_as_many_sectors_as_the_page_says(kernel, launch, tmp_path):
    """Of 64 x 64 pixels, in whole warps."""
    _, block, sectors = launch
    totals = run(kernel, tmp_path, 64, 64, (2, 2), block)
    assert totals["sectors_per_request"] == {"ld": sectors, "st": sectors}
    assert totals["global_requests"]["ld"] == 64 * 64 // 32
