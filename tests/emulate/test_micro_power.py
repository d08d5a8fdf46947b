"""What the bits of operands cost: the numbers, the turns, the record, and products that are right in the emulator."""

import json
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.bench.inputs import Shape
from tilewright.bench.micro import power
from tilewright.cli import app
from tilewright.cli.products import problem_of
from tilewright.errors import ArgumentValueError, TilewrightError
from tilewright.hardware import H200
from tilewright.measure.protocol import Settled, Work
from tilewright.measure.sensors import Reading

PROBLEM = problem_of(Shape(256, 256, 256), bias=False, activation=None)
US = {"zeros": 10.0, "randn": 14.0}
WATTS = {"zeros": 500.0, "randn": 700.0}
QUICK = Settled(cycles=2, slice_seconds=1e-3, warmup_seconds=1e-4)


@pytest.mark.parametrize("percent", [0, 25, 50, 100])
def test_a_share_of_the_bits_of_mantissas_stays(percent):
    drawn = power.numbers(f"bits:{percent}", 1 << 14)
    found = drawn.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), drawn)  # bf16 holds them as they are
    normal = power.numbers("randn", 1 << 14)
    bits, whole = (np.bitwise_count(x.view(np.uint32) & 0x007F0000).sum() for x in (drawn, normal))
    assert bits / whole == pytest.approx(percent / 100, abs=0.02)
    np.testing.assert_array_equal(np.frexp(drawn)[1], np.frexp(normal)[1])
    np.testing.assert_array_equal(np.signbit(drawn), np.signbit(normal))


def test_other_numbers():
    assert not power.numbers("zeros", 8).any()
    assert set(power.numbers("constant", 8)) == {np.float32(np.pi)}
    for data in ("ones", "bits", "bits:101", "bits:-1", "randn:5"):
        with pytest.raises(ArgumentValueError, match="is unknown: use zeros, constant, randn, or bits:P"):
            power.numbers(data, 8)


class Board:
    """A stand and sensors of a GPU that takes longer, and draws more, if its numbers differ."""

    hardware = H200

    def __init__(self, fault=""):
        self.wrong, self.running, self.order = fault, "", []

    def make(self, numbers):
        return nullcontext(Place(self, "randn" if len(set(numbers(4))) > 1 else "zeros"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def reading(self):
        return Reading(WATTS[self.running], 1500.0, 60.0)


class Place:
    hardware = H200

    def __init__(self, board, data):
        self.board, self.data = board, data

    def fault(self, candidate, compiled):
        return self.board.wrong

    def work(self, candidate, compiled, until):
        def run(times):
            self.board.running = self.data
            self.board.order.append(self.data)
            return 10 * times * US[self.data] * 1e-6

        return Work(run, launches=10)


def test_products_take_turns_and_the_sensors_belong_to_each(monkeypatch):
    board, told = Board(), []
    monkeypatch.setattr(power, "Sensors", lambda: board)
    found = power.measure(PROBLEM, ["zeros", "randn"], board.make, QUICK, lambda share, doing: told.append(share))
    assert [(each.data, each.watts, each.mhz) for each in found] == [("zeros", 500, 1500), ("randn", 700, 1500)]
    assert [each.tflops for each in found] == pytest.approx([2 * 256**3 / us / 1e6 for us in US.values()])
    assert [each.samples_us for each in found] == [pytest.approx([us] * 2) for us in US.values()]
    turns = [data for data, before in zip(board.order, ["", *board.order], strict=False) if data != before]
    assert turns[-6:] == ["zeros", "randn"] * 3  # of two cycles, each there and back
    assert told[-1] == 1.0


def test_a_wrong_product_is_no_measurement():
    board = Board(fault="an element is wrong")
    with pytest.raises(TilewrightError, match="gives a wrong result on the H200"):
        power.measure(PROBLEM, ["zeros"], board.make, QUICK)


def invoke(*words, code=0):
    done = CliRunner().invoke(app, ["bench", "micro", "power", *words])
    assert done.exit_code == code, done.output
    return done


def test_the_command_in_the_emulator(tmp_path):
    path = tmp_path / "record.json"
    words = ("--data", "zeros", "--data", "bits:50", "--data", "zeros", "--backend", "emulator")
    record = json.loads(invoke(*words, "--output", str(path), "--json").stdout)
    assert record == json.loads(path.read_text())
    assert (record["gpu"], record["m"]) == (None, 256)
    assert [(case["data"], case["watts"]) for case in record["cases"]] == [("zeros", None), ("bits:50", None)]
    assert "zeros, bits:50 are right in the emulator" in invoke(*words).stdout
    assert "data='ones' is unknown" in invoke("--data", "ones", "--backend", "emulator", code=2).stderr


def test_the_table_of_a_gpu(monkeypatch):
    from tilewright.backends import gpu

    board = Board()
    monkeypatch.setattr("tilewright.cli.bench.micro.products.wants_gpu", lambda backend: True)
    monkeypatch.setattr(gpu, "backend", lambda device: board)
    monkeypatch.setattr(power, "Sensors", lambda: board)
    monkeypatch.setattr(power, "gpu_stand", lambda problem: board.make)
    monkeypatch.setattr(power, "PROTOCOL", QUICK)
    done = invoke("--data", "zeros", "--data", "randn", "--shape", "256")
    rows = [row.split() for row in done.stdout.splitlines()]
    assert rows == [
        ["data", "watts", "MHz", "TFLOP/s"],
        ["zeros", "500", "1500", "3.4"],
        ["randn", "700", "1500", "2.4"],
    ]
