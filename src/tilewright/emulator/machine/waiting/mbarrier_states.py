"""The states that arrivals at mbarriers return: 64 bits whose meaning PTX leaves open.

Here they hold, from bit 0, the phase; from _PENDING, the number of arrivals that were pending before; from _PLACE, the
number of the mbarrier. Source: PTX ISA, "mbarrier.arrive", "mbarrier.test_wait / try_wait", "mbarrier.pending_count".
"""

from tilewright.emulator.lanes import Array, Indices

_PENDING, _PLACE = 24, 44
_PHASES = 1 << _PENDING


def states_of(place: Indices, pending: Indices, phase: Indices) -> Indices:
    """The states of arrivals at mbarriers, given each mbarrier's number and its pending arrivals."""
    return place << _PLACE | pending << _PENDING | phase % _PHASES


def pending_of(states: Indices) -> Indices:
    """The number of arrivals that were pending before those that returned the states."""
    return states >> _PENDING & (1 << _PLACE - _PENDING) - 1


def parity_of(states: Indices) -> Array:
    """The parities of the states' phases."""
    return states & 1


def fault_of(states: Indices, place: Indices, phase: Indices) -> tuple[int, str] | None:
    """The first state that an mbarrier in a phase cannot be tested with, and the reason."""
    foreign, asked = states >> _PLACE != place, states % _PHASES
    wrong = foreign | ((phase - asked) % _PHASES > 1)
    if not wrong.any():
        return None
    first = int(wrong.argmax())
    if foreign[first]:
        return first, "by a state of another mbarrier"
    late = f"for phase {asked[first]}, and {phase[first]} are over"
    return first, f"{late}: a state tells of the current phase or of the one before"
