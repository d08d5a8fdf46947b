"""alloca, stacksave and stackrestore."""

import numpy as np
import pytest

from emulate.lane_programs import LANES, evaluate, integer_inputs
from tilewright.emulator import Device, EmulatorError, OutOfBounds, UnsupportedInstruction

SUMS = """
  .reg .b64 %place, %end; .reg .b32 %n, %i;
  and.b32 %n, %t, 7; add.u32 %n, %n, 1;
  stacksave.u64 %end;
  setp.lt.u32 %P, %t, 48;
  mul.wide.u32 %o, %n, 8;
  mov.u64 %place, 0;
  @%P alloca.u64 %place, %o, 16;
  alloca.u64 %o, 32;
  st.local.b64 [%o], %B;
  @%P st.local.b64 [%place], %A;
  ld.local.b64 %D, [%o];
  @%P ld.local.b64 %C, [%place];
  @%P xor.b64 %D, %D, %C;
  stackrestore.u64 %end;
"""


def test_lanes_allocate_as_much_as_they_like():
    inputs = integer_inputs(3)
    expected = [int(b) ^ (int(a) if lane < 48 else 0) for lane, (a, b, _) in enumerate(inputs)]
    assert evaluate(SUMS, inputs, 64) == expected
    assert len(expected) == LANES


def test_the_stack_grows_downwards():
    """As an H200's: what is allocated first ends where the stack does."""
    body = """
  .reg .b64 %end, %place, %again;
  cvt.u64.u32 %o, %t; mad.lo.u64 %o, %o, 8, 16;
  stacksave.u64 %end; alloca.u64 %place, %o, 16;
  stackrestore.u64 %end; alloca.u64 %again, 16, 16; sub.u64 %D, %again, %place;"""
    expected = [-(-(8 * lane + 16) // 16) * 16 - 16 for lane in range(LANES)]
    assert expected[:3] == [0, 16, 16]
    assert evaluate(body, integer_inputs(), 64) == expected


def test_an_allocation_is_aligned_to_8_bytes_at_least():
    body = "alloca.u64 %C, 3, 1; alloca.u64 %D, 3, 4; sub.u64 %D, %C, %D;"
    assert set(evaluate(body, integer_inputs(), 64)) == {8}


def test_a_loop_that_restores_never_runs_out():
    body = """
  .reg .b64 %place, %end; .reg .b32 %n;
  mov.u32 %n, 0;
L: stacksave.u64 %end; alloca.u64 %place, 1024; st.local.b64 [%place+1016], %A; stackrestore.u64 %end;
  add.u32 %n, %n, 1; setp.lt.u32 %P, %n, 20; @%P bra L;
  ld.local.b64 %D, [%place+1016];"""
    inputs = integer_inputs(4)
    assert evaluate(body, inputs, 64) == inputs[:, 0].tolist()


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("alloca.u64 %D, 1025;", OutOfBounds, "asks for 1025 bytes of the stack, and 1024 of 1024 are left"),
        ("mov.u64 %D, -1; alloca.u64 %D, %D;", OutOfBounds, "bytes of the stack"),
        ("alloca.u64 %D, 1000; alloca.u64 %D, 32;", OutOfBounds, "and 24 of 1024 are left"),
        ("alloca.u64 %D, 8; mov.u64 %D, 4096; stackrestore.u64 %D;", OutOfBounds, "which stacksave has not given"),
        ("alloca.u64 %D, 8, 3;", UnsupportedInstruction, "the alignment 3"),
        ("alloca.u64 %D, 8; ld.local.b64 %D, [%D+1020];", EmulatorError, "1020|local address"),
    ],
)
def test_what_is_wrong(body, error, message):
    with pytest.raises(error, match=message):
        evaluate(body, integer_inputs(), 64)


def test_what_a_function_allocates_ends_with_it():
    ptx = """
.version 8.5
.target sm_80
.address_size 64
.func (.reg .b64 %r) twice (.reg .b64 %x)
{
  .reg .b64 %place;
  alloca.u64 %place, 1000;
  st.local.b64 [%place+992], %x;
  ld.local.b64 %r, [%place+992];
  add.u64 %r, %r, %r;
  ret;
}
.visible .entry e(.param .u64 out) {
  .reg .b64 %p, %v; .reg .pred %q; .reg .b32 %n;
  ld.param.u64 %p, [out];
  mov.u64 %v, 1; mov.u32 %n, 0;
L: call (%v), twice, (%v); call (%v), twice, (%v);
  add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 4; @%q bra L;
  st.global.b64 [%p], %v;
  ret;
}
"""
    device = Device(memory_bytes=1 << 20)
    out = device.allocate(8)
    device.launch(device.load(ptx), 1, 1, [out])
    assert device.read(out, 8).view(np.uint64)[0] == 256
