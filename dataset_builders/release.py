"""The official edition: read a checkout of the release of 2022, with strict checks.

The release of 2022 (`RELEASE_URL`; MS-Shift, ECIR 2023, footnote 3) contains ten test sets, each
with a file of queries and a file of qrels. The file of training queries,
``TRAIN/queries_clustering.tsv``, has a header line and 398,792 of MS MARCO's queries. For every
shift, it has each query's cluster, and a flag for training. It has texts but no ids, so that its
queries are joined to MS MARCO by their text. Source: the README and the notebook of the release.
`zhan` reads ReSTTest's release.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from msshift_bench.data import Collection, sha256_of
from msshift_bench.dataset_builders.cut import ShiftSplits, cut_table
from msshift_bench.dataset_builders.groups import word_count
from msshift_bench.dataset_builders.zhan import RULE
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    NotFoundError,
    UsageError,
    first_few,
    quoted,
)
from msshift_bench.plumbing import MAX_RELEVANCE, tsv_rows
from msshift_bench.records import OTHERS, Grouping, Row
from msshift_bench.shifts import get_shift

RELEASE_URL = "https://github.com/naver/ms-marco-shift"
"""The address of the release's repository."""

OFFICIAL_SHIFTS = ("topics", "wh-words", "length")
"""The shifts of the release."""

_TOPIC_FILES = {f"C{number}": str(number) for number in range(5)}

TRAINING_FILE = "TRAIN/queries_clustering.tsv"
"""The path of the training file in a checkout."""

TRAINING_COLUMNS = (
    "query",
    "topic_cluster",
    "topic_train",
    "whword_cluster",
    "whword_train",
    "length_cluster",
    "length_train",
)
"""The columns of the training file, as in its header line."""

LENGTH_CUT = 6
"""The median number of words on MS MARCO; a query with this number or more is ``long``."""

_CLUSTERS = {
    "topics": {"0": "C0", "1": "C1", "2": "C2", "3": "C3", "4": "C4", "5": OTHERS},
    "wh-words": {"0": "wha", "1": "how", "2": "who", "3": OTHERS},
    "length": {"0": "short", "1": "long"},
}
_FLAGS = {"0": False, "1": True, "False": False, "True": True}

_UNUSUAL = (
    "unknown_text",
    "without_relevant_passage",
    "several_query_ids",
    "repeated",
    "contradictory",
    "other_length",
    "trained_on_others",
)
"""Unusual rows that the report counts.

- ``unknown_text``: no query of the collection has the text.
- ``without_relevant_passage``: only queries without a relevant passage have it.
- ``several_query_ids``: several queries have it.
- ``repeated``: an earlier row has it.
- ``contradictory``: an earlier row has it, with other labels.
- ``other_length``: the group of `length` contradicts the number of words.
- ``trained_on_others``: the row is marked for training in a shift in which it is in no group.
"""

_LISTED = 20
"""The most line numbers that a report lists; all are counted."""


class TrainingRow(NamedTuple):
    """One line of the training file.

    Attributes:
        text: the query's text in the line; once joined, the text in the collection.
        groups: shift -> group, or `OTHERS`.
        trained: the shifts in which it is a training query.
        relevant: doc_id -> relevance of its relevant passages in the collection; empty until the
            row is joined.
    """

    text: str
    groups: Mapping[str, str]
    trained: frozenset[str]
    relevant: Mapping[str, int] = {}


def training_rows(path: Path, findings: FindingLog) -> Iterator[tuple[int, TrainingRow]]:
    """Yield ``(line number, row)`` of the training file.

    Malformed lines become findings; after a wrong header there are no rows.
    """
    rows = tsv_rows(path, TRAINING_COLUMNS, findings)
    first = next(rows, None)
    if first is None or first[1] != list(TRAINING_COLUMNS):
        fix = f"begin with a line of these columns: {', '.join(TRAINING_COLUMNS)}"
        findings.add("header", "the first line is not the header line", str(path), 1, fix)
        return
    for line, (text, *values) in rows:
        groups: dict[str, str] = {}
        trained = []
        # Two columns per shift: the query's cluster, and the flag for training.
        for number, (shift, clusters) in enumerate(_CLUSTERS.items()):
            cluster, flag = values[2 * number : 2 * number + 2]
            column = TRAINING_COLUMNS[2 * number + 1]
            if cluster not in clusters:
                message = f"{column} is {cluster!r}, expected one of {', '.join(clusters)}"
                findings.add("unknown-cluster", message, str(path), line)
            elif flag not in _FLAGS:
                column = TRAINING_COLUMNS[2 * number + 2]
                message = f"{column} is {flag!r}, expected one of {', '.join(_FLAGS)}"
                findings.add("unknown-flag", message, str(path), line)
            else:
                groups[shift] = clusters[cluster]
                if _FLAGS[flag]:
                    trained.append(shift)
        if len(groups) == len(_CLUSTERS):
            yield line, TrainingRow(text, groups, frozenset(trained))


