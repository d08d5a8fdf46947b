"""What `check` and `inspect` work on: a kernel of tilewright with its product, or a kernel of a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import Gives
from tilewright.cli.configs import ConfigOption
from tilewright.cli.options import (
    ActivationName,
    ElementOptions,
    EpilogueOption,
    FactorName,
    GateOption,
    OperandOption,
    OptionalShapeWords,
    OutputsOption,
    OwnLayoutOption,
)
from tilewright.cli.products import epilogue_of, require_elements

if TYPE_CHECKING:
    from tilewright.jit.user_source import UserSource
    from tilewright.measure.elements import Elements

OF_A_FILE = "Kernel of a file"
"""The panel of FileOptions in the help."""


@dataclass(frozen=True, slots=True)
class ProductOptions(ElementOptions):
    """The product for kernels of tilewright, and fields of the Config."""

    dtype: Annotated[
        FactorName | None,
        typer.Option("--dtype", help="Element type of A and B; by default the first that the kernel takes."),
        Gives("a"),
    ] = None
    shape: OptionalShapeWords = None
    layout: OwnLayoutOption = None
    config: ConfigOption = None
    epilogue: EpilogueOption = None
    operand: OperandOption = None
    gate: GateOption = None
    outputs: OutputsOption = None

    def chosen(self) -> "Elements | None":
        """The elements, or None where nothing is said of them, and the kernel decides."""
        given = self.dtype, self.b_dtype, self.out_dtype, self.recipe
        return self.elements() if self.fast_accumulation or any(given) else None

    @property
    def has_expression(self) -> bool:
        """Whether an option says what becomes of the sum, besides a bias and an activation."""
        return self.gate is not None or any((self.epilogue, self.operand, self.outputs))

    def choices(self, *, bias: bool = False, activation: ActivationName | None = None) -> dict[str, Any]:
        """The elements and the layout, None where the kernel decides, and what a Product has of the epilogue.

        Raises what a call with such elements raises, and an ArgumentValueError for a bias or an activation beside an
        expression.
        """
        if (elements := self.chosen()) is not None:
            require_elements(elements)
        options = self.epilogue, self.operand, self.gate, self.outputs
        said = epilogue_of(elements, *options, bias=bias, activation=activation)
        return {"elements": elements, "layout": self.layout and self.layout.value, **said}


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
