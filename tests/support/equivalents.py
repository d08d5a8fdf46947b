"""Mutants that break no rule: why, in a sentence, from the PTX manual.

An entry covers the mutants of one kernel and kind that stand on a source line. Those that the emulator does not report
are left out of the mutation score.
"""

from dataclasses import dataclass
from typing import Any

MOST_SHARE = 0.1
"""Of all mutants, how many may be argued away."""


@dataclass(frozen=True)
class Equivalent:
    """`source` is the text of the line and, as far as they matter, of those that it was inlined into.

    first_copy: the least `copy` of the mutants that it is about. subjects: the only ones that it is about; all if there
    are none.
    """

    kernel: str
    kind: str
    source: tuple[str, ...]
    argument: str
    first_copy: int = 1
    subjects: tuple[str, ...] = ()

    def covers(self, subject, mutant):
        """Whether the argument is about this mutant of this subject."""
        return (
            (self.kernel, self.kind) == (subject.kernel, mutant.kind)
            and mutant.source[: len(self.source)] == self.source
            and mutant.copy >= self.first_copy
            and (not self.subjects or subject.name in self.subjects)
        )


def argument_for(subject: Any, mutant: Any) -> str | None:
    """Why a mutant is as good as the original; None where nobody has argued so."""
    return next((entry.argument for entry in EQUIVALENTS if entry.covers(subject, mutant)), None)


_OF_BLOCKS = (
    "wgmma 1x128_128x128", "wgmma 1x128_128x128, ping-pong", "wgmma 1x128_1x128", "wgmma 1x128_1x128, wait depth 1",
)  # fmt: skip

_NO_COPIES = (
    "cp.async.commit_group and wait_group are about the executing thread's own cp.async operations, and this "
    "translation unit has none: it copies element by element (cp.async.wait_group)"
)
_STAGES = ("cp_async_wait<Config::stages - 2>();",)
_LAST = ("cp_async_wait<0>();",)
_STRAIGHT = ("mma, 3 stages", "mma, 4 stages of 64", "mma, expression, sums of columns")
_LAST_ROWS = ("__syncwarp();", "rows.flush((i + 1) * 8);")
_STAGING = ("if constexpr (StagesRows<Config>) __syncthreads();",)
_LAST_COPIES = (
    "cp.async completes without being waited for; waiting only makes its writes visible to the executing thread, and "
    "nothing reads shared memory after this wait (cp.async.wait_group)"
)
_NO_LATER_STAGE = (
    "bar.sync orders what threads read of the last stages before rows are staged there, and where copies are narrow, "
    "no thread reads a stage behind the barrier that ends the last tile: fragments beyond it are not loaded (bar.sync)"
)
_ONE_LANE = (
    "bar.warp.sync only orders memory accesses among the warp's lanes, and nothing that one of them accessed is "
    "accessed by another afterwards: the exit and barrier.cluster count each thread for itself (bar.warp.sync)"
)
_ANNOUNCEMENT = (
    "the arrival has nothing to release: what the phase hands over is written by the bulk copies, whose "
    "complete_tx releases it at .cluster scope (cp.async.bulk.tensor)"
)
_NOTHING_WRITTEN = (
    "the arrival has nothing to release: what the phase hands over is not this thread's, which has not accessed the "
    "slot since it last waited for it (mbarrier.arrive)"
)
_WARPGROUP_HAS_READ = (
    "the arrival has nothing to release: its thread has accessed the slot by wgmma alone, which is the whole "
    "warpgroup's, and the thread that loads again has waited for it itself (wgmma.wait_group)"
)
_MORALLY_STRONG = (
    "an acquire synchronizes only with a release whose scope includes its thread, and the arrivals from other CTAs "
    "that this wait observes are .release.cta: a wider scope of the wait adds nothing to them (Memory Consistency "
    "Model: Morally strong operations)"
)
_INITIALIZATIONS = (
    "the initializations are all that this barrier hands over, and fence.mbarrier_init.release.cluster before it "
    "releases them also to a relaxed arrival, which is what it is for (membar/fence: fence.mbarrier_init)"
)
_SUMS = (
    "the arrival has nothing to release: what the phase hands over is written by st.async, whose complete_tx releases "
    "it at .cluster scope (st.async)"
)
_HAS_A_TILE = (
    "the copy is for a producer without any tile, and a launch has no more clusters than tiles (launch_shape): the "
    "branch beside it is never taken"
)
_PRODUCER_HAS_WAITED = (
    "a consumer accesses global memory only after a slot is full, where the producer arrived after its own wait; and "
    "that wait makes visible to the whole grid what the earlier grids wrote (griddepcontrol)"
)
_BARRIER_RELEASES = (
    "the barrier after it releases the initializations by itself: bar.arrive in a cluster of one, otherwise "
    "barrier.cluster.arrive, which is .release unless it says .relaxed (barrier.cluster)"
)
_PROMOTED = (
    "where CUDA cores add the products of each k-block, its wgmmas were waited for before, and at a tile's end none is "
    "under way (wgmma.wait_group)"
)
_BY_TURNS = ("wgmma_basic", "wgmma_larger_tile")
_EVERYBODY_ARRIVES = ("wgmma_pipelined", "wgmma_two_consumers", "wgmma_persistent")
_RUNGS_IN_CLUSTERS = ("wgmma_multicast", "wgmma_registers", "wgmma_async_store", "wgmma_stmatrix")
_IN_CLUSTERS = ("wgmma", *_RUNGS_IN_CLUSTERS)
_ASYNC_STORE = "run_with_async_store<Config, {}>(map_a, map_b, map_out, parameters);"
_FILL = "fill_ring(ring, position, map_a, map_b, row, column, parameters.k);"