def spellings(text: str) -> tuple[str, ...]:
    """Return the possible texts of a query in the file: the text itself, and, if quoted, unquoted.

    Programs that write CSV put a text with a quotation mark into quotation marks, and double the
    inner ones. But a user may also have typed the query with quotation marks. So both are tried.
    """
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text, text[1:-1].replace('""', '"')
    return (text,)


@dataclass(frozen=True, slots=True)
class OfficialTestSet:
    """One test set of the release, with all queries of its two files.

    Attributes:
        shift: e.g. ``"topics"``.
        group: e.g. ``"C2"``.
        queries: query_id -> text, in the order of the file.
        relevant: query_id -> doc_id -> relevance, at least 1, of the relevant passages, sorted by
            doc_id; for every query of the qrels, also without relevant passages.
    """

    shift: str
    group: str
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, int]]

    @property
    def config(self) -> str:
        """The config's name, e.g. ``"topics-C2"``."""
        return f"{self.shift}-{self.group}"

    @property
    def orphans(self) -> tuple[str, ...]:
        """The queries that have qrels but no text, sorted."""
        return tuple(sorted(self.relevant.keys() - self.queries.keys()))


@dataclass(frozen=True, slots=True)
class OfficialRelease:
    """The contents of a release.

    Attributes:
        shifts: the shifts with the released splits. A query may be in the test sets of two groups
            of question words: the table then has one row for each.
        report: the manifest's facts on the import; JSON values only.
        joined: query_id -> its row, for every query of the training file that is in the collection
            with a relevant passage, whether or not a shift trains on it.
    """

    shifts: tuple[ShiftSplits, ...]
    report: Mapping[str, object]
    joined: Mapping[str, TrainingRow] = field(default_factory=dict)


def release_files(folder: Path) -> dict[str, Path]:
    """Return the files of a checkout: path inside it -> path, sorted by path.

    The training file comes last, if it exists.

    Raises:
        NotFoundError: if the folder or files of a test set are missing.
    """
    names = sorted(
        name for shift in OFFICIAL_SHIFTS for g in get_shift(shift).groups for name in _names(g)
    )
    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {folder}; give a checkout of {RELEASE_URL}")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise NotFoundError(
            f"{folder} is not a checkout of the official release: it lacks {len(missing)} of "
            f"{len(names)} files ({first_few(missing, 3)}). Run 'git clone {RELEASE_URL}' and give "
            "the folder that contains EVAL"
        )
    if (folder / TRAINING_FILE).is_file():
        names.append(TRAINING_FILE)
    return {name: folder / name for name in names}


def _names(group: str) -> tuple[str, str]:
    name = _TOPIC_FILES.get(group, group)
    return f"EVAL/queries/queries_{name}.tsv", f"EVAL/qrel/qrel_{name}.json"


def read_test_sets(folder: Path) -> tuple[OfficialTestSet, ...]:
    """Read the ten test sets of a checkout, in the order of `OFFICIAL_SHIFTS` and their groups.

    Orphans, empty texts, and queries without qrels are not errors.

    Raises:
        NotFoundError: if the folder is not a checkout of the release.
        CollectionError: if a file is malformed.
    """
    files = release_files(folder)
    findings = FindingLog()
    sets = tuple(
        OfficialTestSet(
            shift,
            group,
            _read_queries(files[_names(group)[0]], findings),
            _read_qrel(files[_names(group)[1]], findings),
        )
        for shift in OFFICIAL_SHIFTS
        for group in get_shift(shift).groups
    )
    findings.stop_if_any(CollectionError, f"the test sets in {folder} are malformed:")
    return sets


