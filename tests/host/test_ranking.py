"""The order of Configs: arithmetic, corrected by what launches measured."""

import json
import math
from itertools import product as combinations

import fit_correction
import numpy as np
import pytest

from tilewright.dtypes import bf16, fp8_e4m3, fp32
from tilewright.hardware import GPUS, H20, H100_PCIE, H100_SXM, H200, H800
from tilewright.kernels.wgmma.space import Limits, Space
from tilewright.model.cost import found_of, is_short
from tilewright.model.ranking.correction import FEATURES, NEAREST, TREES, is_known, is_limited_by_power, trees
from tilewright.model.ranking.trees import Trees, leaves_of, thresholds_of

LIMITS = Limits((False, False), (1024, 1024), 2, out_by_tma=True)


def ranking_of(dtype=bf16, gpu=H200):
    limits = LIMITS._replace(input_bytes=dtype.nbytes)
    return Space(limits, dtype, gpu).ranking


def walked(asked, thresholds, leaves, values):
    """The sum of all trees for one value of each feature, question by question."""
    total = 0
    for features, above, of_tree in zip(asked, thresholds, leaves, strict=True):
        number = 0
        for place, (feature, threshold) in enumerate(zip(features, above, strict=True)):
            number += 2**place if values[feature] > threshold else 0
        total += of_tree[number]
    return total


@pytest.mark.parametrize("groups", [(range(14),), (range(1), range(1, 9), range(9, 14))])
def test_trees_are_walked_question_by_question(groups):
    random = np.random.default_rng(0)
    asked, leaves = random.integers(0, 14, (50, 3)), random.integers(-99, 100, (50, 8))
    thresholds = random.choice([1e-12, 0.125, 0.5, 3.0, 8.5, 1e12, 1e30], (50, 3))
    found = Trees.of(asked, thresholds, leaves.astype(np.int16), 0.002, groups)
    values = random.choice([0.0, 1e-13, 0.125, 0.3, 0.5, 2.0, 3.0, np.nextafter(3.0, 4.0), 8.5, 7e11, 2e12], (14, 500))
    expected = [walked(asked, thresholds, leaves, each) for each in values.T]
    np.testing.assert_array_equal(found.of_all(values), np.array(expected) * 0.002)
    assert len(set(expected)) > 300


@pytest.mark.parametrize("name", TREES)
def test_the_trees_of_the_package_are_whole(name):
    stored = json.loads(TREES[name].read_text())
    asked, thresholds, leaves = np.array(stored["asked"]), thresholds_of(stored), leaves_of(stored)
    count, depth = asked.shape
    assert thresholds.shape == (count, depth)
    assert leaves.shape == (count, 2**depth)
    assert {*FEATURES} - {*stored["features"]} <= {"ragged", "out_bytes"}  # which the first trees did not know
    assert {*stored["features"]} <= {*FEATURES}
    assert set(asked.ravel()) <= set(range(len(FEATURES)))
    assert thresholds.min() > 1e-12
    # No way can be lost or won by an error of the fit.
    assert (np.abs(leaves) * stored["unit"]).max(axis=1).sum() < math.log(100)


@pytest.mark.parametrize(
    ("name", "dtype", "least", "most"),
    [
        ("2", bf16, (1, 8, 32), (300, 600, 600)),
        ("1", fp8_e4m3, (1, 8, 32), (300, 600, 600)),
        ("short", bf16, (2000, 2000, 32), (4000, 4000, 500)),
    ],
)
def test_choices_are_those_of_trees_that_are_walked(name, dtype, least, most):
    stored = json.loads(TREES[name].read_text())
    trees = [[FEATURES.index(stored["features"][each]) for each in tree] for tree in stored["asked"]]
    thresholds, leaves = thresholds_of(stored), leaves_of(stored)
    ranking, random = ranking_of(dtype), np.random.default_rng(dtype.nbytes)
    for m, n, k in random.integers(least, most, (5, 3)).tolist():
        product = m, n, k, 2
        found = ranking._found(*product)
        short = is_short(dtype, LIMITS.output_bytes, m, n, k)
        assert short == (name == "short")
        ways = found.us.argsort(kind="stable")[:NEAREST]
        ways = ways[np.isfinite(found.us[ways])]
        features = ranking._of_products(short, *product[1:]).features(found, m, ways)
        shares = [walked(trees, thresholds, leaves, each) for each in features.T]
        assert ranking.best(*product) == ways[(found.us[ways] * np.exp(np.array(shares) * stored["unit"])).argmin()]


@pytest.mark.parametrize(("m", "n", "k"), [(300, 5120, 3072), (16, 4096, 2056), (1000, 1000, 1000), (256, 2048, 7168)])
def test_only_the_nearest_are_corrected_and_the_least_time_stays(m, n, k):
    ranking = ranking_of()
    plain, corrected = found_of(ranking.fixed(n, k, 1, 2 * k), m).us, ranking.times(m, n, k, 1, 2 * k)
    index = ranking.best(m, n, k, 1, 2 * k)
    assert corrected[index] == corrected.min() == pytest.approx(plain.min())
    nearest = plain.argsort(kind="stable")[:NEAREST]
    assert index in nearest
    others = np.setdiff1d(np.arange(len(plain)), nearest)
    np.testing.assert_array_equal(corrected[others], plain[others])
    assert (corrected[nearest] != plain[nearest]).any()


