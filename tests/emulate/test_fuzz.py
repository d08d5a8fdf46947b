"""PTX that nobody trusts: whatever the text, it ends in a result or in an error of ours, and runs no Python."""

import re
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from emulate.nvrtc import compile_ptx
from emulate.test_checks import CASES, HEADER, launch, without_lines
from tilewright.emulator import Device, EmulatorError, LaunchError, PtxSyntaxError, StepLimit
from tilewright.emulator.ptx.forms import FORMS

NAMES = [
    "transpose", "cp_async_wait_without_barrier", "flag_with_acquire_and_release", "slot_refilled_while_it_is_read",
    "accumulator_without_fence", "store_buffer_reused", "relaxed_cluster_barrier", "named_barriers",
]  # fmt: skip
PYTHON = [
    "__import__('os')",
    "os",
    "m",
    "g",
    "lanes",
    "exec",
    "'",
    '"',
    "'''",
    "\\",
    "\n import os\n",
    "{m!r}",
    "\0",
    "é",
]
NUMBERS = ["0", "-1", "1", "3", "31", "32", "255", "4294967295", "9223372036854775807", "18446744073709551616",
           "99999999999999999999999999999999999999999999", "0x", "010", "08", "0f7F800000", "0fzzzzzzzz", "0d0",
           "9" * 5000]  # fmt: skip
PIECES = [*"%r0p1 ,;{}[]()<>@!|_.:+-\n'\"/*\\é$", "mov.b32 ", ".reg ", "bra ", "ld.", ".b32", "%r1"]
TOKEN = re.compile(r"[%\w$.:]+|\s+|.")


@lru_cache
def kernel_text(name):
    """PTX, the grid and the cluster of a small kernel."""
    case = next(case for case in CASES if case.name == name)
    grid, block, cluster = (int(case.options.get(option, 1)) for option in ("grid", "block", "cluster"))
    return without_lines(compile_ptx(case.source, "sm_90a", "-DFAULT=0")), grid, block, cluster


@lru_cache
def tokens_of(name):
    return TOKEN.findall(kernel_text(name)[0])


