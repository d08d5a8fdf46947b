"""Instructions that PTX does not have: each is refused with its line and what was expected."""

import re
from pathlib import Path

import numpy as np
import pytest

from emulate.lane_programs import as_inputs, evaluate, float_inputs, integer_inputs
from tilewright.emulator import Device, PtxSyntaxError, UnsupportedInstruction

MODULE = """\
.version {version}
.target {target}
.address_size 64
.global .align 16 .b8 table[64];
.visible .entry e(.param .u64 in)
{{
.shared .align 128 .b8 rows[1024];
.reg .pred %p<4>;
.reg .b8 %c<4>;
.reg .b16 %h<5>;
.reg .b32 %r<20>;
.reg .b64 %d<5>;
.reg .u32 %u<4>;
.reg .s32 %s<4>;
.reg .f16 %x<4>;
.reg .f16x2 %y<4>;
.reg .f32 %f<10>;
.reg .f64 %g<4>;
.reg .b128 %q<4>;
{body}
ret;
}}
"""
LINE = MODULE.split("\n").index("{body}") + 1


def load(body, version="9.0", target="sm_90a"):
    Device(memory_bytes=1 << 16).load(MODULE.format(version=version, target=target, body=body))


def assert_refused(body, error, message, **module):
    with pytest.raises(error, match=message) as caught:
        load(body, **module)
    assert f"(PTX line {LINE})" in str(caught.value)
    assert not re.search(r"Error\(|object at|Register\(|Address\(|Integer\(", str(caught.value))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mul.u32 %r1, %r2, %r3;", r"lacks \{\.lo\|\.hi\}; expected mul\{\.lo\|\.hi\}"),
        ("setp.u32 %p1, %r2, %r3;", r"lacks \{\.eq\|\.ne\|.*; expected setp"),
        ("fma.f32 %f1, %f2, %f3, %f1;", r"lacks \{\.rn\|\.rz\|\.rm\|\.rp\}"),
        ("shfl.sync.b32 %r1, %r2, 0, 31, -1;", r"lacks \{\.up\|\.down\|\.bfly\|\.idx\}; expected shfl\.sync"),
        ("add.rz.f16 %h1, %h2, %h3;", r"no emulation of \.rz in `add\.rz\.f16`"),
        ("set.eq.f16x2.f32 %r1, %f2, %f3;", r"\.f32 in `set\.eq\.f16x2\.f32`.*lacks \.f16x2"),
        ("add %r1, %r2, %r3;", r"lacks \{"),
        ("cvt.pack.sat.s32.u4.b32 %r1, %r2, %r3, %r1;", r"in `cvt\.pack\.sat\.s32\.u4\.b32`"),
        ("mma.sync.aligned.m16n8k256.row.col.b1.s32.b1.s32.xor.popc {%r1}, {%r2}, {%r3}, {%r1};", r"in `mma"),
        ("wmma.mma.sync.aligned.row.col.m8n8k32.s4.s32.s4.s32 {%r1}, {%r2}, {%r3}, {%r1};", r"in `wmma"),
        ("bar.red.popc.pred %p1, 0, %p2;", r"no emulation of \.pred in `bar\.red\.popc\.pred`.*lacks \.u32"),
        ("wmma.load.a.sync.aligned.col.m8n8k32.shared.s4 {%r1}, [rows];", r"no emulation of \.col in `wmma\.load"),
        ("wmma.load.a.sync.aligned.col.m8n8k128.shared.b1 {%r1}, [rows];", r"no emulation of \.col in `wmma\.load"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
         "{%f1, %f2, %f3, %f4};", "matrix D has 3 registers instead of 4"),
        ("wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1, 0, 0;",
         "K is not 16"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1, 5, 0;",
         "transpositions 0 or 1"),
        ("istypep.texref %p1, %d1;", "to add it, write an emitter"),
        ("mov.u32 %r1, %nope;", "%nope is neither declared nor an emulated special register"),
    ],
)  # fmt: skip
def test_modifiers_that_are_refused(body, message):
    assert_refused(body, UnsupportedInstruction, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("add.u32 %r1, %r2;", r"has 2 operands; expected: \.u32, \.u32, \.u32"),
        ("add.u32 %r1, %r2, %r3, %r4;", "has 4 operands; expected"),
        ("ld.global.u32 %r1;", r"has 1 operands; expected: \.u32, an address, \[\.b64\]"),
        ("lop3.b32 %r1, %r2, %r3, %r4;", "has 4 operands"),
        ("add.u32 %d1, %r2, %r3;", r"operand 1 is register %d1 of type \.b64, and \.u32 is needed"),
        ("add.u32 %r1, %f2, %r3;", r"operand 2 is register %f2 of type \.f32, and \.u32 is needed"),
        ("add.f32 %f1, %u2, %f3;", r"operand 2 is register %u2 of type \.u32, and \.f32 is needed"),
        ("add.f32 %f1, %f2, 1;", r"operand 3 is the integer 1, and \.f32 is needed"),
        ("add.s32 %r1, %r2, 1.0;", r"operand 3 is the floating-point constant 1\.0, and \.s32 is needed"),
        ("add.u32 %r1, %r2, [%d1];", "operand 3 is an address, and"),
        ("add.u32 %r1, {%r2, %r3}, %r1;", "operand 2 is a vector, and"),
        ("mul.wide.u32 %r1, %r2, %r3;", r"operand 1 is register %r1 of type \.b32, and \.u64 is needed"),
        ("shl.b64 %d1, %d2, %d3;", r"operand 3 is register %d3 of type \.b64, and \.u32 is needed"),
        ("bar.red.popc.u32 %p1, 0, %p2;", r"operand 1 is register %p1 of type \.pred, and \.u32 is needed"),
        ("bar.red.or.pred %r1, 0, %p2;", r"operand 1 is register %r1 of type \.b32, and \.pred is needed"),
        ("atom.global.exch.b128 %d1, [%d2], %q1;", r"operand 1 is register %d1 of type \.b64, and \.b128 is needed"),
        ("selp.b32 %r1, %r2, %r3, %r1;", r"operand 4 is register %r1 of type \.b32, and \.pred is needed"),
        ("cvt.u32.u64 %r1, %r2;", r"operand 2 is register %r2 of type \.b32, and \.u64 is needed"),
        ("ld.global.u32 %h1, [%d1];", r"operand 1 is register %h1 of type \.b16, and \.u32 is needed"),
        ("ld.global.v2.u32 %r1, [%d1];", "operand 1 is register %r1 of type .b32, and a vector of 2 is needed"),
        ("ld.global.v4.u32 {%r1, %r2}, [%d1];", "operand 1 is a vector of 2, and one of 4 is needed"),
        ("ld.shared.u32 %r1, [%f1];", r"operand 2 is an address in register %f1 of type \.f32"),
        ("st.shared.u32 %r1, %r2;", "operand 1 is register %r1 of type .b32, and an address in brackets is needed"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [rows];", "a vector of 2, and one of 4"),
        ("mov.b64 %d1, {%r1, %r2, %r3};", r"operand 2 is a vector of 96 bits, and \.b64 is needed"),
        ("cp.async.cg.shared.global [rows], [%d1], %r1;", "operand 3 is register %r1.*an integer constant is needed"),
        ("@%r1 add.u32 %r1, %r2, %r3;", r"the guard of `add\.u32`.*register %r1 of type \.b32"),
    ],
)
def test_operands_that_are_refused(body, message):
    assert_refused(body, PtxSyntaxError, message)


