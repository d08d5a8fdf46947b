"""The model of occupancy against the driver's answer, for every kernel that the GPU takes."""

import pytest

from tilewright.checking.product import NotTaken, first_accepted, suited
from tilewright.cli.inspect import DEFAULT_SHAPE
from tilewright.jit.cache import build
from tilewright.kernels.registry import EVERY_KERNEL
from tilewright.model.occupancy import occupancy


@pytest.mark.parametrize("name", sorted(EVERY_KERNEL))
def test_ctas_per_sm_are_those_that_the_driver_finds(gpu, name):
    from cuda.bindings import driver

    from tilewright.backends.driver_calls import checked

    kernel = EVERY_KERNEL[name]
    try:
        problem = first_accepted(kernel, gpu.hardware, [suited(DEFAULT_SHAPE, kernel)], None, None).problem
    except NotTaken as refusal:
        pytest.skip(str(refusal))
    launch = kernel.assemble(kernel.configs(problem, gpu.hardware)[0], problem, gpu.hardware)
    compiled = build(launch.source, gpu.hardware.arch)
    threads, smem_bytes = launch.shape.block, launch.shape.smem_bytes
    with gpu.current():
        function = gpu.function(compiled, launch.shape)
        query = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, smem_bytes)
    expected = checked(query, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
    static = compiled.static_smem_bytes
    assert occupancy(gpu.hardware, threads, compiled.registers, smem_bytes + static).ctas == expected
