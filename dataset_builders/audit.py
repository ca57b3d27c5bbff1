"""Audits: count the errata of the official release, and the leaked test queries of a data set.

Errata are, for example, queries without text, queries in two groups, and rules that differ from the
paper's text. `audit_release` counts them. `add_split_leakage` counts the test queries of a built
data set that have near-duplicates in training, and writes the counts into its manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, starmap
from pathlib import Path
from typing import Any

from msshift_bench.data import Dataset, Manifest, open_dataset, sha256_of
from msshift_bench.dataset_builders.cut import ids_and_texts
from msshift_bench.dataset_builders.groups import question_matcher, word_count
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
from msshift_bench.dataset_builders.write import amend_dataset
from msshift_bench.encoders import OWN, TERMS, EncoderSpec
from msshift_bench.errors import CollectionError, FindingLog, MissingError, UsageError
from msshift_bench.leakage import TIERS, find_leakage
from msshift_bench.output import Summary, Table, report_head
from msshift_bench.plumbing import progress_line, values_by_key
from msshift_bench.records import OTHERS
from msshift_bench.shifts import SHIFTS, get_shift

DEV_SMALL = 6980
"""Number of queries in MS MARCO's dev-small, the source of the test sets of `length`."""

Overlaps = Mapping[str, Mapping[str, int]]
"""Config of the row -> config of the column -> number of queries or texts in both."""


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


def _set_row(config: str, facts: Mapping[str, Any]) -> tuple[object, ...]:
    queries, qrels_queries, orphans, *rest = facts.values()
    listed = f"{len(orphans)}: {', '.join(orphans)}" if orphans else "0"
    return config, queries, qrels_queries, listed, *rest


def _matrix(title: str, overlaps: Overlaps) -> Table:
    columns = tuple(next(iter(overlaps.values())))
    rows = ((name, *(shared[column] for column in columns)) for name, shared in overlaps.items())
    return Table.plain(title, ("", *columns), rows)


def audit_release(folder: Path) -> Summary:
    """Audit a checkout of the official release.

    Args:
        folder: the checkout, with a folder ``EVAL`` and perhaps ``TRAIN``.

    Returns:
        The counts, and tables of them:

        - ``test_sets``: config -> its counts: ``queries`` in the file of texts, the denominator of
          every mean; ``qrels_queries``, the queries in the qrels; ``orphans``, the ids in the qrels
          that are not in the file of texts, sorted; queries ``without_relevant`` passages, with
          ``several_relevant`` passages, with ``empty_texts``, and with ``repeated_texts``, the text
          of an earlier query.
        - ``errata``: erratum -> number of its queries.
        - ``wh_words``: group -> counts of its ``queries``. Some contain a question word of the
          group as a ``substring``, as a ``word``, or ``only_inside`` another word. Others contain
          ``no_word`` of any group. ``first_substring`` and ``first_word`` count the queries whose
          first question word is the group's, by the rules ``substring`` and ``word``. The edition
          ``rebuilt`` follows ``word``.
        - ``length``: group -> counts of its ``queries``. ``wrong_by_spaces`` counts the queries
          that ``len(text.split(" "))`` puts into the other group; the release follows this rule.
          ``wrong_by_words`` counts them for ``len(text.split())``.
        - ``by_id``: config -> config -> number of query ids in both test sets, also for a test set
          and itself. ``by_text``: the same for different texts, lower-cased and with single spaces.
        - ``trained_on``: ``<shift>-<group>`` -> test set -> number of the set's queries whose exact
          text is a training query of this group; `None` without the training file.
        - ``training_rows``: number of rows of the training file; 0 without it.
        - ``files``: path in the checkout -> SHA-256 of each audited file.

    Raises:
        NotFoundError: if the folder is not a checkout of the release.
        CollectionError: if a file is malformed.
    """
    files = release_files(folder)
    sets = read_test_sets(folder)
    test_sets = {s.config: _set_facts(s) for s in sets}
    errata = _errata(sets)
    wh_words = {s.group: _word_rules(s) for s in sets if s.shift == "wh-words"}
    length = {s.group: _length_rule(s) for s in sets if s.shift == "length"}
    by_id = _overlaps({s.config: set(s.queries) for s in sets})
    by_text = _overlaps(
        {s.config: {" ".join(text.lower().split()) for text in s.queries.values()} for s in sets}
    )
    trained_on, training_rows = None, 0
    note = f"no {TRAINING_FILE}: texts that test sets share with training queries are not counted"
    tables = [
        Table.plain("Test sets", _SET_HEADER, starmap(_set_row, test_sets.items())),
        Table.plain("Errata", ("what", "queries"), errata.items()),
        Table.plain(
            "Question words: matches of both rules in the queries of each group",
            _WORD_HEADER,
            ((group, *facts.values()) for group, facts in wh_words.items()),
        ),
        Table.plain(
            f"Length: short is fewer than {LENGTH_CUT} words",
            ("group", "queries", 'wrong by split(" ")', "wrong by split()"),
            ((group, *facts.values()) for group, facts in length.items()),
        ),
        _matrix("Query ids that test sets share", by_id),
        _matrix("Different texts that test sets share, regardless of case and spaces", by_text),
    ]
    if TRAINING_FILE in files:
        training_rows, texts = _training_texts(files[TRAINING_FILE])
        trained_on = {
            config: {s.config: sum(text in trained for text in s.queries.values()) for s in sets}
            for config, trained in texts.items()
        }
        note = f"training file: {training_rows} queries, matched by their exact text"
        title = "Test queries (columns) whose text is a training query of the group (rows)"
        tables.append(_matrix(title, trained_on))
    facts = {
        **report_head(),
        "test_sets": test_sets,
        "errata": errata,
        "wh_words": wh_words,
        "length": length,
        "by_id": by_id,
        "by_text": by_text,
        "trained_on": trained_on,
        "training_rows": training_rows,
        "files": {name: sha256_of(path) for name, path in files.items()},
    }
    queries = "queries: queries with text, the denominator of every mean"
    orphans = "orphans: ids that have qrels but no text; the official edition omits them"
    return Summary(facts, tables, (queries, orphans, note))