def _read_queries(path: Path, findings: FindingLog) -> dict[str, str]:
    queries: dict[str, str] = {}
    for line, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
        if query_id in queries:
            findings.add("repeated-id", f"query_id {query_id!r} is repeated", str(path), line)
        queries[query_id] = text
    return queries


def _read_qrel(path: Path, findings: FindingLog) -> dict[str, dict[str, int]]:
    """Return query_id -> doc_id -> relevance of the relevant passages in a JSON file.

    Objects are read as pairs, to detect repeated keys. Malformed parts become findings.
    """
    name, fix = str(path), "write an object {query_id: {doc_id: relevance}}"
    try:
        raw = json.loads(path.read_bytes(), object_pairs_hook=tuple)
    except json.JSONDecodeError as error:
        findings.add("not-json", f"not JSON: {error.msg}", name, error.lineno, fix)
        return {}
    except UnicodeDecodeError as error:
        findings.add("not-utf8", f"byte {error.start + 1} is not UTF-8", name)
        return {}
    except (RecursionError, ValueError) as error:
        nested = isinstance(error, RecursionError)
        reason = "nested too deep" if nested else "a number has thousands of digits"
        findings.add("not-json", f"not JSON: {reason}", name, fix=fix)
        return {}
    if not isinstance(raw, tuple):
        findings.add("not-qrels", "the file is not an object", name, 1, fix)
        return {}
    relevant: dict[str, dict[str, int]] = {}
    for query_id, judged in raw:
        if query_id in relevant:
            findings.add("repeated-id", f"query_id {query_id!r} is repeated", name)
        if not isinstance(judged, tuple):
            message = f"the value of query {query_id!r} is not an object"
            findings.add("not-qrels", message, name, fix=fix)
            continue
        grades: dict[str, int] = {}
        for doc_id, relevance in judged:
            where = f"query {query_id!r}, passage {doc_id!r}"
            if type(relevance) is not int or abs(relevance) > MAX_RELEVANCE:
                expected = f"expected an integer from -{MAX_RELEVANCE} to {MAX_RELEVANCE}"
                message = f"{where}: relevance is {quoted(relevance)}, {expected}"
                findings.add("relevance-not-integer", message, name)
            elif doc_id in grades:
                findings.add("duplicate-judgement", f"{where}: the judgement is repeated", name)
            else:
                grades[doc_id] = relevance
        relevant[query_id] = {doc: grade for doc, grade in sorted(grades.items()) if grade > 0}
    return relevant


def read_official(folder: Path, collection: Collection | None = None) -> OfficialRelease:
    """Read a checkout of the release of 2022.

    The test sets are not changed, but queries with qrels and without text are omitted. Training
    queries are imported if the checkout has their file. A row of this file joins every query of the
    collection that has exactly its text and a relevant passage. Each joined query has its own
    qrels. If rows repeat a text, the first counts. A shift does not train on its own test queries.

    Args:
        folder: the checkout, with a folder ``EVAL`` and perhaps ``TRAIN``.
        collection: MS MARCO's training queries and qrels, in the raw text variant. ir_datasets
            repairs double-encoded characters, and rows with such characters do not join repaired
            texts. Not read if the checkout has no training queries.

    Raises:
        NotFoundError: if the folder is not a checkout of the release.
        CollectionError: if a file is malformed, or a test query has an empty text or no relevant
            passage.
        UsageError: if there are training queries and no collection to join them to.
        DataError: if no training query joins the collection.
    """
    files = release_files(folder)
    sets = read_test_sets(folder)
    _check_usable(sets, folder)
    cuts: list[ShiftSplits] = []
    joined: dict[str, TrainingRow] = {}
    training: dict[str, object] | None = None
    if TRAINING_FILE in files:
        if collection is None:
            raise UsageError(
                f"{files[TRAINING_FILE]} has texts of queries but no ids; give the "
                "collection that has their ids and qrels, e.g. msmarco-passage/train"
            )
        joined, training = _read_training(files[TRAINING_FILE], collection)
    left_out = {}
    for shift in OFFICIAL_SHIFTS:
        shift_sets = [test_set for test_set in sets if test_set.shift == shift]
        tested = {query_id for test_set in shift_sets for query_id in test_set.queries}
        trained = {
            query_id: row
            for query_id, row in joined.items()
            if shift in row.trained and row.groups[shift] != OTHERS
        }
        left_out[shift] = sorted(tested.intersection(trained))
        rows = {
            "train": [
                Row.judged(query_id, row.text, row.groups[shift], row.relevant)
                for query_id, row in trained.items()
                if query_id not in tested
            ],
            "test": sorted(
                Row.judged(query_id, text, test_set.group, test_set.relevant[query_id])
                for test_set in shift_sets
                for query_id, text in test_set.queries.items()
            ),
        }
        cuts.append(
            ShiftSplits(Grouping(shift, {}, RULE, {"upstream": RELEASE_URL}), cut_table(rows))
        )
    return OfficialRelease(
        shifts=tuple(cuts),
        report={
            "upstream": RELEASE_URL,
            "test_sets": {
                s.config: {"queries": len(s.queries), "qrels_queries": len(s.relevant)}
                for s in sets
            },
            "orphans": {s.group: list(s.orphans) for s in sets if s.orphans},
            "training": None if training is None else {**training, "test_queries": left_out},
            "files": {name: sha256_of(path) for name, path in files.items()},
        },
        joined=joined,
    )


