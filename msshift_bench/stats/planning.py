"""What a plan of queries and seeds can show, from the variances of systems that were trained.

The test of a Rel Loss is that of `stats.estimates`: it is significant where the estimate lies
further from 0 than a half width h, and h depends on the variance that the seeds at hand happen to
show, down to the floor of fixed models. With v_q and v_s for what queries and seeds add to the
variance under the plan, an estimate of a true loss d is normal around d with the variance v_q +
v_s, independent of the estimated v_s. That is v_s times a chi-squared variable over its degrees of
freedom. The chance to find d is therefore the mean, over quantiles of that variable, of

    Phi((d - h) / sqrt(v_q + v_s)) + Phi((-d - h) / sqrt(v_q + v_s)).

`detectable_loss` solves it for d. Unlike `stats.power`, it counts seeds, and assumes nothing of how
scores vary.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError
from msshift_bench.stats.estimates import Uncertainty
from msshift_bench.stats.power import POWER
from msshift_bench.stats.significance import SIGNIFICANT
from msshift_bench.stats.sums_of_t import Part

__all__ = ["detectable_loss", "more_seeds_to_halve"]

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

    if not is_enough(_MOST_SEEDS):
        return None
    low, high = known.seeds, _MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high - known.seeds


def _with_seeds(known: Uncertainty, seeds: int) -> Uncertainty:
    """Return the error with another number of seeds, at least 2."""
    factor = math.sqrt(known.seeds / seeds)
    trained = Part(known.trained.scale * factor, seeds - 1.0)
    return Uncertainty(known.queries, trained, seeds, known.noise * factor)


def detectable_loss(
    known: Uncertainty,
    *,
    planned_seeds: int | None = None,
    query_factor: float = 1.0,
    level: float = SIGNIFICANT,
    power: float = POWER,
) -> float | None:
    """Return the smallest Rel Loss that a test under a plan is likely to find.

    What seeds add, noise included, is taken to fall as 1 / seeds; more queries leave it as it is,
    which is cautious, since they average noise, too.

    Args:
        known: the error of a Rel Loss that was measured.
        planned_seeds: how many seeds the plan has, at least 2; by default as many as were
            measured. It takes an error that counts several seeds.
        query_factor: how many times as many test queries the plan has.
        level: the level of the two-sided test, strictly between 0 and 1.
        power: the chance to find the loss, strictly between 0 and 1.

    Returns:
        A fraction of Avg In; `None` if not even the loss of everything (1) would be found. If
        the error is that of a single seed, other seeds are not counted.

    Raises:
        UsageError: if a number is out of range, or the plan has seeds whose variance is not known.
    """
    if not query_factor > 0:
        raise UsageError(f"a plan has more than 0 times as many queries, not {query_factor}")
    for name, value in (("level", level), ("power", power)):
        if not 0 < value < 1:
            raise UsageError(f"the {name} lies strictly between 0 and 1, not {value}")
    if planned_seeds is not None:
        _check_plan(known, planned_seeds)
        known = _with_seeds(known, planned_seeds)
    queries = Part(known.queries.scale / math.sqrt(query_factor), known.queries.df * query_factor)
    deviation = math.hypot(queries.scale, known.trained.scale)
    if not deviation:
        return 0.0
    halves, weights = _half_widths(replace(known, queries=queries), 1 - level)

    def chance(loss: float) -> float:
        from scipy.special import ndtr

        either = ndtr((loss - halves) / deviation) + ndtr((-loss - halves) / deviation)
        return float(weights @ either)

    if chance(1.0) < power:
        return None
    low, high = 0.0, 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < power else (low, middle)
    return high


def _half_widths(planned: Uncertainty, confidence: float) -> tuple[Floats, Floats]:
    """Return half widths at quantiles of the estimated variance of seeds, and their weights."""
    scale, df = planned.trained
    if not scale:
        return np.array([planned.half_width(confidence)]), np.ones(1)
    from scipy.special import chdtri

    places, weights = np.polynomial.legendre.leggauss(_NODES)
    estimated = np.sqrt(chdtri(df, (1 - places) / 2) / df)
    widths = [
        replace(planned, trained=Part(scale * float(share), df)).half_width(confidence)
        for share in estimated
    ]
    return np.array(widths), weights / 2


def _check_plan(known: Uncertainty, seeds: int) -> None:
    """Raise if nothing is known of what other seeds add, or the plan does not count them."""
    if known.seeds < 2:
        raise UsageError(
            "a single seed does not say what other seeds add; train with at least two seeds to "
            "plan how many are enough"
        )
    if seeds < 2:
        raise UsageError(f"a plan that counts seeds has at least 2 of them, not {seeds}")
