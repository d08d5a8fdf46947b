"""The calls that users make: `matmul` and `plan`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tilewright import dtypes
from tilewright.backends.protocol import Backend, Executable
from tilewright.binding import OPERANDS, Binding, bind, result_shape
from tilewright.jit.cache import build
from tilewright.jit.compile import CompiledKernel
from tilewright.kernels.family import Kernel
from tilewright.operand import (
    HOST,
    Operand,
    Signature,
    adopt,
    byte_range,
    current_stream,
    describe,
    empty_like_library,
)
from tilewright.planner.rules import choose
from tilewright.problem import Problem

EMULATOR_FLOPS = 2e9
"""Rate at which the emulator multiplies, for the estimate that decides whether to refuse a product."""

EMULATOR_LIMIT_SECONDS = 120.0
"""Longest emulation that is not refused; the environment variable TILEWRIGHT_EMULATOR_SECONDS overrides it."""


@dataclass(slots=True, eq=False)
class Plan:
    """A Problem bound to a kernel, its Config and a backend. Call it with arrays like those it was made for.

    `reason` says in a sentence why this kernel; `problem`, `config` and `compiled` say what runs.
    """

    problem: Problem
    kernel: Kernel | None
    config: Any
    reason: str
    backend: Backend
    compiled: CompiledKernel | None
    counters: Any = None
    """What the emulator counted in the last call; None on a GPU."""
    _binding: Binding | None = None
    _executable: Executable | None = None
    _signatures: dict[str, Signature] = field(default_factory=dict)
    _alignments: dict[str, int] = field(default_factory=dict)
    _ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    _scaled: tuple[bool, bool] = (True, False)
    _out_dtype: Any = None

    def __call__(
        self,
        a: Any,
        b: Any,
        /,
        c: Any = None,
        *,
        bias: Any = None,
        alpha: float = 1.0,
        beta: float | None = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Multiply arrays with the shapes, strides, dtypes, devices and alignments of the plan; returns `out`."""
        if beta is None:
            beta = 0.0 if c is None else 1.0
        if (alpha != 0, beta != 0) != self._scaled:
            raise ValueError(
                f"alpha={alpha}, beta={beta}: this plan was made for alpha "
                f"{'nonzero' if self._scaled[0] else '0'} and beta {'nonzero' if self._scaled[1] else '0'} "
                f"(what is scaled by 0 is not read at all); make another plan"
            )
        if out is None:
            out = _allocate(a, adopt(a, "a"), adopt(b, "b"), self._out_dtype)
        arrays = {"a": a, "b": b, "out": out}
        if beta != 0:
            arrays["c"] = c
        if bias is not None:
            arrays["bias"] = bias
        if arrays.keys() != self._signatures.keys():
            raise ValueError(
                f"the plan was made for the operands {', '.join(sorted(self._signatures))} and called with "
                f"{', '.join(sorted(arrays))}: make another plan"
            )
        pointers = {}
        for name, array in arrays.items():
            signature, pointer = describe(array)
            if signature != self._signatures[name] or pointer & (self._alignments[name] - 1):
                raise ValueError(
                    f"{name} has (dtype, shape, strides, device) {signature} at address {pointer:#x}, but the plan was "
                    f"made for {self._signatures[name]} aligned to {self._alignments[name]} bytes: make another plan"
                )
            pointers[name] = pointer
        self._check_overlap(arrays, pointers)
        self._run(arrays, pointers, alpha, beta, stream)
        return out

    def _check_overlap(self, arrays: Mapping[str, Any], pointers: Mapping[str, int]) -> None:
        low, high = self._ranges["out"]
        low, high = low + pointers["out"], high + pointers["out"]
        for name, (first, last) in self._ranges.items():
            if name != "out" and first + pointers[name] < high and low < last + pointers[name]:
                # The ranges meet; whether elements do is decided exactly, with the message of the planning path.
                operands = {n: adopt(array, n) for n, array in arrays.items()}
                bind(operands, activation=self.problem.activation, multiplies=self._scaled[0])

    def _run(
        self, arrays: Mapping[str, Any], pointers: Mapping[str, int], alpha: float, beta: float, stream: Any
    ) -> None:
        if self._executable is None or self._binding is None:
            return  # out has no elements
        device = self._signatures["out"][3]
        handle = current_stream(arrays["out"], device) if stream is None else _stream_handle(stream, self.backend)
        if device == HOST:
            operands = {name: adopt(array, name) for name, array in arrays.items()}
            with self.backend.resident(operands, handle) as addresses:
                self.counters = self._executable(self._in_roles(addresses), alpha, beta, handle)
        else:
            self._executable(self._in_roles(pointers), alpha, beta, handle)

    def _in_roles(self, pointers: Mapping[str, int]) -> tuple[int, ...]:
        return tuple([pointers.get(name, 0) for name in self._binding.roles])  # type: ignore[union-attr]

    def __str__(self) -> str:
        return (
            f"{self.problem} on {self.backend.name} ({self.backend.hardware.name}): {self.config} because {self.reason}"
        )


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
    arguments = {"a": a, "b": b, "c": c, "bias": bias, "out": out}
    beta = _beta(c, beta)
    described = tuple([(None if x is None else describe(x)) for x in arguments.values()])
    key = (
        *((d[0], d[1] & 15) if d else None for d in described),
        alpha != 0,
        beta != 0,
        activation,
        out_dtype,
        kernel,
        config,
        backend,
    )
    plan_ = _plans.get(key)
    if plan_ is None:
        plan_ = plan(
            a, b, c, alpha=alpha, beta=beta, bias=bias, activation=activation, out=out, out_dtype=out_dtype,
            kernel=kernel, config=config, backend=backend,
        )  # fmt: skip
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        _plans[key] = plan_
    return plan_(a, b, c if beta != 0 else None, bias=bias, alpha=alpha, beta=beta, out=out, stream=stream)


