"""What a launch may take of the host: the batches of a grid one after the other, and no CTA that takes more."""

import gc
import tracemalloc
from contextlib import contextmanager

import pytest

from tilewright.emulator import Device, EmulatorError, LaunchError, OutOfBounds
from tilewright.emulator import device as device_module
from tilewright.emulator import launch as launch_module

MEBIBYTE = 1 << 20
KERNEL = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry hold() {{
  .reg .b32 r; {variable}; mov.u32 r, 1; st.{space}.u32 [held+{offset}], r; ret;
}}
"""


def local(nbytes, offset=0):
    """A kernel that needs so much local memory in each thread."""
    return KERNEL.format(variable=f".local .align 16 .b8 held[{nbytes}]", space="local", offset=offset)


@contextmanager
def traced():
    """A function that tells what is allocated, and what was at most, while nobody looks for cycles of references."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()
        gc.enable()


def limit_bytes(monkeypatch, nbytes):
    """What the CTAs that run together may take on the host."""
    for module in (launch_module, device_module):
        monkeypatch.setattr(module, "MACHINE_BYTES", nbytes)


@pytest.mark.parametrize("checks", [True, False])
def test_batches_of_a_grid_take_turns_in_memory(monkeypatch, checks):
    limit_bytes(monkeypatch, 16 * MEBIBYTE)
    device = Device(memory_bytes=MEBIBYTE, checks=checks)
    kernel = device.load(local(4096))
    with traced() as allocated:
        device.launch(kernel, 100, 128, [])  # half a MiB of each CTA
        assert allocated()[1] < 20 * MEBIBYTE


def test_a_launch_that_an_error_ends_frees_its_memory():
    device = Device(memory_bytes=MEBIBYTE)
    kernel = device.load(local(65536, offset=65536))
    with traced() as allocated:
        with pytest.raises(OutOfBounds):
            device.launch(kernel, 8, 128, [])
        left, most = allocated()
    assert most > 64 * MEBIBYTE
    assert left < 8 * MEBIBYTE


@pytest.mark.parametrize("error", ["trap;", "bar.sync 1, 64;", "st.shared.u32 [held+200000], r;"])
def test_an_error_that_is_held_holds_no_memory_of_its_launch(error):
    device = Device(memory_bytes=MEBIBYTE)
    text = KERNEL.format(variable=".shared .align 16 .b8 held[100000]", space="shared", offset=0)
    kernel = device.load(text.replace("ret;", f"{error} ret;"))
    with traced() as allocated:
        with pytest.raises(EmulatorError) as held:
            device.launch(kernel, 64, 32, [])
        left, most = allocated()
    assert held.value.counters is not None
    assert most > 32 * MEBIBYTE
    assert left < 8 * MEBIBYTE


def test_the_checks_of_shared_memory_count(monkeypatch):
    limit_bytes(monkeypatch, 32 * MEBIBYTE)
    device = Device(memory_bytes=MEBIBYTE)
    kernel = device.load(KERNEL.format(variable=".shared .align 16 .b8 held[100000]", space="shared", offset=0))
    with traced() as allocated:
        device.launch(kernel, 64, 128, [])
        assert allocated()[1] < 34 * MEBIBYTE


MBARRIERS = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry begin() {{
  .shared .align 8 .b64 held[64]; .reg .b32 t, address; .reg .pred p;
  mov.u32 t, %tid.x; setp.ne.u32 p, t, 0; @p bra Out; mov.u32 address, held;
Again:
  {inits}
  add.u32 address, address, {step}; setp.lt.u32 p, address, held+512; @p bra Again;
Out: ret;
}}
"""


def mbarriers(sites):
    """A kernel whose CTAs initialize 64 mbarriers each, by this many instructions in a loop."""
    inits = "".join(f"mbarrier.init.shared::cta.b64 [address+{8 * number}], 1; " for number in range(sites))
    return MBARRIERS.format(inits=inits, step=8 * sites)


@pytest.mark.parametrize("cluster", [1, 2])
def test_the_checks_of_mbarriers_count(monkeypatch, cluster):
    limit_bytes(monkeypatch, 64 * MEBIBYTE)
    device = Device(memory_bytes=MEBIBYTE)
    kernel = device.load(mbarriers(64))
    with traced() as allocated:
        device.launch(kernel, 512, 64, [], cluster=cluster)
        assert 32 * MEBIBYTE < allocated()[1] < 66 * MEBIBYTE
    assert not device.reports


def test_mbarriers_that_no_estimate_knows_are_refused(monkeypatch):
    limit_bytes(monkeypatch, 64 * MEBIBYTE)
    device = Device(memory_bytes=MEBIBYTE)
    words = r"`mbarrier.init\S*` \(PTX line 9\) initializes the \d+th mbarrier of 512 CTAs .* than 67108864 bytes"
    with pytest.raises(LaunchError, match=words):
        device.launch(device.load(mbarriers(1)), 512, 64, [])
    device.launch(device.load(mbarriers(1)), 64, 64, [])
    Device(memory_bytes=MEBIBYTE, checks=False).launch(device.load(mbarriers(1)), 512, 64, [])


def test_a_cta_that_takes_too_much_is_refused(monkeypatch):
    limit_bytes(monkeypatch, MEBIBYTE)
    device = Device(memory_bytes=MEBIBYTE)
    words = r"a cluster of hold takes \d+ bytes to emulate, 1048\d+ for local memory and registers .*is 1048576: launch"
    with pytest.raises(LaunchError, match=words):
        device.launch(device.load(local(4096)), 1, 128, [])
