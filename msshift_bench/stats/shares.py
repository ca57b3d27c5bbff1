"""Shares of items in clusters, and agreement of annotators beyond chance.

The items of one cluster, such as the candidates of one query, are not independent: intervals count
the choice of clusters.

Sources for a share: Korn and Graubard (1998), "Confidence intervals for proportions with small
expected number of positive counts estimated from survey data", Survey Methodology 24. It is the
exact interval of Clopper and Pearson (1934), with the number of independent items that gives the
same variance. Sources for agreement: Cohen (1960), "A coefficient of agreement for nominal scales".
Its interval has the jackknife's standard error (Efron and Tibshirani 1993, "An introduction to the
bootstrap", chapter 11), on the scale of the inverse hyperbolic tangent (Lin 1989, "A concordance
correlation coefficient to evaluate reproducibility", section 3): both ends are between -1 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError
from msshift_bench.stats.estimates import NOTHING, Part, half_width

Interval = tuple[float, float]
"""The ends of a confidence interval, both included."""

_CONFIDENCE = 0.95


def clustered_share(hits: Floats, items: Floats) -> tuple[float, Interval | None] | None:
    """Return the share of items that are hits, with its 95% interval over the clusters.

    If the variance between clusters is 0, e.g. if all items are hits, each cluster counts as one
    item.

    Args:
        hits: the number of hits in each cluster, shape (clusters,).
        items: the number of items in each cluster, shape (clusters,); empty clusters do not count.

    Returns:
        (share, interval): the share is from 0 to 1; the interval is `None` with fewer than 2
        clusters that have items. Without items, `None` instead of the pair.

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
    return share, _share_interval(share, hits, items)


def _share_interval(share: float, hits: Floats, items: Floats) -> Interval | None:
    from scipy.special import betaincinv, stdtrit

    clusters, total = len(items), float(items.sum())
    if clusters < 2:
        return None
    variance = clusters / (clusters - 1) * float(np.sum((hits - share * items) ** 2)) / total**2
    if 0 < share < 1 and variance:
        effective = share * (1 - share) / variance
        quantile = (1 + _CONFIDENCE) / 2
        narrower = stdtrit(total - 1, quantile) / stdtrit(clusters - 1, quantile)
        effective = min(effective * float(narrower) ** 2, total)
    else:
        effective = float(clusters)
    positive, tail = share * effective, (1 - _CONFIDENCE) / 2
    low = 0.0 if share == 0 else float(betaincinv(positive, effective - positive + 1, tail))
    high = 1.0 if share == 1 else float(betaincinv(positive + 1, effective - positive, 1 - tail))
    return low, high


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of several annotators.

    Attributes:
        kappa: the mean of Cohen's kappa over pairs of annotators, at most 1; `None` if both
            annotators of a pair gave one and the same label to every item.
        interval: its interval over the clusters, inside [-1, 1]; `None` below 2 clusters, or if
            leaving out a cluster leaves kappa undefined.
        items: the number of items labelled by all annotators.
    """

    kappa: float | None
    interval: Interval | None
    items: int


def annotator_agreement(
    labels: Sequence[Sequence[Hashable]], clusters: Sequence[Hashable]
) -> Agreement:
    """Return the `Agreement`: the mean Cohen's kappa of all pairs of annotators, with 95% interval.

    The interval is from a jackknife over clusters, with the t distribution. It is symmetric on the
    scale of the inverse hyperbolic tangent, and so never exceeds 1.

    Args:
        labels: one sequence per annotator, at least two, with the label of every item.
        clusters: the cluster of every item.

    Raises:
        UsageError: if there are fewer than two annotators, no item, or sequences of other lengths.
    """
    if len(labels) < 2 or len({len(clusters), *map(len, labels)}) != 1 or not len(clusters):
        sizes = ", ".join(str(len(sequence)) for sequence in labels) or "no"
        raise UsageError(
            "agreement needs two annotators or more, who labelled the same items; got "
            f"{sizes} labels of {len(clusters)} items"
        )
    codes = {
        label: n
        for n, label in enumerate(dict.fromkeys(x for annotator in labels for x in annotator))
    }
    places = {cluster: n for n, cluster in enumerate(dict.fromkeys(clusters))}
    rows = np.array([places[cluster] for cluster in clusters])
    coded = [np.array([codes[label] for label in annotator]) for annotator in labels]
    pairs = list(combinations(coded, 2))
    counts = np.zeros((len(pairs), len(places), len(codes), len(codes)))
    for number, (first, second) in enumerate(pairs):
        np.add.at(counts[number], (rows, first, second), 1)
    table = counts.sum(axis=1)
    mean = float(_kappa(table).mean())
    left_out = _kappa(table[:, None] - counts).mean(axis=0) if len(places) > 1 else np.array([])
    return Agreement(None if math.isnan(mean) else mean, _jackknife(mean, left_out), len(clusters))


def _kappa(counts: Floats) -> Floats:
    """Return the kappa of tables of counts, shape (..., labels, labels); NaN if undefined."""
    items = counts.sum(axis=(-2, -1))
    agreed = np.trace(counts, axis1=-2, axis2=-1) / items
    chance = (counts.sum(axis=-1) * counts.sum(axis=-2)).sum(axis=-1) / items**2
    certain = chance >= 1
    kappas: Floats = np.where(certain, np.nan, (agreed - chance) / np.where(certain, 1, 1 - chance))
    return kappas


def _jackknife(mean: float, left_out: Floats) -> Interval | None:
    if len(left_out) < 2 or not np.isfinite([mean, *left_out]).all():
        return None
    count = len(left_out)
    error = math.sqrt((count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum()))
    if abs(mean) >= 1:  # No cluster differs, and atanh(1) is infinite.
        return mean, mean
    reach = half_width(_CONFIDENCE, Part(error, count - 1), NOTHING) / (1 - mean**2)
    return math.tanh(math.atanh(mean) - reach), math.tanh(math.atanh(mean) + reach)
