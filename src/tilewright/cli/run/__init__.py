"""`tilewright run`: multiply real data, verify it, time it or count it, and say what happened."""

import dataclasses
import time
from collections.abc import Callable
from math import exp, isfinite, prod
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.command import NOT_VERIFIED, command
from tilewright.cli.configs import ConfigOption, changed, require_results
from tilewright.cli.options import (
    ActivationOption,
    BackendName,
    BackendOption,
    BatchInvariantOption,
    BatchOption,
    ElementOptions,
    EpilogueOption,
    GateOption,
    Json,
    KernelOption,
    Layout,
    LayoutOption,
    OperandOption,
    OptionalShapeWords,
    OutputsOption,
    Seed,
    TensorCores,
    TensorCoresOption,
    WithBias,
    ZeroOption,
    emulated_gpu,
    shape_of,
    wants_gpu,
)
from tilewright.cli.output import counter_rows, facts, print_json, progress, table
from tilewright.cli.products import elements_for, epilogue_of, require_elements
from tilewright.errors import ArgumentValueError
from tilewright.hardware import with_article
from tilewright.rounding import three_digits

if TYPE_CHECKING:
    from tilewright.checking.product import Product
    from tilewright.cli.output import Bar
    from tilewright.emulator.semantics.matrices.accumulation import Arithmetic
    from tilewright.hardware import Hardware
    from tilewright.planner.choose import Choice
    from tilewright.planner.plan import Plan
    from tilewright.reference import Comparison

GPU_SHAPE = (4096, 4096, 4096)
EMULATED_SHAPE = (1024, 1024, 1024)
"""The default shapes: the usual one on a GPU, and one that the emulator multiplies in seconds."""
FIRM = 0.8
"""The share of its estimated time after which the bar of an emulation slows down, since it may take longer."""


@command
def run(
    words: OptionalShapeWords = None,
    *,
    types: ElementOptions,
    layout: LayoutOption = Layout.nt,
    batch: BatchOption = 1,
    kernel: KernelOption = "auto",
    config: ConfigOption = None,
    activation: ActivationOption = None,
    zero_a: ZeroOption = False,
    bias: WithBias = False,
    epilogue: EpilogueOption = None,
    operand: OperandOption = None,
    gate: GateOption = None,
    outputs: OutputsOption = None,
    batch_invariant: BatchInvariantOption = False,
    backend: BackendOption = BackendName.auto,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", help="The GPU that is emulated, such as A100; by default H200.", show_default=False),
    ] = None,
    tensor_cores: TensorCoresOption = TensorCores.exact,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Multiply random matrices, verify the product against float64, and time it (GPU) or count it (emulator).

    Without M N K it takes a size that suits this machine.

    \b
    Examples:
      tilewright run
      tilewright run 4096 4096 4096 --dtype bf16
      tilewright run 256 256 256 --dtype fp8_e4m3 --recipe row --bias
      tilewright run 256 256 256 --dtype int8 --recipe row --zero-a
      tilewright run 256 256 256 --dtype fp8_e4m3 --recipe tensor --out-dtype fp8_e4m3 --outputs amax
      tilewright run 300 200 100 --kernel mma --layout tn --bias --activation gelu
      tilewright run 100 512 4096 --backend emulator --config tile_m=64,tile_n=64,split_k=4,cluster_m=2
      tilewright run 256 256 256 --epilogue "gelu(acc + bias) * scale" --operand bias=n --operand scale=m,1
      tilewright run 256 256 256 --gate stacked --activation silu --outputs amax,column_sums
      tilewright run 256 256 256 --batch 4 --backend emulator --json
      tilewright run 256 256 256 --gpu A100
    """
    shape = shape_of(words)
    from tilewright.checking.product import Product
    from tilewright.errors import silence

    silence("tilewright.planner.choose")  # the outcome says why
    on_gpu, elements = gpu is None and wants_gpu(backend), elements_for(types, kernel)
    emulated = emulated_gpu(gpu, backend, elements)
    finished = epilogue_of(elements, epilogue, operand, gate, outputs, bias=bias, activation=activation)
    product = Product.of(
        shape or GPU_SHAPE, elements, layout.value, zero_a=zero_a, batch=batch, batch_invariant=batch_invariant,
        **finished,
    )  # fmt: skip
    require_elements(elements)
    if on_gpu and tensor_cores is TensorCores.hardware:
        raise ArgumentValueError("--tensor-cores hardware is for the emulator, and this runs on a GPU: leave it out")
    outcome = (
        _on_gpu(product, kernel, config, seed)
        if on_gpu
        else _emulated(product, shape or EMULATED_SHAPE, kernel, config, seed, emulated, tensor_cores.value)
    )
    if as_json:
        print_json(outcome.record)
    else:
        facts(outcome.facts)
        if outcome.record.get("counters"):
            table("\nCounters of the emulator", counter_rows(outcome.record["counters"]))
    if not outcome.record["verified"]:
        raise typer.Exit(NOT_VERIFIED)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of `run`: for programs, and by name for people."""

    record: dict[str, Any]
    facts: dict[str, str]


