"""The walk through the code of `coalesced` (docs/machine/code.md): the lines that it shows, and what options do."""

import re
from pathlib import Path

import pytest

from tilewright.checking.product import first_accepted
from tilewright.hardware import H200
from tilewright.jit.cache import build
from tilewright.jit.compile import nvrtc_version, translate
from tilewright.jit.machine_code import words
from tilewright.kernels.registry import kernel_named

PAGE = (Path(__file__).parents[2] / "docs/machine/code.md").read_text(encoding="utf-8")
OPCODES = {
    "LDC": 0xB82, "LDG.E": 0x981, "STG.E": 0x986, "FFMA": 0x223, "BRA": 0x947, "EXIT": 0x94D, "NOP": 0x918,
}  # fmt: skip
"""The lowest 12 bits of an instruction."""
SUM = """extern "C" __global__ void sum(float* a, int n) {
  float s = 0;
  %s
  for (int i = 0; i < n; ++i) s += a[i];
  a[0] = s;
}"""

pytestmark = pytest.mark.skipif(not nvrtc_version().startswith("13.5"), reason="the page shows what NVRTC 13.5 makes")


@pytest.fixture(scope="module")
def compiled():
    kernel = kernel_named("coalesced", "kernel")
    problem = first_accepted(kernel, H200, [(4096, 4096, 4096)], None, None).problem
    return build(kernel.assemble(kernel.best(problem, H200), problem, H200).source, H200.arch)


@pytest.fixture(scope="module")
def opcodes(compiled):
    """The names of those instructions that the page speaks of, in their order."""
    names = {number: name for name, number in OPCODES.items()}
    return [names[word & 0xFFF] for word in words(compiled) if word & 0xFFF in names]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def ptx_of(text, *options, arch="sm_90a"):
    made = translate(text, "page.cu", {}, (f"--gpu-architecture={arch}", "-default-device", *options))
    assert made.ptx, made.log
    return made


def plain(text):
    """Without whitespace, and without the numbers of registers and labels."""
    return re.sub(r"(%[a-z]+|\$L__BB)\d+(_\d+)?", r"\1", "".join(text.split()))


@pytest.mark.parametrize("block", blocks("ptx"))
def test_lines_of_ptx_follow_each_other_in_the_listing(block, compiled):
    """`...` stands for a few others, but for no label."""
    listing = re.sub(r"^\s*\.loc.*$|//.*$", "", compiled.ptx, flags=re.MULTILINE)
    assert re.search("[^:]{,90}".join(re.escape(plain(part)) for part in block.split("...")), plain(listing))


@pytest.mark.parametrize("block", blocks("sass"))
def test_instructions_of_sass_follow_each_other_in_the_cubin(block, opcodes):
    shown = [line.split()[0].rstrip(";") for line in block.splitlines()]
    found = [opcodes[at : at + len(shown)] for at in range(len(opcodes))]
    assert shown in found


def test_the_loops_load_all_before_they_multiply(opcodes):
    runs = re.findall(r"(L+)(F+)", "".join(name[0] if name in ("LDG.E", "FFMA") else "-" for name in opcodes))
    assert [(len(loads), len(products)) for loads, products in runs] == [(32, 16), (16, 8), (8, 4), (2, 1)]
    table = re.findall(r"^\| (\d+) of k \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert [(int(loads), int(products)) for _, loads, products in table] == [(32, 16), (16, 8), (8, 4), (2, 1)]


def test_padding_follows_the_exit_up_to_whole_lines(compiled, opcodes):
    end = opcodes.index("EXIT", opcodes.index("STG.E"))
    assert opcodes[end + 1] == "BRA"
    assert set(opcodes[end + 2 :]) == {"NOP"}
    assert len(words(compiled)) * 16 % 128 == 0


def test_pragmas_say_how_often_a_loop_is_unrolled():
    adds = {
        pragma: ptx_of(SUM % pragma).ptx.count("add.f32") for pragma in ("#pragma unroll 1", "#pragma unroll 8", "")
    }
    assert adds["#pragma unroll 1"] == 1
    assert adds["#pragma unroll 8"] == 9
    assert adds[""] == 5


def test_fast_math_divides_approximately_and_flushes_subnormals():
    text = 'extern "C" __global__ void divide(float* a) { a[0] = a[1] / a[2]; }'
    assert "div.rn.f32" in ptx_of(text).ptx
    assert "div.approx.ftz.f32" in ptx_of(text, "--use_fast_math").ptx


def test_a_virtual_architecture_gives_ptx_alone():
    text = SUM % ""
    assert (ptx_of(text, arch="compute_80").cubin, ".target sm_80" in ptx_of(text, arch="compute_80").ptx) == (
        b"",
        True,
    )
    assert ptx_of(text, arch="sm_80").cubin


def test_an_asm_without_a_use_is_dropped_unless_it_is_volatile():
    text = 'extern "C" __global__ void load(int* p) { int x; asm %s("ld.global.u32 %%0, [%%1];" : "=r"(x) : "l"(p)); }'
    assert "ld.global.u32" not in ptx_of(text % "").ptx
    assert "ld.global.u32" in ptx_of(text % "volatile").ptx
