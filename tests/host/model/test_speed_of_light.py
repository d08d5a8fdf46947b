"""The speed of light against published numbers, and the measured points against the record that they are from."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.checking.product import Product
from tilewright.cli import app
from tilewright.dtypes import bf16
from tilewright.errors import ArgumentValueError
from tilewright.hardware import H200
from tilewright.model.chips import CHIPS
from tilewright.model.power import BY_DATA, LIMITS, MEASURED, allowed, joules_per_tflop, settled_flops
from tilewright.model.speed_of_light import SpeedOfLight, of_product, speed_of_light

RESULTS = Path(__file__).parents[3] / "results"


def printed(*words, code=0):
    done = CliRunner().invoke(app, ["model", "speed-of-light", *map(str, words), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_the_two_ways_to_ask_agree():
    """Of a Problem as planning has it, and of extents and a type's name."""
    problem = Product(300, 200, 100, bf16, bf16, "nt").problem
    assert speed_of_light(problem, H200) == of_product(CHIPS["H200"], 300, 200, 100, "bf16")


def test_what_is_longest_is_the_bound():
    assert SpeedOfLight(2.0, 1.0).bound == "compute"
    assert SpeedOfLight(1.0, 2.0).bound == "memory"
    assert SpeedOfLight(1.0, 2.0, 3.0).bound == "power"
    assert SpeedOfLight(1.0, 2.0, 3.0).seconds == 3.0


def test_at_the_ridge_both_take_equally_long():
    """Of an H20: 37 operations a byte."""
    chip = CHIPS["H20"]
    for m, bound in ((36, "memory"), (40, "compute")):
        assert of_product(chip, m, 100_000, 100_000, "bf16").bound == bound


def test_small_elements_are_summed_into_two_bytes():
    found = of_product(CHIPS["H200"], 64, 32, 128, "fp8")
    assert found.memory_seconds == pytest.approx((64 * 128 + 32 * 128 + 64 * 32 * 2) / 4.8e12)
    assert found.compute_seconds == pytest.approx(2 * 64 * 32 * 128 / 1978.9e12, rel=1e-4)


def test_light_is_proportional_to_the_clock():
    """The article's derivation for bf16 on an H100 SXM, and a clock that was throttled."""
    chip = CHIPS["H100-SXM"]
    assert chip.flops(chip.rate("bf16"), 1.83e9) == 132 * 4 * 1024 * 1.83e9
    rates = {rate["operands"]: rate for rate in printed("--chip", "H100-SXM", "--clock", 1400)["rates"]}
    assert rates["bf16"]["tflops"] == pytest.approx(989.4 * 1400 / 1830, rel=1e-3)
    assert rates["bf16"]["peak_intensity"] == pytest.approx(295 * 1400 / 1830, rel=5e-3)


def test_measured_points_are_those_of_the_record():
    record = json.loads((RESULTS / "proof_first_look.json").read_text(encoding="utf-8"))
    assert "H200" in record["gpu"]
    found = {}
    for product in record["products"]:
        for entry in product["contenders"]:
            if entry["contender"] == "tilewright" and product["layout"] == "nt" and entry.get("settled"):
                found[product["m"], product["n"], product["k"]] = entry["settled"]
    for each in MEASURED:
        settled = found[each.m, each.n, each.k]
        assert each.watts == pytest.approx(settled["watts"], abs=0.06)
        assert each.mhz == pytest.approx(settled["sm_clock_mhz"], abs=0.6)
        assert each.tflops == pytest.approx(settled["tflops"], abs=0.06)


def test_measured_points_are_below_the_light_of_their_clock_and_within_the_limit():
    chip = CHIPS["H200"]
    for each in MEASURED:
        assert each.tflops * 1e12 < chip.flops(chip.rate("bf16"), each.mhz * 1e6)
        assert each.watts < chip.watts
    assert [each.tflops for each in MEASURED] == sorted(each.tflops for each in MEASURED)


