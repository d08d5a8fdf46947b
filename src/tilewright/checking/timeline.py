"""What the warps of a kernel do, in their order, as the emulator sees it: the trace that `model.timeline` plays."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.api import plan
from tilewright.backends.emulated import EmulatedBackend
from tilewright.checking.product import Product
from tilewright.emulator import Observer
from tilewright.emulator.lanes import WARP, WARPGROUP, Group, Indices, Mask
from tilewright.emulator.machine.operation import Operation, Queue, SharedRegion, Signal
from tilewright.emulator.machine.words import Words
from tilewright.errors import ArgumentValueError
from tilewright.hardware import Hardware
from tilewright.kernels.kernel import Kernel
from tilewright.model.timeline import QUARTERS, Arrive, Event, Pass, Start, Step, Trace, Wait, Warp, Work
from tilewright.model.wgmma_time import wgmma_time

_WGMMA_N = re.compile(r"m64n(\d+)k")


class Recorder(Observer):
    """The steps of each warp of the CTAs that run together first; what follows them is not kept."""

    def __init__(self, gpu: Hardware, macs: float = 0) -> None:
        """macs: multiply-adds per clock of an SM by mma; wgmma has a model of its own."""
        self._gpu, self._macs = gpu, macs
        self.trace: Trace | None = None

    def began(self, words: Words) -> None:
        """Some CTAs begin."""
        self._words = words
        self.steps: dict[Warp, list[Step]] = defaultdict(list)
        self._phases: dict[tuple[str, int, int], int] = defaultdict(int)
        self._slots: dict[int, int] = {}
        self._read: dict[Warp, int] = {}
        self._copied: dict[Warp, dict[int, int]] = defaultdict(dict)
        self._group_slots: dict[tuple[Warp, int], int] = {}
        self._sites: dict[Warp, int] = {}

    def ended(self) -> None:
        """They have run."""
        self.trace = self.trace or self.steps

    def issued(self, operation: Operation) -> None:
        """A load, a store or a wgmma begins."""
        if operation.kind == "cp.async":
            self._copy(operation)
            return
        for part, lane in enumerate(operation.lanes.tolist()):
            warp = self._warp(lane)
            self._walk(warp, operation.site)
            if operation.kind == "wgmma":
                self._multiply(warp, operation, part)
            elif isinstance(operation.ends, Signal) and isinstance(operation.writes, SharedRegion):
                self._load(warp, operation.ends, operation.writes, part)
            elif isinstance(operation.ends, Queue) and isinstance(operation.reads, SharedRegion):
                group = int(operation.ends.numbers[part])
                self.steps[warp].append(Start("store", operation.reads.nbytes, self._row(warp, "store"), group))

    def _multiply(self, warp: Warp, operation: Operation, part: int) -> None:
        found = _WGMMA_N.search(self._words.instruction(operation.site).name)
        assert found is not None
        assert isinstance(operation.ends, Queue)
        fragments = operation.registers is not None and bool(operation.registers.fragments)
        time = wgmma_time(self._gpu, int(found[1]), "registers" if fragments else "smem")
        group = int(operation.ends.numbers[part])
        self.steps[warp].append(Start("multiply", time.clocks, self._row(warp, "multiply"), group))

    def _load(self, warp: Warp, ends: Signal, writes: SharedRegion, part: int) -> None:
        offset = int(ends.offsets[part])
        slot = self._slots.setdefault(offset, len(self._slots))
        events = tuple(self._event("mbarrier", cta, offset) for cta in ends.ctas[part].tolist())
        ctas = tuple(writes.ctas[part].tolist())
        self.steps[warp].append(Start("load", writes.nbytes, f"slot {slot}", 0, events, ctas))

    def _copy(self, operation: Operation) -> None:
        """Copies of lanes to shared memory; what a warp copies in one commit group fills one slot.

        `accessed` has seen before what they read: zeros behind the end of k are not read.
        """
        assert isinstance(operation.ends, Queue)
        assert isinstance(operation.writes, SharedRegion)
        for warp, lanes in self._by_warp(operation.lanes):
            first = int(np.flatnonzero(operation.lanes == lanes[0])[0])
            group = int(operation.ends.numbers[first])
            if (warp, group) not in self._group_slots:
                slots = self._copied[warp]
                self._group_slots[warp, group] = slots.setdefault(int(operation.writes.offsets[first]), len(slots))
            self._walk(warp, operation.site)
            if nbytes := self._read.pop(warp, 0):
                row = f"slot {self._group_slots[warp, group]}"
                self.steps[warp].append(Start("load", nbytes, row, group))

    def multiplied(
        self, site: int, group: Group, kind: str, shape: str, types: Sequence[str], executions: int, shared_bytes: int
    ) -> None:
        """Warps multiply, each with the tensor core of its quarter of the SM; a wgmma is an operation."""
        if kind == "wgmma":
            return
        warps = [warp for warp, _ in self._by_warp(group.indices)]
        macs = prod(map(int, re.findall(r"\d+", shape))) * executions / len(warps)
        clocks = macs / (self._macs / QUARTERS) / (2 if kind == "mma.sp" else 1)
        for warp in warps:
            self._walk(warp, site)
            self.steps[warp].append(Start("multiply", clocks, self._row(warp, "multiply"), quarter=warp[1] % QUARTERS))

    def waited(self, queue: str, lanes: Indices, below: Indices, reads_only: bool) -> None:
        """Warps wait for commit groups; all warps of a warpgroup wait for its wgmmas."""
        numbers: dict[Warp, int] = {}
        for lane, number in zip(lanes.tolist(), below.tolist(), strict=True):
            warp = self._warp(lane)
            numbers[warp] = max(number, numbers.get(warp, 0))
        for leader, number in numbers.items():
            if queue == "bulk":
                self.steps[leader].append(Wait("store", leader, number, reads_only))
            elif queue == "cp.async":
                self.steps[leader].append(Wait("load", leader, number))
            elif leader[1] % 4 == 0:
                for each in range(4):
                    self.steps[leader[0], leader[1] + each].append(Wait("multiply", leader, number))

    def accessed(
        self, site: int, kind: str, space: str, group: Group, where: Indices, width: int, chosen: Indices | None
    ) -> None:
        """Lanes read or write shared memory, or write global memory."""
        lanes = group.indices if chosen is None else group.indices[chosen]
        for warp, count in self._counted(lanes):
            self._walk(warp, site)
            if kind == "cp.async":
                self._read.update({warp: count * width} if space == "global" else {})
                continue
            if space in ("shared", "cluster"):
                self.steps[warp].append(Work(0, count * width))
            elif space == "global" and kind == "st":
                self.steps[warp].append(Start("store", count * width, self._row(warp, "store")))

    def mbarrier_arrived(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Each lane is one arrival, at the mbarrier of a CTA."""
        for lane, cta in zip(lanes.tolist(), np.broadcast_to(ctas, lanes.shape).tolist(), strict=True):
            self._walk(self._warp(lane), site)
            self.steps[self._warp(lane)].append(Arrive(self._event("mbarrier", cta, offset)))

    def mbarrier_completed(self, offset: int, over: Mask) -> None:
        """The next phase begins in some CTAs."""
        for cta in np.flatnonzero(over).tolist():
            self._phases["mbarrier", cta, offset] += 1

    def mbarrier_passed(self, site: int, group: Group, offset: int) -> None:
        """Warps have waited for a phase."""
        for warp, _ in self._counted(group.indices):
            self._walk(warp, site)
            self._pass(warp, "mbarrier", warp[0], offset)

    def barrier_arrived(self, site: int, barrier: int | str, group: Group) -> None:
        """Warps come to a barrier of their CTA, or of the cluster."""
        for warp, _ in self._counted(group.indices):
            self._walk(warp, site)
            self.steps[warp].append(Arrive(self._event(*self._place(barrier, warp[0]))))

    def barrier_completed(self, barrier: int | str, over: Mask, exited_count: Mask) -> None:
        """All have come."""
        for place in {self._place(barrier, cta) for cta in np.flatnonzero(over).tolist()}:
            self._phases[place] += 1

    def barrier_passed(self, barrier: int | str, groups: Sequence[Group]) -> None:
        """Warps go on."""
        for group in groups:
            for warp, _ in self._counted(group.indices):
                self._pass(warp, *self._place(barrier, warp[0]))

    def _place(self, barrier: int | str, cta: int) -> tuple[str, int, int]:
        return ("cluster", 0, 0) if isinstance(barrier, str) else ("barrier", cta, barrier)

    def _pass(self, warp: Warp, kind: str, cta: int, number: int) -> None:
        phase = self._phases[kind, cta, number]
        if phase:
            self.steps[warp].append(Pass((kind, cta, number, phase - 1)))

    def _event(self, kind: str, cta: int, number: int) -> Event:
        return kind, cta, number, self._phases[kind, cta, number]

    def _warp(self, lane: int) -> Warp:
        topology = self._words.topology
        return int(topology.cta[lane]), int(topology.thread[lane]) // WARP

    def _counted(self, lanes: Indices) -> Iterator[tuple[Warp, int]]:
        """The warps of lanes, with the number of their lanes."""
        for warp, own in self._by_warp(lanes):
            yield warp, own.size

    def _by_warp(self, lanes: Indices) -> Iterator[tuple[Warp, Indices]]:
        """The warps of lanes, with their lanes in order."""
        if not lanes.size:  # a copy that only fills with zeros reads nothing
            return
        topology = self._words.topology
        pairs = np.stack((topology.cta[lanes], topology.thread[lanes] // WARP))
        found, inverse = np.unique(pairs, axis=1, return_inverse=True)
        order = np.argsort(inverse.reshape(-1), kind="stable")
        parts = np.split(lanes[order], np.cumsum(np.bincount(inverse.reshape(-1)))[:-1])
        for place, own in zip(found.T.tolist(), parts, strict=True):
            yield (place[0], place[1]), own

    def _row(self, warp: Warp, doing: str) -> str:
        return f"warps {warp[1] // 4 * 4} to {warp[1] // 4 * 4 + WARPGROUP // WARP - 1}: {doing}"

    def _walk(self, warp: Warp, site: int) -> None:
        """The instructions since the last step take a clock each, if no branch lies between."""
        last = self._sites.get(warp, site)
        self._sites[warp] = site
        instructions = self._words.entry.instructions
        between = range(last + 1, site)
        if len(between) and not any(instructions[each].opcode in ("bra", "brx", "ret", "exit") for each in between):
            self.steps[warp].append(Work(len(between)))


def record(kernel: Kernel, config: Any, product: Product, gpu: Hardware) -> Trace:
    """The steps of the warps of the first cluster that makes `product`, on as many SMs as the cluster has CTAs.

    Raises an ArgumentValueError for a kernel whose loads go through registers: nothing says when a warp waits for them.
    """
    unit = kernel.unit_of(product.dtype)
    if unit not in ("wgmma", "mma"):
        raise ArgumentValueError(_refusal(kernel, f"multiplies with {unit}"))
    ctas = kernel.assemble(config, product.problem, gpu).shape.cluster
    recorder = Recorder(gpu, gpu.macs("mma", product.dtype))
    backend = EmulatedBackend(gpu._replace(sm_count=ctas), observers=[recorder])
    operands = product.operands(0)
    a, b = operands["a"], operands["b"]
    plan(a, b, out_dtype=product.out_dtype.name, kernel=kernel.name, config=config, backend=backend).counted(a, b)
    assert recorder.trace is not None, "the product has tiles"
    if not any(isinstance(step, Start) and step.way == "load" for steps in recorder.trace.values() for step in steps):
        raise ArgumentValueError(_refusal(kernel, "loads operands through registers"))
    return recorder.trace


def _refusal(kernel: Kernel, why: str) -> str:
    return (
        f"kernel={kernel.name!r} {why}: loads of TMA and cp.async into tensor cores are drawn, so take wgmma, mma, or "
        "a rung that loads so, such as mma_swizzled or wgmma_pipelined"
    )
