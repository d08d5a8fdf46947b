"""The emulator reports what it has reported before: mutants of the kernels' own PTX (tools/mutation_score.py)."""

import os
from itertools import chain

import pytest

from support.equivalents import EQUIVALENTS, MOST_SHARE
from support.mutants import MOST_COPIES, generate, read_statements
from support.mutation import SUBJECTS, finding, on_record
from tilewright.emulator.ptx.parser import parse
from tilewright.hardware import H200
from tilewright.jit.compile import compile
from tilewright.jit.source import package_headers

PARTS = 4
"""Tests per subject, so that they spread over processes."""

ALL = os.environ.get("TILEWRIGHT_TESTS") == "all"
RUN, PARSED, CLEAN = (1, 1, 1) if ALL else (40, 24, 4)
"""One in so many mutants runs, one in so many is parsed, and one in so many kernels runs as it is."""


@pytest.mark.planted_fault
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_what_was_reported_is_reported_still_and_as_what_it_was(subject, part):
    _, recorded = on_record(subject)
    assert {mutant.name for mutant in subject.mutants()} == recorded.keys(), "run tools/mutation_score.py"
    for mutant in subject.mutants()[part * RUN :: PARTS * RUN]:
        if expected := recorded[mutant.name]:
            found = finding(subject, mutant.apply(subject.plain)) or "nothing"
            assert found.partition(",")[0] == expected.partition(",")[0], mutant.name


@pytest.mark.planted_fault
def test_a_launch_that_never_ends_is_reported():
    ptx = SUBJECTS[0].plain
    start = next(read_statements(ptx)).span[0]
    endless = "{ .reg .b32 turns; mov.u32 turns, 0; spin: add.s32 turns, turns, 1; bra spin; }\n"
    assert finding(SUBJECTS[0], ptx[:start] + endless + ptx[start:]).startswith("Endless")


@pytest.mark.parametrize("subject", SUBJECTS[::CLEAN], ids=lambda subject: subject.name)
def test_kernels_themselves_are_clean(subject):
    assert finding(subject, subject.plain) is None


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_each_mutant_is_one_change_and_still_ptx(subject):
    before = [(statement.guard, statement.text) for statement in read_statements(subject.plain)]
    names = [mutant.name for mutant in subject.mutants()]
    assert len(set(names)) == len(names)
    for mutant in subject.mutants()[::PARSED]:
        text = mutant.apply(subject.plain)
        after = [(statement.guard, statement.text) for statement in read_statements(text)]
        where = next(index for index, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
        assert before[where][1] == mutant.original
        assert before[where + 1 :] == after[where + 1 + len(after) - len(before) :]
        (entry,) = parse(text).entries.values()
        assert len(entry.instructions) == sum(not statement.startswith(".") for _, statement in after)


def test_every_argument_is_about_a_mutant_and_few_are_needed():
    generated = [(subject, mutant) for subject in SUBJECTS for mutant in subject.mutants()]
    for entry in EQUIVALENTS:
        assert any(entry.covers(subject, mutant) for subject, mutant in generated), entry
    argued = [1 for subject, mutant in generated if any(entry.covers(subject, mutant) for entry in EQUIVALENTS)]
    assert len(argued) <= MOST_SHARE * len(generated)


@pytest.mark.planted_fault
@pytest.mark.parametrize(("change", "expected"), [("", None), ("- 1", "cluster-exit"), ("+ 1", "Deadlock")])
def test_a_cluster_ends_without_an_arrival_left_over_or_missing(change, expected, monkeypatch):
    """The producer of the production kernel waits at the end for the release of every slot, and no more (rule 16)."""
    header, drained = (
        "mainloop/pipeline.cuh",
        "for (int slot = 0; slot < Config::stages; ++slot) {\n        wait_empty(at);",
    )
    text = package_headers()[header]
    assert text.count(drained) == 1
    (subject,) = (subject for subject in SUBJECTS if subject.name == "wgmma tma, overlap, cluster 2x1")
    unit = subject.unit
    monkeypatch.setitem(package_headers(), header, text.replace(drained, drained.replace("stages", f"stages {change}")))
    found = finding(subject, compile(unit, H200.virtual_arch).ptx)
    assert (found and found.partition(",")[0]) == expected


def module(*lines):
    """PTX of one entry with these instructions and registers enough."""
    registers = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;"
    return "\n".join([".version 8.8", ".target sm_90a", ".visible .entry f() {", registers, *lines, "ret;", "}"])


INSTRUCTIONS = {
    "bar.sync 1, 128;": [
        ("drop bar.sync", ""),
        ("weaken bar.sync to bar.warp.sync", "bar.warp.sync -1;"),
        ("shift: other barrier", "bar.sync 2, 128;"),
        ("shift: other number of threads (+32)", "bar.sync 1, 160;"),
        ("shift: other number of threads (-32)", "bar.sync 1, 96;"),
    ],
    "@%p1 bar.arrive 1, 64;": [
        ("drop bar.sync", ""),
        ("shift: other barrier", "@%p1 bar.arrive 2, 64;"),
        ("shift: other number of threads (+32)", "@%p1 bar.arrive 1, 96;"),
        ("shift: other number of threads (-32)", "@%p1 bar.arrive 1, 32;"),
    ],
    "bar.red.or.pred %p1, 0, %p2;": [("drop bar.red", "mov.pred %p1, %p2;")],
    "cp.async.wait_all;": [("drop cp.async.wait_group", "")],
    "cp.async.wait_group 2;": [
        ("drop cp.async.wait_group", ""),
        ("shift: wait for one group less", "cp.async.wait_group 3;"),
    ],
    "cp.async.bulk.wait_group 0;": [
        ("drop cp.async.bulk.wait_group", ""),
        ("weaken bulk.wait_group to .read", "cp.async.bulk.wait_group.read 0;"),
        ("shift: wait for one group less", "cp.async.bulk.wait_group 1;"),
    ],
    "fence.sc.gpu;": [("drop fence", ""), ("weaken fence to .cta", "fence.sc.cta;")],
    "membar.gl;": [("drop fence", ""), ("weaken fence to .cta", "membar.cta;")],
    "griddepcontrol.wait;": [("drop griddepcontrol.wait", "")],
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];": [("drop cp.async.mbarrier.arrive", "")],
    "barrier.cluster.arrive.aligned;": [
        ("drop barrier.cluster.arrive", ""),
        ("weaken barrier.cluster.arrive to .relaxed", "barrier.cluster.arrive.relaxed.aligned;"),
    ],
    "ld.acquire.gpu.global.u32 %r1, [%rd1];": [("weaken access to .relaxed", "ld.relaxed.gpu.global.u32 %r1, [%rd1];")],
    "red.release.gpu.global.add.u32 [%rd1], 1;": [
        ("weaken access to .relaxed", "red.relaxed.gpu.global.add.u32 [%rd1], 1;")
    ],
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];": [
        ("drop mbarrier.arrive", ""),
        ("weaken mbarrier.arrive to .cta", "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r1];"),
        ("weaken mbarrier.arrive to .relaxed", "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r1];"),
    ],
    "ld.shared.u32 %r1, [%r2];": [],
    "setmaxnreg.dec.sync.aligned.u32 40;": [],
}


