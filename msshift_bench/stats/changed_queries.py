"""Whether a shift and changed queries compound: what a change costs the models on each side.

A model scores C on a group's queries as they are and P on the same queries changed, and loses
1 - P / C by the change. The in-domain models' loss is that of their mean scores. If the held-out
model loses more than they do, shift and change compound: the Rel Loss on changed queries is then
the greater, since (1 - Rel Loss changed) / (1 - Rel Loss) = (1 - loss out) / (1 - loss in).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.stats.group_scores import GroupScores
from msshift_bench.stats.uncertainty import Contributions, Interval

__all__ = ["ON_AVERAGE", "CompoundLoss", "compound_losses"]

ON_AVERAGE = "mean"
"""The name of a mean over groups, or over a shift's models."""


@dataclass(frozen=True, slots=True)
class CompoundLoss:
    """What changed queries cost the models on both sides of a shift.

    Attributes:
        inside: what the in-domain models lose by the change, a fraction of their score.
        out: what the held-out model loses.
        difference: `out` - `inside`; positive where shift and change compound.
        interval: of the difference, over queries, and over seeds where there are several; `None`
            below 2 queries.
        p: two-sided, of "the difference is 0", not corrected; `None` where `interval` is.
        rel_loss: Rel Loss on the queries as they are.
        rel_loss_changed: Rel Loss on the changed queries.
        queries: how many queries count.
    """

    inside: float
    out: float
    difference: float
    interval: Interval | None
    p: float | None
    rel_loss: float
    rel_loss_changed: float
    queries: int


def compound_losses(
    groups: Mapping[str, tuple[GroupScores, GroupScores]],
    confidence: float,
    *,
    higher_is_better: bool = True,
) -> dict[str, CompoundLoss]:
    """Return group -> what its changed queries cost, and the mean over groups as `ON_AVERAGE`.

    Intervals count other queries, sampled separately by group, and other seeds. The change of a
    query is taken as it is.

    Args:
        groups: group -> scores on its queries as they are, and on the same queries changed.
        confidence: the intervals' confidence level.
        higher_is_better: false for ASL and the like.

    Returns:
        Without groups where a mean is 0, which have no losses; empty if there is none left.
    """
    sign = 1 if higher_is_better else -1
    found: dict[str, CompoundLoss] = {}
    parts: list[Floats] = []
    largest = 0.0
    for group, (plain, changed) in groups.items():
        sides = [
            (plain.inside.mean(axis=1), changed.inside.mean(axis=1)),
            (plain.out, changed.out),
        ]
        if not all(before.size and before.mean() and after.mean() for before, after in sides):
            continue
        (inside, of_inside), (out, of_out) = (_loss(*side, sign) for side in sides)
        contributions = of_out - of_inside
        scale = max(plain.largest, changed.largest) / min(abs(side[0].mean()) for side in sides)
        interval, p = _infer([contributions], out - inside, scale, confidence)
        found[group] = CompoundLoss(
            inside,
            out,
            out - inside,
            interval,
            p,
            _rel_loss(sides[0][0], sides[1][0], sign),
            _rel_loss(sides[0][1], sides[1][1], sign),
            plain.queries,
        )
        parts.append(contributions)
        largest = max(largest, scale)
    if len(found) > 1:
        means = {
            name: float(np.mean([getattr(one, name) for one in found.values()]))
            for name in ("inside", "out", "difference", "rel_loss", "rel_loss_changed")
        }
        strata = [part / len(found) for part in parts]
        interval, p = _infer(strata, means["difference"], largest, confidence)
        queries = sum(one.queries for one in found.values())
        found[ON_AVERAGE] = CompoundLoss(**means, interval=interval, p=p, queries=queries)
    return found


def _loss(before: Floats, after: Floats, sign: int) -> tuple[float, Floats]:
    """Return a relative loss, and to first order what each seed and query contributes to it.

    Args:
        before: scores ``[seeds, queries]``.
        after: scores of the same queries, changed.
        sign: -1 where lower is better.
    """
    mean = float(before.mean())
    loss = sign * (1 - float(after.mean()) / mean)
    return loss, np.asarray(((sign - loss) * before - sign * after) / mean)


def _rel_loss(inside: Floats, out: Floats, sign: int) -> float:
    return sign * (1 - float(out.mean()) / float(inside.mean()))


def _infer(
    strata: Sequence[Floats], difference: float, scale: float, confidence: float
) -> tuple[Interval | None, float | None]:
    known = Contributions.of(strata, scale).uncertainty()
    if known is None:
        return None, None
    return known.interval(difference, confidence), known.p_value(difference)
