"""Precision and recall of the pairs above a threshold, among pairs that people judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import UsageError
from msshift_bench.stats import ClusteredShare, Interval, clustered_share

__all__ = ["LowestThreshold", "ThresholdCurve", "ThresholdPoint"]

_SAMPLES = 1000
_MOST_ROWS = 21
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """What a threshold keeps: the pairs whose cosine is at least it.

    Attributes:
        threshold: the cosine.
        pairs: how many pairs it keeps.
        leaking: how many of them leak.
        precision: the share of them that leaks; `None` if it keeps no pair.
        recall: the share of all judged pairs that leak which it keeps; `None` if none leaks. Of
            leaking pairs that nobody judged nothing is known.
    """

    threshold: float
    pairs: int
    leaking: int
    precision: ClusteredShare | None
    recall: ClusteredShare | None


@dataclass(frozen=True, slots=True)
class LowestThreshold:
    """The lowest threshold that keeps pairs of a wanted precision.

    Attributes:
        wanted: the precision.
        point: what the threshold keeps; `None` if no threshold has that precision.
        interval: of the threshold, over other test queries, by bootstrap; `None` if no threshold
            has the precision in more samples than the interval leaves out, or below 2 test queries.
        sure: what the lowest threshold keeps whose precision has an interval that begins at or
            above the wanted one; `None` if there is none.
    """

    wanted: float
    point: ThresholdPoint | None
    interval: Interval | None
    sure: ThresholdPoint | None


class ThresholdCurve:
    """The precision and recall of every threshold; intervals count other test queries.

    Args:
        cosines: of the judged pairs, shape (pairs,).
        leaks: whether each leaks.
        test_ids: the test query of each, the cluster that it belongs to.

    Raises:
        UsageError: if there is no pair.
    """

    def __init__(
        self, cosines: Sequence[float], leaks: Sequence[bool], test_ids: Sequence[str]
    ) -> None:
        if not cosines:
            raise UsageError("no judged pair has a cosine, so there is no threshold to choose")
        order = np.argsort(-np.array(cosines), kind="stable")
        places = {test_id: n for n, test_id in enumerate(sorted(set(test_ids)))}
        self._cosines: Floats = np.array(cosines, dtype=np.float64)[order]
        self._leaks: Floats = np.array(leaks, dtype=np.float64)[order]
        self._rows: Ints = np.array([places[test_id] for test_id in test_ids])[order]
        self._queries = len(places)
        # Pairs of one cosine are kept together: a threshold ends behind the last of them.
        self._ends: Ints = np.append(np.flatnonzero(np.diff(self._cosines)), len(order) - 1)

    def at(self, threshold: float) -> ThresholdPoint:
        """Return what a threshold keeps."""
        kept = (self._cosines >= threshold).astype(np.float64)
        hits, items = self._per_query(self._leaks * kept), self._per_query(kept)
        return ThresholdPoint(
            threshold,
            int(kept.sum()),
            int((self._leaks * kept).sum()),
            clustered_share(hits, items),
            clustered_share(hits, self._per_query(self._leaks)),
        )

    def table(self) -> list[ThresholdPoint]:
        """Return round thresholds from the least cosine to the greatest, at most 22 of them."""
        low, high = float(self._cosines[-1]), min(float(self._cosines[0]), 1.0)
        step = next((one for one in _STEPS if (high - low) / one <= _MOST_ROWS - 1), _STEPS[-1])
        first, last = math.floor(low / step + 1e-9), math.floor(high / step + 1e-9)
        return [self.at(round(number * step, 2)) for number in range(first, last + 1)]

    def every_point(self) -> tuple[Floats, Floats, Floats]:
        """Return every threshold that is a cosine, rising, with its precision and its recall."""
        hits = np.cumsum(self._leaks)[self._ends][::-1]
        kept = (self._ends[::-1] + 1).astype(np.float64)
        leaking = float(self._leaks.sum())
        recall = hits / leaking if leaking else np.full(len(hits), np.nan)
        return self._cosines[self._ends][::-1], hits / kept, recall

    def lowest(self, precision: float = 0.9) -> LowestThreshold:
        """Return the lowest threshold with a precision, its interval, and the lowest sure one.

        Raises:
            UsageError: if the precision is not between 0 and 1.
        """
        if not 0 < precision <= 1:
            raise UsageError(f"a precision of {precision:g}; give one above 0, at most 1")
        whole = self._lowest(np.ones(self._queries), precision)
        found = None if math.isinf(whole) else self.at(whole)
        return LowestThreshold(precision, found, self._interval(precision), self._sure(precision))

    def _lowest(self, weights: Floats, precision: float) -> float:
        """Return the lowest threshold if every test query counts so often; inf if there is none."""
        counted = weights[self._rows]
        kept, hits = np.cumsum(counted)[self._ends], np.cumsum(counted * self._leaks)[self._ends]
        good = np.flatnonzero((kept > 0) & (hits >= precision * kept - 1e-9))
        return float(self._cosines[self._ends[good[-1]]]) if len(good) else math.inf

    def _interval(self, precision: float) -> Interval | None:
        if self._queries < 2:
            return None
        random = np.random.default_rng(self._queries)
        drawn = np.empty(_SAMPLES)
        for sample in range(_SAMPLES):
            chosen = random.integers(0, self._queries, self._queries)
            weights = np.bincount(chosen, minlength=self._queries).astype(np.float64)
            drawn[sample] = self._lowest(weights, precision)
        low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
        return None if math.isinf(high) else Interval(float(low), float(high))

    def _sure(self, precision: float) -> ThresholdPoint | None:
        # Where the precision itself is too low, its interval begins lower still.
        thresholds, precisions, _ = self.every_point()
        for threshold in thresholds[precisions >= precision]:
            point = self.at(float(threshold))
            share = point.precision
            if share and share.interval and share.interval.low >= precision:
                return point
        return None

    def _per_query(self, values: Floats) -> Floats:
        return np.bincount(self._rows, values, self._queries).astype(np.float64)