@pytest.mark.parametrize(("instruction", "expected"), INSTRUCTIONS.items(), ids=lambda value: str(value)[:40])
def test_mutants_of_an_instruction(instruction, expected):
    made = [(mutant.kind, mutant.replacement) for mutant in generate(module(instruction))]
    assert sorted(made) == sorted(expected)


def test_ring_and_parity():
    """A position that wraps at 4 by a comparison of the old position, and the parity that flips there."""
    ptx = module(
        "mov.u32 %r2, 0;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], %r2;",
        "add.s32 %r3, %r1, 1;",
        "setp.lt.s32 %p1, %r1, 3;",
        "selp.b32 %r1, %r3, 0, %p1;",
        "selp.u32 %r4, 0, 1, %p1;",
        "xor.b32 %r2, %r2, %r4;",
    )
    made = {mutant.kind: mutant.replacement for mutant in generate(ptx)}
    assert made["shift: ring of one stage more"] == "setp.lt.s32 %p1, %r1, 4;"
    assert made["shift: ring of one stage less"] == "setp.lt.s32 %p1, %r1, 2;"
    assert made["shift: parity never flips"] == ""
    assert made["shift: parity starts flipped"] == "xor.b32 %r2, 0, 1;"
    assert made["drop mbarrier wait"] == "setp.eq.u32 %p2, 0, 0;"


def test_repetitions_are_the_first_the_middle_and_the_last():
    unrolled = [(f".loc 1 {line} 3", "fence.proxy.async;") for line in (7, 7, 7, 7, 7, 8)]
    ptx = module(*chain.from_iterable(unrolled))
    dropped = [mutant for mutant in generate(ptx) if mutant.kind == "drop fence.proxy"]
    places = [before.span for before in read_statements(ptx) if before.text == "fence.proxy.async"]
    assert [mutant.span for mutant in dropped] == [places[0], places[2], places[4], places[5]]
    assert len(dropped) == MOST_COPIES + 1
