"""Ranking systems when only some pairs of them are told apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

__all__ = ["RankRange", "rank_ranges"]


class RankRange(NamedTuple):
    """The places that a system may take.

    Attributes:
        best: 1 + the number of systems known to be better.
        worst: the number of systems not known to be worse, itself included.
    """

    best: int
    worst: int

    @property
    def rank(self) -> int:
        """The best place, which a system holds until another is known to be better."""
        return self.best


def rank_ranges(order: Sequence[str], apart: Collection[tuple[str, str]]) -> dict[str, RankRange]:
    """Rank systems by the pairs that are told apart.

    A system is known to be better than another if the two are told apart, or if a chain of such
    pairs leads from one to the other. Its range holds the places that it takes in all orders of the
    systems that agree with this; its rank is the first of them, as in Chatbot Arena (Chiang et al.,
    ICML 2024). So of two systems told apart the better has the smaller rank, and if no pair is told
    apart all rank first. Two systems that are *not* told apart may still differ in rank, as "not
    told apart" is not transitive: a third may be told apart from one of them only. Their ranges
    then overlap.

    If the chance that any pair is told apart wrongly is at most 5%, as after Holm's correction over
    all pairs, all true ranks lie in their ranges with a chance of at least 95% (Mogstad, Romano,
    Shaikh and Wilhelm, Review of Economic Studies 2024).

    Args:
        order: all systems, the best first.
        apart: pairs (better, worse) that are told apart, the better before the worse in `order`.

    Returns:
        System -> its rank and range, in the order given.

    Raises:
        ValueError: if a system is named twice, or a pair contradicts the order or names another.
    """
    place = {name: number for number, name in enumerate(order)}
    if len(place) < len(order):
        raise ValueError(f"systems that are ranked have different names; got {list(order)}")
    directly_better: dict[str, list[str]] = {name: [] for name in order}
    for better, worse in apart:
        if not {better, worse} <= place.keys() or place[better] >= place[worse]:
            raise ValueError(f"{better!r} is told apart as better than {worse!r} against the order")
        directly_better[worse].append(better)
    known_better: dict[str, set[str]] = {}
    for name in order:
        direct = directly_better[name]
        known_better[name] = set(direct).union(*(known_better[system] for system in direct))
    worse_systems = dict.fromkeys(order, 0)
    for better_systems in known_better.values():
        for name in better_systems:
            worse_systems[name] += 1
    return {
        name: RankRange(1 + len(above), len(order) - worse_systems[name])
        for name, above in known_better.items()
    }
