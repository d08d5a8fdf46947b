"""Contenders with epilogues: their results and outputs in the emulator, the cost that is shown, and their options."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from support.contenders import FakeContender, HostInputs, fake_machine
from tilewright.bench import Absent, Shape
from tilewright.bench.epilogues import WithEpilogue
from tilewright.cli import app
from tilewright.expression.grammar import parse
from tilewright.problem import OperandForm
from tilewright.reference.bounds import sum_bound

SHAPE = Shape(24, 32, 16, "fp16", "nt")
BIAS, SCALE = OperandForm("bias", False, True), OperandForm("scale", True, False)
RESIDUAL, NUMBER = OperandForm("residual", True, True), OperandForm("z", False, False)


def verdict(contender, inputs, number, spoil=lambda prepared: None):
    """Whether the result and the outputs of a set are those of the contender's expression; `spoil` may change them."""
    prepared = contender.prepare(inputs)
    prepared.launch(number)
    spoil(prepared)
    a, b = (inputs.numbers(array) for array in inputs.sets[number][:2])
    a = a[inputs.rows]
    expected, bound = prepared.ending.expected(number, a @ b, sum_bound(a, b))
    right = np.all(np.abs(prepared.outs[number][inputs.rows].astype(np.float64) - expected) <= bound)
    return bool(right), prepared.ending.is_complete(number, prepared.outs[number])


@pytest.mark.parametrize(
    ("text", "gate", "outputs", "forms"),
    [
        ("gelu(acc + bias)", None, (), [BIAS]),
        ("acc * scale + residual", None, ("acc", "amax", "column_sums"), [SCALE, RESIDUAL]),
        ("silu(x) * y", "stacked", ("acc",), []),
        ("silu(x) * y - z", "interleaved", ("amax",), [NUMBER]),
    ],
)
def test_results_and_outputs_are_those_of_the_expression(text, gate, outputs, forms):
    expression = parse(text, [form.name for form in forms], gate)._replace(outputs=outputs)
    contender, inputs = WithEpilogue(expression, forms), HostInputs(SHAPE, sets=2)
    assert verdict(contender, inputs, 1) == (True, True)

    def without_epilogue(prepared):
        prepared.outs[1][...] *= -1.5

    assert verdict(contender, inputs, 1, without_epilogue)[0] is False


@pytest.mark.parametrize("output", ["acc", "amax", "column_sums"])
def test_outputs_that_are_not_written_are_noticed(output, monkeypatch):
    expression = parse("relu(acc)", [])._replace(outputs=(output,))
    contender, inputs, made = WithEpilogue(expression), HostInputs(SHAPE), []
    added = contender._added
    monkeypatch.setattr(contender, "_added", lambda inputs: made.append(added(inputs)) or made[-1])

    def unwritten(prepared):
        made[-1].outputs[output][...] = 0

    assert verdict(contender, inputs, 0) == (True, True)
    assert verdict(contender, inputs, 0, unwritten) == (True, False)


def test_a_product_that_no_kernel_takes_is_absent_with_the_reason():
    gated = WithEpilogue(parse("x * y", [], "interleaved"))
    with pytest.raises(Absent, match="an even number of columns"):
        gated.prepare(HostInputs(Shape(24, 31, 16, "fp16", "nn")))


def invoke(*arguments, code=0):
    done = CliRunner().invoke(app, ["bench", "--shape", "512,256,128", *map(str, arguments)])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return done


@pytest.fixture
def machine(monkeypatch):
    """A GPU on which the plain product takes 1 ms and each epilogue adds 2%."""

    class Fake(FakeContender):
        def __init__(self, expression, forms):
            real = WithEpilogue(expression, forms)
            super().__init__(real.name, 1.02e-3)

        def prepare(self, inputs, choice=None):
            prepared = super().prepare(inputs, choice)
            prepared.about["epilogue"] = self.name
            return prepared

    monkeypatch.setattr("tilewright.bench.epilogues.WithEpilogue", Fake)
    return fake_machine(monkeypatch, {"tilewright": lambda: FakeContender("tilewright", 1e-3)})


def test_epilogues_are_timed_beside_the_plain_product_and_their_cost_is_shown(machine, tmp_path):
    options = ("--epilogue", "gelu(acc + bias)", "--epilogue", "acc -> amax", "--operand", "bias=n", "--rounds", 2)
    record = json.loads(invoke(*options, "--protocol", "burst", "--json").stdout)
    (product,) = record["products"]
    names = ["tilewright", "tilewright: gelu(acc + bias), bias=n", "tilewright: acc -> amax"]
    assert record["contenders"] == names
    costs = [entry["burst"].get("cost") for entry in product["contenders"]]
    assert costs == [None, pytest.approx(0.02), pytest.approx(0.02)]
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    for shown in (invoke(*options, "--protocol", "burst"), CliRunner().invoke(app, ["bench", str(path)])):
        assert "cost" in shown.stdout
        assert "+2.0%" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epilogue", "acc -> sums"), "has the output 'sums', which is unknown: use acc, amax"),
        (("--epilogue", "acc + bias"), "bias is unknown"),
        (("--epilogue", "acc", "--operand", "bias=n"), "--operand=bias=n is read by no --epilogue"),
        (("--epilogue", "acc", "--gate", "stacked"), "--gate pairs columns"),
        (("--gate", "stacked"), "--gate pairs columns"),
        (("--epilogue", "acc", "--self-check"), "--self-check times one contender"),
    ],
)
def test_bad_options_are_refused(options, message):
    assert message in " ".join(invoke(*options, code=2).stderr.split())
