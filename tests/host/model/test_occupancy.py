"""Occupancy against the published example, and against what ptxas and the data sheets say of our kernels."""

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.model.chips import chip_of
from tilewright.model.occupancy import occupancy


def test_the_example_of_the_naive_kernel_to_the_digit():
    """32 registers, 1024 threads, no shared memory of its own, 8 KiB of it per SM: min(2, 2, 8) = 2."""
    found = occupancy("H100-PCIe", 1024, 32, carveout=8192)
    assert (found.by_registers, found.by_warps, found.by_smem) == (2, 2, 8)
    assert found.ctas == 2
    assert found.share == 1.0
    assert found.limits == ("registers", "warps")
    assert 114 * found.ctas == 228


@pytest.mark.parametrize(
    ("threads", "registers", "smem_bytes", "ctas", "limits"),
    [
        (1024, 48, 0, 1, ("registers",)),  # 49,152 of 65,536 registers
        (1024, 33, 0, 1, ("registers",)),  # 40 are given to a warp's threads: two CTAs would need 81,920
        (384, 168, 227 * 1024, 1, ("registers", "shared memory")),  # 12 warps, and 8 more would not fit
        (128, 128, 48 * 1024, 4, ("registers", "shared memory")),
        (128, 32, 0, 16, ("registers", "warps")),
        (32, 16, 0, 32, ("CTAs",)),
        (1, 16, 0, 32, ("CTAs",)),
        (256, 24, 113 * 1024, 2, ("shared memory",)),
        (256, 24, 113 * 1024 + 1, 1, ("shared memory",)),
    ],
)
def test_what_limits_the_ctas_of_an_h100(threads, registers, smem_bytes, ctas, limits):
    found = occupancy("H100-SXM", threads, registers, smem_bytes)
    assert found.ctas == ctas
    assert found.limits == limits
    assert found.as_dict()["warps"] == found.warps == ctas * -(-threads // 32)


def test_registers_are_given_by_units_of_256_to_warps_by_fours():
    """Of 80 registers a warp takes 2,560: 25 warps would fit into 65,536, and 24 do."""
    found = occupancy("H200", 32, 80)
    assert found.by_registers == 24
    assert occupancy("H200", 800, 80).ctas == 0


def test_of_volta_nothing_is_reserved():
    assert occupancy("V100", 256, 32, 48 * 1024).ctas == 2
    assert occupancy("A100", 256, 32, 82 * 1024).ctas == 1


def test_shared_memory_that_nobody_takes_is_no_limit():
    held = occupancy("V100", 32, 16)
    assert (held.by_smem, held.ctas, held.limits) == (None, 32, ("CTAs",))
    assert occupancy("V100", 32, 16, 1).by_smem == 384


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("P100", 32, 32), "chip='P100' is unknown: use V100, A100"),
        (
            (H200._replace(arch="sm_91"), 32, 32),
            "chip=H200 is sm_91, whose limits are unknown: use one of sm_70, sm_75",
        ),
        (("H200", 0, 32), "threads=0 must be an integer from 1 to 1,024: give one"),
        (("H200", 1025, 32), "threads=1025 must be"),
        (("H200", 32, 256), "registers=256 must be an integer from 1 to 255: give one"),
        (("H200", 32, 32, 227 * 1024 + 1), "smem_bytes=232449 must be an integer from 0 to 232,448: give one"),
    ],
)
def test_what_no_kernel_can_have_is_refused(arguments, message):
    with pytest.raises(ArgumentValueError, match=message):
        occupancy(*arguments)


@pytest.mark.parametrize(
    ("chip", "offered"),
    [
        ("V100", "0, 8192, 16384, 32768, 65536, 98304"),
        ("A100", "0, 8192, 16384, 32768, 65536, 102400, 135168, 167936"),
        ("RTX-4090", "0, 8192, 16384, 32768, 65536, 102400"),
        ("H20", "0, 8192, 16384, 32768, 65536, 102400, 135168, 167936, 200704, 233472"),
    ],
)
def test_a_carveout_is_one_that_the_chip_offers(chip, offered):
    for nbytes in map(int, offered.split(", ")):
        held = occupancy(chip, 32, 16, carveout=nbytes)
        assert held.by_smem == (None if chip == "V100" else nbytes // 1024)
    for nbytes in (-1, 1, 5000, 8193, chip_of(chip).limits.smem_bytes + 1, 2**62):
        with pytest.raises(ArgumentValueError) as caught:
            occupancy(chip, 32, 16, carveout=nbytes)
        said = f"carveout={nbytes} bytes cannot be set aside for shared memory: use {offered}"
        assert str(caught.value) == said
