"""The audit of the official release: count what is odd in its files.

The oddities of the release (queries without text, queries in two groups, rules that differ from the
paper's text) change what a figure means. The audit counts them and judges nothing: a release with
other oddities gives other figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations, starmap
from pathlib import Path
from typing import Any

from msshift_bench.data import sha256_of
from msshift_bench.dataset_builders.groups import matching_groups, word_count
from msshift_bench.dataset_builders.release import (
    LENGTH_CUT,
    OFFICIAL_SHIFTS,
    TRAINING_FILE,
    OfficialTestSet,
    read_test_sets,
    release_files,
    spellings,
    training_rows,
)
from msshift_bench.errors import CollectionError, FindingLog
from msshift_bench.output import Table, plain, report_head
from msshift_bench.records import OTHERS
from msshift_bench.shifts import get_shift

__all__ = ["DEV_SMALL", "Audit", "LengthRule", "SetFacts", "WordRules", "audit_release"]

DEV_SMALL = 6980
"""Number of queries of MS MARCO's dev-small, from which the test sets of `length` are made."""

Overlaps = Mapping[str, Mapping[str, int]]
"""Config of the row -> config of the column -> how many queries or texts they share."""


@dataclass(frozen=True, slots=True)
class SetFacts:
    """Counts of one test set.

    Attributes:
        queries: queries with text, the denominator of every mean.
        qrels_queries: queries in the qrels.
        orphans: ids in the qrels that have no text, sorted.
        without_relevant: queries with text and no relevant passage.
        several_relevant: queries with text and more than one relevant passage.
        empty_texts: queries whose text is white space.
        repeated_texts: queries whose text an earlier query of the set has, too.
    """

    queries: int
    qrels_queries: int
    orphans: tuple[str, ...]
    without_relevant: int
    several_relevant: int
    empty_texts: int
    repeated_texts: int


@dataclass(frozen=True, slots=True)
class WordRules:
    """How the rules for question words label the test queries of one group.

    Attributes:
        queries: all queries of the group.
        substring: those that hold one of the group's words, even if inside another word.
        word: those that hold one as a word.
        only_inside: those that hold one only inside another word.
        no_word: those that hold no group's word as a word.
        first_substring: those whose first question word is the group's, by the rule ``substring``.
        first_word: the same by the rule ``word``, which ``rebuilt`` follows.
    """

    queries: int
    substring: int
    word: int
    only_inside: int
    no_word: int
    first_substring: int
    first_word: int


@dataclass(frozen=True, slots=True)
class LengthRule:
    """Test queries of one group that two ways of counting words put on the other side.

    Attributes:
        queries: all queries of the group.
        wrong_by_spaces: those misplaced by ``len(text.split(" "))``, which the release follows.
        wrong_by_words: those misplaced by ``len(text.split())``.
    """

    queries: int
    wrong_by_spaces: int
    wrong_by_words: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The figures of an audit, and the tables that show them.

    Attributes:
        test_sets: config -> its counts.
        errata: oddity -> number of queries that have it.
        wh_words: group -> how the rules label its queries.
        length: group -> how the rules label its queries.
        by_id: the query ids that each two test sets share.
        by_text: the texts they share, lower-cased and with single spaces; on the diagonal the
            texts of the set.
        trained_on: training queries of a group -> test set -> those of its queries whose exact text
            is among them; `None` without the training file.
        training_rows: rows of the training file; 0 without it.
        files: path -> SHA-256 of what was audited.
    """

    test_sets: Mapping[str, SetFacts]
    errata: Mapping[str, int]
    wh_words: Mapping[str, WordRules]
    length: Mapping[str, LengthRule]
    by_id: Overlaps
    by_text: Overlaps
    trained_on: Overlaps | None
    training_rows: int
    files: Mapping[str, str]

    def tables(self) -> tuple[Table, ...]:
        """Return every figure, as tables."""
        tables = [
            Table.plain("Test sets", _SET_HEADER, starmap(_set_row, self.test_sets.items())),
            Table.plain("Errata", ("what", "queries"), self.errata.items()),
            Table.plain(
                "Question words: what the rules find in the queries of each group",
                _WORD_HEADER,
                ((group, *astuple(facts)) for group, facts in self.wh_words.items()),
            ),
            Table.plain(
                f"Length: short is fewer than {LENGTH_CUT} words",
                ("group", "queries", 'wrong by split(" ")', "wrong by split()"),
                ((group, *astuple(facts)) for group, facts in self.length.items()),
            ),
            _matrix("Query ids that test sets share", self.by_id),
            _matrix(
                "Different texts that test sets share, regardless of case and spaces", self.by_text
            ),
        ]
        if self.trained_on is not None:
            title = "Test queries (columns) whose text is a training query of the group (rows)"
            tables.append(_matrix(title, self.trained_on))
        return tuple(tables)

    def notes(self) -> tuple[str, ...]:
        """Return the notes below the tables."""
        training = (
            f"training file: {self.training_rows} queries, matched by their exact text"
            if self.trained_on is not None
            else f"no {TRAINING_FILE}: what test sets share with training queries is not known"
        )
        return (
            "queries: those with text, the denominator of every mean",
            "orphans: ids that have qrels but no text; they are left out of the official edition",
            training,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON values."""
        return {**report_head(), **plain(self)}


