"""CuPy's kernels from source in `tilewright.check`, where CuPy is installed; it needs no GPU."""

import numpy as np
import pytest

import tilewright as tw
from support.compilers import needing

cupy = needing("cupy")

SCALE = 'extern "C" __global__ void scale(float* x) {\n  x[threadIdx.x] *= FACTOR;\n}\n'


def test_a_raw_kernel_with_its_options():
    kernel = cupy.RawKernel(SCALE, "scale", options=("-DFACTOR=3", "--std=c++14"))
    x = np.ones(32, np.float32)
    result = tw.check(kernel, x, grid=1, block=32, schedules=0)
    assert result.verified
    assert set(x) == {3.0}
    assert (result.kernel, result.product) == ("scale", "scale.cu")
    assert list(result.counters["by_line"]) == ["scale.cu:1", "scale.cu:2", "scale.cu:3"]


@pytest.mark.parametrize("options", [("-arch=sm_80",), ("--gpu-architecture", "compute_80"), ("-arch=compute_80",), ()])
def test_the_architecture_is_that_of_the_options(options):
    code = 'extern "C" __global__ void arch(int* x) { *x = __CUDA_ARCH__; }'
    x = np.zeros(1, np.int32)
    assert tw.check(cupy.RawKernel(code, "arch", options=options), x, block=1, schedules=0).verified
    assert x[0] == (800 if options else 900)


def test_a_raw_module():
    code = "#include <cupy/complex.cuh>\ntemplate <int N> __global__ void scale(float* x) { x[threadIdx.x] *= N; }"
    module = cupy.RawModule(code=code, name_expressions=["scale<3>"])
    x = np.ones(32, np.float32)
    assert tw.check(module, x, block=32, entry="scale<3>", schedules=0).verified
    assert set(x) == {3.0}


def test_a_raw_module_of_ptx(tmp_path):
    from tilewright.jit.user_source import UserSource

    path = tmp_path / "scale.ptx"
    path.write_text(UserSource("scale.cu", SCALE, definitions=("FACTOR=2",)).compiled().ptx)
    x = np.ones(32, np.float32)
    assert tw.check(cupy.RawModule(path=str(path)), x, block=32, schedules=0).verified
    assert set(x) == {2.0}


def test_what_cannot_be_checked_is_refused():
    kernel = cupy.RawKernel(SCALE, "scale")
    with pytest.raises(tw.CompilationError, match='"FACTOR" is undefined'):
        tw.check(kernel, np.ones(32, np.float32), block=32)
    with pytest.raises(TypeError, match="entry='scale' is not for a RawKernel: it names its kernel"):
        tw.check(kernel, np.ones(32, np.float32), block=32, entry="scale")
    with pytest.raises(ValueError, match="pass one of PTX or of CUDA C"):
        tw.check(cupy.RawModule(path="scale.cubin"), block=32)
    with pytest.raises(TypeError, match="N=3 is not an argument of a check of CuPy kernels"):
        tw.check(kernel, np.ones(32, np.float32), block=32, N=3)
