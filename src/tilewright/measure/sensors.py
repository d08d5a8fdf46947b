"""What the board reports while it works: watts, SM clock and temperature, sampled through NVML."""

import threading
import time
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any

from cuda.bindings import driver

from tilewright.measure.timing import checked


@dataclass(frozen=True, slots=True)
class Reading:
    """Medians over an interval: board power in W, SM clock in MHz, temperature in degrees Celsius."""

    watts: float
    sm_clock_mhz: float
    celsius: float


class Sensors:
    """Samples a GPU in a background thread while the `with` block runs; without NVML there are no readings.

    `device` is CUDA's number of it, which CUDA_VISIBLE_DEVICES changes and NVML's index does not follow.
    """

    def __init__(self, device: int = 0, period_seconds: float = 0.02):
        self._device = device
        self._period = period_seconds
        self._samples: list[tuple[float, float, float]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Sensors":
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:  # not installed, or no driver: measure without readings
            return self
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(_pci_bus_id(self._device))
        self._thread = threading.Thread(target=self._sample, args=(pynvml, handle), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self, pynvml: Any, handle: Any) -> None:
        while not self._stop.is_set():
            self._samples.append(
                (
                    pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
                    pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
                    pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
                )
            )
            time.sleep(self._period)

    def reading(self) -> Reading | None:
        """Medians of what was sampled since the last call."""
        samples, self._samples = self._samples, []
        if not samples:
            return None
        watts, clocks, temperatures = zip(*samples, strict=True)
        return Reading(median(watts), median(clocks), median(temperatures))


def _pci_bus_id(device: int) -> bytes:
    """Where CUDA's device sits, such as `0000:3B:00.0`: the one name that both libraries share."""
    checked(driver.cuInit(0))
    bus_id: bytes = checked(driver.cuDeviceGetPCIBusId(32, checked(driver.cuDeviceGet(device))))
    return bus_id.split(b"\0")[0]
