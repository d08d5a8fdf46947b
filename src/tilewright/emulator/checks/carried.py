"""What strong writes carry on, and what is left of it once the CTAs that released it have ended."""

from dataclasses import dataclass
from typing import TypeAlias

from tilewright.emulator.lanes import Array

Moments: TypeAlias = "dict[int | Past, tuple[int, int]]"
"""By cluster: up to when it is known what the cluster released, and up to when asynchronous operations see it."""

SEEN, ALL = 1, 2
"""In the place of a moment of a Past: its moments as asynchronous operations see them, and those that are known."""


class Past:
    """What a place carried when earlier CTAs of the launch had ended: known as a whole, and so with one moment."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self._until: dict[int, dict[int, int]] = {}

    def until(self, part: int) -> dict[int, int]:
        """By cluster: up to when it is known what the cluster released (ALL), or seen (SEEN)."""
        if part not in self._until:
            found: dict[int, int] = {}
            left, met = [(self, part)], {(self, part)}
            while left:
                past, level = left.pop()
                for source, moments in past._moments.items():
                    moment = moments[ALL - level]
                    if not isinstance(source, Past):
                        found[source] = max(found.get(source, 0), moment)
                    elif moment and (source, moment) not in met:
                        met.add((source, moment))
                        left.append((source, moment))
            self._until[part] = found
        return self._until[part]


@dataclass(slots=True)
class Release:
    """What threads of a CTA published.

    rows: what they knew, for threads of the CTA and for the rest of a cluster; None where scopes leave nothing.
    moments: of clusters, their own among them, for threads of other clusters.
    """

    rows: list[Array | None]
    moments: Moments


@dataclass(frozen=True, slots=True)
class ReleaseSet:
    """The releases that a strong write carries, by CTA of those that run.

    own: the latest moments of the clusters they are of. told: of clusters, as the releases of others tell.
    """

    releases: dict[int, Release]
    own: Moments
    told: Moments


NOTHING = ReleaseSet({}, {}, {})


@dataclass(slots=True)
class Written:
    """The last strong write of a place: the CTA of its thread, its scope, and the releases it carries.

    released: for who acquires. sequenced: for who executes fence.sc.
    """

    cta: int
    scope: int
    released: ReleaseSet
    sequenced: ReleaseSet


Published: TypeAlias = dict[int, Written]  # by place


def latest(some: Moments, others: Moments) -> Moments:
    """For each cluster the latest moments."""
    if not others:
        return some
    both = dict(some)
    for cluster, moment in others.items():
        both[cluster] = later(moment, both[cluster]) if cluster in both else moment
    return both


def later(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The later of each of two moments."""
    return max(one[0], other[0]), max(one[1], other[1])


def ended(carried: ReleaseSet, whole: bool) -> ReleaseSet:
    """What a place carries of CTAs that have ended; whole: with one moment for everything."""
    told = latest(carried.own, carried.told)
    if whole and len(told) > 1:
        told = {Past(told): (ALL, SEEN if any(seen for _, seen in told.values()) else 0)}
    return ReleaseSet({}, {}, told) if told else NOTHING
