"""A kernel cache with a compiler that only pretends, and the fixtures for it."""

import multiprocessing
import time
from pathlib import Path

import pytest

from tilewright.jit import cache
from tilewright.jit.compile import OPTIONS, CompiledKernel, MachineCode
from tilewright.jit.source import TranslationUnit

UNIT = TranslationUnit("toy", 'extern "C" __global__ void toy() {}\n')
KERNEL = CompiledKernel(
    name="toy",
    arch="sm_90a",
    ptx=".version 9.0\n// ünïcode\n",
    machine_code=MachineCode(
        cubin=bytes(range(256)) * 4, registers=40, spill_bytes=8, stack_bytes=16, static_smem_bytes=1024
    ),
    compile_seconds=0.25,
    nvrtc_version="13.5.37",
    warnings=("first", "second"),
)
fork = multiprocessing.get_context("fork")


class PretendCompiler:
    """Stands in for tilewright.jit.compile; notes each compilation in a file that all processes see."""

    OPTIONS = OPTIONS

    def __init__(self, notes: Path):
        self.notes = notes
        self.version = "13.5.37"
        self.seconds = 0.0

    def nvrtc_version(self) -> str:
        return self.version

    def load_nvrtc(self) -> None:
        pass

    def compile(self, unit: TranslationUnit, arch: str) -> CompiledKernel:
        with self.notes.open("a") as file:
            file.write("compiled\n")
        time.sleep(self.seconds)
        return KERNEL._replace(name=unit.name, arch=arch, nvrtc_version=self.version)

    @property
    def compilations(self) -> int:
        return len(self.notes.read_text().splitlines()) if self.notes.exists() else 0


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    pretend = PretendCompiler(tmp_path / "compilations")
    monkeypatch.setattr(cache, "compiler", pretend)
    return pretend


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def entry(folder: Path) -> Path:
    (path,) = folder.glob("*.kernel")
    return path
