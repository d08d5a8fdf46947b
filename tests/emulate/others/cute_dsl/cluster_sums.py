"""Sums of the columns of a matrix, by clusters: each CTA sums its rows and sends the sums to the first CTA."""

import cutlass
import cutlass.cute as cute
from cutlass.memory import SmemAllocator

THREADS = 128
WAIT = """{
.reg .pred done;
AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [{$r0}], 0;
@!done bra AGAIN;
}"""


@cute.kernel
def add_up(x: cute.Tensor, out: cute.Tensor, ctas: cutlass.Constexpr, faults: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    _, group, _ = cute.arch.block_idx()
    column = group * THREADS + thread
    smem = SmemAllocator()
    arrived = smem.allocate_array(cutlass.Int64, 1)
    received = smem.allocate_tensor(cutlass.Int32, cute.make_layout((ctas, THREADS), stride=(THREADS, 1)))
    if thread == 0:
        cute.arch.mbarrier_init(arrived, 1)
        cute.arch.mbarrier_init_fence()
        if rank == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(arrived, (ctas - 1) * THREADS * 4)
    if cutlass.const_expr("NO_BARRIER" not in faults):
        cute.arch.cluster_arrive_relaxed()
        cute.arch.cluster_wait()

    total = cutlass.Int32(0)
    for row in range(rank, cute.size(x, mode=[0]), ctas):
        total += x[row, column]
    if rank > 0:
        place = received.iterator + (rank * THREADS + thread)
        cute.arch.store_async_dsmem(place, total, arrived, cutlass.Int32(0))  # reported: NO_BARRIER
    else:
        if cutlass.const_expr("CTA_SCOPE" in faults):
            cute.arch.mbarrier_wait(arrived, 0)  # acquires in the scope of the CTA, and others have written
        else:
            cute.arch.inline_ptx(WAIT, read_only_args=[arrived.toint()])
        for peer in cutlass.range_constexpr(1, ctas):
            total += received[peer, thread]  # reported: CTA_SCOPE
        out[column] = total


@cute.jit
def cluster_sums(x: cute.Tensor, out: cute.Tensor, CTAS: cutlass.Constexpr, NO_BARRIER: cutlass.Constexpr = False,
                 CTA_SCOPE: cutlass.Constexpr = False):  # fmt: skip
    named = {"NO_BARRIER": NO_BARRIER, "CTA_SCOPE": CTA_SCOPE}
    add_up(x, out, CTAS, tuple(name for name, wanted in named.items() if wanted)).launch(
        grid=[CTAS, cute.size(out) // THREADS, 1], block=[THREADS, 1, 1], cluster=[CTAS, 1, 1]
    )
