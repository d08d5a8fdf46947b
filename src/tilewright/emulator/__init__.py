"""Runs PTX on the CPU: the same kernels as on the GPU, in NumPy, with checks that the hardware does not have.

`Device` is the host's side. PTX goes through `ptx` (text to data), `program` (data to Python functions, by the meanings
in `semantics`) and `machine` (which lanes run next); `checks` and `counts` listen to the machine's events.
"""

from tilewright.emulator.counts.counters import Counters
from tilewright.emulator.counts.coverage import Coverage
from tilewright.emulator.counts.gaps import Gaps
from tilewright.emulator.device import Device, Kernel
from tilewright.emulator.errors import (
    AsyncHazard,
    BarrierProtocol,
    Deadlock,
    DivergedCollective,
    EmulatorError,
    KernelTrap,
    LaunchError,
    MbarrierLifetime,
    MbarrierState,
    Misaligned,
    MisdirectedStore,
    OutOfBounds,
    PtxSyntaxError,
    StepLimit,
    UndefinedBranch,
    UnsupportedInstruction,
)
from tilewright.emulator.machine.observer import Observer
from tilewright.emulator.memory import GLOBAL_BASE

__all__ = [
    "GLOBAL_BASE",
    "AsyncHazard",
    "BarrierProtocol",
    "Counters",
    "Coverage",
    "Deadlock",
    "Device",
    "DivergedCollective",
    "EmulatorError",
    "Gaps",
    "Kernel",
    "KernelTrap",
    "LaunchError",
    "MbarrierLifetime",
    "MbarrierState",
    "Misaligned",
    "MisdirectedStore",
    "Observer",
    "OutOfBounds",
    "PtxSyntaxError",
    "StepLimit",
    "UndefinedBranch",
    "UnsupportedInstruction",
]
