"""The generated cases of the emulator's tests, on hardware."""

import numpy as np
import pytest

import tilewright as tw
from support.cases import COPYING, Memory, copied_cases, random_cases
from support.doubles import GpuArray
from support.verification import cases_of, verified
from tilewright.kernels.registry import EVERY_KERNEL

CHUNKS = 10


def multiply(case, backend, torch, **changes):
    """Run a case on the GPU, on a copy of its buffers with guard bands and all; compare, and return out's bytes.

    changes: other keywords than the case's.
    """
    memory = Memory(case)
    tensors = {name: torch.from_numpy(buffer.bytes).cuda() for name, buffer in memory.buffers.items()}
    arrays = {
        name: GpuArray(buffer.array, pointer=tensors[name].data_ptr() + buffer.start)
        for name, buffer in memory.buffers.items()
    }
    if case.in_place:
        arrays["c"] = arrays["out"]
    a, b, c, out = (arrays.get(name) for name in ("a", "b", "c", "out"))
    tw.matmul(a, b, c, bias=arrays.get("bias"), out=out, backend=backend, **(memory.keywords() | changes))
    for name, tensor in tensors.items():
        memory.buffers[name].bytes[:] = tensor.cpu().numpy()
    memory.verify()
    return memory.buffers["out"].bytes


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("kernel", EVERY_KERNEL)
def test_products_are_right(kernel, chunk, gpu, torch, compiled_variants):
    if kernel not in {variant.kernel for variant in compiled_variants}:
        pytest.skip(f"{kernel} does not run on {gpu.hardware.name}")
    for case in random_cases(kernel, cases_of(kernel) // CHUNKS, seed=chunk):
        try:
            multiply(case, gpu, torch)
        except Exception as error:
            error.add_note(f"in {case}")
            raise
        verified[kernel] += 1


@pytest.mark.parametrize("kernel", EVERY_KERNEL)
def test_two_runs_agree_bit_for_bit(kernel, gpu, torch, compiled_variants):
    if kernel not in {variant.kernel for variant in compiled_variants}:
        pytest.skip(f"{kernel} does not run on {gpu.hardware.name}")
    for case in random_cases(kernel, 100, seed=77):
        assert np.array_equal(multiply(case, gpu, torch), multiply(case, gpu, torch)), case


def test_products_of_copied_operands_are_right(gpu, torch):
    if gpu.hardware.arch != "sm_90a":
        pytest.skip(f"wgmma does not run on {gpu.hardware.name}")
    for case in copied_cases(500, seed=5):
        multiply(case, gpu, torch, **COPYING)
