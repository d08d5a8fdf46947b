"""Both machines, and the record of how they compare, which is written whatever the outcome.

Several processes may share the cases (pytest-xdist); the one that gave them out then writes the record.
"""

import pytest

from support.gpu_process import GpuProcess
from support.proof import EQUAL, EXPLAINED, Proof, outcome_on

_proof = Proof()


@pytest.fixture(scope="session")
def proof():
    """The record of this run."""
    return _proof


@pytest.fixture(scope="module")
def gpu_process():
    """The process that launches on GPU 0; one for each part, so that failures in one leave the others their starts."""
    process = GpuProcess()
    yield process
    process.stop()


@pytest.fixture
def prove(proof, gpu_process):
    """Run a case on both machines and record how the results compare; equal and explained ones pass.

    explain: gives the reason why results may differ as they do, if there is one.
    """

    def compare(part, case, explain=None):
        outcome, examples = outcome_on(gpu_process, case, explain)
        proof.add(part, case.name, outcome, examples)
        assert outcome in (EQUAL, EXPLAINED), examples

    return compare


def _write(config):
    if path := config.getoption("--proof"):
        _proof.write(path, **_about())


@pytest.fixture(scope="module", autouse=True)
def written(pytestconfig):
    """The record is written after each part, so that one that is killed leaves the others'."""
    yield
    if not hasattr(pytestconfig, "workeroutput"):
        _write(pytestconfig)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["proof"] = _proof.parts()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    _proof.merge(getattr(node, "workeroutput", {}).get("proof", {}))
    _write(node.config)


def pytest_terminal_summary(terminalreporter):
    if lines := list(_proof.summary()):
        terminalreporter.section("the emulator against the GPU")
        for line in lines:
            terminalreporter.line(line)


def _about():
    """Which GPU and driver this is."""
    from cuda.bindings import driver

    from tilewright import api
    from tilewright.backends.driver_calls import checked
    from tilewright.backends.gpu import backend

    if not api.gpu_count():
        return {"gpu": None}
    version = checked(driver.cuDriverGetVersion(), "cuDriverGetVersion")
    return {"gpu": backend(0).hardware.name, "driver": f"CUDA {version // 1000}.{version % 1000 // 10}"}
