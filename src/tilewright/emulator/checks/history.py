"""The history of a cluster's releases, moment by moment.

Most releases add little: what their thread did since the last one. So whole rows are kept now and then, and only
changes in between. The beginning of a very long history is forgotten: a query about it also returns releases from a
little later.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from tilewright.emulator.lanes import Array, Mask

_SHARE = 4
"""Whole rows are kept once 1 / _SHARE of them has changed, and take about as much memory as the changes."""

_MOST = 1 << 18
"""The largest number of times in all whole rows of a history; two rows are kept however long they are."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Everything up to a moment, (kinds, columns), and the later changes: when, where in the rows, to what."""

    moment: int
    rows: Array
    moments: "array[int]" = field(default_factory=lambda: array("i"))
    places: "array[int]" = field(default_factory=lambda: array("i"))
    times: "array[int]" = field(default_factory=lambda: array("i"))


class History:
    """The history of one cluster. Rows are (kinds, columns) of its clocks and only grow."""

    def __init__(self) -> None:
        self.frames: list[_Frame] = []
        self._latest = np.zeros((0, 0), np.int32)
        self._asked: tuple[int, Array | None] = 0, None
        self._began = 0  # the first moment

    def add(self, moment: int, rows: Array) -> None:
        """Release the rows of a thread, which have at least as many kinds and columns as those before them."""
        latest, grown = self._latest, rows.shape != self._latest.shape
        if grown:
            latest = np.zeros_like(rows)
            latest[: self._latest.shape[0], : self._latest.shape[1]] = self._latest
        changed = np.flatnonzero(rows > latest)
        self._latest = np.maximum(rows, latest)
        if grown or (len(self.frames[-1].places) + changed.size) * _SHARE > rows.size:
            self._began = self._began or moment
            self.frames.append(_Frame(moment, self._latest))
            del self.frames[: -max(_MOST // rows.size, 2)]
        else:
            frame = self.frames[-1]
            frame.moments.extend([moment] * changed.size)
            frame.places.extend(changed.tolist())
            frame.times.extend(self._latest.reshape(-1)[changed].tolist())
        self._asked = 0, None

    def until(self, moment: int) -> Array | None:
        """The rows released up to a moment, if any; callers must not change them."""
        if moment < self._began or not self.frames:
            return None
        if self._asked[0] != moment:
            self._asked = moment, self._rows_until(moment)
        return self._asked[1]

    def _rows_until(self, moment: int) -> Array:
        frame = self.frames[max(bisect_right(self.frames, moment, key=lambda frame: frame.moment) - 1, 0)]
        count = bisect_right(frame.moments, moment)
        rows: Array = frame.rows.copy()
        rows.reshape(-1)[np.array(frame.places[:count], np.int64)] = frame.times[:count]
        return rows

    def covers(self, moment: int, kind: int, columns: Array, times: Array) -> Mask:
        """Whether the releases up to a moment cover the times of columns."""
        rows = self.until(moment)
        if rows is None or kind >= len(rows):
            return np.zeros(columns.size, np.bool_)
        row = rows[kind]
        return np.asarray((columns < row.size) & (row[np.minimum(columns, row.size - 1)] >= times))
