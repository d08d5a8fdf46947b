"""The ladder without a GPU: each rung's own PTX in the emulator, verified and counted, unless it takes too long."""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from tilewright.hardware import H200
from tilewright.ladder.result import RungResult

if TYPE_CHECKING:
    from tilewright.emulator import Counters


def count_all(results: Sequence[RungResult], seed: int, progress: Callable[[float], None]) -> bool:
    """Verify and count every rung that is not skipped; returns whether Ctrl-C ended it early."""
    running = [each for each in results if not each.skipped]
    for number, each in enumerate(running):

        def part(share: float, number: int = number) -> None:
            progress((number + share) / len(running))

        part(0.0)
        try:
            count(each, seed, part)
        except TimeoutError as refusal:
            each.skipped = str(refusal)
        except KeyboardInterrupt:
            return True
    return False


def count(result: RungResult, seed: int, progress: Callable[[float], None]) -> None:
    """Multiply random matrices with the rung's kernel, and record the emulator's counters.

    Raises a TimeoutError, before or during the run, if it takes longer than the limit on emulations.
    """
    from tilewright.api import plan
    from tilewright.backends.emulated import EmulatedBackend
    from tilewright.backends.emulation_limit import refuse_long_emulation, share_together
    from tilewright.checking.time_limit import TimeLimit
    from tilewright.model.traffic import traffic

    rung, product = result.rung, result.product
    product.require_memory()
    try:
        refuse_long_emulation(rung.kernel, result.config, product.problem, H200)
    except RuntimeError as refusal:
        raise TimeoutError(str(refusal)) from None
    operands = product.operands(seed, rung.data)

    def go_on(share: float) -> None:
        limit(share)
        progress(share)

    backend = EmulatedBackend(count_memory=True, progress=go_on)
    planned = plan(operands["a"], operands["b"], kernel=rung.name, config=result.config, backend=backend)
    launch = rung.kernel.assemble(result.config, product.problem, backend.hardware).shape
    together = share_together(launch.grid, launch.block, launch.cluster)
    limit = TimeLimit(str(product), together, "use a GPU or a smaller product")  # its time starts here
    counters: Counters
    out, counters = planned.counted(operands["a"], operands["b"])
    comparison = product.verify(out, operands, planned.accumulator)
    result.verified, error = comparison.verified, comparison.relative_error
    result.relative_error = error if isfinite(error) else None
    result.counters = {
        "totals": counters.as_dict(),
        "by_line": {line: counts.as_dict() for line, counts in counters.by_line.items()},
    }
    result.traffic = traffic(product.problem.flops, product.problem.minimum_bytes, result.counters["totals"])
    result.explanation = result.traffic.explanation(_most_scattered(counters), _most_conflicts(counters))


def _most_scattered(counters: "Counters") -> str:
    """The line with the most sectors, among lines whose loads touch over twice the ideal; empty if there is none.

    Up to twice the ideal is normal for rows of a tile that are shorter than a sector, or begin within one.
    """
    sectors = {
        line: counts.global_sectors["ld"]
        for line, counts in counters.by_line.items()
        if counts.global_sectors.get("ld", 0) > 2 * counts.global_ideal_sectors.get("ld", 0)
    }
    return max(sectors, key=sectors.__getitem__, default="")


def _most_conflicts(counters: "Counters") -> str:
    """The source line with the most bank conflicts; empty if there are no conflicts."""
    lines = {line: sum(counts.shared_conflicts.values()) for line, counts in counters.by_line.items()}
    worst = max(lines, key=lines.__getitem__, default="")
    return worst if worst and lines[worst] else ""
