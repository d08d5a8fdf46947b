"""Calls with an expression as their epilogue: what they return, what they remember, and what they refuse."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from support.commands import in_json
from tilewright import api
from tilewright.backends.emulated import EmulatedBackend
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression.grammar import LONGEST, parse
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.kernel import ConfigError
from tilewright.planner.plan_cache import PlanCache
from tilewright.planner.tuned_table import Key

RNG = np.random.default_rng(0)
A = RNG.integers(-3, 4, (24, 16)).astype(np.float32)
B = RNG.integers(-3, 4, (16, 40)).astype(np.float32)
ROW = RNG.integers(-3, 4, 40).astype(np.float32)
COLUMN = RNG.integers(-3, 4, (24, 1)).astype(np.float16)
FULL = RNG.integers(-3, 4, (24, 40)).astype(np.float32)


def multiply(epilogue, a=A, b=B, **options):
    operands = {name: options.pop(name) for name in ("x", "y") if name in options}
    return tw.matmul(a, b, epilogue=epilogue, operands=operands, backend="emulator", **options)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (ROW, COLUMN), (FULL, ROW.reshape(1, 40)), (np.array(2, np.float32), FULL.astype(np.float16)),
        (FULL.T.copy().T, COLUMN), (FULL[::-1], np.broadcast_to(ROW, (24, 40))), (np.ones((1, 1), np.float32), ROW),
    ],
)  # fmt: skip
def test_operands_broadcast_to_the_result(x, y):
    expected = np.maximum(A @ B + x, 0) * 2 - y.astype(np.float32)
    np.testing.assert_array_equal(multiply("relu(acc + x) * 2 - y", x=x, y=y), expected)


def test_operands_broadcast_along_batches():
    a, x = np.stack([A, -A, 2 * A]), RNG.integers(-3, 4, (3, 1, 40)).astype(np.float32)
    np.testing.assert_array_equal(multiply("acc * x + y", a, x=x, y=COLUMN), a @ B * x + COLUMN)


def test_a_column_major_out_gets_the_same():
    out = np.zeros((40, 24), np.float32).T
    assert multiply("acc - x * y", x=ROW, y=COLUMN, out=out) is out
    np.testing.assert_array_equal(out, A @ B - ROW * COLUMN)


def test_vectors_and_empty_products():
    np.testing.assert_array_equal(multiply("acc + x", A[0], x=ROW), A[0] @ B + ROW)
    np.testing.assert_array_equal(multiply("acc + x", A, B[:, 0], x=COLUMN[:, 0]), A @ B[:, 0] + COLUMN[:, 0])
    assert multiply("acc + x", A[:0], x=ROW).shape == (0, 40)
    np.testing.assert_array_equal(multiply("acc + x", A[:, :0], B[:0], x=FULL), FULL)
    np.testing.assert_array_equal(multiply("acc + x", alpha=0.0, x=FULL), FULL)


def test_alpha_scales_the_sum_before_the_expression():
    np.testing.assert_array_equal(multiply("acc * acc", alpha=0.5), (0.5 * (A @ B)) ** 2)


def test_operands_may_be_called_as_arguments_are():
    operands = {"a": ROW, "out": COLUMN, "bias": FULL}
    out = tw.matmul(A, B, epilogue="acc + a + out + bias", operands=operands, backend="emulator")
    np.testing.assert_array_equal(out, A @ B + ROW + COLUMN + FULL)


SIDES = {"interleaved": (np.s_[:, 0::2], np.s_[:, 1::2]), "stacked": (np.s_[:, :20], np.s_[:, 20:])}


@pytest.mark.parametrize(("batch", "kind"), [((), np.float16), ((3,), np.float32)])
@pytest.mark.parametrize("gate", SIDES)
def test_a_gate_makes_one_column_of_two(gate, batch, kind):
    a, b = np.array(np.broadcast_to(A, (*batch, *A.shape)), kind), B.astype(kind)
    x, y = ((A @ B)[side] for side in SIDES[gate])

    def gated(expected, **options):
        for stored in (b, b.T.copy().T, np.broadcast_to(b, (*batch, *b.shape)).copy()):
            out = tw.matmul(a, stored, gate=gate, out_dtype="fp32", backend="emulator", **options)
            np.testing.assert_array_equal(out, np.broadcast_to(expected, (*batch, 24, 20)))

    gated(x * y)
    gated(np.maximum(x, 0) * y, activation="relu")
    gated(COLUMN, epilogue="x + y + u", operands={"u": COLUMN}, alpha=0.0)
    gated(x * ROW[:20] - y * COLUMN, epilogue="x * u - y * v", operands={"u": ROW[:20], "v": COLUMN})


def test_a_gate_writes_any_out():
    out = np.full((20, 24), np.nan, np.float16).T
    assert tw.matmul(A, B, gate="interleaved", out=out, backend="emulator") is out
    sums = A @ B
    np.testing.assert_array_equal(out, sums[:, 0::2] * sums[:, 1::2])


def test_plans_and_ranges_of_gates():
    sums = A @ B
    for m in (None, range(1, 30)):
        plan = tw.plan(A, B, gate="interleaved", activation="relu", m=m, backend="emulator")
        np.testing.assert_array_equal(plan(A, B), np.maximum(sums[:, 0::2], 0) * sums[:, 1::2])


CHECKED = EmulatedBackend(checks=True)

CONFIGS = [
    tw.SimtConfig(64, 64, 16, 32, 32, 8, 4),
    tw.MmaConfig(tile_m=64, tile_n=64),
    tw.WgmmaConfig(64, 128, 3),
    tw.WgmmaConfig(64, 32, 2, epilogue="direct", overlap=False, wait_depth=1, split_k=2),
    tw.WgmmaConfig(64, 48, 3, epilogue="direct", swap_ab=True),
]


FORMS = [
    (None, "fp32", "rows"), (None, "fp32", "columns"), (None, "fp16", "rows"), ("interleaved", "fp32", "rows"),
    ("stacked", "fp32", "columns"), ("stacked", "fp16", "rows"),
]  # fmt: skip
"""Gates, and the dtype and the contiguous dimension of `acc`."""


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{type(config).__name__}-{config.tile_n}")
@pytest.mark.parametrize(("gate", "form", "strides"), FORMS)
def test_outputs_are_written_besides_out(config, gate, form, strides):
    if gate and (getattr(config, "swap_ab", False) or getattr(config, "split_k", 1) > 1):
        pytest.skip("no gate")
    kind = np.float32 if isinstance(config, tw.SimtConfig) else np.float16
    m, n, k = 75, 96, 136
    a, weight = (RNG.integers(-2, 3, (extent, k)).astype(kind) for extent in (m, n))
    sums = a.astype(np.float32) @ weight.T.astype(np.float32) / 2
    acc = np.full((m, n) if strides == "rows" else (n, m), np.nan, {"fp32": np.float32, "fp16": np.float16}[form])
    acc, amax = acc if strides == "rows" else acc.T, np.full((1,), np.nan, np.float32)
    x, y = (
        (sums, 0) if gate is None else (sums[:, ::2], sums[:, 1::2]) if gate == "interleaved" else np.split(sums, 2, 1)
    )
    expected = 2 * x + y - 3
    epilogue = "2 * acc - 3" if gate is None else "2 * x + y - 3"
    outputs = {"amax": amax, "acc": acc}
    options = {"epilogue": epilogue, "gate": gate, "config": config, "backend": CHECKED}
    np.testing.assert_array_equal(tw.matmul(a, weight.T, alpha=0.5, outputs=outputs, **options), expected)
    np.testing.assert_array_equal(acc, sums)
    assert amax == np.abs(expected).max()
    assert not CHECKED.device.reports


def test_outputs_of_batches_and_of_nothing():
    a, amax = np.stack([A, -2 * A]), np.array(7, np.float32)
    acc = np.zeros((2, 24, 40), np.float32)
    tw.matmul(a, B, activation="relu", outputs={"acc": acc, "amax": amax}, backend="emulator")
    np.testing.assert_array_equal(acc, a @ B)
    assert amax == max((a @ B).max(), 0)
    tw.matmul(A[:0], B, outputs={"amax": amax}, backend="emulator")
    assert amax == 0
    tw.matmul(A[:, :0], B[:0], epilogue="acc - x", operands={"x": FULL}, outputs={"amax": amax}, backend="emulator")
    assert amax == np.abs(FULL).max()


def test_the_largest_magnitude_of_nan_is_nan():
    a, amax = A.copy(), np.zeros((), np.float32)
    a[3, 5] = np.nan
    tw.matmul(a, B, outputs={"amax": amax}, backend="emulator")
    assert np.isnan(amax)
    a[3, 5] = -np.inf
    tw.matmul(a, np.abs(B) + 1, outputs={"amax": amax}, backend="emulator")
    assert amax == np.inf


def test_plans_write_the_outputs_of_each_call():
    sums = A @ B
    for m in (None, range(20, 30)):
        plan = tw.plan(A, B, gate=None, outputs={"acc": np.zeros((24, 40), np.float32)}, m=m, backend="emulator")
        acc = np.zeros((24, 40), np.float32)
        plan(A, B, outputs={"acc": acc})
        np.testing.assert_array_equal(acc, sums)
        for outputs in (None, {"amax": acc}, {"acc": acc, "amax": acc}):
            with pytest.raises(ArgumentValueError, match="made for outputs named acc and called with"):
                plan(A, B, outputs=outputs)
        with pytest.raises(ArgumentValueError, match=r"out shares memory with outputs\['acc'\]"):
            plan(A, B, out=acc, outputs={"acc": acc})
        with pytest.raises(ArgumentValueError, match=r"outputs\['acc'\] shares memory with b"):
            plan(A, acc.reshape(-1)[: 16 * 40].reshape(16, 40), outputs={"acc": acc})


def test_the_largest_magnitude_has_one_number_in_a_range_that_is_planned_with_one_row():
    amax = np.zeros((1, 1), np.float32)
    plan = tw.plan(A[:1], B, outputs={"amax": amax}, m=range(1, 4), backend="emulator")
    plan(A[:3], B, outputs={"amax": amax})
    assert amax == np.abs(A[:3] @ B).max()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"outputs": {"sum": FULL}}, ArgumentValueError, "outputs has 'sum', which is unknown: use acc, amax, column"),
        ({"outputs": [FULL]}, ArgumentTypeError, "outputs is a list: pass a mapping of names to arrays"),
        ({"outputs": {"acc": FULL}, "bias": ROW}, ArgumentValueError, "bias was given beside outputs="),
        (
            {"outputs": {"acc": FULL[:, :20]}},
            ArgumentValueError,
            "outputs['acc'] has shape (24, 20), and the sums have",
        ),
        ({"outputs": {"acc": FULL, "amax": ROW}}, ArgumentValueError, "pass an array of one fp32 number"),
        ({"outputs": {"amax": np.zeros((), np.float16)}}, ArgumentValueError, "pass an array of one fp32 number"),
        (
            {"outputs": {"amax": np.zeros(1)}},
            ArgumentTypeError,
            "outputs['amax'].dtype=float64 is not a supported dtype: use fp32 (an array",
        ),
        ({"outputs": {"acc": np.broadcast_to(ROW, (24, 40))}}, ArgumentValueError, "outputs['acc'] is read-only"),
        ({"outputs": {"amax": None}}, ArgumentTypeError, "outputs['amax']"),
        (
            {"outputs": {"acc": FULL}, "epilogue": "acc + x", "operands": {"x": FULL}},
            ArgumentValueError,
            "outputs['acc'] shares memory with operands['x']",
        ),
        (
            {"outputs": {"acc": FULL, "amax": FULL[:1, 0]}},
            ArgumentValueError,
            "shares memory with outputs['amax']: the kernel would write both; pass another outputs['acc']",
        ),
    ],
)
def test_what_is_wrong_with_an_output_is_said(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        tw.matmul(A, B, backend="emulator", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gate": "both"}, "gate='both' is unknown: use None or one of interleaved, stacked"),
        ({"gate": 3}, "gate=3 is unknown"),
        ({"gate": "stacked", "bias": ROW}, "as in epilogue='x * y + bias', operands={'bias': bias}"),
        ({"gate": "stacked", "activation": "tanh"}, "activation='tanh' is unknown"),
        ({"gate": "stacked", "epilogue": "x"}, "does not read y, which is the sum of a column"),
        ({"gate": "stacked", "epilogue": "acc * 2"}, "with a gate there is no acc"),
        ({"gate": "stacked", "epilogue": "x * y", "operands": {"y": ROW}}, "operands has the name 'y': take another"),
        ({"gate": "stacked", "b": B[:, :39]}, "b has shape (16, 39), and gate='stacked' makes one column"),
        ({"gate": "stacked", "b": B[:, 0]}, "b has shape (16,), and gate='stacked' makes one column"),
        (
            {"gate": "interleaved", "out": FULL},
            "out has shape (24, 40), but the gated product has shape (24, 20)",
        ),
    ],
)
def test_what_is_wrong_with_a_gate_is_said(options, message):
    with pytest.raises(ArgumentValueError, match=re.escape(message)):
        tw.matmul(A, options.pop("b", B), backend="emulator", **options)


def test_what_no_gate_can_do_is_said():
    a, b = A.astype(np.float16), B.astype(np.float16)
    with pytest.raises(ArgumentValueError, match="gemv takes the pairs of gate='stacked' from a b that is stored by"):
        tw.matmul(a, b, gate="stacked", kernel="gemv", backend="emulator")
    with pytest.raises(ArgumentValueError, match="half of b has rows of 20 columns, and TMA reads the other half from"):
        tw.matmul(a, b, gate="stacked", kernel="wgmma", backend="emulator")
    wide = np.concatenate([b, b], axis=1)[:, :64]
    with pytest.raises(ConfigError, match="in panels of 64: make tile_n 128 or 256"):
        tw.matmul(a, wide, gate="stacked", config=tw.WgmmaConfig(64, 64, 3, epilogue="direct"), backend="emulator")
    config = tw.WgmmaConfig(64, 64, 3, epilogue="direct", swap_ab=True)
    with pytest.raises(ConfigError, match=r"a gate, sums of columns and scales that change along k need swap_ab=False"):
        tw.matmul(A.astype(np.float16), B.astype(np.float16), gate="interleaved", config=config, backend="emulator")


def test_a_plan_takes_its_operands_at_each_call():
    plan = tw.plan(A, B, epilogue="acc * x + y", operands={"y": COLUMN, "x": ROW}, backend="emulator")
    np.testing.assert_array_equal(plan(A, B, operands={"x": 2 * ROW, "y": -COLUMN}), A @ B * 2 * ROW - COLUMN)
    for operands in (None, {}, {"x": ROW}, {"x": ROW, "y": COLUMN, "z": ROW}):
        with pytest.raises(ArgumentValueError, match="made for operands named x, y and called with"):
            plan(A, B, operands=operands)
    with pytest.raises(ArgumentValueError, match=r"operands\['x'\] is not as the plan wants it: shape \(24, 40\)"):
        plan(A, B, operands={"x": FULL, "y": COLUMN})
    plain = tw.plan(A, B, backend="emulator")
    with pytest.raises(ArgumentValueError, match="made for operands named nothing and called with x"):
        plain(A, B, operands={"x": ROW})


@pytest.mark.parametrize("rows", [None, range(1, 30)])
@pytest.mark.parametrize("given", [[ROW], ROW, "x", 3, {"x"}])
def test_calls_of_a_plan_take_mappings_alone(rows, given):
    plan = tw.plan(A, B, epilogue="acc + x", operands={"x": ROW}, outputs={"acc": FULL}, m=rows, backend="emulator")
    for name, others in (("operands", {"outputs": {"acc": FULL}}), ("outputs", {"operands": {"x": ROW}})):
        with pytest.raises(ArgumentTypeError, match=f"{name} is a {type(given).__name__}: pass a mapping of names to"):
            plan(A, B, **{name: given}, **others)


def test_a_plan_for_a_range_of_rows_takes_operands():
    plan = tw.plan(A, B, epilogue="acc * x + y", operands={"x": ROW, "y": COLUMN}, m=range(20, 25), backend="emulator")
    for rows in (20, 24):
        out = plan(A[:rows], B, operands={"y": COLUMN[:rows], "x": ROW})
        np.testing.assert_array_equal(out, A[:rows] @ B * ROW + COLUMN[:rows])


def test_calls_alike_share_a_plan(monkeypatch):
    monkeypatch.setattr(api, "_plans", PlanCache())
    multiply("acc * x + y", x=ROW, y=COLUMN)
    multiply(" acc*x + (y)", y=COLUMN, x=-ROW)
    assert len(api._plans) == 1
    multiply("acc * x - y", x=ROW, y=COLUMN)
    multiply("acc * x + y", x=ROW, y=FULL)
    assert len(api._plans) == 3


def problem(epilogue, **operands):
    return tw.plan(A, B, epilogue=epilogue, operands=operands, backend="emulator").problem


def test_tuned_configs_know_the_expression():
    first, second = Key.of(problem("acc * x", x=ROW)), Key.of(problem("acc + x", x=ROW))
    assert first.epilogue == "operands['x'] fp32 (0,1) by 128, acc * x"
    assert first != second


def test_the_cuda_of_an_expression():
    constants = EpilogueConstants.of(problem("gelu(acc + bias) * x", bias=ROW, x=COLUMN))
    assert constants.parameters == "ExpressionParameters<2>"
    assert constants.definitions == (
        "// gelu(acc + bias) * x\n"
        "struct EpilogueExpression : ExpressionDefaults {\n"
        "  using Output = float;\n"
        "  using Operands = OperandRows<OperandRow<float, 1, true, true>, OperandRow<fp16, 0, false, false>>;\n"
        "\n"
        "  static __device__ __forceinline__ float apply(float acc, float bias_, float x_) {\n"
        "    return __fmul_rn(Gelu<Output>::apply(__fadd_rn(acc, bias_)), x_);\n"
        "  }\n"
        "};"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epilogue": "acc + x"}, "SHAPE, or a gate for x and y, or use acc\n  acc + x\n        ^"),
        ({"epilogue": "acc", "operands": {"x": ROW}}, "does not read: leave out"),
        ({"operands": {"x": ROW}}, "operands has 'x', and there is no expression to read it: pass epilogue="),
        ({"epilogue": "acc", "c": FULL}, "c was given beside epilogue="),
        ({"epilogue": "acc", "bias": ROW}, "bias was given beside epilogue="),
        ({"epilogue": "acc", "activation": "relu"}, "as in epilogue='relu(acc)'"),
        ({"epilogue": "acc", "beta": 0.0}, "as in epilogue='acc + 0.5 * c'"),
        (
            {"epilogue": "acc * 2 + gelu(x)", "operands": {"x": ROW[:39]}},
            "operands['x'] has shape (39,), which does not broadcast to the result's shape (24, 40): every dimension "
            "must be 1 or match, counted from the last\n  acc * 2 + gelu(x)\n                 ^",
        ),
        (
            {"epilogue": "acc*2 + gelu( x)", "operands": {"x": ROW[:39]}},
            "counted from the last\n  acc*2 + gelu( x)\n                ^",
        ),
        ({"epilogue": "acc + x", "operands": {"x": np.ones((2, 24, 40), np.float32)}}, "does not broadcast"),
        (
            {"epilogue": "x+(acc)", "operands": {"x": FULL}, "out": FULL},
            "out shares memory with operands['x']: the kernel would read what it has overwritten; pass another out\n"
            "  x+(acc)\n  ^",
        ),
        ({"epilogue": "acc", "kernel": "register_tiles"}, "and epilogue is an expression"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(options, message):
    with pytest.raises(ArgumentValueError, match=re.escape(message)):
        tw.matmul(A, B, options.pop("c", None), backend="emulator", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epilogue": 3}, "epilogue=3 is no text"),
        ({"epilogue": ["acc"]}, "epilogue=['acc'] is no text"),
        ({"epilogue": "acc + x", "operands": [ROW]}, "operands is a list: pass a mapping"),
        (
            {"epilogue": "acc+x", "operands": {"x": 2.0}},
            "operands['x'] is the number 2.0: write it into the expression, or pass an array\n  acc+x\n      ^",
        ),
        ({"epilogue": "acc+x", "operands": {"x": np.float32(2)}}, "operands['x'] is the number 2.0: write it into"),
        ({"epilogue": "acc + x", "operands": {"x": None}}, "operands['x']"),
        (
            {"epilogue": "acc + x", "operands": {"x": ROW.astype(np.float64)}},
            "operands['x'].dtype=float64 is not a supported dtype: use bf16, fp16, fp32 (an array of another: convert "
            "it first)\n  acc + x\n        ^",
        ),
        (
            {"epilogue": "acc + x", "operands": {"x": [1, 2]}},
            "or anything with __dlpack__ or __cuda_array_interface__\n  acc + x\n        ^",
        ),
        ({"epilogue": "acc + x", "operands": {3: ROW}}, "operands has the name 3"),
    ],
)
def test_what_is_of_the_wrong_kind_is_said(options, message):
    with pytest.raises(ArgumentTypeError, match=re.escape(message)):
        tw.matmul(A, B, backend="emulator", **options)


def test_the_page_shows_what_happens():
    page = (Path(__file__).parents[2] / "docs/epilogues.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for example in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(example, "epilogues.md", "exec"), names)
    message, struct = re.findall(r"^ *```text\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL)
    with pytest.raises(ArgumentValueError, match=f"^{re.escape(message.strip())}$"):
        parse("acc * sin(bias)", ["bias"])
    options = ("--epilogue", "gelu(acc + bias) * scale", "--operand", "bias=n", "--operand", "scale=m,1")
    assert textwrap.dedent(struct).strip() in in_json("inspect", "wgmma", *options, "--source")["source"]


def test_run_verifies_an_expression():
    operands = [word for form in ("x=n", "y=m,1", "z=m,n", "w=1") for word in ("--operand", form)]
    text = "where(acc > w, gelu(acc + x), acc / (1 + abs(z))) * y"
    record = in_json("run", 70, 40, 24, "--backend", "emulator", "--epilogue", text, *operands)
    assert record["verified"] is True
    assert record["epilogue"] == "where(acc > w, gelu(acc + x), acc / (1 + abs(z))) * y"
    assert 0 < record["relative_error"] <= record["error_bound"] < 0.02


def test_run_takes_any_text_that_the_grammar_takes():
    """It is longer with the spaces and parentheses of its spelling."""
    name = "x" * 64
    text = "acc" + f"+{name}" * 60
    assert len(text) < LONGEST < len(str(parse(text, [name])))
    options = ("--backend", "emulator", "--epilogue", text, "--operand", f"{name}=n")
    assert in_json("run", 8, 8, 8, *options)["verified"] is True
    assert in_json("explain", 8, 8, 8, *options[2:])["kernel"]


@pytest.mark.parametrize(("options", "text"), [([], "x * y"), (["--activation", "silu"], "silu(x) * y")])
def test_run_verifies_a_gate(options, text):
    record = in_json("run", 70, 80, 24, "--backend", "emulator", "--gate", "stacked", *options)
    assert (record["verified"], record["epilogue"], record["gate"]) == (True, text, "stacked")
    assert record["total_elements"] == 70 * 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate", "stacked", "--bias"], "an expression says what becomes of the sum: write --bias"),
        (["--operand", "x=n"], "--operand is read by an expression, and there is none: give --epilogue"),
        (["--epilogue", "acc + x", "--operand", "x=k"], "--operand='x=k' names no shape: write NAME=SHAPE"),
        (
            ["--epilogue", "acc + x", "--operand", "x=n", "--operand", "x=n"],
            "has the name of another operand",
        ),
        (["--epilogue", "acc + x"], "x is unknown"),
        (["--epilogue", "acc", "--bias"], "an expression says what becomes of the sum: write --bias"),
        (["--epilogue", "acc", "--activation", "relu"], "an expression says what becomes of the sum: write --bias"),
    ],
)
def test_run_says_what_is_wrong_with_an_expression(options, message):
    assert message in in_json("run", 8, 8, 8, "--backend", "emulator", *options, code=2)["error"]
