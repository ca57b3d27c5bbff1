"""What queries lose, interval by interval of an indicator of queries.

Source: MS-Shift (ECIR 2023), section 5.2: Figure 4 draws the distributions of the indicator, Figure
5 the Rel Loss in intervals of it, and Figure 6 box plots of what single queries lose. The paper
gives no bands. Here they are percentiles of 1,000 bootstrap samples of the interval's queries
(Efron and Tibshirani, 1993), drawn with a fixed seed. To each sample an error is added that stands
for other seeds: Student's t with the number of seeds minus 1 degrees of freedom, scaled by what
seeds add to the variance (`stats.uncertainty`), because resampling two or three seeds would show
hardly any of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from msshift_bench.analysis.line_fits import FEWEST_GROUPS
from msshift_bench.analysis.mixed_models import MixedModel, fit_mixed_model
from msshift_bench.analysis.query_losses import QueryLosses
from msshift_bench.analysis.slope_tests import SlopeTest, slope_test
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UsageError
from msshift_bench.stats import (
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    GroupScores,
    Interval,
    shift_loss,
)

__all__ = [
    "BinnedLosses",
    "BoxPlot",
    "Distribution",
    "LossBin",
    "bin_losses",
    "bootstrap_band",
    "distribution",
]

BOOTSTRAP_SAMPLES = 1000
_COLUMNS = 30


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the values of an indicator are distributed over the test queries of each group.

    Attributes:
        shift: the shift's name.
        indicator: the indicator's name.
        edges: the edges of the histogram's columns, ascending, one more than there are columns.
        counts: group -> how many of its queries fall in each column.
        means: group -> the mean.
    """

    shift: str
    indicator: str
    edges: tuple[float, ...]
    counts: Mapping[str, tuple[int, ...]]
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BoxPlot:
    """The box plot of what single queries lose (Tukey, 1977).

    Losses are in units of the group's Avg In, and means over seeds; positive is worse.

    Attributes:
        low: the smallest loss within 1.5 times the box below the box.
        first: the first quartile.
        median: the second.
        third: the third.
        high: the largest loss within 1.5 times the box above the box.
        mean: the mean.
        beyond: how many queries lie beyond `low` and `high`.
    """

    low: float
    first: float
    median: float
    third: float
    high: float
    mean: float
    beyond: int


@dataclass(frozen=True, slots=True)
class LossBin:
    """The queries in one interval of an indicator.

    Attributes:
        low: the interval's lower end; it belongs to it.
        high: its upper end; it belongs to it in the last interval only.
        queries: how many queries lie in it.
        of_groups: group -> how many of them are its.
        rel_loss: their Rel Loss, a fraction; `None` if their Avg In is 0.
        band: the bootstrap's 95% band; `None` where `rel_loss` is, and below 2 queries.
        box: what single queries lose.
    """

    low: float
    high: float
    queries: int
    of_groups: Mapping[str, int]
    rel_loss: float | None
    band: Interval | None
    box: BoxPlot


@dataclass(frozen=True, slots=True)
class BinnedLosses:
    """What one system loses in intervals of an indicator of queries.

    Attributes:
        system: the system.
        bins: the intervals, ascending, of about as many queries each.
        counts: what the bands count: "queries and seeds", or "queries only" for a single seed.
        within: the test of the link inside the groups; `None` if fewer than 3 groups can show one.
        control: the control of difficulty; "" without one.
        at_equal_difficulty: the same test among queries that are about as difficult.
        mixed: the mixed model over queries; `None` if there are fewer than 3 groups, or the queries
            of a group lose all the same.
    """

    system: str
    bins: tuple[LossBin, ...]
    counts: str
    within: SlopeTest | None
    control: str
    at_equal_difficulty: SlopeTest | None
    mixed: MixedModel | None


def distribution(
    shift: str, indicator: str, values: Mapping[str, Floats], columns: int = _COLUMNS
) -> Distribution:
    """Count the queries of each group in columns of equal width.

    Args:
        shift: the shift's name.
        indicator: the indicator's name.
        values: group -> the values of its test queries, ``[queries]``.
        columns: the number of columns.
    """
    together = np.concatenate(list(values.values()))
    edges = np.histogram_bin_edges(together, columns)
    return Distribution(
        shift,
        indicator,
        tuple(map(float, edges)),
        {g: tuple(map(int, np.histogram(of_group, edges)[0])) for g, of_group in values.items()},
        {group: float(of_group.mean()) for group, of_group in values.items()},
    )


