"""The output `column_sums`: sums of the results over rows, in one order whatever kernel and Config computes them."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.emulated import EmulatedBackend
from tilewright.errors import ArgumentValueError
from tilewright.kernels.kernel import ConfigError
from tilewright.kernels.refusal import oversized
from tilewright.reference import outputs_agree

RNG = np.random.default_rng(0)
CHECKED = EmulatedBackend(checks=True, asynchrony="random")
WIDE = tw.WgmmaConfig(128, 128, 3)

CONFIGS = {
    "fp32": (tw.SimtConfig(64, 64, 16, 32, 32, 8, 4), tw.SimtConfig(), tw.SimtConfig(256, 128, 16, 64, 64, 16, 8)),
    "fp16": (
        tw.MmaConfig(tile_m=64, tile_n=64),
        tw.MmaConfig(32, 64, 32, 4, 1, 2, 1),
        WIDE,
        tw.WgmmaConfig(64, 80, 3, epilogue="direct", cluster_m=2),
        tw.WgmmaConfig(256, 96, 2, epilogue="direct", overlap=False),
    ),
}
EVERY = [(kind, config) for kind, configs in CONFIGS.items() for config in configs]


def numbers(*shape, kind):
    """Small whole numbers, of which all sums are exact."""
    return RNG.integers(-2, 3, shape).astype({"fp32": np.float32, "fp16": np.float16}[kind])


def summed(a, b, backend=CHECKED, sums=None, **options):
    """The result and the sums of its columns; these were NaN."""
    columns = b.shape[1] // (2 if options.get("gate") else 1)
    sums = np.full(columns, np.nan, np.float32) if sums is None else sums
    outputs = {"column_sums": sums, **options.pop("outputs", {})}
    out = tw.matmul(a, b, outputs=outputs, backend=backend, **options)
    assert not backend.device.reports
    return out.astype(np.float32), sums


@pytest.mark.parametrize(("kind", "config"), EVERY, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("gate", [None, "interleaved", "stacked"])
def test_they_are_the_sums_of_the_results(kind, config, gate):
    if gate and config.tile_n % 16:
        pytest.skip("no gate")
    odd = 42 if gate is None and config is not WIDE else 32
    for m, n in ((75, 96), (7, odd), (270, 96)):
        a, b = numbers(m, 40, kind=kind), numbers(n, 40, kind=kind).T
        row = numbers(n if gate is None else n // 2, kind="fp32")
        epilogue = "acc - row" if gate is None else "x - y * row"
        options = {"epilogue": epilogue, "operands": {"row": row}, "gate": gate, "config": config}
        out, sums = summed(a, b, **options)
        np.testing.assert_array_equal(sums, out.sum(axis=0))


def test_all_kernels_and_configs_give_the_same_bits():
    a, b = RNG.normal(size=(150, 64)), RNG.normal(size=(80, 64))
    for kind, configs in CONFIGS.items():
        found = set()
        for config in configs:
            left, right = (each.astype({"fp32": np.float32, "fp16": np.float16}[kind]) for each in (a, b))
            if isinstance(config, tw.WgmmaConfig):
                config = replace(config, epilogue="direct", overlap=False)
            out, sums = summed(left, right.T, config=config, out_dtype="fp32")
            found.add((out.tobytes(), sums.tobytes()))
        of_outs = {bits for bits, _ in found}
        assert len(found) == len(of_outs) <= (1 if kind == "fp16" else len(configs))


def test_batches_that_are_rows_of_one_matrix_are_summed_as_it():
    a, b = (RNG.normal(size=shape).astype(np.float32) for shape in ((3, 8, 40), (40, 24)))
    whole, gaps = a.reshape(24, 40), np.zeros((3, 9, 40), np.float32)
    gaps[:, :8] = a
    batches, expected = summed(a, b)[1], summed(whole, b)[1]
    assert batches.tobytes() == expected.tobytes()
    out, apart = summed(gaps[:, :8], b)
    assert out.tobytes() == summed(a, b)[0].tobytes()
    groups = [summed(part, b)[1] for part in a]  # of 16 rows, of which each batch has one
    assert apart.tobytes() == (groups[0] + groups[1] + groups[2]).tobytes()


def test_they_are_added_before_results_are_rounded():
    a, b = np.ones((600, 16), np.float16), np.full((16, 8), 0.25, np.float16)
    out, sums = summed(a, b, epilogue="acc + 0.00048828125")
    assert (out == 4).all()
    np.testing.assert_array_equal(sums, np.full(8, 600 * 4.00048828125, np.float32))


@pytest.mark.parametrize("kind", ["fp32", "fp16"])
def test_of_batches_vectors_and_other_layouts(kind):
    a, b = numbers(2, 21, 16, kind=kind), numbers(16, 40, kind=kind)
    total = (a.astype(np.float32) @ b.astype(np.float32)).sum(axis=(0, 1))
    for right in (b, b.T.copy().T, np.stack([b, b])):
        sums = np.full(40, np.nan, np.float32)
        tw.matmul(a, right, outputs={"column_sums": sums}, backend=CHECKED)
        np.testing.assert_array_equal(sums, total)
    for out in (np.zeros((40, 21), a.dtype).T, np.zeros((42, 80), a.dtype)[::2, ::2]):
        np.testing.assert_array_equal(summed(a[0], b, out=out)[1], out.astype(np.float32).sum(axis=0))
    spread = np.full(120, np.nan, np.float32)[::-3]
    assert summed(a[0], b, sums=spread)[1] is spread
    np.testing.assert_array_equal(spread, (a[0].astype(np.float32) @ b.astype(np.float32)).sum(axis=0))
    one = np.full(1, np.nan, np.float32)
    column = tw.matmul(a[0], b[:, 3], outputs={"column_sums": one}, backend=CHECKED)
    assert one == column.astype(np.float32).sum()
    row, sums = tw.matmul(a[0, 0], b, outputs={"column_sums": spread}, backend=CHECKED), spread
    np.testing.assert_array_equal(sums, row.astype(np.float32))


def test_of_empty_sums_and_of_no_rows():
    for kind in ("fp32", "fp16"):
        a, b = numbers(37, 0, kind=kind), numbers(0, 10, kind=kind)
        assert (summed(a, b, epilogue="acc + 1")[1] == 37).all()
        assert (summed(a, b, epilogue="x + y + 1", gate="interleaved")[1] == 37).all()
        for sums in (np.ones(10, np.float32), np.ones(30, np.float32)[::3]):
            assert (summed(numbers(0, 8, kind=kind), numbers(8, 10, kind=kind), sums=sums)[1] == 0).all()


def test_with_the_other_outputs_and_copied_operands():
    a, b = numbers(70, 41, kind="fp16"), numbers(40, 41, kind="fp16").T
    acc, amax = np.zeros((70, 40), np.float16), np.zeros((), np.float32)
    outputs = {"acc": acc, "amax": amax}
    out, sums = summed(a, b, epilogue="2 * acc", kernel="wgmma", outputs=outputs)
    np.testing.assert_array_equal(sums, out.sum(axis=0))
    np.testing.assert_array_equal(acc * 2, out)
    assert amax == np.abs(out).max()


def test_plans_and_ranges_sum_again_at_each_call():
    a, b = numbers(70, 40, kind="fp16"), numbers(24, 40, kind="fp16").T
    sums = np.zeros(24, np.float32)
    for m in (None, range(64, 80)):
        plan = tw.plan(a, b, outputs={"column_sums": sums}, m=m, batch_invariant=True, backend=CHECKED)
        for rows in (70,) if m is None else (64, 70, 79):
            left, found = numbers(rows, 40, kind="fp16"), np.full(24, np.nan, np.float32)
            out = plan(left, b, outputs={"column_sums": found})
            np.testing.assert_array_equal(found, out.astype(np.float32).sum(axis=0))


@pytest.mark.parametrize(
    ("sums", "message"),
    [
        (np.zeros(40, np.float16), "has shape (40,) and dtype fp16"),
        (np.zeros((1, 40), np.float32), "one for each column of the result, of shape (40,)"),
        (np.zeros(24, np.float32), "has shape (24,) and dtype fp32"),
        (np.broadcast_to(np.zeros((), np.float32), 40), "outputs['column_sums'] is read-only"),
    ],
)
def test_what_is_wrong_with_them_is_said(sums, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        summed(numbers(24, 16, kind="fp32"), numbers(16, 40, kind="fp32"), sums=sums)


def test_kernels_that_cannot_sum_columns_say_so():
    a, b = numbers(4, 64, kind="fp16"), numbers(40, 64, kind="fp16").T
    with pytest.raises(ArgumentValueError, match="gemv leaves no 16 rows to one warp"):
        summed(a, b, kernel="gemv")
    with pytest.raises(ConfigError, match=r"sums of columns .* need swap_ab=False"):
        summed(a, b, config=tw.WgmmaConfig(64, 64, 3, epilogue="direct", swap_ab=True))
    with pytest.raises(ConfigError, match="four rows of lanes"):
        summed(*(each.astype(np.float32) for each in (a, b)), config=tw.SimtConfig(64, 64, 16, 16, 64, 8, 4))


def test_wrong_sums_are_noticed():
    out = RNG.normal(size=(100, 8)).astype(np.float16).astype(np.float64)
    sums = out.sum(axis=0)
    kind = tw.dtypes.fp16
    assert outputs_agree(out, {"column_sums": sums, "amax": np.abs(out).max()}, kind)
    assert not outputs_agree(out, {"column_sums": sums + 0.1}, kind)
    assert not outputs_agree(out, {"amax": np.abs(out).max() * 1.01}, kind)
    assert not outputs_agree(out, {"column_sums": np.full(8, np.nan)}, kind)


@pytest.mark.parametrize(
    ("kind", "results", "amax", "sums", "wrong"),
    [
        ("fp32", [1, np.nan, 2], np.nan, np.nan, 3), ("fp32", [1, np.inf, 2], np.inf, np.inf, 3e38),
        ("fp32", [np.inf, -np.inf], np.inf, np.nan, np.inf), ("fp32", [1, -np.inf], np.inf, -np.inf, np.inf),
        ("bf16", [np.nan, 3e38, 3e38], np.nan, np.nan, np.inf), ("fp16", [1, np.inf], 7e4, 7e4 + 1, 6e4),
        ("fp16", [1, np.inf], np.inf, np.inf, np.nan), ("fp16", [-np.inf, 5e4], 1e5, -5e4, 5e4),
        ("fp8_e4m3", [448, 448, 1], 1e3, 2e3, 500), ("fp8_e5m2", [np.nan, -57344], np.nan, np.nan, -6e4),
    ],
)  # fmt: skip
def test_outputs_of_results_that_are_infinite_cut_or_nan(kind, results, amax, sums, wrong):
    out, kind = np.array(results, np.float64)[:, None], dtypes.parse(kind, "kind")
    assert outputs_agree(out, {"amax": np.array([amax]), "column_sums": np.array([sums])}, kind)
    assert not outputs_agree(out, {"column_sums": np.array([wrong])}, kind)
    assert not outputs_agree(out, {"amax": np.array([1.0])}, kind)


def test_sums_that_may_overflow_on_the_way_may_be_anything():
    for kind, results in (("fp32", [3e38, 3e38, -3e38]), ("fp16", [np.inf, 1, -np.inf])):
        for sums in (np.nan, np.inf, 3e38):
            out = np.array(results, np.float64)[:, None]
            assert outputs_agree(out, {"column_sums": np.array([sums])}, dtypes.parse(kind, "kind"))


def test_more_groups_of_rows_than_are_counted_are_refused():
    problem = SimpleNamespace(
        m=17, n=1, k=1, batch_count=2**29, batch=(2**29,), epilogue=SimpleNamespace(sums_columns=True)
    )
    assert oversized(problem) is None
    problem.batch_count = 2**30 + 5
    assert "2147483658 groups of 16 rows" in oversized(problem).reason
