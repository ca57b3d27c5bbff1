"""The shifts whose groups follow from the texts (length, question word, rare terms) or from labels.

Source: MS-Shift (ECIR 2023), section 3.1, "Short and Long Queries" and "WH-Words Queries". No paper
introduced rare terms; docs/new-shift.md shows how they were added.
"""

from __future__ import annotations

import hashlib
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from msshift_bench.data import COLUMN_NAMES, Collection
from msshift_bench.errors import CollectionError, FindingLog, UsageError, check_name
from msshift_bench.plumbing import numbered_lines
from msshift_bench.records import OTHERS, SPLITS, Grouping
from msshift_bench.runs import FOR_ALL
from msshift_bench.search import content_words
from msshift_bench.shifts import SHIFTS, SIZED, TEST_ONLY, LabelledShift, Shift, grouped
from msshift_bench.words import divide


def shift_of_rule(name: str, rule: str) -> Shift:
    """Return the shift called `name`, if it has the rule.

    Raises:
        UnknownNameError: if it has not.
    """
    shift = SHIFTS.get(name) or SIZED[name]
    check_name(f"{name} rule", rule, shift.rules)
    return shift


def word_count(text: str, words: str = "whitespace") -> int:
    """Return the number of words, by default as the release of 2022 does: ``text.split(" ")``.

    Two spaces in a row make an empty word between them; ``text.split()`` would put four of the
    release's 6,980 test queries on the wrong side.

    Args:
        text: a query's text.
        words: how it is divided into words (`WORDS`).
    """
    return divide(text, words).count(" ") + 1


def group_by_length(
    queries: Mapping[str, str], rule: str = "split-space", *, words: str = "whitespace"
) -> Grouping:
    """Put a query into ``short`` if it has fewer words than the median query, else into ``long``.

    Args:
        queries: the queries to group, query_id -> text; their median word count, rounded up, is the
            cut. On MS MARCO it is 6, and short is at most 5.
        rule: ``split-space`` is the only one; see `word_count`.
        words: see `word_count`.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = shift_of_rule("length", rule)
    counts = {query_id: word_count(text, words) for query_id, text in queries.items()}
    cut = math.ceil(statistics.median(counts.values())) if counts else 0
    labels = {query_id: "short" if count < cut else "long" for query_id, count in counts.items()}
    return Grouping(shift.name, labels, rule, {"cut": cut})


WH_WORDS = {
    "wha": ("what", "definition"),
    "how": ("how",),
    "who": ("who", "when", "where", "which"),
}
"""The fixed lists of the paper: group -> its question words."""

_GROUP_OF = {word: group for group, words in WH_WORDS.items() for word in words}


def question_matcher(
    rule: str = "word", words: str = "whitespace", group_of: Mapping[str, str] = _GROUP_OF
) -> Callable[[str], tuple[str, ...]]:
    """Return a function that returns the groups of a text's question words, in their order.

    Args:
        rule: ``word`` takes whole words, as the paper's text says; ``substring`` finds "how" in
            "show", as the release of 2022 did. Case does not matter.
        words: how texts are divided into words (`WORDS`).
        group_of: question word -> group. Of words that begin at one place, the longest counts.

    Raises:
        UnknownNameError: if there is no such rule.

    Examples:
        >>> match = question_matcher(words="characters", group_of={"什么": "wha", "谁": "who"})
        >>> match("谁知道这是什么")
        ('who', 'wha')
    """
    shift_of_rule("wh-words", rule)
    groups = {divide(word, words): group for word, group in group_of.items()}
    either = "|".join(map(re.escape, sorted(groups, key=len, reverse=True)))
    # By default a word is a run of letters and digits: "what's" has "what", "whats" has not.
    letter = r"[^\W_]" if words == "whitespace" else r"\S"
    # The lookahead consumes nothing, so that overlapping words are all found.
    whole, part = rf"(?<!{letter})({either})(?!{letter})", rf"(?=({either}))"
    find = re.compile(whole if rule == "word" else part).finditer

    def match(text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(groups[word[1]] for word in find(divide(text.lower(), words))))

    return match


def read_question_words(path: str | Path) -> dict[str, str]:
    """Read question words, which may be in any language: question word -> group of ``wh-words``.

    Args:
        path: a file of lines: question word, tab, group.

    Raises:
        CollectionError: if a line is malformed or names a word again, with every such line.
    """
    group_of: dict[str, str] = {}
    findings, groups = FindingLog(), SHIFTS["wh-words"].groups
    for line, text in numbered_lines(Path(path), findings):
        word, _, group = text.lower().partition("\t")
        if not word.strip() or group not in groups or word in group_of:
            fix = f"write a question word, a tab and {', '.join(groups)}, each word once"
            findings.add("question-word", f"the line is {text!r}", str(path), line, fix)
        group_of[word] = group
    findings.stop_if_any(CollectionError, f"the question words in {path} cannot be used:")
    return group_of


def group_by_wh_word(
    queries: Mapping[str, str],
    rule: str = "word",
    *,
    words: str = "whitespace",
    question_words: Mapping[str, str] = _GROUP_OF,
) -> Grouping:
    """Put every query into the group of the question word that comes first in it.

    Args:
        queries: the queries to group, query_id -> text.
        rule: see `question_matcher`.
        words: see there.
        question_words: question word -> group; by default those of the paper.

    Raises:
        UnknownNameError: if there is no such rule.
    """
    match = question_matcher(rule, words, question_words)
    labels = {query_id: next(iter(match(text)), OTHERS) for query_id, text in queries.items()}
    return Grouping(
        "wh-words",
        labels,
        rule,
        {"words": grouped((group, word) for word, group in question_words.items())},
    )


def group_by_rarest_term(
    queries: Mapping[str, str],
    rule: str = "median",
    *,
    set_aside: frozenset[str] = frozenset(),
    words: str = "whitespace",
) -> Grouping:
    """Put a query into ``rare`` if few other queries hold its rarest content word, else ``seen``.

    A word counts once for each other query that may be trained on. A query without content words
    (`search.content_words`) is in no group.

    Args:
        queries: the queries to group, query_id -> text. The cut is the median of their counts,
            rounded up, and at least 1: ``rare`` queries lie below it.
        rule: ``median`` is the only one.
        set_aside: queries that are never trained on, so that their words do not count.
        words: how texts are divided into words (`WORDS`).

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = shift_of_rule("rare-terms", rule)
    terms = {query_id: set(content_words(text, words)) for query_id, text in queries.items()}
    held = Counter(
        term for query_id, own in terms.items() if query_id not in set_aside for term in own
    )
    counts = {
        query_id: min(held[term] for term in own) - (query_id not in set_aside)
        for query_id, own in terms.items()
        if own
    }
    cut = max(1, math.ceil(statistics.median(counts.values()))) if counts else 1
    labels = dict.fromkeys(terms, OTHERS)
    labels.update((q, "rare" if count < cut else "seen") for q, count in counts.items())
    return Grouping(shift.name, labels, rule, {"cut": cut})


