"""Sums of columns with the second kernel's PTX made wrong: the emulator reports each mutant."""

import numpy as np
import pytest

import tilewright as tw
from support.mutants import generate
from tilewright.backends.emulated import EmulatedBackend
from tilewright.emulator.errors import EmulatorError
from tilewright.hardware import H200
from tilewright.jit.cache import build
from tilewright.kernels.column_sums import ColumnSumsKernel
from tilewright.kernels.kernel import Launch
from tilewright.planner.column_sums import adding

RNG = np.random.default_rng(0)
A, B = (RNG.integers(-2, 3, shape).astype(np.float16) for shape in ((1100, 16), (16, 40)))


class Substituting(EmulatedBackend):
    """Runs other PTX in place of `column_sums`, with every check."""

    def __init__(self, ptx, **options):
        super().__init__(checks=True, **options)
        self._ptx = ptx

    def prepare(self, compiled, shape, arguments):
        if compiled.name == ColumnSumsKernel.name:
            compiled = compiled._replace(ptx=self._ptx)
        return super().prepare(compiled, shape, arguments)


def finding(ptx):
    """What is wrong with the sums of groups that are added so; None if nothing is."""
    for asynchrony in ("eager", "lazy", "random"):
        backend, sums = Substituting(ptx, asynchrony=asynchrony), np.full(40, np.nan, np.float32)
        try:
            out = tw.matmul(A, B, outputs={"column_sums": sums}, out_dtype="fp32", kernel="mma", backend=backend)
        except EmulatorError as error:
            return type(error).__name__
        if backend.device.reports:
            return backend.device.reports[0].kind
        if not np.array_equal(sums, out.sum(axis=0)):
            return "wrong sums"
    return None


@pytest.fixture(scope="module")
def launch() -> Launch:
    """The second launch of the product."""
    plan = tw.plan(A, B, outputs={"column_sums": np.zeros(40, np.float32)}, backend="emulator")
    (launch,) = adding(plan.problem, H200)
    assert launch.arguments.problem.k == 69  # groups, of which some warps add three and others two
    return launch


@pytest.mark.planted_fault
def test_every_mutant_is_reported(launch):
    ptx = build(launch.source, H200.virtual_arch).ptx
    assert finding(ptx) is None
    mutants = generate(ptx)
    assert {mutant.kind for mutant in mutants} >= {"drop bar.sync", "drop griddepcontrol.wait"}
    for mutant in mutants:
        assert finding(mutant.apply(ptx)) is not None, mutant.name
