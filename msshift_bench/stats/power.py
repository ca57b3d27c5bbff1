r"""What a test set can show: the smallest Rel Loss that a test on its queries is likely to find.

The difference of two scores with the standard deviation s that correlate at r varies over queries
with the standard deviation s \* sqrt(2 (1 - r)). A two-sided test of its mean over n queries, at
the level a and with the power b, finds a mean of

    (z[1 - a/2] + z[b]) * s * sqrt(2 (1 - r)) / sqrt(n)

(Cohen, Statistical Power Analysis, 1988, chapter 2, with the normal distribution in place of t; for
retrieval see Webber, Moffat and Zobel, CIKM 2008). In units of Avg In, that is a Rel Loss. Only the
choice of queries counts here: what other seeds add is known once models are trained.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from msshift_bench.errors import UsageError
from msshift_bench.stats.significance import SIGNIFICANT

__all__ = [
    "ASSUMED_CORRELATION",
    "ASSUMED_DEVIATION",
    "POWER",
    "PUBLISHED_LOSS",
    "detectable_rel_loss",
    "queries_to_detect",
]

ASSUMED_DEVIATION = 1.0
"""The standard deviation of a model's scores over queries, in units of Avg In."""

ASSUMED_CORRELATION = 0.8
"""The correlation over queries of Out with the in-domain models' scores."""

POWER = 0.8
"""The chance that a test finds the loss that is there."""

PUBLISHED_LOSS = 0.083
"""The median of the 40 Rel Losses in Tables 2 and 3 of MS-Shift (ECIR 2023)."""


def detectable_rel_loss(
    queries: int,
    *,
    deviation: float = ASSUMED_DEVIATION,
    correlation: float = ASSUMED_CORRELATION,
    level: float = SIGNIFICANT,
    power: float = POWER,
) -> float | None:
    """Return the smallest Rel Loss that a test on so many queries is likely to find.

    Args:
        queries: the number of test queries of a group, at least 0.
        deviation: the standard deviation of scores over queries, in units of Avg In; above 0.
        correlation: of Out with the in-domain models' scores, over queries; from -1 to below 1.
        level: the level of the two-sided test, strictly between 0 and 1.
        power: the chance to find the loss, strictly between 0 and 1.

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
    width = _width(deviation, correlation, level, power)
    return width / math.sqrt(queries) if queries and width**2 <= queries else None


def queries_to_detect(rel_loss: float) -> int:
    """Return how many test queries it takes to find a Rel Loss, by the assumptions above.

    Raises:
        UsageError: if it is not above 0 and at most 1.
    """
    if not 0 < rel_loss <= 1:
        raise UsageError(f"a Rel Loss to find is above 0 and at most 1, not {rel_loss}")
    width = _width(ASSUMED_DEVIATION, ASSUMED_CORRELATION, SIGNIFICANT, POWER)
    return math.ceil((width / rel_loss) ** 2)


def _width(deviation: float, correlation: float, level: float, power: float) -> float:
    """Return the mean difference that a single query would show, in units of Avg In."""
    if not deviation > 0:
        raise UsageError(f"the standard deviation is above 0, not {deviation}")
    if not -1 <= correlation < 1:
        raise UsageError(f"the correlation is from -1 to below 1, not {correlation}")
    for name, value in (("level", level), ("power", power)):
        if not 0 < value < 1:
            raise UsageError(f"the {name} lies strictly between 0 and 1, not {value}")
    normal = NormalDist()
    quantiles = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(power)
    return quantiles * deviation * math.sqrt(2 * (1 - correlation))
