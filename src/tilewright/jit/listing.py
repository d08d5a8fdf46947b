"""Views of a compiled kernel: its PTX, its SASS, the instructions in them, and the resources it takes."""

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from cuda.pathfinder import find_nvidia_binary_utility

from tilewright.errors import UnavailableError
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.machine_code import WORD_BYTES

_PTX_COMMENT_OR_DIRECTIVE = re.compile(r"^\s*\..*$|//.*$|/\*[\s\S]*?\*/", re.MULTILINE)
_PTX_OPCODE = re.compile(r"\s*(?:[\w$]+\s*:\s*)*(?:@!?[%\w$]+\s+)?([a-z][\w.:]*)(?=\s|\Z)")
_SASS_OPCODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", re.MULTILINE)
_SASS_TEXT = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", re.MULTILINE)
_CHARACTERISTIC = (
    *("wgmma", "mma", "fma", "ldmatrix", "stmatrix", "cp", "mbarrier", "fence", "setmaxnreg", "barrier", "bar"),
    *("HGMMA", "WARPGROUP", "HMMA", "FFMA", "LDSM", "STSM", "UTMALDG", "UTMASTG", "LDGSTS", "SYNCS", "FENCE"),
    *("USETMAXREG", "UCGABAR_ARV", "UCGABAR_WAIT", "BAR"),
)
"""First words of opcodes that tell GEMM kernels apart: multiplication, movement of operands, synchronization."""


INSTALL_NVDISASM = "pip install 'tilewright[inspect]'"
"""The command that installs nvdisasm, of the wheel nvidia-cuda-nvdisasm."""


class DisassemblerMissing(UnavailableError):
    """No nvdisasm was found."""


def ptx_listing(compiled: CompiledKernel) -> str:
    """The PTX, which the emulator runs and from which the cubin was assembled."""
    return compiled.ptx


def sass_listing(compiled: CompiledKernel, nvdisasm: Path | None = None, *, inlined: bool = False) -> str:
    """The machine code with its source lines, printed by `nvdisasm` (by default the one of `find_nvdisasm`).

    inlined: also with the lines into which functions were inlined, and with those of the PTX.

    Raises DisassemblerMissing if there is no nvdisasm, and RuntimeError if it cannot read the cubin.
    """
    tool = nvdisasm or find_nvdisasm()
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, f"{compiled.name}.cubin")
        cubin.write_bytes(compiled.cubin)
        lines = ("--print-line-info-inline", "--print-line-info-ptx") if inlined else ("--print-line-info",)
        command = [str(tool), "--print-code", *lines, str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(
            f"{tool} cannot read the cubin of {compiled.name}: {done.stderr.strip()}\n"
            f"It must be as new as the NVRTC that wrote the cubin, {compiled.nvrtc_version}."
        )
    return done.stdout


def instruction_names(words: Sequence[int], arch: str, nvdisasm: Path | None = None) -> list[str]:
    """The instructions of an architecture by their machine words of 128 bits, in their order: `@P0 BRA 0x70`.

    Branches are to addresses, counted from the first word.

    Raises DisassemblerMissing as `sass_listing` does, and an UnavailableError if nvdisasm does not know one of them.
    """
    tool = nvdisasm or find_nvdisasm()
    target = arch.replace("sm_", "SM")
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "words.bin")
        code.write_bytes(b"".join(word.to_bytes(WORD_BYTES, "little") for word in words))
        done = subprocess.run([str(tool), "--binary", target, str(code)], capture_output=True, text=True, check=False)
    found = _SASS_TEXT.findall(done.stdout)
    if done.returncode != 0 or len(found) != len(words):
        said = done.stderr.strip().partition("\n")[0]
        raise UnavailableError(f"{tool} does not know each of these {len(words)} instructions of {arch}: {said}")
    return found


def find_nvdisasm() -> Path:
    """nvdisasm from PATH, CUDA_HOME or CUDA_PATH, an NVIDIA wheel or conda package, or an installed Triton.

    Raises DisassemblerMissing, which says how to get one.
    """
    on_path = shutil.which("nvdisasm")
    if on_path:
        return Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        tool = Path(os.environ.get(variable, ""), "bin", "nvdisasm")
        if variable in os.environ and tool.is_file():
            return tool
    packaged = find_nvidia_binary_utility("nvdisasm")
    if packaged:
        return Path(packaged)
    triton = find_spec("triton")  # does not import it
    for folder in (triton.submodule_search_locations or []) if triton else []:
        tool = Path(folder, "backends", "nvidia", "bin", "nvdisasm")
        if tool.is_file():
            return tool
    raise DisassemblerMissing(
        "SASS needs nvdisasm, which is not on PATH, in CUDA_HOME, in an NVIDIA package or in Triton: "
        f"{INSTALL_NVDISASM}, which brings nvidia-cuda-nvdisasm; or install the CUDA toolkit, conda's cuda-nvdisasm "
        "or Triton"
    )


def instruction_mix(text: str, kind: Literal["ptx", "sass"]) -> dict[str, int]:
    """How often each opcode, with its modifiers, occurs in a PTX or SASS listing, the most frequent first."""
    if kind == "sass":
        opcodes = _SASS_OPCODE.findall(text)
    else:
        # Braces bound blocks as well as vectors; what follows inside a vector never looks like an opcode.
        statements = re.split(r"[;{}]", _PTX_COMMENT_OR_DIRECTIVE.sub("", text))
        opcodes = [match[1] for match in map(_PTX_OPCODE.match, statements) if match]
    return dict(Counter(opcodes).most_common())


def characteristic(mix: dict[str, int]) -> dict[str, int]:
    """The part of an instruction mix that multiplies, moves matrices and synchronizes, in this order."""
    kinds = {opcode: opcode.partition(".")[0] for opcode in mix}
    chosen = [opcode for opcode in mix if kinds[opcode] in _CHARACTERISTIC]
    return {opcode: mix[opcode] for opcode in sorted(chosen, key=lambda opcode: _CHARACTERISTIC.index(kinds[opcode]))}


def is_characteristic(name: str) -> bool:
    """Whether an instruction of this name, without modifiers, multiplies, moves matrices or synchronizes."""
    return name in _CHARACTERISTIC


def resources(compiled: CompiledKernel) -> dict[str, Any]:
    """The resources that the kernel takes and the time of its compilation, ready for JSON."""
    return {
        "kernel": compiled.name,
        "arch": compiled.arch,
        "registers": compiled.registers,
        "spill_bytes": compiled.spill_bytes,
        "stack_bytes": compiled.stack_bytes,
        "static_smem_bytes": compiled.static_smem_bytes,
        "ptx_lines": compiled.ptx.count("\n"),
        "cubin_bytes": len(compiled.cubin),
        "compile_seconds": compiled.compile_seconds,
        "nvrtc_version": compiled.nvrtc_version,
        "warnings": list(compiled.warnings),
    }
