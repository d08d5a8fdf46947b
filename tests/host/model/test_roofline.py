"""The roofline against published ridges, and against every launch that was measured on an H200."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.dtypes import bf16, fp32
from tilewright.errors import ArgumentValueError
from tilewright.model.chips import CHIPS
from tilewright.model.roofline import Roof, lowest, roofs
from tilewright.model.tiling.levels import Block, Blocking, levels

RESULTS = Path(__file__).parents[3] / "results"


def cut(m, n, k, tile, cluster=(1, 1)):
    """The levels of a kernel for Hopper with such a tile."""
    cta = Block(*tile)
    return levels(m, n, k, Blocking(cta, Block(cta.m * cluster[0], cta.n * cluster[1]), Block(64, cta.n)))


def printed(*words, code=0):
    done = CliRunner().invoke(app, ["model", "roofline", *map(str, words), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_the_lower_of_slope_and_peak_is_allowed():
    roof = Roof("GMEM", 2.0, 3.0, 100.0)
    assert (roof.allowed, roof.ridge) == (6.0, 50.0)
    assert Roof("GMEM", 2.0, 50.0, 100.0).allowed == Roof("GMEM", 2.0, 80.0, 100.0).allowed == 100.0
    assert lowest([Roof("GMEM", 2.0, 80.0, 100.0), roof]) is roof


@pytest.mark.parametrize(("name", "ridge"), [("H100-PCIe", 371), ("H100-SXM", 295), ("H20", 37)])
def test_ridges_at_gmem_are_the_published_ones(name, ridge):
    gmem = roofs(CHIPS[name], "wgmma", bf16, cut(4096, 4096, 4096, (128, 128)))[0]
    assert gmem.ridge == pytest.approx(ridge, rel=0.005)


def test_cuda_cores_have_a_ridge_of_their_own():
    """25 on an H100 PCIe, where an article applies that of the tensor cores."""
    gmem = roofs(CHIPS["H100-PCIe"], "cuda_cores", fp32, cut(4096, 4096, 4096, (32, 32)))[0]
    assert gmem.ridge == pytest.approx(25, rel=0.01)


@pytest.mark.parametrize(("name", "least"), [("H100-SXM", 64), ("H200", 64), ("H800", 64), ("H20", 16)])
def test_smem_allows_the_peak_from_the_width_that_the_wgmma_article_finds(name, least):
    for n in range(8, 257, 8):
        smem = roofs(CHIPS[name], "wgmma", bf16, cut(256, n, 4096, (64, n)))[2]
        assert (smem.allowed == smem.peak) == (n >= least), n


def test_no_launch_that_was_measured_is_above_its_roof():
    """Of wgmma on an H200; the nearest ones show that the roofs of GMEM and L2 are not much too high."""
    record = json.loads((RESULTS / "calibration_h200.json").read_text(encoding="utf-8"))
    nearest: dict[str, float] = {}
    count = 0
    for run in record["runs"]:
        for launch in run["launches"]:
            named = dict(zip(record["columns"]["launches"], launch, strict=True))
            m, n, k = named["m"], named["n"], named["k"]
            rows, columns = (n, m) if named["swap_ab"] else (m, n)
            tile, cluster = (named["tile_m"], named["tile_n"]), (named["cluster_m"], named["cluster_n"])
            for roof in roofs(CHIPS["H200"], "wgmma", bf16, cut(rows, columns, k, tile, cluster)):
                share = 2 * m * n * k / (named["us"] / 1e6) / roof.allowed
                assert share <= 1, (named, roof)
                nearest[roof.level] = max(share, nearest.get(roof.level, 0))
            count += 1
    assert count == 5060
    assert nearest["GMEM"] == pytest.approx(0.90, abs=0.01)
    assert nearest["L2"] == pytest.approx(0.92, abs=0.01)


def test_the_command_names_the_limit():
    assert printed(8192, 8192, 8192)["limit"] == "the units"
    assert printed(16, 4096, 4096, "--chip", "H20")["limit"] == "GMEM"
    small = printed(4096, 4096, 4096, "--config", "tile_m=64,tile_n=32,tile_k=64,cluster_m=1,cluster_n=1")
    assert small["limit"] == "L2"
    assert small["allowed"] == pytest.approx(328e12, rel=0.01)
    assert small["predicted_tflops"]["burst"] < small["allowed"] / 1e12


def test_a_kernel_that_the_chip_cannot_run_is_refused():
    assert "V100 is sm_70" in printed(64, 64, 64, "--kernel", "mma", "--chip", "V100", code=2)["error"]
    assert "M=0 must be an integer from 1 to" in printed(0, 64, 64, code=2)["error"]


def test_a_unit_that_does_not_multiply_the_type_is_refused():
    with pytest.raises(ArgumentValueError, match="unit='wgmma' of A100 has no known rate for bf16"):
        roofs(CHIPS["A100"], "wgmma", bf16, cut(64, 64, 64, (64, 64)))
