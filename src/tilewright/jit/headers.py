"""Folders of headers for CUDA C++ of users, and where to get a header that none of them has.

They are those of a CUDA toolkit, from CUDA_HOME, from NVIDIA's Python packages or from a usual place; those of CUTLASS,
from the package nvidia-cutlass; those that recent versions of NVRTC bring; and last, in `include/`, what NVRTC has
built in by the names that C and C++ have for it.
"""

import functools
import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tilewright.jit import compile as compiler
from tilewright.jit.cache import default_cache
from tilewright.jit.source import cuda_code

OWN = str(Path(__file__).parent / "include")
"""The folder with our own headers."""

DEVICE_ALONE = (
    "NVRTC compiles device code alone, so put host code and its headers between #ifndef __CUDACC_RTC__ and #endif, or "
    "move the kernels to a file of their own"
)

_EACH = ("cuda_fp16.h", "crt/mma.h", "cuda/std/cstdint")
"""A header of each of the packages that make up a toolkit for device code."""

_WHEELS = (
    (r"cutlass/|cute/", "nvidia-cutlass", "nvidia-cutlass"),
    (r"cub/|thrust/|cuda/|nv/", "nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12"),
    (r"crt/", "nvidia-cuda-crt", "nvidia-cuda-nvcc-cu12"),
    (r"curand", "nvidia-curand", "nvidia-curand-cu12"),
    (
        r"cuda|cooperative_groups|mma\.h|(?:builtin|device|driver|host|library|math|sm|surface|texture|vector)_",
        "nvidia-cuda-runtime",
        "nvidia-cuda-runtime-cu12",
    ),
)
"""The packages that have a header, by the beginning of its name: of CUDA 13, and of CUDA 12."""

_WHOLE = {"cub/cub.cuh": "cub/block/block_reduce.cuh"}
"""Headers of a whole library, host code included, and an example of what device code takes of it."""

_INCLUDED = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)[>\"]", re.MULTILINE)


@functools.cache
def toolkit_folders() -> tuple[str, ...]:
    """The folders with the headers of CUDA and CUTLASS, those of CUDA_HOME first, those that NVRTC brings last."""
    from cuda.pathfinder import find_nvidia_header_directory

    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = [str(Path(home, "include", part)) for home in homes for part in ("", "cccl")]
    for library in ("cudart", "cccl", "nvcc", "curand"):
        if folder := find_nvidia_header_directory(library):
            found += [folder, *([str(Path(folder).parent)] if Path(folder).name == "cccl" else [])]
    cutlass = find_spec("cutlass_library")  # the package nvidia-cutlass; this does not import it
    found += [
        str(Path(folder, "source", "include")) for folder in (cutlass and cutlass.submodule_search_locations) or ()
    ]
    if not all(_has(found, name) for name in _EACH):
        found += _bundled()
    return tuple(dict.fromkeys(os.path.normpath(folder) for folder in found if os.path.isdir(folder)))


def _has(folders: Sequence[str], header: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, header)) for folder in folders)


def _bundled() -> list[str]:
    """The folders with the headers that NVRTC brings, unpacked into the cache; none if it brings none."""
    root = default_cache().folder("headers-" + re.sub(r"[^\w.]", "-", compiler.nvrtc_version()))
    if root is None:
        return []
    if not (root / ".nvrtc_headers_version").is_file():
        nvrtc = compiler.load_nvrtc()
        try:
            nvrtc.nvrtcInstallBundledHeaders(os.fsencode(root), 0)
        except (AttributeError, RuntimeError):  # the binding, or the library, is older
            return []
    return [str(root), str(root / "cccl")]


def advice(missing: Sequence[str], text: str) -> str:
    """What to do about the headers that a source includes and that cannot be found or used; empty for none."""
    included = _INCLUDED.findall(cuda_code(text))
    found = [f"{name} cannot be found: {_remedy(name)}" for name in missing]
    whole = [name for name in _WHOLE if name in included and name not in missing]
    found += [f"{name} has host code, too: include what you use of it, such as <{_WHOLE[name]}>" for name in whole]
    return "".join(f"\n{line}" for line in found)


def _remedy(name: str) -> str:
    if re.fullmatch(r"\w+", name):  # as headers of C++ are named
        if _has(toolkit_folders(), f"cuda/std/{name}"):
            return f"include <cuda/std/{name}>, which has it for device code, and write cuda::std for std"
        return f"it is for the host; {DEVICE_ALONE}"
    for pattern, *wheels in _WHEELS:
        if re.match(pattern, name):
            return f"pip install {wheels[compiler.nvrtc_version().startswith('12.')]} brings it"
    return f"name its folder with include; if it is for the host: {DEVICE_ALONE}"
