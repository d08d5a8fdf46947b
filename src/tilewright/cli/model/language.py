"""The topics `llm` and `amdahl`: the products of a language model on a chip, and what faster ones would gain."""

from enum import StrEnum
from math import ceil, isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import command
from tilewright.cli.model.common import Chip, PictureOptions
from tilewright.cli.options import LEAST_CAPABILITY, Json
from tilewright.cli.output import columns, compact, console, number, print_json, table
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewright.dtypes import DType
    from tilewright.hardware import Hardware
    from tilewright.model.llm.products import Product


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
    dtype: Annotated[str, typer.Option("--dtype", help="What is multiplied: bf16, fp8, int8...")] = "bf16",
    weight_bits: Annotated[
        float | None,
        typer.Option(
            "--weight-bits", help="Of a weight in memory, if fewer than it is multiplied in.", show_default=False
        ),
    ] = None,
    chip: Chip = "H200",
) -> None:
    """The products of a language model: operations, bytes, what bounds each, and its time in a layer and for a token.

    The least time is that at the chip's speed of light. The predicted one is the planner's; where there is none, the
    last line says why.

    \b
    Examples:
      tilewright model llm llama-2-7b
      tilewright model llm llama-2-7b --phase decode --chip H100
      tilewright model llm deepseek-v3 --phase decode --tokens 64 --dtype fp8 --json
      tilewright model llm llama-3.1-70b --phase decode --tokens 16 --weight-bits 4
      tilewright model llm qwen3-30b-a3b --plot llm.svg
    """
    from tilewright.model.chips import BYTES, chip_of
    from tilewright.model.llm.architecture import named
    from tilewright.model.llm.memory import memory
    from tilewright.model.llm.products import attention, parameters, products
    from tilewright.model.llm.time import amdahl, least_pass
    from tilewright.rounding import natural

    found_chip, found_model = chip_of(chip), named(model, "MODEL")
    decoding = phase == PhaseName.decode
    count = natural("--tokens", (1 if decoding else 2048) if tokens is None else tokens, least=1)
    before = natural("--context", (2048 if decoding else 0) if context is None else context)
    gemms = products(found_model, count)
    beside = attention(found_model, count, before, phase.value)
    whole = least_pass(gemms, beside, found_chip, count, dtype, weight_bits)
    multiplied = found_chip.rate(dtype).operands
    unknown = _unpredicted(found_chip.gpu, multiplied, weight_bits)
    predictions: list[float | None] = [None] * len(gemms)
    if unknown is None:
        try:
            predictions = [_predicted(each, multiplied, found_chip.gpu) for each in gemms]
        except TilewrightError as error:
            unknown = str(error)
    if unknown is None and None in predictions:
        unknown = f"the model has no time for the kernel of {gemms[predictions.index(None)].name}"
    sequences, each_tokens = (count, before + 1) if decoding else (1, before + count)
    weight_bytes = BYTES[multiplied] if weight_bits is None else weight_bits / 8
    held = memory(found_model, found_chip, sequences, each_tokens, weight_bytes)
    record: dict[str, Any] = {
        "model": found_model.name, "phase": phase.value, "tokens": count, "context": before, "chip": found_chip.name,
        "dtype": dtype, "parameters": parameters(found_model), **held.as_dict(),
        "layers": found_model.layers, "products": [],
    }  # fmt: skip
    for product, work, seconds in zip(gemms, whole.gemms, predictions, strict=True):
        record["products"].append({
            "name": product.name, "m": product.m, "n": product.n, "k": product.k, "copies": product.copies,
            "layers": product.layers, "flops": work.flops, "bytes": work.nbytes, "bound": work.light.bound,
            "least_seconds": work.light.seconds, "predicted_seconds": seconds,
        })  # fmt: skip
    known = [seconds for seconds in predictions if seconds is not None]
    predicted = None
    if len(known) == len(gemms):
        predicted = sum(each * product.layers for each, product in zip(known, gemms, strict=True))
        predicted += whole.attention.seconds
    record |= {
        "attention": {"flops": beside.flops, "bytes": beside.nbytes, "least_seconds": whole.attention.seconds},
        "least_seconds": whole.seconds, "predicted_seconds": predicted, "not_predicted": unknown,
        "gemm_share": whole.gemm_share, "gain_of_doubling_gemms": amdahl(whole.gemm_share, 2),
    }  # fmt: skip

    def show() -> None:
        head = (
            "in a layer", "m", "n", "k", "times", "FLOP", "bytes", "FLOP/B", "bound", "least us", "predicted", "layers"
        )  # fmt: skip
        cells: list[tuple[str, ...]] = [head]
        for product, work, seconds in zip(gemms, whole.gemms, predictions, strict=True):
            sizes = map(number, (product.m, product.n, product.k, product.copies))
            work_of = (compact(round(work.flops)), compact(round(work.nbytes)), number(work.flops / work.nbytes))
            times = (number(work.light.seconds * 1e6, 3), "-" if seconds is None else number(seconds * 1e6, 3))
            cells.append((product.name, *sizes, *work_of, work.light.bound, *times, str(work.layers)))
        columns(cells, gap=2, headings=1)
        least, gain = whole.seconds, record["gain_of_doubling_gemms"]
        rows: dict[str, object] = {
            "weights": f"{number(held.weights / 1e9)} GB",
            "keys and values": f"{number(held.cache / 1e9)} GB of {_counted(sequences, 'sequence')} of "
            f"{_counted(each_tokens, 'token')}",
            f"both on {_counted(held.gpus, 'GPU')}": f"{number(held.each / 1e9)} of {number(held.gpu / 1e9)} GB"
            + " each" * (held.gpus > 1),
            "a layer": f"{number((least - whole.gemms[-1].seconds) / found_model.layers * 1e6)} us on the average",
            "all layers and logits": f"{number(least * 1e3)} ms at the speed of light",
            "a token": f"{number(least / count * 1e6)} us, {count / least:,.0f} tokens/s",
            "of the time, GEMMs": f"{whole.gemm_share:.1%}",
            "with GEMMs twice as fast, all is": f"{gain:.2f} times as fast",
        }
        if predicted is not None:
            rows["predicted"] = f"{number(predicted * 1e3)} ms, {count / predicted:,.0f} tokens/s"
        what = (
            f"{_counted(count, 'sequence')} with {before:,} tokens"
            if decoding
            else f"{count:,} tokens after {before:,}"
        )
        table(f"{found_model.name}, {phase.value} of {what} in {dtype} on {found_chip.name}", rows)
        if held.gpus > 1:
            remark = (
                f"one {found_chip.name} does not hold them, and {held.gpus:,} do: the times are those of one with "
                "enough memory"
            )
            console().print(remark, markup=False)
        if unknown:
            console().print(f"nothing is predicted: {unknown}", markup=False)

    def draw() -> "Figure":
        from tilewright.plots.language import intensities

        title = f"{found_model.name}, {phase.value} of {count} in {dtype} on {found_chip.name}"
        return intensities(whole, found_chip.flops(found_chip.rate(dtype)), found_chip.gpu.memory_bandwidth, title)

    output.show(record, show, draw)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _unpredicted(gpu: "Hardware", multiplied: str, weight_bits: float | None) -> str | None:
    """Why the planner's model says nothing of such products; None if it does."""
    from tilewright.kernels.registry import KERNELS

    if weight_bits is not None:
        return "the planner's model knows weights of the type that is multiplied, and --weight-bits gives them another"
    if multiplied not in _kinds():
        return f"tilewright has no kernel that multiplies {multiplied}; it has some for {', '.join(_kinds())}"
    if gpu.capability < LEAST_CAPABILITY:
        return f"{gpu.name} is {gpu.arch}, and tilewright's kernels need sm_{LEAST_CAPABILITY}"
    unit = gpu.peak_unit(_kinds()[multiplied])
    if unit not in {kernel.unit for kernel in KERNELS.values()}:
        return f"{gpu.name} multiplies {multiplied} best by {unit}, but no kernel here uses it"
    return None