def test_features_are_what_their_names_say():
    ranking = ranking_of()
    m, n, k, batch = 300, 5120, 3072, 2
    of_n = ranking.fixed(n, k, batch, 2 * k)
    found = found_of(of_n, m)
    ways = found.us.argsort()[:NEAREST]
    features = ranking._of_products(False, n, k, batch, 2 * k).features(found, m, ways)
    rows = [dict(zip(FEATURES, row, strict=True)) for row in features.T]
    for way, row in zip(ways, rows, strict=True):
        tiles_m, tiles_n = (
            math.ceil(m / row["tile_m"] / row["cluster_m"]), math.ceil(n / row["tile_n"] / row["cluster_n"])
        )  # fmt: skip
        if row["swapped"]:
            tiles_m, tiles_n = (
                math.ceil(m / row["tile_n"] / row["cluster_n"]), math.ceil(n / row["tile_m"] / row["cluster_m"])
            )  # fmt: skip
        assert (row["tiles_m"], row["tiles_n"]) == (tiles_m, tiles_n)
        assert (row["m"], row["n"], row["line_k"], row["batch"], row["misaligned"]) == (m, n, k / 64, batch, 1)
        clusters = tiles_m * tiles_n * batch
        size = row["cluster_m"] * row["cluster_n"] * row["split_k"]
        at_once = H200.clusters(int(size))
        assert row["waves"] == math.ceil(clusters / at_once)
        assert row["filled"] == pytest.approx(clusters / row["waves"] / at_once)
        assert row["places"] == pytest.approx(min(clusters, at_once) * size / H200.sm_count)
        assert row["covered_m"] >= 1 <= row["covered_n"]
        assert row["busy"] == pytest.approx(found.busy[way] / found.us[way])
        assert 0 < row["fixed"] < 1
        assert row["ragged"] == ((row["tile_m"] if row["swapped"] else row["tile_n"]) % 16 > 0)


def test_where_power_limits_empty_places_of_waves_count_half_and_tiles_apart_take_longer():
    ranking = ranking_of()
    of_n = ranking.fixed(9960, 3136, 1, 6272)
    found = found_of(of_n, 5857)
    assert is_limited_by_power(found)
    times = ranking.times(5857, 9960, 3136, 1, 6272)
    assert times.min() == pytest.approx(found.us.min(), rel=1e-12)
    places = found.waves * of_n.prepared.tiles.clusters_at_once
    limited = found.energy + (found.waves - 1) * of_n.limited
    longer = limited * (places / found.clusters) ** 0.5
    tiles = of_n.prepared.tiles
    apart = (tiles.tile_m == 256) & (tiles.cluster_m * tiles.cluster_n == 1) & ~tiles.by_tma & ~tiles.swapped
    assert 0 < apart.sum() < apart.size
    longer[apart] *= 1.015
    expected = found.us - np.maximum(found.loop, limited) + np.maximum(found.loop, longer)
    finite = np.isfinite(found.us)
    ratios = times[finite] / expected[finite]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-12)
    best, by_arithmetic = times.argmin(), found.us.argmin()
    assert found.clusters[best] / places[best] > 1.02 * found.clusters[by_arithmetic] / places[by_arithmetic]
    assert np.isinf(times[~finite]).all()


def test_products_that_power_does_not_limit_are_told_apart():
    ranking = ranking_of()
    assert not is_limited_by_power(found_of(ranking.fixed(5120, 3072, 1), 300))


@pytest.mark.parametrize(("dtype", "gpu"), list(combinations((bf16, fp8_e4m3, fp32), GPUS.values())))
def test_what_no_record_has_is_not_corrected(dtype, gpu):
    known = dtype is not fp32 and gpu in (H100_SXM, H200, H800)
    assert is_known(dtype, gpu) == known


@pytest.mark.parametrize("gpu", [H20, H100_PCIE])
def test_other_gpus_are_ranked_by_the_arithmetic(gpu):
    ranking = ranking_of(gpu=gpu)
    of_n = ranking.fixed(5120, 3072, 1)
    np.testing.assert_array_equal(ranking.times(300, 5120, 3072, 1), found_of(of_n, 300).us)


@pytest.mark.parametrize("name", TREES)
def test_the_correction_gains_on_products_to_which_it_was_not_fitted(name):
    shares = json.loads((fit_correction.ROOT / "results" / TREES[name].name).read_text())
    records = {*fit_correction.RECORDS[name], "all"}
    assert shares.keys() <= records if name == "short" else shares.keys() == records  # few records have a short k
    number, mean, _, low, corrected, _, lower = shares["all"]
    assert number == sum(each[0] for name, each in shares.items() if name != "all")
    assert corrected > mean + 0.01
    assert lower < low / 2


@pytest.mark.parametrize(
    ("name", "record"), [("2", "sweep_thin_h100"), ("1", "sweep_bytes_thin_h100"), ("short", "sweep_short_h200")]
)
def test_the_picks_are_better_than_those_of_the_arithmetic_where_they_were_fitted(name, record):
    products = list(fit_correction.products_of(record, name))
    gains = [math.log(each.share(trees(name)) / each.share(None)) for each in products]
    assert np.mean(gains) > 0.02


@pytest.mark.parametrize("name", TREES)
def test_what_is_written_is_what_is_read(tmp_path, name):
    content = json.loads(TREES[name].read_text())
    path = tmp_path / "correction.json"
    path.write_text(fit_correction.text_of(content))
    assert json.loads(path.read_text()) == content
    assert path.read_text() == TREES[name].read_text()
