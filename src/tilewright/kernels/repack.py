"""Kernel `repack`: copies of A and B whose rows begin on lines of L2, for a kernel that reads no others."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

from tilewright.dtypes import DType
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal, oversized
from tilewright.model.prediction import Power, Prediction
from tilewright.problem import Epilogue, Matrix, Problem
from tilewright.rounding import ceil_div

WARP = 32

CHUNK_BYTES = 16

TURNED_TILE = 128
"""Rows and columns of the tile of a CTA that copies a turned operand."""

LAUNCH_SECONDS, STREAMED, _TURNED = 2.0e-6, 0.84, 0.73
"""What a launch ahead of a product adds to it, and the shares of the data sheet's bandwidth, _TURNED of turned tiles.

0.5 to 540 MB added 1.6 to 135 us to products in graphs on an H200 (docs/performance-log.md), which is up to 0.7 us less
than this for small ones. Without a graph, the host launches twice and gets a workspace.
"""


@dataclass(frozen=True, slots=True)
class RepackConfig:
    """The Config of `repack`: a CTA of `threads` copies a block, `thread_rows` rows of it with each of its warps."""

    threads: int = 256
    thread_rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepackConstants(Constants):
    """The Constants of `repack`: which operands it copies, and the Part of each."""

    Input: DType
    thread_rows: int
    batched: bool
    copies_a: bool
    copies_b: bool
    a_transposed: bool
    b_transposed: bool
    a_unit_strides: bool
    b_unit_strides: bool
    a_turned: bool
    b_turned: bool


class Part(NamedTuple):
    """How one operand is copied.

    copies: whether it is. transposed: whether its columns are the rows of memory. unit_strides: whether neighbors in
    these are neighbors in memory. turned: whether these are the columns of the copy's memory, of elements of 1 byte.
    """

    copies: bool
    transposed: bool = False
    unit_strides: bool = False
    turned: bool = False

    @staticmethod
    def of(problem: Problem, name: str) -> "Part":
        """Of a or b of the Problem of a `repack`."""
        matrix: Matrix = getattr(problem, name)
        copy = _copy_of(problem, name)
        if copy is None:
            return Part(False)
        step = matrix.column_stride if matrix.is_row_major else matrix.row_stride
        return Part(True, not matrix.is_row_major, step == 1, copy.is_row_major != matrix.is_row_major)


class RepackFeatures(NamedTuple):
    """The compiled-in features of a Problem: the type, whether there are batches, and how A and B are copied."""

    Input: DType
    batched: bool
    a: Part
    b: Part


class RepackKernel(Kernel):
    """Copies operands of a product ahead of it. Its Problem has the copy of A as c, and that of B as bias.

    Elements of 1 byte may be turned: neighbors of the copy are then neighbors along the other dimension.
    """

    name = "repack"
    unit = "cuda_cores"
    summary = "copies of A and B whose rows begin on lines of L2, turned where a kernel needs it"
    config_type = RepackConfig
    header = "kernels/repack.cuh"
    rules = (
        (
            "threads >= 32 and threads <= 1024 and threads % 32 == 0",
            "a CTA has 1 to 32 warps: take 32 threads for each",
        ),
        ("thread_rows >= 1 and thread_rows <= 8", "a thread keeps up to 8 chunks in registers: take 1 to 8 rows"),
        ("copies_a or copies_b", "there is an operand to copy"),
        (
            "not (a_turned or b_turned) or 1024 % threads == 0",
            "threads share the 1024 chunks of a turned tile evenly: take a power of two",
        ),
    )

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `repack` cannot count the extents of the problem."""
        return oversized(problem)

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[RepackConfig]:
        """Those that `tools/repack_sweep.py` compares."""
        return [
            RepackConfig(*shape) for shape in ((256, 1), (128, 1), (512, 1), (1024, 1), (128, 2), (256, 2), (256, 4))
        ]

    def features(self, problem: Problem) -> RepackFeatures:
        """Those of the operands that are copied."""
        return RepackFeatures(problem.a.dtype, problem.batch_count > 1, Part.of(problem, "a"), Part.of(problem, "b"))

    def derive(self, config: RepackConfig, features: RepackFeatures) -> RepackConstants:
        """The Constants of a Config for problems with these features."""
        dtype, batched, a, b = features
        return RepackConstants(
            tile_m=1,
            tile_n=1,
            tile_k=1,
            threads=config.threads,
            smem_bytes=0,
            epilogue=None,
            Input=dtype,
            thread_rows=config.thread_rows,
            batched=batched,
            copies_a=a.copies,
            copies_b=b.copies,
            a_transposed=a.transposed,
            b_transposed=b.transposed,
            a_unit_strides=a.unit_strides,
            b_unit_strides=b.unit_strides,
            a_turned=a.turned,
            b_turned=b.turned,
        )

    def tile_count(self, constants: RepackConstants, problem: Problem) -> int:
        """The blocks of both operands."""
        count, warps = 0, constants.threads // WARP
        for name in _copied(problem):
            rows, columns = _as_stored(problem, name)
            block = warps * constants.thread_rows, WARP * CHUNK_BYTES // problem.a.dtype.nbytes
            if Part.of(problem, name).turned:
                block = TURNED_TILE, TURNED_TILE
            count += _batches(problem, name) * ceil_div(rows, block[0]) * ceil_div(columns, block[1])
        return count

    def launch_shape(self, constants: RepackConstants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each block, which waits for earlier grids itself."""
        tiles, dependent = self.tile_count(constants, problem), hardware.launches_overlap
        return LaunchShape(tiles, constants.threads, 1, constants.smem_bytes, dependent)

    def entry(self, config: RepackConfig, problem: Problem) -> str:
        """The entry point's name, with the operands that are copied."""
        copies = "".join(_copied(problem))
        return f"{self.name}_{problem.a.dtype}_{copies}_{config.threads}_{config.thread_rows}"

    def predict(
        self, config: RepackConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Prediction:
        """The time in which the operands are read and their copies written, which no power state changes."""
        seconds = LAUNCH_SECONDS
        for name in _copied(problem):
            written = _batches(problem, name) * prod(problem.extents(name)) * problem.a.dtype.nbytes
            read = problem.crossing_bytes(name, getattr(problem, name))
            share = _TURNED if Part.of(problem, name).turned else STREAMED
            seconds += (read + written) / (share * hardware.memory_bandwidth)
        return Prediction(1, 1, 1.0, seconds, 0)


def repacking(problem: Problem, copies: dict[str, Matrix]) -> Problem:
    """The Problem of `repack` that copies a, b or both of `problem` to the matrices `copies`."""
    return problem._replace(epilogue=Epilogue(copies.get("a"), copies.get("b")))


def _copy_of(problem: Problem, name: str) -> Matrix | None:
    return problem.epilogue.c if name == "a" else problem.epilogue.bias


def _copied(problem: Problem) -> Iterator[Literal["a", "b"]]:
    """The operands that are copied."""
    names: tuple[Literal["a", "b"], ...] = ("a", "b")
    return (name for name in names if _copy_of(problem, name) is not None)


def _as_stored(problem: Problem, name: Literal["a", "b"]) -> tuple[int, int]:
    """Rows and columns of an operand as they lie in memory."""
    rows, columns = problem.extents(name)
    matrix: Matrix = getattr(problem, name)
    return (rows, columns) if matrix.is_row_major else (columns, rows)


def _batches(problem: Problem, name: Literal["a", "b"]) -> int:
    """How many matrices of an operand are copied: one if all batches are the same memory."""
    copy = _copy_of(problem, name)
    return problem.batch_count if copy is not None and any(copy.batch_strides) else 1
