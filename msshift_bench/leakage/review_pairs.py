"""Which of the candidates for leakage people should judge."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from msshift_bench.annotation import Pair, read_annotations
from msshift_bench.errors import UsageError
from msshift_bench.leakage.found import PASSAGE_TIER, TIERS, read_candidates

__all__ = ["pairs_to_judge"]

_CERTAIN_TIERS = TIERS[:2]
"""The tiers that nobody needs to judge: the texts are the same, or differ in their spelling."""


def pairs_to_judge(
    source: str | Path, *, per_test: int | None = 5, certain: bool = False
) -> list[Pair]:
    """Return the candidates to judge.

    Args:
        source: what `find_leakage` wrote, its folder or file; or a sheet, filled in or not, that
            `read_annotations` reads.
        per_test: how many of each test query, those that are most alike: first the same words, then
            by falling cosine, last those that only share a passage. `None` for all.
        certain: keep the same texts and those that differ in their spelling, too.

    Returns:
        Test queries in the order of the source, with the candidates of each.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is malformed.
        UsageError: if it holds no pair.
    """
    by_test: dict[str, dict[str, Pair]] = defaultdict(dict)
    for pair in _pairs_in(Path(source)):
        if pair.found_by in _CERTAIN_TIERS and not certain:
            continue
        # A test query with several texts may find a training query by each.
        earlier = by_test[pair.test_id].setdefault(pair.train_id, pair)
        if _nearness(pair) > _nearness(earlier):
            by_test[pair.test_id][pair.train_id] = pair
    if not by_test:
        raise UsageError(
            f"there is no candidate to judge, leaving {' and '.join(_CERTAIN_TIERS)} aside; "
            "--certain keeps them"
        )
    pairs = []
    for candidates in by_test.values():
        pairs += sorted(candidates.values(), key=_place)[:per_test]
    return pairs


def _pairs_in(path: Path) -> Iterable[Pair]:
    if path.suffix.lower() in (".csv", ".json", ".jsonl"):
        annotations = read_annotations([path])
        return [*annotations.by_pair(), *annotations.unjudged]
    return [
        Pair(pair.test_id, pair.test_text, pair.train_id, pair.train_text, pair.tier, pair.cosine)
        for pair in read_candidates(path)
    ]


def _nearness(pair: Pair) -> float:
    if pair.cosine is not None:
        return pair.cosine
    return -math.inf if pair.found_by == PASSAGE_TIER else math.inf


def _place(pair: Pair) -> tuple[float, str]:
    return -_nearness(pair), pair.train_id
