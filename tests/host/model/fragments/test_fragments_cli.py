"""`tilewright model fragments`: what it prints and refuses."""

import json

import pytest
from typer.testing import CliRunner

from tilewright.cli import app


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["model", "fragments", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_a_lane_in_words_of_c():
    """The article's notation, for lane 0 of ldmatrix.x4, and runs down a column for B."""
    lines = invoke("mma.m16n8k16", "--lane", "0").stdout.splitlines()
    assert lines[-4].split() == ["register", "0", "[0][0..1]", "[0..1][0]", "[0][0]"]
    assert [line.split()[2] for line in lines[-4:]] == ["[0][0..1]", "[8][0..1]", "[0][8..9]", "[8][8..9]"]


def test_owners_of_an_element():
    record = json.loads(invoke("wmma.volta.m16n16k16", "--element", "A,9,3", "--lane", "5", "--json").stdout)
    assert record["owners"] == [{"lane": lane, "register": 1, "element": 1} for lane in (5, 13)]
    assert "C,3,3: lane 13, register 1, element 0" in invoke("mma.m16n8k16", "--element", "C,3,3").stdout


@pytest.mark.parametrize("element", ["A", "A,1", "A,1,2,3", "A,x,1", "A,-1,2"])
def test_a_place_that_is_none_is_refused(element):
    said = invoke("mma.m16n8k16", "--element", element, code=2).stderr
    assert f"--element='{element}' is not MATRIX,ROW,COLUMN: write it like A,9,3" in said
