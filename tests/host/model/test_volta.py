"""Volta's tensor cores, control bits and issue against what was published of them, and against real machine code."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.checking.product import Product
from tilewright.cli import app
from tilewright.dtypes import fp32
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.jit import listing
from tilewright.jit.cache import build
from tilewright.jit.instructions import sass_instructions
from tilewright.jit.listing import sass_listing
from tilewright.kernels.registry import kernel_named
from tilewright.model.chips import CHIPS
from tilewright.model.volta import control, feeding, issue
from tilewright.model.volta import tensor_core as core


def printed(*words, code=0):
    done = CliRunner().invoke(app, ["model", *map(str, words), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def slices(step):
    return (slice(span.start, span.stop) for span in (step.rows, step.columns, step.k))


@pytest.mark.parametrize("sums", ["fp32", "fp16"])
def test_the_steps_together_are_the_product(sums):
    generator = np.random.default_rng(0)
    a, b = generator.integers(-8, 8, (2, 16, 16))
    found, added = np.zeros((16, 16), int), np.zeros((16, 16), int)
    for step in core.steps(sums):
        rows, columns, k = slices(step)
        found[rows, columns] += a[rows, k] @ b[k, columns]
        added[rows, columns] += 1
    assert (found == a @ b).all()
    assert (added == 4).all()


@pytest.mark.parametrize(("sums", "count", "block"), [("fp32", 16, (2, 4, 4)), ("fp16", 8, (4, 4, 4))])
def test_instructions_and_blocks_are_the_published_ones(sums, count, block):
    """16 HMMA, 4 sets of 4 steps, for sums in fp32 only."""
    found = core.instructions(sums)
    assert len(found) == count
    assert {(len(step.rows), len(step.columns), len(step.k)) for step in found} == {block}
    assert [step.set for step in found] == sorted(step.set for step in found)


def test_the_rate_follows_from_the_multipliers():
    """8 dot products of four in 2 clocks, so one for each lane; 128 multiply-adds, times 4 x 80 x 1.53 GHz."""
    (step, *_) = core.instructions("fp32")
    assert (step.fedps, step.clocks) == (8, 2)
    assert core.fma_per_clock("fp32") == core.fma_per_clock("fp16") == 32 * 4
    assert core.flops(CHIPS["V100"].gpu) == pytest.approx(125e12, rel=0.005)
    assert core.fma_per_clock("fp32") * 4 == CHIPS["V100"].rate("fp16").macs


def test_lanes_of_quad_pairs():
    pairs: dict[int, list[int]] = {}
    for lane in range(32):
        pairs.setdefault(core.quad_pair_of(lane), []).append(lane)
    assert pairs == {q: [4 * q + i for i in range(4)] + [16 + 4 * q + i for i in range(4)] for q in range(4)}
    assert core.threadgroup_of(16) == 4


def test_which_quad_pairs_read_the_same():
    """The Volta article: 0 and 2 read the same rows of A, 0 and 1 the same columns of B."""
    rows: dict[int, set[int]] = {}
    columns: dict[int, set[int]] = {}
    for step in core.steps():
        quad_pair = step.threadgroup % 4
        rows.setdefault(quad_pair, set()).update(step.rows)
        columns.setdefault(quad_pair, set()).update(step.columns)
    assert rows[0] == rows[2] == set(range(8))
    assert rows[1] == rows[3] == set(range(8, 16))
    assert columns[0] == columns[1] == set(range(8))


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x000FEA0003800000, "B------:R-:W-:-:S05"),  # EXIT
        (0x000FEA0003800000 << 64 | 0x794D, "B------:R-:W-:-:S05"),
        (0x000E220000002500, "B------:R-:W0:-:S01"),  # S2R R4, SR_CTAID.X
        (0x004EA40000001000, "B--2---:R-:W2:-:S02"),  # MUFU.RCP R0, R0, which waits for an I2F
        (0x0002A6000C1E1900, "B------:R1:W2:-:S03"),  # LDG.E R0, [R14.64], whose address is overwritten later
        (0x000FC800078E00FF, "B------:R-:W-:Y:S04"),  # IMAD.MOV.U32
    ],
)
def test_words_of_known_instructions(word, text):
    assert str(control.control_of(word)) == text


@pytest.mark.parametrize("word", [-1, 1 << 128, 0b111110 << 46, 0b110111 << 46, 0xFFFFEA0003800000])
def test_what_is_no_instruction_is_refused(word):
    with pytest.raises(ArgumentValueError, match="is no instruction"):
        control.control_of(word)


def test_fields_are_where_they_are_said_to_be():
    """Each field alone, at its bit of the 21 from bit 105 on."""
    none = control.control_of(0b111111 << 46)
    assert none == control.Control(0, True, None, None, (), ())
    for stall in range(16):
        assert control.control_of(0b111111 << 46 | stall << 41).stall == stall
    for barrier in range(6):
        assert control.control_of(0b111000 << 46 | barrier << 46).write_barrier == barrier
        assert control.control_of(0b000111 << 46 | barrier << 49).read_barrier == barrier
        assert control.control_of(0b111111 << 46 | 1 << 52 + barrier).waits == (barrier,)
    for operand in range(4):
        assert control.control_of(0b111111 << 46 | 1 << 58 + operand).reuse == (operand,)


def test_every_instruction_of_a_kernel_is_decoded_and_named():
    """Loads count a barrier down; somebody waits for each barrier that is counted; names are those of the listing."""
    instructions = printed("control", "--kernel", "coalesced")["instructions"]
    found = [control.control_of(int(each["word"], 16)) for each in instructions]
    assert len(found) > 100
    counted = {each.write_barrier for each in found} - {None}
    waited = {barrier for each in found for barrier in each.waits}
    assert counted
    assert counted <= waited
    assert any(each.reuse for each in found)
    assert {each.stall for each in found} <= set(range(16))
    kernel = kernel_named("coalesced", "kernel")
    problem = Product(4096, 4096, 4096, fp32, fp32, "nn").problem
    assembled = kernel.assemble(kernel.best(problem, H200), problem, H200)
    compiled = build(assembled.source, H200.arch)
    shown = sass_instructions(sass_listing(compiled), compiled.name).instructions
    names = [each["instruction"] for each in instructions]
    branches = {number for number, each in enumerate(shown) if each.target}
    assert branches
    for number, (name, each) in enumerate(zip(names, shown, strict=True)):
        assert each.opcode in name.split()
        assert number in branches or name == each.text
        assert (".reuse" in name) == bool(found[number].reuse)


def test_words_are_named_if_they_are_whole(monkeypatch):
    exit_word = "0x000fea0003800000000000000000794d"
    whole, half = printed("control", exit_word, "0x004ea40000001000")["instructions"]
    assert (whole["instruction"], half["instruction"]) == ("EXIT", None)
    text = CliRunner().invoke(app, ["model", "control", "0x004ea40000001000"]).stdout
    assert text.endswith("without names: the opcode is in the lower 64 bits: give all 128\n")
    monkeypatch.setattr(listing, "find_nvdisasm", missing)
    assert printed("control", exit_word)["instructions"][0]["instruction"] is None
    text = CliRunner().invoke(app, ["model", "control", exit_word]).stdout
    assert text.endswith("without names: not here\n")


def missing():
    raise listing.DisassemblerMissing("not here")


def test_three_sources_in_one_bank_take_a_clock_more():
    """Of two banks of 64 bits only three in one conflict; of four banks of 32 bits two did."""
    assert issue.read_clocks((97, 99, 101)) == 2
    assert issue.read_clocks((97, 99, 100)) == 1
    assert issue.read_clocks((97, 97, 97)) == 1
    assert issue.read_clocks((0, 4, 1), issue.MAXWELL) == 2
    assert issue.read_clocks((0, 1, 2), issue.MAXWELL) == 1
    assert issue.read_clocks(()) == 0
    with pytest.raises(ArgumentValueError, match="register=255 is none: give 0 to 254"):
        issue.read_clocks((255,))


def test_fp32_and_integers_side_by_side():
    volta, ada = CHIPS["V100"], CHIPS["RTX-4090"]
    assert issue.mix_clocks(volta, 100, 100) == 200
    assert issue.shared_clocks(volta, 100, 100) == 400
    assert issue.mix_clocks(volta, 100, 0) == 200
    assert issue.mix_clocks(ada, 100, 0) == 100
    assert issue.mix_clocks(ada, 0, 100) == 200
    assert issue.mix_clocks(CHIPS[H200.name], 100, 20) == 120


def test_the_command_answers_for_a_lane():
    found = printed("volta", "--lane", 21)
    assert (found["threadgroup"], found["quad_pair"], found["instructions"]) == (5, 1, 16)
    assert found["steps"][0]["rows"] == [12, 13]
    assert "lane=-1 must be an integer from 0 to 31" in printed("volta", "--lane", -1, code=2)["error"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "neither is given: give one of them"),
        (("0x1", "--kernel", "mma"), "both are given: give one of them"),
        (("0x000fea000380000000000000000094d",), "does not know each of these 1 instructions of sm_90a"),
        (("0x000fea0003800000000000000000794d", "--arch", "sm_1"), "instructions of sm_1"),
        (("zz",), "WORDS='zz' is not hexadecimal: write it as"),
    ],
)
def test_words_that_make_no_sense_are_refused(words, message):
    assert message in printed("control", *words, code=2)["error"]


def test_three_ways_to_feed_a_warp():
    """Rows of 64 bytes meet two groups of banks; padding moves them on, but rows r and r + 8 still meet."""
    rows, padded, permuted = feeding.feedings()
    assert [each.loads for each in (rows, padded, permuted)] == [32, 32, 32]
    assert [each.ideal for each in (rows, padded, permuted)] == [128, 128, 128]
    assert [each.wavefronts for each in (rows, padded, permuted)] == [384, 192, 128]
    assert [each.smem_bytes for each in (rows, padded, permuted)] == [24 << 10, 30 << 10, 24 << 10]
    assert feeding.wmma(48).wavefronts == padded.wavefronts  # more padding does not help
    assert printed("volta")["feeding"][2]["wavefronts"] == 128
