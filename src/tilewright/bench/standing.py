"""How tilewright stands against its peers in a record: ratios of paired cycles, each formed within one product."""

from collections import Counter
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any, NamedTuple

from tilewright.bench.contenders import READ, is_ours, is_peer
from tilewright.bench.peers import Cublas
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
    """How each of ours that most products have stands, against the best peer if there are several, and against cuBLAS.

    Where the weights were read as well, against the read. A record without such contenders, or with neither peers nor a
    read, has no standings.
    """
    found = []
    for protocol in record["protocols"]:
        measured = [each for each in record["products"] if timed(each, protocol) and not each["interrupted"]]
        ours = [name for name in in_most(measured, protocol) if is_ours(name)]
        peers = {name for product in measured for name in timed(product, protocol) if is_peer(name)}
        tos = ([BEST_PEER] if len(peers) > 1 else []) + [
            name for name in peers if name == Cublas.name or len(peers) == 1
        ]
        tos += [READ] if READ in in_most(measured, protocol) else []
        for name in ours:
            for to in tos:
                ratios = ((product, ratio_to(product, protocol, name, to)) for product in measured)
                known = tuple((product, ratio) for product, ratio in ratios if ratio is not None)
                if known:
                    found.append(Standing(protocol, name, to, known))
    return found


def in_most(products: list[dict[str, Any]], protocol: str) -> list[str]:
    """The contenders that more than half of the products have timed."""
    counts = Counter(name for product in products for name in timed(product, protocol))
    return [name for name, count in counts.items() if 2 * count > len(products)]


class Weight(NamedTuple):
    """A weight that several products share, which differ in their rows."""

    label: str
    n: int
    k: int
    dtype: str
    layout: str

    @property
    def extents(self) -> str:
        """All but the label; bf16 goes without saying."""
        return f"{self.n} x {self.k} {self.layout}" + ("" if self.dtype == "bf16" else f" {self.dtype}")

    def __str__(self) -> str:
        return f"{self.label}, {self.extents}" if self.label else self.extents


def by_weight(products: list[dict[str, Any]]) -> dict[Weight, dict[int, dict[str, Any]]]:
    """The products of each weight, by their rows."""
    found: dict[Weight, dict[int, dict[str, Any]]] = {}
    for each in products:
        weight = Weight(each.get("label", ""), each["n"], each["k"], each["dtype"], each["layout"])
        found.setdefault(weight, {})[each["m"]] = each
    return {weight: dict(sorted(rows.items())) for weight, rows in found.items()}


def is_by_rows(record: dict[str, Any]) -> bool:
    """Whether a record has a read of the weights, and weights with several numbers of rows."""
    products = record["products"]
    if not any(READ in in_most(products, protocol) for protocol in record["protocols"]):
        return False
    return any(len(rows) > 1 for rows in by_weight(products).values())


def timed(product: dict[str, Any], protocol: str) -> dict[str, dict[str, Any]]:
    """The measurements of a protocol, by contender."""
    return {entry["contender"]: entry[protocol] for entry in product["contenders"] if entry.get(protocol)}


def best_peer(product: dict[str, Any], protocol: str) -> str | None:
    """The quickest contender that is not ours; None if none was timed."""
    times = {name: found["time_us"] for name, found in timed(product, protocol).items() if is_peer(name)}
    return min(times, key=times.__getitem__, default=None)


def ratio_to(product: dict[str, Any], protocol: str, name: str, to: str) -> Interval | None:
    """How many times faster a contender is than a peer or BEST_PEER; None if one of them was not timed."""
    found = timed(product, protocol)
    peer = best_peer(product, protocol) if to == BEST_PEER else to
    if name not in found or peer is None or peer not in found:
        return None
    ours, theirs = found[name]["samples_us"], found[peer]["samples_us"]
    return paired_ratio(ours, theirs)


def title(product: dict[str, Any]) -> str:
    """The extents, the dtype and the layout of a product."""
    return f"{product['m']}x{product['n']}x{product['k']} {product['dtype']} {product['layout']}"
