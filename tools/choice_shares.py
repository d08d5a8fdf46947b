"""Print what the planner's choices reach of the best that was measured, by record: suites, random products and others.

In each product of a record, the model picks one of the Configs that were measured of it, and the share is the picked
one's rate over the best one's, as calibrate.py compares them. With few rows, the model also picks the kernel. What the
picks have with trees that correct them, fitted to other products, is from correction_*.json, where fit_correction.py
writes it. docs/choosing.md shows the table.

python tools/choice_shares.py
"""

import json
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, load, posed  # noqa: E402

from tilewright.hardware import recognize  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.model.cost import COSTS  # noqa: E402
from tilewright.model.ranking.correction import TREES  # noqa: E402

RESULTS = ROOT / "results"
RECORDS = {
    "proof_without_quack": "suite proof, untuned and tuned Configs",
    "calibration_h200": "layers and squares",
    "by_turns_h200": "large products, by turns and together, each at its own clocks",
    "promoted_h200": "fp8, with promoted sums and scales of blocks",
    "sweep_h200": "random products and batches",
    "sweep_layouts_h200": "random products and batches, all layouts",
    "sweep_later_h200": "random products and batches, to which no constant was fitted",
    "sweep_halves_h200": "the same",
    "sweep_thin_h200": "the same, of few rows",
    "sweep_h100": "the same, all layouts",
    "sweep_thin_h100": "the same, of few rows",
    "sweep_second_h100": "the same, all layouts, later",
    "sweep_thin_second_h100": "the same, of few rows, later",
    "sweep_bytes_h100": "random products of fp8 and int8, and batches of int8",
    "sweep_bytes_thin_h100": "the same, of few rows",
    "sweep_bytes_large_h100": "the same, large, of whole multiples of 128",
    "sweep_fp8_h100": "random products of fp8",
    "sweep_fp8_large_h100": "the same, large, of whole multiples of 128",
}
FEW_ROWS = "gemv_h200"


class Picked(NamedTuple):
    """A product, how many Configs were measured of it, and the share that the picked one has of the best rate."""

    shape: Shape
    configs: int
    share: float


def main() -> None:
    """Print the table."""
    print("\n".join(table()))


def table() -> list[str]:
    """A line of Markdown for each record."""
    lines = [
        "| products | record | number | Configs of one | by arithmetic: mean | least | corrected: number | mean | "
        "least |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    shares_of = {nbytes: json.loads(path.read_text(encoding="utf-8"))["shares"] for nbytes, path in TREES.items()}
    corrected = {name: values for shares in shares_of.values() for name, values in shares.items()}
    for name, about in {**RECORDS, FEW_ROWS: "1 to 16 rows, by `gemv` or `wgmma`"}.items():
        picked = list(_few_rows() if name == FEW_ROWS else _of_wgmma(name))
        shares = [each.share for each in picked]
        mean = exp(sum(map(log, shares)) / len(shares))
        worst = min(picked, key=lambda each: each.share)
        configs = sum(each.configs for each in picked) / len(picked)
        number, *_, better, least, _ = corrected.get(name, ["", "", "", ""])
        lines.append(
            f"| {about} | {name}.json | {len(picked)} | {configs:.0f} | {mean:.3f} | {worst.share:.2f}, "
            f"{worst.shape} | {number} | {better} | {least} |"
        )
    lines.append("")
    for nbytes, about in ((2, "2 bytes"), (1, "1 byte")):
        number, mean, least, low, better, highest, lower = shares_of[nbytes]["all"]
        lines.append(
            f"Of all {number} products with elements of {about} that are corrected, the picks have {mean} by "
            f"arithmetic, {least} at least and {low} below 0.9; with trees that were fitted to other products, "
            f"{better}, {highest} at least and {lower} below 0.9."
        )
    return lines


def _of_wgmma(name: str) -> Iterator[Picked]:
    for each in load(RESULTS / f"{name}.json"):
        yield Picked(each.shape, each.us.size, each.share(COSTS))


def _few_rows() -> Iterator[Picked]:
    """Of what is offered: a sweep of all Configs has others."""
    record = json.loads((RESULTS / f"{FEW_ROWS}.json").read_text(encoding="utf-8"))
    gpu = recognize(record["gpu"])
    assert gpu is not None
    products: dict[Shape, list[tuple[str, Any, float]]] = {}
    for m, n, k, layout, kernel, fields, us, _ in record["launches"]:
        if kernel in KERNELS:
            config = KERNELS[kernel].config_type(**dict(zip(record["columns"][kernel], fields, strict=True)))
            products.setdefault(Shape(m, n, k, layout=layout), []).append((kernel, config, us))
    for shape, launches in products.items():
        problem = posed(shape)
        offered = set(KERNELS["gemv"].configs(problem, gpu))
        ranked = []
        for kernel, config, us in launches:
            predicted = KERNELS[kernel].predict(config, problem, gpu, "recorded")
            if predicted is not None and (kernel != "gemv" or config in offered):
                ranked.append((predicted.seconds, us))
        yield Picked(shape, len(ranked), min(us for _, us in ranked) / min(ranked)[1])


if __name__ == "__main__":
    main()
