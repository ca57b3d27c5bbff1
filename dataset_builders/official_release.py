"""The official edition: a checkout of the release of 2022, read strictly and kept as it is.

The release (`RELEASE_URL`; MS-Shift, ECIR 2023, footnote 3) holds ten test sets, each a file of
queries and a file of qrels, and one file of training queries; see `official_training` for that.
It has no validation queries; `official_validation` samples some.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msshift_bench.data import Collection, sha256_of
from msshift_bench.dataset_builders.cut import Cut, cut_table
from msshift_bench.dataset_builders.official_training import (
    TRAINING_FILE,
    JoinedQuery,
    OfficialTraining,
    read_training,
)
from msshift_bench.errors import (
    CollectionError,
    FindingLog,
    NotFoundError,
    UsageError,
    quoted,
)
from msshift_bench.plumbing import MAX_RELEVANCE, tsv_rows
from msshift_bench.records import Grouping, Row
from msshift_bench.shifts import get_shift

__all__ = [
    "OFFICIAL_SHIFTS",
    "RULE",
    "RELEASE_URL",
    "OfficialRelease",
    "OfficialTestSet",
    "read_official",
    "read_test_sets",
    "release_files",
]

RELEASE_URL = "https://github.com/naver/ms-marco-shift"
"""The release's address."""

RULE = "official-2022"
"""The rule of an imported grouping: the labels of the release's authors."""

OFFICIAL_SHIFTS = ("topics", "wh-words", "length")
"""The shifts that the release holds."""

_TOPIC_FILES = {f"C{number}": str(number) for number in range(5)}


