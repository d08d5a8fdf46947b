"""The events that a machine reports while it runs a launch.

A subclass of `Observer` overrides the events that it wants to hear; docs/emulator.md has an example. Checks and
counters are observers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from inspect import getattr_static
from typing import Any

from tilewright.emulator.lanes import Active, Array, Group, Indices, Mask
from tilewright.emulator.machine.operation import Operation, Queue
from tilewright.emulator.machine.words import Words
from tilewright.emulator.memory import FlatMemory
from tilewright.emulator.program.blocks import Block
from tilewright.emulator.ptx.syntax import Instruction
from tilewright.errors import ArgumentTypeError


class Observer:
    """A listener to the events of a launch. It may raise, but must not change its arguments.

    site: the index of the instruction in its entry. group: the threads that execute it. chosen: indices into the group
    of the lanes that take part, None for all. where: byte offsets in flat memories, one for each lane that takes part,
    or one for all (shared memory of CTA slot c starts at c * topology.shared_stride). cta, ctas: slots of the CTAs that
    run together.
    """

    def began(self, words: Words) -> None:
        """Some CTAs of the grid begin to run together; the events until `ended` are theirs."""

    def ended(self) -> None:
        """These CTAs have run, or an error has ended them. From now on `words` and groups must not be used."""

    # Accesses --------------------------------------------------------------------------------------------------------

    def accessed(
        self, site: int, kind: str, space: str, group: Group, where: Indices, width: int, chosen: Indices | None
    ) -> None:
        """Lanes are about to access `width` bytes each.

        kind: "ld", "st", "atom", "ldmatrix", "stmatrix", "cp.async", or of images "tex", "suld", "sust", "sured".
        cp.async is reported twice: for its reads of
        global memory, then for its later writes of shared memory.
        space: "global", "shared", "cluster" or "local".
        """

    def stored(
        self, site: int, group: Group, memory: FlatMemory, where: Indices, values: list[Array], chosen: Indices | None
    ) -> None:
        """Lanes have stored consecutive values, in shared or global memory."""

    # Asynchronous operations -----------------------------------------------------------------------------------------

    def issued(self, operation: Operation) -> None:
        """An asynchronous operation begins."""

    def waited(self, queue: str, lanes: Indices, below: Indices, reads_only: bool) -> None:
        """Lanes know that their operations in commit groups with numbers below these are over.

        reads_only: only the reads of the operations are over.
        """

    def signal_promised(self, site: int, ends: Queue, lanes: Indices, offset: int, ctas: Indices) -> None:
        """All that lanes have issued in a queue until now will signal the mbarriers of CTAs at a shared address."""

    def moved(self, site: int, loaded: int, read: int, stored: int, destinations: int) -> None:
        """TMA moves bytes: loaded to each destination, read from L2 for them, and stored to global memory."""

    def multiplied(
        self, site: int, group: Group, kind: str, shape: str, types: Sequence[str], executions: int, shared_bytes: int
    ) -> None:
        """Tensor cores multiply: "mma", "mma.sp" or "wmma" of warps, "wgmma" of warpgroups.

        shape: as in PTX.
        executions: products of all warps or warpgroups together.
        types: of accumulators, A and B.
        shared_bytes: the bytes that all of them read from shared memory.
        """

    # Barriers and fences ---------------------------------------------------------------------------------------------

    def mbarrier_made(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Lanes initialize the mbarriers of CTAs at a shared address."""

    def mbarrier_ended(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Lanes invalidate mbarriers."""

    def mbarrier_used(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Lanes arrive at, expect bytes at, or wait for mbarriers."""

    def mbarrier_arrived(self, site: int, lanes: Indices, offset: int, ctas: Indices) -> None:
        """Lanes arrive at mbarriers, after the event mbarrier_used."""

    def mbarrier_completed(self, offset: int, over: Mask) -> None:
        """The current phase of the mbarriers at a shared address ends in some CTAs."""

    def mbarrier_passed(self, site: int, group: Group, offset: int) -> None:
        """Lanes have seen that the phase they asked for is over."""

    def barrier_arrived(self, site: int, barrier: int | str, group: Group) -> None:
        """Lanes arrive at a barrier of their CTAs, given by its number, or at that of their clusters, "cluster"."""

    def barrier_completed(self, barrier: int | str, over: Mask, exited_count: Mask) -> None:
        """All have arrived in some CTAs; in some of these, threads that have exited count as arrived."""

    def barrier_passed(self, barrier: int | str, groups: Sequence[Group]) -> None:
        """Lanes go on after a barrier: in each CTA, all that waited there."""

    def waits_at(self, site: int, kind: str, group: Group) -> None:
        """Lanes come to a "barrier" or an "mbarrier" to wait; the wait may time out."""

    def fenced(self, site: int, group: Group, what: str, spaces: Sequence[str]) -> None:
        """Lanes execute a fence of "memory", "proxy" (of some spaces), "mbarrier_init" or "wgmma"."""

    def grids_awaited(self, group: Group) -> None:
        """Lanes execute griddepcontrol.wait: the grids that this one depends on have ended."""

    def tensor_map_acquired(self, site: int, group: Group, addresses: Array) -> None:
        """Lanes execute fence.proxy.tensormap::generic.acquire for the maps at addresses, one for each lane or all."""

    def tensor_map_released(self, site: int, group: Group) -> None:
        """Lanes execute fence.proxy.tensormap::generic.release."""

    def tensor_map_used(self, site: int, lanes: Indices, address: int) -> None:
        """Lanes issue copies by the tensor map at an address of global memory."""

    # Warps and registers ---------------------------------------------------------------------------------------------

    def exchanged(self, places: list[tuple[int, Group]], group: Group, mask: Any) -> None:
        """The lanes of a group execute a collective with a member mask together, each at the site of its place."""

    def warp_synchronized(self, group: Group, mask: Any) -> None:
        """The lanes of a group have executed bar.warp.sync together."""

    def entered(self, block: Block, group: Group) -> None:
        """Lanes of incomplete warps run a block."""

    def converged(self, block: Block, group: Group) -> None:
        """Lanes of warps whose other lanes have exited execute a block that begins with an .aligned instruction."""

    def diverged(self, site: int, group: Group, message: str) -> None:
        """Only part of a warp or of a warpgroup executes an .aligned instruction, and the launch ends."""

    def touched(self, site: int, group: Group, number: int) -> None:
        """A register that wgmma uses is read or written by another instruction (see Program.watched)."""

    def used_without_value(self, site: int, group: Group, origin: int | None) -> None:
        """Lanes use a register without a value; origin: the shuffle or the load that left it without one, if any."""

    def registers_held(self, site: int, group: Group, count: int) -> None:
        """setmaxnreg: warps now hold `count` registers for each thread."""

    def traced(
        self, site: int, group: Group, active: Active, read: Mapping[str, Array], written: Mapping[str, Array]
    ) -> None:
        """At a source line that the device traces, lanes have executed an instruction.

        active: the lanes where its guard holds. read, written: the bits of registers before and after, by their names
        in PTX, one value for each lane of the group or one for all; without those that wgmma accesses.
        """

    # Decisions -------------------------------------------------------------------------------------------------------

    def guarded(self, site: int, group: Group, holds: Mask) -> None:
        """Lanes come to a branch or an exit with a guard, or to a guarded instruction that other threads may notice.

        holds: whether the guard holds in each lane, or one value for all.
        """

    # Ends ------------------------------------------------------------------------------------------------------------

    def exited(self, group: Group, site: int) -> None:
        """Threads have exited, by the instruction at a site."""

    def exited_early(self, group: Group, site: int) -> None:
        """Threads are about to exit that have not waited for their bulk stores, which end now.

        If no observer overrides this event, the launch ends with an AsyncHazard instead.
        """

    def stuck(self, waiting: list[tuple[Block, Group]]) -> None:
        """The launch ends, since all remaining lanes wait for lanes of their warps at the beginning of a block."""

    def ran(self, start: int, instructions: Sequence[Instruction], warps: int) -> None:
        """At the end: `warps` warps have executed these instructions; the first one has the site `start`."""


EVENTS = tuple(name for name in vars(Observer) if not name.startswith("_"))


def require_observers(observers: object) -> None:
    """Raise an ArgumentTypeError unless `observers` are a sequence of Observers without misspelt events."""
    if not isinstance(observers, Sequence):
        raise ArgumentTypeError(f"observers is {observers!r} and must be a sequence of them, such as [observer]")
    for index, observer in enumerate(observers):
        if not isinstance(observer, Observer):
            raise ArgumentTypeError(
                f"observers[{index}] is {observer!r} and must be an Observer: derive its class from "
                "tilewright.emulator.Observer"
            )
        for name, event in _misspelt(observer):
            raise ArgumentTypeError(
                f"observers[{index}] has a method {name!r}, which is no event and would never be told: did you "
                f"mean {event!r}? Rename it"
            )


def _misspelt(observer: Observer) -> Iterator[tuple[str, str]]:
    """The public methods of an observer whose names are nearly those of events, each with the event."""
    for name in dir(observer):
        if name not in EVENTS and not name.startswith("_") and callable(getattr_static(observer, name, None)):
            for event in get_close_matches(name, EVENTS, 1, cutoff=0.85):
                yield name, event


class Observers(Observer):
    """Several observers as one. An event that none of them overrides only costs a call."""

    def listen(self, observers: Iterable[Observer]) -> None:
        """Report events to these observers from now on."""
        observers = list(observers)
        for name in EVENTS:
            own = getattr(Observer, name)
            methods = [getattr(each, name) for each in observers]
            listeners = [method for method in methods if getattr(method, "__func__", None) is not own]
            if listeners:
                setattr(self, name, listeners[0] if len(listeners) == 1 else partial(_tell, listeners))

    def hear(self, event: str) -> bool:
        """Whether any observer overrides an event; ask first if its arguments take time to compute."""
        return event in vars(self)


def _tell(listeners: Sequence[Callable[..., None]], *event: Any) -> None:
    for listener in listeners:
        listener(*event)
