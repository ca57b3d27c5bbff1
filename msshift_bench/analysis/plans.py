"""What the test sets at hand can show, with the seeds at hand and with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msshift_bench.stats import ShiftLoss, Uncertainty, detectable_loss

__all__ = ["PLANNED_SEEDS", "DetectableLoss", "detectable_losses"]

PLANNED_SEEDS = (2, 3, 5, 10)
"""The numbers of seeds that tables plan with."""


@dataclass(frozen=True, slots=True)
class DetectableLoss:
    """The Rel Loss of one system on one group that would be found in 80 of 100 repetitions.

    A repetition takes other queries and other seeds. What queries add to the variance is the
    group's own; what seeds add is the mean over the groups, because a few seeds of one group say
    little of it.

    Attributes:
        shift: the shift's name.
        system: the system.
        measure: the measure.
        group: the group.
        queries: the number of its test queries.
        seeds: the number of seeds at hand.
        rel_loss: the Rel Loss that was measured; `None` if it is undefined.
        counts: "queries and seeds", or "queries only" for a single seed.
        now: the detectable Rel Loss with the seeds at hand; `None` if not even 1 would be found.
        by_seeds: number of seeds -> the same with so many; empty for a single seed, which does not
            say what other seeds add.
    """

    shift: str
    system: str
    measure: str
    group: str
    queries: int
    seeds: int
    rel_loss: float | None
    counts: str
    now: float | None
    by_seeds: Mapping[str, float | None]


def detectable_losses(
    shift: str,
    system: str,
    measure: str,
    loss: ShiftLoss,
    planned: Sequence[int] = PLANNED_SEEDS,
) -> tuple[DetectableLoss, ...]:
    """Return what every group of a shift can show, for one system.

    Args:
        shift: the shift's name.
        system: the system.
        measure: the measure.
        loss: what the system loses.
        planned: the numbers of seeds to plan with, each at least 2.
    """
    known = {group: one.uncertainty for group, one in loss.groups.items()}
    from_seeds = [
        one.seed_variance
        for one in known.values()
        if one is not None and one.seed_variance is not None
    ]
    found = []
    for group, of_group in loss.groups.items():
        uncertainty = known[group]
        if uncertainty is None:
            continue
        if uncertainty.seed_variance is not None:
            mean = sum(from_seeds) / len(from_seeds)
            uncertainty = replace(uncertainty, seed_variance=mean)
        found.append(
            DetectableLoss(
                shift,
                system,
                measure,
                group,
                of_group.queries,
                loss.seeds,
                of_group.rel_loss,
                uncertainty.counts,
                detectable_loss(uncertainty, loss.seeds),
                _by_seeds(uncertainty, loss.seeds, planned),
            )
        )
    return tuple(found)


def _by_seeds(
    uncertainty: Uncertainty, seeds: int, planned: Sequence[int]
) -> dict[str, float | None]:
    if uncertainty.seed_variance is None:
        return {}
    return {str(n): detectable_loss(uncertainty, seeds, planned_seeds=n) for n in planned}
