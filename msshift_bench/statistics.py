"""What a system loses on a held-out group: Avg In, Out, Rel Loss, with tests and intervals.

The setting (MS-Shift, section 3.2): the test queries of a group were answered by the in-domain
models, each trained without some *other* group, and by the held-out model, trained without this
one. All answered the same queries, so everything here is paired by query:

- Avg In is the mean over the in-domain models of their mean score (MRR@10 and the like),
- Out is the mean score of the held-out model,
- Loss is Avg In - Out (Out - Avg In for a measure where lower is better: positive is worse),
- Rel Loss is Loss / Avg In.

Intervals are bootstrap percentile intervals over queries (and seeds, see `group_loss`);
``benchmarks/coverage_simulation.py`` measures how often they hold the truth. Pure functions on
arrays; nothing is read or written. Queries belong in one fixed order (by ``query_id``): point
estimates do not depend on it, draws do, within Monte Carlo error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msshift_bench.errors import UsageError
from msshift_bench.resampling import GroupScores, Interval, draw_losses, percentile_interval
from msshift_bench.significance import PairedTests, adjust, paired_tests

__all__ = [
    "Figures",
    "GroupLoss",
    "Intervals",
    "ShiftLoss",
    "Spread",
    "check_resampling",
    "figures",
    "group_loss",
    "shift_loss",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Intervals:
    """Bootstrap percentile intervals, and what it takes to draw them again.

    Attributes:
        avg_in: of Avg In.
        out: of Out.
        loss: of the difference of the two.
        rel_loss: of Rel Loss; `None` if Avg In is 0 in some resample, where it is undefined.
        confidence: e.g. 0.95.
        resamples: how many resamples were drawn.
        seed: the seed of the resampling; no relation to the seeds of the models.
    """

    avg_in: Interval
    out: Interval
    loss: Interval
    rel_loss: Interval | None
    confidence: float
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations over seeds (n - 1 in the denominator), each of the per-seed values.

    Attributes:
        rel_loss: `None` if Avg In is 0 for some seed.
        mean_rel_loss: the mean of the per-seed Rel Losses. It differs slightly from `rel_loss` of
            the result, which is the ratio of the means over seeds; `None` where `rel_loss` is.
    """

    avg_in: float
    out: float
    loss: float
    rel_loss: float | None
    mean_rel_loss: float | None


@dataclass(frozen=True, slots=True)
class GroupLoss:
    """What a system loses on one group. All figures are on the scale of the measure.

    Attributes:
        avg_in: mean over in-domain models, seeds and queries; NaN without queries.
        out: mean over the held-out model's seeds and queries; NaN without queries.
        loss: difference of the two, positive where the held-out model is worse.
        rel_loss: `loss` / `avg_in`, a fraction; `None` if `avg_in` is 0 or there are no queries.
        queries: number of test queries.
        models: number of in-domain models.
        seeds: number of replicates; 1 is a single seed, and nothing here speaks of other seeds.
        tests: paired tests and the effect size.
        intervals: `None` below 2 queries, or if no resamples were asked for.
        spread: over seeds; `None` for a single seed.
    """

    avg_in: float
    out: float
    loss: float
    rel_loss: float | None
    queries: int
    models: int
    seeds: int
    tests: PairedTests
    intervals: Intervals | None
    spread: Spread | None


@dataclass(frozen=True, slots=True)
class ShiftLoss:
    """What a system loses on a shift: the macro average over its groups, each counting alike.

    Attributes:
        groups: the groups' own results, in the order given.
        avg_in: mean of the groups' Avg In.
        out: mean of the groups' Out.
        loss: mean of the groups' losses.
        rel_loss: mean of the groups' Rel Losses (not the ratio of the two means above); `None` if
            one group has none.
        seeds: number of replicates.
        intervals: queries resampled within each group; `None` if one group has none.
        spread: over seeds, of the macro averages; `None` for a single seed.
        correction: the name of the correction across the groups, a key of `CORRECTIONS`.
        adjusted_t_p: group -> corrected `t_p`, without the groups that have none.
        adjusted_permutation_p: group -> corrected `permutation_p`, likewise.
    """

    groups: Mapping[str, GroupLoss]
    avg_in: float
    out: float
    loss: float
    rel_loss: float | None
    seeds: int
    intervals: Intervals | None
    spread: Spread | None
    correction: str
    adjusted_t_p: Mapping[str, float]
    adjusted_permutation_p: Mapping[str, float]


