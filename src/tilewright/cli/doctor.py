"""`tilewright doctor`: the abilities of this machine, and what is missing."""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import typer

from tilewright.cli.command import NOT_VERIFIED, command
from tilewright.cli.options import Json
from tilewright.cli.output import console, print_json

Status = Literal["ok", "warn", "fail"]

PACKAGES = ("numpy", "ml-dtypes", "cuda-core", "cuda-bindings", "typer", "rich", "pydantic", "filelock", "platformdirs")
ARRAY_LIBRARIES = ("torch", "cupy", "jax")
DRIVER_RELEASE = {12: 525, 13: 580}
"""The first driver release that loads the cubins of a CUDA major version."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: the examined thing, its state, and the remedy if it is not well."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@command
def doctor(as_json: Json = False) -> None:
    """Look at Python, packages, compiler, driver, GPUs, cache and tools, and multiply a small product.

    The exit code is 1 if something fails. Warnings say what this machine cannot do.

    \b
    Examples:
      tilewright doctor
      tilewright doctor --json
    """
    findings = []
    for examine in (_python, _packages, _array_libraries, _compiler, _gpus, _cache, _tools, _self_test):
        for finding in _guarded(examine):
            findings.append(finding)
            if not as_json:
                _show(finding)
    failed = [finding for finding in findings if finding.status == "fail"]
    if as_json:
        print_json({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        console().print(f"\n{len(failed)} of {len(findings)} fail" if failed else "\nThis machine can run tilewright.")
    if failed:
        raise typer.Exit(NOT_VERIFIED)


def _guarded(examine: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """An examination that turns its own failure into a finding, so the others still run."""
    try:
        yield from examine()
    except Exception as error:
        from tilewright.jit.compile import INSTALL, CompilerMissing

        name, remedy = examine.__name__.strip("_").replace("_", " "), "report this, with the whole output"
        if isinstance(error, ModuleNotFoundError | CompilerMissing):
            remedy = INSTALL[13]
        for variable in os.environ:
            if variable.startswith("TILEWRIGHT_") and variable in str(error):
                remedy = f"correct the environment variable {variable}, or unset it"
        yield Finding(name, "fail", f"{type(error).__name__}: {error}", remedy)


def _show(finding: Finding) -> None:
    from rich.markup import escape

    color = {"ok": "green", "warn": "yellow", "fail": "red"}[finding.status]
    console().print(f"[{color}]{finding.status:4}[/{color}]", escape(f"{finding.name}: {finding.detail}"))
    if finding.remedy:
        console().print(f"     -> {finding.remedy}", markup=False)


def _python() -> Iterator[Finding]:
    detail = f"{platform.python_version()} at {sys.executable}, {platform.system()} {platform.machine()}"
    yield Finding("Python", "ok", detail)


def _packages() -> Iterator[Finding]:
    from tilewright.jit.compile import INSTALL

    for name in PACKAGES:
        installed = _version(name)
        if installed:
            yield Finding(name, "ok", installed)
        elif name == "platformdirs" and os.environ.get("TILEWRIGHT_CACHE_DIR"):
            yield Finding(name, "warn", "not installed", "only needed where TILEWRIGHT_CACHE_DIR is not set")
        else:
            yield Finding(
                name, "fail", "not installed", INSTALL[13] if name == "cuda-bindings" else f"pip install {name}"
            )


def _array_libraries() -> Iterator[Finding]:
    found = [f"{name} {installed}" for name in ARRAY_LIBRARIES if (installed := _version(name))]
    yield Finding("array libraries", "ok", ", ".join(["NumPy", *found]))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _compiler() -> Iterator[Finding]:
    from tilewright.jit.compile import INSTALL, CompilerMissing, load_nvrtc, nvrtc_version

    try:
        load_nvrtc()
    except CompilerMissing as error:
        yield Finding(
            "NVRTC", "fail", str(error).splitlines()[0], f"{INSTALL[13]} (for drivers before 580: {INSTALL[12]})"
        )
        return
    yield Finding("NVRTC", "ok", nvrtc_version())


def _gpus() -> Iterator[Finding]:
    from tilewright.api import gpu_count

    count = gpu_count()
    if count == 0:
        detail = "none usable" + ("" if _driver_release() is None else f", though driver {_driver_release()} is here")
        yield Finding("GPU", "warn", detail, "products run in the emulator; for a GPU install NVIDIA's driver")
        return
    yield _driver()
    from tilewright.backends import gpu
    from tilewright.checking.product import NotTaken, first_accepted
    from tilewright.kernels.registry import KERNELS

    for index in range(count):
        hardware = gpu.backend(index).hardware
        fitting = []
        for kernel in KERNELS.values():
            try:
                first_accepted(kernel, hardware, [(4096, 4096, 4096)], None, "nt")
            except NotTaken:
                continue
            fitting.append(kernel.name)
        detail = f"{hardware.name}, {hardware.arch}, {hardware.sm_count} SMs: kernels {', '.join(fitting) or 'none'}"
        remedy = "" if fitting else "tilewright's kernels want sm_80 or later"
        yield Finding(f"GPU {index}", "ok" if fitting else "warn", detail, remedy)


def _driver() -> Finding:
    from cuda.bindings import driver

    from tilewright.backends.driver_calls import checked
    from tilewright.jit.compile import INSTALL, nvrtc_version

    number = checked(driver.cuDriverGetVersion(), "cuDriverGetVersion")
    cuda_major, compiler_major = number // 1000, int(nvrtc_version().split(".")[0])
    detail = f"release {_driver_release() or 'unknown'}, CUDA {cuda_major}.{number % 1000 // 10}"
    if cuda_major >= compiler_major:
        return Finding("driver", "ok", detail)
    wanted = DRIVER_RELEASE.get(compiler_major)
    remedy = f"update the driver to {wanted} or later"
    if cuda_major in INSTALL:
        remedy += f", or {INSTALL[cuda_major]}"
    return Finding("driver", "fail", f"{detail} cannot load cubins of NVRTC {nvrtc_version()}", remedy)


def _driver_release() -> str | None:
    """The release of Linux's driver, such as 580.65.06."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split()
    except OSError:
        return None
    return next((word for word in words if word[0].isdigit() and "." in word), None)


