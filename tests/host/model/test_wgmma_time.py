"""The model of wgmma against the published clocks, and the advice about swapping A and B against hand arithmetic."""

import json
from pathlib import Path

import pytest

from tilewright.dtypes import fp16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import A100, H20, H100_PCIE, H100_SXM, H200, H800, WGMMA_N
from tilewright.model.chips import chip_of
from tilewright.model.swap_ab import swap_advice
from tilewright.model.wgmma_time import MEASURED, least_full_n, wgmma_time

RECORD = Path(__file__).parents[3] / "results/wgmma_clocks_h200.json"


@pytest.mark.parametrize("gpu", [H800, H20])
def test_the_published_clocks(gpu):
    assert {n: wgmma_time(gpu, n).clocks for n in MEASURED[gpu.name]} == MEASURED[gpu.name]
    assert len(MEASURED[gpu.name]) == 6


@pytest.mark.parametrize("gpu", [H100_SXM, H100_PCIE, H200, H800])
def test_all_other_hopper_gpus_are_alike(gpu):
    clocks = [wgmma_time(gpu, n).clocks for n in (8, 16, 24, 32, 48, 64, 72, 96, 128, 192, 256)]
    assert clocks == [18, 20, 22, 24, 28, 32, 36, 48, 64, 96, 128]
    assert least_full_n(gpu) == 64
    assert least_full_n(gpu, "registers") == 32
    assert all(wgmma_time(gpu, n, "registers").clocks == max(13, n / 2) for n in WGMMA_N)
    assert [wgmma_time(gpu, n, "registers").bound for n in (24, 32)] == ["registers", "tensor cores"]


def test_the_clocks_of_an_h200():
    """Of every kind and n, by as many warpgroups as took least."""
    cases = json.loads(RECORD.read_text())["cases"]
    found = {}
    for case in cases:
        place = case["kind"], case["n"]
        found[place] = min(case["median"], found.get(place, case["median"]))
    assert len(found) == 8 * len(WGMMA_N)
    for (kind, n), clocks in found.items():
        source = "registers" if "registers" in kind else "smem"
        assert wgmma_time(H200, n, source).clocks == pytest.approx(clocks, abs=0.06), (kind, n)


def test_an_h20_multiplies_at_a_quarter_of_the_rate():
    clocks = [wgmma_time(H20, n).clocks for n in (8, 16, 24, 32, 48, 64, 72, 96, 128, 192, 256)]
    assert clocks == [18, 32, 48, 64, 96, 128, 144, 192, 256, 384, 512]
    assert least_full_n(H20) == 16
    assert all(wgmma_time(H20, n, "registers").clocks == 2 * n for n in WGMMA_N)


@pytest.mark.parametrize(("chip", "clocks"), [("V100", 32), ("A100", 16), ("H100", 8)])
def test_the_clocks_of_a_wmma_on_a_quarter_of_an_sm(chip, clocks):
    """docs/machine/wgmma.md: 16 x 16 x 16 multiply-adds; the GEMM chapter gives 8 for all three."""
    gpu = chip_of(chip).gpu
    assert 16**3 / (gpu.macs(gpu.peak_unit(fp16), fp16) / 4) == clocks


def test_18_clocks_are_16_for_a_and_2_for_b():
    time = wgmma_time(H20, 8)
    assert (time.read_a, time.read_b, time.multiply) == (16, 2, 16)
    assert time.bound == "shared memory"
    assert time.share == 16 / 18
    assert time.as_dict()["clocks"] == 18


@pytest.mark.parametrize("n", [0, -8, 4, 12, 264])
def test_an_n_that_wgmma_does_not_have(n):
    with pytest.raises(ArgumentValueError, match="8, 16, 24 and so on up to 256"):
        wgmma_time(H200, n)


def test_a_gpu_without_wgmma_and_an_unknown_source():
    with pytest.raises(ArgumentValueError, match="Hopper alone has: use H100-SXM"):
        wgmma_time(A100, 64)
    with pytest.raises(ArgumentValueError, match="use smem, registers"):
        wgmma_time(H200, 64, "gmem")


def test_a_board_with_other_clocks_is_a_hopper_gpu_too():
    board = H200._replace(sm_count=114, tensor_clock=1.2e9)
    assert wgmma_time(board, 64) == wgmma_time(H200, 64)


@pytest.mark.parametrize(
    ("gpu", "unswapped", "swapped", "hbm"),
    [
        (H100_SXM, 32, (18, 20, 24, 28), 148),
        (H200, 32, (18, 20, 24, 28), 103),
        (H20, 128, (18, 32, 64, 96), 74),
    ],
)
def test_swapping_with_hbm_as_the_third_term(gpu, unswapped, swapped, hbm):
    found = [swap_advice(gpu, m) for m in (8, 16, 32, 48)]
    assert {each.unswapped for each in found} == {unswapped}
    assert tuple(each.swapped for each in found) == swapped
    assert {round(each.hbm) for each in found} == {hbm}


def test_only_the_h20_waits_for_its_tensor_cores():
    assert swap_advice(H20, 16).limit == "wgmma"
    assert round(swap_advice(H20, 16).gain, 2) == 1.73  # 128 / 74
    assert swap_advice(H20, 16).swap
    for gpu in (H100_SXM, H200):
        advice = swap_advice(gpu, 8)
        assert (advice.limit, advice.gain, advice.swap) == ("HBM", 1, False)
        assert round(advice.gain_on_chip, 2) == 1.78


def test_from_64_rows_on_swapping_only_trims_padding():
    assert swap_advice(H20, 64).gain == 1
    assert swap_advice(H20, 65).unswapped == 256
    assert swap_advice(H20, 65).swapped == 144  # one wgmma of 72
    assert swap_advice(H20, 264).swapped == 512 + 18
    assert swap_advice(H20, 256 * 10**12).swapped == 512 * 10**12
    with pytest.raises(ArgumentValueError, match="m=0 must be an integer from 1 to"):
        swap_advice(H20, 0)
