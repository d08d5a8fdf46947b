"""The functions for users: `matmul` and `plan`."""

import os
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, overload

from tilewright.arrays.torch import TORCH
from tilewright.backends.protocol import Backend
from tilewright.errors import ArgumentTypeError, ArgumentValueError, UnavailableError, silence
from tilewright.expression.tree import Expression
from tilewright.operand import HOST
from tilewright.planner.call_arguments import Arrays, NamedArrays, in_order, scalars
from tilewright.planner.choose import check_names
from tilewright.planner.family import Families, Member
from tilewright.planner.plan import Plan
from tilewright.planner.plan_cache import PlanCache
from tilewright.planner.planning import plan_of, range_plan_of
from tilewright.planner.range_plan import RangePlan, check_rows
from tilewright.planner.request import Options, Request, operands_of
from tilewright.planner.scaling import Scaling


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
    epilogue: str | None = None,
    operands: Mapping[str, Any] | None = None,
    gate: str | None = None,
    outputs: Mapping[str, Any] | None = None,
    recipe: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    zero_a: Any = None,
    scale_out: Any = None,
    fast_accumulation: bool = False,
    out: Any = None,
    out_dtype: Any = None,
    kernel: str = "auto",
    config: Any = None,
    batch_invariant: bool = False,
    backend: str | Backend = "auto",
    stream: Any = None,
) -> Any:
    """activation(alpha * a @ b + beta * c + bias), for arrays of torch, CuPy, NumPy or anything with DLPack.

    Shapes are `numpy.matmul`'s: a is (..., m, k), b is (..., k, n), leading dimensions broadcast, 1-D operands are
    a row and a column. Strides and alignments are free. dtypes: a and b alike, bf16, fp16, fp32 or int8, or each of
    fp8_e4m3 and fp8_e5m2; the sum is kept in fp32, of int8 in int32; the result has `out_dtype`, by default out's or
    a's, bf16 for fp8, and int32 for int8 without scales, bf16 with them.

    c, bias: anything that broadcasts to the result: bias (n,) is added along n, (m, 1) along m. beta defaults to 1 if c
    is given. alpha and beta are rounded to fp32. alpha=0 never reads a and b, beta=0 never reads c.
    activation: "relu", "gelu" (erf), "gelu_tanh" or "silu"; the absolute error is about 1e-6, or 2^-20 of the argument,
    so the relative error is large where they approach zero for very negative arguments; where the result is bf16 or
    fp16, gelu and gelu_tanh also err by 2^-10 or 2^-13 of their value, half of what rounding may do. silu makes NaN of
    -inf, as torch does, and so does gelu of fp32; of bf16 and fp16 it makes 0.
    epilogue: instead of c, bias and activation, an expression over acc, which is alpha * a @ b, and the arrays named in
    operands: numbers, + - * /, abs exp log sqrt rsqrt tanh erf sigmoid relu gelu gelu_tanh silu min max, and
    where(acc > 0, x, y). It is computed in fp32 and rounded once. Each operand broadcasts to the result.
    gate: "interleaved" or "stacked": the expression is over x and y, columns 2j and 2j + 1, or j and j + n / 2, and the
    result has n / 2 columns; without an expression it is activation(x) * y.
    outputs: arrays that are also written: "acc" (m, n), the sums that the expression reads; "amax", one fp32 number,
    the largest magnitude of the results before they are rounded; "column_sums" (n,) of fp32, the sums of these results
    over rows and batches, added in a fixed order.
    recipe: what the scales of fp8 and int8 are for, each number being code * scale; without it they are 1. scale_a and
    scale_b have "tensor" one element each, and "row" (m, 1) and (1, n); for fp8 also "1x128_128x128" (m, ceil(k / 128))
    and (ceil(k / 128), ceil(n / 128)), and "1x128_1x128" (m, ceil(k / 128)) and (ceil(k / 128), n); batch dimensions
    lead. They are positive fp32 numbers on a's device, of any strides; what is in host memory is checked, what is on
    a GPU is not. zero_a: what stands for 0 in an a of int8, one int32 number or
    (m, 1), from -128 to 127: the numbers are (code - zero_a) * scale_a. acc is alpha times the scaled sum. bias and
    activation go with scales, c as an operand of epilogue.
    scale_out: of an out of fp8, one fp32 number that results are divided by before they are rounded, without which they
    are rounded as they are; what is beyond the largest number of the type becomes that. outputs are not divided.
    fast_accumulation: whether sums of fp8 may stay in tensor cores that cut them, rather than go to fp32 every 128 of
    k.
    out: any strides; it may be c itself, but must not overlap inputs otherwise. For an out in host memory, the bytes
    between its elements are rewritten too: no other thread may write there meanwhile.
    kernel, config: override the choice.
    batch_invariant: whether the bits of a row of the result must depend on that row of a alone, besides b, the values
    of the epilogue, the dtypes, how b and out lie in memory, and the GPU's model: not on the number of rows, the row's
    place, the batch, or how a lies in memory. No Config splits k then, and whatever TMA cannot address is copied.
    backend: "auto" (the GPU the operands are on; for NumPy operands the first GPU, else the emulator), "gpu" or
    "emulator".
    stream: a CUDA stream, by default the caller's current one; the emulator has none and ignores it.

    Raises TypeError, ValueError (ConfigError for a Config), NotImplementedError or, if the machine lacks something,
    RuntimeError, before anything runs; the message names argument, rule and remedy.
    """
    if TORCH.traces():
        return TORCH.untraced(matmul)(
            a, b, c, alpha=alpha, beta=beta, bias=bias, activation=activation, epilogue=epilogue, operands=operands,
            gate=gate, outputs=outputs, recipe=recipe, scale_a=scale_a, scale_b=scale_b, zero_a=zero_a,
            scale_out=scale_out, fast_accumulation=fast_accumulation, out=out, out_dtype=out_dtype, kernel=kernel,
            config=config, batch_invariant=batch_invariant, backend=backend, stream=stream,
        )  # fmt: skip
    if type(batch_invariant) is not bool:
        raise _not_bool("batch_invariant", batch_invariant)
    if type(fast_accumulation) is not bool:
        raise _not_bool("fast_accumulation", fast_accumulation)
    direct = c is None and bias is None and beta is None and stream is None and type(alpha) is float and alpha == 1.0
    expression: Expression | None = None
    of_expression: tuple[Any, ...] = ()
    addend = bias
    if (
        epilogue is not None or operands is not None or gate is not None or outputs is not None
        or not (recipe is scale_a is scale_b is zero_a is scale_out is None)
    ):  # fmt: skip
        scaling = recipe, scale_a, scale_b, zero_a, scale_out
        expression, of_expression = _expression(epilogue, operands, gate, outputs, c, beta, bias, activation, scaling)
        addend, direct = None, False
    alpha, beta = scalars(c, alpha, beta)
    arrays = (a, b, c if beta != 0 else None, addend, out, *of_expression)
    key: Hashable
    try:
        key = (
            getattr(a, "shape", None), getattr(b, "shape", None), arrays[2] is None, addend is None, out is None,
            alpha != 0, activation, expression, out_dtype, kernel, config, batch_invariant, fast_accumulation, backend,
        )  # fmt: skip
        candidates = _plans.find(key, ())
    except (TypeError, RuntimeError):  # an unhashable value, or a tensor without a shape: planning decides about it
        key, candidates = None, ()
    for known in candidates:
        result = known.try_call(arrays, alpha, beta, stream, direct)
        if result is not None:
            if known is not _plans.latest:
                _plans.used(known)
            return result
    if expression is not None:
        activation = None  # it is in it
    options = Options(activation, expression, out_dtype, kernel, config, batch_invariant, fast_accumulation)
    call = Arrays.of(arrays, expression)
    made, is_kept = _planned(call, alpha, None if c is None else beta, options, backend, stream)
    pointers = made.pointers
    if key is not None and is_kept:
        _plans.add(key, made)
    return made.launch(arrays, pointers, alpha, beta, stream)[0]


