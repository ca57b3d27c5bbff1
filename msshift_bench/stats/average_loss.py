"""Avg In, Out, Loss and Rel Loss of one group or of several, with each query's contribution.

All four are functions of two means. The delta method gives, to first order, what every query and
seed contributes to them; `stats.uncertainty` turns the contributions into intervals and p-values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.uncertainty import Contributions, PooledSeeds

__all__ = ["AverageLoss", "LossesPerSeed", "Point", "average_loss"]


class LossesPerSeed(NamedTuple):
    """The four figures of a loss, each of shape ``[seeds]``; Rel Loss is NaN where Avg In is 0."""

    avg_in: Floats
    out: Floats
    loss: Floats
    rel_loss: Floats

    @classmethod
    def of(cls, avg_in: Floats, out: Floats, sign: int) -> LossesPerSeed:
        """Return the losses of `avg_in` and `out`; `sign` is -1 where lower is better."""
        loss = sign * (avg_in - out)
        rel_loss = np.divide(loss, avg_in, out=np.full_like(loss, np.nan), where=avg_in != 0)
        return cls(avg_in, out, loss, rel_loss)


class Point(NamedTuple):
    """Avg In, Out and their losses over all seeds; `None` for a Rel Loss that is undefined."""

    avg_in: float
    out: float
    loss: float
    rel_loss: float | None

    @classmethod
    def of(cls, avg_in: float, out: float, sign: int) -> Point:
        """Return the losses of `avg_in` and `out`; `sign` is -1 where lower is better."""
        loss = sign * (avg_in - out)
        defined = avg_in and not math.isnan(avg_in)
        return cls(avg_in, out, loss, loss / avg_in if defined else None)

    @classmethod
    def mean(cls, points: Sequence[Point]) -> Point:
        """Return the mean of each figure; of Rel Loss only if all are defined."""
        rel_losses = [point.rel_loss for point in points if point.rel_loss is not None]
        n = len(points)
        return cls(
            math.fsum(point.avg_in for point in points) / n,
            math.fsum(point.out for point in points) / n,
            math.fsum(point.loss for point in points) / n,
            math.fsum(rel_losses) / n if len(rel_losses) == n else None,
        )


class AverageLoss(NamedTuple):
    """The loss of one group, or the average of several.

    Attributes:
        point: the figures.
        per_seed: the same for each seed.
        contributions: figure -> what queries and seeds contribute to it; without Rel Loss if that
            is undefined, and empty if a group has no query.
    """

    point: Point
    per_seed: LossesPerSeed
    contributions: Mapping[str, Contributions]


class _Weights(NamedTuple):
    """The weights of the in-domain mean and the held-out score in a figure, to first order."""

    inside: float
    out: float

    def times(self, factor: float) -> _Weights:
        return _Weights(factor * self.inside, factor * self.out)

    def of(self, scores: GroupScores) -> Floats:
        """Return each seed's and query's contribution, ``[seeds, queries]``."""
        return np.asarray(self.inside * scores.inside.mean(axis=1) + self.out * scores.out)

    def scale(self, scores: GroupScores) -> float:
        return max(abs(self.inside), abs(self.out)) * scores.largest


def average_loss(
    groups: Mapping[str, GroupScores],
    *,
    higher_is_better: bool = True,
    average: str = "macro",
    seed_variance: str = "own",
    figures: Sequence[str] = LossesPerSeed._fields,
) -> AverageLoss:
    """Return the average loss over groups; for a single group, its own loss.

    Args:
        groups: group -> scores, all with the same number of seeds; at least one group.
        higher_is_better: false for ASL and the like.
        average: a key of `stats.inference.AVERAGES`.
        seed_variance: a key of `stats.inference.SEED_VARIANCES`.
        figures: those whose contributions are wanted.

    Raises:
        UsageError: if `seed_variance` is ``pooled`` and some group lacks a model.
    """
    sign = 1 if higher_is_better else -1
    per_seed = {group: scores.per_seed() for group, scores in groups.items()}
    if average == "pooled":
        queries = max(sum(scores.queries for scores in groups.values()), 1)
        shares = {group: scores.queries / queries for group, scores in groups.items()}
        avg_in, out = (
            np.sum([shares[group] * means[end] for group, means in per_seed.items()], axis=0)
            for end in (0, 1)
        )
        point = Point.of(float(avg_in.mean()), float(out.mean()), sign)
        per_seed_losses = LossesPerSeed.of(avg_in, out, sign)
        weights = dict.fromkeys(groups, _weights(point, sign))
    else:
        shares = dict.fromkeys(groups, 1 / len(groups))
        points = {
            group: Point.of(float(avg_in.mean()), float(out.mean()), sign)
            for group, (avg_in, out) in per_seed.items()
        }
        point = Point.mean(list(points.values()))
        each = [LossesPerSeed.of(*means, sign) for means in per_seed.values()]
        per_seed_losses = LossesPerSeed(
            *(np.mean(np.stack(one), axis=0) for one in zip(*each, strict=True))
        )
        weights = {group: _weights(own, sign) for group, own in points.items()}
    contributions = {}
    for figure in figures:
        of_figure = {g: own[figure] for g, own in weights.items() if figure in own}
        if len(of_figure) == len(groups) and all(scores.queries for scores in groups.values()):
            contributions[figure] = _contributions(
                groups, of_figure, shares, together=average == "pooled", seed_variance=seed_variance
            )
    return AverageLoss(point, per_seed_losses, contributions)


def _weights(point: Point, sign: int) -> dict[str, _Weights]:
    """Return figure -> its weights (the delta method for the ratio); Rel Loss if it is defined."""
    weights = {"avg_in": _Weights(1, 0), "out": _Weights(0, 1), "loss": _Weights(sign, -sign)}
    if point.rel_loss is not None:
        weights["rel_loss"] = _Weights((sign - point.rel_loss) / point.avg_in, -sign / point.avg_in)
    return weights


def _contributions(
    groups: Mapping[str, GroupScores],
    weights: Mapping[str, _Weights],
    shares: Mapping[str, float],
    *,
    together: bool,
    seed_variance: str,
) -> Contributions:
    """Return what all groups' queries contribute, sampled together or separately by group."""
    if together:
        strata = [np.concatenate([weights[g].of(scores) for g, scores in groups.items()], axis=1)]
    else:
        strata = [weights[g].times(shares[g]).of(scores) for g, scores in groups.items()]
    scale = max(weights[group].scale(scores) for group, scores in groups.items())
    pooled = None
    if seed_variance == "pooled" and len(strata[0]) > 1:
        pooled = _pooled_seeds(groups, {g: weights[g].times(shares[g]) for g in groups})
    return Contributions.of(strata, scale, pooled)


