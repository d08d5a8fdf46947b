"""The topics `llm` and `amdahl`: the products of a language model on a chip, and what faster ones would gain."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions
from tilewright.cli.options import Json
from tilewright.cli.output import columns, compact, console, number, print_json, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PhaseName(StrEnum):
    """Reading a prompt, or writing a token of each sequence."""

    prefill = "prefill"
    decode = "decode"


@command
def llm(
    output: PictureOptions,
    model: Annotated[
        str, typer.Argument(help="llama-2-7b, deepseek-v3... or the path of a config.json.", show_default=False)
    ],
    phase: Annotated[PhaseName, typer.Option("--phase", help="Reading a prompt, or writing.")] = PhaseName.prefill,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", help="Of the prompt, or sequences that write at once.", show_default="2048, or 1"),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", help="Tokens that each sequence already has.", show_default="0, or 2048 in decode"),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="What is multiplied: bf16, fp8, int8...", show_default="bf16, or fp16 where there is none"
        ),
    ] = None,
    weight_bits: Annotated[
        float | None,
        typer.Option(
            "--weight-bits", help="Of a weight in memory, if fewer than it is multiplied in.", show_default=False
        ),
    ] = None,
    chip: Chip = "H200",
) -> None:
    """The products of a language model: operations, bytes, what bounds each, and its time in a layer and for a token.

    The least time is that at the chip's speed of light. The predicted one is what the cost model says of a kernel of
    tilewright; where it has none, it is the roofline's at the efficiency that the last line says.

    \b
    Examples:
      tilewright model llm llama-2-7b
      tilewright model llm llama-2-7b --phase decode --chip V100
      tilewright model llm deepseek-v3 --phase decode --tokens 64 --dtype fp8 --json
      tilewright model llm llama-3.1-70b --phase decode --tokens 16 --weight-bits 4
      tilewright model llm qwen3-30b-a3b --plot llm.svg
    """
    from tilewright.explaining.language_model import EFFICIENCY, ROOFLINE, predicted_pass
    from tilewright.model.chips import BYTES, chip_of
    from tilewright.model.llm.architecture import named
    from tilewright.model.llm.memory import memory
    from tilewright.model.llm.products import attention, parameters, products
    from tilewright.model.llm.time import amdahl, least_pass
    from tilewright.rounding import natural

    found_chip, found_model = chip_of(chip), named(model, "MODEL")
    kind = dtype or found_chip.usual
    decoding = phase == PhaseName.decode
    count = natural("--tokens", (1 if decoding else 2048) if tokens is None else tokens, least=1)
    before = natural("--context", (2048 if decoding else 0) if context is None else context)
    gemms = products(found_model, count)
    beside = attention(found_model, count, before, phase.value)
    whole = least_pass(gemms, beside, found_chip, count, kind, weight_bits)
    predicted = predicted_pass(whole, gemms, found_chip, kind, weight_bits)
    sequences, each_tokens = (count, before + 1) if decoding else (1, before + count)
    weight_bytes = BYTES[found_chip.rate(kind).operands] if weight_bits is None else weight_bits / 8
    held = memory(found_model, found_chip, sequences, each_tokens, weight_bytes)
    record: dict[str, Any] = {
        "model": found_model.name, "phase": phase.value, "tokens": count, "context": before, "chip": found_chip.name,
        "dtype": kind, "weight_bits": 8 * weight_bytes, "parameters": parameters(found_model), **held.as_dict(),
        "layers": found_model.layers, "products": [],
    }  # fmt: skip
    for product, work, guess in zip(gemms, whole.gemms, predicted.gemms, strict=True):
        record["products"].append({
            "name": product.name, "m": product.m, "n": product.n, "k": product.k, "copies": product.copies,
            "layers": product.layers, "flops": work.flops, "bytes": work.nbytes, "bound": work.light.bound,
            "least_seconds": work.light.seconds, "predicted_seconds": guess.seconds, "predicted_by": guess.by,
        })  # fmt: skip
    least = whole.times()
    record |= {
        "attention": {
            "flops": beside.flops, "bytes": beside.nbytes, "least_seconds": whole.attention.seconds,
            "predicted_seconds": predicted.attention.seconds, "predicted_by": predicted.attention.by,
        },
        "least": least.as_dict(), "predicted": predicted.times.as_dict(),
        "roofline_efficiency": EFFICIENCY, "why_roofline": list(predicted.reasons),
        "gemm_share": whole.gemm_share, "gain_of_doubling_gemms": amdahl(whole.gemm_share, 2),
    }  # fmt: skip

    def show() -> None:
        head = (
            "in a layer", "m", "n", "k", "times", "FLOP", "bytes", "FLOP/B", "bound", "least us", "predicted", "by",
            "layers",
        )  # fmt: skip
        cells: list[tuple[str, ...]] = [head]
        for product, work, guess in zip(gemms, whole.gemms, predicted.gemms, strict=True):
            sizes = map(number, (product.m, product.n, product.k, product.copies))
            work_of = (compact(round(work.flops)), compact(round(work.nbytes)), number(work.flops / work.nbytes))
            times = (number(work.light.seconds * 1e6, 3), number(guess.seconds * 1e6, 3), guess.by)
            cells.append((product.name, *sizes, *work_of, work.light.bound, *times, str(work.layers)))
        columns(cells, gap=2, headings=1)
        what = (
            f"{_counted(count, 'sequence')} with {before:,} tokens"
            if decoding
            else f"{count:,} tokens after {before:,}"
        )
        bits = "" if weight_bits is None else f" with weights of {weight_bits:g} bits"
        table(f"{found_model.name}, {phase.value} of {what} in {kind}{bits} on {found_chip.name}", {
            "weights": f"{number(held.weights / 1e9)} GB",
            "keys and values": f"{number(held.cache / 1e9)} GB of {_counted(sequences, 'sequence')} of "
            f"{_counted(each_tokens, 'token')}",
            f"both on {_counted(held.gpus, 'GPU')}": f"{number(held.each / 1e9)} of {number(held.gpu / 1e9)} GB"
            + " each" * (held.gpus > 1),
            "of the least time, GEMMs": f"{whole.gemm_share:.1%}",
            "with GEMMs twice as fast, all is": f"{record['gain_of_doubling_gemms']:.2f} times as fast",
        })  # fmt: skip
        columns([("time", "a layer, us", "all, ms", "a token, us", "tokens/s"), *(
            (name, number(each.layer * 1e6), number(each.whole * 1e3), number(each.token * 1e6),
             number(1 / each.token, 3))
            for name, each in (("at the speed of light", least), ("predicted", predicted.times))
        )], indent=2, gap=3, headings=1)  # fmt: skip
        if held.gpus > 1:
            remark = (
                f"one {found_chip.name} does not hold them, and {held.gpus:,} do: the times are those of one with "
                "enough memory"
            )
            console().print(remark, markup=False)
        shares = " or ".join(f"{share:.0%} of the {_LIMITS[bound]}" for bound, share in EFFICIENCY.items())
        works = "attention itself" + " and the products that say so" * bool(predicted.reasons)
        console().print(f"{ROOFLINE}, at {shares}: {works}", markup=False)
        if predicted.reasons:
            more = len(predicted.reasons) - 1
            others = f" (--json has {more} more alike)" if more else ""
            console().print(f"why no kernel: {predicted.reasons[0]}{others}", markup=False)

    def draw() -> "Figure":
        from tilewright.plots.language import intensities

        title = f"{found_model.name}, {phase.value} of {count} in {kind} on {found_chip.name}"
        likely = [each.seconds for each in (*predicted.gemms, predicted.attention)]
        peak = found_chip.flops(found_chip.rate(kind))
        return intensities(whole, likely, peak, found_chip.gpu.memory_bandwidth, title)

    output.show(record, show, draw)


_LIMITS = {"compute": "chip's arithmetic", "memory": "bandwidth"}
"""What bounds work, in words."""


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


@command
def amdahl(
    share: Annotated[float, typer.Argument(help="The share of the time that becomes faster, from 0 to 1.")] = 0.8,
    speedup: Annotated[float, typer.Option("--speedup", help="How many times as fast it becomes.")] = 2.0,
    as_json: Json = False,
) -> None:
    """How much faster all becomes if a part of it does (Amdahl's law).

    \b
    Examples:
      tilewright model amdahl 0.8
      tilewright model amdahl 0.95 --speedup 10 --json
    """
    from tilewright.model.llm.time import amdahl as gain_of

    gain = gain_of(share, speedup)
    most = None if share == 1 else 1 / (1 - share)
    if as_json:
        print_json({"share": share, "speedup": speedup, "gain": gain, "most": most})
        return
    rows: dict[str, object] = {
        "all becomes": f"{number(gain, 3)} times as fast",
        "at most": "without bound" if most is None else f"{number(most, 3)} times",
    }
    table(f"{share:.1%} of the time, {speedup:g} times as fast", rows)
