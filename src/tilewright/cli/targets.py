"""What `check` and `inspect` work on: a kernel of tilewright with its product, or a kernel of a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.options import (
    ActivationName,
    DTypeName,
    EpilogueOption,
    GateOption,
    K,
    M,
    N,
    OperandOption,
    OutputsOption,
    OwnLayoutOption,
    expression_of,
)

if TYPE_CHECKING:
    from tilewright.jit.user_source import UserSource

OF_A_FILE = "Kernel of a file"
"""The panel of FileOptions in the help."""


@dataclass(frozen=True, slots=True)
class ProductOptions:
    """The product for kernels of tilewright."""

    m: M = None
    n: N = None
    k: K = None
    dtype: Annotated[
        DTypeName | None, typer.Option("--dtype", help="Element type; by default the first that the kernel takes.")
    ] = None
    layout: OwnLayoutOption = None
    epilogue: EpilogueOption = None
    operand: OperandOption = None
    gate: GateOption = None
    outputs: OutputsOption = None

    def choices(self, activation: ActivationName | None = None) -> dict[str, Any]:
        """The element type and the layout by name, None where the kernel decides, and the fields of an expression.

        Raises an ArgumentValueError for an activation beside an expression.
        """
        return {
            "dtype": self.dtype and self.dtype.value,
            "layout": self.layout and self.layout.value,
            **expression_of(self.epilogue, self.operand, self.gate, self.outputs, activation=activation),
        }


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How a kernel of a file is found and compiled, and its shared memory."""

    entry: Annotated[
        str | None,
        typer.Option("--entry", help="The kernel, of several: its name or a part.", rich_help_panel=OF_A_FILE),
    ] = None
    shared_bytes: Annotated[
        int, typer.Option("--shared-bytes", help="Dynamic shared memory in bytes.", min=0, rich_help_panel=OF_A_FILE)
    ] = 0
    define: Annotated[
        list[str] | None,
        typer.Option(
            "--define",
            "-D",
            help="A macro of CUDA C++, as NAME=VALUE; for check also a constant or an option of a Triton kernel, such "
            "as BLOCK=128 or num_warps=4; may be repeated.",
            show_default=False,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None
    include: Annotated[
        list[Path] | None,
        typer.Option(
            "--include",
            "-I",
            help="A folder of headers for CUDA C++; may be repeated. Those of CUDA are found.",
            show_default=False,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None

    def source(self, path: Path) -> "UserSource":
        """The CUDA C++ of a file with these macros and folders; raises what `UserSource.read` raises."""
        from tilewright.jit.user_source import UserSource

        return UserSource.read(path, [str(folder) for folder in self.include or ()], self.define or ())
