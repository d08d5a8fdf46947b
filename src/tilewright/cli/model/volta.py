"""The topics `volta`, `control` and `issue`: tensor cores step by step, the scheduler's bits, and what it can issue."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import Gives, command
from tilewright.cli.model.common import Chip, PictureOptions
from tilewright.cli.options import Json, hardware_of
from tilewright.cli.output import columns, console, print_json, table
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 40
"""Instructions of a kernel that people see; --json has all."""


class SumsName(StrEnum):
    """The type in which a tensor core adds."""

    fp32 = "fp32"
    fp16 = "fp16"


@command
def volta(
    output: PictureOptions,
    lane: Annotated[int, typer.Option("--lane", help="Show the steps of this lane's threadgroup.")] = 0,
    sums: Annotated[SumsName, typer.Option("--sums", help="The type of the sums.")] = SumsName.fp32,
) -> None:
    """How Volta's tensor cores make a product of 16x16x16: quad pairs, sets, steps, the rate that follows, and loads.

    \b
    Examples:
      tilewright model volta
      tilewright model volta --lane 21 --sums fp16
      tilewright model volta --plot volta.svg --json
    """
    from tilewright.model.chips import CHIPS
    from tilewright.model.volta import feeding
    from tilewright.model.volta import tensor_core as core

    chosen: core.Sums = sums.value
    threadgroup, quad_pair = core.threadgroup_of(lane), core.quad_pair_of(lane)
    found = [step for step in core.steps(chosen) if step.threadgroup == threadgroup]
    rate, peak = core.fma_per_clock(chosen), core.flops(CHIPS["V100"].gpu, chosen)
    record = {
        "lane": lane, "threadgroup": threadgroup, "quad_pair": quad_pair, "sums": chosen,
        "instructions": len(core.instructions(chosen)), "fma_per_clock": rate, "tflops": peak / 1e12,
        "steps": [
            {
                "set": step.set, "step": step.step, "rows": _ends(step.rows), "columns": _ends(step.columns),
                "k": _ends(step.k), "fedps": step.fedps, "clocks": step.clocks,
            }
            for step in found
        ],
        "feeding": [each.as_dict() for each in feeding.feedings()],
    }  # fmt: skip

    def show() -> None:
        heading = f"lane {lane}: threadgroup {threadgroup}, quad pair {quad_pair}; sums in {chosen}"
        console().print(heading, style="italic")
        cells = [("set, step", "rows of A", "columns of B", "k", "FEDPs", "clocks")]
        for step in found:
            rows, wide, deep = (f"{span.start} to {span[-1]}" for span in (step.rows, step.columns, step.k))
            cells.append((f"{step.set}, {step.step}", rows, wide, deep, str(step.fedps), str(step.clocks)))
        columns(cells, indent=2, gap=3, headings=1)
        table("", {
            "HMMA instructions": len(found), "clocks": sum(step.clocks for step in found),
            "multiply-adds a clock and quarter of an SM": f"{rate:g}",
            "TFLOP/s of a V100": f"{peak / 1e12:.1f}",
        })  # fmt: skip
        tiles = f"{feeding.TILE_M} x {feeding.TILE_N} x {feeding.TILE_K}"
        block = f"{feeding.WARP_BLOCK} x {feeding.WARP_BLOCK}"
        console().print(f"\na warp's loads for {block} of tiles of {tiles}", style="italic", markup=False)
        ways: list[tuple[str, ...]] = [("from SMEM by", "KiB of tiles", "loads", "wavefronts", "ideal")]
        ways += [
            (each.name, f"{each.smem_bytes / 1024:g}", str(each.loads), str(each.wavefronts), str(each.ideal))
            for each in feeding.feedings()
        ]
        columns(ways, indent=2, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.volta import sets_and_steps

        return sets_and_steps(list(core.steps(chosen)), threadgroup)

    output.show(record, show, draw)


def _ends(span: range) -> list[int]:
    return [span.start, span.stop - 1]


@command
def control(
    words: Annotated[
        list[str] | None,
        typer.Argument(help="128 bits of an instruction, or the upper 64, in hexadecimal.", show_default=False),
        Gives("word"),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", help="The instructions of a kernel instead.", show_default=False)
    ] = None,
    arch: Annotated[str, typer.Option("--arch", help="The architecture of the instructions.")] = "sm_90a",
    as_json: Json = False,
) -> None:
    """What the bits of each instruction tell the scheduler: clocks to wait, barriers, reuse of operands.

    In the text, B has the barriers that it waits for, R and W those that it counts down, Y that another warp is
    preferred, and S the clocks until the next instruction. Instructions have names if all 128 bits are there, and
    nvdisasm is.

    \b
    Examples:
      tilewright model control 0x004ea40000001000
      tilewright model control 0x000fea0003800000000000000000794d
      tilewright model control --kernel coalesced
      tilewright model control --kernel simt --arch sm_80 --json
    """
    if (words is None) == (kernel is None):
        given = "both are given" if words else "neither is given"
        raise ArgumentValueError(f"WORDS and --kernel are two ways to ask, and {given}: give one of them")
    from tilewright.model.volta.control import control_of

    found = [_number(word) for word in words] if words is not None else _of_kernel(str(kernel), arch)
    controls = [control_of(word) for word in found]
    names, unnamed = _names(found, arch)
    if as_json:
        each = zip(found, names, controls, strict=True)
        print_json({"instructions": [
            {"word": f"{word:#x}", "instruction": name, **control.as_dict()} for word, name, control in each
        ]})  # fmt: skip
        return
    if words is not None and len(controls) == 1:
        (one,) = controls
        table(str(one) if names[0] is None else f"{names[0]}  {one}", {
            "clocks until the next instruction": one.stall,
            "prefers another warp then": "yes" if one.yields else "no",
            "counts down when the result is written": _barrier(one.write_barrier),
            "counts down when operands are read": _barrier(one.read_barrier),
            "waits for barriers": ", ".join(map(str, one.waits)) or "none",
            "operands kept for the next": ", ".join(map(str, one.reuse)) or "none",
        })  # fmt: skip
    else:
        numbered = enumerate(zip(found, names, controls, strict=True))
        rows = [(f"{16 * at:04x}  {name or ''}", str(each), _halves(word)) for at, (word, name, each) in numbered]
        columns(rows[:SHOWN], gap=2)
        if len(rows) > SHOWN:
            console().print(f"and {len(rows) - SHOWN:,} more")
    if unnamed:
        console().print(f"without names: {unnamed}", markup=False)


def _names(words: list[int], arch: str) -> tuple[list[str | None], str]:
    """The instruction of each word, None for one that lacks its lower bits; and why there are no names at all.

    Raises an UnavailableError if nvdisasm does not know one of them.
    """
    from tilewright.jit.listing import DisassemblerMissing, instruction_names

    whole = [word for word in words if word >> 64]
    if not whole:
        return [None] * len(words), "the opcode is in the lower 64 bits: give all 128"
    try:
        named = iter(instruction_names(whole, arch))
    except DisassemblerMissing as missing:
        return [None] * len(words), str(missing)
    return [next(named) if word >> 64 else None for word in words], ""


def _halves(word: int) -> str:
    """The upper and the lower 64 bits, if both are there."""
    lower = f" {word % (1 << 64):016x}" if word >> 64 else ""
    return f"{word >> 64 or word:016x}{lower}"


def _barrier(number: int | None) -> str:
    return "none" if number is None else f"barrier {number}"


def _number(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise ArgumentValueError(f"WORDS={text!r} is not hexadecimal: write it as `nvdisasm -hex` does") from None


def _of_kernel(name: str, arch: str) -> list[int]:
    from tilewright.checking.product import first_accepted, suited
    from tilewright.cli.inspect import DEFAULT_SHAPE
    from tilewright.jit.cache import build
    from tilewright.jit.machine_code import words
    from tilewright.kernels.registry import kernel_named

    kernel, gpu = kernel_named(name, "--kernel"), hardware_of(arch)
    problem = first_accepted(kernel, gpu, [suited(DEFAULT_SHAPE, kernel)], None, None).problem
    assembled = kernel.assemble(kernel.best(problem, gpu), problem, gpu)
    return words(build(assembled.source, gpu.arch))


@command
def issue(
    fp32: Annotated[int, typer.Option("--fp32", help="Instructions of warps on fp32.")] = 100,
    int32: Annotated[int, typer.Option("--int32", help="Instructions of warps on integers.")] = 100,
    registers: Annotated[
        str | None,
        typer.Option("--registers", help="Source registers of an instruction, such as 97,99,101.", show_default=False),
        Gives("register", "registers"),
    ] = None,
    chip: Chip = "V100",
    as_json: Json = False,
) -> None:
    """How fast a quarter of an SM issues fp32 and integer instructions, and reads registers from its banks.

    \b
    Examples:
      tilewright model issue --fp32 100 --int32 100
      tilewright model issue --fp32 300 --int32 100 --chip H200 --json
      tilewright model issue --registers 97,99,101
    """
    from tilewright.model.chips import chip_of
    from tilewright.model.volta.issue import MAXWELL, VOLTA, mix_clocks, read_clocks, shared_clocks

    known = chip_of(chip)
    record: dict[str, Any] = {
        "chip": known.name, "fp32": fp32, "int32": int32, "clocks": mix_clocks(known, fp32, int32),
        "clocks_shared": shared_clocks(known, fp32, int32),
    }  # fmt: skip
    rows: dict[str, object] = {
        "side by side": _clocks(record["clocks"]), "on one unit": _clocks(record["clocks_shared"]),
    }  # fmt: skip
    if registers is not None:
        parts = registers.split(",")
        if not all(part.strip().isdecimal() and len(part) < 5 for part in parts):
            raise ArgumentValueError(f"--registers={registers!r} are none: write numbers, such as 97,99,101")
        sources = [int(part) for part in parts]
        record |= {"registers": sources, "read_clocks": read_clocks(sources, VOLTA)}
        record["read_clocks_maxwell"] = read_clocks(sources, MAXWELL)
        rows["reads " + ", ".join(f"R{each}" for each in sources)] = _clocks(record["read_clocks"])
        rows["before Volta"] = _clocks(record["read_clocks_maxwell"])
    if as_json:
        print_json(record)
    else:
        table(f"{fp32:,} fp32 and {int32:,} integer instructions on a quarter of an SM of {known.name}", rows)


def _clocks(count: int) -> str:
    return f"{count:,} clock{'s' * (count != 1)}"
