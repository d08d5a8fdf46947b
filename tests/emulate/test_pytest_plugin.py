"""The pytest plugin: the fixture `device`, its marker, failures with source lines, and other suites left alone."""

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tilewright.jit.user_source import UserSource

pytest_plugins = "pytester"

SUM = """extern "C" __global__ void sum(float* out) {
  __shared__ float partial[64];
  partial[threadIdx.x] = threadIdx.x;
  if (threadIdx.x == 0) out[0] = partial[0] + partial[63];
}
"""
TESTS = """
from pathlib import Path
import pytest

def launch(device, entry="sum"):
    device.launch(device.load(Path("sum.ptx").read_text(), entry), 1, 64, [device.allocate(4)])

def test_race(device):
    launch(device)

@pytest.mark.tilewright(ignore="race")
def test_waived(device):
    launch(device)
    assert device.reports.waived

@pytest.mark.tilewright(checks=False)
def test_unchecked(device):
    launch(device)

@pytest.mark.tilewright(asynchrony=["eager", "lazy"], ignore="race")
class TestEach:
    @pytest.mark.tilewright(seed=3)
    def test_order(self, device):
        launch(device)

def test_race_and_more(device):
    launch(device)
    assert 1 == 2

def test_bounds(device):
    kernel = device.load(Path("sum.ptx").read_text())
    device.launch(kernel, 1, 64, [0])

@pytest.mark.tilewright(asynchronous="lazy")
def test_misspelled(device):
    launch(device)
"""


@pytest.fixture
def suite(pytester):
    source = pytester.path / "sum.cu"
    source.write_text(SUM)
    (pytester.path / "sum.ptx").write_text(UserSource.read(source).compiled().ptx)
    return pytester


def run(suite, *options):
    installed = "tilewright" in entry_points(group="pytest11").names
    return suite.runpytest_subprocess(*(() if installed else ("-p", "tilewright.pytest_plugin")), *options)


def test_reports_fail_the_test_with_their_lines(suite):
    suite.makepyfile(TESTS)
    result = run(suite)
    result.assert_outcomes(passed=4, failed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*test_race*",
            "sum.cu:4: error: race: `ld.shared.f32` at sum.cu:4*",
            "  4 |   if (threadIdx.x == 0) out?0? = partial?0? + partial?63?;",
            "    |   ^~~*",
            "sum.cu:3: note: `st.shared.f32` at sum.cu:3*",
            "  3 |   partial?threadIdx.x? = threadIdx.x;",
            "  rule: two accesses*",
        ]
    )
    text = result.stdout.str()
    assert "asynchronous is no option of @pytest.mark.tilewright: it takes asynchrony, seed" in text
    assert "test_order[lazy]" in run(suite, "-v", "-k", "test_order").stdout.str()
    only = run(suite, "-k", "test_race_and_more").stdout.str()
    assert "assert 1 == 2" in only
    assert "sum.cu:4: error: race" in only
    only = run(suite, "-k", "test_bounds").stdout.str()
    assert "sum.cu:4: error: OutOfBounds" in only
    assert "out[0] = partial[0]" in only


def test_in_many_processes(suite):
    pytest.importorskip("xdist")
    suite.makepyfile(TESTS)
    result = run(suite, "-n", "2")
    result.assert_outcomes(passed=4, failed=3, errors=1)
    assert "sum.cu:4: error: race" in result.stdout.str()


def test_other_suites_are_left_alone(suite):
    suite.makeconftest("import pytest\n@pytest.fixture\ndef device():\n    return 'mine'\n")
    suite.makepyfile(
        """
        import sys
        import pytest

        def test_own(device):
            assert device == "mine"

        @pytest.mark.parametrize("device", ["cpu", "cuda"])
        def test_parametrized(device):
            assert device in ("cpu", "cuda")

        def test_light():
            loaded = {name for name in sys.modules if name.startswith("tilewright")}
            assert loaded == {"tilewright", "tilewright.pytest_plugin"}
            assert "numpy" not in sys.modules
        """
    )
    run(suite, "--strict-markers").assert_outcomes(passed=4)


def test_pytest_finds_the_plugin_where_tilewright_is_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tilewright": "tilewright.pytest_plugin"}
