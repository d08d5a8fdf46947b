"""What an earlier record knows of the peers of products: which one its first look found best, and what tuners chose."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.bench.contenders import is_peer
from tilewright.bench.standing import best_peer, title
from tilewright.errors import ArgumentValueError

OURS_ALONE = ("tilewright", "python", "nvrtc")
"""The versions that no peer depends on."""


def require_same_peers(path: Path, known: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise a ValueError unless a record is of this model of GPU and of these versions of the peers."""
    facts = [{"GPU": each["gpu"], **each["versions"]} for each in (known, here)]
    for name in sorted({**facts[0], **facts[1]}):
        theirs, ours = (each.get(name, "missing") for each in facts)
        if theirs != ours and name not in OURS_ALONE:
            raise ArgumentValueError(
                f"--first-look={path} has {theirs} as {name}, and this run has {ours}: leave it out, so that peers are "
                "looked at and tuned anew"
            )


def best_peers(record: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The peers that the first look at each product found to be the quickest, by product and protocol."""
    return {
        title(product): {
            protocol: peer
            for protocol in record["protocols"]
            if (peer := best_peer({"contenders": product["heat"]}, protocol)) is not None
        }
        for product in record["products"]
        if product.get("heat") and not product["interrupted"]
    }


def choices(record: Mapping[str, Any], kernels: str) -> dict[str, dict[str, Any]]:
    """What tuners chose, by product and contender: peers' tuners, and ours too if `kernels` is the record's digest."""
    same = record["kernels"] == kernels
    return {
        product: {name: choice for name, choice in of_product.items() if same or is_peer(name)}
        for product, of_product in record["choices"].items()
    }
