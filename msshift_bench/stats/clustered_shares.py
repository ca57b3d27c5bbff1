"""Shares of items that come in clusters, with intervals that count other clusters.

Source: Korn and Graubard (1998), "Confidence intervals for proportions with small expected number
of positive counts estimated from survey data", Survey Methodology 24: the exact interval of Clopper
and Pearson (1934), with the number of items that independent ones would need for the same variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError
from msshift_bench.stats.estimates import Interval

__all__ = ["ClusteredShare", "clustered_share"]


@dataclass(frozen=True, slots=True)
class ClusteredShare:
    """A share of items, such as a precision.

    Attributes:
        value: the share, from 0 to 1.
        interval: its interval over clusters; `None` below 2 clusters.
        items: how many items there are.
    """

    value: float
    interval: Interval | None
    items: int


def clustered_share(
    hits: Floats, items: Floats, *, confidence: float = 0.95
) -> ClusteredShare | None:
    """Return the share of items that are hits, with its interval over the clusters.

    Items of one cluster, such as the candidates of one query, are not independent. Where all items
    are hits, or none, their variance says nothing of that, and each cluster counts as one item.

    Args:
        hits: how many items of each cluster are hits, shape (clusters,).
        items: how many items each cluster has, likewise; a cluster without any does not count.
        confidence: the confidence level.

    Returns:
        The share; `None` if there is no item.

    Raises:
        UsageError: if the shapes differ.
    """
    if hits.shape != items.shape:
        raise UsageError(f"hits of {len(hits)} clusters and items of {len(items)}")
    present = items > 0
    hits, items = hits[present], items[present]
    total = float(items.sum())
    if not total:
        return None
    share = float(hits.sum()) / total
    return ClusteredShare(share, _interval(share, hits, items, confidence), round(total))


def _interval(share: float, hits: Floats, items: Floats, confidence: float) -> Interval | None:
    from scipy.special import betaincinv, stdtrit

    clusters, total = len(items), float(items.sum())
    if clusters < 2:
        return None
    residuals = hits - share * items
    variance = clusters / (clusters - 1) * float(np.sum(residuals**2)) / total**2
    if 0 < share < 1 and variance:
        effective = share * (1 - share) / variance
        quantile = (1 + confidence) / 2
        narrower = stdtrit(total - 1, quantile) / stdtrit(clusters - 1, quantile)
        effective = min(effective * float(narrower) ** 2, total)
    else:
        effective = float(clusters)
    positive, tail = share * effective, (1 - confidence) / 2
    low = 0.0 if share == 0 else float(betaincinv(positive, effective - positive + 1, tail))
    high = 1.0 if share == 1 else float(betaincinv(positive + 1, effective - positive, 1 - tail))
    return Interval(low, high)
