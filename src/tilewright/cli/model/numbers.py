"""The topics `formats` and `sums`: what numbers of few bits can say, and what sums of their products lose."""

from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import PictureOptions
from tilewright.cli.output import columns, number
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.model.precision.sums import Numbers, SumError

PAIRS = (
    ("fp32", "fp32", 0), ("tf32", "fp32", 0), ("fp16", "fp32", 0), ("fp16", "fp16", 0), ("bf16", "fp32", 0),
    ("bf16", "bf16", 0), ("e4m3", "fp32", 0), ("e4m3", "e8m13", 0), ("e4m3", "e8m13", 128), ("e5m2", "fp32", 0),
    ("e2m1", "fp32", 0),
)  # fmt: skip
"""Inputs, accumulators and lengths of promotion that `sums` compares where none is named."""


@command
def formats(
    output: PictureOptions,
    value: Annotated[
        float | None, typer.Option("--value", help="Also round this number to each format.", show_default=False)
    ] = None,
) -> None:
    """The range and the spacing of each floating-point format, decoded from its bits.

    \b
    Examples:
      tilewright model formats
      tilewright model formats --value 0.1
      tilewright model formats --value 300 --json
      tilewright model formats --plot formats.svg
    """
    from tilewright.model.precision.formats import FORMATS

    if value is not None and not isfinite(value):
        raise ArgumentValueError(f"--value={value} must be a finite number: give one")
    found = {}
    for name, each in FORMATS.items():
        found[name] = {
            "bits": each.bits, "exponent_bits": each.exponent_bits, "mantissa_bits": each.mantissa_bits,
            "least_subnormal": each.least_subnormal, "least_normal": each.least_normal, "most": each.most,
            "epsilon": each.epsilon, "specials": each.specials,
        }  # fmt: skip
    rounded = {} if value is None else {name: float(each.rounded(value)) for name, each in FORMATS.items()}
    spelled = {name: number if isfinite(number) else str(number) for name, number in rounded.items()}

    def show() -> None:
        rounding = () if value is None else (f"{value:g}",)
        heading = ("format", "1 + e + m", "least", "least normal", "most", "epsilon", "specials")
        cells: list[tuple[str, ...]] = [heading + rounding]
        for name, each in FORMATS.items():
            sizes = (number(part, 3) for part in (each.least_subnormal, each.least_normal, each.most, each.epsilon))
            parts = f"1 + {each.exponent_bits} + {each.mantissa_bits}"
            cells.append((name, parts, *sizes, each.specials, *((number(rounded[name], 8),) if rounded else ())))
        columns(cells, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.numbers import ranges

        return ranges(list(FORMATS.values()))

    output.show({"formats": found, **({"value": value, "rounded": spelled} if rounded else {})}, show, draw)


@command
def sums(
    output: PictureOptions,
    inputs: Annotated[
        str | None, typer.Option("--inputs", help="Format of A and B; by default a table of several.")
    ] = None,
    accumulator: Annotated[
        str, typer.Option("--accumulator", help="Format of the sum, if --inputs is given.")
    ] = "fp32",
    promote: Annotated[
        int, typer.Option("--promote", help="Products after which the sum is added to one in fp32; 0: never.")
    ] = 0,
    most_k: Annotated[int, typer.Option("--k", help="The longest sum.")] = 4096,
    positive: Annotated[
        bool, typer.Option("--positive", help="Numbers from 0 to 1, and not normal ones around 0.")
    ] = False,
) -> None:
    """The errors of dot products by their length, emulated: from rounding inputs, and from adding in few bits.

    \b
    Examples:
      tilewright model sums --inputs fp16 --accumulator fp16
      tilewright model sums --inputs e4m3 --accumulator e8m13 --promote 128 --positive --json
      tilewright model sums --plot sums.svg
      tilewright model sums --k 256
    """
    from tilewright.model.precision.formats import format_named
    from tilewright.model.precision.sums import MOST_K, error_growth
    from tilewright.rounding import natural

    natural("--k", most_k, 1, MOST_K)
    natural("--promote", promote)
    numbers: Numbers = "positive" if positive else "randn"
    lengths = sorted({length for power in range(2, 9) if (length := 4**power) < most_k} | {most_k})
    pairs = PAIRS if inputs is None else ((inputs, accumulator, promote),)
    found: dict[str, list[SumError]] = {}
    for given, added, after in pairs:
        name = f"{given} in {added}" + (f", every {after} to fp32" if after else "")
        formats_of = format_named(given, "--inputs"), format_named(added, "--accumulator")
        found[name] = error_growth(*formats_of, lengths, promote=after, numbers=numbers)
    record = {"numbers": numbers, "errors": {name: [each.as_dict() for each in row] for name, row in found.items()}}

    def show() -> None:
        if inputs is not None:
            cells: list[tuple[str, ...]] = [("k", "by inputs", "by the sum", "total")]
            for each in next(iter(found.values())):
                cells.append((number(each.k), *(number(error, 2) for error in (each.inputs, each.sum, each.total))))
        else:
            cells = [("inputs in sums", *(f"k = {length:,}" for length in lengths))]
            cells += [(name, *(number(each.total, 2) for each in row)) for name, row in found.items()]
        columns(cells, gap=3, headings=1)

    def draw() -> "Figure":
        from tilewright.plots.numbers import growth

        return growth(found, "normal numbers" if numbers == "randn" else "numbers from 0 to 1")

    output.show(record, show, draw)
