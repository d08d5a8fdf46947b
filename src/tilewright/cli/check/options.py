"""The options of `tilewright check`: a product for tilewright's own kernels, or the launch of a file's kernel."""

from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.options import ActivationOption, BatchInvariantOption, BatchOption, ZeroOption, shape_of
from tilewright.cli.output import prints_apart, progress
from tilewright.cli.targets import OF_A_FILE, FileOptions, ProductOptions
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.checking.arguments import Arguments
    from tilewright.checking.doors.door import Perform
    from tilewright.checking.registers import Place
    from tilewright.emulator.checks.reporting.waivers import Waiver


@dataclass(frozen=True, slots=True)
class CheckedProduct(ProductOptions):
    """The product for tilewright's own kernels, with a bias and an activation, and the GPU that is emulated."""

    bias: Annotated[
        bool | None,
        typer.Option(
            "--bias/--no-bias",
            help="Add a vector along N; the default, except for an out of int32 and beside an expression.",
            show_default=False,
        ),
    ] = None
    activation: ActivationOption = None
    zero_a: ZeroOption = False
    batch: BatchOption = 1
    batch_invariant: BatchInvariantOption = False
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", help="The GPU that the emulator stands for, such as A100.", show_default="H200"),
    ] = None

    def wanted(self) -> dict[str, Any]:
        """The arguments for `tilewright.checking.kernels.checks_of`."""
        elements, bias = self.chosen(), self.bias
        if bias is None:
            bias = not self.has_expression and (elements is None or elements.out.kind == "float")
        choices = {"shape": shape_of(self.shape), **self.choices(bias=bias, activation=self.activation)}
        choices |= {"zero_a": self.zero_a, "batch": self.batch, "batch_invariant": self.batch_invariant}
        if self.config:
            from tilewright.cli.configs import changed

            choices["configured"] = partial(changed, texts=self.config)
        if self.gpu is not None:
            from tilewright.dtypes import fp32
            from tilewright.explaining.explained import gpu_of

            choices["hardware"], _ = gpu_of(self.gpu, dtype=fp32 if elements is None else elements.a)
        return choices


@dataclass(frozen=True, slots=True)
class LaunchOptions(FileOptions):
    """The launch of a kernel of a file."""

    grid: Annotated[
        str | None, typer.Option("--grid", help="CTAs, as X,Y,Z or XxYxZ; 1 by default.", rich_help_panel=OF_A_FILE)
    ] = None
    block: Annotated[
        str | None, typer.Option("--block", help="Threads, as X,Y,Z or XxYxZ.", rich_help_panel=OF_A_FILE)
    ] = None
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="CTAs of a cluster, as X,Y,Z or XxYxZ.", rich_help_panel=OF_A_FILE)
    ] = None
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            help="An argument, once for each: 5, f32:1.5, out=f32[64,32], a=bf16[64,32]:random, ptr:out, "
            "tensormap(a, box=\\[64,32], swizzle=64), bytes:00ff; see docs/emulator.md. An array holds random, zeros, "
            "ones, arange, a number, FILE.npy or, by default, poison: bytes ff, NaN where they are floats.",
            show_default=False,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            help="Reports to accept, as KIND\\[@FILE\\[:LINE]], such as race or race@sum.cu:9; may be repeated.",
            show_default=False,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None
    waivers: Annotated[
        Path | None,
        typer.Option(
            "--waivers",
            help="A file with reports to accept, one a line as for --ignore; # begins a comment.",
            show_default=False,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Show the registers of a thread of CTA 0 when it first executes a line: FILE:LINE\\[@THREAD], or "
            "PTX:LINE\\[@THREAD].",
            show_default=False,
            rich_help_panel=OF_A_FILE,
        ),
    ] = None

    def accepted(self) -> "tuple[Waiver, ...]":
        """The waivers; raises an ArgumentValueError for what is none."""
        from tilewright.checking.wording import COMMAND_LINE
        from tilewright.emulator.checks.reporting.waivers import waivers_of

        files = [] if self.waivers is None else [self.waivers]
        return waivers_of([*(self.ignore or ()), *files], COMMAND_LINE.of_value("ignore"))

    def place(self) -> "Place | None":
        """The place of --at; raises an ArgumentValueError for what is none."""
        from tilewright.checking.registers import Place
        from tilewright.checking.wording import COMMAND_LINE

        return None if self.at is None else Place.parse(self.at, COMMAND_LINE.written("at", self.at))

    def run(self, target: str, seed: int, perform: "Perform") -> None:
        """Perform the launches of a file, FILE.ptx, FILE.cu or FILE.py:NAME; raises as the doors do."""
        from tilewright.checking.doors.cuda import SUFFIXES
        from tilewright.cli.check.arguments import parse_arguments

        name, _, part = target.rpartition(":")
        if name.endswith(".py"):
            self._run_python(Path(name), part, seed, perform)
            return
        if target.endswith(".py"):
            raise ArgumentValueError(f"{target} may have several kernels: name one, {target}:NAME")
        self._launch(Path(target), target.endswith(SUFFIXES), parse_arguments(self.arg or ()), perform)

    def _launch(self, path: Path, cuda: bool, arguments: "Arguments", perform: "Perform") -> None:
        from tilewright.checking.doors.cuda import compiled
        from tilewright.checking.launch import Source, launch_of
        from tilewright.checking.wording import COMMAND_LINE

        entry, title = self.entry, ""
        with progress(f"{'compiling' if cuda else 'reading'} {path.name}"):
            if cuda:
                source, entry, title = compiled(self.source(path), self.entry, COMMAND_LINE)
            else:
                if given := self.define or self.include:
                    raise ArgumentValueError(f"--define and --include are for sources, not PTX: leave out {given[0]}")
                source = Source.read(path)
            launch = launch_of(
                source,
                entry,
                arguments,
                COMMAND_LINE,
                grid=_extents("--grid", self.grid),
                block=_extents("--block", self.block),
                cluster=_extents("--cluster", self.cluster),
                shared_bytes=self.shared_bytes,
                title=title,
            )
        perform(launch)

    def _run_python(self, path: Path, name: str, seed: int, perform: "Perform") -> None:
        from tilewright.checking.doors import Call, door_of
        from tilewright.cli.check.arguments import parse_arguments
        from tilewright.cli.check.python_file import constants, kernel_named, loaded, values

        if self.include:
            raise ArgumentValueError(f"--include {self.include[0]} is for CUDA C++, and {path} is Python: leave it out")
        with prints_apart():
            with progress(f"importing {path.name}"):
                module = loaded(path)
                kernel = kernel_named(module, name)
            call = Call(
                kernel,
                values(parse_arguments(self.arg or ()), seed),
                _extents("--grid", self.grid),
                _extents("--block", self.block),
                _extents("--cluster", self.cluster),
                self.shared_bytes,
                self.entry,
                constants(self.define or (), module),
            )
            door_of(kernel).run(call, perform)


def _extents(option: str, text: str | None) -> tuple[int, ...] | None:
    """(x, y, z) of "X", "X,Y" or "X,Y,Z", with x for commas as in a shape; None of nothing."""
    if text is None:
        return None
    parts = text.lower().replace("x", ",").split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts) or prod(map(int, parts)) < 1:
        raise ArgumentValueError(f"{option}={text!r} must be one to three positive numbers, such as 4 or 4,2 or 4x2x1")
    return tuple(map(int, parts))
