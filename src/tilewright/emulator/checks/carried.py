"""The releases that strong writes carry on, and what remains of them once the releasing CTAs have ended."""

from dataclasses import dataclass
from typing import TypeAlias

from tilewright.emulator.lanes import Array

Moments: TypeAlias = "dict[int | Past, tuple[int, int]]"
"""For each cluster, until when its releases are known, and until when asynchronous operations see them."""

SEEN, ALL = 1, 2
"""Keys that stand for a moment of a Past: moments that asynchronous operations see, and moments that are known."""


class Past:
    """The releases that a place carried when earlier CTAs of the launch had ended, as a whole with one moment."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments
        self._until: dict[int, dict[int, int]] = {}

    def until(self, part: int) -> dict[int, int]:
        """For each cluster, the time up to which its releases are known (ALL) or seen (SEEN)."""
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
    """The knowledge that threads of a CTA published.

    rows: what they knew, for threads of the CTA and for the rest of the cluster; None where scopes leave nothing.
    moments: the moments of clusters, including their own, for threads of other clusters.
    """

    rows: list[Array | None]
    moments: Moments


@dataclass(frozen=True, slots=True)
class ReleaseSet:
    """The releases that a strong write carries, by resident CTA.

    own: the latest moments of the clusters that released them.
    told: the moments of clusters that releases of others pass on.
    """

    releases: dict[int, Release]
    own: Moments
    told: Moments


NOTHING = ReleaseSet({}, {}, {})


@dataclass(slots=True)
class Written:
    """The last strong write of a place: the CTA of its thread, its scope, and the releases it carries.

    released: for a thread that acquires.
    sequenced: for a thread that executes fence.sc.
    """

    cta: int
    scope: int
    released: ReleaseSet
    sequenced: ReleaseSet


Published: TypeAlias = dict[int, Written]  # by place


def latest(some: Moments, others: Moments) -> Moments:
    """The latest moments of each cluster."""
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
    """The releases that a place carries from CTAs that have ended; whole: with one moment for everything."""
    told = latest(carried.own, carried.told)
    if whole and len(told) > 1:
        told = {Past(told): (ALL, SEEN if any(seen for _, seen in told.values()) else 0)}
    return ReleaseSet({}, {}, told) if told else NOTHING
