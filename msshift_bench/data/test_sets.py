"""Test sets: judged queries of shifts, of extra test sets, or variants of queries.

The first version of the MS-Shift paper also scored its models on MS MARCO dev and TREC DL 2019
(Table 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from msshift_bench.data.collection import Collection, find_text_file, open_collection
from msshift_bench.data.digests import ContentDigest
from msshift_bench.data.manifest import DataInfo
from msshift_bench.data.reading import (
    Variant,
    qrel_rows,
    query_rows,
    read_judgements,
    read_texts,
    read_variants,
)
from msshift_bench.errors import CollectionError, DataError, FindingLog, NotFoundError, UsageError
from msshift_bench.exclusions import Exclusions
from msshift_bench.records import Row
from msshift_bench.shifts import can_name_runs

_VARIANTS = "variants.tsv"

_CORPUS = ("corpus.jsonl", "collection.tsv")
"""The files of passages of a folder, plain or ``.gz``."""


@dataclass(frozen=True, eq=False, repr=False)
class TestSet:
    """Judged queries of a shift's groups, of an extra test set, or of any qrels.

    Attributes:
        name: the name of the shift, config, folder of runs, or qrels file.
        judged: query_id -> doc_id -> relevance, of the queries that count; see `relevant_only`.
        groups: group -> the ids of its queries; without groups, the test set's name -> all ids.
        data: facts about the data of the test set.
        relevant_only: whether passages judged not relevant are left out, as in a built data set.
        ignored_ids: ids of queries that runs may contain but that do not count.
        rows: the queries with their known texts, sorted by query_id; for a shift, group by group.
        folder: the folder, or the file of variants or qrels.
        unjudged: number of further queries or variants, which do not count.
        variants: the variants among the queries, with `Variant.run_id` as id. A test set from a
            file of variants has only variants, of any shift's queries; see `of_shift`.
        exclusions: the excluded passages; see `excluding`.
        excluded: query_id -> doc_ids that are removed from runs.
        emptied: ids of queries that do not count, because every relevant passage is excluded.
        collection: the collection to search; `None` for the data set's collection.
    """

    # pytest must not collect this class.
    __test__ = False

    name: str
    judged: Mapping[str, dict[str, int]]
    groups: Mapping[str, Sequence[str]]
    data: DataInfo = field(default_factory=DataInfo)
    relevant_only: bool = False
    ignored_ids: frozenset[str] = frozenset()
    rows: tuple[Row, ...] = ()
    folder: Path = Path()
    unjudged: int = 0
    variants: tuple[Variant, ...] = ()
    exclusions: Exclusions = field(default_factory=Exclusions)
    excluded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    emptied: frozenset[str] = frozenset()
    collection: Collection | None = None

    def __repr__(self) -> str:
        variants = f", {len(self.variants):,} variants" if self.variants else ""
        return f"<TestSet {self.name}: {len(self.judged):,} queries{variants}>"

    @property
    def needs_shift(self) -> bool:
        """Whether the test set has only variants of shifts' queries."""
        return bool(self.variants) and not self.judged

    @cached_property
    def facts(self) -> dict[str, object]:
        """Facts for sidecars: the test set's name, and the digest of its queries."""
        queries = ((row.query_id, row.text) for row in self.rows)
        return {"name": self.name, "queries_sha256": ContentDigest.of(queries).hexdigest()}

    def of_shift(self, shift: str, queries: Sequence[Row]) -> TestSet:
        """Return the test set unchanged; from a file of variants, one shift's variants as test set.

        Args:
            shift: the shift's name.
            queries: the shift's test queries.

        Raises:
            DataError: if there is no variant of these queries.
        """
        if not self.needs_shift:
            return self
        tested = {row.query_id: row.relevant for row in queries}
        variants = tuple(variant for variant in self.variants if variant.query_id in tested)
        if not variants:
            raise DataError(
                f"none of the {len(self.variants):,} variants in {self.folder} is of a test query "
                f"of {shift}; leave out the shift (--shift), or give variants of its queries"
            )
        unjudged = len(self.variants) - len(variants)
        return _with_variants(replace(self, unjudged=unjudged), variants, tested)

    def excluding(self, exclusions: Exclusions) -> TestSet:
        """Return the test set without some passages in judgements and runs.

        A query does not count if all its relevant passages are excluded. A variant has the
        exclusions of its query. A test set that `needs_shift` is returned unchanged.

        Args:
            exclusions: the passages to exclude; may be empty.

        Raises:
            UsageError: if the data set of the test set has other exclusions.
        """
        exclusions = self.exclusions.joined(exclusions, f"the data set of {self.name}")
        if exclusions == self.exclusions or self.needs_shift:
            return self
        query_of = {variant.run_id: variant.query_id for variant in self.variants}
        excluded = {
            query_id: docs
            for query_id in self.judged
            if (docs := exclusions.of_query(query_of.get(query_id, query_id)))
        }
        changed = {
            query_id: {doc: grade for doc, grade in of_query.items() if doc not in docs}
            for query_id, docs in excluded.items()
            if not (of_query := self.judged[query_id]).keys().isdisjoint(docs)
        }
        emptied = {
            query_id
            for query_id, left in changed.items()
            if max(left.values(), default=0) < 1 <= max(self.judged[query_id].values())
        }
        judged = {**self.judged, **changed}
        return replace(
            self,
            judged={query_id: judged[query_id] for query_id in judged if query_id not in emptied},
            groups={
                group: tuple(query_id for query_id in ids if query_id not in emptied)
                for group, ids in self.groups.items()
            },
            ignored_ids=self.ignored_ids | emptied,
            exclusions=exclusions,
            excluded=excluded,
            emptied=frozenset(emptied),
        )


