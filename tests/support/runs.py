"""Cases run through the public API and compared: in the emulator, or on a GPU."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from support.doubles import GpuArray
from support.memory import Buffer
from tilewright.problem import WRITTEN

Contents: TypeAlias = dict[str, Any]
"""The bytes of a case's buffers by name, as arrays, with guard bands and all."""


def multiply_emulated(case: Any, backend: Any, **changes: Any) -> None:
    """Run a case in the emulator, which must report nothing; `changes`: other keywords than the case's."""
    memory = case.memory()
    case.call(memory.arrays, backend, **changes)
    memory.verify()
    found = backend.device.reports
    assert not found, str(found[0])


def multiply_on_gpu(case: Any, backend: Any, torch: Any, **changes: Any) -> Any:
    """Run a case on the GPU, on a copy of its buffers; compare, and return the bytes of what it writes."""
    return multiply(case, lambda contents: launch_on_gpu(case, contents, backend, torch, **changes))


def multiply(case: Any, launch: Callable[[Contents], Contents]) -> Any:
    """Fill a case's buffers, let `launch` change their contents, compare, and return the bytes of what it writes."""
    memory = case.memory(on_tensor_cores=True)
    for name, content in launch({name: buffer.bytes for name, buffer in memory.buffers.items()}).items():
        memory.buffers[name].bytes[:] = content
    memory.verify()
    return np.concatenate([buffer.bytes for name, buffer in memory.buffers.items() if name in WRITTEN])


def arrays_on_gpu(case: Any, addresses: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Arrays of a case by name that say they are on a GPU, their buffers at these addresses or at none that exist."""
    buffers = {name: Buffer(view) for name, view in case.views().items()}
    arrays = {
        name: GpuArray(buffer.array, pointer=None if addresses is None else addresses[name] + buffer.start)
        for name, buffer in buffers.items()
    }
    if case.in_place:
        arrays["c"] = arrays["out"]
    return arrays


def launch_on_gpu(case: Any, contents: Contents, backend: Any, torch: Any, **changes: Any) -> Contents:
    """The contents of a case's buffers after the call, which runs on a copy of them on the GPU."""
    tensors = {name: torch.from_numpy(content).cuda() for name, content in contents.items()}
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    case.call(arrays_on_gpu(case, addresses), backend, **changes)
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
