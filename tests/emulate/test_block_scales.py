"""Products of fp8 whose scales change along k, through the real PTX: places of scales, strides, and planted faults."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from support.cases import by_fours
from tilewright.backends.emulated import EmulatedBackend
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200, standing_for
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.mma import MmaConfig
from tilewright.kernels.wgmma.config import WgmmaConfig, has_two_scales

M, N, K = 150, 340, 304
E4M3 = ml_dtypes.float8_e4m3fn
TILE, COLUMN = "1x128_128x128", "1x128_1x128"
DIRECT = {"epilogue": "direct", "overlap": False, "tile_k": 128}
FEW_SMS = H200._replace(sm_count=2)
"""So few that each CTA makes several tiles, one after the other."""


@pytest.fixture
def random():
    return np.random.default_rng(5)


def blocks(extent):
    return -(-extent // 128)


def codes(random, *shape):
    """Numbers whose sums are exact."""
    return random.integers(-4, 5, shape).astype(E4M3)


def scales_of(random, recipe, m=M, n=N, k=K, batch=()):
    """Powers of two, uneven over rows, columns and blocks."""
    of_b = (blocks(k), blocks(n) if recipe == TILE else n)
    return {
        name: (2.0 ** random.integers(-3, 4, (*batch, *shape))).astype(np.float32)
        for name, shape in (("scale_a", (m, blocks(k))), ("scale_b", of_b))
    }


def product(a, b, scale_a, scale_b, recipe):
    """The exact product."""
    k, n = b.shape[-2:]
    over_a = np.repeat(scale_a, 128, -1)[..., :k]
    over_b = np.repeat(scale_b, 128, -2)[..., :k, :]
    if recipe == TILE:
        over_b = np.repeat(over_b, 128, -1)[..., :n]
    return (a.astype(np.float64) * over_a) @ (b.astype(np.float64) * over_b)


def operands(random, m=M, n=N, k=K, batch=()):
    """a, and a b that is stored as the weight of a linear layer."""
    return codes(random, *batch, m, k), codes(random, *batch, n, k).swapaxes(-1, -2)


STRIDES = {
    "along m": lambda scale: np.asfortranarray(scale),
    "by fours along m": by_fours,
    "every second": lambda scale: np.repeat(np.repeat(scale, 2, -1), 3, -2)[..., ::3, ::2],
    "backwards": lambda scale: np.ascontiguousarray(scale[..., ::-1, ::-1])[..., ::-1, ::-1],
    "odd": lambda scale: np.pad(scale, [(0, 0), (1, 2)])[:, 1:-2],
}


@pytest.mark.parametrize("strides", STRIDES)
@pytest.mark.parametrize("recipe", [TILE, COLUMN])
def test_scales_are_read_where_they_are(random, recipe, strides):
    a, b = operands(random)
    scales = scales_of(random, recipe)
    moved = {name: STRIDES[strides](scale) for name, scale in scales.items()}
    backend = EmulatedBackend(checks=True)
    plan = tw.plan(a, b, recipe=recipe, **moved, out_dtype="fp32", backend=backend)
    assert plan.kernel.name == "wgmma"
    assert "copies" not in plan.reason
    np.testing.assert_array_equal(plan(a, b, **moved), product(a, b, **scales, recipe=recipe))
    assert not backend.device.reports


@pytest.mark.parametrize("n", [344, 340, 334])
def test_scales_of_halves_of_b_are_read_by_fours_where_both_are_aligned(random, n):
    a, b = operands(random, n=n)
    scales = scales_of(random, COLUMN, n=n)
    exact = product(a, b, **scales, recipe=COLUMN)
    scales["scale_a"] = by_fours(scales["scale_a"])
    backend = EmulatedBackend(checks=True)
    plan = tw.plan(
        a, b, recipe=COLUMN, **scales, gate="stacked", epilogue="x + y", out_dtype="fp32", kernel="wgmma",
        backend=backend,
    )  # fmt: skip
    np.testing.assert_array_equal(plan(a, b, **scales), exact[:, : n // 2] + exact[:, n // 2 :])
    assert not backend.device.reports


@pytest.mark.parametrize("recipe", [TILE, COLUMN])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 130, 128), (3, 2, 129), (64, 128, 127), (65, 257, 384), (260, 8, 40)])
def test_edges_of_blocks_and_tiles(random, recipe, shape):
    m, n, k = shape
    padded = -(-k // 16) * 16  # which rows of TMA need
    a, b = codes(random, m, padded)[:, :k], codes(random, n, padded)[:, :k].T
    scales = scales_of(random, recipe, *shape)
    out = tw.matmul(a, b, recipe=recipe, **scales, out_dtype="fp32", backend="emulator")
    np.testing.assert_array_equal(out, product(a, b, **scales, recipe=recipe))


@pytest.mark.parametrize("recipe", [TILE, COLUMN])
def test_batches_and_what_they_share(random, recipe):
    a, b = operands(random, 40, 72, 264, (3,))
    scales = scales_of(random, recipe, 40, 72, 264, (3,))
    out = tw.matmul(a, b, recipe=recipe, **scales, out_dtype="fp32", backend="emulator")
    np.testing.assert_array_equal(out, product(a, b, **scales, recipe=recipe))
    shared = {"scale_a": scales["scale_a"], "scale_b": scales["scale_b"][1]}
    out = tw.matmul(a, b[1], recipe=recipe, **shared, out_dtype="fp32", backend="emulator")
    np.testing.assert_array_equal(out, product(a, b[1], **shared, recipe=recipe))


@pytest.mark.parametrize("recipe", [TILE, COLUMN])
def test_operands_that_are_not_k_major_are_copied(random, recipe):
    a, b = codes(random, K, M).T, codes(random, K, N)
    scales = scales_of(random, recipe)
    plan = tw.plan(a, b, recipe=recipe, **scales, out_dtype="fp32", backend="emulator", kernel="wgmma")
    assert "copies" in plan.reason
    np.testing.assert_array_equal(plan(a, b, **scales), product(a, b, **scales, recipe=recipe))


@pytest.mark.parametrize("recipe", [TILE, COLUMN])
def test_a_column_major_result_and_a_range_of_rows(random, recipe):
    a, b = operands(random)
    scales = scales_of(random, recipe)
    exact = product(a, b, **scales, recipe=recipe)
    out = np.full((M, N), np.nan, np.float32, order="F")
    tw.matmul(a, b, recipe=recipe, **scales, out=out, backend="emulator")
    np.testing.assert_array_equal(out, exact)
    plan = tw.plan(a, b, recipe=recipe, **scales, out_dtype="fp32", backend="emulator", m=range(60, 80))
    part = plan(a[:67], b, scale_a=scales["scale_a"][:67], scale_b=scales["scale_b"])
    np.testing.assert_array_equal(part, exact[:67])


@pytest.mark.parametrize("is_k_major", [True, False])
def test_a_range_of_rows_takes_scales_as_they_are_quantized(random, is_k_major):
    """Their columns lie apart by the number of rows, and those of a part of the rows as those of all."""
    weight, rows = random.standard_normal((N, K)).astype(np.float32), random.standard_normal((72, K)).astype(np.float32)
    codes_b, scale_b = tw.quantize(weight, "fp8_e4m3", block="128x128", power_of_two=True, backend="emulator")
    b = codes_b.T if is_k_major else np.ascontiguousarray(codes_b.T)

    def quantized(count):
        return tw.quantize(rows[:count], "fp8_e4m3", block="1x128", power_of_two=True, backend="emulator")

    a, scale_a = quantized(72)
    plan = tw.plan(
        a, b, recipe=TILE, scale_a=scale_a, scale_b=scale_b.T, out_dtype="fp32", backend="emulator", m=range(1, 73)
    )
    for count in (72, 70, 66, 17, 5, 1):
        own_a, own_scale = quantized(count)
        for codes_a, scale in ((own_a, own_scale), (a[:count], scale_a[:count])):
            out = plan(codes_a, b, scale_a=scale, scale_b=scale_b.T)
            exact = product(codes_a, b, scale, scale_b.T, TILE)
            np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("recipe", [TILE, COLUMN])
def test_a_row_has_the_same_bits_whatever_is_around_it(random, recipe):
    a, b = random.standard_normal((M, K)).astype(E4M3), random.standard_normal((N, K)).astype(E4M3).T
    scales = {name: random.random(scale.shape, np.float32) + 0.1 for name, scale in scales_of(random, recipe).items()}
    whole = tw.matmul(a, b, recipe=recipe, **scales, batch_invariant=True, out_dtype="fp32", backend="emulator")
    scales["scale_a"] = scales["scale_a"][70:73]
    few = tw.matmul(a[70:73], b, recipe=recipe, **scales, batch_invariant=True, out_dtype="fp32", backend="emulator")
    np.testing.assert_array_equal(few, whole[70:73])


@pytest.mark.parametrize("recipe", [TILE, COLUMN])
def test_other_tensor_cores_scale_blocks_too(random, recipe):
    a, b = codes(random, K, M).T, codes(random, K, N)
    scales = scales_of(random, recipe)
    backend = EmulatedBackend(standing_for("sm_89"), checks=True)
    plan = tw.plan(a, b, recipe=recipe, **scales, out_dtype="fp32", backend=backend)
    assert plan.kernel.name == "mma"
    np.testing.assert_array_equal(plan(a, b, **scales), product(a, b, **scales, recipe=recipe))
    assert not backend.device.reports
    with pytest.raises(ConfigError, match=r"scales of blocks take as many registers .*: take more warps"):
        tw.plan(a, b, recipe=recipe, **scales, config=MmaConfig(tile_k=64, stages=3), backend=backend)


def test_halves_of_b_that_blocks_straddle_are_for_mma(random):
    a, b = operands(random)
    scales = scales_of(random, TILE)
    exact = product(a, b, **scales, recipe=TILE)
    with pytest.raises(ArgumentValueError, match=r"half of b has 170 columns.*: use gate='interleaved', or pad"):
        tw.plan(a, b, recipe=TILE, **scales, gate="stacked", epilogue="x + y", kernel="wgmma", backend="emulator")
    sides = {"stacked": (exact[:, :170], exact[:, 170:]), "interleaved": (exact[:, ::2], exact[:, 1::2])}
    for gate, (x, y) in sides.items():
        out = tw.matmul(a, b, recipe=TILE, **scales, gate=gate, epilogue="x + y", out_dtype="fp32", backend="emulator")
        np.testing.assert_array_equal(out, x + y)


def test_tiles_that_only_fill_a_cluster_read_scales_that_exist(random):
    m, n, k = 140, 256, 208
    a, b = operands(random, m, n, k)
    scales = scales_of(random, TILE, m, n, k)
    exact = product(a, b, **scales, recipe=TILE)
    config = WgmmaConfig(128, 128, 2, cluster_n=4, **DIRECT)
    gate = {"gate": "stacked", "epilogue": "x + y"}
    out = tw.matmul(a, b, recipe=TILE, **scales, **gate, out_dtype="fp32", config=config, backend="emulator")
    np.testing.assert_array_equal(out, exact[:, :128] + exact[:, 128:])


def test_pairs_of_a_gate_are_not_summed_by_a_cluster(random):
    a, b = operands(random)
    gate = {"gate": "interleaved", "epilogue": "x + y"}
    with pytest.raises(ConfigError, match=r"exchange sums, which no gate pairs: take split_k=1 with a gate"):
        tw.plan(a, b, **gate, config=WgmmaConfig(128, 32, 3, **DIRECT, split_k=2), backend="emulator")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (WgmmaConfig(128, 152, 2, **DIRECT), "make tile_n 192, 160 or at most 144"),
        (WgmmaConfig(64, 64, 2, **DIRECT, swap_ab=True), "scales that change along k need swap_ab=False"),
        (WgmmaConfig(256, 64, 2, **DIRECT, wait_depth=1), "of 64 rows in flight: take wait_depth=0, or tile_m 128"),
        (WgmmaConfig(128, 136, 2, **DIRECT, wait_depth=1), "scales of blocks take some: take a smaller tile_n"),
        (WgmmaConfig(128, 64, 2, **DIRECT | {"tile_k": 256}), "promoted every 128 of k: make tile_k 128"),
        (WgmmaConfig(256, 144, 2, **DIRECT), "scales of blocks take some: take a smaller tile_n"),
    ],
)
def test_configs_without_room_for_scales_are_refused(random, config, message):
    a, b = operands(random)
    with pytest.raises(ConfigError, match=message):
        tw.plan(a, b, recipe=TILE, **scales_of(random, TILE), config=config, backend="emulator")


@pytest.mark.parametrize("tile_n", range(8, 257, 8))
def test_tiles_of_two_scales_are_those_that_say_so(tile_n):
    begins = range(0, 128 * tile_n, tile_n)
    most = max((begin + tile_n - 1) // 128 - begin // 128 + 1 for begin in begins)
    assert has_two_scales(tile_n, stacked=False) == (most <= 2)


@pytest.mark.parametrize("tile_n", [96, 144, 160, 192])
def test_tiles_that_begin_anywhere_among_blocks(random, tile_n):
    m, n, k = 70, 3 * tile_n + 40, 300
    a, b = operands(random, m, n, 304)
    a, b, scales = a[:, :k], b[:k], scales_of(random, TILE, m, n, k)
    config = WgmmaConfig(128, tile_n, 2, **DIRECT)
    backend = EmulatedBackend(FEW_SMS, checks=True)
    out = tw.matmul(a, b, recipe=TILE, **scales, out_dtype="fp32", config=config, backend=backend)
    np.testing.assert_array_equal(out, product(a, b, **scales, recipe=TILE))
    assert not backend.device.reports


BEHIND = DIRECT | {"wait_depth": 1}
"""Products of a k-block are added while those of the next are multiplied."""


@pytest.mark.parametrize("asynchrony", ["eager", "lazy"])
@pytest.mark.parametrize("k", [48, 200, 384, 500, 640])
@pytest.mark.parametrize("recipe", [None, TILE, COLUMN])
def test_products_are_added_behind_the_next_ones(random, recipe, k, asynchrony):
    m, n = 140, 200
    a, b = operands(random, m, n, 640)
    a, b = a[:, :k], b[:k]
    backend = EmulatedBackend(FEW_SMS, checks=True, asynchrony=asynchrony)
    configs = [WgmmaConfig(128, 128, 3, **BEHIND), WgmmaConfig(64, 64, 2, **BEHIND, ping_pong=True)]
    if recipe is not None:
        scales = scales_of(random, recipe, m, n, k)
        exact, scales = product(a, b, **scales, recipe=recipe), scales | {"recipe": recipe}
        configs.append(WgmmaConfig(128, 96, 2, **BEHIND | {"overlap": True}))
    else:
        exact, scales = a.astype(np.float64) @ b.astype(np.float64), {}
    for config in configs:
        out_dtype = "bf16" if config.overlap else "fp32"
        out = tw.matmul(a, b, **scales, out_dtype=out_dtype, config=config, backend=backend)
        np.testing.assert_array_equal(out, exact.astype(np.float32).astype(out.dtype))
    assert not backend.device.reports


def test_a_plan_wants_scales_of_the_same_form(random):
    a, b = operands(random)
    scales = scales_of(random, COLUMN)
    plan = tw.plan(a, b, recipe=COLUMN, **scales, backend="emulator")
    with pytest.raises(ArgumentValueError, match="scale_b is not as the plan wants it: shape"):
        plan(a, b, scale_a=scales["scale_a"], scale_b=scales_of(random, TILE)["scale_b"])