def _with_variants(
    extra: TestSet, variants: Sequence[Variant], judged: Mapping[str, dict[str, int]]
) -> TestSet:
    added = [
        Row.judged(variant.run_id, variant.text, extra.name, judged[variant.query_id])
        for variant in variants
    ]
    of_variants = {variant.run_id: judged[variant.query_id] for variant in variants}
    with_variants = {**extra.judged, **of_variants}
    return replace(
        extra,
        rows=tuple(sorted([*extra.rows, *added])),
        judged=with_variants,
        groups={extra.name: tuple(with_variants)},
        variants=tuple(variants),
    )


def read_extra_tests(
    named: Mapping[str, str | Path], collection: Collection | None = None
) -> tuple[TestSet, ...]:
    """Return extra test sets, read and checked, in the order of `named`.

    Args:
        named: name -> a folder with ``queries.tsv`` (query_id, text) and ``qrels.tsv`` (TREC's four
            columns, or three), each plain or ``.gz``. Queries without a judgement are left out.
            ``variants.tsv`` (query_id, text, method) is optional; variants have the judgements of
            their queries. A folder with passages is a collection, searched instead of `collection`;
            for layouts see `open_collection`. In BEIR's layout, the judgements are
            ``qrels/test.tsv`` if it exists. Instead of a folder, an ir_datasets id or a file of
            variants of shifts' test queries is possible.
        collection: the collection to search for test sets without passages. It is read until each
            such test set has a relevant passage. Collections of test sets are read completely. If
            `None`, passages are not checked.

    Raises:
        UsageError: if a name has white space or '/', begins with '.', or is a shift's name.
        NotFoundError: if a folder or file does not exist, or the folder lacks a file.
        MissingError: if an ir_datasets id needs ir_datasets or a download.
        CollectionError: if a file is malformed, a judged query or the query of a variant has no
            text, or no query is judged.
        DataError: if the collection has no relevant passage for a test set, or the collection of a
            test set lacks more than half of its relevant passages.
    """
    test_sets = tuple(
        _read_extra_test(name, Path(path).expanduser()) for name, path in named.items()
    )
    if collection is not None:
        _check_passages((part for part in test_sets if part.collection is None), collection)
        for part in test_sets:
            if part.collection is not None:
                _check_own_passages(part, part.collection)
    return test_sets


def _check_own_passages(test_set: TestSet, collection: Collection) -> None:
    """Check that the collection of a test set has at least half of its relevant passages.

    Some passages may be missing, as in a data set's collection. Another corpus may have some equal
    doc_ids by chance.
    """
    relevant = {doc_id for row in test_set.rows for doc_id in row.relevant_doc_ids}
    absent = relevant - {passage.doc_id for passage in collection.passages()}
    if 2 * len(absent) > len(relevant):
        raise DataError(
            f"the collection in {test_set.folder} lacks {len(absent):,} of the {len(relevant):,} "
            f"relevant passages of its qrels, e.g. {min(absent)!r}; give the collection of the "
            "qrels, with unchanged doc_ids"
        )


