"""What a system loses on a held-out group: Avg In, Out and Rel Loss, with intervals and tests.

The setting (MS-Shift, section 3.2): the test queries of a group were answered by the in-domain
models, each trained without some *other* group, and by the held-out model, trained without this
one. All answered the same queries, so everything here is paired by query:

- Avg In is the mean over the in-domain models of their mean score (MRR@10 and the like),
- Out is the mean score of the held-out model,
- Loss is Avg In - Out (Out - Avg In for a measure where lower is better: positive is worse),
- Rel Loss is Loss / Avg In.

Intervals and p-values are one inference (`stats.uncertainty`). Pure functions on arrays;
nothing is drawn, read or written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from numpy.typing import ArrayLike

from msshift_bench.errors import UsageError
from msshift_bench.stats.average_loss import AverageLoss, LossesPerSeed, average_loss
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.inference import Inference
from msshift_bench.stats.significance import SIGNIFICANT, PairedTests, adjust, paired_tests
from msshift_bench.stats.uncertainty import Interval, Uncertainty

__all__ = [
    "GroupLoss",
    "LossIntervals",
    "OverallLoss",
    "ShiftLoss",
    "Spread",
    "group_loss",
    "shift_loss",
]


@dataclass(frozen=True, slots=True)
class LossIntervals:
    """Confidence intervals of the four figures of a loss, and what they count.

    Attributes:
        avg_in: the interval of Avg In.
        out: the interval of Out.
        loss: the interval of the difference of the two.
        rel_loss: the interval of Rel Loss; `None` if that is undefined.
        confidence: the confidence level, e.g. 0.95.
        counts: "queries and seeds", or "queries only" for a single seed.
    """

    avg_in: Interval
    out: Interval
    loss: Interval
    rel_loss: Interval | None
    confidence: float
    counts: str


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


@dataclass(frozen=True, slots=True, repr=False)
class GroupLoss:
    """What a system loses on one group. All figures are on the scale of the measure.

    Attributes:
        avg_in: mean over in-domain models, seeds and queries; NaN without queries.
        out: mean over the held-out model's seeds and queries; NaN without queries.
        loss: difference of the two, positive where the held-out model is worse.
        rel_loss: `loss` / `avg_in`, a fraction; `None` if `avg_in` is 0 or there are no queries.
        queries: number of test queries.
        models: number of in-domain models.
        seeds: number of replicates; with 1, nothing here counts other seeds.
        p: two-sided p-value of "Rel Loss is 0", not corrected; it agrees with
            `intervals.rel_loss`. `None` below 2 queries, or if Rel Loss is undefined.
        tests: the paper's paired t-test, which counts queries only, and the effect size.
        intervals: `None` below 2 queries.
        uncertainty: the uncertainty of Rel Loss; `None` if `p` has none.
        spread: over seeds; `None` for a single seed.
    """

    avg_in: float
    out: float
    loss: float
    rel_loss: float | None
    queries: int
    models: int
    seeds: int
    p: float | None
    tests: PairedTests
    intervals: LossIntervals | None
    uncertainty: Uncertainty | None
    spread: Spread | None

    def __repr__(self) -> str:
        return _brief(self)


@dataclass(frozen=True, slots=True, repr=False)
class OverallLoss:
    """What a system loses on a shift, averaged over its groups.

    Attributes:
        average: how groups are averaged, a key of `AVERAGES`.
        avg_in: the average of Avg In.
        out: the average of Out.
        loss: the average loss.
        rel_loss: ``macro``: the mean of the groups' Rel Losses (not the ratio of the two means
            above), `None` if one group has none; ``pooled``: `loss` / `avg_in`.
        seeds: number of replicates.
        p: as for a group, of the average; one test, so not corrected.
        intervals: `None` if a group has fewer than 2 queries.
        uncertainty: the uncertainty of the average Rel Loss.
        spread: over seeds, of the averages; `None` for a single seed.
        seed_variance: how the variance from seeds was estimated, a key of `SEED_VARIANCES`.
        correction: the name of the correction across the groups, a key of `CORRECTIONS`.
        adjusted_p: group -> corrected `p`, without the groups that have none.
    """

    average: str
    avg_in: float
    out: float
    loss: float
    rel_loss: float | None
    seeds: int
    p: float | None
    intervals: LossIntervals | None
    uncertainty: Uncertainty | None
    spread: Spread | None
    seed_variance: str
    correction: str
    adjusted_p: Mapping[str, float]

    def __repr__(self) -> str:
        return _brief(self)

    def is_significant(self, group: str) -> bool:
        """Whether a group's loss is significant; with a single seed it never is."""
        return self.seeds > 1 and self.adjusted_p.get(group, 1.0) <= SIGNIFICANT


@dataclass(frozen=True, slots=True, repr=False)
class ShiftLoss(OverallLoss):
    """What a system loses on a shift: on average, and on each group.

    Attributes:
        groups: the groups' own results, in the order given.
    """

    groups: Mapping[str, GroupLoss]


