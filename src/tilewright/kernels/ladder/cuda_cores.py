"""The ladder on the CUDA cores: fp32 with alpha and beta, from one thread an element to warp tiles."""

from tilewright.dtypes import fp32
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.ladder.rung import GEMM_CHAPTER, GORDIC, SHANKHDHAR, Published, Rung
from tilewright.kernels.simt import SimtKernel
from tilewright.model.tiling.levels import Block


class CudaCoreKernel(LadderKernel):
    """A kernel of fused multiply-adds in fp32; A and B row-major."""

    unit = "cuda_cores"
    inputs = (fp32,)


class Uncoalesced(CudaCoreKernel):
    """Neighboring threads take neighboring rows, so they access A and out in strides."""

    name = "uncoalesced"
    summary = "one thread for each element, neighbors in a column: every access is a sector of its own"
    header = "ladder/uncoalesced.cuh"
    tile_m = tile_n = 32
    threads = 1024
    whole_tiles = False


class Coalesced(CudaCoreKernel):
    """Neighboring threads take neighboring columns."""

    name = "coalesced"
    summary = "one thread for each element, neighbors in a row: a warp's accesses share their sectors"
    header = "ladder/coalesced.cuh"
    tile_m = tile_n = 32
    threads = 1024
    whole_tiles = False


class SmemTiles(CudaCoreKernel):
    """Tiles of A and B that a CTA loads once for all of its threads."""

    name = "smem_tiles"
    summary = "32x32 tiles of A and B in shared memory, one element of out for each thread"
    header = "ladder/smem_tiles.cuh"
    tile_m = tile_n = tile_k = 32
    threads = 1024
    whole_tiles = False
    warp, thread = Block(1, 32), Block(1, 1)


class LargeTileKernel(CudaCoreKernel):
    """A kernel of 128x128 tiles, 16 of k at a time."""

    tile_m = tile_n = 128
    tile_k = 16
    threads = 256
    warp, thread = Block(16, 128), Block(8, 8)


class RegisterTiles(LargeTileKernel):
    """8x8 elements of out for each thread, in registers."""

    name = "register_tiles"
    summary = "128x128 tiles; each thread keeps 8x8 of the elements in registers"
    header = "ladder/register_tiles.cuh"


class DoubleBuffered(LargeTileKernel):
    """The next tiles are loaded while the present ones are multiplied."""

    name = "double_buffered"
    summary = "register tiles, with the next tiles on their way through registers to a second buffer"
    header = "ladder/double_buffered.cuh"


class AsyncCopies(LargeTileKernel):
    """The next tiles arrive in SMEM past the registers."""

    name = "async_copies"
    summary = "register tiles, with the next tiles on their way to a second buffer by cp.async"
    header = "ladder/async_copies.cuh"


class WarpTiles(LargeTileKernel):
    """Blocks of 64x64 for each warp, whose lanes read SMEM in float4."""

    name = "warp_tiles"
    summary = "64x64 elements of out for each warp, 8x16 for each thread; A transposed in shared memory"
    header = "ladder/warp_tiles.cuh"
    threads = 128
    warp, thread = Block(64, 64), Block(8, 16)


RUNGS = (
    Rung(
        Uncoalesced(),
        "CUDA cores",
        "Uncoalesced",
        "Each thread computes one element of out, and neighboring threads take elements of one column.",
        (Published(0.243, (4096, 4096, 4096), "H100 PCIe", GORDIC),),
    ),
    Rung(
        Coalesced(),
        "CUDA cores",
        "Coalesced",
        "Neighboring threads take elements of one row, so a warp uses every byte of the sectors it reads.",
        (Published(3.171, (4096, 4096, 4096), "H100 PCIe", GORDIC),),
    ),
    Rung(
        SmemTiles(),
        "CUDA cores",
        "Tiles in shared memory",
        "A CTA loads tiles of A and B once, and its threads read them from shared memory.",
        (Published(1.8, (1024, 1024, 1024), "A100", GEMM_CHAPTER),),
    ),
    Rung(
        RegisterTiles(),
        "CUDA cores",
        "Tiles in registers",
        "Each thread computes 8x8 elements of out, so each value from shared memory is used eight times.",
        (Published(7.0, (1024, 1024, 1024), "A100", GEMM_CHAPTER, upto=9.0),),
    ),
    Rung(
        DoubleBuffered(),
        "CUDA cores",
        "Double-buffered",
        "While the current tiles are multiplied, the next ones are loaded through registers into a second buffer.",
    ),
    Rung(
        AsyncCopies(),
        "CUDA cores",
        "Asynchronous copies",
        "cp.async copies the next tiles into shared memory without using registers.",
    ),
    Rung(
        WarpTiles(),
        "CUDA cores",
        "Warp tiles",
        "Each warp computes a 64x64 block and each thread 8x16 of it, with float4 reads that have no bank conflicts.",
        (Published(32.4, (8192, 8192, 8192), "H100 SXM, bf16 inputs", SHANKHDHAR),),
    ),
    Rung(
        SimtKernel(),
        "CUDA cores",
        "simt, the production kernel",
        "The production kernel takes every shape and stride, and reads shared memory one step ahead of the products.",
    ),
)