def _check_passages(test_sets: Iterable[TestSet], collection: Collection) -> None:
    """Check that a collection has a relevant passage of each test set; else raise a DataError.

    Test sets without relevant passages are not checked.
    """
    relevant = {
        test_set.folder: {doc_id for row in test_set.rows for doc_id in row.relevant_doc_ids}
        for test_set in test_sets
    }
    lacking = {folder: doc_ids for folder, doc_ids in relevant.items() if doc_ids}
    for passage in collection.passages() if lacking else ():
        lacking = {f: doc_ids for f, doc_ids in lacking.items() if passage.doc_id not in doc_ids}
        if not lacking:
            break
    for folder, doc_ids in lacking.items():
        raise DataError(
            f"{collection.name} has none of the {len(doc_ids):,} relevant passages of {folder}, "
            f"e.g. {min(doc_ids)!r}, so every run would score 0; search the collection of its "
            "qrels, with unchanged doc_ids"
        )


def _read_extra_test(name: str, folder: Path) -> TestSet:
    if not can_name_runs(name):
        raise UsageError(
            f"{name!r} cannot be a test set's name; give a name without spaces and '/' that does "
            "not begin with '.' and is not a shift's name"
        )
    if folder.is_file():
        return TestSet(name, {}, {}, folder=folder, variants=read_variants(folder))
    collection = _find_collection(folder)
    if collection is None:
        test_set, texts = read_test_folder(name, folder)
    else:
        texts = collection.queries
        judged_set = _judged_set(name, folder, texts, collection.qrels)
        test_set = replace(judged_set, collection=collection)
    if not any((folder / f"{_VARIANTS}{end}").is_file() for end in ("", ".gz")):
        return test_set
    variants = read_variants(find_text_file(folder, _VARIANTS), texts)
    judged = [variant for variant in variants if variant.query_id in test_set.judged]
    return _with_variants(test_set, judged, test_set.judged)


def _find_collection(folder: Path) -> Collection | None:
    """Return the collection of a folder or an ir_datasets id.

    `None` for a folder without passages, or a missing absolute path.
    """
    if not folder.is_dir():
        return None if folder.is_absolute() else open_collection(folder)
    if not any((folder / f"{name}{end}").is_file() for name in _CORPUS for end in ("", ".gz")):
        return None
    judged = [folder / "qrels" / f"test.tsv{end}" for end in ("", ".gz")]
    return open_collection(folder, qrels=next((path for path in judged if path.is_file()), None))


def read_test_folder(name: str, folder: Path) -> tuple[TestSet, dict[str, str]]:
    """Return an extra test set without variants, and the texts of its queries.

    Args:
        name: the test set's name.
        folder: the test set's folder.

    Returns:
        The test set, and query_id -> text of all queries in the folder, judged or not.

    Raises:
        NotFoundError: if the folder does not exist or lacks a file.
        CollectionError: if a file is malformed, a judged query has no text, or no query is judged;
            with all findings.
    """
    if not folder.is_dir():
        raise NotFoundError(f"no folder {folder} for the test set {name}; correct the path")
    queries_file = find_text_file(folder, "queries.tsv")
    qrels_file = find_text_file(folder, "qrels.tsv")
    findings = FindingLog()
    texts = read_texts(query_rows(queries_file, findings), findings, queries_file)
    known = None if len(findings) else texts
    judged = read_judgements(qrel_rows([qrels_file], findings), findings, known)
    findings.stop_if_any(CollectionError, f"the test set in {folder} cannot be used:")
    return replace(_judged_set(name, qrels_file, texts, judged), folder=folder), texts


def _judged_set(
    name: str, source: Path, texts: Mapping[str, str], judgements: Mapping[str, dict[str, int]]
) -> TestSet:
    if not judgements:
        findings = FindingLog()
        message = f"none of the {len(texts):,} queries has a judgement"
        fix = "add judgements: query_id, 0, doc_id, relevance"
        findings.add("no-judgement", message, str(source), fix=fix)
        findings.stop_if_any(CollectionError, f"the test set {name} cannot be used:")
    judged = {query_id: judgements[query_id] for query_id in sorted(judgements)}
    rows = tuple(
        Row.judged(query_id, texts[query_id], name, of_query)
        for query_id, of_query in judged.items()
    )
    unjudged = len(texts) - len(rows)
    groups = {name: tuple(judged)}
    return TestSet(name, judged, groups, rows=rows, folder=source, unjudged=unjudged)
