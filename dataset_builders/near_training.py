"""How near a held-out group's test queries are to its training queries: those of the same words."""

from __future__ import annotations

from msshift_bench.dataset_builders.splits import ShiftSplits
from msshift_bench.similarity import sorted_words

__all__ = ["count_same_words"]


def count_same_words(cut: ShiftSplits) -> dict[str, int]:
    """Count the test queries of the words of a training query, spelling and order aside.

    Returns:
        Group -> how many of the test queries of the experiment that is named after it have a
        training query of the same words; see ``same-words`` in docs/leakage.md.
    """
    words_of = {row.query_id: sorted_words(row.text) for row in cut.rows["test"]}
    tested = set(words_of.values())
    trained_in: dict[str, set[str]] = {}
    for row in cut.rows["train"]:
        words = sorted_words(row.text)
        if words in tested:
            trained_in.setdefault(words, set()).add(row.group)
    by_size = cut.shift.by_size

    def leaks(group: str, words: str) -> bool:
        groups = trained_in.get(words, set())
        return group in groups if by_size else bool(groups - {group})

    return {
        group: sum(
            leaks(group, words_of[row.query_id])
            for row in cut.rows["test"]
            if by_size or row.group == group
        )
        for group in cut.shift.groups
    }
