"""The rules that the checks report, one entry per rule of the PTX manual."""

from dataclasses import dataclass

from tilewright.emulator.ptx.syntax import Instruction


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the PTX ISA manual in one sentence, and the section that states it.

    warning: whether breaking it costs time and changes no result.
    """

    sentence: str
    section: str
    warning: bool = False


RULES = {
    "race": Rule(
        "two accesses to one place need a barrier or another synchronization between them if one of the two writes",
        "Memory Consistency Model: Data races",
    ),
    "proxy-fence": Rule(
        "data of ordinary stores are visible to asynchronous operations (bulk copies, wgmma) only after "
        "fence.proxy.async between the stores and the operation",
        "Memory Consistency Model: Proxies; Async proxy",
    ),
    "tensormap-fence": Rule(
        "TMA sees a tensor map that the kernel has written only after tensormap.cp_fenceproxy, or "
        "fence.proxy.tensormap::generic.release of the thread that wrote it, and then "
        "fence.proxy.tensormap::generic.acquire before the copy",
        "tensormap.cp_fenceproxy; membar/fence: fence.proxy.tensormap",
    ),
    "read-before-wait": Rule(
        "data that an asynchronous operation writes may be read only after the wait for its completion: the "
        "mbarrier it signals, cp.async.wait_group or wgmma.wait_group",
        "Data Movement: Completion mechanisms of asynchronous copies; wgmma.wait_group",
    ),
    "overwrite-before-wait": Rule(
        "data that an asynchronous operation reads or writes may be overwritten only after the wait for its "
        "completion (wgmma.wait_group, cp.async.bulk.wait_group, or the mbarrier it signals); and it may overwrite "
        "data that threads read only after they are known to have done so, by a barrier or an mbarrier on which they "
        "then arrive",
        "wgmma.mma_async; cp.async.bulk.wait_group; mbarrier.arrive; mbarrier.try_wait",
    ),
    "uninitialized-shared": Rule(
        "shared memory holds no value before it is written", "State Spaces: Shared State Space"
    ),
    "uninitialized-local": Rule(
        "local memory holds nothing before its thread writes to it", "State Spaces: Local State Space"
    ),
    "read-only-load": Rule(
        "ld.global.nc, ldu and texture lookups, and so __ldg and loads through const __restrict__, are for data that "
        "is not written while the kernel runs: their path is not coherent, and no fence or barrier covers it",
        "ld.global.nc; ldu",
    ),
    "uninitialized-register": Rule(
        "a register has no value before an instruction gives it one, nor where a shuffle took it from a thread that "
        "takes no part, is not in the member mask or has no value itself",
        "State Spaces: Register State Space; shfl.sync",
    ),
    "mbarrier-init": Rule(
        "an mbarrier may be used by another thread only after a barrier that follows its mbarrier.init; a relaxed "
        "arrival at a barrier of the cluster needs fence.mbarrier_init, or a fence that releases more, before it",
        "mbarrier.init; barrier.cluster; membar/fence: fence.mbarrier_init",
    ),
    "mbarrier-access": Rule(
        "from its mbarrier.init to its mbarrier.inval, nothing but mbarrier instructions may access an mbarrier",
        "mbarrier; mbarrier.inval",
    ),
    "wgmma-fence": Rule(
        "wgmma.fence must stand between another access to a register and the wgmma.mma_async that uses it as an "
        "accumulator or as a fragment of A",
        "wgmma.fence",
    ),
    "wgmma-serialization": Rule(
        "accumulators get their first values before wgmma.fence; where one that follows it only sets a constant, "
        "ptxas folds the constant or makes the wgmmas wait for each other",
        "wgmma.fence",
        warning=True,
    ),
    "accumulator-before-wait": Rule(
        "the accumulators of a wgmma.mma_async, and registers with fragments of its A, may be accessed only after the "
        "wgmma.wait_group that covers its group",
        "wgmma.wait_group",
    ),
    "cluster-exit": Rule(
        "a CTA may exit only after every access to its shared memory, by others or by copies under way, is known to "
        "be over",
        "Distributed shared memory; mapa",
    ),
    "exit-before-wait": Rule(
        "a thread may exit only after cp.async.bulk.wait_group has told it that its bulk stores have read their "
        "source, which ends with its CTA",
        "cp.async.bulk.wait_group; Data Movement: Completion mechanisms of asynchronous copies",
    ),
    "register-budget": Rule(
        "after setmaxnreg the warps of a CTA may not hold more registers than it was launched with", "setmaxnreg"
    ),
    "setmaxnreg": Rule(
        "all warps of a warpgroup execute the same setmaxnreg, and synchronize before they execute another; .dec "
        "leaves a warp no more registers than it has, and .inc no fewer",
        "setmaxnreg",
    ),
    "member-mask": Rule(
        "the member mask of a warp collective names the threads that execute it: each is in its own mask, and each of "
        "the mask that has not exited executes it with the same qualifiers and the same mask",
        "shfl.sync; vote.sync; match.sync; redux.sync; elect.sync; bar.warp.sync",
    ),
    "grid-dependency": Rule(
        "a grid that may start before the grids it depends on have ended accesses global memory only after "
        "griddepcontrol.wait, of the same thread or of one that it is ordered after",
        "griddepcontrol",
    ),
    "divergent-collective": Rule(
        "all threads of a warp must execute an .aligned instruction together", "barrier{.cta}; wgmma; Warp-level matrix"
    ),
}

ERRORS = {
    "OutOfBounds": Rule(
        "an access must lie within an object of the memory that its address names",
        "Operands: Addresses as Operands; State Spaces",
    ),
    "DivergedCollective": RULES["divergent-collective"],
    "UndefinedBranch": Rule("the index of brx.idx must lie within its list of targets", "brx.idx"),
    "Misaligned": Rule("an address must be a multiple of the size of the access", "Operands: Addresses as Operands"),
    "Deadlock": Rule(
        "a wait ends only when all arrivals, bytes or threads that it waits for come",
        "barrier{.cta}; mbarrier.test_wait / try_wait; bar.warp.sync",
    ),
    "AsyncHazard": Rule(
        "a thread may overwrite what an asynchronous operation reads only after the wait that observes its "
        "completion: wgmma.wait_group or cp.async.bulk.wait_group",
        "wgmma.mma_async; cp.async.bulk.wait_group",
    ),
    "KernelTrap": Rule("trap ends the launch, as a failed assertion does", "trap"),
    "BarrierProtocol": Rule(
        "a barrier takes as many arrivals as it was given, and as many bytes as it can count, and all threads that "
        "meet there expect the same",
        "barrier{.cta}; barrier.cluster; mbarrier",
    ),
    "MbarrierLifetime": Rule(
        "an mbarrier is initialized once, and used from its mbarrier.init to its mbarrier.inval while its CTA lives",
        "mbarrier.init; mbarrier.inval",
    ),
    "MbarrierState": Rule(
        "an mbarrier is asked by a state of its own for the current phase or the one before",
        "mbarrier.test_wait / try_wait",
    ),
    "MisdirectedStore": Rule(
        "st.async and red.async are for clusters of several CTAs and signal an mbarrier of the CTA that they write to, "
        "which for red.async is another than their own",
        "st.async; red.async",
    ),
}
"""The rule of each error that ends a launch, by the name of the error's class."""


def verb_of(instruction: Instruction) -> str:
    """The verb for an instruction's access to memory; bulk copies read one place and write another."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "wmma":
        return "reads" if instruction.action == "load" else "writes"
    if opcode == "cp":
        return "accesses" if "bulk" in modifiers else "writes"
    verbs = {"ld": "reads", "ldu": "reads", "ldmatrix": "reads", "wgmma": "reads", "st": "writes", "stmatrix": "writes"}
    return {**verbs, "atom": "updates", "red": "updates"}.get(opcode, "accesses")


def accesses(kind: str, instruction: Instruction, asynchronous: bool) -> str:
    """The words for another access at a place that an asynchronous operation reads or writes, by its instruction."""
    if kind == "mbarrier-access":
        return "occupies until an mbarrier.inval that is ordered before"
    if kind == "proxy-fence":
        return "has written, without fence.proxy.async in between"
    return f"{verb_of(instruction)} asynchronously" if asynchronous else f"{verb_of(instruction)} without order"