def _on_gpu(product: "Product", kernel: str, fields: list[str] | None, seed: int) -> Outcome:
    import numpy as np

    from tilewright.api import plan
    from tilewright.backends.gpu import backend
    from tilewright.cli.run.placement import gpu_placement

    product.require_memory()
    operands, written = product.operands(seed), product.outputs()
    placement = gpu_placement(product.dtype)
    arrays = {name: placement.from_numpy(array) for name, array in (operands | written).items()}
    # NaN shows elements that were not written.
    poisoned = np.full(product.out_shape, product.elements.poison, product.out_dtype.numpy_dtype)
    out = placement.from_numpy(poisoned)
    a, b, added = arrays["a"], arrays["b"], product.added(arrays)
    config = None
    if fields:
        choice = _choice(product, kernel, fields, backend(0).hardware)
        kernel, config = choice.kernel.name, choice.config
    planned = plan(a, b, **added, **product.epilogue, out=out, kernel=kernel, config=config, backend="gpu")
    planned(a, b, **added, out=out)
    written = {name: placement.to_numpy(arrays[name]) for name in written}
    comparison = product.verify(placement.to_numpy(out), operands | written, planned.accumulator)
    outcome = _outcome(product, planned, comparison, planned.reason)
    if planned.kernel is not None:
        _time(planned, lambda stream: planned(a, b, **added, out=out, stream=stream), outcome)
        outcome.facts["operands"] = placement.name
    return outcome


def _time(planned: "Plan", launch: Callable[[int], object], outcome: Outcome) -> None:
    """Time launches and compare them with the speed of light."""
    from tilewright.backends.gpu import GpuBackend
    from tilewright.measure.timing import time_launches
    from tilewright.model.speed_of_light import speed_of_light

    problem, gpu = planned.problem, planned.backend
    assert isinstance(gpu, GpuBackend)
    with gpu.current():
        timing = time_launches(launch)
    light = speed_of_light(problem, gpu.hardware)
    share = light.seconds / timing.median
    tflops = problem.flops / timing.median / 1e12
    outcome.record.update({"time_us": timing.median * 1e6, "tflops": tflops, "speed_of_light_share": share})
    if light.bound == "memory":
        limit = f"memory at {gpu.hardware.memory_bandwidth / 1e12:.1f} TB/s"
    else:
        unit = gpu.hardware.peak_unit(problem.a.dtype)
        cores = "the CUDA cores" if unit == "cuda_cores" else "the tensor cores"
        limit = f"{cores} at {gpu.hardware.clock(unit) / 1e9:.2f} GHz"
    outcome.facts["time"] = (
        f"{timing.median * 1e6:.1f} us (quartiles {timing.low * 1e6:.1f} to {timing.high * 1e6:.1f}){_rate(tflops)}"
    )
    outcome.facts["share"] = f"{share:.1%} of the speed of light, which is {light.seconds * 1e6:.1f} us by {limit}"


