"""The states that arrivals at mbarriers return: 64 bits that PTX leaves open.

Here they hold, from bit 0, the phase; from _PENDING, how many arrivals were pending before; from _PLACE, which mbarrier
it is. Source: PTX ISA, "mbarrier.arrive", "mbarrier.test_wait / try_wait", "mbarrier.pending_count".
"""

from tilewright.emulator.lanes import Array, Indices

_PENDING, _PLACE = 24, 44
_PHASES = 1 << _PENDING


def states_of(place: Indices, pending: Indices, phase: Indices) -> Indices:
    """The states of arrivals at mbarriers, by the number of each, of which so many were pending."""
    return place << _PLACE | pending << _PENDING | phase % _PHASES


def pending_of(states: Indices) -> Indices:
    """How many arrivals were pending before those that gave the states."""
    return states >> _PENDING & (1 << _PLACE - _PENDING) - 1


def parity_of(states: Indices) -> Array:
    """The parities of the states' phases."""
    return states & 1


def fault_of(states: Indices, place: Indices, phase: Indices) -> tuple[int, str] | None:
    """The first state that cannot be asked for at an mbarrier in a phase, and why."""
    foreign, asked = states >> _PLACE != place, states % _PHASES
    wrong = foreign | ((phase - asked) % _PHASES > 1)
    if not wrong.any():
        return None
    first = int(wrong.argmax())
    if foreign[first]:
        return first, "by a state that is of another mbarrier"
    late = f"for phase {asked[first]}, and {phase[first]} are over"
    return first, f"{late}: a state tells of the current phase or of the one before"
