"""Training sets with and without leakage, of given sizes and the same number of leaked instances.

Source: Froebe et al. (SPIRE 2022), section 4. An instance is a query with one passage; every query
comes with a relevant one and one that is not, so that a set of 1,000 instances has 500 queries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msshift_bench.errors import DataError, UsageError

__all__ = ["KINDS_OF_LEAKAGE", "NO_LEAKAGE", "LearntPair", "make_training_sets"]

KINDS_OF_LEAKAGE = ("none", "leaked", "test")
"""No leakage; training queries that leak test topics; the test topics themselves."""

NO_LEAKAGE = KINDS_OF_LEAKAGE[0]


@dataclass(frozen=True, slots=True)
class LearntPair:
    """A query with a relevant passage and one that is not: two instances.

    Attributes:
        query_id: of the query, or of the topic.
        text: the query's text.
        relevant: the doc_id of the relevant passage.
        other: the doc_id of the other.
        topic: the test topic that leaks by it; "" for none.
        planted: whether the query was made from the topic.
    """

    query_id: str
    text: str
    relevant: str
    other: str
    topic: str = ""
    planted: bool = False


def make_training_sets(
    sizes: Sequence[int],
    leaked: int,
    *,
    others: Sequence[LearntPair],
    leaking: Sequence[LearntPair],
    topics: Sequence[LearntPair],
    seed: int = 0,
) -> Mapping[tuple[str, int], tuple[LearntPair, ...]]:
    """Return (kind, size) -> a training set of size / 2 pairs.

    Both kinds of leakage have leaked / 2 pairs that leak, whatever the size; pairs that do not leak
    fill them up. They are drawn by keyed hash, so that a smaller set is a part of a larger one.

    Args:
        sizes: numbers of instances, even.
        leaked: how many of them leak, even, and at most the least size.
        others: pairs that do not leak.
        leaking: pairs of training queries that leak.
        topics: pairs of the test topics, each at most twice.
        seed: of the draw.

    Raises:
        UsageError: if a size is odd, or smaller than the leak.
        DataError: if there are too few pairs of a kind.
    """
    for size in (leaked, *sizes):
        if size < 2 or size % 2:
            raise UsageError(
                f"{size} instances are no pairs of a relevant passage and another; give an even "
                "number of 2 or more"
            )
        if size < leaked:
            raise UsageError(
                f"a training set of {size} instances is smaller than the leak, {leaked}; give "
                "larger --sizes, or a smaller --leaked"
            )
    filling = _drawn(others, max(sizes) // 2, "training queries that leak nothing", seed)
    leaks = {
        "none": (),
        "leaked": _drawn(leaking, leaked // 2, "training queries that leak", seed),
        "test": _drawn(topics, leaked // 2, "pairs of test topics", seed),
    }
    return {
        (kind, size): (*pairs, *filling[: size // 2 - len(pairs)])
        for kind, pairs in leaks.items()
        for size in sizes
    }


def _drawn(pairs: Iterable[LearntPair], count: int, what: str, seed: int) -> tuple[LearntPair, ...]:
    """Return some pairs, the first ones by keyed hash."""

    def key(pair: LearntPair) -> bytes:
        content = "\t".join((pair.query_id, pair.relevant, pair.other)).encode()
        return hashlib.blake2b(content, digest_size=16, key=f"{seed}/leak".encode()).digest()

    ordered = tuple(sorted(pairs, key=key))
    if len(ordered) < count:
        raise DataError(
            f"{count} {what} are needed, and there are {len(ordered)}; give smaller --sizes or a "
            "smaller --leaked"
        )
    return ordered[:count]
