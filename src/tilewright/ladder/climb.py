"""The climb: chosen rungs are measured or counted, and gathered in one record."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tilewright.checking.runs import ignored
from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.hardware import H200, Hardware
from tilewright.kernels.ladder import LADDER, Rung
from tilewright.ladder.options import LadderOptions
from tilewright.ladder.result import RungResult
from tilewright.rounding import integers, natural

GPU_SHAPE, EMULATED_SHAPE = (4096, 4096, 4096), (256, 256, 128)
"""The default shapes: the articles' usual one, and one that the emulator multiplies with every rung in a minute."""

Progress = Callable[[float], None]


def measure(
    shape: tuple[int, int, int] | int | None = None,
    rungs: Sequence[str] | None = None,
    *,
    dtype: object = None,
    options: Mapping[str, object] | None = None,
    backend: str = "auto",
    settled: bool = False,
    counters: bool = False,
    seed: int = 0,
    progress: Progress = ignored,
) -> dict[str, Any]:
    """Verify rungs of the ladder against float64, and time them beside cuBLAS (GPU) or count them (emulator).

    shape: (m, n, k), or one number for a cube; by default one that suits the backend.
    rungs: names of rungs; all by default.
    dtype, options: element type, and fields of the rungs' Configs by name, for the rungs that have them.
    backend: "auto" (a GPU if there is one), "gpu" or "emulator".
    settled: measure at the power limit too; needs a GPU.
    counters: instead of timing the rungs, read what the hardware counts of one launch of each; needs a GPU and ncu.
    seed: of the random operands.
    progress: called with the finished share, from 0 to 1.

    Returns the record that `tilewright ladder --json` prints: backend, m, n, k, verified, interrupted, a list of rungs,
    on a GPU also gpu, date, command and versions, `counters` if it has those, and `error` if no rung ran. Ctrl-C ends
    it early.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that name nothing measurable.
        UnavailableError: if there is no GPU for backend="gpu", or no ncu for counters.
    """
    on_gpu = _on_gpu(backend)
    if settled and not on_gpu:
        raise ArgumentValueError("settled=True is a way of measuring time, which needs a GPU: leave it out")
    if counters and not on_gpu:
        raise ArgumentValueError("counters=True asks for those of the hardware, which need a GPU: leave it out")
    if counters and settled:
        raise ArgumentValueError("counters=True measures no time, and settled=True does: leave one out")
    return climb(
        chosen(rungs, f"rungs={rungs!r}"),
        _extents(shape),
        LadderOptions.of(dtype, options),
        on_gpu=on_gpu,
        named=rungs is not None,
        settled=settled,
        counters=counters,
        seed=natural("seed", seed),
        progress=progress,
        command="tilewright.ladder.measure",
    )


def chosen(names: Sequence[str] | None, written: str) -> list[Rung]:
    """The rungs of these names, in the ladder's order; all without names. written: how the caller gave them."""
    if names is None:
        return list(LADDER.values())
    if isinstance(names, str) or not isinstance(names, Collection) or not names:
        raise ArgumentValueError(f"{written} names no rung: use some of {', '.join(LADDER)}, or leave it out")
    for name in names:
        if not isinstance(name, str) or name not in LADDER:
            raise ArgumentValueError(f"{written} names {name!r}, which is not a rung: use {', '.join(LADDER)}")
    return [rung for name, rung in LADDER.items() if name in names]


def climb(
    rungs: Sequence[Rung],
    shape: tuple[int, int, int] | None,
    options: LadderOptions,
    *,
    on_gpu: bool,
    named: bool,
    settled: bool = False,
    counters: bool = False,
    seed: int = 0,
    progress: Progress = ignored,
    command: str | None = None,
) -> dict[str, Any]:
    """The record of these rungs, as `measure` returns it.

    named: whether the caller named the rungs, which must then have every option.
    command: the command in the record; by default the command line of the process.
    """
    options.require(rungs, named=named)
    shape = shape or (GPU_SHAPE if on_gpu else EMULATED_SHAPE)
    hardware = _hardware(on_gpu)
    results = [begun(rung, shape, options, hardware) for rung in rungs]
    if counters:
        from tilewright.ladder.profiled import profile_all

        interrupted = profile_all(results, seed, progress)
    elif on_gpu:
        from tilewright.ladder.timed import time_all

        interrupted = time_all(results, seed, settled, progress)
    else:
        from tilewright.ladder.emulated import count_all

        interrupted = count_all(results, seed, progress)
    verdicts = [each.verified for each in results if each.verified is not None]
    record = {
        "backend": "gpu" if on_gpu else "emulator",
        **(_machine(command) if on_gpu else {}),
        **({"counters": True} if counters else {}),
        **dict(zip("mnk", shape, strict=True)),
        "verified": all(verdicts) if verdicts else None,
        "interrupted": interrupted,
        "rungs": [each.as_dict() for each in results],
    }
    if not verdicts and not interrupted:
        reasons = left_out(record["rungs"])
        record["error"] = "no rung ran:" + "".join(f"\n  {names}: {reason}" for reason, names in reasons)
    return record


def begun(rung: Rung, shape: tuple[int, int, int], options: LadderOptions, hardware: Hardware) -> RungResult:
    """A rung before its run: with its Config, or with the reason why it does not take the shape on this GPU."""
    result = RungResult(rung, *shape, options.dtype_of(rung), ignored=options.ignored_by(rung))
    problem = result.product.problem
    if 0 in shape:
        result.skipped = "the product is empty"
    elif refusal := rung.kernel.refuses(problem, hardware):
        result.skipped = str(refusal)
    else:
        result.config = options.config(rung, problem, hardware)
    return result


def left_out(rungs: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The reasons why rungs of a record were skipped, each with the rungs' names."""
    reasons: dict[str, list[str]] = {}
    for rung in rungs:
        if reason := rung.get("skipped"):
            reasons.setdefault(reason, []).append(rung["name"])
    return [(reason, ", ".join(names)) for reason, names in reasons.items()]


def _on_gpu(backend: str) -> bool:
    from tilewright.api import gpu_count

    if backend not in ("auto", "gpu", "emulator"):
        raise ArgumentValueError(f"backend={backend!r} is unknown: use 'auto', 'gpu' or 'emulator'")
    on_gpu = backend != "emulator" and gpu_count() > 0
    if backend == "gpu" and not on_gpu:
        raise UnavailableError(
            "backend='gpu' needs an NVIDIA GPU with its driver, and none is usable here; see `tilewright doctor`"
        )
    return on_gpu


def _extents(shape: object) -> tuple[int, int, int] | None:
    if shape is None:
        return None
    extents = integers(shape)
    if len(extents) == 1:
        extents *= 3
    if len(extents) != 3 or min(extents) < 0:
        raise ArgumentValueError(f"shape={shape!r} must be (m, n, k) of natural numbers, or one for a cube")
    m, n, k = extents
    return m, n, k


def _hardware(on_gpu: bool) -> Hardware:
    """The first GPU, or the one that the emulator represents."""
    if not on_gpu:
        return H200
    from tilewright.backends.gpu import backend

    return backend(0).hardware


def _machine(command: str | None) -> dict[str, Any]:
    from tilewright.bench import session

    return {**session.machine(), **({} if command is None else {"command": command})}
