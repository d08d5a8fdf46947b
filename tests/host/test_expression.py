"""Expressions: what the grammar takes, what it says of the rest, and their bounds."""

import re

import numpy as np
import pytest
from hypothesis import given

from support.expressions import EXPRESSIONS
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.expression import grammar
from tilewright.expression.evaluation import MEANINGS, Bounded, evaluate
from tilewright.expression.grammar import parse
from tilewright.expression.tree import OPERATIONS, Name, Number, Operation


def exact(**values):
    return {name: Bounded(np.float64(value), np.float64(0)) for name, value in values.items()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("acc", 3.0),
        ("-acc * 2", -6.0),
        ("acc + 2 * bias - 1", 6.0),
        ("(acc + 2) * (bias - 1)", 5.0),
        ("acc / 4 / bias", 0.375),
        ("acc - (bias - 1)", 2.0),
        (" relu(-acc)\n + abs(-bias)", 2.0),
        ("min(acc, bias, 7) * max(1, 5, acc)", 10.0),
        ("where(acc >= 3, bias, 100)", 2.0),
        ("where(acc + 1 < 3, bias, 100)", 100.0),
        ("where(acc != 3, 1, where(bias == 2, 8, 9))", 8.0),
        ("sqrt(acc * 12) + rsqrt(bias * 2)", 6.5),
        ("exp(log(acc))", 3.0),
        ("erf(acc - 3) + tanh(0) + sigmoid(bias - 2)", 0.5),
        ("silu(acc) / acc * (1 + exp(-3))", 1.0),
        ("gelu(acc - 3) + gelu_tanh(bias - 2) + acc", 3.0),
        ("1e-3 * acc + 0x10 + 1_000", 1016.003),
    ],
)
def test_an_expression_has_the_value_that_python_gives_it(text, value):
    expression = parse(text, [name for name in ("bias",) if name in text])
    found, error = evaluate(expression, exact(acc=3, bias=2))
    assert abs(found - value) <= error <= 1e-5 * max(1, abs(value))


@given(EXPRESSIONS)
def test_an_expression_is_read_as_it_is_spelled(expression):
    assert parse(str(expression), expression.operands) == expression


def test_texts_that_mean_the_same_are_equal():
    first, second = parse("gelu(acc+bias)*2", ["bias"]), parse(" gelu( (acc) + bias ) * 2.0", ["bias"])
    assert first == second
    assert hash(first) == hash(second)
    assert first.operands == ("bias",)
    assert first != parse("gelu(acc+bias)*2.5", ["bias"])