def _paced(bar: "Bar", seconds: float, launches: int) -> Callable[[float], None]:
    """What sets the bar of an emulation that takes about so many seconds, given the share of the CTAs that have ended.

    CTAs that run together end together, so until then time tells. Of several launches, each has a share of its own.
    """
    begun: float | None = None  # the first launch, after the compilation

    def paced(share: float) -> None:
        nonlocal begun
        begun = time.monotonic() if begun is None else begun
        by_time = (time.monotonic() - begun) / seconds
        if by_time > FIRM:
            by_time = 1 - (1 - FIRM) * exp((FIRM - by_time) / (1 - FIRM))
        bar(max(share, by_time) if launches == 1 else by_time)

    return paced


def _emulated(
    product: "Product",
    shape: tuple[int, int, int],
    kernel: str,
    fields: list[str] | None,
    seed: int,
    gpu: "Hardware",
    tensor_cores: "Arithmetic",
) -> Outcome:
    """Multiply `shape` with the kernel and the Config that `product` gets on the GPU that the emulator represents."""
    from tilewright.api import plan
    from tilewright.backends.emulated import EmulatedBackend
    from tilewright.backends.emulation_limit import emulation_seconds, refuse_long_emulation

    small = product.resized(*shape)
    with progress(f"emulating {small}") as bar:
        config, reason, report = None, "", None
        small.require_memory()
        if fields or not product.problem.is_empty:
            choice = _choice(product, kernel, fields, gpu)
            kernel, config, reason = choice.kernel.name, choice.config, choice.reason
            refuse_long_emulation(choice.kernel, config, small.problem, gpu)
            seconds = emulation_seconds(choice.kernel, config, small.problem, gpu)
            report = _paced(bar, seconds, len(choice.launches(gpu)))
        backend = EmulatedBackend(gpu, tensor_cores=tensor_cores, count_memory=True, progress=report)
        operands = small.operands(seed) | small.outputs()
        a, b, added = operands["a"], operands["b"], small.added(operands)
        planned = plan(
            a,
            b,
            **added,
            **small.epilogue,
            out_dtype=small.out_dtype.name,
            kernel=kernel,
            config=config,
            backend=backend,
        )
        out, counters = planned.counted(a, b, **added)
    comparison = small.verify(out, operands, planned.accumulator)
    outcome = _outcome(small, planned, comparison, reason or planned.reason)
    if planned.kernel is not None:
        outcome.record["counters"] = counters.as_dict()
        if small != product:
            outcome.facts["smaller"] = f"it has the kernel and Config of {product}, which is too much for the emulator"
        _predict(product, planned, outcome)
    return outcome


def _choice(product: "Product", kernel: str, fields: list[str] | None, gpu: "Hardware") -> "Choice":
    """What the planner chooses for a product on a GPU, with the fields of --config if there are any."""
    from tilewright.planner.choose import choose

    require_results(fields, product.problem)
    choice = choose(product.as_called, gpu, kernel=kernel)
    if not fields:
        return choice
    config = changed(choice.kernel, choice.copied.problem, gpu, fields, choice.config)
    return choose(product.as_called, gpu, kernel=choice.kernel.name, config=config)