def bin_losses(
    losses: QueryLosses,
    indicator: str,
    values: Mapping[str, Floats],
    *,
    bins: int = 6,
    control: str = "",
    difficulty: Mapping[str, Floats] | None = None,
) -> BinnedLosses:
    """Compute what a system loses in intervals of an indicator.

    Args:
        losses: what queries lose.
        indicator: the indicator's name.
        values: group -> the indicator's values, in the order of the group's scores, ``[queries]``.
        bins: the number of intervals; fewer come of it where many queries have the same value, or
            there are fewer queries.
        control: the name of the control; "" without one.
        difficulty: group -> the control's values, ``[queries]``.

    Raises:
        UsageError: if `bins` is below 2.
        DataError: if all queries have the same value, or a system scores 0.
    """
    if bins < 2:
        raise UsageError(f"losses are shown in at least 2 intervals, not {bins}")
    per_seed = losses.relative()
    relative = {group: loss.mean(axis=0) for group, loss in per_seed.items()}
    together = np.concatenate([values[group] for group in relative])
    edges = np.unique(np.quantile(together, np.linspace(0, 1, bins + 1)))
    if len(edges) < 2:
        raise DataError(
            f"all test queries of {losses.shift} have the same {indicator} ({edges[0]:.4g}), so "
            "that there are no intervals of it; take another indicator"
        )
    # Of more intervals than queries some lie between two of them; they join the one below.
    held = np.histogram(together, edges)[0] > 0
    edges = np.append(edges[:-1][held], edges[-1])
    places = {g: np.searchsorted(edges[1:-1], values[g], side="right") for g in relative}
    found = []
    for number, (low, high) in enumerate(pairwise(edges)):
        masks = {group: place == number for group, place in places.items()}
        chosen = losses.chosen(masks)
        rel_loss, band = bootstrap_band(chosen, losses.sign)
        found.append(
            LossBin(
                float(low),
                float(high),
                chosen.queries,
                {group: int(mask.sum()) for group, mask in masks.items()},
                rel_loss,
                band,
                _box(np.concatenate([relative[group][mask] for group, mask in masks.items()])),
            )
        )
    return BinnedLosses(
        losses.system,
        tuple(found),
        QUERIES_AND_SEEDS if losses.seeds > 1 else QUERIES_ONLY,
        slope_test(relative, values),
        control if difficulty is not None else "",
        None if difficulty is None else slope_test(relative, values, difficulty),
        fit_mixed_model(per_seed, values) if len(per_seed) >= FEWEST_GROUPS else None,
    )


def bootstrap_band(scores: GroupScores, sign: int) -> tuple[float | None, Interval | None]:
    """Return the Rel Loss of some queries, and its bootstrap band.

    Args:
        scores: the queries' scores.
        sign: -1 where lower is better.
    """
    inside, out = scores.inside.mean(axis=(0, 1)), scores.out.mean(axis=0)
    n = len(inside)
    avg_in = float(inside.mean()) if n else 0.0
    if not avg_in:
        return None, None
    rel_loss = sign * (avg_in - float(out.mean())) / avg_in
    if n < 2:
        return rel_loss, None
    random = np.random.default_rng(n)
    drawn = np.empty((BOOTSTRAP_SAMPLES, 2))
    both = np.column_stack([inside, out])
    for sample in range(BOOTSTRAP_SAMPLES):
        drawn[sample] = np.bincount(random.integers(0, n, n), minlength=n) @ both
    kept = drawn[drawn[:, 0] != 0]
    errors = sign * (kept[:, 0] - kept[:, 1]) / kept[:, 0]
    loss = shift_loss({"": scores}, higher_is_better=sign > 0).groups[""]
    found = loss.uncertainty
    if found is not None and found.seed_variance is not None and found.seed_df is not None:
        errors += np.sqrt(found.seed_variance) * random.standard_t(found.seed_df, len(errors))
    low, high = np.quantile(errors, [0.025, 0.975])
    return rel_loss, Interval(float(low), float(high))


def _box(losses: Floats) -> BoxPlot:
    first, median, third = (float(q) for q in np.quantile(losses, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    within = losses[(losses >= first - reach) & (losses <= third + reach)]
    return BoxPlot(
        float(within.min()),
        first,
        median,
        third,
        float(within.max()),
        float(losses.mean()),
        int(len(losses) - len(within)),
    )
