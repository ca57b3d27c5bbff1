"""How much of a loss lies in queries with words that no training query had.

The test queries are cut in two: those whose content words were all met in training, and those with
a word that never was. Each part has its Rel Loss and its share of the whole loss. The difference of
the two parts is taken inside the groups, and again among queries that are about as difficult, since
rare words make queries difficult for every system (`slope_tests`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from msshift_bench.analysis.binned_losses import bootstrap_band
from msshift_bench.analysis.query_losses import QueryLosses
from msshift_bench.analysis.slope_tests import SlopeTest, slope_test
from msshift_bench.arrays import Floats
from msshift_bench.stats import SIGNIFICANT, Interval

__all__ = ["LossShare", "LossByWords", "split_loss"]


@dataclass(frozen=True, slots=True)
class LossShare:
    """One part of the test queries.

    Attributes:
        words: ``met`` if training queries had all of their words, ``never met`` if a word of theirs
            was in none.
        queries: how many there are.
        query_share: which share of all test queries that is, 0 to 1.
        rel_loss: their Rel Loss, a fraction; `None` without queries.
        band: the bootstrap's 95% band; see `binned_losses`.
        loss_share: their share of the whole loss; below 0 or above 1 if the parts lose and gain;
            `None` if nothing is lost on the whole.
    """

    words: str
    queries: int
    query_share: float
    rel_loss: float | None
    band: Interval | None
    loss_share: float | None


@dataclass(frozen=True, slots=True)
class LossByWords:
    """One system's loss, by whether training queries had the words of the test queries.

    Attributes:
        shift: the shift's name.
        system: the system.
        measure: the measure.
        parts: the two parts.
        difference: what queries with words never met lose more than the others, inside the groups;
            `None` if fewer than 3 groups have both parts.
        control: the control of difficulty; "" without one.
        at_equal_difficulty: the same among queries that are about as difficult.
    """

    shift: str
    system: str
    measure: str
    parts: tuple[LossShare, ...]
    difference: SlopeTest | None
    control: str
    at_equal_difficulty: SlopeTest | None

    @property
    def remaining(self) -> float | None:
        """Which share of `difference` remains at equal difficulty.

        `None` if that is not known, or if `difference` is not significant: a share of what may be
        nothing says nothing.
        """
        if self.difference is None or self.at_equal_difficulty is None:
            return None
        if self.difference.p is None or self.difference.p > SIGNIFICANT:
            return None
        return self.at_equal_difficulty.slope / self.difference.slope


def split_loss(
    losses: QueryLosses,
    unseen: Mapping[str, Floats],
    *,
    control: str = "",
    difficulty: Mapping[str, Floats] | None = None,
) -> LossByWords:
    """Split a system's loss by whether training queries had the words of a query.

    Args:
        losses: what queries lose.
        unseen: group -> the share of each query's content words that were never met, ``[queries]``.
        control: the name of the control; "" without one.
        difficulty: group -> the control's values, ``[queries]``.

    Raises:
        DataError: if a system scores 0 on a group.
    """
    relative = {group: loss.mean(axis=0) for group, loss in losses.relative().items()}
    never = {group: unseen[group] > 0 for group in relative}
    whole = sum(float(loss.sum()) for loss in relative.values())
    everything = sum(len(loss) for loss in relative.values())
    parts = []
    for words, masks in (
        ("met", {group: ~mask for group, mask in never.items()}),
        ("never met", never),
    ):
        chosen = losses.chosen(masks)
        rel_loss, band = bootstrap_band(chosen, losses.sign)
        lost = sum(float(relative[group][mask].sum()) for group, mask in masks.items())
        parts.append(
            LossShare(
                words,
                chosen.queries,
                chosen.queries / everything,
                rel_loss,
                band,
                lost / whole if whole > 0 else None,
            )
        )
    as_numbers = {group: mask.astype(np.float64) for group, mask in never.items()}
    return LossByWords(
        losses.shift,
        losses.system,
        losses.measure,
        tuple(parts),
        slope_test(relative, as_numbers),
        control if difficulty is not None else "",
        None if difficulty is None else slope_test(relative, as_numbers, difficulty),
    )