def _pooled_seeds(
    groups: Mapping[str, GroupScores], weights: Mapping[str, _Weights]
) -> PooledSeeds:
    """Pool the models' variance over seeds; it assumes that they vary alike and independently.

    On one group, every model's mean has the same variance. Over several groups, every model's part
    of the average has, which sums its in-domain and its held-out scores.
    """
    names = list(groups)
    first = groups[names[0]]
    if len(names) == 1:
        (own,) = weights.values()
        means = np.concatenate([first.inside.mean(axis=2), first.out.mean(axis=1)[:, None]], axis=1)
        variance = float(means.var(axis=0, ddof=1).mean())
        variance *= own.inside**2 / first.models + own.out**2
        return PooledSeeds(variance / first.seeds, means.shape[1] * (first.seeds - 1.0))
    if any(scores.models != len(names) - 1 for scores in groups.values()):
        counts = {group: scores.models for group, scores in groups.items()}
        raise UsageError(
            f"pooling the variance of seeds needs {len(names) - 1} in-domain models on every "
            f"group, and there are {counts}; take the variance of seeds 'own'"
        )
    added = np.zeros((first.seeds, len(names)))
    for place, (group, scores) in enumerate(groups.items()):
        others = [other for other in range(len(names)) if other != place]
        added[:, others] += weights[group].inside / scores.models * scores.inside.mean(axis=2)
        added[:, place] += weights[group].out * scores.out.mean(axis=1)
    variance = float(added.var(axis=0, ddof=1).sum()) / first.seeds
    return PooledSeeds(variance, len(names) * (first.seeds - 1.0))
