"""Faults planted in the main loop of products of fp8 whose scales change along k, and found by the emulator."""

import numpy as np
import pytest

import tilewright as tw
from emulate.test_block_scales import BEHIND, COLUMN, DIRECT, FEW_SMS, TILE, operands, product, scales_of
from support.cases import by_fours
from tilewright.backends.emulated import EmulatedBackend
from tilewright.jit.compile import CompilationError, compile
from tilewright.jit.source import package_headers
from tilewright.kernels.wgmma.config import WgmmaConfig
from tilewright.planner import planning


@pytest.fixture
def random():
    return np.random.default_rng(5)


@pytest.fixture
def plant(monkeypatch):
    """Writes another text into a header of the package, and compiles all units anew."""

    def planted(name, right, wrong):
        header = "kernels/wgmma.cuh" if name == "kernel" else f"mainloop/wgmma_{name}.cuh"
        text = package_headers()[header]
        assert text.count(right) == 1
        monkeypatch.setitem(package_headers(), header, text.replace(right, wrong))

    monkeypatch.setattr(planning, "in_memory", lambda *_: None)
    monkeypatch.setattr(planning, "build", compile)
    return planted


def is_faulty(a, b, exact, backend, **options):
    """Whether the emulator reports anything, or the product is wrong."""
    try:
        out = tw.matmul(a, b, **options, out_dtype="fp32", backend=backend)
    except CompilationError:
        raise
    except tw.TilewrightError:
        return True
    return not np.array_equal(out, exact) or bool(backend.device.reports)


READ_COLUMNS = "    columns.read(ring.slot() + Config::tile_m * 4);\n"
RELEASE_SCALES = "    release();\n"
FAULTS = {
    "scales of A of one k-block for all": (
        "scales",
        "scales[0].row_stride, scales[0].column_stride)",
        "scales[0].row_stride, 0)",
    ),
    "scales of B of one k-block for all": (
        "scales",
        "scales[1].column_stride, scales[1].row_stride)",
        "scales[1].column_stride, 0)",
    ),
    "scales of the first block of columns for all": (
        "scales",
        "count == 1 || value / 4 / step * step < second ? scales[0]",
        "value >= 0 ? scales[0]",
    ),
    "scales of A of the row above": ("promotion", "row + i * 64 + half * 8) * 4", "row + i * 64) * 4"),
    "scales that are read before they are there": (
        "promotion",
        "    ring.wait_full();\n    read_rows(rows);\n",
        "    read_rows(rows);\n",
    ),
    "scales that are overwritten before they are read": (
        "scales",
        "      ring.wait_empty();\n",
        "",
    ),
    "a warp that does not wait for its lanes": ("promotion", "    __syncwarp();\n", ""),
    "scales that are released too early": (
        "promotion",
        f"{READ_COLUMNS}{RELEASE_SCALES}",
        f"{RELEASE_SCALES}{READ_COLUMNS}",
    ),
    "barriers of scales that may not be there yet": (
        "kernel",
        "cta_sync<0, Config::threads>();\n    } else {",
        "cta_arrive<0, Config::threads>();\n    } else {",
    ),
    "no fence": (
        "consumer",
        "      wgmma_fence();\n      multiply(products, i, false);",
        "      multiply(products, i, false);",
    ),
    "no wait": ("consumer", "      wgmma_wait<0>();\n      wgmma_results(products);", "      wgmma_results(products);"),
    "a slot that is released too early": (
        "consumer",
        "      wgmma_wait<0>();\n      wgmma_results(products);\n",
        "      if (leaves) pipeline.release(slot);\n      wgmma_wait<0>();\n      wgmma_results(products);\n",
    ),
    "no wait for the next slot": (
        "consumer",
        "    pipeline.wait_full(position);\n    a_ahead",
        "    a_ahead",
    ),
}
"""What each fault replaces, in which header of the main loop."""

FAULTS_BEHIND = {
    "no fence of the next products": (
        "consumer",
        "      wgmma_fence();\n      multiply(products[1 - buffer], 0, false);",
        "      multiply(products[1 - buffer], 0, false);",
    ),
    "no wait for the older products": ("consumer", "wgmma_wait<!last>();", "if (last) wgmma_wait<0>();"),
    "a slot that is released while it is read": (
        "consumer",
        "pipeline.release(slot);\n    promotion",
        "pipeline.release(position.slot);\n    promotion",
    ),
    "products that are overwritten": ("consumer", "multiply(products[1 - buffer], 0", "multiply(products[buffer], 0"),
    "sums that go on from the tile before": ("consumer", "sum = 0;", ";"),
}
"""The same with the next products under way."""


FAULTS_AHEAD = {
    "columns that are overwritten before their last use": ("consumer", "v % 4 == 3", "v % 4 == 2"),
    "rows that are overwritten before their last use": ("promotion", "read_rows(rows_ahead);", "read_rows(rows);"),
    "scales that are read ahead before they are there": (
        "promotion",
        "      ring.wait_full();\n      read_rows(rows_ahead);\n",
        "      read_rows(rows_ahead);\n",
    ),
    "scales that are released before they are read ahead": (
        "promotion",
        "      read_rows(rows_ahead);\n    }",
        "      read_rows(rows_ahead);\n      mbarrier_arrive(ring.empty());\n    }",
    ),
}
"""The same with the next k-block's scales read ahead."""


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("way", "recipe", "fault"),
    [
        *((DIRECT, TILE, fault) for fault in (None, *FAULTS)),
        *((BEHIND, TILE, fault) for fault in (None, *FAULTS_BEHIND)),
        *((DIRECT, COLUMN, fault) for fault in (None, *FAULTS_AHEAD)),
    ],
)
def test_faults_of_the_main_loop_are_found(random, way, recipe, fault, plant):
    if fault is not None:
        plant(*(FAULTS | FAULTS_BEHIND | FAULTS_AHEAD)[fault])
    a, b = operands(random, 140, 200, 500)
    scales = scales_of(random, recipe, 140, 200, 500)
    exact, config = product(a, b, **scales, recipe=recipe), WgmmaConfig(128, 96, 2, **way)
    backends = (EmulatedBackend(FEW_SMS, checks=True, asynchrony=asynchrony) for asynchrony in ("eager", "lazy"))
    found = any(is_faulty(a, b, exact, backend, recipe=recipe, **scales, config=config) for backend in backends)
    assert found == (fault is not None)


FAULTS_OF_FOURS = {
    "fours that begin anywhere": ("stride == 1 && (reinterpret", "stride == 1 || (reinterpret", np.asfortranarray),
    "fours past the last row": ("width == 1 ? 4 : bytes[i]", "width * 4", by_fours),
    "a k-block of every fourth": ("from[i] += step;", "from[i] += step * (width == 4 ? 2 : 1);", by_fours),
}
"""What each replaces in mainloop/wgmma_scales.cuh, and how the scales lie that show it."""


@pytest.mark.planted_fault
@pytest.mark.parametrize("fault", [None, *FAULTS_OF_FOURS])
def test_faults_of_scales_that_are_read_by_fours_are_found(random, fault, plant):
    lay = by_fours
    if fault is not None:
        right, wrong, lay = FAULTS_OF_FOURS[fault]
        plant("scales", right, wrong)
    a, b = operands(random, 142, 200, 496)
    scales = scales_of(random, TILE, 142, 200, 496)
    exact = product(a, b, **scales, recipe=TILE)
    scales["scale_a"] = lay(scales["scale_a"])
    backend = EmulatedBackend(checks=True)
    assert is_faulty(a, b, exact, backend, recipe=TILE, **scales, kernel="wgmma") == (fault is not None)
