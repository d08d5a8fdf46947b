"""Both machines, and the record of how they compare, which is written whatever the outcome."""

import pytest

from support.gpu_process import GpuFailure, GpuProcess
from support.launches import emulate
from support.proof import EQUAL, Proof
from tilewright.emulator import EmulatorError, UnsupportedInstruction

_proof = Proof()


@pytest.fixture(scope="session")
def proof():
    """The record of this run."""
    return _proof


@pytest.fixture(scope="session")
def gpu_process():
    """The process that launches on GPU 0."""
    process = GpuProcess()
    yield process
    process.stop()


@pytest.fixture
def prove(proof, gpu_process):
    """Run a case on both machines and record how the results compare; equal is what passes."""

    def compare(part, case):
        outcome, examples = _outcome(case, gpu_process)
        proof.add(part, case.name, outcome, examples)
        assert outcome == EQUAL, examples

    return compare


def _outcome(case, gpu_process):
    launch = case.launch()
    try:
        emulated = emulate(launch, checks=False)
    except UnsupportedInstruction as error:
        return "not emulated", [str(error)]
    except EmulatorError as error:
        return "refused by the emulator", [f"{type(error).__name__}: {error}"[:300]]
    try:
        hardware = gpu_process.run(launch)
    except GpuFailure as error:
        return "failed on the GPU", [str(error)[:300]]
    differences = case.differences(emulated, hardware, lambda other: emulate(other, checks=False))
    return ("different", differences) if differences else (EQUAL, [])


def pytest_terminal_summary(terminalreporter, config):
    if path := config.getoption("--proof"):
        _proof.write(path, **_about())
    if lines := list(_proof.summary()):
        terminalreporter.section("the emulator against the GPU")
        for line in lines:
            terminalreporter.line(line)


def _about():
    """Which GPU and driver this is."""
    from tilewright import api
    from tilewright.backends.gpu import backend, checked, driver

    if not api.gpu_count():
        return {"gpu": None}
    version = checked(driver.cuDriverGetVersion(), "cuDriverGetVersion")
    return {"gpu": backend(0).hardware.name, "driver": f"CUDA {version // 1000}.{version % 1000 // 10}"}
