"""Inspections: loops, widths and lines of listings, and remarks, each with a kernel that has it and one without."""

import re
import textwrap
from functools import cache

import pytest

from tilewright.checking.product import first_accepted
from tilewright.errors import UnavailableError
from tilewright.explaining.inspection import Inspection, sources_of, threads_of
from tilewright.hardware import H200
from tilewright.jit.accesses import access_of, widths
from tilewright.jit.cache import build
from tilewright.jit.instructions import Instruction, Place, ptx_instructions, sass_instructions
from tilewright.jit.listing import DisassemblerMissing, find_nvdisasm
from tilewright.jit.loops import loops_of
from tilewright.jit.user_source import UserSource
from tilewright.kernels.registry import kernel_named


def has_nvdisasm():
    try:
        return bool(find_nvdisasm())
    except DisassemblerMissing:
        return False


needs_nvdisasm = pytest.mark.skipif(not has_nvdisasm(), reason="no nvdisasm on this machine")


@cache
def inspected(text, threads=None, architecture="sm_90a"):
    """The inspection of the kernel `k`."""
    source = UserSource("/here/k.cu", text, architecture=architecture)
    return Inspection.of(source.compiled()._replace(name="k"), {"/here/k.cu": text}, threads)


@cache
def ours(name):
    kernel = kernel_named(name, "kernel")
    problem = first_accepted(kernel, H200, [(4096, 4096, 4096)], None, None).problem
    unit, launch, *_ = kernel.assemble(kernel.configs(problem, H200)[0], problem, H200)
    return Inspection.of(build(unit, H200.arch), sources_of(unit), launch.block, launch.smem_bytes)


def kernel(body, parameters="float* a, float* b, int n", before=""):
    return f'{before}extern "C" __global__ void k({parameters}) {{\n{textwrap.dedent(body)}\n}}\n'


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


REMARKED = {
    "unrolling": (
        kernel("#pragma unroll\nfor (; *b; ++b) a[n] += *b * *b;"),
        "for (;",
        kernel("#pragma unroll\nfor (int i = 0; i < 8; ++i) a[n] += b[i * n];"),
    ),
    "narrow": (
        kernel("int i = 4 * threadIdx.x;\na[threadIdx.x] =\n b[i] + b[i + 1] * b[i + 2] + b[i + 3];"),
        " b[i] +",
        kernel(
            "float4 v = ((const float4*)b)[threadIdx.x];\na[threadIdx.x] = v.x + v.y * v.z + v.w;",
        ),
    ),
    "spill": (
        kernel(
            "float v[200];\n#pragma unroll\nfor (int i = 0; i < 200; ++i) v[i] = b[i * n];\n__syncthreads();\n"
            "#pragma unroll\nfor (int i = 0; i < 200; ++i) a[i * n] = v[i] * v[199 - i];"
        ).replace("void k", "void __launch_bounds__(1024) k"),
        None,
        kernel("a[n] = b[n];").replace("void k", "void __launch_bounds__(1024) k"),
    ),
    "local": (
        kernel("float v[64];\nfor (int i = 0; i < n; ++i)\n  v[i & 63] = b[i];\na[0] = v[n & 63];"),
        "  v[i & 63]",
        kernel("float v[64];\nfor (int i = 0; i < 64; ++i)\n  v[i] = b[i * n];\na[0] = v[5];"),
    ),
    "fp64": (
        kernel("a[n] = \n  b[n] * 0.1;"),
        "  b[n]",
        kernel("a[n] = b[n] * 0.1f;"),
    ),
    "division": (
        kernel("for (int i = 0; i < n; ++i)\n  a[i] = b[i / m];", "float* a, float* b, int n, int m"),
        "  a[i] =",
        kernel("for (int i = 0; i < n; ++i)\n  a[i] = b[i / 7];", "float* a, float* b, int n, int m"),
    ),
}
"""By kind: a source with such a remark, what stands on the line of the remark (None: another one), one without."""


@pytest.mark.parametrize("kind", REMARKED)
def test_a_remark_names_its_line_and_is_made_of_no_other_kernel(kind):
    text, marked, without = REMARKED[kind]
    (remark,) = [each for each in inspected(text).remarks if each.kind == kind]
    if marked:
        assert remark.place == f"k.cu:{line_of(text, marked)}"
    assert re.fullmatch(r"k\.cu:\d+", remark.place)
    assert len(remark.evidence) > 20
    assert len(remark.remedy) > 20
    assert kind not in [each.kind for each in inspected(without).remarks]


def test_fp64_that_the_source_asks_for_is_no_accident():
    text = kernel("a[n] = b[n] * 0.1;", "double* a, double* b, int n")
    assert "mul.f64" in inspected(text).mixes["ptx"] or "mul.rn.f64" in inspected(text).mixes["ptx"]
    assert inspected(text).remarks == ()