_plans = PlanCache()
"""Plans by a key that distinguishes most calls; those of one key differ in strides, dtypes, alignments or devices."""

_families = Families()
"""What makes the Plan of a call that differs from an earlier one in its number of rows alone."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_plans.start_over_in_child)


@overload
def plan(
    a: Any, b: Any, /, c: Any = None, *, alpha: float = 1.0, beta: float | None = None, bias: Any = None,
    activation: str | None = None, epilogue: str | None = None, operands: Mapping[str, Any] | None = None,
    gate: str | None = None, outputs: Mapping[str, Any] | None = None, recipe: str | None = None, scale_a: Any = None,
    scale_b: Any = None, zero_a: Any = None, scale_out: Any = None, fast_accumulation: bool = False, out: Any = None,
    out_dtype: Any = None, kernel: str = "auto", config: Any = None,
    batch_invariant: bool = False, backend: str | Backend = "auto", stream: Any = None, tune: bool = False,
    m: None = None,
) -> Plan: ...  # fmt: skip
@overload
def plan(
    a: Any, b: Any, /, c: Any = None, *, alpha: float = 1.0, beta: float | None = None, bias: Any = None,
    activation: str | None = None, epilogue: str | None = None, operands: Mapping[str, Any] | None = None,
    gate: str | None = None, outputs: Mapping[str, Any] | None = None, recipe: str | None = None, scale_a: Any = None,
    scale_b: Any = None, zero_a: Any = None, scale_out: Any = None, fast_accumulation: bool = False, out: Any = None,
    out_dtype: Any = None, kernel: str = "auto", config: Any = None,
    batch_invariant: bool = False, backend: str | Backend = "auto", stream: Any = None, tune: bool = False, m: range,
) -> RangePlan: ...  # fmt: skip
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
    epilogue: str | None = None,
    operands: Mapping[str, Any] | None = None,
    gate: str | None = None,
    outputs: Mapping[str, Any] | None = None,
    recipe: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    zero_a: Any = None,
    scale_out: Any = None,
    fast_accumulation: bool = False,
    out: Any = None,
    out_dtype: Any = None,
    kernel: str = "auto",
    config: Any = None,
    batch_invariant: bool = False,
    backend: str | Backend = "auto",
    stream: Any = None,
    tune: bool = False,
    m: range | None = None,
) -> Plan | RangePlan:
    """Choose, compile and prepare everything for products like this one, and run nothing.

    Takes the arguments of `matmul`. The Plan is called with arrays of the same shapes, strides, dtypes, devices and
    alignments; the activation or the expression is fixed. alpha and beta become the defaults of its calls; calls may
    give others, but zero only where the plan's is zero. `stream` is only tested for a capture, during which nothing may
    be compiled.

    tune: first measure which Config is the quickest for this product, unless that is known. It takes some 10 seconds of
    a GPU that should do nothing else, and the planner uses the result from then on, in other processes too.
    m: a range of rows, such as range(1, 4097), for a 2-D a. Every kernel that the planner may choose for any of them is
    compiled, several at once, and loaded; the RangePlan then takes arrays with any of these numbers of rows.
    """
    if TORCH.traces():
        untraced: Plan | RangePlan = TORCH.untraced(plan)(
            a, b, c, alpha=alpha, beta=beta, bias=bias, activation=activation, epilogue=epilogue, operands=operands,
            gate=gate, outputs=outputs, recipe=recipe, scale_a=scale_a, scale_b=scale_b, zero_a=zero_a,
            scale_out=scale_out, fast_accumulation=fast_accumulation, out=out, out_dtype=out_dtype, kernel=kernel,
            config=config, batch_invariant=batch_invariant, backend=backend, stream=stream, tune=tune, m=m,
        )  # fmt: skip
        return untraced
    for argument, value in (("batch_invariant", batch_invariant), ("fast_accumulation", fast_accumulation)):
        if type(value) is not bool:
            raise _not_bool(argument, value)
    scaling = recipe, scale_a, scale_b, zero_a, scale_out
    expression, of_expression = _expression(epilogue, operands, gate, outputs, c, beta, bias, activation, scaling)
    if expression is not None:
        bias = activation = None  # they are in it
    scale, factor = scalars(c, alpha, beta)
    call = Arrays.of((a, b, c if factor != 0 else None, bias, out, *of_expression), expression)
    addend_scale = None if c is None else factor
    options = Options(activation, expression, out_dtype, kernel, config, batch_invariant, fast_accumulation)
    if m is None and not tune:
        return _planned(call, scale, addend_scale, options, backend, stream)[0]
    request = _request(call, scale, addend_scale, options, backend, stream)
    if m is not None:
        rows = check_rows(m, request.operands, kernel=kernel, config=config, tune=tune)

        def call_of(a: Any, b: Any, c: Any, bias: Any, named: NamedArrays, out: Any) -> Arrays:
            bias, of_call = in_order(expression, bias, named)
            arrays = (a, b, c if addend_scale else None, bias, out, *of_call)
            return Arrays.of(arrays, expression)

        def request_of(call: Arrays, stream: Any) -> Request:
            return _request(call, scale, addend_scale, options, request.backend, stream)

        return range_plan_of(request, rows, call_of, request_of)
    from tilewright.planner.tuning import ensure_tuned  # the driver is not needed otherwise

    ensure_tuned(request)
    return plan_of(request)


def _planned(
    call: Arrays, alpha: float, beta: float | None, options: Options, backend: str | Backend, stream: Any
) -> tuple[Plan, bool]:
    """The Plan of a call, by its family if that is known, and whether to keep it; beta is None without c.

    A number of rows that a family meets for the first time may be one of many that never come again.
    """
    member = Member.of(call, (alpha != 0, options, backend))
    family = member and _families.find(member)
    if member and family:
        made = family.plan(member, alpha=alpha, beta=beta, stream=stream)
        if made is not None:
            return made, family.has_met(member.rows)
    request = _request(call, alpha, beta, options, backend, stream)
    planned = plan_of(request)
    if member:
        _families.add(member, request, planned)
    return planned, True


def _expression(
    epilogue: Any, operands: Any, gate: Any, outputs: Any, c: Any, beta: Any, bias: Any, activation: Any,
    scaling: tuple[Any, Any, Any, Any, Any],
) -> tuple[Expression | None, tuple[Any, ...]]:  # fmt: skip
    """The expression of a call with its arrays, if it has one; `scaling`: the recipe and the scales."""
    if (
        epilogue is None
        and operands is None
        and gate is None
        and outputs is None
        and not any(each is not None for each in scaling)
    ):
        return None, ()
    from tilewright.planner.expressions import expression_of  # most products have none

    return expression_of(epilogue, operands, gate, outputs, activation, Scaling(*scaling), c=c, beta=beta, bias=bias)


def _not_bool(argument: str, value: object) -> ArgumentTypeError:
    return ArgumentTypeError(f"{argument}={value!r} is not a bool: pass True or False")


def _request(
    call: Arrays, alpha: float, beta: float | None, options: Options, backend: str | Backend, stream: Any
) -> Request:
    operands = operands_of(call, options.out_dtype, options.expression)
    chosen = backend_for(backend, operands["a"].device)
    check_names(options.kernel, options.config)
    return Request.of(call, operands, chosen, options, stream=stream, alpha=alpha, beta=beta)


def backend_for(wanted: "str | Backend", device: int, argument: str = "a") -> Backend:
    """The backend for operands on the `device` of this argument; a TypeError, ValueError or RuntimeError if none is."""
    if not isinstance(wanted, str) and not hasattr(wanted, "prepare"):
        raise ArgumentTypeError(f"backend={wanted!r} is not a backend: use 'auto', 'gpu' or 'emulator'")
    if "emulator" in (wanted, getattr(wanted, "name", None)) and device != HOST:
        raise ArgumentValueError(
            f"{argument} is on GPU {device} and backend='emulator' runs on host memory: move the operands to the CPU, "
            f"or leave backend='auto'"
        )
    if not isinstance(wanted, str):
        own = getattr(wanted, "device", device)
        if isinstance(own, int) and device not in (HOST, own):
            raise ArgumentValueError(
                f"{argument} is on GPU {device} and backend is that of GPU {own}: leave backend='auto'"
            )
        return wanted
    if wanted not in ("auto", "gpu", "emulator"):
        raise ArgumentValueError(f"backend={wanted!r} is unknown: use 'auto', 'gpu' or 'emulator'")
    if wanted == "emulator":
        return emulator()
    if device != HOST or gpu_count():
        from tilewright.backends import gpu

        return gpu.backend(max(device, 0))
    if wanted == "gpu":
        raise UnavailableError(
            "backend='gpu' needs an NVIDIA GPU with its driver, and none is usable here; see `tilewright doctor`"
        )
    return _without_gpu()


def gpu_count() -> int:
    """Number of usable GPUs; 0 without a driver or without cuda-bindings."""
    try:
        from tilewright.backends import gpu
    except ImportError:
        return 0
    return gpu.device_count()


@cache
def _without_gpu() -> Backend:
    """The emulator of a process that has no GPU, on which no kernel could be slower than another."""
    silence("tilewright.planner.choose")
    return emulator()


@cache
def emulator() -> Backend:
    """The process's emulator, which represents an H200; calls of several threads take turns."""
    from tilewright.backends.emulated import EmulatedBackend

    return EmulatedBackend()