@dataclass(frozen=True, slots=True)
class OfficialTestSet:
    """One test set as its two files hold it.

    Attributes:
        shift: e.g. ``"topics"``.
        group: e.g. ``"C2"``.
        queries: query_id -> text, in the order of the file.
        relevant: query_id -> doc_id -> relevance of the relevant passages (relevance at least 1),
            doc_ids sorted; for every query of the qrels.
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
    """An imported release.

    Attributes:
        shifts: the shifts, cut as released, ready to be written. A query may stand in the test
            sets of two groups of question words: the table then holds it once for each.
        report: the manifest's facts on the import; JSON values only.
        texts: whether the rows hold the queries' texts; else they are empty.
        joined: query_id -> every training query that was found in the collection, trained on or
            not; see `official_training`.
    """

    shifts: tuple[Cut, ...]
    report: Mapping[str, object]
    texts: bool = True
    joined: Mapping[str, JoinedQuery] = field(default_factory=dict)


def release_files(folder: Path) -> dict[str, Path]:
    """Return the files of a checkout by their paths inside it, sorted; the training file if there.

    Raises:
        NotFoundError: if files of a test set are missing.
    """
    names = sorted(
        name for shift in OFFICIAL_SHIFTS for g in get_shift(shift).groups for name in _names(g)
    )
    if not folder.is_dir():
        raise NotFoundError(f"no folder {folder}; give a checkout of {RELEASE_URL}")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise NotFoundError(
            f"{folder} is no checkout of the official release: it lacks {len(missing)} of "
            f"{len(names)} files ({shown}); get one with 'git clone {RELEASE_URL}' and give the "
            "folder that holds EVAL"
        )
    if (folder / TRAINING_FILE).is_file():
        names.append(TRAINING_FILE)
    return {name: folder / name for name in names}


def _names(group: str) -> tuple[str, str]:
    name = _TOPIC_FILES.get(group, group)
    return f"EVAL/queries/queries_{name}.tsv", f"EVAL/qrel/qrel_{name}.json"


def read_test_sets(folder: Path) -> tuple[OfficialTestSet, ...]:
    """Read the ten test sets of a checkout, in the order of the table of shifts.

    It keeps oddities that are readable: orphans, empty texts, queries without qrels.

    Raises:
        NotFoundError: if the folder is no checkout of the release.
        CollectionError: if a file is malformed.
    """
    files = release_files(folder)
    findings = FindingLog()
    sets = []
    for shift in OFFICIAL_SHIFTS:
        for group in get_shift(shift).groups:
            queries, qrel = (files[name] for name in _names(group))
            test_set = OfficialTestSet(
                shift, group, _read_queries(queries, findings), _read_qrel(qrel, findings)
            )
            sets.append(test_set)
    findings.stop_if_any(CollectionError, f"the test sets in {folder} are malformed:")
    return tuple(sets)


def _read_queries(path: Path, findings: FindingLog) -> dict[str, str]:
    queries: dict[str, str] = {}
    for line, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
        if query_id in queries:
            findings.add("repeated-id", f"query_id {query_id!r} again", str(path), line)
        queries[query_id] = text
    return queries


def _read_qrel(path: Path, findings: FindingLog) -> dict[str, dict[str, int]]:
    """Read ``{query_id: {doc_id: relevance}}``; objects come as pairs, to see repeated keys."""
    name, fix = str(path), "the file is an object {query_id: {doc_id: relevance}}"
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
        what = "nested too deep" if nested else "a number has thousands of digits"
        findings.add("not-json", f"not JSON: {what}", name, fix=fix)
        return {}
    if not isinstance(raw, tuple):
        findings.add("not-qrels", "not an object", name, 1, fix)
        return {}
    relevant: dict[str, dict[str, int]] = {}
    for query_id, judged in raw:
        if query_id in relevant:
            findings.add("repeated-id", f"query_id {query_id!r} again", name)
        if not isinstance(judged, tuple):
            findings.add("not-qrels", f"query {query_id!r} has no object", name, fix=fix)
            continue
        grades: dict[str, int] = {}
        for doc_id, relevance in judged:
            where = f"query {query_id!r}, passage {doc_id!r}"
            if type(relevance) is not int or abs(relevance) > MAX_RELEVANCE:
                what = f"is not a whole number of at most {MAX_RELEVANCE}"
                message = f"{where}: relevance {quoted(relevance)} {what}"
                findings.add("relevance-not-integer", message, name)
            elif doc_id in grades:
                findings.add("duplicate-judgement", f"{where}: judged again", name)
            else:
                grades[doc_id] = relevance
        relevant[query_id] = {doc: grade for doc, grade in sorted(grades.items()) if grade > 0}
    return relevant


def read_official(folder: Path, *, collection: Collection | None = None) -> OfficialRelease:
    """Import a checkout of the release.

    The test sets are taken as they are, without the queries that have qrels but no text. The
    training queries are imported if the checkout holds their file.

    Args:
        folder: the checkout, which holds ``EVAL`` and perhaps ``TRAIN``.
        collection: MS MARCO's training queries and qrels, to which the release's training queries
            are joined; not read if the checkout holds none.

    Raises:
        NotFoundError: if the folder is no checkout of the release.
        CollectionError: if a file is malformed, or a test query has no text in its line or no
            relevant passage.
        UsageError: if there are training queries and no collection to join them to.
        DataError: if no training query joins the collection.
    """
    files = release_files(folder)
    sets = read_test_sets(folder)
    _check_usable(sets, folder)
    training = None
    if TRAINING_FILE in files:
        if collection is None:
            raise UsageError(
                f"{files[TRAINING_FILE]} knows its queries by their text alone; give the "
                "collection that has their ids and qrels, e.g. msmarco-passage/train"
            )
        tested = {
            shift: {q for s in sets if s.shift == shift for q in s.queries}
            for shift in OFFICIAL_SHIFTS
        }
        training = read_training(files[TRAINING_FILE], collection, tested)
    return OfficialRelease(
        shifts=tuple(
            _cut(shift, [s for s in sets if s.shift == shift], training)
            for shift in OFFICIAL_SHIFTS
        ),
        report={
            "upstream": RELEASE_URL,
            "test_sets": {
                s.config: {"queries": len(s.queries), "qrels_queries": len(s.relevant)}
                for s in sets
            },
            "orphans": {s.group: list(s.orphans) for s in sets if s.orphans},
            "training": None if training is None else training.report,
            "files": {name: sha256_of(path) for name, path in files.items()},
        },
        joined={} if training is None else training.joined,
    )


def _check_usable(sets: Iterable[OfficialTestSet], folder: Path) -> None:
    findings = FindingLog()
    for test_set in sets:
        queries_file, qrel_file = (str(folder / name) for name in _names(test_set.group))
        for query_id, text in test_set.queries.items():
            if not text.strip():
                findings.add("empty-text", f"query {query_id!r} has no text", queries_file)
            if not test_set.relevant.get(query_id):
                message = f"query {query_id!r} has no relevant passage"
                findings.add("unjudged-query", message, qrel_file)
    findings.stop_if_any(CollectionError, f"the test sets in {folder} cannot be scored:")


def _cut(shift: str, sets: Sequence[OfficialTestSet], training: OfficialTraining | None) -> Cut:
    test = sorted(
        Row.judged(query_id, text, test_set.group, test_set.relevant[query_id])
        for test_set in sets
        for query_id, text in test_set.queries.items()
    )
    rows = {"test": test} if training is None else {"train": training.rows[shift], "test": test}
    grouping = Grouping(shift, {}, RULE, {"upstream": RELEASE_URL})
    return Cut(grouping, cut_table(rows), tuple(rows))
