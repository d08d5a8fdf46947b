"""Options of the tests of GPUs and of the site, what all runs share, and the notice of kernels that changed."""

import gc
import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from support import verification

GPU_TESTS = Path(__file__).parent / "gpu"


@pytest.fixture(autouse=True)
def untuned(monkeypatch):
    """The planner chooses as it does where nothing was tuned."""
    from tilewright.planner import tuned

    monkeypatch.setattr(tuned, "best", lambda *_: None)


def pytest_addoption(parser):
    parser.addoption("--require-gpu", action="store_true", help="fail without a GPU, instead of skipping")
    parser.addoption("--proof", metavar="FILE", help="write how the emulator compares with the GPU to FILE")
    parser.addoption("--site", metavar="FOLDER", type=Path, help="the built site, which `make docs` makes")
    parser.addoption("--record", metavar="FILE", help="write the record of a passed GPU run to FILE")


def pytest_configure(config):
    if find_spec("hypothesis"):  # the site's environment has none
        draw_the_same_examples()
    if config.getoption("--require-gpu") and not gpu_count():
        raise pytest.UsageError("--require-gpu was given and no GPU is usable: see `tilewright doctor`")


def draw_the_same_examples():
    """Each time, so that a change is what fails; `make test-all` draws new ones."""
    import hypothesis

    drawn = os.environ.get("TILEWRIGHT_TESTS") == "all"
    hypothesis.settings.register_profile("tilewright", deadline=None, derandomize=not drawn)
    hypothesis.settings.load_profile("tilewright")


def pytest_collection_modifyitems(config, items):
    on_gpu = [item for item in items if GPU_TESTS in item.path.parents]
    if not on_gpu or config.getoption("--require-gpu") or gpu_count():
        return
    for item in on_gpu:
        item.add_marker(pytest.mark.skip(reason="no GPU here"))


def pytest_collection_finish():
    """Halve the time of the garbage collector, which would go through all collected tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 20)


def gpu_count():
    from tilewright import api

    return api.gpu_count()


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["verified"] = verification.outcome()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    if found := getattr(node, "workeroutput", {}).get("verified"):
        verification.merge(**found)


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    if path := config.getoption("--record"):
        if message := unrecorded(exitstatus):
            terminalreporter.line(message, red=True, bold=True)
        else:
            write_record(Path(path), terminalreporter, config)
    if message := verification.notice():
        terminalreporter.section("GPU verification", sep="!", red=True, bold=True)
        terminalreporter.line(message, red=True, bold=True)


def unrecorded(exitstatus):
    """The reason why this run leaves no record; None if it leaves one."""
    from tilewright.kernels.registry import EVERY_KERNEL

    return "Nothing is recorded: the run has not passed." if exitstatus else verification.incomplete(EVERY_KERNEL)


def write_record(path, terminalreporter, config):
    from cuda.bindings import driver

    from tilewright.backends.driver_calls import checked
    from tilewright.backends.gpu import backend
    from tilewright.jit.compile import nvrtc_version

    version = checked(driver.cuDriverGetVersion(), "cuDriverGetVersion")
    content = verification.record(
        gpu=backend(0).hardware.name,
        driver=f"CUDA {version // 1000}.{version % 1000 // 10}",
        nvrtc=str(nvrtc_version()),
        command="python -m pytest " + " ".join(map(str, config.invocation_params.args)),
        passed=len(terminalreporter.stats.get("passed", ())),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