_NAME = re.compile(r"\w{1,64}")
_RESERVED = (OTHERS, FOR_ALL, "mean", "test")


@dataclass(frozen=True, slots=True)
class Labels:
    """A file of labels, which defines a shift: a line has a query_id, a group and perhaps a split.

    Attributes:
        path: the file.
        shift: the shift.
        rows: query_id -> line, group and split; the split is "" if the file has none.
    """

    path: Path
    shift: Shift
    rows: Mapping[str, tuple[int, str, str]]

    @classmethod
    def read(cls, name: str, path: str | Path) -> Self:
        r"""Read a file of labels.

        Args:
            name: the name of the shift: letters, digits and underscores, and not the name of
                another shift.
            path: a file of tab-separated lines, with or without a header: ``query_id`` and
                ``group``, or ``query_id``, ``group`` and ``split`` (one of `SPLITS`).

        Raises:
            UsageError: for a name that no shift of labels can have.
            NotFoundError: if there is no such file.
            CollectionError: if the file is malformed, labels a query twice, or has one group only.

        Examples:
            >>> Path("labels.tsv").write_text("q1\teasy\nq2\thard\n")
            16
            >>> Labels.read("difficulty", "labels.tsv").shift
            <Shift difficulty: easy, hard>
        """
        if not _NAME.fullmatch(name) or name in (*SHIFTS, *SIZED, *TEST_ONLY):
            raise UsageError(
                f"{name!r} cannot be the name of a shift of labels; give letters, digits and "
                "underscores, and not the name of another shift, e.g. --groups domain=labels.tsv"
            )
        path, findings = Path(path).expanduser(), FindingLog()
        rows: dict[str, tuple[int, str, str]] = {}
        width = 0
        for line, text in numbered_lines(path, findings):
            row = text.split("\t")
            width = width or len(row)
            if line == 1 and row[0].lower() in COLUMN_NAMES:
                continue
            _check_line(row, width, rows, findings, (str(path), line))
            group, split, *_ = *row[1:], "", ""
            rows.setdefault(row[0], (line, group, split))
        groups = sorted({group for _, group, _ in rows.values()})
        if len(groups) < 2 and not len(findings):
            fix = "give at least two groups: a model is trained on the others of each"
            found = f"the file has only the group {groups[0]!r}" if groups else "the file is empty"
            findings.add("one-group", found, str(path), 1, fix)
        findings.stop_if_any(CollectionError, f"the labels in {path} cannot be used:")
        titles = {group: group.replace("_", " ") for group in groups}
        return cls(path, LabelledShift(name, titles).shift, rows)

    def ids_of(self, split: str) -> frozenset[str]:
        """Return the queries of a split; none if the file has no splits."""
        return frozenset(query_id for query_id, row in self.rows.items() if row[2] == split)

    @property
    def has_splits(self) -> bool:
        """Whether the file has a column of splits."""
        return any(split for *_, split in self.rows.values())


