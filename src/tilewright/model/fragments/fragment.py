"""A fragment: the places of a matrix's elements in the registers of a warp or a warpgroup.

The places are formulas, in these letters:

    g    lane // 4 of the warp, a group of four lanes        t    lane % 4, the lane's number in its group
    w    the warp of a warpgroup                              q    the quad pair of Volta: lane // 4 % 4
    h    4 for lanes 16 to 31, else 0                         i    the register
    e    the element in the register, 0 in the lowest bits
"""

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.model.memory.banks import Indices
from tilewright.model.memory.pattern import OPERATIONS


class Owner(NamedTuple):
    """A place in the registers of a warp or a warpgroup."""

    lane: int
    register: int
    element: int


@dataclass(frozen=True)
class Fragment:
    """The fragment of one matrix.

    matrix: its name, such as "A". rows, columns: its extents. lanes: 32, or 128 of a warpgroup. registers: of a lane.
    per_register: elements in each. row, column: the formulas of an element's place.
    """

    matrix: str
    rows: int
    columns: int
    lanes: int
    registers: int
    per_register: int
    row: str
    column: str

    @cached_property
    def places(self) -> tuple[Indices, Indices]:
        """The rows and the columns of all elements, each as (lanes, registers, elements of a register)."""
        shape = (self.lanes, self.registers, self.per_register)
        lane, i, e = np.ogrid[: shape[0], : shape[1], : shape[2]]
        letters = {
            "g": lane % 32 // 4, "t": lane % 4, "w": lane // 32, "q": lane // 4 % 4, "h": lane % 32 // 16 * 4,
            "i": i, "e": e,
        }  # fmt: skip
        row, column = (np.broadcast_to(_evaluate(formula, letters), shape) for formula in (self.row, self.column))
        return row, column

    def held(self, lane: int) -> list[list[tuple[int, int]]]:
        """The (row, column) of the elements of each register of a lane; an ArgumentValueError for an unknown lane."""
        if not 0 <= lane < self.lanes:
            raise ArgumentValueError(f"lane={lane} holds nothing of {self.matrix}: use 0 to {self.lanes - 1}")
        row, column = (places[lane] for places in self.places)
        return [[(int(r), int(c)) for r, c in zip(*pair, strict=True)] for pair in zip(row, column, strict=True)]

    def owners(self, row: int, column: int) -> list[Owner]:
        """Who holds an element; several where lanes share it, or each hold it in a matrix of their own.

        Raises an ArgumentValueError for an element outside the matrix.
        """
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise ArgumentValueError(
                f"element {row},{column} is not in {self.matrix}, which has {self.rows} x {self.columns}: give a row "
                "and a column from 0 on"
            )
        rows, columns = self.places
        return [Owner(*map(int, place)) for place in np.argwhere((rows == row) & (columns == column))]

    def as_dict(self, lane: int | None = None) -> dict[str, Any]:
        """For JSON; lane: the one whose elements are listed, None for all of them."""
        lanes = range(self.lanes) if lane is None else (lane,)
        return {
            "matrix": self.matrix,
            "rows": self.rows,
            "columns": self.columns,
            "registers": self.registers,
            "elements_per_register": self.per_register,
            "row": self.row,
            "column": self.column,
            "lanes": {number: self.held(number) for number in lanes},
        }


def _evaluate(formula: str, letters: dict[str, Indices]) -> Indices:
    """The values of a formula of letters, whole numbers and operations."""

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Constant(int() as number):
                return number
            case ast.Name(letter):
                return letters[letter]
            case ast.BinOp(left, operation, right):
                return OPERATIONS[type(operation)](value(left), value(right))
        raise AssertionError(ast.unparse(node))

    return np.asarray(value(ast.parse(formula, mode="eval").body), np.int64)