def _kinds() -> "dict[str, DType]":
    """The types that kernels multiply, by the names that chips have for them."""
    from tilewright.dtypes import PRODUCTS

    kinds: dict[str, DType] = {}
    for a, b in PRODUCTS:
        if a is b:
            kinds.setdefault(a.name.partition("_")[0], a)
    return kinds


def _predicted(product: "Product", multiplied: str, gpu: "Hardware") -> float | None:
    """The seconds that the planner's model gives all copies of a product, as one launch; None if it does not know.

    Raises a TilewrightError if no kernel takes it.
    """
    from tilewright.dtypes import bf16
    from tilewright.planner.choose import choose
    from tilewright.problem import Matrix, Problem

    m, n, k, copies = ceil(product.m), product.n, product.k, max(1, round(product.copies))
    batch, dtype = (copies,) if copies > 1 else (), _kinds()[multiplied]

    def matrix(dtype: "DType", rows: int, columns: int, *, transposed: bool = False) -> Matrix:
        strides = (1, rows) if transposed else (columns, 1)
        return Matrix(dtype, *strides, (rows * columns,) * len(batch))

    out = matrix(bf16 if dtype.nbytes == 1 else dtype, m, n)
    problem = Problem(m, n, k, matrix(dtype, m, k), matrix(dtype, k, n, transposed=True), out, batch)
    seconds = choose(problem, gpu, measured=False).seconds(gpu, power="settled")
    return seconds if isfinite(seconds) else None


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
