"""Fit the trees of model/ranking/correction.py to measured launches, and say what they gain where they were not fitted.

Each product of RECORDS is a group of Configs, measured in one run, and a tree is fitted to how their times differ from
predicted ones beside each other, more to those that are near the best. What is printed is the share of the best
measured rate that choices reach, by record: without trees, and with trees fitted to the other products (eight-fold
cross-validation), which is what a product that nobody has measured may expect.
Needs catboost (pip install catboost), which nothing else does.

examples:
  python tools/fit_correction.py                     the shares; half a minute
  python tools/fit_correction.py --trees 1           those of fp8 and int8
  python tools/fit_correction.py --trees short       those of products of a short k and a large result
  python tools/fit_correction.py --trees 1 --write   and write trees beside that module, fitted to all products, and
                                                     the shares to results/
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Measured, load  # noqa: E402

from tilewright.kernels.wgmma.operands import row_bytes  # noqa: E402
from tilewright.model.cost import fixed, found_of, is_short, prepare  # noqa: E402
from tilewright.model.prediction import costs_of  # noqa: E402
from tilewright.model.ranking import correction  # noqa: E402
from tilewright.model.ranking.correction import FEATURES, GROUPS, NEAREST, TREES, Correction, OfProducts  # noqa: E402
from tilewright.model.ranking.trees import Trees, letters_of  # noqa: E402
from tilewright.model.tiling.tiles import Array  # noqa: E402

RECORDS = {
    "1": (
        "sweep_bytes_h100", "sweep_bytes_thin_h100", "sweep_bytes_large_h100", "sweep_fp8_h100", "sweep_fp8_large_h100",
        "sweep_fp8_third_h100", "sweep_fp8_fourth_h100", "sweep_fp8_thin_h100",
        "sweep_near_bytes_h100", "sweep_near_bytes_large_h100", "sweep_promoted_h100",
        "sweep_promoted_large_h100", "sweep_promoted_thin_h100", "sweep_near_bytes_second_h100",
        "sweep_near_bytes_large_second_h100", "sweep_near_bytes_thin_h100", "sweep_near_bytes_third_h100",
        "sweep_near_bytes_large_third_h100", "sweep_promoted_second_h100", "sweep_near_bytes_layers_h100",
        "sweep_blocks_near_large_h100", "sweep_blocks_near_layers_h100", "sweep_blocks_near_any_h100",
        "sweep_blocks_near_second_h100", "sweep_blocks_near_large_second_h100", "sweep_deep_bytes_h200",
        "sweep_clusters_bytes_h200", "sweep_clusters_bytes_second_h200", "sweep_short_bytes_h200",
        "sweep_wide_bytes_h200", "sweep_turns_bytes_h200", "sweep_short_bytes_second_h200", "sweep_middle_bytes_h200",
    ),
    "2": (
        "calibration_h200", "by_turns_h200", "sweep_h200", "sweep_layouts_h200", "sweep_later_h200",
        "sweep_halves_h200", "sweep_thin_h200", "sweep_h100", "sweep_thin_h100", "sweep_second_h100",
        "sweep_thin_second_h100", "sweep_near_h100", "sweep_near_second_h100", "sweep_near_thin_h100",
        "sweep_near_large_h100", "sweep_near_third_h100", "sweep_near_layers_h100",
        "sweep_near_layers_second_h100", "sweep_near_fourth_h100", "sweep_ahead_h100", "sweep_near_layers_third_h100",
        "sweep_thin_third_h100", "sweep_thin_fourth_h100", "sweep_deep_h200", "sweep_deep_second_h200",
        "sweep_deep_layers_h200", "sweep_deep_third_h200", "sweep_few_layers_h200", "sweep_batches_layers_h200",
        "sweep_clusters_h200", "sweep_clusters_second_h200",
        "sweep_deep_rows_h200", "sweep_layers_rows_h200", "sweep_pairs_first_h200", "sweep_pairs_h200",
        "sweep_pairs_wide_h200", "sweep_pairs_small_h200",
    ),
}  # fmt: skip
"""By the name of their trees."""
RECORDS["short"] = (
    *RECORDS["2"], "sweep_short_h200", "sweep_short_second_h200", "sweep_turns_first_h200", "sweep_turns_h200",
    "sweep_turns_unseen_h200", "sweep_turns_any_h200", "sweep_boxes_h200", "sweep_boxes_large_h200",
    "sweep_rows_off_h200",
)  # fmt: skip
LATER: dict[str, tuple[str, ...]] = {
    "1": ("sweep_deep_bytes_h200", "sweep_clusters_bytes_h200", "sweep_clusters_bytes_second_h200"),
    "2": (
        "sweep_deep_rows_h200", "sweep_layers_rows_h200", "sweep_pairs_first_h200", "sweep_pairs_h200",
        "sweep_pairs_wide_h200", "sweep_pairs_small_h200",
    ),
    "short": (),
}  # fmt: skip
"""Records that the first trees do not know; the further trees are fitted to all. So most choices stay as they were
measured, while trees that are fitted anew, to a few more products, change a quarter of the suites' choices for others
that are as quick. The first trees of 2 bytes do know the first records of clusters: so choices have 0.982 of the best
there for few rows, and 0.980 if only further trees know them."""

COUNT, DEPTH, RATE = {"1": (250, 30), "2": (500, 30), "short": (300, 0)}, {"1": 7, "2": 7, "short": 5}, 0.2
"""First trees and further ones, their questions, and what of its correction each makes."""
UNIT = {"1": 2e-3, "2": 1e-3, "short": 2e-3}
"""Of leaves. Rounding to 2e-3 costs choices of 2 bytes 0.1%, and those of 1 byte, which have fewer trees, nothing."""
SHARE = {"1": 0.6, "2": 1.0, "short": 1.0}
"""Of the features, among which a question is chosen. Trees of 1 byte that know 1,612 products alike differ in what they
choose for large ones; of those that were then measured on an H200, trees of some features chose best."""
SHRINK = {"1": (3, 48), "2": (24, 48), "short": (4, 48)}
"""How much leaves of few launches are drawn to 0, of first trees and of further ones: with more, products of 2 bytes of
which few were measured are left more to arithmetic, at the same share of others, and no way is lost or won by a few
leaves; those of 1 byte lose."""
THRESHOLDS = 64
"""Of a feature, among which trees choose: with more of them, choices were no better."""
NEARNESS = 4.0
"""A launch that takes x times the least time of its product weighs x to the power of minus this."""
LEAST = 4
"""Launches of a product that count; in fewer there is little to choose."""
FOLDS = 8
LOW = 0.9

NEVER = 1e30
"""A threshold that no feature is above."""


class Product(NamedTuple):
    """The Configs of one product that a run measured: features, predicted times, and measured ones, in two halves.

    later: whether only further trees are fitted to it.
    """

    features: Array
    predicted: Array
    us: Array
    again: Array
    later: bool = False

    @classmethod
    def of(cls, measured: Measured, trees: str, later: bool) -> "Product | None":
        """Those of a record's product; None if these trees do not correct it."""
        solved, hardware = measured.solved, measured.hardware
        short = trees == "short"
        costs = costs_of("wgmma", solved.a.dtype, hardware, short)
        prepared = prepare(measured.tiles, "wgmma", solved.a.dtype, hardware, costs)
        of_n = fixed(prepared, solved.n, solved.k, solved.batch_count, row_bytes(solved))
        found = found_of(of_n, solved.m)
        corrects = Correction(measured.tiles, solved.a.dtype, hardware, short)
        ways = np.flatnonzero(measured.stored | (not short))
        if not corrects.is_for(found) or len(ways) < LEAST:
            return None
        features = OfProducts(corrects, of_n).features(found, solved.m, ways)
        return cls(features, found.us[ways], measured.us[ways], measured.again[ways], later)

    @property
    def longer(self) -> Array:
        """Logarithms of measured over predicted times."""
        longer: Array = np.log((self.us + self.again) / 2 / self.predicted)
        return longer

    @property
    def weights(self) -> Array:
        """How much each launch counts."""
        weights: Array = (self.us / self.us.min()) ** -NEARNESS
        return weights

    def share(self, trees: Trees | None) -> float:
        """The rate of the Config that is picked over the best one's: found by one half, compared by the other."""
        order = self.predicted.argsort(kind="stable")[:NEAREST]
        logarithms = np.log(self.predicted[order])
        if trees is not None:
            logarithms = logarithms + trees.of_all(self.features[:, order])
        return float(self.again[self.us.argmin()] / self.again[order[logarithms.argmin()]])


