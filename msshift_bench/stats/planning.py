r"""What a test set, and a plan of queries and seeds, can show.

Before anything is trained: the difference of two scores with the standard deviation s that
correlate at r varies over queries with the standard deviation s \* sqrt(2 (1 - r)). A two-sided
test of its mean over n queries, at the level a and with the power b, finds a mean of

    (z[1 - a/2] + z[b]) * s * sqrt(2 (1 - r)) / sqrt(n)

(Cohen, Statistical Power Analysis, 1988, chapter 2, with the normal distribution in place of t; for
retrieval see Webber, Moffat and Zobel, CIKM 2008). In units of Avg In, that is a Rel Loss. Only the
choice of queries counts there: what other seeds add is known once models are trained.

Once systems are trained: the test of a Rel Loss is that of `stats.estimates`: it is significant
where the estimate lies further from 0 than a half width h, and h depends on the variance that the
seeds at hand happen to show, down to the floor of fixed models. With v_q and v_s for what queries
and seeds add to the variance under the plan, an estimate of a true loss d is normal around d with
the variance v_q + v_s, independent of the estimated v_s. That is v_s times a chi-squared variable
over its degrees of freedom. The chance to find d is therefore the mean, over quantiles of that
variable, of

    Phi((d - h) / sqrt(v_q + v_s)) + Phi((-d - h) / sqrt(v_q + v_s)).

`detectable_loss` solves it for d. It counts seeds, and assumes nothing of how scores vary.
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
"""The chance that a test finds the loss that is there."""

PUBLISHED_LOSS = 0.083
"""The median of the 40 Rel Losses in Tables 2 and 3 of MS-Shift (ECIR 2023)."""

_NODES = 16
_PRECISION = 1e-5
_MOST_SEEDS = 1000


def more_seeds_to_halve(known: Uncertainty, confidence: float) -> int | None:
    """Return how many more seeds would make an interval half as wide.

    It assumes that the variance from seeds falls as 1 / seeds, and that from queries stays.

    Args:
        known: the error of an estimate of several seeds.
        confidence: the interval's confidence level.

    Returns:
        The smallest such number; `None` if there is none up to 1,000 seeds, because the queries
        alone make more than half of the width, or if there is a single seed.
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
    """Return the smallest Rel Loss that a two-sided test at 5% finds with the chance `POWER`.

    What seeds add, noise included, is taken to fall as 1 / seeds.

    Args:
        known: the error of a Rel Loss that was measured.
        planned_seeds: how many seeds the plan has, at least 2; by default as many as were
            measured. It takes an error that counts several seeds.

    Returns:
        A fraction of Avg In; `None` if not even the loss of everything (1) would be found. If
        the error is that of a single seed, other seeds are not counted.

    Raises:
        UsageError: if the plan has fewer than two seeds, or seeds whose variance is not known.
    """
    if planned_seeds is not None:
        if known.seeds < 2:
            raise UsageError(
                "a single seed does not say what other seeds add; train with at least two seeds to "
                "plan how many are enough"
            )
        if planned_seeds < 2:
            raise UsageError(
                f"a plan that counts seeds has at least 2 of them, not {planned_seeds}"
            )
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
    """Return the smallest Rel Loss that a test on so many queries is likely to find.

    The test is two-sided at 5%, and finds the loss with the chance `POWER`.

    Args:
        queries: the number of test queries of a group, at least 0.
        deviation: the standard deviation of scores over queries, in units of Avg In; above 0.
        correlation: of Out with the in-domain models' scores, over queries; from -1 to below 1.

    Returns:
        A fraction of Avg In, above 0 and at most 1; `None` if not even the loss of everything (1)
        would be found.

    Raises:
        UsageError: if a number is out of range.

    Examples:
        >>> for queries in (100, 1000):
        ...     print(round(detectable_rel_loss(queries), 3))
        0.177
        0.056
    """
    if queries < 0:
        raise UsageError(f"the number of test queries is at least 0, not {queries}")
    width = _width(deviation, correlation)
    return width / math.sqrt(queries) if queries and width**2 <= queries else None


def queries_to_detect(rel_loss: float) -> int:
    """Return how many test queries it takes to find a Rel Loss, by the assumptions above.

    Raises:
        UsageError: if it is not above 0 and at most 1.
    """
    if not 0 < rel_loss <= 1:
        raise UsageError(f"a Rel Loss to find is above 0 and at most 1, not {rel_loss}")
    return math.ceil((_width(ASSUMED_DEVIATION, ASSUMED_CORRELATION) / rel_loss) ** 2)


def _width(deviation: float, correlation: float) -> float:
    """Return the mean difference that a single query would show, in units of Avg In."""
    if not deviation > 0:
        raise UsageError(f"the standard deviation is above 0, not {deviation}")
    if not -1 <= correlation < 1:
        raise UsageError(f"the correlation is from -1 to below 1, not {correlation}")
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - SIGNIFICANT / 2) + normal.inv_cdf(POWER)
    return quantiles * deviation * math.sqrt(2 * (1 - correlation))
