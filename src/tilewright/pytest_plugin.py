"""A pytest plugin: the fixture `device`, an emulated GPU whose reports fail the test.

    @pytest.mark.tilewright(asynchrony=["eager", "lazy"], ignore="race@sum.cu")
    def test_sum(device):
        kernel = device.load(Path("sum.ptx").read_text())
        ...

The marker takes the options of `tilewright.emulator.Device`; a list for asynchrony runs the test under each. Nothing
of tilewright is imported before the first test that uses the fixture, and a fixture of that name in your own files
comes before this one.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tilewright.emulator import Device

OPTIONS = ("asynchrony", "seed", "tensor_cores", "ignore", "checks", "count_memory", "memory_bytes", "observers")
"""Options of a Device that the marker takes."""

_DEVICE = pytest.StashKey["Device"]()
_REPORTED = pytest.StashKey[int]()
"""How many reports the test itself has failed for."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", f"tilewright({', '.join(OPTIONS)}): options of the fixture `device`")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test under each of several asynchronies."""
    wanted = _options(metafunc.definition).get("asynchrony")
    if isinstance(wanted, list | tuple) and "device" in metafunc.fixturenames:
        metafunc.parametrize("device", wanted, indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> "Iterator[Device]":
    """An emulated GPU, `tilewright.emulator.Device`; what its checks report fails the test."""
    from tilewright.checking.excerpts import explained
    from tilewright.emulator import Device

    options = _options(request.node)
    if any(marker.args for marker in request.node.iter_markers("tilewright")):
        pytest.fail(f"@pytest.mark.tilewright takes its options by name: {', '.join(OPTIONS)}", pytrace=False)
    for name in options:
        if name not in OPTIONS:
            pytest.fail(f"{name} is no option of @pytest.mark.tilewright: it takes {', '.join(OPTIONS)}", pytrace=False)
    if hasattr(request, "param"):
        options["asynchrony"] = request.param
    request.node.stash[_DEVICE] = made = Device(**options)
    yield made
    known = request.node.stash.get(_REPORTED, 0)
    if late := [explained(report.as_dict(), made.sources) for report in [*made.reports][known:]]:
        pytest.fail("\n\n".join(late), pytrace=False)  # of launches while fixtures ended


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Fail the test for what its device reports; show the source lines also of an error that ended it."""
    outcome = yield
    made = item.stash.get(_DEVICE, None)
    if made is None:
        return
    from tilewright.checking.excerpts import explained, explained_error

    item.stash[_REPORTED] = len(made.reports)
    shown = "\n\n".join(explained(report.as_dict(), made.sources) for report in made.reports)
    if warned := [explained(report.as_dict(), made.sources, "warning") for report in made.reports.warnings]:
        item.add_report_section("call", "tilewright", "\n\n".join(warned))
    if outcome.excinfo is None:
        if shown:
            outcome.force_exception(pytest.fail.Exception(shown, pytrace=False))
        return
    if error := explained_error(outcome.excinfo[1], made.sources):
        shown = f"{shown}\n\n{error}".strip()
    if shown:
        item.add_report_section("call", "tilewright", shown)


def _options(node: pytest.Item | Any) -> dict[str, Any]:
    """The options of the markers of a test, the closest one first."""
    options: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("tilewright"))):
        options |= marker.kwargs
    return options
