"""`tilewright explain`: the plan for a product, why, how long it takes, and what would help."""

from typing import TYPE_CHECKING

import typer

from tilewright.cli.command import command
from tilewright.cli.configs import ConfigOption
from tilewright.cli.options import (
    ActivationOption,
    AnyGpuOption,
    BatchInvariantOption,
    BatchOption,
    ElementOptions,
    EpilogueOption,
    GateOption,
    Json,
    KernelOption,
    Layout,
    LayoutOption,
    OperandOption,
    OutputsOption,
    ShapeWords,
    WithBias,
    ZeroOption,
    expression_of,
    parse_shape,
    with_sums,
)
from tilewright.cli.output import print_json
from tilewright.cli.products import arguments_of, elements_for, scales, stored

if TYPE_CHECKING:
    from tilewright.explaining.explanation import Explanation


@command
def explain(
    words: ShapeWords,
    *,
    types: ElementOptions,
    layout: LayoutOption = Layout.nt,
    batch: BatchOption = 1,
    gpu: AnyGpuOption = None,
    kernel: KernelOption = "auto",
    config: ConfigOption = None,
    activation: ActivationOption = None,
    zero_a: ZeroOption = False,
    bias: WithBias = False,
    epilogue: EpilogueOption = None,
    operand: OperandOption = None,
    gate: GateOption = None,
    outputs: OutputsOption = None,
    batch_invariant: BatchInvariantOption = False,
    as_json: Json = False,
) -> None:
    """Why the planner takes its kernel and Config for a product, how long that takes, and what would help.

    It is arithmetic: nothing is compiled, and no GPU is needed.

    \b
    Examples:
      tilewright explain 4096 4096 4096
      tilewright explain 16,28672,8192 --gpu H20
      tilewright explain 2047 2049 2051 --dtype fp16 --layout nn
      tilewright explain 1024 1024 1024 --config tile_m=128,tile_n=192,stages=4
      tilewright explain 300 200 100 --dtype fp32 --batch 8 --gpu A100 --json
      tilewright explain 4096 4096 4096 --dtype fp8_e4m3 --recipe row --fast-accumulation
      tilewright explain 4096 4096 4096 --dtype int8 --recipe row --zero-a
      tilewright explain 64 4096 4096 --epilogue "gelu(acc + bias)" --operand bias=n
    """
    from tilewright.operand import spec

    m, n, k = with_sums(parse_shape(" ".join(words), "M N K"))
    elements, batches = elements_for(types, kernel), (batch,) if batch > 1 else ()
    beside = elements.beside.name
    said = expression_of(epilogue, operand, gate, outputs, bias=bias, activation=activation)
    finished = arguments_of(said, (*batches, m), n, beside)

    def explained(kernel: str, config: object = None) -> "Explanation":
        from tilewright.explaining.explained import explain

        return explain(
            stored((*batches, m, k), elements.a.name, layout.value[0]),
            stored((*batches, k, n), elements.b.name, layout.value[1]),
            bias=spec((n,), beside) if bias and not said else None,
            activation=activation.value if activation and not said else None,
            **finished,
            recipe=elements.recipe,
            **scales(elements, m, n, k),
            zero_a=spec((m, 1), "int32") if zero_a else None,
            fast_accumulation=elements.fast_accumulation,
            out_dtype=elements.out.name,
            kernel=kernel,
            config=config,
            batch_invariant=batch_invariant,
            gpu=gpu,
        )

    found = explained(kernel)
    if config:
        from tilewright.cli.configs import changed
        from tilewright.explaining.explained import gpu_of
        from tilewright.kernels.registry import kernel_named

        taking, (hardware, _) = kernel_named(found.kernel, "--kernel"), gpu_of(gpu)
        found = explained(found.kernel, changed(taking, found.taken, hardware, config, found.config))
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(str(found))
