"""The ladder without a GPU: each rung's own PTX in the emulator, verified and counted."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.ladder_result import Climbed

if TYPE_CHECKING:
    from tilewright.emulator import Counters
    from tilewright.hardware import Hardware


def count_all(
    climbed: Sequence[Climbed],
    config_of: "Callable[[Climbed, Hardware], Any]",
    seed: int,
    progress: Callable[[float], None],
) -> bool:
    """Verify and count every rung that is not skipped; whether Ctrl-C ended it early."""
    from tilewright.hardware import H200

    running = [each for each in climbed if not each.skipped]
    for number, each in enumerate(running):

        def part(share: float, number: int = number) -> None:
            progress((number + share) / len(running))

        part(0.0)
        try:
            count(each, config_of(each, H200), seed, part)
        except KeyboardInterrupt:
            return True
    return False


def count(climbed: Climbed, config: Any, seed: int, progress: Callable[[float], None]) -> None:
    """Multiply random matrices with the rung's kernel; note what the emulator counted."""
    from tilewright import dtypes
    from tilewright.api import plan, refuse_long_emulation
    from tilewright.backends.emulated import EmulatedBackend
    from tilewright.cli.product import Product
    from tilewright.model.traffic import traffic

    rung, kind = climbed.rung, dtypes.parse(climbed.dtype, "--dtype")
    product = Product(climbed.m, climbed.n, climbed.k, kind, kind, rung.layout)
    product.require_memory()
    refuse_long_emulation(product.problem)
    operands = product.operands(seed)
    backend = EmulatedBackend(count_memory=True, progress=progress)
    planned = plan(operands["a"], operands["b"], kernel=rung.name, config=config, backend=backend)
    comparison = product.verify(planned(operands["a"], operands["b"]), operands)
    climbed.verified, climbed.relative_error = comparison.verified, comparison.relative_error
    counters: Counters = planned.counters
    climbed.counters = {
        "totals": counters.as_dict(),
        "by_line": {line: counts.as_dict() for line, counts in counters.by_line.items()},
    }
    climbed.traffic = traffic(product.problem.flops, product.problem.minimum_bytes, climbed.counters["totals"])
    climbed.explanation = climbed.traffic.explanation(_most_conflicts(counters))
    assert planned.config is not None  # the product is not empty
    climbed.config = dataclasses.asdict(planned.config)


def _most_conflicts(counters: "Counters") -> str:
    """The source line with most bank conflicts; empty where there are none."""
    lines = {line: sum(counts.shared_conflicts.values()) for line, counts in counters.by_line.items()}
    worst = max(lines, key=lines.__getitem__, default="")
    return worst if worst and lines[worst] else ""