def check_resampling(resamples: int, confidence: float) -> None:
    """Refuse a negative number of resamples, or a confidence not strictly between 0 and 1.

    Raises:
        UsageError: which of the two it was.
    """
    if resamples < 0:
        raise UsageError(f"the number of resamples is at least 0, not {resamples}")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence lies strictly between 0 and 1, not {confidence}")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


class Figures(NamedTuple):
    """The four figures of a loss, each of shape ``[seeds]`` or ``[resamples]``."""

    avg_in: Floats
    out: Floats
    loss: Floats
    rel_loss: Floats


def figures(avg_in: Floats, out: Floats, sign: int) -> Figures:
    """Return the losses of `avg_in` and `out`; NaN for Rel Loss where Avg In is 0.

    Args:
        avg_in: shape ``[anything]``.
        out: the same shape.
        sign: 1 for a measure where higher is better, -1 where lower is.
    """
    loss = sign * (avg_in - out)
    rel_loss = np.divide(loss, avg_in, out=np.full_like(loss, np.nan), where=avg_in != 0)
    return Figures(avg_in, out, loss, rel_loss)


def _intervals(draws: Figures, confidence: float, seed: int) -> Intervals:
    avg_in, out, loss = (percentile_interval(values, confidence) for values in draws[:3])
    defined = not np.isnan(draws.rel_loss).any()
    rel_loss = percentile_interval(draws.rel_loss, confidence) if defined else None
    return Intervals(avg_in, out, loss, rel_loss, confidence, len(draws.loss), seed)


def _spread(per_seed: Figures) -> Spread | None:
    if len(per_seed.loss) < 2:
        return None
    avg_in, out, loss, rel_loss = (float(values.std(ddof=1)) for values in per_seed)
    return Spread(avg_in, out, loss, _or_none(rel_loss), _or_none(float(per_seed.rel_loss.mean())))


def _macro(groups: Sequence[Figures]) -> Figures:
    """Average each figure over groups; Rel Loss is the mean of Rel Losses."""
    return Figures(*(np.mean(np.stack(columns), axis=0) for columns in zip(*groups, strict=True)))


class _Evaluated(NamedTuple):
    """One group's result, with what a macro average needs beside it."""

    result: GroupLoss
    per_seed: Figures
    draws: Figures | None


def _evaluate(
    scores: GroupScores,
    *,
    group: str,
    system: str,
    higher_is_better: bool,
    resamples: int,
    seed: int,
    confidence: float,
) -> _Evaluated:
    sign = 1 if higher_is_better else -1
    per_seed = figures(*scores.per_seed(), sign)
    avg_in, out = float(per_seed.avg_in.mean()), float(per_seed.out.mean())
    loss = sign * (avg_in - out)
    draws = None
    if resamples and scores.queries > 1:
        drawn = draw_losses({system: scores}, group=group, resamples=resamples, seed=seed)
        draws = figures(*drawn[system], sign)
    differences = sign * scores.differences()
    result = GroupLoss(
        avg_in=avg_in,
        out=out,
        loss=loss,
        rel_loss=loss / avg_in if scores.queries and avg_in else None,
        queries=scores.queries,
        models=scores.models,
        seeds=scores.seeds,
        tests=paired_tests(differences, resamples=resamples, seed=seed, group=group),
        intervals=draws and _intervals(draws, confidence, seed),
        spread=_spread(per_seed),
    )
    return _Evaluated(result, per_seed, draws)