_SET_HEADER = (
    "test set",
    "queries",
    "in qrels",
    "orphans",
    "no relevant",
    "several relevant",
    "empty texts",
    "repeated texts",
)
_WORD_HEADER = (
    "group",
    "queries",
    "own word as substring",
    "own as word",
    "own only inside another",
    "no word at all",
    "own first (substring)",
    "own first (word)",
)


def _set_row(config: str, facts: SetFacts) -> tuple[object, ...]:
    queries, qrels_queries, orphans, *rest = astuple(facts)
    listed = f"{len(orphans)}: {', '.join(orphans)}" if orphans else "0"
    return config, queries, qrels_queries, listed, *rest


def _matrix(title: str, overlaps: Overlaps) -> Table:
    columns = tuple(next(iter(overlaps.values())))
    rows = ((name, *(shared[column] for column in columns)) for name, shared in overlaps.items())
    return Table.plain(title, ("", *columns), rows)


def audit_release(folder: Path) -> Audit:
    """Audit a checkout of the official release.

    Args:
        folder: the checkout, which holds ``EVAL`` and perhaps ``TRAIN``.

    Raises:
        NotFoundError: if the folder is no checkout of the release.
        CollectionError: if a file is malformed.
    """
    files = release_files(folder)
    sets = read_test_sets(folder)
    training: tuple[int, dict[str, set[str]]] | None = None
    if TRAINING_FILE in files:
        training = _training_texts(files[TRAINING_FILE])
    return Audit(
        test_sets={s.config: _set_facts(s) for s in sets},
        errata=_errata(sets),
        wh_words={s.group: _word_rules(s) for s in sets if s.shift == "wh-words"},
        length={s.group: _length_rule(s) for s in sets if s.shift == "length"},
        by_id=_overlaps({s.config: set(s.queries) for s in sets}),
        by_text=_overlaps({s.config: set(map(_normalised, s.queries.values())) for s in sets}),
        trained_on=None if training is None else _trained_on(training[1], sets),
        training_rows=0 if training is None else training[0],
        files={name: sha256_of(path) for name, path in files.items()},
    )


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())


def _set_facts(test_set: OfficialTestSet) -> SetFacts:
    texts = test_set.queries.values()
    relevant = [len(test_set.relevant.get(query_id, ())) for query_id in test_set.queries]
    return SetFacts(
        queries=len(test_set.queries),
        qrels_queries=len(test_set.relevant),
        orphans=test_set.orphans,
        without_relevant=relevant.count(0),
        several_relevant=sum(count > 1 for count in relevant),
        empty_texts=sum(not text.strip() for text in texts),
        repeated_texts=len(texts) - len(set(texts)),
    )


