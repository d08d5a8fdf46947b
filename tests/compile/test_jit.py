"""NVRTC for real, on small kernels: what is on record, what goes wrong, and what the listings say."""

import importlib.metadata
import re
import subprocess
import sys
from importlib.util import find_spec
from operator import attrgetter

import pytest

from tilewright.errors import UnavailableError
from tilewright.jit import compile as compiler
from tilewright.jit import listing, source
from tilewright.jit.compile import CompilationError, CompilerMissing, compile
from tilewright.jit.listing import (
    DisassemblerMissing,
    find_nvdisasm,
    instruction_mix,
    ptx_listing,
    resources,
    sass_listing,
)
from tilewright.jit.source import CudaType, TranslationUnit, translation_unit, wgmma_wrapper

ARCHES = ["sm_80", "sm_90a"]

REVERSE = TranslationUnit(
    "reverse",
    """
extern "C" __global__ void __launch_bounds__(256, 1) reverse(float* x) {
  __shared__ float tile[256];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[255 - threadIdx.x];
}
""",
)

# 64 live values and an indexed array in the 32 registers that 2048 threads leave.
CROWDED = TranslationUnit(
    "crowded",
    """
extern "C" __global__ void __launch_bounds__(1024, 2) crowded(float* x, int j) {
  float live[64], indexed[32];
  for (int i = 0; i < 64; ++i) live[i] = x[i * threadIdx.x];
  for (int i = 0; i < 32; ++i) indexed[i] = x[i + j];
  __syncthreads();
  for (int i = 0; i < 64; ++i) x[i * 99 * threadIdx.x] = live[i] * live[63 - i];
  x[1] = indexed[j];
}
""",
)

HEADERS = {
    "base.cuh": "#pragma once\nnamespace tilewright { struct bf16 { unsigned short bits; }; }\n",
    "store.cuh": """#pragma once
#include "base.cuh"
namespace tilewright {
__device__ __forceinline__ void store(float* x, float value) { x[threadIdx.x] = value; }
}
""",
    "kernels/toy.cuh": """#pragma once
#include "base.cuh"
#include "store.cuh"
namespace tilewright {
template <class Config>
__device__ __forceinline__ void toy_kernel(float* x, int n) {
  static_assert(sizeof(typename Config::Input) == 2);
  if (Config::has_bias && n > Config::tile_m) store(x, Config::scale);
}
}
""",
}


@pytest.fixture
def toy_headers(monkeypatch):
    headers = dict(HEADERS)
    monkeypatch.setattr(source, "HEADERS", headers)
    return headers


def toy_unit(**changes):
    arguments = {
        "constants": {"tile_m": 128, "has_bias": True, "scale": 7, "Input": CudaType("bf16")},
        "parameters": [("float*", "x"), ("int", "n")],
        "launch_bounds": (128, 1),
    }
    return translation_unit("toy", "kernels/toy.cuh", "toy_kernel", **(arguments | changes))


def wgmma_unit(n, *arguments, while_in_flight="", head=""):
    return TranslationUnit(
        "multiply",
        f"""
{wgmma_wrapper(n, *arguments)}
extern "C" __global__ void {head} multiply(float* x, unsigned long long a, unsigned long long b) {{
  float d[{n // 2}];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int k = 0; k < 4; ++k) {{
    Wgmma::mma(d, a + 2 * k, b + 2 * k, k > 0);
    {while_in_flight}
  }}
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < {n // 2}; ++i) x[threadIdx.x * {n // 2} + i] = d[i];
}}
""",
    )


@pytest.mark.parametrize("arch", ARCHES)
def test_one_run_yields_ptx_cubin_and_resources(arch):
    kernel = compile(REVERSE, arch)
    assert (kernel.name, kernel.arch) == ("reverse", arch)
    assert f".target {arch}" in kernel.ptx
    assert ".visible .entry reverse(" in kernel.ptx
    assert kernel.cubin.startswith(b"\x7fELF")
    assert 0 < kernel.registers <= 32
    assert (kernel.spill_bytes, kernel.stack_bytes, kernel.static_smem_bytes) == (0, 0, 1024)
    assert kernel.warnings == ()
    assert kernel.compile_seconds > 0


@pytest.mark.parametrize("unit", [REVERSE, CROWDED], ids=attrgetter("name"))
@pytest.mark.parametrize("arch", ARCHES)
def test_a_virtual_architecture_yields_the_same_ptx_alone(arch, unit):
    kernel = compile(unit, arch.replace("sm", "compute"))
    assert kernel.ptx == compile(unit, arch).ptx
    assert kernel.machine_code is None
    for name in ("cubin", "registers", "spill_bytes", "stack_bytes", "static_smem_bytes"):
        with pytest.raises(UnavailableError, match=f"{unit.name} was compiled for compute_.*to PTX alone"):
            getattr(kernel, name)


