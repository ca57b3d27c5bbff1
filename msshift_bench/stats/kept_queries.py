"""What figures change if some test queries are left out, such as those that leaked.

The figure on all queries and the one on those that are kept rest on the same scores, so that their
difference is far surer than either. To first order, a mean over the kept share of the queries
contributes

    mean + [query is kept] / share * (score - mean)

of each query to its estimate (the linearised ratio; Cochran 1977, "Sampling Techniques", section
2.11), and the difference is computed query by query. Which queries are left out counts as a
property of the query: another sample of queries has others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats
from msshift_bench.errors import UsageError
from msshift_bench.stats.changed_queries import ON_AVERAGE
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.uncertainty import Contributions, Interval

__all__ = ["KeptDifference", "kept_differences"]


@dataclass(frozen=True, slots=True)
class KeptDifference:
    """A figure on all test queries, and on those that are kept.

    Attributes:
        everything: the figure on all queries, on the scale of the measure or, a Rel Loss, a
            fraction.
        kept: the figure on those that are kept.
        difference: `everything` - `kept`.
        interval: of the difference, over queries, and over seeds where there are several; `None`
            below 2 queries.
        p: two-sided, of "the difference is 0", not corrected; `None` where `interval` is.
        queries: how many queries there are.
        left_out: how many of them are not kept.
    """

    everything: float
    kept: float
    difference: float
    interval: Interval | None
    p: float | None
    queries: int
    left_out: int


class _Changed(NamedTuple):
    """A figure on both sets of queries, and what queries and seeds contribute to the difference."""

    everything: float
    kept: float
    parts: tuple[Floats, ...]
    scale: float


def kept_differences(
    groups: Mapping[str, GroupScores],
    kept: Mapping[str, NDArray[np.bool_]],
    confidence: float = 0.95,
    *,
    average: str = "macro",
    higher_is_better: bool = True,
) -> dict[str, dict[str, KeptDifference]]:
    """Return group -> figure -> what leaving queries out changes; the average is `ON_AVERAGE`.

    Figures are ``avg_in``, ``out`` and, where both means are not 0, ``rel_loss``; of a system that
    was not trained per group, ``score``. The average is there with two groups or more.

    Args:
        groups: group -> its scores.
        kept: group -> mask of its queries that are kept, ``[queries]``.
        confidence: the intervals' confidence level.
        average: a key of `stats.inference.AVERAGES`.
        higher_is_better: false for ASL and the like.

    Raises:
        UsageError: if a mask does not fit, or keeps no query of a group.
    """
    sign = 1 if higher_is_better else -1
    sides: dict[str, tuple[dict[str, Floats], NDArray[np.bool_]]] = {}
    for group, scores in groups.items():
        mask = kept[group]
        if mask.shape != (scores.queries,) or not mask.any():
            raise UsageError(f"{int(mask.sum())} of {scores.queries} queries of {group} are kept")
        means = {"avg_in": scores.inside.mean(axis=1), "out": scores.out}
        sides[group] = (means if scores.trained else {"score": scores.out}, mask)
    changed = {group: _changes(*side, sign) for group, side in sides.items()}
    counts = {group: (len(mask), int((~mask).sum())) for group, (_, mask) in sides.items()}
    if len(groups) > 1:
        if average == "pooled":
            names = next(iter(sides.values()))[0]
            joined = {
                name: np.concatenate([means[name] for means, _ in sides.values()], axis=1)
                for name in names
            }
            mask = np.concatenate([mask for _, mask in sides.values()])
            changed[ON_AVERAGE] = _changes(joined, mask, sign)
        else:
            changed[ON_AVERAGE] = _mean(list(changed.values()))
        queries, left_out = (sum(counts[group][place] for group in groups) for place in (0, 1))
        counts[ON_AVERAGE] = (queries, left_out)
    return {
        group: {
            figure: _difference(one, *counts[group], confidence) for figure, one in figures.items()
        }
        for group, figures in changed.items()
    }


def _changes(
    means: Mapping[str, Floats], mask: NDArray[np.bool_], sign: int
) -> dict[str, _Changed]:
    """Return figure -> its change.

    Args:
        means: figure -> the scores whose mean it is, ``[seeds, queries]``.
        mask: the queries that are kept.
        sign: -1 where lower is better.
    """
    found, both = {}, {}
    for figure, scores in means.items():
        of_kept = scores[:, mask].mean(axis=1, keepdims=True)
        linear = of_kept + np.where(mask, (scores - of_kept) / mask.mean(), 0.0)
        both[figure] = scores, linear
        largest = float(np.abs(scores).max(initial=0.0)) / float(mask.mean())
        found[figure] = _Changed(
            float(scores.mean()), float(linear.mean()), (scores - linear,), largest
        )
    if "avg_in" in both and all(float(one.mean()) for one in both["avg_in"]):
        losses, parts = [], []
        for inside, out in zip(both["avg_in"], both["out"], strict=True):
            avg_in = float(inside.mean())
            loss = sign * (avg_in - float(out.mean())) / avg_in
            losses.append(loss)
            parts.append(((sign - loss) * inside - sign * out) / avg_in)
        scale = found["avg_in"].scale / min(abs(float(one.mean())) for one in both["avg_in"])
        found["rel_loss"] = _Changed(losses[0], losses[1], (parts[0] - parts[1],), scale)
    return found


def _mean(changed: Sequence[Mapping[str, _Changed]]) -> dict[str, _Changed]:
    """Return the mean of each figure that all groups have; groups are sampled separately."""
    count = len(changed)
    return {
        figure: _Changed(
            float(np.mean([one[figure].everything for one in changed])),
            float(np.mean([one[figure].kept for one in changed])),
            tuple(part / count for one in changed for part in one[figure].parts),
            max(one[figure].scale for one in changed),
        )
        for figure in changed[0]
        if all(figure in one for one in changed)
    }


def _difference(one: _Changed, queries: int, left_out: int, confidence: float) -> KeptDifference:
    difference = one.everything - one.kept
    known = Contributions.of(one.parts, one.scale).uncertainty()
    return KeptDifference(
        one.everything,
        one.kept,
        difference,
        None if known is None else known.interval(difference, confidence),
        None if known is None else known.p_value(difference),
        queries,
        left_out,
    )
