"""`tilewright.explain`: from a call to an Explanation. Nothing is compiled, and nothing runs."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

from tilewright.api import gpu_count
from tilewright.arrays import adopt
from tilewright.dtypes import DType, bf16
from tilewright.errors import ArgumentValueError, UnsupportedError
from tilewright.explaining.decision import decision
from tilewright.explaining.explanation import Explanation, Tiles, Time
from tilewright.explaining.remedies import free_rows, planned_seconds, remedies
from tilewright.explaining.rivals import rivals
from tilewright.hardware import H200, LEAST_CAPABILITY, Hardware, Unit, named
from tilewright.kernels.registry import KERNELS
from tilewright.model.chips import CHIPS
from tilewright.model.speed_of_light import speed_of_light
from tilewright.model.tiling.levels import Level, levels
from tilewright.operand import HOST, Operand, Spec
from tilewright.planner.call_arguments import scalars
from tilewright.planner.choose import Choice, check_names, choose
from tilewright.planner.expressions import expression_of
from tilewright.planner.request import bound, with_result
from tilewright.planner.scaling import Scaling
from tilewright.problem import Problem, operand_names


def explain(
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
    gpu: str | None = None,
) -> Explanation:
    """Why `plan` would take its kernel and Config for a product, how long the product takes, and what would help.

    Takes the arguments of `plan` but those of a process (backend, stream), of a range of rows (m) and of measurements
    (tune); each array may be a `spec`, which has no memory. gpu: the name of a GPU, in any case, which need not be
    there; H100 means H100-SXM. By default it is the arrays' own, or this machine's first one, or an H200. Nothing is
    compiled. Raises what `plan` raises for these arguments, an ArgumentValueError for a product without sums, and an
    UnsupportedError for a GPU that no kernel is known on, which names the others.
    """
    scaling = Scaling(recipe, scale_a, scale_b, zero_a, scale_out)
    expression, of_expression = expression_of(
        epilogue, operands, gate, outputs, activation, scaling, c=c, beta=beta, bias=bias
    )
    if expression is not None:
        bias = activation = None  # they are in it
    scale, addend_scale = scalars(c, alpha, beta)
    arrays = (a, b, c if addend_scale != 0 else None, bias, out, *of_expression)
    given = with_result(_operands(operand_names(expression), arrays), out_dtype, expression)
    problem = bound(
        given, activation=activation, expression=expression, alpha=scale, batch_invariant=batch_invariant,
        fast_accumulation=fast_accumulation,
    ).problem  # fmt: skip
    if problem.is_empty or problem.k == 0:
        first, second = given["a"].shape, given["b"].shape
        is_empty = problem.is_empty or first[-1] == 0
        why = f"a has shape {first} and b {second}" if is_empty else "alpha is 0"
        wanted = "extents of 1 or more" if is_empty else "another alpha"
        raise ArgumentValueError(f"{why}, so there are no sums, and nothing to explain: give {wanted}")
    check_names(kernel, config)
    hardware, present = gpu_of(gpu, given["a"].device, problem.a.dtype)
    if not present:
        require_kernel(hardware, problem.a.dtype)
    return explained(problem, hardware, present=present, kernel=kernel, config=config)


def explained(
    problem: Problem, hardware: Hardware, *, present: bool, kernel: str = "auto", config: Any = None
) -> Explanation:
    """The Explanation of a problem on a GPU, which is `present` or not."""
    choice = choose(problem, hardware, kernel=kernel, config=config, quiet=True)
    time, asked = _time(choice, hardware), kernel != "auto" or config is not None
    planned = planned_seconds(problem, hardware) if asked else inf
    return Explanation(
        problem,
        choice.copied.problem,
        hardware.name,
        present,
        choice.kernel.name,
        choice.config,
        choice.reason,
        decision(problem, hardware, choice, asked),
        _tiles(choice, hardware),
        _levels(choice, hardware),
        choice.copied.traffic,
        speed_of_light(problem, hardware),
        time,
        rivals(problem, hardware, choice),
        () if time is None else remedies(problem, hardware, time.seconds, planned),
        0 if time is None else free_rows(problem, hardware, min(time.seconds, planned)),
    )


def _operands(names: tuple[str, ...], arrays: tuple[Any, ...]) -> dict[str, Operand]:
    """The Operands of arrays and Specs by name; Specs are where the arrays are."""
    given = {n: array for n, array in zip(names, arrays, strict=True) if array is not None or n in ("a", "b")}
    found = {name: adopt(array, name) for name, array in given.items() if not isinstance(array, Spec)}
    device = next((operand.device for operand in found.values()), HOST)
    specs = {
        name: array.operand(place, device)
        for place, (name, array) in enumerate(given.items())
        if isinstance(array, Spec)
    }
    return {name: (found | specs)[name] for name in given}


def gpu_of(gpu: str | None, device: int = HOST, dtype: DType = bf16) -> tuple[Hardware, bool]:
    """The GPU that is meant, and whether it is there; dtype: what it is to multiply, for the names in an error."""
    if gpu is not None:
        wanted = named(gpu, "gpu", CHIPS, _usable(dtype)).gpu
        return wanted, gpu_count() > 0 and _there(0).name == wanted.name
    if device != HOST or gpu_count():
        return _there(max(device, 0)), True
    return H200, False


def require_kernel(gpu: Hardware, dtype: DType) -> None:
    """Raise an UnsupportedError if a GPU multiplies a type by units that no kernel has: why, and which GPUs are known.

    Kernels themselves say why they do not take a product.
    """
    new, units = gpu.capability >= LEAST_CAPABILITY, _units_of(gpu, dtype)
    if new and not (units and _users(dtype).isdisjoint(units)):
        return
    why, remedy = f"is {gpu.arch}, and tilewright's kernels need sm_{LEAST_CAPABILITY}", ""
    if new:
        why = f"multiplies {dtype} at a known rate by {', '.join(units)} alone, which no kernel uses"
        remedy = ", or fp32"
    raise UnsupportedError(f"gpu={gpu.name} {why}: use {', '.join(_usable(dtype))}{remedy}")


def _usable(dtype: DType) -> list[str]:
    """The names of the GPUs that a kernel can multiply a type on."""
    users = _users(dtype)
    gpus = {name: chip.gpu for name, chip in CHIPS.items() if chip.gpu.capability >= LEAST_CAPABILITY}
    return [name for name, gpu in gpus.items() if not users.isdisjoint(_units_of(gpu, dtype))]


def _users(dtype: DType) -> set[Unit]:
    """The units that kernels multiply a type by."""
    return {kernel.unit_of(dtype) for kernel in KERNELS.values()}


def _units_of(gpu: Hardware, dtype: DType) -> list[Unit]:
    """The units that a GPU multiplies a type by, at a known rate."""
    return [unit for unit, multiplied, _ in gpu.rates if multiplied == dtype]


def _there(device: int) -> Hardware:
    from tilewright.backends import gpu

    return gpu.backend(device).hardware


def _time(choice: Choice, hardware: Hardware) -> Time | None:
    """The time of all launches of a choice."""
    kernel, config, problem = choice.kernel, choice.config, choice.copied.problem
    found, burst = kernel.breakdown(config, problem, hardware), kernel.predict(config, problem, hardware, "burst")
    if found is None or burst is None:
        return None
    parts = {name.replace("_", " "): seconds for name, seconds in found.parts._asdict().items()}
    copying = choice.copied.seconds(hardware)
    if copying:
        parts = {"copies": copying} | parts
    limits = dict(sorted(found.limits.items(), key=lambda limit: -limit[1]))
    return Time(sum(parts.values()), burst.seconds + copying, parts, limits)


def _tiles(choice: Choice, hardware: Hardware) -> Tiles:
    kernel, config, problem = choice.kernel, choice.config, choice.copied.problem
    constants, solved = choice.check(hardware), kernel.oriented(config, problem)
    count, found = kernel.tile_count(constants, solved), kernel.breakdown(config, problem, hardware)
    slots = found.slots if found else hardware.sm_count * kernel.ctas_of_sm(constants)
    waves = -(-count // slots)
    made = count // constants.split_k * constants.tile_m * constants.tile_n
    edges = solved.m * solved.n * solved.batch_count / made
    return Tiles(constants.tile_m, constants.tile_n, count, slots, waves, edges, count / (waves * slots))


def _levels(choice: Choice, hardware: Hardware) -> tuple[Level, ...]:
    """The traffic with GMEM, L2 and SMEM, for all products of a batch; with GMEM also what the epilogue reads."""
    kernel, problem = choice.kernel, choice.copied.problem
    solved = kernel.oriented(choice.config, problem)
    blocking = kernel.blocking(choice.check(hardware))
    sizes = problem.a.dtype.nbytes, problem.out.dtype.nbytes
    count = problem.batch_count
    written = {"out", *(name for name, _ in problem.epilogue.written())}
    crossing = [(name in written, problem.crossing_bytes(name, matrix)) for name, matrix in problem.operands()]
    once = [sum(nbytes for is_written, nbytes in crossing if is_written == wanted) for wanted in (False, True)]
    found = []
    for level in levels(solved.m, solved.n, solved.k, blocking, *sizes):
        read = once[0] if level.name == "GMEM" else level.read_bytes * count
        stored = once[1] if level.written_bytes else 0
        if level.name != "registers":
            found.append(replace(level, read_bytes=read, written_bytes=stored, flops=level.flops * count))
    return tuple(found)