def test_every_operation_has_a_meaning():
    assert MEANINGS.keys() == OPERATIONS.keys()


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("gelu(acc", "", "does not parse"),
        ("acc +", "", "ends too early"),
        ("acc acc", "acc", "does not parse"),
        ("acc +* 2", "*", "does not parse"),
        ("gelu(acc + weight)", "weight", "weight is unknown"),
        ("acc / 'two'", "'two'", "a string"),
        ('acc * "x"', '"x"', "a string"),
        ("acc * True", "True", "no real number"),
        ("acc * 2j", "2j", "no real number"),
        ("acc * None", "None", "no real number"),
        ("acc * ...", "...", "no real number"),
        ("acc ** 2", "acc ** 2", "write value * value, or sqrt(value)"),
        ("acc // 2", "acc // 2", "write it with these and functions"),
        ("x * acc", "x", "or a gate for x and y, or use acc, bias"),
        ("acc @ bias", "acc @ bias", "only + - * /"),
        ("+acc", "+acc", "leave it out"),
        ("[acc]", "[acc]", "not in the grammar"),
        ("acc > 0 ? acc : 0", "?", "does not parse (invalid syntax): write where(comparison, value, other value)"),
        ("where(acc > 0 && acc < 1, acc, 0)", "&&", "does not parse (invalid syntax): nest one where in another"),
        ("where(acc != 0, acc, 0", "", "'(' was never closed): write it as Python would read it"),
        ("swish(acc)", "swish", "swish is no function of epilogues: write silu(value)"),
        ("log2(acc)", "log2", "log2 is no function of epilogues: write 1.442695 * log(value)"),
        ("SiLU(acc)", "SiLU", "SiLU is no function of epilogues: write silu(...)"),
        ("tan(acc)", "tan", "tan is no function of epilogues: compute it from the result"),
        ("where(acc=0, 1, acc)", "=", "(positional argument follows keyword argument): compare with =="),
        ("torch.clamp(acc, 0, 6)", "torch.clamp", "write min(max(value, least), most)"),
        ("pow(acc, 2)", "pow", "write value * value, or sqrt(value)"),
        ("acc if acc else 1", "acc if acc else 1", "write where(comparison, value, other value)"),
        ("acc and 1", "acc and 1", "nest one where in another"),
        ("where(acc > 0 and acc < 1, 1, 2)", "acc > 0 and acc < 1", "nest one where in another"),
        ("acc * 1e-46", "1e-46", "write at least 1.4e-45"),
        ("ac + 1", "ac", "ac is unknown (did you mean acc?)"),
        ("acc + inf", "inf", "inf is no number of epilogues"),
        ("acc + " + "n" * 300, "n" * 94, "n... is unknown: pass"),
        ("relux(acc)", "relux", "relux is no function of epilogues (did you mean relu?)"),
        ("(lambda: acc)()", "lambda: acc", "no function"),
        ("acc[0]", "acc[0]", "not in the grammar"),
        ("acc.real", "acc.real", "not in the grammar"),
        ("np.exp(acc)", "np.exp", "np.exp is no function of epilogues: write exp(...)"),
        ("sin(acc)", "sin", "no function of epilogues: compute it"),
        ("gelu", "gelu", "gelu is a function"),
        ("exp(acc, 2)", "exp(acc, 2)", "takes 1 value and has 2"),
        ("max(acc)", "max(acc)", "at least 2 values and has 1"),
        ("exp(x=acc)", "x=acc", "without names"),
        ("exp(*acc)", "*acc", "without names and stars"),
        ("acc > 0", "acc > 0", "a comparison is no number"),
        ("exp(acc > 0)", "acc > 0", "a comparison is no number"),
        ("where(acc, 1, 2)", "acc", "begins with a comparison"),
        ("where(0 < acc < 1, 1, 2)", "0 < acc < 1", "nest one where in another"),
        ("where(acc is 1, 1, 2)", "acc is 1", "begins with a comparison"),
        ("where(acc > 0, acc)", "where(acc > 0, acc)", "has 2: write where(comparison, value, other value)"),
        ("relu()", "relu()", "takes 1 value and has 0: write relu(value)"),
        ("2(acc + 1)", "2", "write * to multiply"),
        ("(-acc)(2)", "-acc", "write * to multiply"),
        ("acc * _b", "_b", "_b is unknown, and operands' names begin with a letter: use acc, bias"),
        ("acc + 1e39", "1e39", "does not fit fp32"),
        ("acc + " + "9" * 400, "9" * 100, "does not fit fp32"),
        ("acc # + 1", "#", "no place"),
        ("acc \u00d7 2", "\u00d7", "no place"),
        ("\uff41cc + 1", "\uff41", "no place"),
        ("acc\x00", "\x00", "no place"),
        ("(" * 10_000 + "acc" + ")" * 10_000, "(", "nested more than 64 deep"),
        ("acc" + " + 1" * 65, " + 1", "one operation more than the 64 that fit a thread's registers and code, of 65"),
        ("acc + " + "-" * 3000 + "1", "", "nested more than 64 deep"),
        ("-" * 10_000 + "acc", "-", "it has 10003 characters and at most 4096, which end here"),
    ],
)  # fmt: skip
def test_what_the_grammar_lacks_is_an_error_that_points_at_it(text, marked, message):
    with pytest.raises(ArgumentValueError, match=re.escape(message)) as raised:
        parse(text, ["bias"])
    *_, shown, marks = str(raised.value).split("\n")
    start, end = marks.index("^"), len(marks)
    assert marks == " " * start + "^" * (end - start)
    if marked:
        assert shown[start:end] == marked[: end - start]
        assert len(marked) == end - start or shown.endswith("...")


def test_what_errors_write_for_other_libraries_functions_is_read():
    for written in grammar._WRITTEN.values():
        gate = "stacked" if written.endswith(", with a gate") else None
        text = re.sub(r", or .*|other |, with a gate", "", written).replace("value", "acc")
        parse(re.sub("least|most", "1", text), (), gate)


