"""`plan(..., tune=True)`: a product that was not tuned is tuned first."""

import logging

from tilewright.errors import ArgumentValueError, UnavailableError
from tilewright.jit.pool import CompilerPool
from tilewright.planner.request import Request
from tilewright.planner.tuned import store
from tilewright.tuning.search import tune

log = logging.getLogger("tilewright")


def ensure_tuned(request: Request) -> None:
    """Tune the product of a request on its GPU, unless the tables have it; the user's table keeps what is found.

    The caller's arrays are neither read nor written. Raises a ValueError where nothing can be tuned, and an
    UnavailableError while a stream is captured.
    """
    problem, backend = request.problem, request.backend
    if request.kernel != "auto" or request.config is not None:
        raise ArgumentValueError("tune=True and kernel= or config= were given: tuning chooses them; leave them out")
    if backend.name != "gpu":
        raise ArgumentValueError(f"tune=True measures on a GPU, and backend is {backend.name!r}: leave tune out")
    if problem.is_empty:
        return
    kept = store(backend.hardware.name)
    entry = kept.find(problem)
    if entry is not None and entry.m == problem.m:
        return
    if request.is_capturing():
        raise UnavailableError(
            "tune=True while the current stream is being captured into a CUDA graph: tune before the capture"
        )
    from tilewright.backends.gpu import GpuBackend
    from tilewright.tuning.stand import GpuStand

    assert isinstance(backend, GpuBackend)
    with GpuStand(problem, backend) as stand, CompilerPool() as pool:
        found = tune(problem, stand, pool)
    kept.add([found.entry])
    best = found.best[0]
    log.info(
        "tuned %s in %.1f s: %s, %.2f us, %.3f of untuned", problem, found.seconds, best.config, best.us, best.gain
    )