def test_a_division_is_remarked_in_innermost_loops_alone():
    text = kernel(
        "for (int i = 0; i < n; ++i) {\n  int j = i / m;\n  for (int l = 0; l < j; ++l) a[l] += b[l];\n}",
        "float* a, float* b, int n, int m",
    )
    assert [each.kind for each in inspected(text).remarks if each.kind == "division"] == []


WGMMA = """
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
"""
FENCE, COMMIT = (
    'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
    ('asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");'),
)
WAIT = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'


def wgmma(between):
    body = (
        f"float d[4] = {{0, 0, 0, 0}};\n{FENCE}\nmultiply(d, n, n);\n{between}\nmultiply(d, n + 2, n);\n{COMMIT}\n"
        f"{WAIT}\nfor (int i = 0; i < 4; ++i) a[4 * threadIdx.x + i] = d[i];"
    )
    return kernel(body, before=WGMMA)


def test_serialized_wgmma_is_remarked():
    (remark,) = [each for each in inspected(wgmma("d[0] += 1;")).remarks if each.kind == "serialized"]
    assert "serialized" in remark.evidence
    assert remark.place == "k.cu:3"
    assert "serialized" not in [each.kind for each in inspected(wgmma("")).remarks]


def test_production_kernels_are_what_their_sources_mean():
    assert [remark for name in ("wgmma", "mma") for remark in ours(name).remarks] == []
    (remark,) = ours("coalesced").remarks
    assert (remark.kind, remark.place) == ("narrow", "one_element.cuh:19")
    assert "4 loads from GMEM of 4 bytes" in remark.evidence


def test_loops_are_found_with_their_turns_and_their_work():
    inner = ours("coalesced").loops["ptx"]
    assert [(str(loop.place), loop.copies, loop.counts) for loop in inner] == [
        ("one_element.cuh:19", 4, {"fma": 4}),
        ("one_element.cuh:19", 1, {"fma": 1}),
    ]
    loops = ours("wgmma").loops["ptx"]
    (main,) = [loop for loop in loops if str(loop.place).startswith("wgmma_consumer.cuh")]
    assert main.counts["wgmma.mma_async"] == 4  # of one block of 64 rows
    assert (main.depth, main.innermost) == (2, False)  # a wait for a barrier is inside
    assert sum(loop.waits for loop in loops) == 3
    (whole,) = [loop for loop in loops if loop.counts.get("wgmma.mma_async") == 8]
    assert whole.depth == 1


@needs_nvdisasm
def test_machine_code_has_loops_widths_and_lines_of_both_listings():
    found = ours("mma")
    (main,) = [loop for loop in found.loops["sass"] if loop.counts.get("HMMA")]
    assert (main.counts["HMMA"], main.counts["LDSM"]) == (64, 16)
    assert found.accesses["sass"]["copies from GMEM to SMEM"] == {16: 18}
    (line,) = [each for each in ours("coalesced").lines if str(each.place) == "one_element.cuh:19"]
    assert "fmaf(a[k]" in line.text
    assert sum(text.startswith("fma.rn.f32") for text in line.ptx) == 5
    assert any(text.startswith("FFMA") for text in line.sass)


@needs_nvdisasm
def test_loads_that_ptxas_joins_are_not_narrow():
    found = ours("smem_tiles")
    assert 16 in found.accesses["sass"]["loads from SMEM"]
    assert set(found.accesses["ptx"]["loads from SMEM"]) == {4}
    assert "narrow" not in [each.kind for each in found.remarks]


def test_what_became_of_pragmas():
    text = kernel(
        "#pragma unroll 2\nfor (int i = 0; i < n; ++i) a[i] += b[i];\n"
        "#pragma unroll\nfor (int i = 0; i < 4; ++i) {\n  a[i + n] = 1;\n}\n"
        "#pragma unroll 1\nfor (int i = 0; i < n; ++i) b[i] += 2;"
    )
    found = [(each.place.line, each.pragma, each.copies) for each in inspected(text).unrolled]
    assert found == [(3, "#pragma unroll 2", 2), (5, "#pragma unroll", None)]


PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
.maxntid 64, 2, 1
{
	.reg .pred %p<2>;
	.loc	1 7 3
	ld.param.u64 %rd1, [p];
	{
again:
	mbarrier.try_wait.shared::cta.b64 done, [%r1], %r2;
	@!done bra again;
	}
$L__BB0_1:
	.loc	2 5 3, function_name $L__info_string0, inlined_at 1 9 3
	ld.global.v4.f32 {%f1, %f2,
		%f3, %f4}, [%rd1];
	{
again:
	mbarrier.try_wait.shared::cta.b64 done, [%r1], %r2;
	@!done bra again;
	}
	@%p1 bra $L__BB0_1;
	ret;
}
	.file	1 "/here/k.cu"
	.file	2 "/here/load.cuh"
