"""Records of `bench micro` beside the models: table, picture, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.bench.micro.power import DATA
from tilewright.cli import app
from tilewright.model.power import joules_per_tflop

MEASURED = Path(__file__).parents[3] / "results/power_h200.json"


def case(data, watts, mhz, tflops):
    return {"data": data, "watts": watts, "mhz": mhz, "tflops": tflops}


POWER = {
    "command": "tilewright bench micro power", "gpu": "H200", "m": 8192, "n": 4096, "k": 2048,
    "cases": [case("zeros", 500.0, 1980.0, 800.0), case("bits:50", None, None, 720.0)],
}  # fmt: skip
STRIDES = {
    "command": "tilewright bench micro strides", "gpu": "H200",
    "cases": [
        {"stride": stride, "fetch": fetch, "measured": rate}
        for stride, fetch, rate in ((32, 32, 4.25e12), (4096, 32, 1.5e12), (32, 64, 4.5e12))
    ],
}  # fmt: skip


OCCUPANCY = {
    "command": "tilewright bench micro occupancy", "gpu": "H200", "m": 64, "n": 32, "k": 16,
    "cases": [
        {"rung": "coalesced", "registers": 48, "ctas": 1, "tflops": 5.75},
        {"rung": "coalesced", "registers": 32, "ctas": 2, "tflops": 6.125},
    ],
}  # fmt: skip


def read(addresses, access, least, median, most):
    clocks = {"least": least, "median": median, "most": most}
    return {"addresses": addresses, "width": 16, "access": access, **clocks, "model": 4}


BANKS = {
    "command": "tilewright bench micro banks", "gpu": "H200",
    "cases": [read("lane*16", "ld", 4.0, 4.5, 4.75), read("lane*144", "ldmatrix", 3.75, 4.25, 4.5)],
}  # fmt: skip


FMA = {
    "command": "tilewright bench micro fma", "gpu": "H200",
    "cases": [
        {"chains": chains, "warps": warps, "least": clocks, "median": clocks, "most": clocks}
        for chains, warps, clocks in ((1, 4, 4.125), (1, 16, 2.25), (2, 4, 2.5))
    ],
}  # fmt: skip


@pytest.fixture
def shown(tmp_path):
    """A function that shows a record by a topic, and its lines in words."""

    def show(topic, content, *words, code=0):
        path = tmp_path / "record.json"
        path.write_text(json.dumps(content))
        done = CliRunner().invoke(app, ["model", topic, "--record", str(path), *words])
        assert done.exit_code == code, done.output
        return done

    return show


def lines(done):
    return [line.split() for line in done.stdout.splitlines()]


def test_what_bits_cost(shown):
    title, headings, *rows = lines(shown("speed-of-light", POWER))
    assert " ".join(title) == "8192 x 4096 x 2048 in bf16 on H200, settled"
    assert headings[-3:] == ["joules", "per", "TFLOP"]
    assert rows == [["zeros", "500", "1,980", "800", "0.625"], ["bits:50", "-", "-", "720", "-"]]
    found = json.loads(shown("speed-of-light", POWER, "--json").stdout)["cases"]
    assert [each["joules_per_tflop"] for each in found] == [0.625, None]


def test_strides_stand_below_what_is_possible(shown):
    rows = lines(shown("dram", STRIDES))
    at = rows.index(["TB/s,", "for", "one", "sector", "in", "bytes", "32", "4,096"])
    assert [rows[at + line][-2:] for line in (1, 2, 3, 4, 5)] == [
        ["4.80", "1.12"], ["4.25", "1.50"], ["4.80", "1.12"], ["4.50", "-"], ["4.80", "1.12"],
    ]  # fmt: skip
    assert [rows[at + line][0] for line in (1, 2, 5)] == ["L2", "measured", "L2"]


def test_a_second_cta_stands_below_the_limits(shown):
    rows = lines(shown("occupancy", OCCUPANCY, "--threads", "1024"))
    at = rows.index(["64", "x", "32", "x", "16", "in", "fp32,", "right", "after", "idle"])
    assert rows[at + 2 :] == [["coalesced", "48", "1", "5.75"], ["coalesced", "32", "2", "6.12"]]
    assert len(json.loads(shown("occupancy", OCCUPANCY, "--json").stdout)["measured"]) == 2


def test_reads_stand_beside_their_passes(shown):
    title, _, *rows = lines(shown("banks", BANKS))
    assert " ".join(title) == "clocks of a warp's read of SMEM on H200, with 16 warps on each SM"
    assert rows == [
        ["lane*16", "ld", "of", "16", "B", "4", "4.50", "4.00", "4.75"],
        ["lane*144", "ldmatrix", "of", "16", "B", "4", "4.25", "3.75", "4.50"],
    ]
    assert json.loads(shown("banks", BANKS, "--json").stdout) == {"gpu": "H200", "measured": BANKS["cases"]}


def test_chains_stand_beside_the_model(shown):
    rows = lines(shown("chains", FMA, "3"))
    assert " ".join(rows[0]).startswith("1 chain of 3 operations")
    assert rows[-2:] == [["1", "4.12", "(4.00)", "2.25", "(2.00)"], ["2", "2.50", "(2.00)", "-"]]
    assert json.loads(shown("chains", FMA, "--json").stdout)["measured"] == FMA["cases"]


def test_what_an_h200_did():
    """The more bits change, the slower; what the page says of zeros; and joules as those of the model."""
    found = {case["data"]: case for case in json.loads(MEASURED.read_text())["cases"]}
    assert list(found) == list(DATA)
    rates = [found[data]["tflops"] for data in DATA]
    assert all(more >= less for more, less in pairwise(rates))
    assert rates[0] / rates[-1] == pytest.approx(1.24, abs=0.01)
    joules = {data: case["watts"] / case["tflops"] for data, case in found.items()}
    assert joules["zeros"] / joules["randn"] == pytest.approx(0.5, abs=0.01)
    assert joules["randn"] == pytest.approx(joules_per_tflop(), rel=0.01)
    assert all(found[data]["watts"] > 690 for data in DATA[2:])
    assert found["constant"]["watts"] < 470


@pytest.mark.parametrize(
    ("topic", "content", "expected"),
    [
        ("speed-of-light", POWER, ("500 W, 1980 MHz", "bits:50")),
        ("dram", STRIDES, ("at most, if L2 fetches 64 bytes", "  measured")),
        ("chains", FMA, ("  measured on H200", "2 warps of a scheduler, by the model")),
        ("banks", BANKS, ("lane*144, ldmatrix 16 B", "4.25")),
    ],
)
def test_pictures_show_what_was_measured(shown, tmp_path, topic, content, expected):
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.svg"
    shown(topic, content, "--plot", str(path))
    text = path.read_text()
    assert [said for said in expected if said not in text] == []


@pytest.mark.parametrize(
    ("topic", "content", "words", "said"),
    [
        ("speed-of-light", POWER, ("16", "16", "16"), "leave M N K, --clock, --watts and --data out"),
        ("speed-of-light", POWER, ("--clock", "1400"), "leave M N K, --clock, --watts and --data out"),
        ("speed-of-light", POWER, ("--chip", "H20"), "is of H200: give one of H20"),
        ("speed-of-light", {**POWER, "cases": []}, (), "has no measured product"),
        ("speed-of-light", {**POWER, "cases": [case("zeros", -1.0, 1.0, 1.0)]}, (), "cases.0.watts"),
        ("speed-of-light", STRIDES, (), "is not a record, at command"),
        ("dram", {**STRIDES, "gpu": None}, (), "is of the emulator"),
        ("banks", {**BANKS, "gpu": None}, (), "is of the emulator: give one of a GPU"),
        ("banks", {**BANKS, "cases": []}, (), "has no measured read"),
        ("banks", BANKS, ("lane*4",), "leave EXPRESSION, --addresses, --lanes, --width and --access out"),
        (
            "banks",
            {**BANKS, "cases": [read("lane", "ld", 9.0, 4.5, 5.0)]},
            (),
            "least, median and most are (9.0, 4.5",
        ),
        ("banks", {**BANKS, "cases": [read("lane", "ld", 4.0, 4.5, None)]}, (), "or null for all"),
    ],
)
def test_what_is_refused(shown, topic, content, words, said):
    assert said in shown(topic, content, *words, code=2).stderr
