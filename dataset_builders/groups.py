"""Group queries by their texts (length, question word, rare terms) or by a file of labels.

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
    """Return the shift called `name`, after a check that it has the rule.

    Raises:
        UnknownNameError: if the shift has no such rule.
        KeyError: if `name` is not in `SHIFTS` or `SIZED`.
    """
    shift = SHIFTS.get(name) or SIZED[name]
    check_name(f"{name} rule", rule, shift.rules)
    return shift


def word_count(text: str, words: str = "whitespace") -> int:
    """Return the number of words, by default as in the release of 2022: ``text.split(" ")``.

    So two spaces in a row count as an empty word, and an empty text has one word. ``text.split()``
    would misplace four of the release's 6,980 test queries.

    Args:
        text: a query's text.
        words: how texts are divided into words (`WORDS`).
    """
    return divide(text, words).count(" ") + 1


def group_by_length(
    queries: Mapping[str, str], rule: str = "split-space", *, words: str = "whitespace"
) -> Grouping:
    """Put a query into ``short`` if it has fewer words than the median query, else into ``long``.

    Args:
        queries: the queries to group, query_id -> text. The cut is their median number of words,
            rounded up. On MS MARCO it is 6, so that ``short`` queries have at most 5 words.
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
"""Group -> its question words in the paper."""

_GROUP_OF = {word: group for group, words in WH_WORDS.items() for word in words}


def question_matcher(
    rule: str = "word", words: str = "whitespace", group_of: Mapping[str, str] = _GROUP_OF
) -> Callable[[str], tuple[str, ...]]:
    """Return a function from a text to the groups of its question words, in the text's order.

    The function returns each group once, and `()` for a text without question words.

    Args:
        rule: ``word`` matches complete words, as in the text of the paper. ``substring`` also
            matches "how" in "show", as in the release of 2022. Case does not matter.
        words: how texts are divided into words (`WORDS`).
        group_of: question word -> group. If several begin at one position, the longest counts.

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
    # By default a word is a run of letters and digits: "what's" contains "what", "whats" does not.
    letter = r"[^\W_]" if words == "whitespace" else r"\S"
    # The lookahead consumes no characters, so that overlapping words all match.
    as_word, inside = rf"(?<!{letter})({either})(?!{letter})", rf"(?=({either}))"
    find = re.compile(as_word if rule == "word" else inside).finditer

    def match(text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(groups[word[1]] for word in find(divide(text.lower(), words))))

    return match


def read_question_words(path: str | Path) -> dict[str, str]:
    """Read question words, in any language: question word -> group of ``wh-words``.

    Words and groups are lower-cased.

    Args:
        path: a file of lines: question word, tab, group.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if the file is empty, or a line is malformed or repeats a word; the error
            lists all such lines.
    """
    group_of: dict[str, str] = {}
    findings, groups = FindingLog(), SHIFTS["wh-words"].groups
    fix = f"write a question word, a tab and one of {', '.join(groups)}, each word once"
    for line, text in numbered_lines(Path(path), findings):
        word, _, group = text.lower().partition("\t")
        if not word.strip() or group not in groups or word in group_of:
            findings.add("question-word", f"the line is {text!r}", str(path), line, fix)
        group_of[word] = group
    if not (group_of or len(findings)):
        findings.add("empty-file", "the file has no question word", str(path), fix=fix)
    findings.stop_if_any(CollectionError, f"the question words in {path} cannot be used:")
    return group_of


def group_by_wh_word(
    queries: Mapping[str, str],
    rule: str = "word",
    *,
    words: str = "whitespace",
    question_words: Mapping[str, str] = _GROUP_OF,
) -> Grouping:
    """Put every query into the group of its first question word; without one, into no group.

    Args:
        queries: the queries to group, query_id -> text.
        rule: see `question_matcher`.
        words: see `question_matcher`.
        question_words: question word -> group; by default the words of the paper.

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
    """Put a query into ``rare`` if its rarest content word is in few other queries, else ``seen``.

    Only queries that may be trained on count. A query without content words
    (`search.content_words`) is in no group.

    Args:
        queries: the queries to group, query_id -> text. The cut is the median count of their rarest
            words, rounded up, and at least 1. ``rare`` queries are below it.
        rule: ``median`` is the only one.
        set_aside: queries that are never trained on, so that their words do not count.
        words: how texts are divided into words (`WORDS`).

    Raises:
        UnknownNameError: if there is no such rule.
    """
    shift = shift_of_rule("rare-terms", rule)
    terms = {query_id: set(content_words(text, words)) for query_id, text in queries.items()}
    queries_with = Counter(
        term
        for query_id, in_query in terms.items()
        if query_id not in set_aside
        for term in in_query
    )
    counts = {
        query_id: min(queries_with[term] for term in in_query) - (query_id not in set_aside)
        for query_id, in_query in terms.items()
        if in_query
    }
    cut = max(1, math.ceil(statistics.median(counts.values()))) if counts else 1
    labels = dict.fromkeys(terms, OTHERS)
    labels.update((q, "rare" if count < cut else "seen") for q, count in counts.items())
    return Grouping(shift.name, labels, rule, {"cut": cut})


