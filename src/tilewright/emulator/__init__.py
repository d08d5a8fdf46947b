"""Runs PTX on the CPU: the kernels that the GPU runs, in NumPy, with checks that the hardware does not have.

`Device` is the host's side. PTX goes through `ptx_parser` (text to data), `blocks` (control flow), `codegen` with its
instruction tables (blocks to Python functions) and `machine` (which lanes run next).
"""

# The instruction tables register themselves.
from tilewright.emulator import (
    arithmetic_instructions,
    barrier_instructions,
    integer_instructions,
    matrix_instructions,
    memory_instructions,
    movement_instructions,
)
from tilewright.emulator.counters import Counters
from tilewright.emulator.device import Device, Kernel
from tilewright.emulator.errors import (
    AsyncHazard,
    BarrierProtocol,
    Deadlock,
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

__all__ = [
    "AsyncHazard",
    "BarrierProtocol",
    "Counters",
    "Deadlock",
    "Device",
    "EmulatorError",
    "Kernel",
    "KernelTrap",
    "LaunchError",
    "MbarrierLifetime",
    "MbarrierState",
    "Misaligned",
    "MisdirectedStore",
    "OutOfBounds",
    "PtxSyntaxError",
    "StepLimit",
    "UndefinedBranch",
    "UnsupportedInstruction",
    "arithmetic_instructions",
    "barrier_instructions",
    "integer_instructions",
    "matrix_instructions",
    "memory_instructions",
    "movement_instructions",
]
