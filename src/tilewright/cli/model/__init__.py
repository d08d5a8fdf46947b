"""`tilewright model TOPIC`: why a kernel takes the time that it takes, as arithmetic that needs no GPU.

Each topic is a function of one of the modules here: options, a table, and a picture where people would rather look.
What it computes is in `tilewright.model`, and docs/machine/ teaches it.
"""

from collections.abc import Callable
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

TOPICS: dict[Callable[..., None], str] = {
    machine.hardware: "tilewright.model.chips.chip_of",
    light.speed_of_light: "tilewright.model.speed_of_light.of_product",
    roof.roofline: "tilewright.model.roofline.roofs",
    residency.occupancy: "tilewright.model.occupancy.occupancy",
    residency.waves: "tilewright.model.waves.waves",
    tilings.loops: "tilewright.model.tiling.loop_orders.loop_order",
    tilings.block: "tilewright.model.tiling.levels.fma_per_word",
    tilings.tiling: "tilewright.model.tiling.levels.levels",
    tilings.chains: "tilewright.model.tiling.chains.chain_clocks",
    memory.coalescing: "tilewright.model.memory.coalescing.coalescing",
    memory.banks: "tilewright.model.memory.banks.bank_use",
    memory.swizzle: "tilewright.model.memory.swizzle.swizzle_of",
    caches.l1: "tilewright.model.memory.l1.flow_of",
    fragments.fragments: "tilewright.model.fragments.instructions.fragments_of",
    volta.volta: "tilewright.model.volta.tensor_core.instructions",
    volta.control: "tilewright.model.volta.control.control_of",
    volta.issue: "tilewright.model.volta.issue.mix_clocks",
    raster.raster: "tilewright.model.schedules.schedules",
    caches.l2: "tilewright.model.schedules.schedule_in_partitions",
    distance.dram: "tilewright.model.memory.dram.dram_of",
    distance.dsmem: "tilewright.model.memory.dsmem.levels",
    copies.tensor_map: "tilewright.model.tensor_map.TensorMapModel",
    multiply.wgmma: "tilewright.model.wgmma_time.wgmma_time",
    multiply.swap_ab: "tilewright.model.swap_ab.swap_advice",
    timeline.timeline: "tilewright.model.timeline.play",
    numbers.formats: "tilewright.model.precision.formats.format_named",
    numbers.sums: "tilewright.model.precision.sums.error_growth",
    language.llm: "tilewright.model.llm.time.least_pass",
    language.amdahl: "tilewright.model.llm.time.amdahl",
    peers.cutlass: "tilewright.kernels.cutlass.counterpart",
    peers.column_major: "tilewright.model.column_major.blas_call",
}
"""The topics in the order of docs/machine/README.md, each with the function that a program asks."""

app = typer.Typer(cls=Commands, invoke_without_command=True, rich_markup_mode="rich")
for topic, function in TOPICS.items():
    app.command(cls=Command, epilog=f"From Python: {function}")(topic)


@app.callback()
def model(context: typer.Context, as_json: Json = False) -> None:
    """Compute why a kernel takes the time that it takes: one topic at a time, without a GPU.

    Each topic's --help has examples, and names the function that a Python program asks.

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