def _check_usable(sets: Iterable[OfficialTestSet], folder: Path) -> None:
    findings = FindingLog()
    for test_set in sets:
        queries_file, qrel_file = (str(folder / name) for name in _names(test_set.group))
        for query_id, text in test_set.queries.items():
            if not text.strip():
                findings.add("empty-text", f"query {query_id!r} has no text", queries_file)
            if not test_set.relevant.get(query_id):
                findings.add(
                    "unjudged-query", f"query {query_id!r} has no relevant passage", qrel_file
                )
    findings.stop_if_any(CollectionError, f"the test sets in {folder} cannot be scored:")


def _read_training(
    path: Path, collection: Collection
) -> tuple[dict[str, TrainingRow], dict[str, object]]:
    """Join the training file to a collection; see `read_official`.

    Returns:
        query_id -> row of the joined queries, and the report on rows: JSON values.
        A malformed line raises CollectionError; without a joined row there is a DataError.
    """
    relevant = collection.relevant
    ids: dict[str, list[str]] = {}
    for query_id, text in collection.queries.items():
        ids.setdefault(text, []).extend([query_id] if query_id in relevant else [])
    joined: dict[str, TrainingRow] = {}
    unusual: dict[str, list[int]] = {kind: [] for kind in _UNUSUAL}
    seen: dict[str, TrainingRow] = {}
    count = matched = 0
    findings = FindingLog()
    for line, row in training_rows(path, findings):
        count += 1
        text = next((s for s in spellings(row.text) if s in ids), row.text)
        earlier = seen.setdefault(text, row)
        if earlier is not row:
            unusual["repeated"].append(line)
            if earlier[1:] != row[1:]:
                unusual["contradictory"].append(line)
            continue
        if (word_count(text) < LENGTH_CUT) != (row.groups["length"] == "short"):
            unusual["other_length"].append(line)
        if any(row.groups[shift] == OTHERS for shift in row.trained):
            unusual["trained_on_others"].append(line)
        if not ids.get(text):
            unusual["without_relevant_passage" if text in ids else "unknown_text"].append(line)
            continue
        matched += 1
        if len(ids[text]) > 1:
            unusual["several_query_ids"].append(line)
        for query_id in ids[text]:
            joined[query_id] = row._replace(text=text, relevant=relevant[query_id])
    findings.stop_if_any(CollectionError, f"{path} is malformed:")
    if not joined:
        raise DataError(
            f"none of the {count} queries of {path} is a query of {collection.name} with a "
            "relevant passage; choose a collection with MS MARCO's training queries"
        )
    return joined, {
        "rows": count,
        "joined": matched,
        "collection": collection.name,
        "text": collection.text_variant,
        **{
            kind: {"rows": len(lines), "first_lines": lines[:_LISTED]}
            for kind, lines in unusual.items()
        },
    }
