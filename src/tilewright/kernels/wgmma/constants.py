"""What `wgmma` compiles in: its Constants, and the features of a Problem from which they and a Config derive."""

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.dtypes import DType, fp32, int8, int32
from tilewright.kernels import tma
from tilewright.kernels.epilogue import EpilogueConstants, has_pairs
from tilewright.kernels.kernel import Constants
from tilewright.kernels.wgmma.config import (
    SPAN_BYTES,
    WARPGROUP,
    WgmmaConfig,
    promoted_registers,
    ring_of,
)
from tilewright.kernels.wgmma.operands import Stores, operands_of, promotes
from tilewright.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaConstants(Constants):
    """The Constants of `wgmma`: layouts of A and B in shared memory, the ring and staging in bytes, and out's stores.

    The other names are those of WgmmaConfig. `sharers` consumers share a tile, and each takes `row_blocks` blocks of 64
    rows, for which each of its threads has `accumulators` registers, and `promoted` more for the products of a k-block
    and scales of blocks, where `promotes`: sums in tensor cores are then added in fp32 by CUDA cores. Sums are of type
    `Sum`.
    """

    stages: int
    overlap: bool
    wait_depth: int
    Input: DType
    InputB: DType
    input_bytes: int
    Sum: DType
    n_step: int
    promotes: bool
    a_mn_major: bool
    b_mn_major: bool
    tma_epilogue: bool
    direct_epilogue: bool
    out_by_tma: bool
    output_bytes: int
    vector_stores: bool
    chunk_stores: bool
    consumers: int
    sharers: int
    ping_pong: bool
    row_blocks: int
    accumulators: int
    promoted: int
    k_spans: int
    out_columns: int
    out_by_columns: bool
    moves_registers: bool
    producer_registers: int
    consumer_registers: int
    a_bytes: int
    b_bytes: int
    stage_bytes: int
    scale_stages: int
    scale_bytes: int
    store_columns: int
    store_swizzled: bool
    store_buffers: int
    store_bytes: int
    staging_bytes: int
    sum_bytes: int
    out_pairs: bool
    c_pairs: bool
    bias_pairs: bool
    bias_alike: bool


class WgmmaFeatures(NamedTuple):
    """The compiled-in features of a Problem: the storage of A and B, the ways to write out, and the epilogue."""

    layout: str
    Input: DType
    InputB: DType
    promotes: bool
    a_mn_major: bool
    b_mn_major: bool
    out_by_tma: bool
    stores: Stores
    c_pairs: bool
    bias_pairs: bool
    bias_alike: bool
    epilogue: EpilogueConstants

    @classmethod
    def of(cls, problem: Problem) -> "WgmmaFeatures":
        """Those of a Problem."""
        operands, n, bias = operands_of(problem), problem.n, problem.epilogue.bias
        return cls(
            problem.layout,
            problem.a.dtype,
            problem.b.dtype,
            promotes(problem),
            *operands.mn_major,
            out_by_tma=isinstance(operands.out, tma.TmaTensor),
            stores=Stores.of(problem.out, problem.m, problem.columns),
            c_pairs=has_pairs(problem.epilogue.c, n),
            bias_pairs=has_pairs(bias, n),
            bias_alike=bias is not None and bias.row_stride == 0,
            epilogue=EpilogueConstants.of(problem, halves=True),
        )


def constants_of(config: WgmmaConfig, features: WgmmaFeatures) -> WgmmaConstants:
    """The Config's fields, the layouts of A and B in memory, and the sizes that follow."""
    nbytes = features.Input.nbytes
    columns = features.epilogue.scaled_columns
    row_blocks = config.row_blocks
    accumulators = config.thread_sums
    tma_epilogue = config.epilogue == "tma"
    expression = features.epilogue.expression
    gated = expression is not None and expression.expression.gate is not None
    ring = ring_of(config, features.a_mn_major, features.b_mn_major, nbytes, columns, gated)
    moves_registers = config.consumers > 1  # a single consumer has all that it can use
    promotes = features.promotes
    promoted = promoted_registers(row_blocks, config.tile_n, columns, config.wait_depth) if promotes else 0
    if columns:  # whose addresses take some
        producer_registers, consumer_registers = (56, 152) if config.consumers == 3 else (56, 224)
    elif config.consumers == 3:
        producer_registers, consumer_registers = 32, 160
    else:
        producer_registers, consumer_registers = (24, 240) if accumulators + promoted > 200 else (40, 232)
    out_columns = config.tile_n // max(config.split_k, 1) // (2 if gated else 1)
    in_vectors = out_columns * features.epilogue.Output.nbytes % 16 == 0  # so begin all tiles
    return WgmmaConstants(
        tile_m=config.tile_m,
        tile_n=config.tile_n,
        tile_k=config.tile_k,
        threads=WARPGROUP * config.consumers + (WARPGROUP if moves_registers else 96 if columns else 32),
        smem_bytes=ring.smem_bytes,
        cluster_m=config.cluster_m,
        cluster_n=config.cluster_n,
        split_k=config.split_k,
        epilogue=features.epilogue,
        stages=config.stages,
        overlap=config.overlap,
        wait_depth=config.wait_depth,
        Input=features.Input,
        InputB=features.InputB,
        input_bytes=nbytes,
        Sum=int32 if features.Input is int8 else fp32,
        n_step=16 if features.Input is int8 else 8,
        promotes=promotes,
        a_mn_major=features.a_mn_major,
        b_mn_major=features.b_mn_major,
        tma_epilogue=tma_epilogue,
        direct_epilogue=config.epilogue == "direct",
        out_by_tma=features.out_by_tma,
        output_bytes=features.epilogue.Output.nbytes,
        vector_stores=features.stores.vectors and in_vectors and not tma_epilogue,
        chunk_stores=features.stores.chunks and not tma_epilogue,
        consumers=config.consumers,
        sharers=config.sharers,
        ping_pong=config.ping_pong,
        row_blocks=row_blocks,
        accumulators=accumulators,
        promoted=promoted,
        k_spans=config.tile_k * nbytes // SPAN_BYTES,
        out_columns=out_columns,
        out_by_columns=features.stores.by_columns,
        moves_registers=moves_registers,
        producer_registers=producer_registers,
        consumer_registers=consumer_registers,
        a_bytes=ring.a_bytes,
        b_bytes=ring.b_bytes,
        stage_bytes=ring.a_bytes + ring.b_bytes,
        scale_stages=ring.scale_stages,
        scale_bytes=ring.scale_bytes,
        store_columns=ring.store_columns,
        store_swizzled=tma.swizzle_bytes(ring.store_columns * 2) > 0,
        store_buffers=ring.store_buffers,
        store_bytes=ring.store_bytes,
        staging_bytes=ring.staging_bytes,
        sum_bytes=ring.sum_bytes,
        out_pairs=features.stores.pairs,
        c_pairs=features.c_pairs,
        bias_pairs=features.bias_pairs,
        bias_alike=features.bias_alike,
    )
