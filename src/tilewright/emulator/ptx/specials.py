"""The names of special registers: %tid, %ctaid and the like. Source: PTX ISA, "Special Registers"."""

CLOCKS = frozenset(("clock", "clock_hi", "clock64", "globaltimer"))
"""Special registers that change with time."""

LANE_SPECIALS = CLOCKS | frozenset(
    [f"{name}.{axis}" for name in ("tid", "ctaid", "clusterid", "cluster_ctaid") for axis in "xyz"]
    + ["laneid", "warpid", "nwarpid", "smid", "cluster_ctarank"]
    + [f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")]
)
"""Special registers that may differ between threads or over time."""

UNIFORM_SPECIALS = frozenset(
    [f"{name}.{axis}" for name in ("ntid", "nctaid", "nclusterid", "cluster_nctaid") for axis in "xyz"]
    + ["cluster_nctarank", "nsmid", "dynamic_smem_size", "total_smem_size", "aggr_smem_size"]
    + ["gridid", "is_explicit_cluster"]
)
"""Special registers that are the same for the whole launch."""
