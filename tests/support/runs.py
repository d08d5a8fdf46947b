"""Cases run through the public API and compared: in the emulator, or on a GPU."""

from typing import Any

import tilewright as tw
from support.cases import Case, Memory
from support.doubles import GpuArray


def multiply_emulated(case: Case, backend: Any, **changes: Any) -> None:
    """Run a case in the emulator, which must report nothing; `changes`: other keywords than the case's."""
    memory = Memory(case)
    a, b, c = (memory.arrays.get(name) for name in "abc")
    result = tw.matmul(a, b, c, backend=backend, **(memory.keywords(memory.arrays) | changes))
    assert result is memory.arrays["out"]
    memory.verify()
    found = backend.device.reports
    assert not found, str(found[0])


def multiply_on_gpu(case: Case, backend: Any, torch: Any, **changes: Any) -> Any:
    """Run a case on the GPU, on a copy of its buffers with guard bands and all; compare, and return out's bytes.

    changes: other keywords than the case's.
    """
    memory = Memory(case)
    tensors = {name: torch.from_numpy(buffer.bytes).cuda() for name, buffer in memory.buffers.items()}
    arrays = {
        name: GpuArray(buffer.array, pointer=tensors[name].data_ptr() + buffer.start)
        for name, buffer in memory.buffers.items()
    }
    if case.in_place:
        arrays["c"] = arrays["out"]
    a, b, c = (arrays.get(name) for name in "abc")
    tw.matmul(a, b, c, backend=backend, **(memory.keywords(arrays) | changes))
    for name, tensor in tensors.items():
        memory.buffers[name].bytes[:] = tensor.cpu().numpy()
    memory.verify()
    return memory.buffers["out"].bytes
