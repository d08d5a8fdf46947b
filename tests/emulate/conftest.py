"""Every device of these tests checks its launches; a test of a kernel without a planted fault must leave no report."""

import pytest

from tilewright.emulator.device import Device


@pytest.fixture(autouse=True)
def reports(request, monkeypatch):
    """The reports of the test's devices, in order."""
    devices = []
    build = Device.__init__

    def record(self, **options):
        build(self, **options)
        devices.append(self)

    monkeypatch.setattr(Device, "__init__", record)

    def found_so_far():
        return [report for device in devices for report in (*device.reports, *device.reports.warnings)]

    yield found_so_far
    if request.node.get_closest_marker("planted_fault") is None:
        found = found_so_far()
        assert not found, "\n\n".join(map(str, found[:3]))


@pytest.fixture
def ptx(tmp_path):
    """Compiles a source to a file and returns its path."""

    from emulate.nvrtc import compile_ptx

    def compiled(source, *options):
        path = tmp_path / "kernel.ptx"
        path.write_text(compile_ptx(source, "sm_90a", *options))
        return path

    return compiled
