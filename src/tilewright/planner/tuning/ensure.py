"""`plan(..., tune=True)`: a product that was not tuned is tuned first."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tilewright.errors import ArgumentValueError, UnavailableError, warn
from tilewright.jit.pool import CompilerPool, compilations
from tilewright.planner.choose import exact_entry
from tilewright.planner.request import Request
from tilewright.planner.tuned import Store, label, store
from tilewright.planner.tuning.search import Tuned, tune
from tilewright.problem import Problem

if TYPE_CHECKING:
    from tilewright.backends.gpu import GpuBackend

log = logging.getLogger("tilewright")


def ensure_tuned(request: Request) -> None:
    """Tune the product of a request on its GPU, unless the tables have it; the user's table keeps what is found.

    The caller's arrays are neither read nor written. Raises a ValueError where nothing can be tuned, and an
    UnavailableError while a stream is captured.
    """
    backend = request.backend
    if request.kernel != "auto" or request.config is not None:
        raise ArgumentValueError("tune=True and kernel= or config= were given: tuning chooses them; leave them out")
    if backend.name != "gpu":
        raise ArgumentValueError(f"tune=True measures on a GPU, and backend is {backend.name!r}: leave tune out")
    if request.problem.is_empty:
        return
    problem = request.problem
    kept = store(label(backend.hardware))
    if exact_entry(problem, backend.hardware):
        return
    if request.is_capturing():
        raise UnavailableError(
            "tune=True while the current stream is being captured into a CUDA graph: tune before the capture"
        )
    from tilewright.backends.gpu import GpuBackend

    assert isinstance(backend, GpuBackend)
    with _alone(kept):
        if exact_entry(problem, backend.hardware):  # another process has just tuned it
            return
        found = _tuned(problem, backend)
        best = found.best[0]
        log.info("tuned %s in %.1f s: %s, %.3f of the untuned choice", problem, found.seconds, best.config, best.gain)
        try:
            kept.add([found.entry], replaces=True)
        except UnavailableError as error:
            warn("%s", error)


def _tuned(problem: Problem, backend: "GpuBackend") -> Tuned:
    from tilewright.planner.tuning.stand import GpuStand

    with GpuStand(problem, backend) as stand, CompilerPool(compilations()) as pool:
        return tune(problem, stand, pool)


@contextmanager
def _alone(kept: Store) -> Iterator[None]:
    """Keep other processes from tuning at the same time; without a lock file if none can be made."""
    import filelock

    lock = filelock.FileLock(kept.path.with_suffix(".tuning"))
    with suppress(OSError, NotImplementedError):
        kept.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
