"""`tilewright run`: multiply real data, verify it, time it or count it, and say what happened."""

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.options import (
    ActivationOption,
    DTypeName,
    DTypeOption,
    Json,
    K,
    Layout,
    LayoutOption,
    M,
    N,
    Seed,
    shape_of,
)
from tilewright.cli.output import (
    NOT_VERIFIED,
    console,
    counter_rows,
    plain_counters,
    print_json,
    progress,
    reports_errors,
    table,
)

if TYPE_CHECKING:
    from tilewright.cli.product import Product
    from tilewright.measure.timing import Timing
    from tilewright.planner.plan import Plan
    from tilewright.reference import Comparison

GPU_SHAPE = (4096, 4096, 4096)
EMULATED_SHAPE = (512, 512, 512)
"""Without M N K: the usual yardstick on a GPU, and what the emulator multiplies in seconds."""


class BackendName(StrEnum):
    """Where to run."""

    auto = "auto"
    gpu = "gpu"
    emulator = "emulator"


@reports_errors
def run(
    m: M = None,
    n: N = None,
    k: K = None,
    dtype: DTypeOption = DTypeName.bf16,
    out_dtype: Annotated[
        DTypeName | None, typer.Option("--out-dtype", help="Element type of the result; A's by default.")
    ] = None,
    layout: LayoutOption = Layout.nt,
    kernel: Annotated[str, typer.Option("--kernel", help="auto, or a kernel's name.")] = "auto",
    activation: ActivationOption = None,
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="Add a vector along N.")] = False,
    backend: Annotated[BackendName, typer.Option("--backend", help="Where to run.")] = BackendName.auto,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Multiply random matrices, verify the product against float64, and time it (GPU) or count it (emulator).

    Without M N K it takes a size that suits this machine.

    \b
    Examples:
      tilewright run
      tilewright run 4096 4096 4096 --dtype bf16
      tilewright run 300 200 100 --kernel mma --layout tn --bias --activation gelu
      tilewright run 256 256 256 --backend emulator --json
    """
    shape = shape_of(m, n, k)
    from tilewright import dtypes
    from tilewright.api import gpu_count
    from tilewright.cli.product import Product

    on_gpu = backend == BackendName.gpu or (backend == BackendName.auto and gpu_count() > 0)
    kind = dtypes.parse(dtype.value, "--dtype")
    product = Product(
        *(shape or GPU_SHAPE),
        dtype=kind,
        out_dtype=dtypes.parse(out_dtype.value, "--out-dtype") if out_dtype else kind,
        layout=layout.value,
        bias=bias,
        activation=activation.value if activation else None,
    )
    outcome = _on_gpu(product, kernel, seed) if on_gpu else _emulated(product, shape or EMULATED_SHAPE, kernel, seed)
    if as_json:
        print_json(outcome.record)
    else:
        console().print(outcome.story)
        if outcome.record.get("counters"):
            table("\nWhat the emulator counted", counter_rows(outcome.record["counters"]))
    if not outcome.record["verified"]:
        raise typer.Exit(NOT_VERIFIED)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What `run` found: for programs and for people."""

    record: dict[str, Any]
    story: str


def _on_gpu(product: "Product", kernel: str, seed: int) -> Outcome:
    from tilewright.api import plan
    from tilewright.cli.product import gpu_library
    from tilewright.model.speed_of_light import speed_of_light

    operands = product.operands(seed)
    library = gpu_library(product.dtype)
    arrays = {name: library.from_numpy(array) for name, array in operands.items()}
    a, b, bias = arrays["a"], arrays["b"], arrays.get("bias")
    planned = plan(
        a, b, bias=bias, activation=product.activation, out_dtype=product.out_dtype, kernel=kernel, backend="gpu"
    )
    out = planned(a, b, bias=bias)
    comparison = product.verify(library.to_numpy(out, product.out_dtype), operands)
    record = _record(product, planned, comparison, planned.reason)
    story = f"{_what_ran(product, planned, planned.reason)} {_how_right(comparison)}"
    if planned.kernel is not None:
        timing = _time(planned, {**arrays, "out": out})
        light = speed_of_light(planned.problem, planned.backend.hardware)
        share = light.seconds / timing.median
        tflops = planned.problem.flops / timing.median / 1e12
        record |= {"time_us": timing.median * 1e6, "tflops": tflops, "speed_of_light_share": share}
        story += (
            f" It takes {timing.median * 1e6:.1f} us (quartiles {timing.low * 1e6:.1f} to {timing.high * 1e6:.1f}), "
            f"{tflops:.0f} TFLOP/s: {share:.1%} of the speed of light, {light.seconds * 1e6:.1f} us, which "
            f"{_limit(planned, light.bound)} sets. The operands are {library.name} arrays."
        )
    return Outcome(record, story)