@pytest.mark.parametrize(
    "body",
    [
        "add.u32 %s1, %r2, %u3;",
        "add.f32 %r1, %f2, 0d3FF0000000000000;",
        "add.f16x2 %y1, %r2, %y3;",
        "and.b32 %f1, %r2, %y3;",
        "ld.global.u8 %d1, [%d2];",
        "ld.global.b8 %c1, [%d2];",
        "st.global.v2.b32 [%d2], {%f1, %s2};",
        "cvt.u16.u32 %r1, %d2;",
        "cvt.f32.rn.f64 %f1, %g2;",
        "shfl.idx.sync.b32 %f1, %f2, 0, 31, -1;",
        "ld.global.volatile.u32 %r1, [%d1];",
        "mov.b64 %d1, {%f1, %u1};",
        "mov.pred %p1, 1;",
        "mov.u16 %h1, %tid.x;",
        "mov.u32 %r1, rows+8;",
        "vote.sync.all.pred %p1, !%p2, -1;",
    ],
)
def test_relaxations_of_ptx(body):
    load(body)


def test_forms_that_ptxas_takes():
    for line in (Path(__file__).parent / "ptx" / "forms.txt").read_text().splitlines():
        load(line)


def test_a_variable_may_have_an_offset():
    body = ".shared .b8 row[16]; mov.b64 %p, row+8; mov.b64 %o, row; sub.s64 %o, %p, %o; cvt.u32.u64 %d, %o;"
    assert set(evaluate(body, integer_inputs(), 32)) == {8}