_NAME = re.compile(r"\w{1,64}")
_RESERVED = (OTHERS, FOR_ALL, "mean", "test")


@dataclass(frozen=True, slots=True)
class Labels:
    """A file of labels, which defines a shift: a group, and optionally a split, for each query.

    Attributes:
        path: the file.
        shift: the shift, with the file's groups in alphabetical order.
        rows: query_id -> line number, group and split; the split is "" if the file has none.
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
            UsageError: if the name is malformed or is the name of another shift.
            NotFoundError: if there is no such file.
            CollectionError: if the file is malformed or empty, labels a query twice, or has only
                one group.

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
            message = (
                f"the file has only the group {groups[0]!r}" if groups else "the file is empty"
            )
            findings.add("one-group", message, str(path), 1, fix)
        findings.stop_if_any(CollectionError, f"the labels in {path} cannot be used:")
        titles = {group: group.replace("_", " ") for group in groups}
        return cls(path, LabelledShift(name, titles).shift, rows)

    def ids_of(self, split: str) -> frozenset[str]:
        """Return the ids of a split's queries; none if the file has no splits."""
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
    """Add a finding for each error in a line of labels.

    `width` is the number of fields of the first line, `at` the path and the line number.
    """
    if len(row) != width or width not in (2, 3):
        fix = "write query_id and group, and in all lines or none a split, separated by tabs"
        findings.add("field-count", f"the line has {len(row)} tab-separated fields", *at, fix)
        return
    query_id, group, *split = row
    if query_id in rows:
        before = f"line {rows[query_id][0]} has group {rows[query_id][1]!r}"
        message = f"query {query_id!r} is repeated, with group {group!r}; {before}"
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

    Labels of other queries of the collection are ignored.

    Args:
        queries: the queries to group, query_id -> text.
        rule: ``labels`` is the only one.
        labels: the labels.
        collection: the collection of the queries.

    Raises:
        CollectionError: if a labelled query is not in the collection, or no query of a group is in
            `queries`.
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
            fix = "add judgements, or remove the group"
            findings.add("unjudged-group", message, path, line, fix)
    findings.stop_if_any(CollectionError, f"the labels in {path} cannot be used:")
    text = "".join(f"{q}\t{row[1]}\t{row[2]}\n" for q, row in sorted(labels.rows.items()))
    facts = {"queries": len(labels.rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    groups = {query_id: row[1] for query_id, row in labels.rows.items()}
    placed = {query_id: groups.get(query_id, OTHERS) for query_id in queries}
    return Grouping(labels.shift.name, placed, rule, {"labels": facts})
