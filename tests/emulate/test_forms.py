"""What is compared with hardware assembles, runs here, and leaves no report of the checks."""

import os
from dataclasses import replace

import numpy as np
import pytest

from support.columns import COLUMNS
from support.forms import FORMS
from support.images import IMAGES, LANES
from support.launches import emulate
from support.tiles import TILES

CASES = {**FORMS, "tile": TILES, "column": COLUMNS, **IMAGES}
SAMPLED = 1 if os.environ.get("TILEWRIGHT_TESTS") == "all" else 12
"""One case in this many runs with the checks on, and again with operations as late as allowed; the others run once."""


@pytest.mark.parametrize("kind", CASES)
def test_every_form_has_a_name_of_its_own(kind):
    assert len({case.name for case in CASES[kind]}) == len(CASES[kind])


@pytest.mark.parametrize("kind", CASES)
def test_every_form_runs(kind):
    """Most write something, results of zeros apart, and no result depends on when operations complete."""
    written = 0
    for number, case in enumerate(CASES[kind]):
        launch, sampled = case.launch(), number % SAMPLED == 0
        results = emulate(launch, checks=sampled)
        written += any(not np.array_equal(*pair) for pair in zip(launch.before, results, strict=True))
        if sampled:
            late = emulate(launch, checks=False, asynchrony="lazy")
            assert not case.differences(late, results, emulate), case.name
    assert written > len(CASES[kind]) / 2


def test_no_surface_depends_on_the_order_of_threads():
    for look in (look for look in IMAGES["surface"] if look.writes):
        launch = look.launch()
        given, found = launch.buffers
        turned = replace(launch, buffers=(given.reshape(LANES, -1)[::-1].reshape(-1), found))
        assert np.array_equal(emulate(launch, checks=False)[2], emulate(turned, checks=False)[2]), look.name


@pytest.mark.parametrize("kind", CASES)
def test_every_form_assembles(kind):
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    try:
        nvjitlink.version()
    except Exception as error:
        pytest.skip(f"nvJitLink is not installed: {error}")
    for ptx in dict.fromkeys(case.ptx for case in CASES[kind][::SAMPLED]):
        linker = nvjitlink.create(1, ["-arch=sm_90a"])
        text = ptx.encode()
        try:
            nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "form")
            nvjitlink.complete(linker)
        except nvjitlink.nvJitLinkError:
            log = bytearray(nvjitlink.get_error_log_size(linker))
            nvjitlink.get_error_log(linker, log)
            raise AssertionError(f"{log.decode(errors='replace')}\n{ptx}") from None
        finally:
            nvjitlink.destroy(linker)


def test_a_result_that_differs_is_found():
    for kind in ("integer", "float", "wgmma", "tile", "texture", "surface"):
        case = CASES[kind][0]
        results = emulate(case.launch())
        index = 0 if kind == "tile" else 1
        wrong = [buffer.copy() for buffer in results]
        wrong[index][0] ^= 1
        assert case.differences(results, wrong, emulate), case.name