@pytest.mark.parametrize("acc", [-100.0, -0.5, 0.0, 3.0, 100.0])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("softplus", lambda x: np.logaddexp(0, x)), ("mish", lambda x: x * np.tanh(np.logaddexp(0, x))),
        ("elu", lambda x: x if x > 0 else np.expm1(x)), ("hardswish", lambda x: x * min(max(x + 3, 0), 6) / 6),
        ("exp2", np.exp2), ("log2", np.log2), ("log10", np.log10), ("log1p", np.log1p),
        ("relu6", lambda x: min(max(x, 0), 6)), ("leaky_relu", lambda x: x if x > 0 else 0.01 * x),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_errors_write_for_other_libraries_functions_is_what_these_compute(name, function, acc):
    found, wanted = within(grammar._WRITTEN[name].replace("value", "acc"), acc, 0), float(function(np.float64(acc)))
    np.testing.assert_allclose(float(found.value), wanted, rtol=1e-5, atol=1e-7)
    assert found.error <= 1e-4 * max(1, np.nan_to_num(abs(wanted)))


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_an_empty_text_is_an_error(text):
    with pytest.raises(ArgumentValueError, match="epilogue is an empty text: write an expression, or leave it out"):
        parse(text, [])


def test_the_place_is_shown_in_a_text_of_several_lines_and_in_a_long_one():
    with pytest.raises(ArgumentValueError, match=r"\n  acc +\+ wrong\n {9,10}\^\^\^\^\^$"):
        parse("acc\n  + wrong", ())
    with pytest.raises(ArgumentValueError, match=r"\n  \.\.\..*wrong.*\.\.\.\n +\^\^\^\^\^$"):
        parse("acc" + " + 1" * 30 + " * wrong" + " + 1" * 30, ())


def test_the_place_can_be_printed_whatever_the_text():
    with pytest.raises(ArgumentValueError, match=r"acc \+ \?x\n {8}\^$") as raised:
        parse("acc + \ud800x", ())
    str(raised.value).encode()


def test_what_does_not_fit_registers_is_an_error():
    balanced = "acc"
    for _ in range(6):
        balanced = f"({balanced} + {balanced})"
    with pytest.raises(ArgumentValueError, match="one operation more than the 64"):
        parse(f"{balanced} + {balanced}", ())
    assert len(parse(balanced, ()).cuda({"acc": "x"})) > 64
    names = [f"x{i}" for i in range(grammar.MOST_OPERANDS + 1)]
    with pytest.raises(ArgumentValueError, match="has 9 arrays and an epilogue reads at most 8"):
        parse(" + ".join(["acc", *names]), names)
    assert parse(" + ".join(["acc", *names[:-1]]), names[:-1]).operands == tuple(names[:-1])
    with pytest.raises(ArgumentValueError, match="at most 4096"):
        parse("acc" + " " * 4096, ())


def test_operands_and_acc_must_be_read():
    with pytest.raises(ArgumentValueError, match=r"operands has 'b', 'c', which epilogue='acc \+ a' does not read"):
        parse("acc + a", ["a", "b", "c"])
    with pytest.raises(ArgumentValueError, match="does not read acc"):
        parse("bias", ["bias"])


@pytest.mark.parametrize(
    "name",
    ["acc", "gelu", "where", "lambda", "None", "1x", "", "x y", "\u00e9", "x" * 65, "x-y", "_", "__LINE_", "__shared_"],
)
def test_an_operand_cannot_be_called_so(name):
    with pytest.raises(ArgumentValueError, match="take another"):
        parse("acc", [name])


def test_types_are_checked():
    with pytest.raises(ArgumentTypeError, match="epilogue=3 is no text"):
        parse(3, ())
    with pytest.raises(ArgumentTypeError, match=r"epilogue=\[0, 1, .*\.\.\. is no text") as caught:
        parse(list(range(10000)), ())
    assert len(str(caught.value)) < 300
    with pytest.raises(ArgumentTypeError, match="give it a text"):
        parse("acc", [3])  # type: ignore[list-item]


def test_cuda_is_written_from_the_tree_alone():
    expression = parse("where(acc > bias, 0.1, -acc / 3)", ["bias"])
    assert (
        expression.cuda({"acc": "x", "bias": "y"})
        == "(x > y) ? 0x1.99999a0000000p-4f : div_full(-x, 0x1.8000000000000p+1f)"
    )
    assert expression.root == Operation(
        "where",
        (
            Operation(">", (Name("acc"), Name("bias"))),
            Number(float(np.float32(0.1))),
            Operation("/", (Operation("negate", (Name("acc"),)), Number(3.0))),
        ),
    )


