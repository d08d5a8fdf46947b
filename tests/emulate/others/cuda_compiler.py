"""nvcc with CCCL's headers (libcu++, CUB) and CUTLASS's, all from packages: CUDA C++ in, PTX out."""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from emulate.others.corpus import Case

PACKAGES = ("nvidia-cuda-nvcc", "nvidia-cuda-cccl", "nvidia-cuda-runtime", "nvidia-nvvm", "nvidia-cutlass")


def version() -> str:
    """The versions of the packages; raises ImportError if one is missing."""
    if not shutil.which("g++"):
        raise ImportError("nvcc needs g++")
    return ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)


def compile_ptx(case: Case, define: str | None) -> str:
    """The PTX of a source; options are nvcc's, and may override the architecture."""
    toolkit, cutlass = _folder("nvidia.cu13"), _folder("cutlass_library") / "source" / "include"
    options = ["-ptx", "-lineinfo", "-std=c++20", "--expt-relaxed-constexpr", "-I", toolkit / "include" / "cccl"]
    options += ["-I", cutlass] if case.compiler == "cutlass" else []
    options += [] if any(option.startswith("-arch") for option in case.options) else ["-arch=sm_90a"]
    options += [] if define is None else [f"-D{define}"]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "kernel.ptx"
        command = [toolkit / "bin" / "nvcc", *options, *case.options, "-o", output, case.source.name]
        ran = subprocess.run(command, cwd=case.source.parent, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"{case}: {ran.stderr}")
        return _without_places(output.read_text())


def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"{package} is not installed")
    return Path(next(iter(found.submodule_search_locations)))


def _without_places(ptx: str) -> str:
    """The text without the folders of this machine, and without the hashes that nvcc makes of them."""
    ptx = re.sub(r'(\.file\s+\d+ ")[^"]*/', r"\1", ptx)
    return re.sub(r"(_INTERNAL_)[0-9a-f]{8}(_)", r"\g<1>00000000\2", ptx)