EQUIVALENTS = (
    *(
        Equivalent("mma", kind, source, _NO_COPIES, subjects=("mma, odd rows",))
        for kind, source in (
            ("drop cp.async.commit_group", ("cp_async_commit();",)),
            ("drop cp.async.wait_group", _STAGES),
            ("shift: wait for one group less", _STAGES),
            ("drop cp.async.wait_group", _LAST),
            ("shift: wait for one group less", _LAST),
        )
    ),
    *(
        Equivalent("mma", kind, _STAGING, _NO_LATER_STAGE, subjects=("mma, odd rows",))
        for kind in ("drop bar.sync", "weaken bar.sync to bar.warp.sync")
    ),
    *(
        Equivalent("mma", "drop bar.warp.sync", _LAST_ROWS, _ONE_LANE, first_copy, (subject,))
        for subject, first_copy in (("mma, odd rows", 2), ("mma, odd rows of out", 4))
    ),
    *(
        Equivalent("mma", kind, _LAST, _LAST_COPIES, subjects=_STRAIGHT)
        for kind in ("drop cp.async.wait_group", "shift: wait for one group less")
    ),
    *(
        Equivalent("wgmma", "drop bar.warp.sync", ("__syncwarp();", caller), _ONE_LANE)
        for caller in (
            "run_wgmma<Config>(map_a, map_b, &map_out, parameters);",
            "run_wgmma<Config>(map_a, map_b, nullptr, parameters);",
            "output.drain();",
        )
    ),
    Equivalent(
        "wgmma",
        "weaken bulk.wait_group to .read",
        ("if (lane == 0) bulk_wait<0>();", "output.drain();"),
        "the CTA's end only asks that the stores have read their source, which .read waits for; nobody in the kernel "
        "reads what they write (cp.async.bulk.wait_group)",
    ),
    Equivalent(
        "wgmma",
        "drop wgmma.fence",
        ("wgmma_fence();",),
        "since the fence ahead of the tile's first wgmma, the accumulators were accessed by wgmmas of one shape only, "
        "among which the manual asks for no fence (wgmma.fence)",
        first_copy=2,
    ),
    *(
        Equivalent(kernel, "weaken mbarrier.arrive to .relaxed", (source,), _ANNOUNCEMENT)
        for source, kernels in (
            ("mbarrier_arrive_expect_tx(full + 8 * at.slot, Config::stage_bytes);", _IN_CLUSTERS),
            ("mbarrier_arrive_expect_tx(barrier, sizeof(slot));", _BY_TURNS),
            ("mbarrier_arrive_expect_tx(full, sizeof(slot));", (*_EVERYBODY_ARRIVES, "wgmma_lean_barriers")),
        )
        for kernel in kernels
    ),
    *(
        Equivalent(kernel, "weaken mbarrier.arrive to .relaxed", source, _NOTHING_WRITTEN)
        for source in (
            ("mbarrier_arrive(empty);", _FILL),
            ("mbarrier_arrive(full);",),
            ("mbarrier_arrive(shared_address(&ring.empty[slot]));",),
        )
        for kernel in _EVERYBODY_ARRIVES
    ),
    *(
        Equivalent(kernel, "weaken mbarrier.arrive to .relaxed", ("mbarrier_arrive(barrier);",), _WARPGROUP_HAS_READ)
        for kernel in _BY_TURNS
    ),
    *(
        Equivalent(
            kernel,
            "weaken mbarrier wait to .cta",
            ("mbarrier_wait_cluster(empty + 8 * at.slot, previous);",),
            _MORALLY_STRONG,
        )
        for kernel in _IN_CLUSTERS
    ),
    *(
        Equivalent(kernel, "drop bar.warp.sync", ("__syncwarp();", *callers), _ONE_LANE)
        for kernel, callers in (
            ("wgmma_multicast", ()),
            ("wgmma_registers", ()),
            ("wgmma_async_store", (_ASYNC_STORE.format("RowMajorStaging"),)),
            ("wgmma_stmatrix", (_ASYNC_STORE.format("SwizzledStaging"),)),
        )
    ),
    Equivalent(
        "wgmma",
        "shift: ring of one stage more",
        ("if (++buffer == Config::store_buffers) buffer = 0;",),
        "this copy of the line never wraps: the stores of the two row blocks alternate, so that it always takes the "
        "buffer from 0 to 1, and the other copy takes it back",
        first_copy=2,
        subjects=("wgmma tma, overlap, two row blocks",),
    ),
    Equivalent(
        "wgmma",
        "shift: ring of one stage more",
        ("if (++slot == stages) {", "position.advance();", "consumer.template wait<0>(accumulators);"),
        "this copy of the line advances behind a tile's last k-block, and RingPosition::skip, which follows before the "
        "position is used, takes a slot beyond the ring for the first one of the next phase",
        subjects=("wgmma ping-pong", "wgmma 1x128_128x128, ping-pong"),
    ),
    Equivalent(
        "wgmma",
        "shift: ring of one stage more",
        (
            "if (++slot == stages) {",
            "__device__ __forceinline__ void advance() { position.advance(); }",
            "ring.advance();",
            "release();",
            "promotion.read();",
            "promote_behind<0, false>(accumulators[0], products);",
        ),
        "this copy of the line never wraps: it is behind the last but one of a tile's k-blocks, of which there is an "
        "even number here, so that its slot is the first or the third of four",
        first_copy=3,
        subjects=("wgmma 1x128_1x128, wait depth 1",),
    ),
    *(
        Equivalent(
            "wgmma",
            kind,
            ("wgmma_wait<pending>();", "consumer.template wait<0>(accumulators);"),
            _PROMOTED,
            subjects=_OF_BLOCKS,
        )
        for kind in ("drop wgmma.wait_group", "shift: wait for one group less")
    ),
    *(
        Equivalent(kernel, "drop fence.mbarrier_init", ("fence_mbarrier_init();",), _BARRIER_RELEASES)
        for kernel in _IN_CLUSTERS
    ),
    Equivalent(
        "wgmma",
        "weaken mbarrier.arrive to .relaxed",
        ("mbarrier_arrive_expect_tx(received, Config::sum_bytes);",),
        _SUMS,
    ),
    Equivalent(
        "wgmma",
        "drop griddepcontrol.wait",
        ("wait_for_earlier_grids();", "consume(storage, pipeline, place, tiles, map_out, parameters, warp / 4);"),
        _PRODUCER_HAS_WAITED,
    ),
    Equivalent(
        "wgmma",
        "shift: parity starts flipped",
        (
            "for (uint32_t i = blockIdx.x / Place::size; i < all(); i += gridDim.x / Place::size) body(i);",
            "tiles.for_each_tile([&](uint32_t index) {",
        ),
        _HAS_A_TILE,
        subjects=(
            "wgmma tma, overlap, cluster 2x1",
            "wgmma tma, overlap, cluster 1x2",
            "wgmma direct, overlap, cluster 2x1",
            "wgmma three consumers, cluster 1x2",
            "wgmma split_k 2, cluster 1x2",
        ),
    ),
    *(
        Equivalent(kernel, "weaken barrier.cluster.arrive to .relaxed", ("cluster_sync();", caller), _INITIALIZATIONS)
        for kernel, caller in (
            ("wgmma", "if constexpr (place.size > 1) place.sync();"),
            *((rung, "place.sync();") for rung in _RUNGS_IN_CLUSTERS),
        )
    ),
)
