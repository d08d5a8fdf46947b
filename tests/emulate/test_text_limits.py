"""What a PTX text may ask of the parser: what would take it hours or gigabytes is refused, or takes little."""

import tracemalloc

import pytest

from tilewright.emulator import Device, PtxSyntaxError, UnsupportedInstruction
from tilewright.emulator.program.blocks import build_blocks
from tilewright.emulator.ptx.parser import parse

HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<8>; .reg .b64 %d; .reg .pred %p;\n"


def module(body, before=""):
    return f"{HEADER}{before}.visible .entry e()\n{{\n{REGISTERS}{body}\nret;\n}}\n"


def load(body, before=""):
    return Device(memory_bytes=1 << 20).load(module(body, before))


def doubling(levels, body=""):
    """Functions of which each calls the next twice."""
    twice = [f"call f{level}; call.uni f{level};" for level in range(levels)]
    calls = (f".func f{level + 1}() {{ {body} {called} ret; }}\n" for level, called in enumerate(twice))
    return f".func f0() {{ {body} ret; }}\n" + "".join(calls)


@pytest.mark.parametrize("levels", [17, 60])
@pytest.mark.parametrize("body", ["", ".reg .b32 %q; mov.b32 %q, 1;"])
def test_calls_count_even_if_they_stand_for_nothing(levels, body):
    with pytest.raises(UnsupportedInstruction, match=r"PTX line \d+: e has more than 262144 statements once its calls"):
        load(f"call f{levels};", doubling(levels, body))


def test_calls_of_one_long_function_add_up():
    function = f".func g() {{ /*{'.' * (1 << 22)}*/ ret; }}\n"
    load("call g;\n" * 3, function)
    with pytest.raises(UnsupportedInstruction, match="PTX line 12: e has more than 262144 statements"):
        load("call g;\n" * 5, function)


def test_functions_that_call_each_other_are_refused_as_such():
    functions = ".func f() { call g; ret; }\n.func g() { call h; call f; ret; }\n.func h() { ret; }\n"
    with pytest.raises(UnsupportedInstruction, match="f calls itself"):
        load("call f;", functions)


def test_scopes_within_scopes():
    load("{" * 255 + "}" * 255)
    with pytest.raises(PtxSyntaxError, match="PTX line 7: more than 256 scopes within each other"):
        load("{" * 256 + "}" * 256)


def test_lines_that_are_inlined_through_thousands_of_others():
    lines = (f".loc 1 {line + 1} 1, function_name F, inlined_at 1 {line} 1\n" for line in range(1, 3000))
    kernel = load("".join(lines) + "mov.u32 %r1, 1;", '.file 1 "deep.cu"\n')
    chain = kernel.program.entry.instructions[0].location.chain
    assert chain[:2] == ("deep.cu:3000", "deep.cu:2999")
    assert len(chain) == 256


def test_loops_within_loops():
    def nested(depth):
        heads = (f"L{level}: add.u32 %r1, %r1, 1;\n" for level in range(depth))
        ends = (f"@%p bra L{level};\n" for level in reversed(range(depth)))
        return load("mov.u32 %r1, 1; setp.eq.u32 %p, %r1, 1;\n" + "".join([*heads, *ends]))

    assert len(nested(200).program.blocks) > 400
    with pytest.raises(UnsupportedInstruction, match=r"the loop at `add.u32` .* more than 1048576 basic blocks"):
        nested(1500)


def test_values_that_are_computed_from_each_other_against_the_order_of_the_text():
    count = 20_000
    moves = "".join(f"mov.b32 %a{index + 1}, %a{index};\n" for index in reversed(range(count)))
    text = f".reg .b32 %a<{count + 1}>; .shared .b32 x;\nL: {moves} ld.shared.u32 %a0, [x]; bra L;"
    assert len(load(text).program.suspects) == count + 1


def test_many_registers_that_live_across_many_blocks_take_little_memory():
    count, branches = 400, 4000
    first = "".join(f"ld.shared.u32 %x{number}, [%r0];\n" for number in range(count))
    jumps = "".join(f"@%p bra L{number}; mov.u32 %r2, 1;\nL{number}:\n" for number in range(branches))
    last = "".join(f"st.shared.u32 [%r0], %x{number};\n" for number in range(count))
    body = f".reg .b32 %x<{count}>; mov.u32 %r0, 0; setp.eq.u32 %p, %r0, 0;\n{first}{jumps}{last}"
    entry = parse(module(body)).entries["e"]
    tracemalloc.start()
    try:
        blocks = build_blocks(entry)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(list(blocks[branches].live_in)) >= count
    assert most < 32 << 20


@pytest.mark.parametrize(
    ("before", "body"),
    [(".global .b8 x[999999999999999999][999999999999999999];\n", ""), ("", f".local .b64 x{'[999999999]' * 1000};")],
)
def test_a_variable_beyond_all_memory(before, body):
    with pytest.raises(PtxSyntaxError, match=r"PTX line \d: x has more than 281474976710656 bytes"):
        load(body, before)


def test_many_blank_lines_before_what_is_no_ptx():
    with pytest.raises(PtxSyntaxError, match=r"PTX line 1000001: unexpected 'x'"):
        Device().load("\n" * 1_000_000 + "x")


@pytest.mark.planted_fault
def test_names_of_many_lengths():
    """As of C++, whose parts each follow their length."""
    name = "_Z" + "1a" * 200_000
    use = f"ld.shared.u32 %a, [{name}]; st.shared.u32 [{name}], %a;"
    entry = f".visible .entry k() {{ .shared .b32 {name}; .reg .b32 %a; {use} ret; }}"
    device = Device()
    device.launch(device.load(HEADER + entry), 1, 1, [])
    [report] = device.reports
    assert "shared address 0x400 (a), which has not been written" in report.message
