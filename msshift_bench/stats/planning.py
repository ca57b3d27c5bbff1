r"""Planning: the smallest losses that a test set, or a number of seeds, can show.

Before training: if two scores have the standard deviation s and the correlation r, their difference
has the standard deviation s \* sqrt(2 (1 - r)) over queries. A two-sided test of its mean over n
queries, at the level a and with the power b, finds a mean of

    (z[1 - a/2] + z[b]) * s * sqrt(2 (1 - r)) / sqrt(n)

(Cohen, Statistical Power Analysis, 1988, chapter 2, with the normal distribution in place of t; for
retrieval see Webber, Moffat and Zobel, CIKM 2008). In units of Avg In, that is a Rel Loss. This
counts the choice of queries only: the variance of seeds is not known before training.

After training: a Rel Loss is significant, by the test of `stats.estimates`, if the estimate is
further from 0 than a half width h. h depends on the estimated variance of seeds, and is at least
the half width with fixed models. Let v_q and v_s be the parts of queries and seeds in the variance
under the plan. The estimate of a true loss d is normal around d with the variance v_q + v_s,
independent of the estimated v_s. The estimated v_s is v_s times a chi-squared variable over its
degrees of freedom. The probability to find d is therefore the mean, over quantiles of that
variable, of

    Phi((d - h) / sqrt(v_q + v_s)) + Phi((-d - h) / sqrt(v_q + v_s)).

`detectable_loss` solves it for d. It counts seeds, and makes no assumption on the distribution of
scores.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError
from msshift_bench.stats.estimates import Part, Uncertainty
from msshift_bench.stats.figures import SIGNIFICANT

ASSUMED_DEVIATION = 1.0
"""The standard deviation of a model's scores over queries, in units of Avg In."""

ASSUMED_CORRELATION = 0.8
"""The correlation over queries of Out with the in-domain models' scores."""

POWER = 0.8
"""The probability that a test finds a true loss."""

PUBLISHED_LOSS = 0.083
"""The median of the 40 Rel Losses in Tables 2 and 3 of MS-Shift (ECIR 2023)."""

_NODES = 16
_PRECISION = 1e-5
_MOST_SEEDS = 1000


def more_seeds_to_halve(known: Uncertainty, confidence: float) -> int | None:
    """Return the number of additional seeds that would halve an interval.

    It assumes that the variance from seeds falls as 1 / seeds, and the variance from queries stays.

    Args:
        known: the error of an estimate of several seeds.
        confidence: the interval's confidence level.

    Returns:
        The smallest such number; `None` if a total of 1,000 seeds is too few, because queries alone
        make more than half of the width, or below 2 known seeds.
    """
    if known.seeds < 2:
        return None
    half = known.half_width(confidence) / 2

    def is_enough(seeds: int) -> bool:
        return _with_seeds(known, seeds).half_width(confidence) <= half

    more = range(known.seeds + 1, _MOST_SEEDS + 1)
    place = bisect.bisect_left(more, True, key=is_enough)
    return place + 1 if place < len(more) else None


def _with_seeds(known: Uncertainty, seeds: int) -> Uncertainty:
    """Return the error with another number of seeds, at least 2."""
    factor = math.sqrt(known.seeds / seeds)
    return Uncertainty(
        known.queries, Part(known.trained.scale * factor, seeds - 1.0), seeds, known.noise * factor
    )


def detectable_loss(known: Uncertainty, *, planned_seeds: int | None = None) -> float | None:
    """Return the smallest Rel Loss that a two-sided test at 5% finds with probability `POWER`.

    It assumes that the variance from seeds, noise included, falls as 1 / seeds.

    Args:
        known: the error of a measured Rel Loss.
        planned_seeds: the number of seeds of the plan, at least 2; by default the measured number.
            It needs an error that counts several seeds.

    Returns:
        A fraction of Avg In; 0 if nothing varies; `None` if not even a loss of 1 would be found.
        With the error of a single seed, other seeds are not counted.

    Raises:
        UsageError: if the plan has fewer than two seeds, or the variance of seeds is not known.
    """
    if planned_seeds is not None:
        if known.seeds < 2:
            raise UsageError(
                "a single seed gives no variance of seeds; train with at least two seeds to plan "
                "their number"
            )
        if planned_seeds < 2:
            raise UsageError(f"the number of planned seeds must be at least 2, got {planned_seeds}")
        known = _with_seeds(known, planned_seeds)
    deviation = math.hypot(known.queries.scale, known.trained.scale)
    if not deviation:
        return 0.0
    halves, weights = _half_widths(known, 1 - SIGNIFICANT)

    def chance(loss: float) -> float:
        from scipy.special import ndtr

        return float(
            weights @ (ndtr((loss - halves) / deviation) + ndtr((-loss - halves) / deviation))
        )

    if chance(1.0) < POWER:
        return None
    low, high = 0.0, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < POWER else (low, middle)
    return high


def _half_widths(planned: Uncertainty, confidence: float) -> tuple[Floats, Floats]:
    """Return half widths at quantiles of the estimated variance of seeds, and their weights."""
    scale, df = planned.trained
    if not scale:
        return np.array([planned.half_width(confidence)]), np.ones(1)
    from scipy.special import chdtri

    places, weights = np.polynomial.legendre.leggauss(_NODES)
    widths = [
        replace(planned, trained=Part(scale * float(share), df)).half_width(confidence)
        for share in np.sqrt(chdtri(df, (1 - places) / 2) / df)
    ]
    return np.array(widths), weights / 2


def detectable_rel_loss(
    queries: int, *, deviation: float = ASSUMED_DEVIATION, correlation: float = ASSUMED_CORRELATION
) -> float | None:
    """Return the smallest Rel Loss that a test on `queries` queries is likely to find.

    The test is two-sided at 5%, and finds the loss with probability `POWER`.

    Args:
        queries: the number of test queries of a group, at least 0.
        deviation: the standard deviation of scores over queries, in units of Avg In; above 0.
        correlation: of Out with the in-domain models' scores, over queries; from -1 to below 1.

    Returns:
        A fraction of Avg In, above 0 and at most 1; `None` if not even a loss of 1 would be found,
        e.g. without queries.

    Raises:
        UsageError: if a number is out of range.

    Examples:
        >>> for queries in (100, 1000):
        ...     print(round(detectable_rel_loss(queries), 3))
        0.177
        0.056
    """
    if queries < 0:
        raise UsageError(f"the number of test queries must be at least 0, got {queries}")
    width = _width(deviation, correlation)
    return width / math.sqrt(queries) if queries and width**2 <= queries else None


def queries_to_detect(rel_loss: float) -> int:
    """Return the number of test queries needed to find a Rel Loss; see `detectable_rel_loss`.

    Raises:
        UsageError: if it is not above 0 and at most 1.
    """
    if not 0 < rel_loss <= 1:
        raise UsageError(f"a Rel Loss to find must be above 0 and at most 1, got {rel_loss}")
    return math.ceil((_width(ASSUMED_DEVIATION, ASSUMED_CORRELATION) / rel_loss) ** 2)


def _width(deviation: float, correlation: float) -> float:
    """Return the difference detectable with a single query, in units of Avg In."""
    if not deviation > 0:
        raise UsageError(f"the standard deviation must be above 0, got {deviation}")
    if not -1 <= correlation < 1:
        raise UsageError(f"the correlation must be from -1 to below 1, got {correlation}")
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - SIGNIFICANT / 2) + normal.inv_cdf(POWER)
    return quantiles * deviation * math.sqrt(2 * (1 - correlation))
