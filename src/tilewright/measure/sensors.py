"""Watts, SM clock and temperature that the board reports while it works, sampled through NVML.

NVML is part of the driver. This module calls the few functions that it needs directly, as in C
(NVML API reference, "Device Queries").
"""

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from types import TracebackType
from typing import Any

from cuda.bindings import driver

from tilewright.measure.timing import checked

LIBRARY = "libnvidia-ml.so.1"
_SUCCESS, _SM_CLOCK, _GPU_TEMPERATURE, _VERSION_BYTES = 0, 1, 0, 80


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading over an interval: mean board power (W), median SM clock (MHz), median temperature (Celsius)."""

    watts: float
    sm_clock_mhz: float
    celsius: float


@dataclass(frozen=True, slots=True)
class _Sample:
    seconds: float
    watts: float  # averaged by the board over the last second
    joules: float | None  # since the driver was loaded
    sm_clock_mhz: float
    celsius: float


class Sensors:
    """A sampler that reads a GPU's sensors in a background thread while the `with` block runs.

    Without NVML there are no readings. `device` is CUDA's device number, which depends on CUDA_VISIBLE_DEVICES;
    NVML's index does not.
    """

    def __init__(self, device: int = 0, period_seconds: float = 0.01):
        self._device = device
        self._period = period_seconds
        self._samples: list[_Sample] = []
        self._stop = threading.Event()
        self._given_up = ExitStack()

    def __enter__(self) -> "Sensors":
        board = self._given_up.enter_context(_board(self._device))
        if board is not None:
            thread = threading.Thread(target=self._watch, args=board, daemon=True)
            thread.start()
            self._given_up.callback(thread.join)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._given_up.close()

    def _watch(self, nvml: Any, handle: Any) -> None:
        while not self._stop.is_set():
            if (sample := _sample(nvml, handle)) is not None:
                self._samples.append(sample)
            time.sleep(self._period)

    def reading(self) -> Reading | None:
        """The reading since the last call, or None without samples.

        The energy counter moves about ten times a second, so the power is taken between its first and its last
        observed change. Over shorter intervals, or without the counter, the power is the board's own mean.
        """
        samples, self._samples = self._samples, []
        if not samples:
            return None
        moved = [
            (new.seconds, new.joules)
            for old, new in pairwise(samples)
            if old.joules is not None and new.joules is not None and new.joules > old.joules
        ]
        watts = median(sample.watts for sample in samples)
        if len(moved) > 1:
            (start, first), (end, last) = moved[0], moved[-1]
            watts = (last - first) / (end - start)
        clock = median(sample.sm_clock_mhz for sample in samples)
        return Reading(watts, clock, median(sample.celsius for sample in samples))


def board_facts(device: int = 0) -> dict[str, Any]:
    """The driver's version, the power limit (W) and the highest SM clock (MHz) of a GPU; only what NVML knows."""
    with _board(device) as board:
        if board is None:
            return {}
        nvml, handle = board
        version, milliwatts, clock = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_uint(), ctypes.c_uint()
        facts: dict[str, Any] = {}
        if nvml.nvmlSystemGetDriverVersion(version, _VERSION_BYTES) == _SUCCESS:
            facts["driver"] = version.value.decode()
        if nvml.nvmlDeviceGetEnforcedPowerLimit(handle, ctypes.byref(milliwatts)) == _SUCCESS:
            facts["power_limit_watts"] = milliwatts.value / 1e3
        if nvml.nvmlDeviceGetMaxClockInfo(handle, _SM_CLOCK, ctypes.byref(clock)) == _SUCCESS:
            facts["max_sm_clock_mhz"] = clock.value
        return facts


def combined(readings: Iterable[Reading | None], by: Callable[[list[float]], float]) -> Reading | None:
    """Several readings combined by `by`, a mean or a median; None without readings."""
    known = [reading for reading in readings if reading is not None]
    if not known:
        return None
    return Reading(
        by([reading.watts for reading in known]),
        by([reading.sm_clock_mhz for reading in known]),
        by([reading.celsius for reading in known]),
    )


@contextmanager
def _board(device: int) -> Iterator[tuple[Any, Any] | None]:
    """NVML and its handle of CUDA's device inside the `with` block; None without NVML or without such a board."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
    except OSError:
        nvml = None
    if nvml is None or nvml.nvmlInit_v2() != _SUCCESS:
        yield None
        return
    try:
        handle = ctypes.c_void_p()
        known = nvml.nvmlDeviceGetHandleByPciBusId_v2(_pci_bus_id(device), ctypes.byref(handle)) == _SUCCESS
        yield (nvml, handle) if known else None
    finally:
        nvml.nvmlShutdown()


def _sample(nvml: Any, handle: Any) -> _Sample | None:
    """One sample of the board; None if it does not report its power, clock or temperature."""
    milliwatts, clock, celsius = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
    millijoules = ctypes.c_ulonglong()
    refused = (
        nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(milliwatts))
        or nvml.nvmlDeviceGetClockInfo(handle, _SM_CLOCK, ctypes.byref(clock))
        or nvml.nvmlDeviceGetTemperature(handle, _GPU_TEMPERATURE, ctypes.byref(celsius))
    )
    if refused:
        return None
    counted = nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules)) == _SUCCESS
    joules = millijoules.value / 1e3 if counted else None
    return _Sample(time.perf_counter(), milliwatts.value / 1e3, joules, clock.value, celsius.value)


def _pci_bus_id(device: int) -> bytes:
    """The PCI bus id of CUDA's device, such as `0000:3B:00.0`: the one name that CUDA and NVML share."""
    checked(driver.cuInit(0))
    bus_id: bytes = checked(driver.cuDeviceGetPCIBusId(32, checked(driver.cuDeviceGet(device))))
    return bus_id.split(b"\0")[0]
