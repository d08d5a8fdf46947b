"""The common base of the ladder's kernels: fixed sizes, one layout, one tile of out for each CTA."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tilewright.dtypes import FP8, DType
from tilewright.hardware import Hardware
from tilewright.jit.source import Constant
from tilewright.kernels.config_fields import values_of
from tilewright.kernels.epilogue import EpilogueConstants
from tilewright.kernels.kernel import Constants, Kernel
from tilewright.kernels.parameters import LaunchShape
from tilewright.kernels.refusal import Refusal, oversized
from tilewright.kernels.tiled import copy_bytes
from tilewright.model.tiling.levels import Block
from tilewright.problem import Matrix, Problem
from tilewright.rounding import ceil_div


@dataclass(frozen=True, slots=True)
class LadderConfig:
    """The Config of a kernel that leaves nothing to choose: its sizes are part of its idea."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderConstants(Constants):
    """The Constants of a rung, with those that its idea adds, by name."""

    Input: DType
    own: tuple[tuple[str, bool | int], ...]

    def by_name(self) -> dict[str, Constant]:
        """The fields by name, including those that the rung adds."""
        found = super(LadderConstants, self).by_name()
        del found["own"]
        return found | dict(self.own)


class LadderFeatures(NamedTuple):
    """The compiled-in features of a Problem: the element type of A and B, and the epilogue."""

    Input: DType
    epilogue: EpilogueConstants


