"""How tilewright stands against its peers in a record: ratios of paired cycles, each formed within one product."""

from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any

from tilewright.bench.contenders import Cublas, is_ours
from tilewright.measure.statistics import Interval, paired_ratio

BEST_PEER = "best peer"
CLEARLY_SLOWER = 0.99
"""A product counts as slower if the whole interval of its ratio lies below this."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How one of our contenders compares with a peer under a protocol.

    to: a peer's name, or BEST_PEER: at each product the quickest of the peers that were measured with ours.
    ratios: how many times faster ours is, by product.
    """

    protocol: str
    ours: str
    to: str
    ratios: tuple[tuple[dict[str, Any], Interval], ...]

    @property
    def mean(self) -> Interval:
        """The geometric mean of the medians, between those of the lows and of the highs.

        Errors of products partly cancel, so the mean's own interval is narrower than this one.
        """
        every = [ratio for _, ratio in self.ratios]
        low, middle, high = (
            exp(fmean(log(value) for value in values))
            for values in zip(*((each.low, each.median, each.high) for each in every), strict=True)
        )
        return Interval(low, middle, high, min(each.confidence for each in every))

    @property
    def worst(self) -> tuple[dict[str, Any], Interval]:
        """The product with the lowest median."""
        return min(self.ratios, key=lambda found: found[1].median)

    @property
    def slower(self) -> int:
        """In how many products ours is slower beyond doubt."""
        return sum(ratio.high < CLEARLY_SLOWER for _, ratio in self.ratios)


def standings(record: dict[str, Any]) -> list[Standing]:
    """How each of our contenders stands that every product has: against the best peer if there are several, and cuBLAS.

    A record without such contenders or without peers has no standings.
    """
    found = []
    for protocol in record["protocols"]:
        measured = [each for each in record["products"] if _timed(each, protocol) and not each["interrupted"]]
        names = [list(_timed(product, protocol)) for product in measured]
        ours = [name for name in (names[0] if names else ()) if is_ours(name) and all(name in each for each in names)]
        peers = {name for each in names for name in each if not is_ours(name)}
        tos = ([BEST_PEER] if len(peers) > 1 else []) + [
            name for name in peers if name == Cublas.name or len(peers) == 1
        ]
        for name in ours:
            for to in tos:
                ratios = ((product, ratio_to(product, protocol, name, to)) for product in measured)
                known = tuple((product, ratio) for product, ratio in ratios if ratio is not None)
                if known:
                    found.append(Standing(protocol, name, to, known))
    return found


def best_peer(product: dict[str, Any], protocol: str) -> str | None:
    """The quickest contender that is not ours; None if none was timed."""
    times = {name: found["time_us"] for name, found in _timed(product, protocol).items() if not is_ours(name)}
    return min(times, key=times.__getitem__, default=None)


def ratio_to(product: dict[str, Any], protocol: str, name: str, to: str) -> Interval | None:
    """How many times faster a contender is than a peer or BEST_PEER; None if one of them was not timed."""
    timed = _timed(product, protocol)
    peer = best_peer(product, protocol) if to == BEST_PEER else to
    if name not in timed or peer is None or peer not in timed:
        return None
    ours, theirs = timed[name]["samples_us"], timed[peer]["samples_us"]
    return paired_ratio(ours, theirs)


def title(product: dict[str, Any]) -> str:
    """The extents, the dtype and the layout of a product."""
    return f"{product['m']}x{product['n']}x{product['k']} {product['dtype']} {product['layout']}"


def _timed(product: dict[str, Any], protocol: str) -> dict[str, dict[str, Any]]:
    """The measurements of a protocol, by contender."""
    return {entry["contender"]: entry[protocol] for entry in product["contenders"] if entry.get(protocol)}
