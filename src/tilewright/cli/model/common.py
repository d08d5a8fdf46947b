"""What topics of `tilewright model` share: options, and the result as JSON, table or picture."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import Gives
from tilewright.cli.options import Json, require_plot
from tilewright.cli.output import print_json
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Chip = Annotated[
    str,
    typer.Option("--chip", "--gpu", help="The GPU, such as H200; `tilewright model hardware` lists them."),
    Gives("gpu", "chip"),
]


TileOption = Annotated[
    str,
    typer.Option("--tile", help="M,N,K of a CTA's tile and step."),
    Gives("tile_m", "tile_n", "tile_k"),
]


Record = Annotated[
    Path | None,
    typer.Option(
        "--record", help="What a command of `bench micro` wrote with --output, shown beside.", show_default=False
    ),
]


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """The form of the result."""

    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw it into this file: .svg (light and dark), .png or .pdf.")
    ] = None
    dark: Annotated[bool, typer.Option("--dark", help="Draw it for a dark page.")] = False
    as_json: Json = False

    def show(self, record: dict[str, Any], table: Callable[[], None], picture: "Callable[[], Figure]") -> None:
        """Draw the picture if it is asked for, and print the record or the table.

        Raises an ArgumentValueError if the picture cannot be written, or is only said to be dark.
        """
        if self.dark and self.plot is None:
            raise ArgumentValueError("--dark is about the picture, and there is none: give --plot FILE, too")
        if self.plot is not None:
            require_plot(self.plot)
            from tilewright.plots.style import save

            try:
                save(picture(), self.plot, dark=self.dark)
            except OSError as error:
                raise ArgumentValueError(
                    f"--plot={self.plot} cannot be written: {error.strerror}: name another file"
                ) from None
            typer.echo(f"drawn into {self.plot}", err=True)
        if self.as_json:
            print_json(record)
        else:
            table()


def whole_numbers(text: str, option: str, names: str, least: int = 1) -> tuple[int, ...]:
    """The numbers of "128,256" or "128x256".

    names: one for each, such as "M,N". least: each of them. Raises an ArgumentValueError if there are more or fewer,
    and for less.
    """
    parts = text.strip().lower().replace("x", ",").split(",")
    numbers = [int(part) if part.strip().isdecimal() and len(part) < 20 else -1 for part in parts]
    if len(numbers) != len(names.split(",")) or min(numbers) < least:
        raise ArgumentValueError(f"{option}={text!r} is not {names}: write whole numbers from {least} on, with commas")
    return tuple(numbers)


def recorded(path: Path, name: str, chip: str | None) -> dict[str, Any]:
    """A record of `tilewright bench micro NAME`, measured on a chip; raises an ArgumentValueError for another.

    chip: None stands for any GPU.
    """
    from tilewright.cli import records
    from tilewright.cli.bench import schema

    kinds = {
        "wgmma": schema.MicroWgmma, "loads": schema.MicroLoads, "strides": schema.MicroStrides,
        "power": schema.MicroPower, "occupancy": schema.MicroOccupancy, "banks": schema.MicroBanks,
        "fma": schema.MicroFma,
    }  # fmt: skip
    content = records.read(path, f"tilewright bench micro {name} --output", kinds[name])
    if content["gpu"] is None or chip not in (None, content["gpu"]):
        found, wanted = content["gpu"] or "the emulator", chip or "a GPU"
        raise ArgumentValueError(f"--record={path} is of {found}: give one of {wanted}")
    return content
