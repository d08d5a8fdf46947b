"""A Quantizer: one Quantization on a backend, compiled and loaded."""

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.protocol import Backend
from tilewright.errors import UnavailableError
from tilewright.jit.cache import build, in_memory
from tilewright.kernels.quantize import Quantization, QuantizeConfig, launches


class Quantizer:
    """A Quantization on a backend, compiled and loaded: called with addresses like those that it was made for."""

    def __init__(
        self,
        question: Quantization,
        exchanged: bool,
        backend: Backend,
        is_capturing: Callable[[], bool],
        config: QuantizeConfig | None = None,
    ):
        """exchanged: whether the question is that of x.T. is_capturing: whether nothing may be compiled or loaded now.

        config: that of the launch that writes codes, by default the usual one.

        Raises an UnavailableError if something is missing then, and what `launches` and `build` raise.
        """
        self._nbytes, self._backend = question.maxima_bytes, backend
        self._order = (0, 1, 2, 3, 4)
        if exchanged:
            self._order = (0, 3, 4, 1, 2) if question.by_line else (0, 3, 2, 1, 4)
        taken = launches(question, backend.hardware, config)
        if backend.name == "emulator":
            from tilewright.backends.emulation_limit import refuse_long_quantization

            refuse_long_quantization(question.batch_count * question.rows * question.columns, len(taken))
        self._executables = []
        for launch in taken:
            compiled = in_memory(launch.source, backend.arch)
            if compiled is None or not backend.has_loaded(compiled):
                if is_capturing():
                    raise UnavailableError(
                        "the current stream is being captured into a CUDA graph, and the kernel of this quantization "
                        "would have to be compiled and loaded: call tilewright.quantize once before the capture"
                    )
                compiled = build(launch.source, backend.arch)
            self._executables.append(backend.prepare(compiled, launch.shape, launch.arguments))
        if self._nbytes:
            backend.prepare_workspace()

    def __call__(self, pointers: Sequence[int], stream: int) -> Any:
        """Launch on the addresses of x and of what QUANTIZED names; returns the emulator's counters, as launches do.

        Where the scale is given, its address takes the place of the scale that would be written.
        """
        ordered = [pointers[position] for position in self._order]
        if not self._nbytes:
            return self._executables[0]([*ordered, 0], 1.0, 0.0, stream)
        with self._backend.workspace(self._nbytes, stream) as maxima:
            self._backend.fill(maxima, self._nbytes, 0, stream)
            counters = [executable([*ordered, maxima], 1.0, 0.0, stream) for executable in self._executables]
        for other in counters[1:]:
            if other is not None:
                counters[0].merge(other)
        return counters[0]