def test_a_power_limit_allows_what_the_best_product_had():
    best = MEASURED[-1]
    assert settled_flops(H200, best.watts) == pytest.approx(best.tflops * 1e12, rel=2e-3)
    assert joules_per_tflop() == pytest.approx(0.996, abs=1e-3)
    found = printed(8192, 8192, 8192, "--watts", 700)["product"]
    assert found["bound"] == "power"
    assert found["tflops"] == pytest.approx(703, abs=1)


def test_kinds_of_data_are_those_of_the_record():
    cases = json.loads((RESULTS / "power_h200.json").read_text(encoding="utf-8"))["cases"]
    assert list(BY_DATA) == [case["data"] for case in cases]
    for case in cases:
        point = BY_DATA[case["data"]]
        assert (point.m, point.n, point.k) == (8192, 8192, 8192)
        assert point.watts == pytest.approx(case["watts"], abs=0.06)
        assert point.mhz == pytest.approx(case["mhz"], abs=0.6)
        assert point.tflops == pytest.approx(case["tflops"], abs=0.06)


@pytest.mark.parametrize("data", BY_DATA)
def test_at_its_own_watts_each_kind_of_data_does_what_was_measured(data):
    point = BY_DATA[data]
    for watts, rate in ((point.watts, 1), (point.watts / 2, 0.5)):
        found = allowed("H200", watts, data)
        assert found.flops == pytest.approx(rate * point.tflops * 1e12, rel=2e-3)
        assert found.mhz == pytest.approx(rate * point.mhz, rel=2e-3)
    held = {watts: allowed("H200", watts, data).bound for watts in LIMITS}
    assert held == {200: "power", 700: "clock" if data in ("zeros", "constant") else "power"}


def test_a_limit_is_shown_with_what_was_measured():
    found = printed("--watts", 500)
    assert len(found["measured"]) == len(MEASURED) + len(BY_DATA)
    assert found["at_power_limit"]["zeros"]["tflops"] == pytest.approx(861, abs=0.1)
    assert found["at_power_limit"]["randn"]["tflops"] == pytest.approx(500 / joules_per_tflop())
    text = CliRunner().invoke(app, ["model", "speed-of-light", "--watts", "500"]).stdout
    assert "randn       691  1,462      694             0.996      502  1,058    power" in text
    zeros = printed(8192, 8192, 8192, "--watts", 400, "--data", "zeros")["product"]
    assert zeros["power_us"] == pytest.approx(2 * 8192**3 / allowed("H200", 400, "zeros").flops * 1e6)


def test_a_chip_without_bf16_is_asked_for_fp16():
    assert printed(64, 64, 64, "--chip", "V100")["product"]["dtype"] == "fp16"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--clock", 5000), "--clock=5000 is no clock of H200: give MHz above 0 and up to 1980"),
        (("--clock", 0), "--clock=0 is no clock of H200"),
        (("--watts", 50), "--watts=50 is no power limit of an H200: give 200 to 700"),
        (("--data", "zeros"), "--data=zeros is about a product at a power limit: give M N K and --watts"),
        ((8, 8, 8, "--watts", 700, "--data", "ones"), "--data='ones' was not measured: use zeros, constant, bits:0"),
        (("--watts", 700, "--chip", "A100"), "--watts=700 of A100: joules were measured on an H200"),
        (("--watts", 700, "--dtype", "fp8"), "--watts=700 with --dtype=fp8: joules were measured in bf16"),
        (("--dtype", "fp4"), "--dtype='fp4' is not multiplied by H200: use fp16, bf16, tf32"),
        ((4, 4), "M N K='4 4' is not a shape"),
        ((0, 4, 4), "M=0 must be an integer from 1 to"),
    ],
)
def test_what_makes_no_sense_is_refused(words, message):
    assert message in printed(*words, code=2)["error"]


def test_of_product_refuses_what_is_no_extent():
    with pytest.raises(ArgumentValueError, match="k=-1 must be an integer from 1 to"):
        of_product(CHIPS["H200"], 1, 1, -1, "bf16")