@pytest.mark.parametrize("arch", ARCHES)
def test_spills_and_stack_are_on_record(arch):
    kernel = compile(CROWDED, arch)
    assert kernel.registers == 32
    assert kernel.spill_bytes > 0
    assert kernel.stack_bytes >= 128


@pytest.mark.parametrize("arch", ARCHES)
def test_a_translation_unit_compiles_with_its_headers_from_memory(arch, toy_headers):
    kernel = compile(toy_unit(static_asserts=[("Config::tile_m % 64 == 0", "whole warpgroups")]), arch)
    assert ".visible .entry toy(" in kernel.ptx
    assert kernel.warnings == ()
    assert re.search(r'\.file\s+\d+ "/tilewright/kernels/toy\.cuh"', kernel.ptx)


def test_the_result_does_not_depend_on_the_current_directory(toy_headers, tmp_path, monkeypatch):
    here = compile(toy_unit())
    monkeypatch.chdir(tmp_path)
    there = compile(toy_unit())
    assert (there.ptx, there.cubin) == (here.ptx, here.cubin)


def test_a_failed_static_assert_says_its_message(toy_headers):
    with pytest.raises(CompilationError, match="whole warpgroups"):
        compile(toy_unit(static_asserts=[("Config::tile_m % 96 == 0", "whole warpgroups")]))


def test_an_error_shows_the_numbered_lines_around_it(toy_headers):
    toy_headers["store.cuh"] = toy_headers["store.cuh"].replace("= value", "= missing")
    with pytest.raises(CompilationError) as caught:
        compile(toy_unit())
    assert 'identifier "missing" is undefined' in caught.value.log
    assert "/tilewright/store.cuh:" in str(caught.value)
    assert re.search(r"^>    4 \| .* = missing; }$", str(caught.value), re.MULTILINE)
    assert re.search(r"^     3 \| namespace tilewright {$", str(caught.value), re.MULTILINE)


def test_an_error_of_ptxas_is_reported():
    unit = TranslationUnit("bad", 'extern "C" __global__ void bad() { asm volatile("wobble;"); }')
    with pytest.raises(CompilationError, match="wobble"):
        compile(unit)


def test_an_arch_that_is_not_one_is_refused():
    with pytest.raises(ValueError, match="arch = 'ampere': name an architecture such as"):
        compile(REVERSE, "ampere")
    with pytest.raises(CompilationError, match="sm_999"):
        compile(REVERSE, "sm_999")


@pytest.mark.parametrize("arguments", [(8, "bf16"), (128, "f16", "MN", "K"), (256, "bf16", "K", "MN")])
def test_the_wgmma_wrapper_is_one_instruction_without_remarks(arguments):
    n, input_type, *_ = arguments
    kernel = compile(wgmma_unit(*arguments, head="__launch_bounds__(128, 1)"))
    assert kernel.warnings == ()
    assert kernel.spill_bytes == 0
    opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{input_type}.{input_type}"
    assert instruction_mix(kernel.ptx, "ptx")[opcode] == 4


def test_remarks_of_ptxas_on_wgmma_and_setmaxnreg_become_warnings():
    touch = 'd[0] += x[k]; asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");'
    warnings = "\n".join(compile(wgmma_unit(64, "bf16", while_in_flight=touch)).warnings)
    assert "C7508" in warnings
    assert re.search(r"C751\d", warnings)


def test_warnings_of_the_compiler_are_kept():
    unit = TranslationUnit("idle", 'extern "C" __global__ void idle() { int never_used; }')
    (warning,) = compile(unit).warnings
    assert "/tilewright/idle.cu(1)" in warning
    assert "never_used" in warning


