"""The calls that users make: `matmul` and `plan`."""

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from tilewright import dtypes
from tilewright.backends.protocol import Backend
from tilewright.binding import bind, result_shape
from tilewright.jit.cache import build
from tilewright.operand import HOST, Operand, adopt, allocator
from tilewright.planner.plan import Plan
from tilewright.planner.rules import choose
from tilewright.problem import Problem

EMULATOR_FLOPS = 2e9
"""Rate at which the emulator multiplies, for the estimate that decides whether to refuse a product."""

EMULATOR_LIMIT_SECONDS = 120.0
"""Longest emulation that is not refused; the environment variable TILEWRIGHT_EMULATOR_SECONDS overrides it."""


def matmul(
    a: Any,
    b: Any,
    /,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    bias: Any = None,
    activation: str | None = None,
    out: Any = None,
    out_dtype: Any = None,
    kernel: str = "auto",
    config: Any = None,
    backend: str | Backend = "auto",
    stream: Any = None,
) -> Any:
    """activation(alpha * a @ b + beta * c + bias), for arrays of torch, CuPy, NumPy or anything with DLPack.

    Shapes are `numpy.matmul`'s: a is (..., m, k), b is (..., k, n), leading dimensions broadcast, 1-D operands are
    a row and a column. Strides and alignments are free. dtypes: a and b alike, bf16, fp16 or fp32; the sum is kept
    in fp32; the result has `out_dtype`, by default out's or a's.

    c, bias: anything that broadcasts to the result: bias (n,) is added along n, (m, 1) along m. beta is 1 where c is
    given and it is not. alpha=0 never reads a and b, beta=0 never reads c. activation: "relu", "gelu" (erf),
    "gelu_tanh" or "silu". out: any strides; it may overlap no input, except that it may be c itself.
    kernel, config: override the choice. backend: "auto" (the GPU the operands are on; for NumPy operands the first
    GPU, else the emulator), "gpu" or "emulator". stream: a CUDA stream, by default the caller's current one.

    Raises TypeError, ValueError or NotImplementedError before anything runs, naming argument, rule and remedy.
    """
    beta = _beta(c, beta)
    arrays = (a, b, c if beta != 0 else None, bias, out)
    key = (
        getattr(a, "shape", None), getattr(b, "shape", None), bias is None, out is None, alpha != 0, beta != 0,
        activation, out_dtype, kernel, config, backend,
    )  # fmt: skip
    try:
        candidates = _plans.get(key, ())
    except TypeError:  # what cannot be hashed is a wrong argument: planning says which
        candidates = ()
    for known in candidates:
        pointers = known.read(arrays)
        if pointers is not None:
            return known.run(arrays, pointers, alpha, beta, stream)
    made = plan(
        a, b, c, alpha=alpha, beta=beta, bias=bias, activation=activation, out=out, out_dtype=out_dtype,
        kernel=kernel, config=config, backend=backend,
    )  # fmt: skip
    if len(_plans) >= _MAX_PLANNED:
        _plans.clear()
    _plans[key] = (*_plans.get(key, ())[-_MAX_ALIKE:], made)
    return made(a, b, c, bias=bias, alpha=alpha, beta=beta, out=out, stream=stream)


_plans: dict[tuple[Any, ...], tuple[Plan, ...]] = {}
"""Plans by what tells most calls apart; those of one key differ in strides, dtypes, alignments or devices."""

_MAX_PLANNED = 4096
_MAX_ALIKE = 63


