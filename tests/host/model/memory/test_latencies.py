"""How far memories are: published latencies and those of an H200, which the chains of `bench micro loads` took."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.model.memory.dsmem import ATOMIC_CLOCKS, levels

RECORD = Path(__file__).parents[4] / "results/loads_h200.json"
CASES = {(case["place"], case["operation"]): case for case in json.loads(RECORD.read_text())["cases"]}
LEVELS = {level.name: level for level in levels("H200")}


def clocks(place, operation="load"):
    return CASES[place, operation]["median"]


def test_another_sm_is_as_far_as_published_if_it_is_near():
    """Luo et al. give one number, and distances within a GPC differ."""
    assert CASES["DSMEM", "load"]["least"] == pytest.approx(LEVELS["DSMEM"].clocks, abs=0.5)
    assert clocks("DSMEM") == pytest.approx(LEVELS["DSMEM"].clocks, rel=0.1)


def test_l2_is_as_far_as_published_from_the_nearest_sm():
    assert CASES["L2", "load"]["least"] == pytest.approx(LEVELS["L2"].clocks, rel=0.02)
    assert clocks("L2") == pytest.approx(LEVELS["L2"].clocks, rel=0.08)


def test_the_published_latency_of_smem_is_that_of_indices():
    """One instruction makes an address of an index, and takes six clocks."""
    assert clocks("SMEM", "index") == pytest.approx(LEVELS["SMEM"].clocks, abs=0.3)
    assert clocks("SMEM", "index") - clocks("SMEM") == pytest.approx(6, abs=0.3)


def test_the_published_latency_of_l1_has_misses_in_it():
    """Eight walks through 32 KiB, of which the first misses once in four words: one load of 32 comes from L2."""
    mixed = (31 * clocks("L1") + LEVELS["L2"].clocks) / 32
    assert mixed == pytest.approx(LEVELS["L1"].clocks, rel=0.02)


@pytest.mark.parametrize("place", ATOMIC_CLOCKS)
def test_what_an_atomic_takes_beyond_a_load(place):
    assert clocks(place, "atomic") - clocks(place) == pytest.approx(ATOMIC_CLOCKS[place], abs=1)
    assert LEVELS[place].atomic == LEVELS[place].clocks + ATOMIC_CLOCKS[place]


def test_no_atomics_are_known_of_other_generations_or_where_none_are_done():
    assert (LEVELS["L1"].atomic, LEVELS["HBM3e"].atomic) == (None, None)
    assert all(level.atomic is None for level in levels("A100"))


def invoke(*words, code=0):
    done = CliRunner().invoke(app, ["model", "dsmem", *words])
    assert done.exit_code == code, done.output
    return done


def test_the_record_is_shown_beside(tmp_path):
    rows = [line.split() for line in invoke("--record", str(RECORD)).stdout.splitlines()]
    for model, words, case in (
        ("180", ["loads", "from", "DSMEM"], CASES["DSMEM", "load"]),
        ("367", ["atomics", "in", "L2"], CASES["L2", "atomic"]),
        ("29", ["indices", "from", "SMEM"], CASES["SMEM", "index"]),
    ):
        assert [*words, model, *(f"{case[part]:.1f}" for part in ("median", "least", "most"))] in rows
    found = json.loads(invoke("--record", str(RECORD), "--json").stdout)
    assert len(found["measured"]) == len(CASES)
    assert "measured" not in json.loads(invoke("--json").stdout)
    assert "is of H200: give one of H20" in invoke("--record", str(RECORD), "--chip", "H20", code=2).stderr
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"command": "tilewright bench micro wgmma", "gpu": "H200", "cases": []}))
    assert "is not a record, at command" in invoke("--record", str(path), code=2).stderr