def test_modifiers_mean_the_same_in_any_order():
    inputs = integer_inputs()
    for one, other, operands in (
        ("shfl.sync.bfly.b32", "shfl.bfly.sync.b32", "%d, %a, 1, 31, -1;"),
        ("setp.lt.and.u32", "setp.and.lt.u32", "%P, %a, %b, %Q; selp.b32 %d, 1, 0, %P;"),
    ):
        both = [evaluate(f"setp.ne.u32 %Q, %c, 0; {opcode} {operands}", inputs, 32) for opcode in (one, other)]
        assert both[0] == both[1]


def test_floating_point_constants_take_the_width_of_their_place():
    values = float_inputs()
    got = np.array(evaluate("add.f32 %fa, %fa, 1.5; mov.b32 %d, %fa;", as_inputs(values), 32), np.uint32)
    expected = (values[:, 0] + np.float32(1.5)).view(np.uint32)
    same = (got == expected) | np.isnan(values[:, 0])
    assert same.all()


WGMMA = "wgmma.fence.sync.aligned;"
ASYNC = "cp.async.wait_all;"
MMA = (
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
    "{%f1, %f2, %f3, %f4};"
)


@pytest.mark.parametrize(
    ("body", "version", "target", "message"),
    [
        (WGMMA, "8.0", "sm_80", "wgmma needs sm_90a, this module says .target sm_80"),
        (WGMMA, "8.0", "sm_90", "wgmma needs sm_90a, this module says .target sm_90"),
        (WGMMA, "8.6", "sm_100a", "wgmma needs sm_90a, this module says .target sm_100a"),
        (ASYNC, "7.0", "sm_75", "cp.async needs sm_80 or higher, this module says .target sm_75"),
        (MMA, "7.0", "sm_75", "mma.m16n8k16 needs sm_80 or higher"),
        ("redux.sync.add.u32 %r1, %r2, -1;", "7.0", "sm_75", "redux needs sm_80 or higher"),
        ("mbarrier.try_wait.shared.b64 %p1, [rows], %d1;", "7.8", "sm_89", "mbarrier.try_wait needs sm_90 or higher"),
        (
            "st.async.mbarrier::complete_tx::bytes.b32 [%d1], %r2, [%d3];",
            "8.0",
            "sm_90",
            "st.async needs PTX 8.1 or later",
        ),
        ("atom.global.exch.b128 %q1, [%d1], %q2;", "8.3", "sm_80", "atom.b128 needs sm_90 or higher"),
        ("bar.cta.red.popc.u32 %r1, 0, %p1;", "7.7", "sm_80", "bar.cta needs PTX 7.8 or later"),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [rows], %r2;",
            "8.0",
            "sm_89",
            "cp.async.bulk needs sm_90 or higher",
        ),
        ("setmaxnreg.inc.sync.aligned.u32 32;", "8.6", "sm_100", "setmaxnreg needs sm_90a or a higher target that"),
        ("min.NaN.f32 %f1, %f2, %f3;", "7.0", "sm_75", "min.NaN needs sm_80 or higher"),
        (
            "fence.proxy.async;",
            "7.8",
            "sm_90",
            "fence.proxy.async needs PTX 8.0 or later, this module",
        ),
        ("movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", "7.7", "sm_80", "movmatrix needs PTX 7.8 or later"),
        ("tcgen05.wait::ld.sync.aligned;", "8.7", "sm_120", "tcgen05 needs sm_100a or a higher target that ends in a"),
    ],
)
def test_what_the_target_does_not_have(body, version, target, message):
    assert_refused(body, PtxSyntaxError, re.escape(message).replace(r"\.", "."), version=version, target=target)


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100", "sm_103f", "sm_120a"])
def test_what_later_targets_have_too(target):
    load(f"{ASYNC} {MMA} fence.proxy.async; redux.sync.add.u32 %r1, %r2, -1; barrier.cluster.arrive;", target=target)


def test_what_only_the_architecture_itself_has_is_refused_by_name():
    assert_refused(
        "tcgen05.wait::ld.sync.aligned;", UnsupportedInstruction, "no emulation of `tcgen05", target="sm_100a"
    )
