"""`tilewright inspect`: the compiled form of a kernel."""

import dataclasses
from typing import Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.options import (
    DTypeName,
    EpilogueOption,
    GateOption,
    Json,
    OperandOption,
    OutputsOption,
    OwnLayoutOption,
    expression_of,
    hardware_of,
    parse_shape,
)
from tilewright.cli.output import console, print_json, table
from tilewright.hardware import HOPPER

DEFAULT_SHAPES = ((4096, 4096, 4096), (4096, 4096, 0))
"""The products to try where none is given; `copy` takes only those without a sum."""

MIX_LINES = 15
"""The number of opcodes shown to people besides the characteristic ones; --json has all."""


@command
def inspect(
    kernel: Annotated[
        str,
        typer.Argument(
            help="The name of a kernel (wgmma, mma, simt, copy) or of a rung of the ladder (wgmma_basic...).",
            show_default=False,
        ),
    ],
    problem: Annotated[
        str | None,
        typer.Option(
            "--problem",
            help="M,N,K of the product that chooses the Config.",
            show_default="4096,4096,4096; 4096,4096,0 for copy",
        ),
    ] = None,
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; by default the first that the kernel takes.")
    ] = None,
    layout: OwnLayoutOption = None,
    epilogue: EpilogueOption = None,
    operand: OperandOption = None,
    gate: GateOption = None,
    outputs: OutputsOption = None,
    arch: Annotated[
        str,
        typer.Option(
            "--arch",
            help="The architecture: sm_90a, or for mma, simt and copy also sm_80, sm_86, sm_89, sm_100, sm_120 and all "
            "others that NVRTC knows; no such GPU is needed.",
        ),
    ] = HOPPER,
    ptx: Annotated[bool, typer.Option("--ptx", help="Print the PTX.")] = False,
    sass: Annotated[bool, typer.Option("--sass", help="Print the machine code (needs nvdisasm).")] = False,
    source: Annotated[bool, typer.Option("--source", help="Print the generated CUDA translation unit.")] = False,
    as_json: Json = False,
) -> None:
    """Compile a kernel and show its registers, spills, shared memory and instructions, or its listings.

    Several of --source, --ptx and --sass are printed one after the other.

    \b
    Examples:
      tilewright inspect wgmma
      tilewright inspect mma --problem 300,200,100 --dtype fp16 --sass
      tilewright inspect simt --arch sm_80 --ptx
      tilewright inspect wgmma --epilogue "gelu(acc + bias)" --operand bias=n --source
      tilewright inspect wgmma_basic --json
    """
    from tilewright.checking.product import first_accepted
    from tilewright.jit.cache import build
    from tilewright.jit.listing import instruction_mix, ptx_listing, resources, sass_listing
    from tilewright.kernels.registry import kernel_named
    from tilewright.model.occupancy import LIMITS, occupancy

    shapes = DEFAULT_SHAPES if problem is None else (parse_shape(problem, "--problem"),)
    chosen, hardware = kernel_named(kernel, "KERNEL"), hardware_of(arch)
    kinds, expression = (dtype.value if dtype else None), expression_of(epilogue, operand, gate, outputs)
    product = first_accepted(chosen, hardware, shapes, kinds, layout.value if layout else None, **expression)
    config = chosen.configs(product.problem, hardware)[0]
    assembled = chosen.assemble(config, product.problem, hardware)
    compiled = build(assembled.source, hardware.arch)
    launch = assembled.shape
    listings = {}
    if source:
        listings["source"] = assembled.source.text
    if ptx:
        listings["ptx"] = ptx_listing(compiled)
    if sass:
        listings["sass"] = sass_listing(compiled)
    kind, text = ("sass", listings["sass"]) if sass else ("ptx", compiled.ptx)
    mix = instruction_mix(text, "sass" if sass else "ptx")
    smem_bytes = launch.smem_bytes + compiled.static_smem_bytes
    known = hardware.capability in LIMITS
    held = occupancy(hardware.capability, launch.block, compiled.registers, smem_bytes) if known else None
    record: dict[str, Any] = {
        **resources(compiled),
        "kernel": chosen.name,
        "entry": compiled.name,
        "config": dataclasses.asdict(config),
        "gpu": hardware.name,
        "m": product.m,
        "n": product.n,
        "k": product.k,
        "dtype": product.dtype.name,
        "layout": product.layout,
        "grid": launch.grid,
        "threads": launch.block,
        "cluster": launch.cluster,
        "smem_bytes": launch.smem_bytes,
        "occupancy": held and held.as_dict(),
        "instruction_mix": {kind: mix},
        **listings,
    }
    if as_json:
        print_json(record)
    elif listings:
        for name, text in listings.items():
            if len(listings) > 1:
                typer.echo(f"// {name}")
            typer.echo(text)
    else:
        _show(record, kind, mix)


def _occupancy(held: dict[str, Any] | None) -> dict[str, str]:
    """CTAs and warps per SM, and what allows no more; nothing for a GPU whose limits are unknown."""
    if held is None:
        return {}
    return {
        "CTAs per SM": f"{held['ctas']}, limited by {' and '.join(held['limits'])}",
        "warps per SM": f"{held['warps']} of {held['most_warps']} ({held['share']:.1%})",
    }


def _show(record: dict[str, Any], kind: str, mix: dict[str, int]) -> None:
    from tilewright.jit.listing import characteristic

    config = ", ".join(f"{name}={value}" for name, value in record["config"].items())
    console().print(
        f"{record['kernel']} for {record['m']}x{record['n']}x{record['k']} {record['dtype']} {record['layout']}"
    )
    console().print(f"Config: {config}", markup=False)
    table(
        f"\nResources on {record['arch']} (NVRTC {record['nvrtc_version']})",
        {
            "registers per thread": record["registers"],
            "spilled bytes": record["spill_bytes"],
            "stack bytes": record["stack_bytes"],
            "SMEM bytes per CTA": record["smem_bytes"] + record["static_smem_bytes"],
            "threads per CTA": record["threads"],
            **_occupancy(record["occupancy"]),
            "CTAs": record["grid"],
            "CTAs per cluster": record["cluster"],
            "cubin bytes": record["cubin_bytes"],
            "compile seconds": f"{record['compile_seconds']:.2f}",
        },
    )
    for warning in record["warnings"]:
        console().print(warning, style="yellow", markup=False)
    special = characteristic(mix)
    table(f"\n{kind.upper()} instructions that multiply, copy and synchronize", dict(special))
    others = [(opcode, count) for opcode, count in mix.items() if opcode not in special][:MIX_LINES]
    table(f"\nOf the others, the {len(others)} most frequent", dict(others))