def _errata(sets: Sequence[OfficialTestSet]) -> dict[str, int]:
    ids = {s.group: set(s.queries) for s in sets}
    groups = {shift: [s.group for s in sets if s.shift == shift] for shift in OFFICIAL_SHIFTS}
    short, long = groups["length"]
    dev = ids[short] | ids[long]
    others = {query_id for s in sets if s.shift != "length" for query_id in s.queries}
    facts: dict[str, set[tuple[str, tuple[tuple[str, int], ...] | None]]] = {}
    for test_set in sets:
        for query_id, text in test_set.queries.items():
            judged = test_set.relevant.get(query_id)
            relevant = None if judged is None else tuple(judged.items())
            facts.setdefault(query_id, set()).add((text, relevant))
    shared = {
        f"in both {a} and {b}": len(ids[a] & ids[b]) for a, b in combinations(groups["wh-words"], 2)
    }
    return {
        "with qrels and no text, in all sets": sum(len(s.orphans) for s in sets),
        "different queries in all sets": len(facts),
        "with another text or other relevant passages in another set": sum(
            len(versions) > 1 for versions in facts.values()
        ),
        "in two topics": sum(len(ids[a] & ids[b]) for a, b in combinations(groups["topics"], 2)),
        **shared,
        f"in both {short} and {long}": len(ids[short] & ids[long]),
        f"in {short} or {long} (MS MARCO's dev-small has {DEV_SMALL})": len(dev),
        "of these in a topic or a group of question words": len(dev & others),
    }


def _word_rules(test_set: OfficialTestSet) -> WordRules:
    group = test_set.group
    words, substrings = (
        [matching_groups(text, rule) for text in test_set.queries.values()]
        for rule in ("word", "substring")
    )
    return WordRules(
        queries=len(words),
        substring=sum(group in matching for matching in substrings),
        word=sum(group in matching for matching in words),
        only_inside=sum(
            group in inside and group not in whole
            for inside, whole in zip(substrings, words, strict=True)
        ),
        no_word=sum(not matching for matching in words),
        first_substring=sum(matching[:1] == (group,) for matching in substrings),
        first_word=sum(matching[:1] == (group,) for matching in words),
    )


def _length_rule(test_set: OfficialTestSet) -> LengthRule:
    is_short = test_set.group == "short"
    texts = test_set.queries.values()
    return LengthRule(
        queries=len(texts),
        wrong_by_spaces=sum((word_count(text) < LENGTH_CUT) != is_short for text in texts),
        wrong_by_words=sum((len(text.split()) < LENGTH_CUT) != is_short for text in texts),
    )


def _overlaps(members: Mapping[str, set[str]]) -> Overlaps:
    return {
        row: {column: len(mine & theirs) for column, theirs in members.items()}
        for row, mine in members.items()
    }


def _training_texts(path: Path) -> tuple[int, dict[str, set[str]]]:
    """Return the rows of the training file, and config -> the texts that are trained on there."""
    texts: dict[str, set[str]] = {
        f"{shift}-{group}": set() for shift in OFFICIAL_SHIFTS for group in get_shift(shift).groups
    }
    findings = FindingLog()
    count = 0
    for _, row in training_rows(path, findings):
        count += 1
        for shift in row.trained:
            group = row.groups[shift]
            if group != OTHERS:
                texts[f"{shift}-{group}"].update(spellings(row.text))
    findings.stop_if_any(CollectionError, f"{path} is malformed:")
    return count, texts


def _trained_on(texts: Mapping[str, set[str]], sets: Sequence[OfficialTestSet]) -> Overlaps:
    return {
        config: {s.config: sum(text in trained for text in s.queries.values()) for s in sets}
        for config, trained in texts.items()
    }
