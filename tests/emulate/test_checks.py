"""Each check finds a fault planted in a small kernel, names both lines, and is silent when the fault is not there."""

import re

import numpy as np
import pytest

import tilewright.emulator as emulator
from emulate.check_cases import CASES
from emulate.nvrtc import compile_ptx
from tilewright.emulator import Device
from tilewright.emulator.rules import RULES

POLICIES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(3))]
COUNT = 4096


def run(case, fault, policy, *options):
    """What the kernel of a case leaves in `out`."""
    device = Device(memory_bytes=1 << 20, asynchrony=policy[0], seed=policy[1])
    out = device.upload(np.zeros(COUNT, np.int32))
    values = device.upload(np.arange(COUNT, dtype=np.int32) * 7 % 1001)
    kernel = device.load(compile_ptx(case.source, "sm_90a", f"-DFAULT={fault}", *options))
    device.launch(kernel, (case.grid,), (case.block,), [out, values], cluster=(case.cluster,))
    return device.read(out, 4 * COUNT).view(np.int32)


def marked(case, mark):
    """The numbers of the lines with a mark."""
    return {str(number) for number, line in enumerate(case.source.split("\n"), 1) if f"/*{mark}*/" in line}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_correct_kernel(case):
    results = [run(case, 0, policy) for policy in POLICIES]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.planted_fault
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_faulty_kernel(case, reports):
    if case.error is None:
        run(case, 1, case.policy)
    else:
        with pytest.raises(getattr(emulator, case.error)):
            run(case, 1, case.policy)
    assert {report.kind for report in reports()} - case.also == {case.kind}
    for report in (report for report in reports() if report.kind == case.kind):
        assert RULES[case.kind].section in str(report)
        for mark, location in enumerate(report.locations, 1):
            assert marked(case, mark) & set(re.findall(r"test\.cu:(\d+)", location)), location


def test_every_rule_has_a_case():
    assert {case.kind for case in CASES} | {"uninitialised-register"} == set(RULES)
