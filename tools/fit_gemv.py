"""Fit the trees of kernels/gemv_time.py to measured launches, and say what they gain where they were not fitted.

The trees say how much longer a launch takes than the arithmetic says, most of all of Configs that are near a product's
best one. What is printed is the share of the best measured rate that choices of a Config reach, by record: without
trees, and with trees fitted to weights of other extents (eight-fold cross-validation), which is what weights that
nobody has measured may expect; and the same of choices between gemv and the Config that wgmma took.
Needs catboost (pip install catboost), as fit_correction.py does.

examples:
  python tools/fit_gemv.py             the shares; a minute
  python tools/fit_gemv.py --write     and write trees, fitted to all products, and the shares to results/
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from calibrate import Shape, posed  # noqa: E402
from fit_correction import FOLDS, LEAST, stored, summary, text_of  # noqa: E402

from tilewright.hardware import GPUS, Hardware  # noqa: E402
from tilewright.kernels.gemv_time import (  # noqa: E402
    FEATURES,
    GROUPS,
    TREES_OF_GEMV,
    measurable,
    ranked,
    ways_of,
)
from tilewright.kernels.registry import KERNELS  # noqa: E402
from tilewright.model.ranking.trees import Trees  # noqa: E402
from tilewright.model.tiling.tiles import Array  # noqa: E402
from tilewright.problem import Problem  # noqa: E402

RECORDS = (
    "gemv_h200", "gemv_now_h200", "gemv_odd_h100", "gemv_decode_h100", "gemv_random_h200", "gemv_random_second_h200",
    "gemv_odd_h200", "gemv_ends_h200",
)  # fmt: skip
STRADDLES_SINCE = "2026-11-30T01:00"
"""When the ends of rows that begin anywhere became quick: older launches of them say nothing."""

TREES, DEPTH, RATE, UNIT, SHRINK, NEARNESS = 190, 7, 0.2, 2e-3, 8, 4.0
"""What fit_correction.py has for each size of an element."""

GEMV: Any = KERNELS["gemv"]
WGMMA = KERNELS["wgmma"]


class Product(NamedTuple):
    """The Configs of gemv that one run measured of a product, and what the run took wgmma for, if that takes it.

    features: a column of FEATURES for each Config. predicted, us: of each, in us. ranked: what of the time is compared.
    wgmma, its_us: predicted and measured.
    """

    problem: Problem
    features: Array
    predicted: Array
    us: Array
    ranked: float
    wgmma: float
    its_us: float

    @classmethod
    def of(cls, problem: Problem, gpu: Hardware, launches: Sequence[tuple[str, Any, float]]) -> "Product":
        """Those of a record's product."""
        oriented = GEMV.oriented(launches[0][1], problem)
        fitting, us, its_us = [], [], float("inf")
        for kernel, config, measured in launches:
            if kernel == "gemv":
                fitting.append((config, GEMV.derive(config, GEMV.features(oriented))))
                us.append(measured)
            else:
                its_us = min(its_us, measured)
        ways = ways_of(fitting, gpu)
        wgmma = WGMMA.best_seconds(problem, gpu) * 1e6 if np.isfinite(its_us) else float("inf")
        features, predicted = measurable(ways, oriented)
        compared = ranked(fitting[0][0].tile_m, fitting[0][1], problem.k)
        return cls(problem, features, predicted * 1e6, np.array(us), compared, wgmma, its_us)

    @property
    def longer(self) -> Array:
        """Logarithms of measured over predicted times."""
        return np.log(self.us / self.predicted)

    @property
    def weights(self) -> Array:
        """How much each launch counts."""
        return (self.us / self.us.min()) ** -NEARNESS  # type: ignore[no-any-return]

    def shares(self, trees: Trees | None) -> tuple[float, float]:
        """What the rate of the Config that is chosen is to the best one's, and that of the kernel with it."""
        times = self.predicted if trees is None else self.predicted * np.exp(trees.of_all(self.features))
        us = float(self.us[times.argmin()])
        is_chosen = times.min() * self.ranked <= self.wgmma
        best = float(self.us.min())
        return best / us, min(best, self.its_us) / (us if is_chosen else self.its_us)


def main() -> None:
    """Print the shares; with --write, write the trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the trees")
    options = parser.parse_args()
    of_record = {name: list(products_of(name)) for name in RECORDS}
    products = [product for each in of_record.values() for product in each]
    weights = sorted({(each.problem.n, each.problem.k) for each in products})
    folds = dict(zip(weights, np.random.default_rng(0).integers(0, FOLDS, len(weights)), strict=True))
    shares = np.ones((len(products), 4))
    for fold in range(FOLDS):
        fits = [folds[each.problem.n, each.problem.k] != fold for each in products]
        trees = Trees.stored(fit([each for each, other in zip(products, fits, strict=True) if other]), FEATURES, GROUPS)
        for index in np.flatnonzero(~np.array(fits)):
            shares[index] = [*products[index].shares(None), *products[index].shares(trees)]
    print("record: products; mean, least and number below 0.90 of the share without trees, and with trees of others")
    print("the same again of choices of a kernel")
    table, start = {}, 0
    for name, each in [*of_record.items(), ("all", products)]:
        of_name = shares if name == "all" else shares[start : (start := start + len(each))]
        table[name] = [len(each), *(value for kind in (0, 2, 1, 3) for value in summary(of_name[:, kind]))]
        print(f"{name}: {', '.join(map(str, table[name]))}")
    if options.write:
        TREES_OF_GEMV.write_text(text_of(fit(products)), encoding="utf-8")
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(values)}" for name, values in table.items())
        (ROOT / "results" / TREES_OF_GEMV.name).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        print(f"wrote {TREES_OF_GEMV}, {TREES_OF_GEMV.stat().st_size} bytes")


def products_of(name: str) -> Iterator[Product]:
    """Those of a record."""
    record = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
    launches: dict[Problem, list[tuple[str, Any, float]]] = defaultdict(list)
    for m, n, k, layout, kernel, config, us, _ in record["launches"]:
        if kernel in KERNELS:
            found = KERNELS[kernel].config_type(*config)
            if kernel == "wgmma" or found.prefetch > 0:  # others have the best Config again, without it
                launches[posed(Shape(m, n, k, 1, layout))].append((kernel, found, us))
    for problem, each in launches.items():
        features = GEMV.features(problem)
        is_old = (features.a_straddles or features.b_straddles) and record["date"] < STRADDLES_SINCE
        each.sort(key=lambda launch: launch[0])  # gemv comes first
        if not is_old and sum(kernel == "gemv" for kernel, *_ in each) >= LEAST:
            yield Product.of(problem, GPUS[record["gpu"]], each)


def fit(products: Sequence[Product]) -> dict[str, Any]:
    """The trees for these products, as they are stored."""
    import catboost

    pool = catboost.Pool(
        np.concatenate([each.features for each in products], axis=1).T,
        np.concatenate([each.longer for each in products]),
        weight=np.concatenate([each.weights for each in products]),
    )
    model = catboost.CatBoost({
        "loss_function": "RMSE", "iterations": TREES, "depth": DEPTH, "learning_rate": RATE, "l2_leaf_reg": SHRINK,
        "border_count": 64, "random_seed": 0, "thread_count": 2, "verbose": 0, "allow_writing_files": False,
        "boost_from_average": False,
    })  # fmt: skip
    model.fit(pool)
    return stored(model, FEATURES, DEPTH, UNIT)


if __name__ == "__main__":
    main()