def _set_facts(test_set: OfficialTestSet) -> dict[str, Any]:
    texts = test_set.queries.values()
    relevant = [len(test_set.relevant.get(query_id, ())) for query_id in test_set.queries]
    return {
        "queries": len(test_set.queries),
        "qrels_queries": len(test_set.relevant),
        "orphans": list(test_set.orphans),
        "without_relevant": relevant.count(0),
        "several_relevant": sum(count > 1 for count in relevant),
        "empty_texts": sum(not text.strip() for text in texts),
        "repeated_texts": len(texts) - len(set(texts)),
    }


def _errata(sets: Sequence[OfficialTestSet]) -> dict[str, int]:
    ids = {s.group: set(s.queries) for s in sets}
    groups = {shift: [s.group for s in sets if s.shift == shift] for shift in OFFICIAL_SHIFTS}
    short, long = groups["length"]
    dev = ids[short] | ids[long]
    others = {query_id for s in sets if s.shift != "length" for query_id in s.queries}
    versions = values_by_key(
        (query_id, (text, s.relevant.get(query_id)))
        for s in sets
        for query_id, text in s.queries.items()
    )
    shared = {
        f"in both {a} and {b}": len(ids[a] & ids[b]) for a, b in combinations(groups["wh-words"], 2)
    }
    return {
        "with qrels and no text, in all sets": sum(len(s.orphans) for s in sets),
        "different queries in all sets": len(versions),
        "with another text or other relevant passages in another set": sum(
            any(version != first for version in others) for first, *others in versions.values()
        ),
        "in two topics": sum(len(ids[a] & ids[b]) for a, b in combinations(groups["topics"], 2)),
        **shared,
        f"in both {short} and {long}": len(ids[short] & ids[long]),
        f"in {short} or {long} (MS MARCO's dev-small has {DEV_SMALL})": len(dev),
        "of these in a topic or a group of question words": len(dev & others),
    }


