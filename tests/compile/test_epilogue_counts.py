"""tools/epilogue_counts.py on a listing, and on machine code where nvdisasm is at hand."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tilewright.jit.listing import DisassemblerMissing, find_nvdisasm

LISTING = """
        /*0000*/                   LDG.E R2, [R4.64] ;
        /*0010*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0020*/              @!P0 FADD R3, R2, R5 ;
        /*0030*/                   MUFU.EX2 R3, R3 ;
        /*0040*/                   IMAD.U32 R6, R2, 0x10000, RZ ;
        /*0050*/                   EXIT ;
        /*0060*/                   NOP ;
"""


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    return import_module("epilogue_counts")


def test_instructions_after_the_products_are_counted_by_class(tool):
    found = tool.counts(LISTING)
    assert found.after == {"fp32": 1, "MUFU": 1, "integer": 1, "branch": 1}
    assert found.total == 6


def test_a_gelu_behind_a_bias_has_one_exponential(tool, monkeypatch, capsys):
    try:
        find_nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(tool, "EPILOGUES", (("gelu(acc + bias)", ()),))
    monkeypatch.setattr(sys, "argv", ["epilogue_counts.py"])
    tool.main()
    header, _, row = capsys.readouterr().out.strip().splitlines()
    counted = dict(zip(*([cell.strip() for cell in line.strip("|").split("|")] for line in (header, row)), strict=True))
    assert float(counted["MUFU"]) == 1
    assert float(counted["LDG"]) < 0.25
    assert 8 <= float(counted["after the products"]) < 11