"""


def test_labels_of_inline_assembly_are_of_their_own_scope():
    listing = ptx_instructions(PTX, "k")
    assert [each.name for each in listing.instructions] == [
        "ld",
        "mbarrier",
        "bra",
        "ld",
        "mbarrier",
        "bra",
        "bra",
        "ret",
    ]
    first, outer, inner = loops_of(listing)
    assert (first.waits, outer.waits, inner.waits) == (True, False, True)
    assert (first.depth, outer.depth, inner.depth) == (1, 1, 2)
    load = listing.instructions[3]
    assert load.places == (Place("/here/load.cuh", 5), Place("/here/k.cu", 9))
    assert load.line == 17
    assert widths(listing.instructions) == {"loads from GMEM": {16: 1}}
    with pytest.raises(UnavailableError, match="no entry 'other'"):
        ptx_instructions(PTX, "other")


SASS = """.text.other:
        /*0000*/                   EXIT ;
.text.k:
	//## File "/here/load.cuh", line 5 inlined at "/here/k.cu", line 9
	//## File "/here/k.cu", line 9
	//## File ".nv_debug_ptx_txt", line 17
        /*0000*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
.L_x_1:
        /*0010*/               @!P0 BRA `(.L_x_3) ;
.L_x_2:
        /*0020*/                   STS.U16 [R3], R4 ;
        /*0030*/               @P1 BRA `(.L_x_2) ;
        /*0040*/                   EXIT ;
.L_x_3:
	//## File "/here/k.cu", line 12
        /*0050*/                   CALL.REL.NOINC `(.L_x_9) ;
        /*0060*/                   BRA `(.L_x_2) ;
.L_x_9:
        /*0070*/                   LDSM.16.M88.4 R4, [R1] ;
        /*0080*/               @P1 BRA `(.L_x_9) ;
        /*0090*/                   RET.REL.NODEC R2 0x0 ;
.L_x_4:
        /*00a0*/                   BRA `(.L_x_4);
"""


def test_machine_code_out_of_line_makes_no_loop():
    listing = sass_instructions(SASS, "k")
    load = listing.instructions[0]
    assert (load.opcode, load.places, load.ptx_line) == (
        "LDG.E.128.CONSTANT", (Place("/here/load.cuh", 5), Place("/here/k.cu", 9)), 17,
    )  # fmt: skip
    assert [(loop.lines, loop.depth) for loop in loops_of(listing)] == [((11, 12), 1), ((19, 20), 1)]
    assert listing.instructions[5].places == (Place("/here/k.cu", 12),)
    assert widths(listing.instructions) == {
        "loads from GMEM": {16: 1}, "loads from SMEM": {16: 1}, "stores to SMEM": {2: 1},
    }  # fmt: skip
    with pytest.raises(UnavailableError, match="no code of 'other_name'"):
        sass_instructions(SASS, "other_name")


@pytest.mark.parametrize(
    ("opcode", "operands", "kind", "nbytes"),
    [
        ("cp.async.cg.shared.global", "[%r1], [%rd1], 16, %r2", "copies from GMEM to SMEM", 16),
        ("ld.shared::cta.v2.b64", "{%rd1, %rd2}, [%r1]", "loads from SMEM", 16),
        ("st.local.u8", "[%rd1], %rs1", "stores to local memory", 1),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16", "[%r1], {%r2, %r3}", "stores to SMEM", 8),
        ("LDGSTS.E.BYPASS.LTC128B.128.ZFILL", "[R1], desc[UR4][R2.64]", "copies from GMEM to SMEM", 16),
        ("LDS", "R1, [R2]", "loads from SMEM", 4),
        ("ld.param.u64", "%rd1, [p]", None, None),
        ("fma.rn.f32", "%f1, %f2, %f3, %f4", None, None),
    ],
)
def test_the_bytes_of_an_access(opcode, operands, kind, nbytes):
    access = access_of(Instruction(1, f"{opcode} {operands}", "", opcode, operands, ""))
    assert (access and access.kind, access and access.nbytes) == (kind, nbytes)


def test_threads_are_those_of_the_launch_bounds():
    bounded = kernel("a[n] = b[n];").replace("void k", "void __launch_bounds__(96) k")
    assert threads_of(inspected(bounded).compiled) == 96
    assert threads_of(inspected(kernel("a[n] = b[n];")).compiled) is None
    assert inspected(kernel("a[n] = b[n];")).occupancy is None
    assert inspected(bounded, threads=96).occupancy.warps_per_cta == 3
