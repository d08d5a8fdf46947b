"""The ladder on the CUDA cores: fp32 with alpha and beta, from one thread an element to warp tiles."""

from tilewright.dtypes import fp32
from tilewright.kernels.ladder.kernel import LadderKernel
from tilewright.kernels.ladder.rung import GORDIC, Published, Rung


class CudaCoreKernel(LadderKernel):
    """A kernel of fused multiply-adds in fp32; A and B row-major."""

    execution_unit = "cuda_cores"
    inputs = (fp32,)


class Uncoalesced(CudaCoreKernel):
    """Threads side by side take rows, and walk A and out in strides."""

    name = "uncoalesced"
    summary = "one thread for each element, neighbours in a column: every access is a sector of its own"
    header = "ladder/uncoalesced.cuh"
    tile_m = tile_n = 32
    threads = 1024
    whole_tiles = False


RUNGS = (
    Rung(
        Uncoalesced(),
        "CUDA cores",
        "Uncoalesced",
        "One thread for each element of out, and threads side by side take elements below each other.",
        (Published(0.243, (4096, 4096, 4096), "H100 PCIe", GORDIC),),
    ),
)
