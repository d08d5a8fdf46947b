"""Sums of small decision trees, as tables: numbers of rows that were not met before wait for them.

Each tree asks the same questions of every way to cut a product, "is this feature above this threshold?", and their
answers number its leaves: Prokhorenkova et al., "CatBoost: unbiased boosting with categorical features" (2018), calls
such trees oblivious. So the place of a value among all thresholds of its feature tells what it adds to the number of
each tree's leaf. A table has that for each place, and what values add that do not change is found once.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.model.tiling.tiles import Array

if TYPE_CHECKING:  # which takes longer to import than this module
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint8]
    """Of leaves, or what values add to them: a row for each way, of each tree."""

_MOST = 2.0**60
"""Above all values, which are 0 or above 1 / _MOST; a threshold may be higher, and no value is above it."""

_ZERO = ord("O")
"""The letter of a leaf 0; P is 1, and N is -1. Wheels pack letters better than digits."""

_APART = 128
"""How many powers of two lie from one feature's places to the next one's: 14 features find room in a float64."""


class Questions(NamedTuple):
    """All that trees ask about some features.

    scales: powers of two, which round nothing, and move the values of a feature above those of the one before it.
    places: thresholds and an end of each feature, so moved: all are in order. answers: a row for each place, with what
    a value there adds to numbers of leaves; a value of 0 adds nothing, and comes before all places.
    """

    scales: Array
    places: Array
    answers: "Numbers"

    @classmethod
    def of(cls, asked: "NDArray[np.intp]", thresholds: Array, features: range) -> "Questions":
        """Those of trees that have a row of features asked about and of thresholds for each."""
        places, answers = [], []
        scales: Array = np.ldexp(1.0, _APART * (np.arange(len(features)) - len(features) // 2))
        for feature, scale in zip(features, scales, strict=True):
            tree, question = np.nonzero(asked == feature)
            known, above = np.unique(thresholds[tree, question], return_inverse=True)
            added = np.zeros((len(known) + 1, len(asked)), np.uint8)
            np.add.at(added, (above + 1, tree), (1 << question).astype(np.uint8))
            places.append(np.minimum([*known, _MOST], _MOST) * scale)
            answers.append(np.add.accumulate(added, dtype=np.uint8))
        return cls(scales[:, None], np.concatenate(places), np.concatenate(answers))

    def numbers(self, values: Array) -> "Numbers":
        """What values, a row for each feature, add to the numbers of leaves."""
        places = self.places.searchsorted(values * self.scales)
        # No place is out of range; to have it clipped is quicker than to have it checked.
        added = self.answers.take(places, axis=0, mode="clip")
        return np.add.reduce(added, axis=0, dtype=np.uint8)  # type: ignore[no-any-return]


class Trees(NamedTuple):
    """The trees: what they ask about groups of features, and their leaves.

    unit: of leaves, which are whole numbers: natural logarithms of a share. first: the places of leaves 0.
    """

    questions: dict[range, Questions]
    leaves: "NDArray[np.int16]"
    unit: float
    first: "NDArray[np.intp]"

    @classmethod
    def of(
        cls,
        asked: "NDArray[np.intp]",
        thresholds: Array,
        leaves: "NDArray[np.int16]",
        unit: float,
        groups: Sequence[range],
    ) -> "Trees":
        """Those with a row of features asked about, of thresholds and of leaves for each."""
        questions = {group: Questions.of(asked, thresholds, group) for group in groups}
        return cls(questions, leaves, unit, np.arange(0, leaves.size, leaves.shape[1]))

    @classmethod
    def stored(cls, content: Mapping[str, Any], features: Sequence[str], groups: Sequence[range]) -> "Trees":
        """Those of a file, which may have the features in another order."""
        order = np.array([features.index(name) for name in content["features"]], np.intp)
        asked = order[np.array(content["asked"])]
        return cls.of(asked, thresholds_of(content), leaves_of(content), content["unit"], groups)

    def numbers(self, values: Array, group: range) -> "Numbers":
        """What values, a row for each feature of a group, add to the numbers of leaves."""
        return self.questions[group].numbers(values)

    def logarithms(self, places: "NDArray[np.intp]") -> Array:
        """The sums of the leaves at these places, a row for each way."""
        found: Array = np.add.reduce(self.leaves.take(places, mode="clip"), axis=1, dtype=np.int16) * self.unit
        return found

    def of_all(self, values: Array) -> Array:
        """The sums for each column of values of all features."""
        numbers = [self.numbers(values[group.start : group.stop], group) for group in self.questions]
        return self.logarithms(self.first + sum(numbers))


def thresholds_of(content: Mapping[str, Any]) -> Array:
    """A row of thresholds for each tree of a file, which has those of each feature once, and their places in these."""
    asked, places = np.array(content["asked"]), np.array(content["places"])
    firsts = np.cumsum([0, *map(len, content["thresholds"])])
    known = np.concatenate([np.array(each, np.float64) for each in content["thresholds"]])
    found: Array = known[firsts[asked] + places]
    return found


def leaves_of(content: Mapping[str, Any]) -> "NDArray[np.int16]":
    """A row of leaves for each tree of a file, which has a letter for each leaf."""
    letters = np.frombuffer("".join(content["leaves"]).encode("utf-32-le"), np.uint32)
    return letters.reshape(len(content["leaves"]), -1).astype(np.int16) - _ZERO


def letters_of(leaves: Sequence[int]) -> str:
    """A tree's leaves as a file has them."""
    return "".join(chr(_ZERO + leaf) for leaf in leaves)