class LadderKernel(Kernel):
    """A kernel that shows one idea.

    It takes one layout of packed or padded rows, `layout`, and element types `inputs`; out is row-major. A CTA of
    `threads` threads makes one (`tile_m`, `tile_n`) tile of out, `tile_k` of k at a time; the `cluster_m` CTAs of a
    cluster are stacked along m. With `whole_tiles` the extents are multiples of the cluster's tile and rows start on 16
    bytes; otherwise the kernel guards the edges.
    """

    config_type: ClassVar[type] = LadderConfig
    rules: ClassVar[tuple[tuple[str, str], ...]] = ()
    layout: ClassVar[str] = "nn"
    inputs: ClassVar[tuple[DType, ...]]
    needs: ClassVar[str] = "sm_80"  # the least architecture, or, where it ends in a letter, the only one
    shows: ClassVar[str | None] = None  # an older architecture whose tiles it cuts, though it is not compiled for it
    tile_m: ClassVar[int]
    tile_n: ClassVar[int]
    tile_k: ClassVar[int] = 1
    cluster_m: ClassVar[int] = 1
    threads: ClassVar[int]
    smem_bytes: ClassVar[int] = 0  # dynamic; static arrays are the compiler's
    whole_tiles: ClassVar[bool] = True
    warp: ClassVar[Block | None] = None  # what a warp, and what a thread, makes of out, if Constants do not say it
    thread: ClassVar[Block | None] = None

    def refuses(self, problem: Problem, hardware: Hardware) -> Refusal | None:
        """Why this kernel does not take the problem: GPU, dtypes, batches, layout, or extents that cut a tile."""
        if not self.runs_on(hardware):
            return Refusal(f"{self.name} needs {self.needs}, and {hardware.its_arch}")
        a, b = problem.a.dtype, problem.b.dtype
        if a != b or a not in self.inputs:
            wanted = " or ".join(f"{kind} by {kind}" for kind in self.inputs)
            return Refusal(f"{self.name} multiplies {wanted}, and a is {a}, b is {b}")
        if problem.out.dtype in FP8:
            return Refusal(f"{self.name} rounds to 16 bits at least, and out is {problem.out.dtype}")
        if problem.epilogue.expression is not None:
            return Refusal(
                f"{self.name} shows one idea, with c, bias and activation at most, and epilogue is an expression: take "
                f"a production kernel"
            )
        if problem.batch_count != 1:
            return Refusal(
                f"{self.name} multiplies two matrices, and the batch is {problem.batch}: take a production kernel"
            )
        if refusal := oversized(problem):
            return refusal
        reason = self._layout_refused(problem) or self._extents_refused(problem)
        return Refusal(reason) if reason else None

    def warp_block(self, constants: LadderConstants) -> Block | None:
        """The rung's own block, or the one that is known of its unit."""
        return self.warp or super().warp_block(constants)

    def thread_block(self, constants: LadderConstants) -> Block | None:
        """The rung's own block, or the one that is known of its unit."""
        return self.thread or super().thread_block(constants)

    def runs_on(self, hardware: Hardware) -> bool:
        """Whether the GPU has the instructions."""
        if self.needs[-1].isalpha():
            return hardware.arch == self.needs
        return hardware.capability >= int(self.needs.removeprefix("sm_"))

    def _layout_refused(self, problem: Problem) -> str | None:
        stored = {"a": (problem.a, self.layout[0] == "t"), "b": (problem.b, self.layout[1] == "t")}
        extents = {"a": (problem.m, problem.k), "b": (problem.k, problem.n)}
        for operand, (matrix, transposed) in stored.items():
            rows, columns = extents[operand]
            if not rows * columns:
                continue  # nothing is read, so strides mean nothing
            inner, extent = (matrix.row_stride, rows) if transposed else (matrix.column_stride, columns)
            if inner != 1 and extent > 1:
                dimension = "row" if transposed else "column"
                return (
                    f"{self.name} takes layout {self.layout}, for which {operand} has {dimension} stride 1, and it is "
                    f"{inner}: store {operand} that way, or take a production kernel"
                )
            if self.whole_tiles and copy_bytes(matrix) < 16:
                return f"{self.name} reads 16 bytes at a time, and rows of {operand} do not all start on 16: pad them"
        return None if is_row_major(problem.out, problem.n) else f"{self.name} writes row-major, and out is not"

    def _extents_refused(self, problem: Problem) -> str | None:
        if not self.whole_tiles:
            return None
        for name, extent, tile in (
            ("m", problem.m, self.tile_m * self.cluster_m),
            ("n", problem.n, self.tile_n),
            ("k", problem.k, self.tile_k),
        ):
            if extent % tile or not extent:
                return (
                    f"{self.name} makes whole tiles, for which {name} is a positive multiple of {tile}, and it is "
                    f"{extent}: pad it, or take a production kernel"
                )
        return None

    def configs(self, problem: Problem, hardware: Hardware) -> Sequence[Any]:
        """The one Config, or one for each value of a free choice, the usual first."""
        return (self.config_type(),)

    def features(self, problem: Problem) -> LadderFeatures:
        """The element type and the epilogue; the layout is the kernel's own."""
        epilogue = EpilogueConstants.of(problem)
        return LadderFeatures(problem.a.dtype, epilogue if self.whole_tiles else epilogue._replace(store_elements=1))

    def own_constants(self, config: Any, dtype: DType) -> dict[str, bool | int]:
        """The constants that the rung's idea adds: those of its Config, and what a subclass adds."""
        return values_of(config)

    def derive(self, config: Any, features: LadderFeatures) -> LadderConstants:
        """The Constants of a Config for problems with these features."""
        return LadderConstants(
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            threads=self.threads,
            smem_bytes=self.smem_bytes,
            cluster_m=self.cluster_m,
            epilogue=features.epilogue,
            Input=features.Input,
            own=tuple(self.own_constants(config, features.Input).items()),
        )

    def entry(self, config: Any, problem: Problem) -> str:
        """The entry point's name, which profilers show."""
        return "_".join([self.name, problem.a.dtype.name, *map(str, values_of(config).values())])

    def tile_count(self, constants: LadderConstants, problem: Problem) -> int:
        """Tiles that cover out."""
        return ceil_div(problem.m, self.tile_m) * ceil_div(problem.n, self.tile_n)

    def launch_shape(self, constants: LadderConstants, problem: Problem, hardware: Hardware) -> LaunchShape:
        """One CTA for each tile of out."""
        return LaunchShape(
            self.tile_count(constants, problem), constants.threads, constants.cluster, constants.smem_bytes
        )


def is_row_major(matrix: Matrix, columns: int) -> bool:
    """Whether neighbors in a row are neighbors in memory."""
    return matrix.column_stride == 1 or columns <= 1
