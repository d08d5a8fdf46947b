"""Print what the planner's choices reach of the best that was measured, by record: suites, random products and others.

In each product of a record, the model picks one of the Configs that were measured of it, and the share is the picked
one's rate over the best one's, as calibrate.py compares them. What the picks have with trees that correct them, fitted
to other products, is from results/correction_*.json, where fit_correction.py and fit_gemv.py write it; with few rows,
the model also picks the kernel. docs/choosing.md shows the table.

python tools/choice_shares.py
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Measured, Shape, load, posed, predict  # noqa: E402

from tilewright.kernels.gemv_time import TREES_OF_GEMV  # noqa: E402
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.kernels.wgmma.operands import row_bytes  # noqa: E402
from tilewright.model.cost import is_short  # noqa: E402
from tilewright.model.prediction import costs_of  # noqa: E402
from tilewright.model.ranking.correction import TREES  # noqa: E402
from tilewright.model.ranking.ranking import Ranking  # noqa: E402
from tilewright.planner.copies import Copied, copied  # noqa: E402

RESULTS = ROOT / "results"
RECORDS = {
    "proof": "suite proof, untuned and tuned Configs",
    "calibration_h200": "layers and squares",
    "by_turns_h200": "large products, by turns and together, each at its own clocks",
    "sweep_h200": "random products and batches",
    "sweep_layouts_h200": "random products and batches, all layouts",
    "sweep_later_h200": "random products and batches, to which no constant was fitted",
    "sweep_halves_h200": "the same",
    "sweep_thin_h200": "the same, of few rows",
    "sweep_h100": "the same, all layouts",
    "sweep_thin_h100": "the same, of few rows",
    "sweep_second_h100": "the same, all layouts, later",
    "sweep_thin_second_h100": "the same, of few rows, later",
    "sweep_near_h100": "random products and batches, all layouts, Configs that are near the planner's choice",
    "sweep_near_second_h100": "the same, later",
    "sweep_near_third_h100": "the same, once more",
    "sweep_near_thin_h100": "the same, of few rows",
    "sweep_near_large_h100": "the same, large, of whole multiples of 128",
    "sweep_near_layers_h100": "the same, of 16 to 1,300 rows and weights as layers have them",
    "sweep_near_layers_second_h100": "the same, later",
    "sweep_near_fourth_h100": "random products and batches, nt and nn, Configs near the choice, later",
    "sweep_ahead_h100": "128 to 700 rows of bf16 and fp16, weights as layers have them, nt, nn and tn",
    "sweep_near_layers_third_h100": "100 to 1,300 rows of bf16, weights as layers have them, nt and nn",
    "sweep_thin_third_h100": "random products of 20 to 160 rows, and batches, nt",
    "sweep_thin_fourth_h100": "random products of 20 to 1,000 rows, and batches, nt",
    "sweep_deep_h200": "random products of few tiles and a long k, nt",
    "sweep_deep_second_h200": "the same, nt, nn and tn",
    "sweep_deep_third_h200": "the same, nt and nn, Configs near the choice",
    "sweep_deep_layers_h200": "16 to 1,300 rows and weights as layers have them, nt and nn",
    "sweep_few_layers_h200": "the same, 16 to 64 rows",
    "sweep_batches_layers_h200": "the same, 9 to 256 rows",
    "sweep_clusters_h200": "2 to 288 rows of such weights, nt and nn, half of the Configs in clusters",
    "sweep_clusters_second_h200": "the same, and layers, few tiles and any extents",
    "sweep_deep_rows_h200": "96 to 320 rows of few tiles and a long k, nt and nn, near the choice and others",
    "sweep_layers_rows_h200": "33 to 320 rows and weights as layers have them, nt and nn, near the choice and others",
    "sweep_pairs_first_h200": "32 to 320 rows, nt and nn, most of the Configs in clusters, many not in the space",
    "sweep_pairs_h200": "23 to 640 rows, nt and nn, half of the Configs with new tilings",
    "sweep_pairs_wide_h200": "the same, 32 to 256 rows of wide weights, nn",
    "sweep_pairs_small_h200": "the same, random products of up to 720 rows, nt and nn",
    "sweep_short_h200": "random products of a large result and a short k, all layouts",
    "sweep_short_second_h200": "the same, and batches, later",
    "sweep_turns_first_h200": "random and large products, nt and nn, half of the Configs with new tilings",
    "sweep_turns_h200": "random products of a middling size, nt and nn, a third of the Configs with ping_pong",
    "sweep_turns_unseen_h200": "the same, later",
    "sweep_turns_any_h200": "random products of 100 rows and more, and batches, nt and nn",
    "sweep_boxes_h200": "random products of a middling size, nt and nn, Configs stored by TMA and from registers",
    "sweep_boxes_large_h200": "the same, large",
    "sweep_rows_off_h200": "random products of a middling size, nt, a third with rows of a and b off sectors",
    "sweep_bytes_h100": "random products of fp8 and int8, and batches of int8",
    "sweep_bytes_thin_h100": "the same, of few rows",
    "sweep_bytes_large_h100": "the same, large, of whole multiples of 128",
    "sweep_fp8_h100": "random products of fp8",
    "sweep_fp8_large_h100": "the same, large, of whole multiples of 128",
    "sweep_fp8_third_h100": "the same, later",
    "sweep_fp8_fourth_h100": "random products of fp8, later",
    "sweep_fp8_thin_h100": "the same, of few rows",
    "sweep_promoted_h100": "random products of fp8 whose sums are promoted",
    "sweep_promoted_second_h100": "the same, with scales of blocks too",
    "sweep_promoted_large_h100": "the same, large, of whole multiples of 128",
    "sweep_promoted_thin_h100": "the same, of few rows",
    "sweep_near_bytes_h100": "random products of fp8 and int8, Configs that are near the planner's choice",
    "sweep_near_bytes_large_h100": "the same, large, of whole multiples of 128",
    "sweep_near_bytes_second_h100": "the same as before the last, later",
    "sweep_near_bytes_large_second_h100": "the same, large, of whole multiples of 128, some with promoted sums",
    "sweep_near_bytes_third_h100": "random products of fp8 and int8, some with promoted sums, near the choice",
    "sweep_near_bytes_large_third_h100": "the same, large, of whole multiples of 128",
    "sweep_near_bytes_thin_h100": "the same, of few rows",
    "sweep_near_bytes_layers_h100": "the same, of 16 to 1,300 rows and weights as layers have them",
    "sweep_blocks_near_large_h100": "fp8 with promoted sums, two thirds with scales of blocks; multiples of 128",
    "sweep_blocks_near_layers_h100": "the same, of 16 to 1,300 rows and weights as layers have them",
    "sweep_blocks_near_any_h100": "the same, random products",
    "sweep_blocks_near_second_h100": "fp8, half with scales of blocks, and int8, as layers have them",
    "sweep_blocks_near_large_second_h100": "the same, multiples of 128",
    "sweep_deep_bytes_h200": "random products of fp8 and int8 of few tiles and a long k, nt",
    "sweep_clusters_bytes_h200": "3 to 288 rows of fp8 and int8, half of the Configs in clusters",
    "sweep_clusters_bytes_second_h200": "the same, layers, and others of few rows",
    "sweep_short_bytes_h200": "random products of fp8 and int8 of a large result and a short k, nt",
    "sweep_short_bytes_second_h200": "the same, later",
    "sweep_wide_bytes_h200": "72 to 320 rows of fp8 and int8 and wide weights, nt",
    "sweep_turns_bytes_h200": "random products of fp8 and int8 of a middling size, nt",
    "sweep_middle_bytes_h200": "the same, later",
}
FEW_ROWS = {
    "gemv_h200": "1 to 16 rows, by `gemv` or `wgmma`",
    "gemv_decode_h100": "the same, other GPU",
    "gemv_odd_h100": "1 to 16 rows, by `gemv` or `wgmma`, rows of weights that are aligned to 8 bytes too",
    "gemv_now_h200": "1 to 8 rows, by `gemv` or `wgmma`, later",
    "gemv_random_h200": "1 to 16 rows of random weights, by `gemv` or `wgmma`",
    "gemv_random_second_h200": "the same, later",
    "gemv_odd_h200": "1 to 16 rows, rows of weights that are aligned to 8 bytes too, nt",
    "gemv_ends_h200": "1 to 16 rows, rows of weights that begin anywhere, nt and nn",
}

UNSEEN = {
    "sweep_unseen_layers_h100": "100 to 1,300 rows of bf16 and fp16, weights as layers have them, nt and nn",
    "sweep_ahead_bytes_h100": "112 to 700 rows of fp8, nt",
    "sweep_ahead_bytes_large_h100": "large products of fp8, of whole multiples of 128",
    "sweep_pairs_columns_h200": "64 to 384 rows of wide weights, nt and nn, half of the Configs in pairs of wide tiles",
    "sweep_short_unseen_h200": "random products of a large result and a short k, nt and nn",
    "sweep_pairs_bytes_h200": "23 to 640 rows of fp8 and int8, nt, half of the Configs with new tilings",
    "sweep_turns_layers_h200": "layers of suites, and random products, the best eight Configs",
    "sweep_middle_h200": "random products of a middling size, nt and nn",
    "sweep_any_h200": "random products of 100 rows and more, and batches, nt and nn",
    "sweep_widths_rows_h200": "30 to 640 rows, nt and nn, Configs with 300 new tilings, of which 50 stay",
    "sweep_widths_middle_h200": "the same, random products of a middling size",
    "sweep_widths_deep_h200": "the same, of few tiles and a long k",
    "sweep_widths_any_h200": "the same, any random products, and batches",
    "sweep_functions_large_h100": "large products of bf16 with a bias, gelu or silu",
    "sweep_functions_layers_h100": "the same, weights as layers have them",
    "sweep_functions_second_h100": "large products of bf16 with a bias, gelu or silu, later",
}
"""Records to which no tree is fitted; `Costs.finish` was fitted to those with functions."""


class Picked(NamedTuple):
    """A product, how many Configs were measured of it, and the share that the picked one has of the best rate."""

    shape: Shape
    configs: int
    share: float


def main() -> None:
    """Print the table."""
    print("\n".join(table()))


def table() -> list[str]:
    """What all records say, and a line of Markdown for each."""
    lines = [
        "| products | record | number | Configs of one | by arithmetic: mean | least | corrected: number | mean | "
        "least |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    shares_of = {name: json.loads((RESULTS / path.name).read_text(encoding="utf-8")) for name, path in TREES.items()}
    corrected = {name: values for trees in ("short", "2", "1") for name, values in shares_of[trees].items()}
    for name, about in RECORDS.items():
        picked = list(_of_wgmma(name))
        mean, worst, configs = _summary(picked)
        number, *_, better, least, _ = corrected.get(name, ["", "", "", ""])
        shown = f"{better:.3f}" if number else ""
        lines.append(
            f"| {about} | {name}.json | {len(picked)} | {configs:.0f} | {mean:.3f} | {worst.share:.2f}, "
            f"{worst.shape} | {number} | {shown} | {least} |"
        )
    few_rows = json.loads((RESULTS / TREES_OF_GEMV.name).read_text(encoding="utf-8"))
    for name, about in FEW_ROWS.items():
        number, *_, mean, worst, _, better, least, _ = few_rows[name]
        shown = f"{number} |  | {mean:.3f} | {worst} | {number} | {better:.3f} | {least}"
        lines.append(f"| {about} | {name}.json | {shown} |")
    said = []
    for trees, about in (("2", "2 bytes"), ("1", "1 byte"), ("short", "2 bytes with a short k and a large result")):
        number, mean, least, low, better, highest, lower = shares_of[trees]["all"]
        said.append(
            f"Of all {number} products with elements of {about} to which trees were fitted, the picks have "
            f"{mean:.3f} by arithmetic, {least} at least and {low} below 0.9; with trees that were fitted to other "
            f"products, {better:.3f}, {highest} at least and {lower} below 0.9."
        )
    number, mean, least, low, better, highest, lower, *_ = few_rows["all"]
    said.append(
        f"Of all {number} products of up to 16 rows, the Configs of `gemv` that are picked have {mean:.3f} of its best "
        f"one by arithmetic, {least} at least and {low} below 0.9; with trees that were fitted to other weights, "
        f"{better:.3f}, {highest} at least and {lower} below 0.9."
    )
    return [*said, "", *lines, *_unseen_table()]


def _unseen_table() -> list[str]:
    """The same of records to which no tree is fitted: what today's choices have."""
    lines = [
        "",
        "Of products to which no tree is fitted, the choices have, of the best Config that stores out as today's do "
        "(`Costs.finish` is fitted to those with functions):",
        "",
        "| products | record | number | Configs of one | mean | least | below 0.9 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, about in UNSEEN.items():
        picked = list(_unseen(name))
        mean, worst, configs = _summary(picked)
        low = sum(each.share < 0.9 for each in picked)
        lines.append(
            f"| {about} | {name}.json | {len(picked)} | {configs:.0f} | {mean:.3f} | {worst.share:.2f}, {worst.shape} "
            f"| {low} |"
        )
    return lines


def _summary(picked: Sequence[Picked]) -> tuple[float, Picked, float]:
    """The geometric mean of shares, the product with the least, and how many Configs one has."""
    mean = geometric_mean(each.share for each in picked)
    return mean, min(picked, key=lambda each: each.share), fmean(each.configs for each in picked)


def _of_wgmma(name: str) -> Iterator[Picked]:
    for each in load(RESULTS / f"{name}.json"):
        if each.is_as_today(name):
            solved = each.solved
            short = is_short(solved.a.dtype, solved.out.dtype.nbytes, solved.m, solved.n, solved.k)
            costs = costs_of("wgmma", solved.a.dtype, each.hardware, short)
            share = each.share_today(predict(each, costs)) if short else each.share(costs)
            yield Picked(each.shape, each.us.size, share)


def _unseen(name: str) -> Iterator[Picked]:
    for each in load(RESULTS / f"{name}.json"):
        yield Picked(each.shape, each.us.size, each.share_today(np.array([*_ranked(each)])))


def _ranked(measured: Measured) -> Iterator[float]:
    """The times of Configs of `wgmma` in us by which the planner ranks them, with copies of operands."""
    solved, gpu = measured.solved, measured.hardware
    taken = copied(posed(measured.shape), KERNELS["wgmma"], gpu)
    assert isinstance(taken, Copied)
    ranking = Ranking(measured.tiles, "wgmma", solved.a.dtype, gpu)
    product = solved.m, solved.n, solved.k, solved.batch_count, row_bytes(solved)
    for index in range(measured.us.size):
        yield 1e6 * (ranking.seconds(index, solved, gpu, *product) + taken.seconds(gpu, solved.m))


if __name__ == "__main__":
    main()