def _cache() -> Iterator[Finding]:
    from tempfile import TemporaryFile

    from tilewright.jit.cache import KernelCache, contents
    from tilewright.jit.entries import distrusted

    cache = KernelCache()
    for folder in cache.extra_directories:
        if reason := distrusted(folder, any_owner=True):
            yield _unused("cache, read only", folder, reason)
        elif folder.is_dir():
            yield Finding("cache, read only", "ok", f"{folder}: {_size(folder)}")
        else:
            remedy = "correct TILEWRIGHT_CACHE_PATH, or make the directory"
            yield Finding("cache, read only", "warn", f"{folder} is not a directory", remedy)
    detail = f"{cache.directory}: {_size(cache.directory)}"
    try:
        cache.make_directory()
        with TemporaryFile(dir=cache.directory):
            pass
    except OSError as error:
        yield Finding(
            "cache", "warn", f"{detail}; {error}", "set TILEWRIGHT_CACHE_DIR to a directory that can be written"
        )
        return
    if reason := distrusted(cache.directory):
        yield _unused("cache", cache.directory, reason)
        return
    if quarantined := contents(cache.quarantine)[0]:
        remedy = f"the disk or another program damaged them; remove {cache.quarantine}"
        yield Finding("cache", "warn", f"{detail}, and {quarantined} corrupt in quarantine", remedy)
        return
    yield Finding("cache", "ok", detail)


def _unused(name: str, folder: Path, distrust: str) -> Finding:
    reason, _, remedy = distrust.partition(": ")
    return Finding(name, "warn", f"{folder} is not used, since {reason}", remedy)


def _size(folder: Path) -> str:
    """The size of a cache directory in words."""
    from tilewright.jit.cache import contents

    entries, size = contents(folder)
    return f"{entries} kernel{'' if entries == 1 else 's'}, {size / 1e6:.1f} MB"


def _tools() -> Iterator[Finding]:
    from tilewright.jit.listing import INSTALL_NVDISASM, DisassemblerMissing, find_nvdisasm

    try:
        yield Finding("nvdisasm", "ok", str(find_nvdisasm()))
    except DisassemblerMissing:
        remedy = f"only the machine code of `tilewright inspect` needs it: {INSTALL_NVDISASM}"
        yield Finding("nvdisasm", "warn", "not found", remedy)


def _self_test() -> Iterator[Finding]:
    from tilewright import dtypes
    from tilewright.api import matmul
    from tilewright.checking.product import Product

    product = Product(48, 40, 72, dtype=dtypes.bf16, out_dtype=dtypes.bf16, bias=True)
    operands = product.operands(seed=0)
    out = matmul(operands["a"], operands["b"], bias=operands["bias"], backend="emulator")
    comparison = product.verify(out, operands)
    name = "self test"
    if comparison.verified:
        yield Finding(name, "ok", f"{product} compiled, emulated and right")
    else:
        detail = f"{product} is wrong in the emulator: relative error {comparison.relative_error:.1e}"
        yield Finding(name, "fail", detail, "report this, with the whole output")