_plans: dict[tuple[Any, ...], Plan] = {}
_MAX_PLANS = 4096


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
    beta = _beta(c, beta)
    operands = {"a": adopt(a, "a"), "b": adopt(b, "b")}
    if beta != 0:
        operands["c"] = adopt(c, "c")
    if bias is not None:
        operands["bias"] = adopt(bias, "bias")
    wanted = None if out_dtype is None else dtypes.parse(out_dtype, "out_dtype")
    if out is None:
        out = _allocate(a, operands["a"], operands["b"], wanted or operands["a"].dtype)
    operands["out"] = adopt(out, "out")
    if wanted is not None and operands["out"].dtype != wanted:
        raise TypeError(f"out is {operands['out'].dtype} and out_dtype={wanted}: drop one of the two")
    binding = bind(operands, activation=activation, multiplies=alpha != 0)
    chosen = _backend(backend, operands)
    described = {
        name: describe(x)
        for name, x in (("a", a), ("b", b), ("c", c), ("bias", bias), ("out", out))
        if name in operands
    }
    plan_ = _make(binding, chosen, kernel, config)
    plan_._signatures = {name: signature for name, (signature, _) in described.items()}
    plan_._alignments = {name: operand.alignment for name, operand in operands.items()}
    plan_._ranges = {
        name: byte_range(0, operand.shape, operand.strides, operand.dtype.nbytes) for name, operand in operands.items()
    }
    plan_._scaled = (alpha != 0, beta != 0)
    plan_._out_dtype = operands["out"].dtype
    return plan_


def plan_problem(problem: Problem, backend: Backend, *, kernel: str = "auto", config: Any = None) -> Plan:
    """The Plan of a Problem alone, for tools that have no arrays: it explains and compiles but cannot be called."""
    return _make(Binding(problem, OPERANDS), backend, kernel, config)


def _make(binding: Binding, backend: Backend, kernel: str, config: Any) -> Plan:
    problem = binding.problem
    if problem.is_empty:
        return Plan(problem, None, None, "out has no elements, so that nothing runs", backend, None)
    choice = choose(problem, backend.hardware, kernel=kernel, config=config)
    if backend.name == "emulator":
        _refuse_long_emulation(problem)
    unit = choice.kernel.unit(choice.config, problem, backend.hardware)
    compiled = build(unit, backend.hardware.arch)
    shape = choice.kernel.launch_shape(choice.config, problem, backend.hardware)
    executable = backend.prepare(compiled, shape, choice.kernel.arguments(choice.config, problem))
    return Plan(
        problem,
        choice.kernel,
        choice.config,
        choice.reason,
        backend,
        compiled,
        _binding=binding,
        _executable=executable,
    )


def _beta(c: Any, beta: float | None) -> float:
    if c is None and beta:
        raise ValueError(f"beta={beta} scales c, which is not given: pass c=, or leave beta out")
    return beta if beta is not None else (0.0 if c is None else 1.0)


def _allocate(array: Any, a: Operand, b: Operand, dtype: dtypes.DType) -> Any:
    return empty_like_library(array, result_shape(a, b), dtype, a.device)


def _stream_handle(stream: Any, backend: Backend) -> int:
    """The CUstream number of an int, torch or CuPy stream, or anything with `__cuda_stream__`."""
    if isinstance(stream, int):
        handle = stream
    elif hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        handle = int((protocol() if callable(protocol) else protocol)[1])
    elif hasattr(stream, "cuda_stream"):  # torch
        handle = int(stream.cuda_stream)
    elif hasattr(stream, "ptr"):  # CuPy
        handle = int(stream.ptr)
    else:
        raise TypeError(
            f"stream is a {type(stream).__name__}: pass a CUstream number, a torch or CuPy stream, or anything with "
            f"__cuda_stream__"
        )
    backend.check_stream(handle)
    return handle


def _backend(wanted: "str | Backend", operands: Mapping[str, Operand]) -> Backend:
    if not isinstance(wanted, str):
        return wanted
    if wanted not in ("auto", "gpu", "emulator"):
        raise ValueError(f"backend={wanted!r} is unknown: use 'auto', 'gpu' or 'emulator'")
    device = operands["a"].device
    if wanted == "emulator":
        if device != HOST:
            raise ValueError(
                f"a is on GPU {device} and backend='emulator' runs on host memory: move the operands to the CPU, or "
                f"leave backend='auto'"
            )
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