def plan(
    a: Any,
    b: Any,
    /,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float | None = None,
    bias: Any = None,
    activation: str | None = None,
    out: Any = None,
    out_dtype: Any = None,
    kernel: str = "auto",
    config: Any = None,
    backend: str | Backend = "auto",
) -> Plan:
    """Decide, compile and prebuild everything for products like this one, and run nothing.

    Takes what `matmul` takes. The Plan is called with arrays of the same shapes, strides, dtypes, devices and
    alignments; of alpha and beta only whether they are zero is fixed.
    """
    arrays = {"a": a, "b": b}
    if _beta(c, beta) != 0:
        arrays["c"] = c
    if bias is not None:
        arrays["bias"] = bias
    operands = {name: adopt(array, name) for name, array in arrays.items()}
    wanted = None if out_dtype is None else dtypes.parse(out_dtype, "out_dtype")
    if out is None:
        shape = result_shape(operands["a"], operands["b"])
        out = allocator(a, shape, wanted or operands["a"].dtype, operands["a"].device)()
    arrays["out"], operands["out"] = out, adopt(out, "out")
    if wanted is not None and operands["out"].dtype != wanted:
        raise TypeError(f"out is {operands['out'].dtype} and out_dtype={wanted}: drop one of the two")
    binding = bind(operands, activation=activation, multiplies=alpha != 0)
    made = _make(binding.problem, _backend(backend, operands), kernel, config)
    made.expect(arrays, operands, binding.roles, alpha != 0)
    return made


def plan_problem(problem: Problem, backend: Backend, *, kernel: str = "auto", config: Any = None) -> Plan:
    """The Plan of a Problem alone, for tools that have no arrays: it explains and compiles but cannot be called."""
    return _make(problem, backend, kernel, config)


def _make(problem: Problem, backend: Backend, kernel: str, config: Any) -> Plan:
    if problem.is_empty:
        return Plan(problem, None, None, "out has no elements, so that nothing runs", backend, None, None)
    choice = choose(problem, backend.hardware, kernel=kernel, config=config)
    if backend.name == "emulator":
        _refuse_long_emulation(problem)
    unit = choice.kernel.unit(choice.config, problem, backend.hardware)
    compiled = build(unit, backend.hardware.arch)
    shape = choice.kernel.launch_shape(choice.config, problem, backend.hardware)
    executable = backend.prepare(compiled, shape, choice.kernel.arguments(choice.config, problem))
    return Plan(problem, choice.kernel, choice.config, choice.reason, backend, compiled, executable)


def _beta(c: Any, beta: float | None) -> float:
    if c is None and beta:
        raise ValueError(f"beta={beta} scales c, which is not given: pass c=, or leave beta out")
    return beta if beta is not None else (0.0 if c is None else 1.0)


def _backend(wanted: "str | Backend", operands: Mapping[str, Operand]) -> Backend:
    device = operands["a"].device
    if "emulator" in (wanted, getattr(wanted, "name", None)) and device != HOST:
        raise ValueError(
            f"a is on GPU {device} and backend='emulator' runs on host memory: move the operands to the CPU, or "
            f"leave backend='auto'"
        )
    if not isinstance(wanted, str):
        return wanted
    if wanted not in ("auto", "gpu", "emulator"):
        raise ValueError(f"backend={wanted!r} is unknown: use 'auto', 'gpu' or 'emulator'")
    if wanted == "emulator":
        return emulator()
    if device != HOST or gpu_count():
        from tilewright.backends import gpu

        return gpu.backend(max(device, 0))
    if wanted == "gpu":
        raise RuntimeError(
            "backend='gpu' needs an NVIDIA GPU with its driver, and none is usable here; see `tilewright doctor`"
        )
    return emulator()


def gpu_count() -> int:
    """Number of usable GPUs; 0 without a driver or without cuda-bindings."""
    try:
        from tilewright.backends import gpu
    except ImportError:
        return 0
    return gpu.device_count()


@cache
def emulator() -> Backend:
    """The process's emulator, standing for an H200; calls of several threads take turns."""
    from tilewright.backends.emulated import EmulatedBackend

    return EmulatedBackend()


def _refuse_long_emulation(problem: Problem) -> None:
    limit = float(os.environ.get("TILEWRIGHT_EMULATOR_SECONDS", EMULATOR_LIMIT_SECONDS))
    seconds = problem.flops / EMULATOR_FLOPS
    if seconds > limit:
        raise RuntimeError(
            f"{problem} would take the emulator about {seconds / 60:.0f} minutes, and it stops at {limit:.0f} s: use a "
            f"GPU or a smaller product, or set TILEWRIGHT_EMULATOR_SECONDS={int(seconds * 2)} to wait"
        )
