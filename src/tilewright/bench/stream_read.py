"""The streaming read: how long memory takes to give the weights of a product, whatever is done with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.hardware import Hardware
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal
from tilewright.problem import Problem


@dataclass(frozen=True, slots=True)
class StreamReadConfig:
    """How memory is read: `ctas` CTAs of `threads` threads on each SM, with `in_flight` loads of 16 bytes a thread."""

    threads: int = 512
    ctas: int = 2
    in_flight: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReadConstants(Constants):
    """The Constants of the streaming read. elements: those of a load."""

    in_flight: int
    ctas: int
    elements: int


class StreamRead(Kernel):
    """A kernel in form alone: it reads B of a Problem and makes no product, so it is in no registry."""

    name = "stream_read"
    unit = "cuda_cores"
    summary = "reads packed weights once, and computes nothing"
    config_type = StreamReadConfig
    header = "micro/stream_read.cuh"
    rules = (("threads * ctas <= 2048", "an SM has room for 2048 threads: take fewer CTAs or threads"),)

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why B is not packed as the read wants it."""
        nbytes = problem.n * problem.k * problem.b.dtype.nbytes
        strided = 1 not in (problem.b.row_stride, problem.b.column_stride)
        if problem.batch or nbytes % 16 or problem.b.alignment < 16 or strided:
            return Refusal(f"stream_read reads one packed matrix of whole 16 bytes, and the problem is {problem}")
        return None

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[StreamReadConfig]:
        """Those of which one was the quickest on an H200, for 17 to 470 MB."""
        return [StreamReadConfig(*each) for each in ((512, 2, 4), (512, 4, 4), (256, 8, 4), (512, 2, 8), (256, 8, 8))]

    def features(self, problem: Problem) -> int:
        """The elements of a load."""
        return 16 // problem.b.dtype.nbytes

    def derive(self, config: StreamReadConfig, features: int) -> StreamReadConstants:
        """The Constants of a Config."""
        return StreamReadConstants(
            tile_m=1, tile_n=1, tile_k=1, smem_bytes=0, epilogue=None, elements=features, **values_of(config)
        )

    def tile_count(self, constants: Any, problem: Problem) -> int:
        """The grid does not grow with the problem."""
        return 1

    def launch_shape(self, constants: StreamReadConstants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """As many CTAs as the GPU holds at once; the read waits for the grid ahead of it as any kernel does."""
        return LaunchShape(constants.ctas * hardware.sm_count, constants.threads, 1, 0)