def test_without_nvrtc_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(compiler, "_loaded", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(CompilerMissing, match=r"pip install 'cuda-bindings==13\.\*' 'nvidia-cuda-nvrtc"):
        compile(REVERSE)


def test_the_version_on_record_tells_the_wheel_from_another_library(monkeypatch):
    compiler.load_nvrtc()
    known = compiler.nvrtc_version()
    monkeypatch.setattr(compiler, "_nvrtc_wheel", lambda: None)
    monkeypatch.setattr(compiler, "_loaded", None)
    major_minor, path = compiler.nvrtc_version().split(" at ")
    assert "libnvrtc" in path
    assert known.startswith(f"{major_minor}.") or known == f"{major_minor} at {path}"


def test_the_wheel_is_the_one_that_its_metadata_names():
    found = compiler._wheel("cuda_bindings")
    assert found.version == importlib.metadata.version("cuda-bindings")
    assert (found.folder / "cuda").is_dir()
    assert compiler._wheel("cuda") is compiler._wheel("cuda_bind") is None


def test_a_cached_kernel_is_loaded_without_the_compiler(tmp_path):
    if compiler._nvrtc_wheel() is None:
        pytest.skip("without the NVRTC wheel its version is known only by loading it")
    script = """
import sys
from tilewright.jit.cache import build
from tilewright.jit.source import TranslationUnit
kernel = build(TranslationUnit("idle", 'extern "C" __global__ void idle() {}'), "sm_80")
print(kernel.registers, "cuda.bindings.nvrtc" in sys.modules)
"""
    environment = {"TILEWRIGHT_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
    runs = [
        subprocess.run([sys.executable, "-c", script], env=environment, text=True, capture_output=True, check=True)
        for _ in range(2)
    ]
    (first, compiled), (second, loaded) = (run.stdout.split() for run in runs)
    assert first == second
    assert (compiled, loaded) == ("True", "False")


def test_listing_and_resources_of_a_kernel():
    kernel = compile(REVERSE)
    assert ptx_listing(kernel) == kernel.ptx
    on_record = resources(kernel)
    assert on_record["registers"] == kernel.registers
    assert on_record["static_smem_bytes"] == 1024
    assert on_record["cubin_bytes"] == len(kernel.cubin)
    mix = instruction_mix(kernel.ptx, "ptx")
    assert mix["bar.sync"] == mix["st.global.f32"] == mix["ld.shared.f32"] == mix["ret"] == 1


def test_ptx_mix_counts_instructions_and_nothing_else():
    text = """
.version 9.0
.visible .entry k( .param .u64 p )
{
	.reg .pred %p<2>; // mov.u32 in a comment
	.loc 1 2 3, function_name $L__info_string0, inlined_at 1 28 2
$L__BB0_1:
	@!%p1 bra.uni 	$L__BB0_1;
	/* two; st.global
	lines */ mov.u32 %r1, %tid.x;
	{
.reg .pred q;
wgmma.fence.sync.aligned;
	}
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2}, {%r1, %r2}, {%r3}, {%f1, %f2};
	mov.u32 %r2, 7;
	ret;
}
.section .debug_str { $L__info_string0: .b8 95 }
"""
    assert instruction_mix(text, "ptx") == {
        "mov.u32": 2,
        "bra.uni": 1,
        "wgmma.fence.sync.aligned": 1,
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": 1,
        "ret": 1,
    }


def test_sass_mix_counts_instructions_and_nothing_else():
    text = """
        .section .text.k,"ax",@progbits
.text.k:
	//## File "/tilewright/k.cu", line 25
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
        /*00b0*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], RZ, !UPT, gsb0 ;
        /*00c0*/             @UP1  LDC R2, c[0x0][0x28] ;
.L_x_0:
"""
    assert instruction_mix(text, "sass") == {"LDC": 2, "BRA": 1, "HGMMA.64x64x16.F32.BF16": 1}


def test_sass_of_a_kernel():
    try:
        find_nvdisasm()
    except DisassemblerMissing:
        pytest.skip("no nvdisasm on this machine")
    mix = instruction_mix(sass_listing(compile(REVERSE)), "sass")
    assert mix["BAR.SYNC.DEFER_BLOCKING"] == 1
    assert mix["EXIT"] >= 1


def test_a_disassembler_that_cannot_read_the_cubin_is_reported(tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho unsupported cubin >&2\nexit 1\n")
    tool.chmod(0o755)
    with pytest.raises(RuntimeError, match="unsupported cubin"):
        sass_listing(compile(REVERSE), tool)


def test_nvdisasm_is_looked_for_in_each_place(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(listing, "find_nvidia_binary_utility", lambda name: None)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "site").mkdir()
    triton = tmp_path / "site" / "triton"

    def install(folder):
        folder.mkdir(parents=True)
        tool = folder / "nvdisasm"
        tool.touch(mode=0o755)
        return tool

    if find_spec("triton") is None:
        with pytest.raises(
            DisassemblerMissing, match=r"pip install 'tilewright\[inspect\]', which brings nvidia-cuda-nvdisasm"
        ):
            find_nvdisasm()
    in_triton = install(triton / "backends" / "nvidia" / "bin")
    (triton / "__init__.py").touch()
    assert find_nvdisasm() == in_triton
    packaged = install(tmp_path / "wheel")
    monkeypatch.setattr(listing, "find_nvidia_binary_utility", lambda name: str(packaged))
    assert find_nvdisasm() == packaged
    in_toolkit = install(tmp_path / "cuda" / "bin")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert find_nvdisasm() == in_toolkit
    on_path = install(tmp_path / "path")
    assert find_nvdisasm() == on_path
