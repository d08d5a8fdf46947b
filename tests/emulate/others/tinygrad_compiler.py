"""tinygrad: functions of Tensors in, the PTX of their kernel out; it needs no device.

The function that the case is named after takes the arrays of the case but the first one, which is its result.
The option RENDERER says who writes the PTX: NVRTC from tinygrad's CUDA ("cuda"), or tinygrad ("ptx").
"""

import importlib.util
import os
from importlib import metadata
from pathlib import Path

import numpy as np

from emulate.others.corpus import Case
from emulate.others.python_compiler import constants, listing, module_of

ARCHITECTURE = "sm_90"
TYPES = {"float16": "half", "bfloat16": "bfloat16", "float32": "float", "int32": "int"}
"""tinygrad's types by those of NumPy."""


def version() -> str:
    """The versions of tinygrad, NVRTC and the headers that it includes."""
    spec = importlib.util.find_spec("nvidia.cu13")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("nvidia.cu13 is not installed")
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    os.environ["CUDA_PATH"] = str(next(each for each in folders if (each / "include" / "cuda_fp16.h").exists()))
    libraries = (path for each in folders for path in sorted((each / "lib").glob("libnvrtc.so.*")))
    os.environ["NVRTC_PATH"] = str(next(path for path in libraries if "alt" not in path.name))
    os.environ |= {"DEV": "NULL", "CACHELEVEL": "0"}
    names = "tinygrad", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def compile_ptx(case: Case, define: str | None) -> str:
    """The PTX of the only kernel that the function's result needs."""
    from tinygrad import Tensor, dtypes
    from tinygrad.codegen import to_program
    from tinygrad.helpers import Target
    from tinygrad.renderer.cstyle import CUDARenderer
    from tinygrad.renderer.ptx import PTXRenderer

    launch = case.launch(np.random.default_rng(0))
    name = constants(case, define)["RENDERER"]
    renderer = {"cuda": CUDARenderer, "ptx": PTXRenderer}[name](Target("CUDA", name.upper(), ARCHITECTURE))
    inputs = [
        Tensor.empty(*array.shape, dtype=getattr(dtypes, TYPES[array.dtype.name])) for array in launch.arguments[1:]
    ]
    result = getattr(module_of(case.source), case.name)(*inputs)
    scheduled = result.schedule_linear().src
    if len(scheduled) != 1:
        raise SystemExit(f"{case} takes {len(scheduled)} kernels: choose a function that takes one")
    function, _, *taken = scheduled[0].src
    if [each.arg.slot for each in taken] != sorted(each.arg.slot for each in taken):
        raise SystemExit(f"{case} takes its inputs in another order: change that of the function's parameters")
    program = to_program(function, renderer)
    grid, block = program.arg.global_size, program.arg.local_size
    if (grid, block) != (launch.grid, launch.block):
        raise SystemExit(f"{case} has grid and block {launch.grid}, {launch.block}: they are {grid}, {block}")
    return listing(program.src[-1].arg.decode(), 0)