def _predict(product: "Product", planned: "Plan", outcome: Outcome) -> None:
    """The model's prediction for `product` on the GPU that the emulator represents; the ladder's rungs have none."""
    from tilewright.planner.copies import Copied, copied

    problem, hardware = product.as_called, planned.backend.hardware
    assert planned.kernel is not None
    copies = copied(problem, planned.kernel, hardware)
    assert isinstance(copies, Copied)
    prediction = planned.kernel.predict(planned.config, copies.problem, hardware)
    if prediction is None:
        return
    us = (prediction.seconds + copies.seconds(hardware)) * 1e6
    tflops = problem.flops / us / 1e6
    outcome.record.update({"predicted_time_us": us, "predicted_tflops": tflops})
    useful = f"{prediction.quantization:.1%}" if prediction.quantization >= 0.001 else "less than 0.1%"
    outcome.facts["predicted"] = (
        f"{us:.1f} us on {with_article(hardware.name)} for {product}{_rate(tflops)}, once its clocks have settled"
    )
    share = f" (with {useful} of the work that fits in them)" if problem.flops else ""
    split_k = getattr(planned.config, "split_k", 1)
    of_each = f" of {split_k} CTAs each" if split_k > 1 else ""
    tiles = prediction.tile_count // split_k  # it counts a tile for each CTA that sums a part of it
    outcome.facts["because"] = f"tiles {tiles:,}{of_each}, waves {prediction.waves:,}{share}"


def _rate(tflops: float) -> str:
    """The rate as a further clause; nothing for a product without a sum, which has no arithmetic."""
    return f", {three_digits(tflops)} TFLOP/s" if tflops else ""


def _outcome(product: "Product", planned: "Plan", comparison: "Comparison", reason: str) -> Outcome:
    """The part of the outcome that is the same on a GPU and in the emulator."""
    from tilewright.explaining.explanation import product_record

    total = prod(product.out_shape)
    record = {
        "kernel": planned.kernel.name if planned.kernel else None,
        "config": dataclasses.asdict(planned.config) if planned.config else None,
        "backend": planned.backend.name,
        "gpu": planned.backend.hardware.name,
        **product_record(product.problem),
        "layout": product.layout,  # as it was asked for, also where an extent is 1
        "verified": comparison.verified,
        # JSON has no NaN, the value of an element that was not written.
        "relative_error": comparison.relative_error if isfinite(comparison.relative_error) else None,
        "error_bound": comparison.error_bound,
        "checked_elements": comparison.elements,
        "special_elements": comparison.special,
        "uncertain_elements": comparison.uncertain,
        "total_elements": total,
        "reason": reason,
    }
    hardware = planned.backend.hardware.name
    place = (
        f"on {hardware}"
        if planned.backend.name == "gpu"
        else f"in the emulator, which stands for {with_article(hardware)}"
    )
    facts = {"product": f"{product}, {place}"}
    if planned.kernel is None:
        return Outcome(record, facts | {"kernel": "none", "why": reason})
    return Outcome(
        record,
        facts
        | {
            "kernel": f"{planned.kernel.name} as {planned.config}",
            "why": reason.removeprefix(f"{planned.kernel.name}: "),
            "result": _verdict(comparison, total, has_sums=product.k > 0),
        },
    )


def _verdict(comparison: "Comparison", total: int, *, has_sums: bool) -> str:
    """What the comparison found, of which elements, and why others were left out."""
    special, uncertain, compared = comparison.special, comparison.uncertain, comparison.elements
    if comparison.verified is None:
        return f"not verified: each of {uncertain:,} elements may overflow or be NaN, so that none can be compared"
    found = "Inf or NaN as in float64"
    if compared > special or not compared:
        bound = f", bound {comparison.error_bound:.2e}" if has_sums else ""  # that of rounding one addend says nothing
        found = f"relative error {comparison.relative_error:.2e} against float64{bound}"
    notes = {
        "sampled rows and columns": compared + uncertain < total,
        f"{special:,} of them must be Inf or NaN": 0 < special < compared,
        f"{uncertain:,} left out, which may overflow or be NaN": uncertain > 0,
    }
    said = "; ".join(note for note, applies in notes.items() if applies)
    over = f"{compared:,} of {total:,}" if compared < total else f"all {total:,}"
    return f"{'right' if comparison.verified else 'WRONG'}: {found}, over {over} elements{said and f' ({said})'}"
