"""The topics `cutlass` and `column-major`: our choices and our matrices as other libraries name them."""

from typing import Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.model.cut import CutOptions, K, M, N
from tilewright.cli.options import Json, Layout
from tilewright.cli.output import console, print_json


@command
def cutlass(m: M, n: N, k: K, options: CutOptions, as_json: Json = False) -> None:
    """A kernel's Config beside the template parameters of CUTLASS.

    \b
    Examples:
      tilewright model cutlass 4096 4096 4096
      tilewright model cutlass 4096 4096 4096 --kernel mma --dtype fp16
      tilewright model cutlass 16 4096 4096 --json
    """
    from tilewright.kernels.cutlass import counterpart

    cut = options.of(m, n, k)
    found = counterpart(cut.kernel, cut.config, cut.problem, cut.chip.gpu)
    if as_json:
        parameters = [parameter._asdict() for parameter in found.parameters]
        print_json({**cut.as_dict(), "api": found.api, "parameters": parameters, "unknown": list(found.unknown)})
        return
    console().print(f"CUTLASS {found.api}", style="italic", markup=False)
    widths = [max(len(parameter[place]) for parameter in found.parameters) for place in (0, 1)]
    for parameter in found.parameters:
        line = f"  {parameter.name:<{widths[0]}}  {parameter.value:<{widths[1]}}  {parameter.ours}"
        console().print(line.rstrip(), markup=False, soft_wrap=True)
    if found.unknown:
        console().print(f"CUTLASS has no parameter for {', '.join(found.unknown)}", markup=False)


@command
def column_major(
    m: M,
    n: N,
    k: K,
    layout: Annotated[Layout, typer.Option("--layout", help="How A and B are stored, t: transposed.")] = Layout.nt,
    as_json: Json = False,
) -> None:
    """How a product of row-major matrices is asked of a BLAS, which takes column-major ones.

    \b
    Examples:
      tilewright model column-major 300 200 100
      tilewright model column-major 300 200 100 --layout nn --json
    """
    from tilewright.model.column_major import blas_call

    call = blas_call(m, n, k, layout.value)
    if as_json:
        print_json(call._asdict())
        return
    scalars = f"{call.transa}, {call.transb}, {call.m}, {call.n}, {call.k}, &alpha"
    matrices = f"{call.first}, {call.lda}, {call.second}, {call.ldb}, &beta, out, {call.ldc}"
    console().print(f"gemm({scalars}, {matrices})", markup=False, soft_wrap=True)
    a, b = ("transposed" if kind == "t" else "as it is" for kind in layout.value)
    about = f"out ({m} x {n}) = a @ b, all row-major; a is stored {a}, and b {b}"
    console().print(about, markup=False, soft_wrap=True)
