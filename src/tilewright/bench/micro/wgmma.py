"""The clocks of every wgmma: a long chain of one shape, on each SM, with A from SMEM or from registers.

The model beside it is `tilewright.model.wgmma_time`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilewright.bench.micro.clocks import Clocks, clocks_between, wrong_result
from tilewright.bench.micro.runners import Runner
from tilewright.errors import ArgumentValueError
from tilewright.hardware import WGMMA_N
from tilewright.jit.compile import CompiledKernel
from tilewright.jit.source import Major, TranslationUnit, translation_unit, wgmma_wrapper
from tilewright.kernels.parameters import LaunchShape
from tilewright.model.memory.swizzle import swizzle_of
from tilewright.model.wgmma_time import ROWS, Source, wgmma_time
from tilewright.rounding import round_up

ROW_BYTES = 128
"""Of a tile along k: four wgmmas."""
ROUND = 16
"""Wgmmas of a round, as cuda/micro/wgmma_chain.cuh has them."""
ROUNDS = 512
"""Rounds of a measurement, so that its begin and end hardly count."""
ALONE_BYTES = 120 * 1024
"""Shared memory that a CTA asks for, so that an SM holds no other."""
EXACT = {"bf16": 1 << 24, "e4m3": 1 << 13}
"""Integers up to which Hopper adds products exactly: in fp32, or of fp8 with 13 bits behind the point."""
_NUMPY: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}


class Kind(NamedTuple):
    """A wgmma but for its n: the type of A and B, where A is, and how both are stored."""

    dtype: str
    source: Source
    a_major: Major
    b_major: Major

    def __str__(self) -> str:
        a = "registers" if self.source == "registers" else self.a_major
        return f"{self.dtype}:{a}:{self.b_major}"


KINDS = (
    *(Kind("bf16", "smem", a, b) for a in ("K", "MN") for b in ("K", "MN")),
    *(Kind("bf16", "registers", "K", b) for b in ("K", "MN")),
    *(Kind("e4m3", source, "K", "K") for source in ("smem", "registers")),
)
"""All that are measured. fp8 is stored along k only, and registers hold rows of A."""


@dataclass(frozen=True, slots=True)
class Case:
    """A wgmma of n columns, issued by so many warpgroups of an SM."""

    kind: Kind
    n: int
    warpgroups: int = 1

    def __post_init__(self) -> None:
        if self.n not in WGMMA_N:
            raise ArgumentValueError(f"n={self.n} is not an extent of wgmma: use 8, 16, 24 and so on up to 256")
        if self.warpgroups not in (1, 2):
            raise ArgumentValueError(f"warpgroups={self.warpgroups} do not have the registers for sums: use 1 or 2")

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return 128 * self.warpgroups

    @property
    def smem_bytes(self) -> int:
        """A's tile and B's; panels along n are whole."""
        columns = round_up(self.n, ROWS) if self.kind.b_major == "MN" else self.n
        return (ROWS + columns) * ROW_BYTES

    def unit(self) -> TranslationUnit:
        """The kernel."""
        kind = self.kind
        in_registers = kind.source == "registers"
        return translation_unit(
            entry=f"wgmma_chain_{str(kind).replace(':', '_')}_{self.n}_{self.warpgroups}",
            kernel_header="micro/wgmma_chain.cuh",
            kernel_template="wgmma_chain_kernel",
            constants={
                "n": self.n,
                "threads": self.threads,
                "smem_bytes": self.smem_bytes,
                "a_in_registers": in_registers,
                "a_mn_major": kind.a_major == "MN",
                "b_mn_major": kind.b_major == "MN",
            },
            parameters=[("const uint8_t*", "image"), ("float*", "out"), ("int64_t*", "spans"), ("int", "rounds")],
            launch_bounds=(self.threads, 1),
            preamble=wgmma_wrapper(self.n, kind.dtype, kind.a_major, kind.b_major, a_in_registers=in_registers),
        )

    def operands(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """A and the transposed B as rows along k: small integers, whose sums of many rounds are exact in fp32."""
        dtype = np.dtype(_NUMPY[self.kind.dtype])
        random = np.random.default_rng(self.n)
        length = ROW_BYTES // dtype.itemsize
        a, b = (random.integers(-1, 2, (rows, length)).astype(dtype) for rows in (ROWS, self.n))
        return a, b


def run(case: Case, kernel: CompiledKernel, runner: Runner, rounds: int) -> NDArray[np.float64]:
    """The clocks of one wgmma on each SM; a TilewrightError if the sums are not what A and B give.

    Sums of fp8 are compared after a few rounds only, since tensor cores cut off those of many. The clocks of the
    emulator are no times.
    """
    a, b = case.operands()
    swizzled_a = _image(a, case.kind.a_major) if case.kind.source == "smem" else a.view(np.uint8).ravel()
    image = np.concatenate([swizzled_a, _image(b, case.kind.b_major)])
    on_gpu = runner.name == "gpu"
    ctas = runner.hardware.sm_count if on_gpu else 1
    out = np.full((case.warpgroups, ROWS, case.n), np.nan, np.float32)
    spans = np.zeros((ctas, case.warpgroups, 2), np.int64)
    shape = LaunchShape(ctas, case.threads, 1, ALONE_BYTES if on_gpu else case.smem_bytes)
    runner.run(kernel, shape, [image], [out, spans], [rounds])
    expected = a.astype(np.float64) @ b.astype(np.float64).T * (rounds * ROUND // 4)
    exact = np.abs(expected).max() <= EXACT[case.kind.dtype]
    if not (out == expected).all() if exact else np.isnan(out).any():
        raise wrong_result(kernel.name, runner.name)
    return clocks_between(spans) / (rounds * ROUND * case.warpgroups)


def _image(rows: NDArray[Any], major: Major) -> NDArray[np.uint8]:
    """A tile as its descriptor finds it in SMEM, swizzled over 128 bytes: rows along k, or panels of 64 of m or n."""
    if major == "MN":
        padded = np.zeros((round_up(len(rows), ROWS), rows.shape[1]), rows.dtype)
        padded[: len(rows)] = rows
        rows = np.ascontiguousarray(padded.reshape(-1, ROWS, rows.shape[1]).swapaxes(1, 2))
    plain = np.ascontiguousarray(rows).view(np.uint8).ravel()
    image = np.empty_like(plain)
    image[swizzle_of(ROW_BYTES)(np.arange(len(plain)))] = plain
    return image


def cases(kinds: Iterable[Kind], ns: Iterable[int], warpgroups: Sequence[int]) -> list[Case]:
    """All cases of these kinds, extents and numbers of warpgroups."""
    return [Case(kind, n, count) for kind in kinds for n in ns for count in warpgroups]


def measure(wanted: Sequence[Case], runner: Runner, rounds: int = ROUNDS) -> Iterator[Clocks]:
    """The clocks of each case, in order; kernels are compiled side by side, ahead of their turns.

    Raises an ArgumentValueError on a GPU without wgmma.
    """
    from tilewright.jit.pool import CompilerPool

    models = [wgmma_time(runner.hardware, case.n, case.kind.source).clocks for case in wanted]
    with CompilerPool() as pool:
        futures = [pool.submit(case.unit(), runner.hardware.arch) for case in wanted]
        for case, future, model in zip(wanted, futures, models, strict=True):
            kernel = future.result()
            run(case, kernel, runner, rounds=1)  # whose sums are exact, and which brings the kernel to the SMs
            found = run(case, kernel, runner, rounds)
            yield Clocks.of({"kind": str(case.kind), "n": case.n, "warpgroups": case.warpgroups}, found, model)
