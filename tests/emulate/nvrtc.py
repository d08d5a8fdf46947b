"""CUDA C++ in, PTX out, for tests of the emulator."""

from functools import lru_cache

import pytest

nvrtc = pytest.importorskip("cuda.bindings.nvrtc")


@lru_cache(maxsize=256)
def compile_ptx(source: str, arch: str = "sm_90a", *options: str) -> str:
    """The PTX of a CUDA C++ source, line information included, called test.cu; arch: real, as tests say it."""
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    flags = [
        f"--gpu-architecture={arch.replace('sm_', 'compute_')}",
        "-lineinfo",
        "--std=c++20",
        "-default-device",
        *options,
    ]
    status = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])[0]
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx.decode().rstrip("\0")