def main() -> None:
    """Print the shares; with --write, write the trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the trees")
    parser.add_argument(
        "--trees", choices=RECORDS, default="2", help="by bytes of an element (default: 2), or of a short k"
    )
    options = parser.parse_args()
    kind = options.trees
    of_record = {name: found for name in RECORDS[kind] if (found := list(products_of(name, kind)))}
    products = [product for each in of_record.values() for product in each]
    folds = np.random.default_rng(0).integers(0, FOLDS, len(products))
    corrected = np.zeros(len(products))
    for fold in range(FOLDS):
        others = [product for product, of in zip(products, folds, strict=True) if of != fold]
        trees = Trees.stored(fit(others, kind), FEATURES, GROUPS)
        for index in np.flatnonzero(folds == fold):
            corrected[index] = products[index].share(trees)
    plain = np.array([product.share(None) for product in products])
    print("record: products; mean, least and number below 0.90 of the share without trees, and with trees of others")
    shares, start = {}, 0
    for name, each in of_record.items():
        rows = slice(start, start := start + len(each))
        shares[name] = [len(each), *summary(plain[rows]), *summary(corrected[rows])]
    shares["all"] = [len(products), *summary(plain), *summary(corrected)]
    for name, values in shares.items():
        print(f"{name}: {', '.join(map(str, values))}")
    if options.write:
        path = TREES[kind]
        path.write_text(text_of(fit(products, kind)), encoding="utf-8")
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(values)}" for name, values in shares.items())
        (ROOT / "results" / path.name).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        print(f"wrote {path}, {path.stat().st_size} bytes")


def products_of(name: str, kind: str) -> Iterator[Product]:
    """Those of a record that trees of this name correct."""
    for measured in load(ROOT / "results" / f"{name}.json"):
        solved = measured.solved
        dtype = solved.a.dtype
        trees = "short" if is_short(dtype, solved.out.dtype.nbytes, solved.m, solved.n, solved.k) else str(dtype.nbytes)
        if trees == kind and correction.is_known(dtype, measured.hardware) and measured.is_as_today(name):
            product = Product.of(measured, kind, name in LATER[kind])
            if product is not None:
                yield product


def fit(products: Sequence[Product], kind: str) -> dict[str, Any]:
    """The trees of this name for these products, as they are stored."""
    model = None
    for later, count, shrink in zip((False, True), COUNT[kind], SHRINK[kind], strict=True):
        known = [product for product in products if later or not product.later]
        if count:
            model = _fitted(known, kind, count, shrink, after=model)
    return stored(model, FEATURES, DEPTH[kind], UNIT[kind])


def _fitted(products: Sequence[Product], kind: str, count: int, shrink: float, after: Any) -> Any:
    """A model of so many trees, behind those of another if there is one."""
    import catboost

    pool = catboost.Pool(
        np.concatenate([each.features for each in products], axis=1).T,
        np.concatenate([each.longer for each in products]),
        group_id=np.repeat(np.arange(len(products)), [len(each.us) for each in products]),
    )
    pool.set_weight(np.concatenate([each.weights for each in products]))
    model = catboost.CatBoost({
        "loss_function": "QueryRMSE", "iterations": count, "depth": DEPTH[kind], "learning_rate": RATE,
        "rsm": SHARE[kind], "l2_leaf_reg": shrink,
        "border_count": THRESHOLDS, "random_seed": 0, "thread_count": 2, "verbose": 0, "allow_writing_files": False,
    })  # fmt: skip
    model.fit(pool, init_model=after)
    return model


def stored(model: Any, features: Sequence[str], depth: int, unit: float) -> dict[str, Any]:
    """What is written of a fitted model: questions and leaves of each tree, leaves in units."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        found = json.loads(path.read_text(encoding="utf-8"))["oblivious_trees"]
    content: dict[str, Any] = {"features": features, "unit": unit, "asked": [], "leaves": []}
    thresholds = []
    for tree in found:
        unasked = depth - len(tree["splits"])  # questions whose answer is always no
        asked = [split["float_feature_index"] for split in tree["splits"]] + [0] * unasked
        borders = [float(f"{split['border']:.4g}") for split in tree["splits"]] + [NEVER] * unasked
        leaves = np.zeros(2**depth, int)
        leaves[: len(tree["leaf_values"])] = [round(value / unit) for value in tree["leaf_values"]]
        order = sorted(range(depth), key=lambda question: (asked[question], borders[question]))
        content["asked"].append([asked[question] for question in order])
        thresholds.append([borders[question] for question in order])
        content["leaves"].append(letters_of(moved(leaves, order)))
    return content | placed(content["asked"], thresholds, len(features))


