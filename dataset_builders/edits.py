"""What typing errors were made: the edits in variants of queries, counted and compared.

An edit is told from the two texts alone, so an error that another edit explains as well counts as
that one: the letter of a neighbouring key, typed by chance, counts as a neighbour's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msshift_bench.data import Variant
from msshift_bench.dataset_builders.typos import EDITS, NEIGHBOURS, words_to_misspell

__all__ = ["EDIT_KINDS", "ComparedEdits", "Edit", "compare_edits", "count_edits", "find_edit"]

UNCHANGED, OTHER = "unchanged", "other"

EDIT_KINDS = (UNCHANGED, *EDITS, OTHER)
"""The kinds of edits; ``other``: several edits, or one outside the words that may be edited."""

_FEWEST = 10
"""Cells of a test that expect fewer edits, of both files together, are joined."""

_LAST_PLACE, _LAST_WORD = 12, 8


class Edit(NamedTuple):
    """The edit between a query and its variant.

    Attributes:
        kind: one of `EDIT_KINDS`.
        place: where in the word, from 0; of two that give the same text, the later.
        word: which of the words that may be edited, from 0.
        letter: the letter that was typed, lower-cased; "" if none was.
    """

    kind: str
    place: int = -1
    word: int = -1
    letter: str = ""


def find_edit(text: str, variant: str) -> Edit:
    """Return the edit between a query and its variant, regardless of case and outer spaces."""
    before, after = (" ".join(one.lower().split()) for one in (text, variant))
    if before == after:
        return Edit(UNCHANGED)
    start = _shared(before, after)
    same = _shared(before[start:][::-1], after[start:][::-1])
    gone, typed = before[start : len(before) - same], after[start : len(after) - same]
    sizes = len(gone), len(typed)
    if sizes == (0, 1):
        kind = "insert"
    elif sizes == (1, 0):
        kind = "delete"
    elif sizes == (1, 1):
        kind = "neighbour" if typed in NEIGHBOURS.get(gone, "") else "substitute"
    elif sizes == (2, 2) and gone == typed[::-1]:
        kind = "swap"
    else:
        return Edit(OTHER)
    for number, word in enumerate(words_to_misspell(before)):
        # A letter that is typed twice at a word's end lies behind it.
        if word.start <= start < word.start + len(word.text) + (kind == "insert"):
            letter = typed if kind in ("insert", "neighbour", "substitute") else ""
            return Edit(kind, start - word.start, number, letter)
    return Edit(OTHER)


def _shared(first: str, second: str) -> int:
    """Return how many characters two texts share at their beginnings."""
    pairs = enumerate(zip(first, second, strict=False))
    differing = (place for place, (one, other) in pairs if one != other)
    return next(differing, min(len(first), len(second)))


def count_edits(texts: Mapping[str, str], variants: Iterable[Variant]) -> dict[str, Counter[str]]:
    """Return method -> kind of edit -> variants.

    Args:
        texts: query_id -> text of the queries as they are.
        variants: variants of these queries.
    """
    counts: dict[str, Counter[str]] = {}
    for one in variants:
        kind = find_edit(texts[one.query_id], one.text).kind
        counts.setdefault(one.method, Counter())[kind] += 1
    return counts


@dataclass(frozen=True, slots=True)
class ComparedEdits:
    """A test whether two files of variants differ in a statistic of their edits.

    Attributes:
        statistic: what was counted: ``kind``, ``place``, ``word`` or ``letter``.
        first: value -> edits of the first file.
        second: the same of the second.
        chi_squared: Pearson's statistic of homogeneity.
        df: its degrees of freedom.
        p: the chance of one at least as large if both follow one rule.
    """

    statistic: str
    first: Mapping[str, int]
    second: Mapping[str, int]
    chi_squared: float
    df: int
    p: float


def compare_edits(
    texts: Mapping[str, str], first: Iterable[Variant], second: Iterable[Variant]
) -> list[ComparedEdits]:
    """Test whether two files of variants differ in kinds, places, words and letters of edits.

    Pearson's chi-squared test of homogeneity. Both files are of the same queries, so that counts
    vary a little less than the test assumes: it errs, if at all, towards finding no difference.

    Args:
        texts: query_id -> text of the queries as they are.
        first: variants of these queries.
        second: others.
    """
    sides = [[find_edit(texts[one.query_id], one.text) for one in side] for side in (first, second)]
    tests = []
    for statistic in ("kind", "place", "word", "letter"):
        one, other = (Counter(_values(side, statistic)) for side in sides)
        tests.append(_test(statistic, one, other))
    return tests


def _values(edits: Iterable[Edit], statistic: str) -> Iterable[str]:
    for edit in edits:
        if statistic == "kind":
            yield edit.kind
        elif edit.place < 0:
            continue
        elif statistic == "place":
            yield str(min(edit.place, _LAST_PLACE))
        elif statistic == "word":
            yield str(min(edit.word, _LAST_WORD))
        elif edit.letter:
            yield edit.letter


def _test(statistic: str, first: Counter[str], second: Counter[str]) -> ComparedEdits:
    from scipy.special import chdtrc

    rows: list[tuple[int, int]] = []
    rare = [0, 0]
    for value in sorted({*first, *second}):
        if first[value] + second[value] < _FEWEST:
            rare = [rare[0] + first[value], rare[1] + second[value]]
        else:
            rows.append((first[value], second[value]))
    if sum(rare):
        rows.append((rare[0], rare[1]))
    totals = [sum(row[side] for row in rows) for side in (0, 1)]
    every = sum(totals)
    chi_squared = 0.0
    for row in rows:
        for side in (0, 1):
            expected = sum(row) * totals[side] / every if every else 0.0
            if expected:
                chi_squared += (row[side] - expected) ** 2 / expected
    df = len(rows) - 1
    p = float(chdtrc(df, chi_squared)) if df > 0 and all(totals) else 1.0
    return ComparedEdits(statistic, dict(first), dict(second), chi_squared, max(df, 0), p)
