"""The six orders of the three loops of a product, and how often each element is loaded and stored.

An element that does not depend on the inner loops stays in a register meanwhile. So an operand is touched once for each
turn of the innermost loop that it depends on, and of all loops around it. Nothing is cached.

Source: A. Gordić, "Inside NVIDIA GPUs", for the orders. He counts what k outermost saves of A, and leaves out that each
element of C is then loaded and stored again for each k.
"""

from dataclasses import asdict, dataclass
from itertools import permutations
from math import prod
from typing import Any, Literal

from tilewright.errors import ArgumentValueError
from tilewright.rounding import MOST_COUNTED, natural

Name = Literal["A", "B", "C"]

INDICES: dict[Name, tuple[str, str]] = {"A": ("m", "k"), "B": ("k", "n"), "C": ("m", "n")}
"""The indices of each operand, rows first: all are row-major."""

ORDERS = tuple("".join(order) for order in permutations("mnk"))
"""The orders, outermost loop first."""


@dataclass(frozen=True, slots=True)
class LoopOrder:
    """The accesses of one order.

    order: loops, outermost first. loads, stores: elements by operand; C is loaded before it is added to. strides: by
    how many elements each operand moves from one turn of the innermost loop to the next; 0 if it stays in a register.
    """

    order: str
    loads: dict[Name, int]
    stores: dict[Name, int]
    strides: dict[Name, int]

    @property
    def accesses(self) -> int:
        """All loads and stores."""
        return sum(self.loads.values()) + sum(self.stores.values())

    @property
    def kept(self) -> Name:
        """The operand whose element stays in a register during the innermost loop."""
        return next(name for name, stride in self.strides.items() if stride == 0)

    @property
    def form(self) -> str:
        """What the inner loops compute."""
        if self.order[0] == "k":
            return "a sum of outer products"
        return {"C": "a dot product for each element", "A": "rows of B, scaled", "B": "columns of A, scaled"}[self.kept]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "accesses": self.accesses, "kept": self.kept, "form": self.form}


def loop_order(order: str, m: int, n: int, k: int) -> LoopOrder:
    """The accesses of the loops in an order such as "kmn"; an ArgumentValueError names the orders, or a bad extent."""
    if order not in ORDERS:
        raise ArgumentValueError(f"order={order!r} is not one of the six: use {', '.join(ORDERS)}")
    extents = {name: natural(name, value, 1, MOST_COUNTED) for name, value in zip("mnk", (m, n, k), strict=True)}
    touched: dict[Name, int] = {}
    strides: dict[Name, int] = {}
    for name, indices in INDICES.items():
        innermost = max(map(order.index, indices))
        touched[name] = prod(extents[loop] for loop in order[: innermost + 1])
        row, column = indices
        strides[name] = {row: extents[column], column: 1}.get(order[-1], 0)
    return LoopOrder(order, touched, {"C": touched["C"]}, strides)