def placed(asked: Sequence[Sequence[int]], thresholds: Sequence[Sequence[float]], features: int) -> dict[str, Any]:
    """The thresholds of each feature once, in order, and for each question the place of its own, which packs better."""
    questions = [list(zip(*tree, strict=True)) for tree in zip(asked, thresholds, strict=True)]
    known = [sorted({t for tree in questions for f, t in tree if f == feature}) for feature in range(features)]
    return {"thresholds": known, "places": [[known[f].index(t) for f, t in tree] for tree in questions]}


def moved(leaves: Any, order: Sequence[int]) -> list[int]:
    """The leaves of a tree whose questions come in another order, which wheels pack better.

    The first question is the lowest bit of a leaf's number.
    """
    depth = len(order)
    axes = [depth - 1 - question for question in reversed(order)]  # the last question's answers lie furthest apart
    found: list[int] = leaves.reshape((2,) * depth).transpose(axes).ravel().tolist()
    return found


def text_of(content: dict[str, Any]) -> str:
    """JSON with a line for each tree's part."""
    parts = []
    for name, value in content.items():
        if name in ("features", "unit"):
            parts.append(f"{json.dumps(name)}: {json.dumps(value)}")
        else:
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            parts.append(f"{json.dumps(name)}: [\n{rows}\n]")
    return "{" + ",\n".join(parts) + "}\n"


def summary(shares: Array) -> list[float]:
    """Their geometric mean, the least, and how many are below LOW."""
    return [round(geometric_mean(shares), 4), round(float(shares.min()), 2), int((shares < LOW).sum())]


if __name__ == "__main__":
    main()
