"""What a cluster has released, at each moment at which it released something.

Most releases tell of little that is new: what their thread did since. So whole rows are kept now and then, and in
between only what has changed.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.lanes import Array, Mask

_SHARE = 4
"""Whole rows are kept once 1 / _SHARE of them has changed, and take about as much memory as the changes."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Everything up to a moment, (kinds, columns), and the number of changes before it."""

    moment: int
    changes: int
    rows: Array


class History:
    """Of one cluster. Rows are (kinds, columns) of its clocks and only grow."""

    def __init__(self) -> None:
        self.frames: list[_Frame] = []
        self._moments, self._places, self._times = array("i"), array("i"), array("i")  # of each change
        self._latest = np.zeros((0, 0), np.int32)
        self._asked: tuple[int, Array | None] = 0, None

    def add(self, moment: int, rows: Array) -> None:
        """Release the rows of a thread, which have at least as many kinds and columns as those before them."""
        kinds, columns = self._latest.shape
        latest = np.zeros_like(rows)
        latest[:kinds, :columns] = self._latest
        self._latest = np.maximum(rows, latest)
        changed = np.flatnonzero(self._latest != latest)
        start = self.frames[-1].changes if self.frames else 0
        if (kinds, columns) != rows.shape or (len(self._moments) - start + changed.size) * _SHARE > rows.size:
            self.frames.append(_Frame(moment, len(self._moments), self._latest))
        else:
            self._moments.extend([moment] * changed.size)
            self._places.extend(changed.tolist())
            self._times.extend(self._latest.reshape(-1)[changed].tolist())
        self._asked = 0, None

    def until(self, moment: int) -> Array | None:
        """What was released up to a moment, if anything; not to be changed."""
        if self._asked[0] != moment:
            self._asked = moment, self._rows_until(moment)
        return self._asked[1]

    def _rows_until(self, moment: int) -> Array | None:
        index = bisect_right(self.frames, moment, key=lambda frame: frame.moment) - 1
        if index < 0:
            return None
        frame, after = self.frames[index], self.frames[index + 1 : index + 2]
        end = after[0].changes if after else len(self._moments)
        since = slice(frame.changes, bisect_right(self._moments, moment, frame.changes, end))
        rows = frame.rows.copy()
        rows.reshape(-1)[np.array(self._places[since], np.int64)] = self._times[since]
        return rows

    def covers(self, moment: int, kind: int, columns: Array, times: Array) -> Mask:
        """Whether what was released up to a moment covers times of columns."""
        rows = self.until(moment)
        if rows is None or kind >= len(rows):
            return np.zeros(columns.size, np.bool_)
        row = rows[kind]
        return np.asarray((columns < row.size) & (row[np.minimum(columns, row.size - 1)] >= times))