def _check_line(
    row: list[str],
    width: int,
    rows: Mapping[str, tuple[int, str, str]],
    findings: FindingLog,
    at: tuple[str, int],
) -> None:
    """Record everything that is wrong with a line of labels.

    Args:
        row: its fields.
        width: the fields of the first line.
        rows: the lines before it.
        findings: the log for findings.
        at: the file and the line.
    """
    if len(row) != width or width not in (2, 3):
        fix = "write query_id and group, and in all lines or none a split, separated by tabs"
        findings.add("field-count", f"{len(row)} tab-separated fields", *at, fix)
        return
    query_id, group, *split = row
    if query_id in rows:
        before = f"in line {rows[query_id][0]} its group is {rows[query_id][1]!r}"
        message = f"query {query_id!r} again, with group {group!r}; {before}"
        findings.add("repeated-id", message, *at, "keep one line per query")
    if not _NAME.fullmatch(group) or group.lower() in _RESERVED:
        fix = f"use letters, digits and underscores, and none of {', '.join(_RESERVED)}"
        findings.add("group-name", f"{group!r} cannot be the name of a group", *at, fix)
    if split and split[0] not in SPLITS:
        fix = f"write one of {', '.join(SPLITS)}"
        findings.add("unknown-split", f"unknown split {split[0]!r}", *at, fix)


def group_by_labels(
    queries: Mapping[str, str], rule: str = "labels", *, labels: Labels, collection: Collection
) -> Grouping:
    """Put every query into the group of its label; a query without a label is in no group.

    Args:
        queries: the queries to group, query_id -> text.
        rule: ``labels`` is the only one.
        labels: the labels.
        collection: the collection of the queries.

    Raises:
        CollectionError: if the collection lacks a query of the labels, or no query of a group has a
            relevant passage.
        UnknownNameError: if there is no such rule.
    """
    check_name(f"{labels.shift.name} rule", rule, labels.shift.rules)
    findings, path = FindingLog(), str(labels.path)
    for query_id, (line, _, _) in labels.rows.items():
        if query_id not in collection.queries:
            message = f"{collection.name} has no query {query_id!r}"
            findings.add("unknown-query", message, path, line, "remove the line, or correct the id")
    judged = {row[1] for query_id, row in labels.rows.items() if query_id in queries}
    for group in labels.shift.groups if not len(findings) else ():
        if group not in judged:
            line = next(line for line, label, _ in labels.rows.values() if label == group)
            message = f"no query of group {group!r} has a relevant passage in {collection.name}"
            fix = "add judgements, or leave the group out"
            findings.add("unjudged-group", message, path, line, fix)
    findings.stop_if_any(CollectionError, f"the labels in {path} cannot be used:")
    text = "".join(f"{q}\t{row[1]}\t{row[2]}\n" for q, row in sorted(labels.rows.items()))
    facts = {"queries": len(labels.rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    groups = {query_id: row[1] for query_id, row in labels.rows.items()}
    placed = {query_id: groups.get(query_id, OTHERS) for query_id in queries}
    return Grouping(labels.shift.name, placed, rule, {"labels": facts})
