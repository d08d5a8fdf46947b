"""How many registers warps hold when setmaxnreg changes that: those of the launch, as ptxas chooses them, and later."""

import pytest

from tilewright.emulator import Device

PTX = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry e() {bounds} {{
  .reg .b32 %t; .reg .pred %p;
  mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 128; @!%p bra Second;
  {first} bra Out;
Second: {second}
Out: ret;
}}
"""
BOUNDS = ".maxntid {threads}, 1, 1 .minnctapersm {ctas}"


def changes(*counts):
    """setmaxnreg to a positive count, .inc, or to a negative one, .dec, with barriers of the warpgroup in between."""
    kinds = ("dec" if count < 0 else "inc" for count in counts)
    texts = (f"setmaxnreg.{kind}.sync.aligned.u32 {abs(count)};" for kind, count in zip(kinds, counts, strict=True))
    return " barrier.sync.aligned 1, 128; ".join(texts)


def messages(bounds, first, second):
    """What is reported where the first warpgroup executes some changes and all others execute others."""
    device = Device(memory_bytes=1 << 20)
    text = PTX.format(bounds=bounds, first=changes(*first), second=changes(*second))
    device.launch(device.load(text), 1, 256, [])
    assert {report.kind for report in device.reports} <= {"setmaxnreg"}
    return [report.message for report in device.reports]


@pytest.mark.parametrize(
    ("bounds", "first", "second"),
    [
        (BOUNDS.format(threads=256, ctas=1), (-256,), ()),
        (BOUNDS.format(threads=256, ctas=1), (-40,), (232,)),  # with which ptxas lets the launch begin
        (BOUNDS.format(threads=256, ctas=1), (-160, 160, 200), (-200,)),
        (BOUNDS.format(threads=384, ctas=1), (-168, -40, -40), (168, 232)),
        (BOUNDS.format(threads=256, ctas=2), (-128, -24), (-128,)),
        (".maxnreg 104", (-104, -96), (104, 112)),
        (".maxntid 256, 1, 1", (-40,), (120, 232)),  # for all that is known launched with 120, by -maxrregcount
    ],
)
def test_counts_that_go_the_right_way(bounds, first, second):
    assert messages(bounds, first, second) == []


@pytest.mark.planted_fault
@pytest.mark.parametrize(
    ("bounds", "first", "second", "counts"),
    [
        (BOUNDS.format(threads=256, ctas=1), (-240,), (232,), "lowers {} warp 0 to 240, and it has only 232"),
        (BOUNDS.format(threads=384, ctas=1), (-176,), (), "lowers {} warp 0 to 176, and it has only 168"),
        (BOUNDS.format(threads=256, ctas=2), (), (-136,), "lowers {} warp 4 to 136, and it has only 128"),
        (".maxnreg 100", (-104,), (), "lowers {} warp 0 to 104, and it has only 100"),
        (".maxnreg 168", (-40, -48), (), "lowers {} warp 0 to 48, and it has only 40"),
        (".maxnreg 168", (-40,), (160, 168), "raises {} warp 4 to 160, and it already has 168"),
        (BOUNDS.format(threads=256, ctas=1), (-40,), (120, 232), "raises {} warp 4 to 120, and it already has 232"),
        (".maxntid 256, 1, 1", (-40, 32), (232,), "raises {} warp 0 to 32, and it already has 40"),
        (".maxnreg 168", (-40, 32), (168,), "raises {} warp 0 to 32, and it already has 40"),
    ],
)
def test_counts_that_go_the_wrong_way(bounds, first, second, counts):
    (message,) = messages(bounds, first, second)
    assert message.endswith(counts.format("the registers of each thread of"))
