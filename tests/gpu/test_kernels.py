"""The generated cases of the emulator's tests, on hardware."""

import numpy as np
import pytest

from support.cases import random_cases
from support.further_cases import copied_cases, copying
from support.runs import multiply_on_gpu
from support.verification import cases_of, verified, verified_dtypes
from tilewright.kernels.registry import EVERY_KERNEL

CHUNKS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kernel", EVERY_KERNEL)
def test_products_are_right(kernel, chunk, gpu, torch, compiled_variants):
    if kernel not in {variant.kernel for variant in compiled_variants}:
        pytest.skip(f"{kernel} does not run on {gpu.hardware.name}")
    for case in random_cases(kernel, cases_of(kernel) // CHUNKS, seed=chunk):
        try:
            multiply_on_gpu(case, gpu, torch)
        except Exception as error:
            error.add_note(f"in {case}")
            raise
        verified[kernel] += 1
        verified_dtypes[kernel].add(case.a.dtype)


@pytest.mark.parametrize("kernel", EVERY_KERNEL)
def test_two_runs_agree_bit_for_bit(kernel, gpu, torch, compiled_variants):
    if kernel not in {variant.kernel for variant in compiled_variants}:
        pytest.skip(f"{kernel} does not run on {gpu.hardware.name}")
    for case in random_cases(kernel, 100, seed=77):
        assert np.array_equal(multiply_on_gpu(case, gpu, torch), multiply_on_gpu(case, gpu, torch)), case


def test_products_of_copied_operands_are_right(gpu, torch):
    if gpu.hardware.arch != "sm_90a":
        pytest.skip(f"wgmma does not run on {gpu.hardware.name}")
    for case in copied_cases(500, seed=5):
        multiply_on_gpu(case, gpu, torch, **copying(case))