def _brief(loss: GroupLoss | OverallLoss) -> str:
    rel_loss = "undefined" if loss.rel_loss is None else f"{loss.rel_loss:.4f}"
    figures = f"avg_in {loss.avg_in:.4f}, out {loss.out:.4f}, rel_loss {rel_loss}"
    return f"<{type(loss).__name__}: {figures}, seeds {loss.seeds}>"


def _spread(per_seed: LossesPerSeed) -> Spread | None:
    if len(per_seed.loss) < 2:
        return None
    avg_in, out, loss, rel_loss = (float(values.std(ddof=1)) for values in per_seed)
    return Spread(avg_in, out, loss, _or_none(rel_loss), _or_none(float(per_seed.rel_loss.mean())))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


class _Known(NamedTuple):
    """The statistics of figures beyond their values, by the names of the results' fields."""

    intervals: LossIntervals | None = None
    uncertainty: Uncertainty | None = None
    p: float | None = None

    @classmethod
    def of(cls, found: AverageLoss, confidence: float) -> _Known:
        point = found.point
        known = {figure: one.uncertainty() for figure, one in found.contributions.items()}
        intervals = {
            figure: one.interval(getattr(point, figure), confidence)
            for figure, one in known.items()
            if one is not None
        }
        avg_in, rel_loss = known.get("avg_in"), known.get("rel_loss")
        if avg_in is None:
            return cls()
        return cls(
            LossIntervals(
                intervals["avg_in"],
                intervals["out"],
                intervals["loss"],
                intervals.get("rel_loss"),
                confidence,
                avg_in.counts,
            ),
            rel_loss,
            None
            if rel_loss is None or point.rel_loss is None
            else rel_loss.p_value(point.rel_loss),
        )


def group_loss(
    inside: ArrayLike,
    out: ArrayLike,
    inference: Inference | None = None,
    *,
    higher_is_better: bool = True,
) -> GroupLoss:
    """Return what a system loses on one group when the group is held out of training.

    Args:
        inside: the in-domain models' per-query scores, ``[models, queries]``, or
            ``[seeds, models, queries]`` with replicates.
        out: the held-out model's, ``[queries]`` or ``[seeds, queries]``, in the same order.
        inference: how the intervals and the p-value are made.
        higher_is_better: false for ASL and the like; positive losses are worse either way.

    Raises:
        UsageError: on scores that `GroupScores` refuses.
    """
    return _group_loss(GroupScores(inside, out), inference or Inference(), higher_is_better)


def _group_loss(scores: GroupScores, inference: Inference, higher_is_better: bool) -> GroupLoss:
    found = average_loss(
        {"": scores}, higher_is_better=higher_is_better, seed_variance=inference.seed_variance
    )
    sign = 1 if higher_is_better else -1
    return GroupLoss(
        **found.point._asdict(),
        queries=scores.queries,
        models=scores.models,
        seeds=scores.seeds,
        tests=paired_tests(sign * scores.differences()),
        spread=_spread(found.per_seed),
        **_Known.of(found, inference.confidence)._asdict(),
    )


def shift_loss(
    groups: Mapping[str, GroupScores],
    inference: Inference | None = None,
    *,
    higher_is_better: bool = True,
) -> ShiftLoss:
    """Return what a system loses on each group of a shift and on average.

    The interval of a macro average samples each group's queries separately (queries that two groups
    share, a handful in ``wh-words``, count as two). A seed's models are the same for all groups, so
    that their effects on different groups may cancel.

    Args:
        groups: group -> scores; all groups with the same number of seeds.
        inference: how groups are averaged, and intervals and p-values made.
        higher_is_better: as for `group_loss`.

    Raises:
        UsageError: if there is no group, or groups differ in their number of seeds; and as for
            `group_loss`.
    """
    inference = inference or Inference()
    seeds = {scores.seeds for scores in groups.values()}
    if len(seeds) != 1:
        counts = {group: scores.seeds for group, scores in groups.items()}
        raise UsageError(f"the groups of a shift have the same number of seeds; got {counts}")
    results = {
        group: _group_loss(scores, inference, higher_is_better) for group, scores in groups.items()
    }
    average = inference.average or "macro"
    found = average_loss(
        groups,
        higher_is_better=higher_is_better,
        average=average,
        seed_variance=inference.seed_variance,
    )
    p_values = {group: result.p for group, result in results.items()}
    return ShiftLoss(
        groups=results,
        average=average,
        **found.point._asdict(),
        seeds=seeds.pop(),
        spread=_spread(found.per_seed),
        seed_variance=inference.seed_variance,
        correction=inference.correction,
        adjusted_p=adjust(p_values, inference.correction),
        **_Known.of(found, inference.confidence)._asdict(),
    )
