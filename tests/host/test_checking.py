"""Runs under several orders of completion: what is found, kept and refused, with a kernel that is a function."""

import numpy as np
import pytest

from tilewright.checking.asynchrony import Asynchrony, asynchronies
from tilewright.checking.kernels import KernelCheck, checks_of
from tilewright.checking.product import Product
from tilewright.checking.result import Findings
from tilewright.checking.runs import run_under_each
from tilewright.emulator import LaunchError, OutOfBounds
from tilewright.emulator.checks.reporting.reports import Reports
from tilewright.emulator.checks.reporting.waivers import waivers_of
from tilewright.errors import ArgumentValueError
from tilewright.kernels.registry import KERNELS
from tilewright.reference import Comparison

PLACE = "`ld.global.f32` at kernels/mma.cuh:41 (PTX line 9)"


class Device:
    """One whose checks found nothing."""

    reports = Reports()


def found_by(runs, orders=None, **options):
    """Findings of a kernel that does, under each policy, what `runs` says: an array, or an exception to raise."""
    findings = Findings("kernel", **options)
    shares = []

    def prepare(order, options):
        def run():
            outcome = runs[order.policy]
            options["progress"](0.5)
            if isinstance(outcome, BaseException):
                raise outcome
            return {"out": outcome}, None

        assert (options["asynchrony"], options["seed"], options["checks"]) == (order.policy, order.seed, True)
        return Device, run

    first = run_under_each(orders or asynchronies(2), prepare, findings, shares.append)
    return findings.result(), first, shares


def test_eager_and_lazy_come_before_random_orders_of_other_seeds():
    assert list(map(str, asynchronies(2, seed=5))) == ["eager", "lazy", "random(5)", "random(6)"]


def test_equal_results_are_clean_and_the_first_is_kept():
    ones = np.ones(3, np.float32)
    result, first, shares = found_by({"eager": ones, "lazy": ones.copy(), "random": ones.copy()})
    assert (result.verified, result.reports) == (True, [])
    assert first["out"] is ones
    assert shares == [0.125, 0.375, 0.625, 0.875]


def test_an_error_and_a_difference_are_reports_of_their_orders():
    runs = {"eager": np.zeros((2, 3)), "lazy": OutOfBounds(f"{PLACE} reads 0x10"), "random": np.eye(2, 3)}
    result, _, _ = found_by(runs)
    assert result.verified is False
    assert [(report["kind"], report["schedules"]) for report in result.reports] == [
        ("OutOfBounds", ["lazy"]),
        ("ScheduleDependence", ["random(0)", "random(1)"]),
    ]
    assert result.reports[0]["locations"] == [PLACE]
    assert (
        "out differs from that of eager in 2 of 6 elements, first at (0, 0), 1.0 instead of 0.0"
        in (result.reports[1]["rule"])
    )


def test_equal_numbers_of_other_bits_differ():
    result, _, _ = found_by({"eager": np.float32([0.0]), "lazy": np.float32([-0.0])}, asynchronies(0))
    assert [report["kind"] for report in result.reports] == ["ScheduleDependence"]
    same = np.float32([np.nan])
    assert found_by({"eager": same, "lazy": same}, asynchronies(0))[0].verified


def test_kinds_that_are_ignored_do_not_count():
    result, _, _ = found_by(
        {"eager": np.zeros(1), "lazy": np.ones(1)}, asynchronies(0), waivers=waivers_of("ScheduleDependence")
    )
    assert result.waived == {"ScheduleDependence": 1}
    assert (result.verified, result.reports) == (True, [])


@pytest.mark.parametrize(("end", "interrupted"), [(KeyboardInterrupt(), True), (TimeoutError("too long"), False)])
def test_what_was_found_before_an_early_end_is_kept(end, interrupted):
    end.add_note("CTA 0 ran")
    result, first, _ = found_by({"eager": np.zeros(1), "lazy": end})
    assert (result.verified, result.interrupted, result.schedules) == (None, interrupted, ["eager", "lazy"])
    assert result.error.splitlines()[-1] == "  CTA 0 ran"
    assert first is not None
    assert result.as_dict()["error"] == result.error
    assert "interrupted" not in result.as_dict()


def test_a_launch_that_is_refused_is_no_report():
    with pytest.raises(LaunchError, match="too large"):
        found_by({"eager": LaunchError("too large")})


def test_a_result_without_an_error_does_not_name_one():
    assert "error" not in found_by({"eager": np.zeros(1)}, [Asynchrony("eager")])[0].as_dict()


def test_a_wrong_product_is_reported(monkeypatch):
    (check,) = checks_of([KERNELS["simt"]], (5, 4, 3))
    monkeypatch.setattr(Product, "verify", lambda *_: Comparison(False, 0.5, 1e-6, 20))
    result = check.run(asynchronies(0))
    (report,) = result.reports
    assert (report["kind"], report["schedules"]) == ("WrongProduct", ["eager", "lazy"])
    assert "relative error of 5.00e-01 against float64, and rounding explains at most 1.00e-06" in report["message"]


def test_a_kernel_that_takes_no_product_says_why():
    wgmma, simt = checks_of([KERNELS["wgmma"], KERNELS["simt"]], (9, 7, 5))
    assert isinstance(simt, KernelCheck)
    assert simt.product is not None
    result = wgmma.run(asynchronies(0))
    assert (result.verified, result.reports) == (None, [])
    assert result.skipped.startswith("does not take it: ")
    refusal = r"kernel .wgmma. does not take this product on H200: .*TMA.*no copies"
    with pytest.raises(ArgumentValueError, match=refusal):
        checks_of([KERNELS["wgmma"]], (9, 7, 5))
