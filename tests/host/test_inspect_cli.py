"""`tilewright inspect`: resources, instructions and listings of a kernel."""

import pytest

from support.commands import in_json, invoke


def test_inspect_reports_resources_and_listings():
    record = in_json("inspect", "mma", "--problem", "64,64,64", "--ptx", "--source")
    assert record["registers"] > 0
    assert record["spill_bytes"] == 0
    assert (record["m"], record["n"], record["k"]) == (64, 64, 64)
    assert f".entry {record['entry']}" in record["ptx"]
    assert "struct Config" in record["source"]
    assert any(opcode.startswith("mma.sync") for opcode in record["instruction_mix"]["ptx"])
    assert "registers per thread" in invoke("inspect", "mma", "--problem", "64x64x64").stdout
    assert invoke("inspect", "mma", "--problem", "64,64,64", "--ptx").stdout.lstrip().startswith("//")
    both = invoke("inspect", "mma", "--problem", "64,64,64", "--ptx", "--source").stdout
    assert both.index("struct Config") < both.index("\n// ptx\n") < both.index(".entry")


def test_inspect_shows_first_what_tells_kernels_apart():
    text = invoke("inspect", "wgmma").stdout
    special, _, others = text.partition("Of the others")
    for name in ("wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait", "setmaxnreg", "stmatrix"):
        assert f"  {name}" in special
        assert f"  {name}" not in others
    assert "cvt.rn.bf16x2.f32" in others


@pytest.mark.parametrize("kernel", ["mma", "simt"])
@pytest.mark.parametrize("arch", ["sm_86", "sm_90", "sm_120"])
def test_inspect_compiles_for_architectures_without_an_entry(kernel, arch):
    record = in_json("inspect", kernel, "--problem", "64,64,64", "--arch", arch, "--ptx")
    assert record["arch"] == arch
    assert f".target {arch}" in record["ptx"]


CTAS_PER_SM = {
    "register_tiles": (1, "registers"),
    "warp_tiles": (2, "registers"),
    "wmma_gmem": (4, "registers"),
    "mma_warp": (32, "CTAs"),
    "wgmma_basic": (8, "registers"),
    "wgmma_larger_tile": (3, "registers"),
    "wgmma_pipelined": (1, "shared memory"),
}
"""CTAs per SM of some rungs on Hopper, and what limits them."""


@pytest.mark.parametrize("rung", CTAS_PER_SM)
def test_inspect_tells_the_ctas_per_sm_and_their_limit(rung):
    ctas, limit = CTAS_PER_SM[rung]
    held = in_json("inspect", rung)["occupancy"]
    assert held["ctas"] == ctas
    assert limit in held["limits"]


def test_inspect_leaves_the_occupancy_out_where_the_limits_are_unknown():
    assert in_json("inspect", "simt", "--problem", "64,64,64", "--arch", "sm_110")["occupancy"] is None
    assert "CTAs per SM" not in invoke("inspect", "simt", "--problem", "64,64,64", "--arch", "sm_110").stdout
