"""Flash attention by mma.sync: right, clean and fully exercised."""

import pytest

from emulate.nvrtc import compile_ptx
from support.attention import ATTENTION, attend
from support.policies import each_policy
from tilewright.emulator import Coverage


@each_policy
def test_attention_is_that_of_float64(policy):
    found, expected, device = attend(compile_ptx(ATTENTION), 2, 192, asynchrony=policy[0], seed=policy[1])
    assert abs(found - expected).max() < 2e-3  # the weights are rounded to fp16, and ex2 is an approximation
    assert not device.reports


@pytest.mark.parametrize(("length", "gaps"), [(64, True), (192, False)])
def test_one_block_of_keys_exercises_less_than_three(length, gaps):
    coverage = Coverage()
    attend(compile_ptx(ATTENTION), 1, length, observers=[coverage])
    assert bool(coverage.gaps().summary()) == gaps


@pytest.mark.planted_fault
def test_a_slot_that_is_filled_again_too_early_is_a_race():
    source = ATTENTION.replace("    __syncthreads();\n  }\n  for (int h", "  }\n  for (int h")
    assert source != ATTENTION
    _, _, device = attend(compile_ptx(source), 1, 192)
    assert device.reports