mutations = st.lists(
    st.tuples(
        st.sampled_from(["delete", "repeat", "swap", "number", "python", "other"]),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=3,
)


def mutate(tokens, changes):
    tokens = list(tokens)
    for action, first, second in changes:
        here, there = first % len(tokens), second % len(tokens)
        if action == "number":
            places = [index for index, token in enumerate(tokens) if token[0].isdigit()] or [here]
            tokens[places[first % len(places)]] = NUMBERS[second % len(NUMBERS)]
        elif action == "python":
            tokens[here] = PYTHON[second % len(PYTHON)]
        elif action == "swap":
            tokens[here], tokens[there] = tokens[there], tokens[here]
        elif action == "other":
            tokens[here] = tokens[there]
        else:
            tokens[here : here + 1] = [] if action == "delete" else [tokens[here]] * 2
    return "".join(tokens)


PYTHON_TALK = re.compile(
    r"\b(Key|Index|Type|Attribute|Value|Lookup|Overflow)Error\b|\b(Register|Address|Vector|Pair|Integer|Float|Symbol|"
    r"Special|Negated|Sink|Label)\(|object at 0x|NoneType|zip\(\)|out of range|cannot reshape|invalid literal|broadcast"
)
"""What an error of Python's own, or an object shown as Python does, would put into a message."""


def run(text, grid=1, block=32, cluster=1, max_steps=400):
    """Load and launch; ends in a result or an error of the emulator's."""
    said, device = "", Device(memory_bytes=1 << 18)
    addresses = [device.upload(np.zeros(4096, np.int32)) for _ in range(2)]
    try:
        kernel = device.load(text)
        assert not any(part in kernel.program.source for part in ("import", "os.", "exec"))
        device.launch(
            kernel, (grid,), (block,), addresses[: len(kernel.parameters)], cluster=(cluster,), max_steps=max_steps
        )
    except (EmulatorError, ValueError) as error:
        said = str(error)
    assert not PYTHON_TALK.search(said), said


@pytest.mark.planted_fault
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(changes=mutations)
def test_mutated_kernel(name, changes):
    _, grid, block, cluster = kernel_text(name)
    run(mutate(tokens_of(name), changes), grid, block, cluster)


@pytest.mark.planted_fault
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(body=st.lists(st.sampled_from(PIECES)).map("".join))
@example("!" * 5000)
@example("[" * 5000)
@example("{" * 5000 + "}" * 5000)
@example("mov.b32 %r1, " + "!" * 5000 + "%r1;")
@example("mov.b32 %r1, " + "[" * 5000 + "%r1" + "]" * 5000 + ";")
@example("mov.b32 %r1, " + "|" * 5000 + ";")
@example("st.shared.b32 [%r1" + " " * 20000 + "], %r1;")
@example("/*" * 5000)
@example(".reg .b32")
@example("bar;")
@example("mbarrier;")
@example("wgmma;")
@example("ld %r1, [%r1];")
@example("ld;")
@example("shfl;")
@example("bra;")
@example("@%r1 mov.b32 %r1, %r1;")
def test_arbitrary_body(body):
    run(HEADER + ".visible .entry e()\n{\n.reg .b32 %r<4>;\n.reg .pred p;\n" + body + "\nret;\n}\n")


OPERANDS = [
    "%p1", "!%p1", "%h1", "%r1", "%r2", "%d1", "%f1", "%g1", "%q1", "%c1", "0", "1", "4", "16", "-1", "1.5",
    "[%d1]", "[%r1]", "[rows]", "[rows+16]", "[%f1]", "[%d1, {%r1, %r2}]", "{%r1}", "{%r1, %r2}", "{%f1, %r1}",
    "{%r1, %r2, %r3, %r4}", "{%f1, %f2, %f3, %f4}", "{%h1, %h2}", "%r1|%p1", "_|%p1", "%p1|%p2", "_", "rows", "%tid.x",
    "%nothing", "0f3F800000",
]  # fmt: skip
REGISTERS = """.shared .align 128 .b8 rows[4096];
.reg .pred %p<4>; .reg .b8 %c<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .f32 %f<8>; .reg .f64 %g<4>;
.reg .b128 %q<4>;
mov.u32 %r1, rows; cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d1, %d1; setp.eq.u32 %p1, %r1, 0;
"""


@st.composite
def instructions(draw):
    """An instruction near one that PTX has: the modifiers of a form, maybe one of them changed, and some operands."""
    form = draw(st.sampled_from(sorted((form for forms in FORMS.values() for form in forms), key=str)))
    names = [
        draw(st.sampled_from([choice.replace("*", "x") for choice in group.choices]))
        for group in form.groups
        if group.required or draw(st.booleans())
    ]
    change = draw(st.sampled_from(["none", "none", "drop", "swap", "other"]))
    if names and change != "none":
        place = draw(st.integers(0, len(names) - 1))
        if change == "drop":
            del names[place]
        elif change == "swap":
            names[place], names[0] = names[0], names[place]
        else:
            names[place] = draw(st.sampled_from(["u32", "sync", "wrong", "x4", "f64", "shared", "rn", "v2"]))
    operands = draw(st.lists(st.sampled_from(OPERANDS), min_size=0, max_size=6))
    if draw(st.booleans()):
        operands = [draw(st.sampled_from(_fitting(name))) for name in form.operands if name != "..."]
    guard = draw(st.sampled_from(["", "", "@%p1 ", "@%r1 "]))
    return f"{guard}{'.'.join((form.opcode, *names))} {', '.join(operands)};"


def _fitting(name):
    """Operands that may do for one of the table."""
    plain = name.strip("?+")
    chosen = {"A": "[", "N": "0123456789", "{F}": "{", "{T}": "{%", "{T+}": "{%", "{b32}": "{"}.get(plain, "%")
    return [operand for operand in OPERANDS if operand[0] in chosen]


@pytest.mark.planted_fault
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
@given(instruction=instructions())
def test_wrong_instructions(instruction):
    run(HEADER + f".visible .entry e()\n{{\n{REGISTERS}{instruction}\nst.shared.b32 [rows], %r1;\nret;\n}}\n")


@pytest.mark.planted_fault
@settings(max_examples=100)
@given(text=st.text())
def test_arbitrary_text(text):
    run(text)
    run(HEADER + text)


ENTRY = ".visible .entry e(%s)\n{\n%s\nret;\n}\n"


@pytest.mark.parametrize(
    ("parameters", "body", "error", "message"),
    [
        ("", ".shared .align 4 .b8 big[1099511627776];", LaunchError, "a CTA has 232448"),
        ("", ".local .align 4 .b8 big[1099511627776];", LaunchError, "a thread has 524288"),
        ("", ".local .align 4 .b8 big[1024][1024][1024][1024];", LaunchError, "a thread has 524288"),
        ("", ".reg .b32 %r<999999999>;", PtxSyntaxError, "at most 262144 registers"),
        (".param .b8 big[1000000]", "", PtxSyntaxError, "the limit is 32764"),
        ("", ".shared .align 3 .b8 odd[4];", PtxSyntaxError, "not a power of two"),
        (".param .align 0 .b8 odd[4]", ".shared .align 0 .pred odd[4];", PtxSyntaxError, "PTX line"),
    ],
)
def test_limits(parameters, body, error, message):
    with pytest.raises(error, match=message):
        launch(HEADER + ENTRY % (parameters, body))


def test_a_module_variable_that_does_not_fit_where_a_kernel_names_it():
    big = HEADER + ".global .b8 big[1099511627776];\n"
    with pytest.raises(LaunchError, match="module's variable big"):
        Device(memory_bytes=1 << 18).load(big + ENTRY % ("", ".reg .b64 %rd<2>; mov.u64 %rd1, big;"))
    Device(memory_bytes=1 << 18).load(big + ENTRY % ("", ""))


@pytest.mark.parametrize(
    ("grid", "message"), [((2**40,), "above the limits"), ((2**31 - 1,), "max_steps"), ((1, 65536), "above the limits")]
)
def test_giant_grids(grid, message):
    device = Device(memory_bytes=1 << 18)
    kernel = device.load(HEADER + ENTRY % ("", ""))
    with pytest.raises(LaunchError, match=message):
        device.launch(kernel, grid, (1024,), [], max_steps=1000)


def test_an_endless_loop_ends_at_the_step_limit():
    device = Device(memory_bytes=1 << 18)
    kernel = device.load(HEADER + ENTRY % ("", ".reg .b32 %r;\nmov.b32 %r, 0;\nL:\nadd.s32 %r, %r, 1;\nbra L;"))
    with pytest.raises(StepLimit, match=r"add\.s32.*PTX line 9"):
        device.launch(kernel, (1,), (32,), [], max_steps=50)