def group_loss(
    inside: ArrayLike,
    out: ArrayLike,
    *,
    higher_is_better: bool = True,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    group: str = "",
    system: str = "",
) -> GroupLoss:
    """Return what a system loses on one group when the group is held out of training.

    Args:
        inside: the in-domain models' per-query scores, ``[models, queries]``, or
            ``[seeds, models, queries]`` with replicates.
        out: the held-out model's, ``[queries]`` or ``[seeds, queries]``, in the same order.
        higher_is_better: false for ASL and the like; positive losses are worse either way.
        resamples: bootstrap resamples of queries (and of seeds, see `draw_losses`), and sign
            patterns of the permutation test; 0 asks for neither.
        seed: of both; equal seeds give equal results on every machine.
        confidence: of the intervals.
        group: the group's name, part of the seeding, so that the groups of a shift are resampled
            independently and a group alone gives what it gives within `shift_loss`.
        system: the system's name, part of the seeding of resampled seeds.

    Raises:
        UsageError: on scores that `GroupScores` refuses, a negative seed or number of resamples,
            or a confidence that is not strictly between 0 and 1.
    """
    check_resampling(resamples, confidence)
    return _evaluate(
        GroupScores(inside, out),
        group=group,
        system=system,
        higher_is_better=higher_is_better,
        resamples=resamples,
        seed=seed,
        confidence=confidence,
    ).result


def shift_loss(
    groups: Mapping[str, GroupScores],
    *,
    higher_is_better: bool = True,
    resamples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    correction: str = "holm",
    system: str = "",
) -> ShiftLoss:
    """Return what a system loses on each group of a shift and, as macro averages, on the whole.

    The interval of a macro average resamples the queries of each group independently of the other
    groups' (queries that two groups share, a handful in ``wh-words``, are taken as two), and the
    seeds alike for all groups.

    Args:
        groups: group -> scores; all groups with the same number of seeds.
        higher_is_better: as for `group_loss`, like the next three.
        resamples: see there.
        seed: see there.
        confidence: see there.
        correction: of the tests across the groups, a key of `CORRECTIONS`.
        system: the system's name, part of the seeding of resampled seeds.

    Raises:
        UsageError: if there is no group, or groups differ in their number of seeds; and as for
            `group_loss`.
        UnknownNameError: if there is no such correction.
    """
    check_resampling(resamples, confidence)
    seeds = {scores.seeds for scores in groups.values()}
    if len(seeds) != 1:
        counts = {group: scores.seeds for group, scores in groups.items()}
        raise UsageError(f"the groups of a shift have the same number of seeds; got {counts}")
    evaluated = {
        group: _evaluate(
            scores,
            group=group,
            system=system,
            higher_is_better=higher_is_better,
            resamples=resamples,
            seed=seed,
            confidence=confidence,
        )
        for group, scores in groups.items()
    }
    results = {group: one.result for group, one in evaluated.items()}
    rel_losses = [result.rel_loss for result in results.values()]
    defined = [value for value in rel_losses if value is not None]
    draws = [one.draws for one in evaluated.values() if one.draws is not None]
    t_p = {group: result.tests.t_p for group, result in results.items()}
    permutation_p = {group: result.tests.permutation_p for group, result in results.items()}
    return ShiftLoss(
        groups=results,
        avg_in=_mean([result.avg_in for result in results.values()]),
        out=_mean([result.out for result in results.values()]),
        loss=_mean([result.loss for result in results.values()]),
        rel_loss=_mean(defined) if len(defined) == len(results) else None,
        seeds=seeds.pop(),
        intervals=(
            _intervals(_macro(draws), confidence, seed) if len(draws) == len(results) else None
        ),
        spread=_spread(_macro([one.per_seed for one in evaluated.values()])),
        correction=correction,
        adjusted_t_p=adjust(t_p, correction),
        adjusted_permutation_p=adjust(permutation_p, correction),
    )
