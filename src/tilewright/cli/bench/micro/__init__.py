"""`tilewright bench micro`: microbenchmarks, the measured side of what `tilewright model` computes."""

import typer

from tilewright.cli.bench.micro import chains, products, reads
from tilewright.cli.command import Command, Commands

app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="rich")
for each in (chains.wgmma, chains.fma, chains.loads, chains.banks, reads.strides, products.occupancy, products.power):
    app.command(cls=Command)(each)


@app.callback()
def micro() -> None:
    """Measure one instruction at a time on a GPU, and compare with the model.

    Without a GPU, the emulator checks the kernels and their results instead; it has no clock.

    \b
    Examples:
      tilewright bench micro wgmma --output wgmma_h200.json
      tilewright bench micro fma --help
      tilewright bench micro loads
      tilewright bench micro banks --addresses "lane*128"
      tilewright bench micro power --output power_h200.json
      tilewright bench micro strides --help
      tilewright bench micro occupancy --shape 1024
    """
