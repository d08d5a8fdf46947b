"""`tilewright run`: multiply real data, verify it, time it or count it, and say what happened."""

import dataclasses
from collections.abc import Callable
from enum import StrEnum
from math import isfinite
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
    print_json,
    progress,
    reports_errors,
    table,
)

if TYPE_CHECKING:
    from tilewright.cli.product import Product
    from tilewright.planner.plan import Plan
    from tilewright.reference import Comparison

GPU_SHAPE = (4096, 4096, 4096)
EMULATED_SHAPE = (1024, 1024, 1024)
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

    on_gpu = backend != BackendName.emulator and gpu_count() > 0
    if backend == BackendName.gpu and not on_gpu:
        raise RuntimeError(
            "--backend gpu needs an NVIDIA GPU with its driver, and none is usable here: leave --backend at auto, or "
            "see what `tilewright doctor` finds"
        )
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
    import numpy as np

    from tilewright.api import plan
    from tilewright.cli.libraries import gpu_library

    operands = product.operands(seed)
    library = gpu_library(product.dtype)
    arrays = {name: library.from_numpy(array) for name, array in operands.items()}
    # NaN shows where nothing was written.
    out = library.from_numpy(np.full((product.m, product.n), np.nan, product.out_dtype.numpy_dtype))
    a, b, bias = arrays["a"], arrays["b"], arrays.get("bias")
    planned = plan(a, b, bias=bias, activation=product.activation, out=out, kernel=kernel, backend="gpu")
    planned(a, b, bias=bias, out=out)
    comparison = product.verify(library.to_numpy(out), operands)
    record = _record(product, planned, comparison, planned.reason)
    story = f"{_what_ran(product, planned, planned.reason)} {_how_right(comparison)}"
    if planned.kernel is not None:
        story += " " + _time(planned, lambda stream: planned(a, b, bias=bias, out=out, stream=stream), record)
        story += f" Operands: {library.name}."
    return Outcome(record, story)


def _time(planned: "Plan", launch: Callable[[int], object], record: dict[str, Any]) -> str:
    """Time launches and set them against the speed of light."""
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
    record |= {"time_us": timing.median * 1e6, "tflops": tflops, "speed_of_light_share": share}
    if light.bound == "memory":
        limit = f"memory at {gpu.hardware.memory_bandwidth / 1e12:.1f} TB/s"
    else:
        unit = "the tensor cores" if problem.a.dtype.nbytes == 2 else "the CUDA cores"
        limit = f"{unit} at {gpu.hardware.boost_clock / 1e9:.2f} GHz"
    return (
        f"It takes {timing.median * 1e6:.1f} us (quartiles {timing.low * 1e6:.1f} to {timing.high * 1e6:.1f}), "
        f"{tflops:.3g} TFLOP/s: {share:.1%} of the speed of light, which is {light.seconds * 1e6:.1f} us by {limit}."
    )


def _emulated(product: "Product", shape: tuple[int, int, int], kernel: str, seed: int) -> Outcome:
    """Multiply `shape` with the kernel and the Config that `product` gets on the GPU that the emulator stands for."""
    from tilewright.api import plan, plan_problem
    from tilewright.backends.emulated import EmulatedBackend
    from tilewright.planner.rules import choose

    small = product.resized(*shape)
    with progress(f"emulating {small.problem}") as report:
        backend = EmulatedBackend(count_memory=True, progress=report)
        config, reason = None, ""
        if not product.problem.is_empty:
            choice = choose(product.problem, backend.hardware, kernel=kernel)
            kernel, config, reason = choice.kernel.name, choice.config, choice.reason
        plan_problem(small.problem, backend, kernel=kernel, config=config)  # refuses before there is data
        operands = small.operands(seed)
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
        record["counters"] = planned.counters.as_dict()
        story += " " + _predict(product, planned, record)
    return Outcome(record, story)


def _predict(product: "Product", planned: "Plan", record: dict[str, Any]) -> str:
    from tilewright.model.speed_of_light import predict

    problem, hardware = product.problem, planned.backend.hardware
    assert planned.kernel is not None
    ctas = planned.kernel.launch_shape(planned.config, problem, hardware).grid
    prediction = predict(
        problem,
        hardware,
        planned.config.tile_m,
        planned.config.tile_n,
        ctas,
        unit=planned.kernel.execution_unit,
    )
    record |= {"predicted_time_us": prediction.seconds * 1e6, "predicted_tflops": prediction.tflops}
    return (
        f"On an {hardware.name} the model predicts {prediction.seconds * 1e6:.1f} us for {problem}, "
        f"{prediction.tflops:.3g} TFLOP/s: tiles {prediction.tile_count}, waves {prediction.waves} "
        f"({prediction.quantization:.0%} of their arithmetic useful), at {prediction.clock / 1e9:.2f} GHz."
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
        # JSON has no NaN, which an element that was not written leaves behind.
        "relative_error": comparison.relative_error if isfinite(comparison.relative_error) else None,
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
