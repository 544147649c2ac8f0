"""The nodes' own earlier runs: for everything that was measured now, the median of its earlier values, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, TypeVar

_Item = TypeVar("_Item")
# The error of the median of 60 runs is a sixth of the noise of one (1.25 / sqrt(60)), so more of them change nothing; their
# values of 2,000 nodes with 8 GPUs and 30 measurements take 115 MB.
MOST_RUNS = 60
_AT_ONCE = 1 << 16  # columns whose median is taken together
_BITS = 20  # for the numbers of series and of devices in a key
Points = tuple[
    "array[int]", "array[int]", "array[int]", "array[int]", "array[float]"
]  # look, node, series, device, value


def no_points() -> Points:
    """Return empty columns for measured values."""
    return array("i"), array("i"), array("i"), array("i"), array("d")


def spread(runs: Sequence[_Item], most: int = MOST_RUNS) -> list[_Item]:
    """Return at most that many runs, evenly spread, the first and the last among them."""
    if len(runs) <= most:
        return list(runs)
    return [runs[round(place * (len(runs) - 1) / (most - 1))] for place in range(most)]


def chosen_of(runs: Sequence[_Item], notes: list[str]) -> list[_Item]:
    """Return the earlier runs that are compared, and note if these are not all."""
    chosen = spread(runs)
    if len(chosen) < len(runs):
        notes.append(
            f"of {len(runs)} earlier runs, {len(chosen)} are compared, evenly spread from the first to the last"
        )
    return chosen


class EarlierRuns:
    """The logarithms of earlier values, one row per run, of the keys (node, series, device) that were measured now."""

    def __init__(self, now: Sequence[Any], runs: int) -> None:
        """`now`: node, series and device of every value, as arrays of numbers."""
        import numpy as np

        self._keys = np.unique(_keys(*now))
        self._rows = np.full((runs, len(self._keys)), np.nan, dtype="float32")
        self._count = 0

    def add(self, node: Any, series: Any, device: Any, value: Any) -> None:
        """Add the values of one run. Those that were not measured now are left out."""
        import numpy as np

        keys = _keys(node, series, device)
        places = np.minimum(np.searchsorted(self._keys, keys), max(0, len(self._keys) - 1))
        if len(self._keys):
            same = self._keys[places] == keys
            self._rows[self._count, places[same]] = np.log(value[same])
        self._count += 1

    def table(self) -> dict[str, Any]:
        """Return node, series, device, and the median `y` of the logarithms, for all that were measured before."""
        import numpy as np

        pieces = [
            medians(np.ascontiguousarray(self._rows[: self._count, start : start + _AT_ONCE].T))
            for start in range(0, len(self._keys), _AT_ONCE)
        ]
        middle = np.concatenate([*pieces, np.empty(0, dtype="float32")])
        known = ~np.isnan(middle)
        keys = self._keys[known]
        return {
            "node": (keys >> 2 * _BITS).astype("int32"),
            "series": (keys >> _BITS & ((1 << _BITS) - 1)).astype("int32"),
            "device": (keys & ((1 << _BITS) - 1)).astype("int32"),
            "y": middle[known].astype("float64"),
        }


def medians(rows: Any) -> Any:
    """Return the median of every row without its missing values (NaN), or NaN. The rows are sorted in place."""
    low, high = middles(rows)
    return (low + high) / 2


def middles(rows: Any) -> tuple[Any, Any]:
    """Return the lower and the upper median of every row: the same if the number of its values is odd. Sorts in place."""
    import numpy as np

    if not rows.shape[1]:
        missing = np.full(len(rows), np.nan, dtype=rows.dtype)
        return missing, missing
    rows.sort(axis=1)  # NaN comes last
    counts = rows.shape[1] - np.isnan(rows).sum(axis=1)
    each = np.arange(len(rows))
    return rows[each, np.maximum(counts - 1, 0) // 2], rows[each, np.minimum(counts // 2, rows.shape[1] - 1)]


def _keys(node: Any, series: Any, device: Any) -> Any:
    return node.astype("int64") << 2 * _BITS | series.astype("int64") << _BITS | device