def _limit(planned: "Plan", bound: str) -> str:
    hardware = planned.backend.hardware
    if bound == "memory":
        return f"memory at {hardware.memory_bandwidth / 1e12:.1f} TB/s"
    unit = "the tensor cores" if planned.problem.a.dtype.nbytes == 2 else "the CUDA cores"
    return f"the arithmetic of {unit} at {hardware.boost_clock / 1e9:.2f} GHz"


def _time(planned: "Plan", arrays: dict[str, Any]) -> "Timing":
    """Time launches alone: the operands stay on the GPU, whatever library they came from."""
    from tilewright.backends.gpu import GpuBackend
    from tilewright.binding import OPERANDS
    from tilewright.measure.timing import time_launches
    from tilewright.operand import adopt

    gpu, launch = planned.backend, planned._executable
    assert isinstance(gpu, GpuBackend)
    assert launch is not None
    operands = {name: adopt(array, name) for name, array in arrays.items()}
    with gpu.resident(operands, 0) as addresses, gpu.current():
        pointers = tuple(addresses.get(OPERANDS[role], 0) for role in planned._roles)
        return time_launches(lambda stream: launch(pointers, 1.0, 0.0, stream))


def _emulated(product: "Product", shape: tuple[int, int, int], kernel: str, seed: int) -> Outcome:
    """Multiply `shape` with the kernel and the Config that `product` gets on the GPU that the emulator stands for."""
    from tilewright.api import plan
    from tilewright.backends.emulated import EmulatedBackend
    from tilewright.planner.rules import choose

    small = product.resized(*shape)
    operands = small.operands(seed)
    with progress(f"emulating {small.problem}") as report:
        backend = EmulatedBackend(count_memory=True, progress=report)
        config, reason = None, ""
        if not product.problem.is_empty:
            choice = choose(product.problem, backend.hardware, kernel=kernel)
            kernel, config, reason = choice.kernel.name, choice.config, choice.reason
        a, b, bias = operands["a"], operands["b"], operands.get("bias")
        planned = plan(
            a,
            b,
            bias=bias,
            activation=small.activation,
            out_dtype=small.out_dtype.name,
            kernel=kernel,
            config=config,
            backend=backend,
        )
        out = planned(a, b, bias=bias)
    comparison = small.verify(out, operands)
    reason = reason or planned.reason
    record = _record(small, planned, comparison, reason)
    story = f"{_what_ran(small, planned, reason)} {_how_right(comparison)}"
    if planned.kernel is not None:
        record["counters"] = plain_counters(planned.counters)
        story += " " + _predict(product, planned, record)
    return Outcome(record, story)


def _predict(product: "Product", planned: "Plan", record: dict[str, Any]) -> str:
    from tilewright.model.speed_of_light import UNITS, predict

    problem, hardware = product.problem, planned.backend.hardware
    assert planned.kernel is not None
    ctas = planned.kernel.launch_shape(planned.config, problem, hardware).grid
    prediction = predict(
        problem,
        hardware,
        planned.config.tile_m,
        planned.config.tile_n,
        ctas,
        unit=UNITS[planned.kernel.name],
    )
    record |= {"predicted_time_us": prediction.seconds * 1e6, "predicted_tflops": prediction.tflops}
    return (
        f"On an {hardware.name} the model predicts {prediction.seconds * 1e6:.1f} us for {problem}, "
        f"{prediction.tflops:.0f} TFLOP/s: {prediction.tile_count} tiles in {prediction.waves} waves "
        f"({prediction.quantization:.0%} of them useful) at {prediction.clock / 1e9:.2f} GHz."
    )


def _record(product: "Product", planned: "Plan", comparison: "Comparison", reason: str) -> dict[str, Any]:
    return {
        "kernel": planned.kernel.name if planned.kernel else None,
        "config": dataclasses.asdict(planned.config) if planned.config else None,
        "backend": planned.backend.name,
        "gpu": planned.backend.hardware.name,
        "m": product.m,
        "n": product.n,
        "k": product.k,
        "dtype": product.dtype.name,
        "out_dtype": product.out_dtype.name,
        "layout": product.layout,
        "verified": comparison.verified,
        "relative_error": comparison.relative_error,
        "error_bound": comparison.error_bound,
        "reason": reason,
    }


def _what_ran(product: "Product", planned: "Plan", reason: str) -> str:
    hardware = planned.backend.hardware.name
    place = f"on {hardware}" if planned.backend.name == "gpu" else f"in the emulator, which stands for an {hardware},"
    if planned.kernel is None:
        return f"{product.problem} {place} ran no kernel: {reason}."
    return f"{product.problem} ran {place} with kernel {planned.kernel.name} as {planned.config}. Why: {reason}."


def _how_right(comparison: "Comparison") -> str:
    return (
        f"The result is {'right' if comparison.verified else 'WRONG'}: over {comparison.elements:,} elements its "
        f"relative error against float64 is {comparison.relative_error:.2e}, the bound {comparison.error_bound:.2e}."
    )
