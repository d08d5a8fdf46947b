"""What the warps of a kernel do, in their order, as the emulator sees it: the trace that `model.timeline` plays."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
from tilewright.model.timeline import Arrive, Event, Pass, Start, Step, Trace, Wait, Warp, Work
from tilewright.model.wgmma_time import wgmma_time

_WGMMA_N = re.compile(r"m64n(\d+)k")


class Recorder(Observer):
    """The steps of each warp of the CTAs that run together first; what follows them is not kept."""

    def __init__(self, gpu: Hardware) -> None:
        self._gpu = gpu
        self.trace: Trace | None = None

    def began(self, words: Words) -> None:
        """Some CTAs begin."""
        self._words = words
        self.steps: dict[Warp, list[Step]] = defaultdict(list)
        self._phases: dict[tuple[str, int, int], int] = defaultdict(int)
        self._slots: dict[int, int] = {}
        self._sites: dict[Warp, int] = {}

    def ended(self) -> None:
        """They have run."""
        self.trace = self.trace or self.steps

    def issued(self, operation: Operation) -> None:
        """A load, a store or a wgmma begins."""
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

    def waited(self, queue: str, lanes: Indices, below: Indices, reads_only: bool) -> None:
        """Warps wait for commit groups; all warps of a warpgroup wait for its wgmmas."""
        if queue not in ("wgmma", "bulk"):
            return
        numbers: dict[Warp, int] = {}
        for lane, number in zip(lanes.tolist(), below.tolist(), strict=True):
            warp = self._warp(lane)
            numbers[warp] = max(number, numbers.get(warp, 0))
        for leader, number in numbers.items():
            if queue == "bulk":
                self.steps[leader].append(Wait("store", leader, number, reads_only))
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
        topology = self._words.topology
        pairs = np.stack((topology.cta[lanes], topology.thread[lanes] // WARP))
        found, counts = np.unique(pairs, axis=1, return_counts=True)
        for place, count in zip(found.T.tolist(), counts.tolist(), strict=True):
            yield (place[0], place[1]), count

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

    Raises an ArgumentValueError for a kernel that does not multiply with wgmma, whose steps are not known.
    """
    if kernel.unit != "wgmma":
        raise ArgumentValueError(
            f"kernel={kernel.name!r} multiplies with {kernel.unit}, and only steps of wgmma are played: take wgmma, or "
            "a rung of that road"
        )
    ctas = kernel.assemble(config, product.problem, gpu).shape.cluster
    recorder = Recorder(gpu)
    backend = EmulatedBackend(gpu._replace(sm_count=ctas), observers=[recorder])
    operands = product.operands(0)
    a, b = operands["a"], operands["b"]
    plan(a, b, out_dtype=product.out_dtype.name, kernel=kernel.name, config=config, backend=backend).counted(a, b)
    assert recorder.trace is not None, "the product has tiles"
    return recorder.trace