def within(text, acc, error, **operands):
    values = exact(**operands) | {"acc": Bounded(np.float64(acc), np.float64(error))}
    return evaluate(parse(text, list(operands)), values)


def test_errors_of_the_sum_are_carried_on():
    assert within("acc * 1000", 1, 1e-3).error == pytest.approx(1, rel=1e-3)
    assert within("1 / acc", 0.5, 1e-3).error == pytest.approx(4e-3, rel=1e-2)
    assert within("exp(acc)", 5, 1e-3).error == pytest.approx(np.exp(5) * 1e-3, rel=1e-2)
    assert within("sqrt(acc)", 1e-4, 5e-5).error == pytest.approx(0.01 - np.sqrt(0.5e-4), rel=1e-3)
    assert within("where(acc > 0, 1, -1)", 1e-4, 2e-4).error == 2
    assert within("where(acc > 0, 1, -1)", 3e-4, 2e-4).error == 0
    assert within("where(acc > bias, 1, -1)", 1, 0, bias=1) == (-1, 0)


@pytest.mark.parametrize(
    ("text", "acc", "error"),
    [
        ("1 / acc", 1e-3, 1e-3), ("log(acc)", 1e-3, 2e-3), ("log(acc)", -1e-3, 2e-3), ("sqrt(acc)", 0, 1e-6),
        ("exp(acc)", 88.72, 1e-2), ("acc * 1e38 * 10", 0.34, 0.01), ("gelu(acc)", np.inf, 0),
        ("sqrt(acc)", -1e-40, 0), ("tanh(log(acc))", 1e-3, 2e-3), ("1 / 0 * acc", 0, 1e-6), ("silu(-acc / 0)", 1, 0),
        ("where(acc > 0, 1 / 0, -1 / 0)", 0, 1e-6), ("acc * 1e38 * 10 + 1 / 0 * acc", 1, 2),
    ],
)  # fmt: skip
def test_nothing_is_known_of_what_may_overflow_or_be_undefined(text, acc, error):
    assert within(text, acc, error) == (0, np.inf)


@pytest.mark.parametrize(
    ("text", "acc", "error", "value"),
    [
        ("log(acc)", -1, 1e-3, np.nan), ("sqrt(acc) * 0", -1, 0, np.nan), ("exp(acc)", 89, 1e-3, np.inf),
        ("-exp(exp(acc))", 10, 1e-3, -np.inf), ("exp(exp(acc)) * 0", 10, 1e-3, np.nan), ("acc / 0", -1, 0.1, -np.inf),
        ("acc * 1e30 * 1e30", -1, 0.1, -np.inf), ("1 / (1 + 1 / acc)", 0, 0, 0), ("log(acc)", 0, 0, -np.inf),
        ("gelu(log(acc))", -1, 0, np.nan), ("max(log(acc), bias)", -1, 0, np.nan), ("acc / 0 - bias", 1, 0, np.inf),
        ("where(acc > 0, log(-acc), 1)", 1, 0.1, np.nan), ("where(acc > 0, 1 / 0, 2 / 0)", 0, 0.1, np.inf),
        ("acc * 1e38 * 10 + bias", 1, 0.1, np.inf),
        ("acc", np.inf, 0, np.inf), ("acc - acc", np.inf, 0, np.nan), ("acc + bias", np.nan, 0, np.nan),
        ("bias - acc", np.inf, 0, -np.inf), ("relu(-acc)", -np.inf, 0, np.inf), ("bias / acc", np.inf, 0, 0),
        ("abs(acc) / 0 - 1 / 0", 1, 0.1, np.nan), ("1 / exp(exp(acc))", 10, 0, 0),
    ],
)  # fmt: skip
def test_what_must_be_infinite_or_nan_is_known(text, acc, error, value):
    found = within(text, acc, error, **({"bias": 2} if "bias" in text else {}))
    np.testing.assert_equal(float(found.value), value)
    assert found.error <= 1e-37


def test_a_product_that_is_added_to_may_itself_be_beyond_fp32():
    value, error = within("acc * bias - 3e38", 4e38 / 2.0**60, 0, bias=2.0**60)
    assert float(value) == pytest.approx(1e38)
    assert error < 1e33