def _word_rules(test_set: OfficialTestSet) -> dict[str, int]:
    group = test_set.group
    words, substrings = (
        list(map(question_matcher(rule), test_set.queries.values()))
        for rule in ("word", "substring")
    )
    return {
        "queries": len(words),
        "substring": sum(group in matching for matching in substrings),
        "word": sum(group in matching for matching in words),
        "only_inside": sum(
            group in inside and group not in as_word
            for inside, as_word in zip(substrings, words, strict=True)
        ),
        "no_word": sum(not matching for matching in words),
        "first_substring": sum(matching[:1] == (group,) for matching in substrings),
        "first_word": sum(matching[:1] == (group,) for matching in words),
    }


def _length_rule(test_set: OfficialTestSet) -> dict[str, int]:
    is_short = test_set.group == "short"
    texts = test_set.queries.values()
    return {
        "queries": len(texts),
        "wrong_by_spaces": sum((word_count(text) < LENGTH_CUT) != is_short for text in texts),
        "wrong_by_words": sum((len(text.split()) < LENGTH_CUT) != is_short for text in texts),
    }


def _overlaps(members: Mapping[str, set[str]]) -> Overlaps:
    return {
        row: {column: len(first & second) for column, second in members.items()}
        for row, first in members.items()
    }


def _training_texts(path: Path) -> tuple[int, dict[str, set[str]]]:
    """Return the number of rows of the training file, and ``<shift>-<group>`` -> training texts.

    It raises CollectionError if the file is malformed.
    """
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


def add_split_leakage(
    data: Dataset | str | Path,
    *,
    encoder: str | EncoderSpec = TERMS,
    pooling: str = OWN,
    threshold: float | None = None,
) -> Manifest:
    """Write into card and manifest how many test queries each experiment's training set leaks.

    The manifest gets ``near_duplicates`` for every shift with training queries: encoder, threshold
    and counts. Held-out group -> tier -> number of leaked test queries, for each tier that compares
    texts, and for ``any``. The rows of the splits do not change.

    Args:
        data: the built data set; see `open_dataset`.
        encoder: see `find_leakage`.
        pooling: see `find_leakage`.
        threshold: see `find_leakage`.

    Returns:
        The new manifest.

    Raises:
        NotFoundError: if there is no built data set, or no such encoder.
        MissingError: if the data set holds ids only, or the encoder's libraries are not installed.
        UsageError: if it has no training queries, `threshold` is out of range, or another process
            is writing it or has rebuilt it.
        DataError: if a query has no token.

    Examples:
        >>> manifest = add_split_leakage("msshift")
        >>> manifest.shifts["length"]["near_duplicates"]["test_queries"]["short"]
        {'same-text': 0, 'same-normalised': 0, 'same-words': 0, 'near-duplicate': 0, 'any': 0}
    """
    dataset = open_dataset(data)
    if not dataset.manifest.texts:
        raise MissingError(
            f"{dataset.folder} holds ids only, no texts of queries; "
            f"run 'msshift import {dataset.folder}' to restore them"
        )
    counted: dict[str, dict[str, Any]] = {}
    for name in dataset.manifest.shifts:
        for config, group in SHIFTS[name].configs.items():
            if "train" not in dataset.manifest.configs[config]:
                continue
            with progress_line(config):
                leakage = find_leakage(
                    *(ids_and_texts(dataset.table(config, split)) for split in ("train", "test")),
                    encoder=encoder,
                    pooling=pooling,
                    threshold=threshold,
                    words=dataset.words,
                )
            facts = counted.setdefault(
                name,
                {
                    "encoder": leakage.facts["encoder"],
                    "threshold": leakage.facts["threshold"],
                    "test_queries": {},
                },
            )
            # The texts in which words are counted differ between experiments.
            facts["encoder"].pop("counted_in", None)
            facts["test_queries"][group] = {
                tier: leakage.count(tier).topics for tier in TIERS[:-1]
            } | {"any": leakage.count(*TIERS[:-1]).topics}
    if not counted:
        raise UsageError(
            f"{dataset.folder} has no training queries, so no test query can leak; "
            "give a data set with the split 'train'"
        )

    def with_counts(_: Path, manifest: Manifest) -> Manifest:
        shifts = {
            name: {**facts, **({"near_duplicates": counted[name]} if name in counted else {})}
            for name, facts in manifest.shifts.items()
        }
        return replace(manifest, shifts=shifts)

    return amend_dataset(dataset, with_counts, work="its test queries were compared")
