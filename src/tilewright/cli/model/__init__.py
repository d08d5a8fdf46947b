"""`tilewright model TOPIC`: why a kernel takes the time that it takes, as arithmetic that needs no GPU.

Each topic is a function of one of the modules here: options, a table, and a picture where people would rather look.
What it computes is in `tilewright.model`, and docs/machine/ teaches it.
"""

from typing import Any

import typer

from tilewright.cli.command import Command, Commands, UsageError
from tilewright.cli.model import (
    caches,
    copies,
    distance,
    fragments,
    language,
    light,
    machine,
    memory,
    multiply,
    numbers,
    peers,
    raster,
    residency,
    roof,
    tilings,
    timeline,
    volta,
)
from tilewright.cli.options import Json
from tilewright.cli.output import facts, print_json

TOPICS = (
    machine.hardware,
    light.speed_of_light,
    roof.roofline,
    residency.occupancy,
    residency.waves,
    tilings.loops,
    tilings.block,
    tilings.tiling,
    tilings.chains,
    memory.coalescing,
    memory.banks,
    memory.swizzle,
    caches.l1,
    fragments.fragments,
    volta.volta,
    volta.control,
    volta.issue,
    raster.raster,
    caches.l2,
    distance.dram,
    distance.dsmem,
    copies.tensor_map,
    multiply.wgmma,
    multiply.swap_ab,
    timeline.timeline,
    numbers.formats,
    numbers.sums,
    language.llm,
    language.amdahl,
    peers.cutlass,
    peers.column_major,
)
"""The topics in the order of docs/machine/README.md."""

app = typer.Typer(cls=Commands, invoke_without_command=True, rich_markup_mode="rich")
for topic in TOPICS:
    app.command(cls=Command)(topic)


@app.callback()
def model(context: typer.Context, as_json: Json = False) -> None:
    """Compute why a kernel takes the time that it takes: one topic at a time, without a GPU.

    \b
    Examples:
      tilewright model
      tilewright model waves 4096 4096 --tile 128,256 --plot waves.svg
      tilewright model waves --help
    """
    if context.invoked_subcommand is not None:
        if as_json:
            raise UsageError(f"--json stands before {context.invoked_subcommand}: write it behind, at the end")
        return
    commands: Any = getattr(context.command, "commands", {})
    topics = {name: str(command.get_short_help_str(limit=200)) for name, command in commands.items()}
    if as_json:
        print_json({"topics": topics})
    else:
        facts(topics)
