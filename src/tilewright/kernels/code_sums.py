"""Kernel `code_sums`: the sum of each column of a B of int8, which zero points of A are multiplied by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.dtypes import int8, int32
from tilewright.expression.tree import SUMS_OF_B, ZERO
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal, oversized
from tilewright.kernels.repack import LAUNCH_SECONDS, STREAMED, WARP
from tilewright.model.prediction import Power, Prediction
from tilewright.operand import contiguous_strides
from tilewright.problem import Matrix, Problem
from tilewright.rounding import ceil_div

COLUMNS = 8
"""The columns of a CTA, each of which a warp adds."""


@dataclass(frozen=True, slots=True)
class CodeSumsConfig:
    """The Config of `code_sums`, which leaves nothing to choose."""


class CodeSumsKernel(Kernel):
    """Sums the columns of b, of int8, whose elements are neighbors along k; columns begin on multiples of 16 bytes.

    In its Problem, out of int32 has one row.
    """

    name = "code_sums"
    unit = "cuda_cores"
    summary = "the sums of the columns of B, which zero points of A are multiplied by"
    config_type = CodeSumsConfig
    header = "kernels/code_sums.cuh"
    rules = (("threads == 32 * tile_n", "each warp has a column"),)

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """The reason why `code_sums` cannot count the extents of the problem."""
        return oversized(problem)

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[CodeSumsConfig]:
        """One."""
        return (CodeSumsConfig(),)

    def features(self, problem: Problem) -> None:
        """None: one translation unit is for all problems."""

    def derive(self, config: CodeSumsConfig, features: Any) -> Constants:
        """The Constants, always the same."""
        return Constants(tile_m=1, tile_n=COLUMNS, tile_k=1, threads=WARP * COLUMNS, smem_bytes=0, epilogue=None)

    def tile_count(self, constants: Constants, problem: Problem) -> int:
        """One for each 8 columns of each batch."""
        return problem.batch_count * ceil_div(problem.n, COLUMNS)

    def launch_shape(self, constants: Constants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each 8 columns of each batch, which waits for earlier grids itself."""
        tiles, dependent = self.tile_count(constants, problem), hardware.launches_overlap
        return LaunchShape(tiles, constants.threads, 1, constants.smem_bytes, dependent)

    def entry(self, config: CodeSumsConfig, problem: Problem) -> str:
        """The kernel's name."""
        return self.name

    def predict(
        self, config: CodeSumsConfig, problem: Problem, hardware: Hardware, power: Power = "settled"
    ) -> Prediction:
        """The time in which b is read, which no power state changes."""
        nbytes = problem.batch_count * problem.n * problem.k * int8.nbytes
        return Prediction(1, 1, 1.0, LAUNCH_SECONDS + nbytes / (STREAMED * hardware.memory_bandwidth), 0)


def summing_codes(problem: Problem) -> Problem:
    """The Problem of `code_sums` for a product: one row of sums for each batch, or for all that have the same b."""
    b, batch = problem.b, problem.batch
    if not any(b.batch_strides):
        b, batch = b._replace(batch_strides=()), ()
    *steps, _, _ = contiguous_strides((*batch, 1, problem.n))
    a, out = (Matrix(dtype, 0, 1, tuple(steps)) for dtype in (int8, int32))
    return Problem(1, problem.n, problem.k, a, b, out, batch)


def with_sums(problem: Problem) -> Problem:
    """The product with these sums as an operand, behind the zero points."""
    epilogue, sums = problem.epilogue, summing_codes(problem).out
    assert epilogue.expression is not None
    operands = epilogue.expression.operands
    at = operands.index(ZERO) + 1
    sums = sums._replace(batch_strides=sums.batch_strides or (0,) * len(problem.batch))
    expression = epilogue.expression._replace(operands=(*operands[:at], SUMS_OF_B, *operands[at:]))
    matrices = (*epilogue.operands[:at], sums, *epilogue.operands[at:])
    return problem._replace(epilogue=epilogue._replace(expression=expression, operands=matrices))
