"""Test sets: queries with judgements. Extra ones are other queries than a shift's own, or variants.

MS-Shift's first version measured its models on MS MARCO dev and on TREC DL 2019, too (Table 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from msshift_bench.data.collection import Collection, find_text_file
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
from msshift_bench.records import Row
from msshift_bench.shifts import can_name_runs

_VARIANTS = "variants.tsv"


@dataclass(frozen=True, eq=False, repr=False)
class TestSet:
    """What is asked, and how it is judged: a shift's groups, an extra test set, any qrels.

    Attributes:
        name: its name: the shift's, a config's, that of the folder of its runs, the qrels file.
        judged: query_id -> doc_id -> relevance, of the queries that count. It may hold passages
            judged not relevant; see `relevant_only`.
        groups: group -> the ids of its queries; one of the set's own name, if it has no others.
        data: the data that it comes from.
        relevant_only: whether passages judged not relevant are left out, as in a built data set.
        elsewhere: ids of queries that a run may hold as well, although they do not count here.
        rows: the queries with their texts, sorted by query_id, where they are known.
        folder: the folder, or the file of variants, that it was read from.
        unjudged: how many further queries or variants it holds; they count nowhere.
        variants: those of its queries that are variants; they have `Variant.run_id` as id. Of a
            file that holds variants only they are those of any shift's queries; see `of_shift`.
    """

    # pytest looks for tests in classes of such a name.
    __test__ = False

    name: str
    judged: Mapping[str, dict[str, int]]
    groups: Mapping[str, Sequence[str]]
    data: DataInfo = field(default_factory=DataInfo)
    relevant_only: bool = False
    elsewhere: frozenset[str] = frozenset()
    rows: tuple[Row, ...] = ()
    folder: Path = Path()
    unjudged: int = 0
    variants: tuple[Variant, ...] = ()

    def __repr__(self) -> str:
        variants = f", {len(self.variants):,} variants" if self.variants else ""
        return f"<TestSet {self.name}: {len(self.judged):,} queries{variants}>"

    @property
    def needs_shift(self) -> bool:
        """Whether it holds variants of a shift's queries, and no query of its own."""
        return bool(self.variants) and not self.judged

    @cached_property
    def facts(self) -> dict[str, object]:
        """What decides a ranking for it, for sidecars: its name, and its queries' digest."""
        queries = ((row.query_id, row.text) for row in self.rows)
        return {"name": self.name, "queries_sha256": ContentDigest.of(queries).hexdigest()}

    def of_shift(self, shift: str, queries: Sequence[Row]) -> TestSet:
        """Return the test set itself or, of variants of any shift's queries, those of one shift.

        Args:
            shift: the shift's name.
            queries: its test queries.

        Raises:
            DataError: if no variant is of one of them.
        """
        if not self.needs_shift:
            return self
        tested = {row.query_id: row.relevant for row in queries}
        variants = tuple(variant for variant in self.variants if variant.query_id in tested)
        if not variants:
            raise DataError(
                f"none of the {len(self.variants):,} variants in {self.folder} is one of a test "
                f"query of {shift}; leave the shift out (--shift), or give a file of its queries"
            )
        unjudged = len(self.variants) - len(variants)
        return _with_variants(replace(self, unjudged=unjudged), variants, tested)


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
    """Read extra test sets.

    Args:
        named: name -> a folder of ``queries.tsv`` (query_id, text) and ``qrels.tsv`` (TREC's four
            columns, or three), each plain or ``.gz``. Queries without a judgement are left out. The
            folder may hold ``variants.tsv`` (query_id, text, method), which are searched and judged
            with their queries. Instead of a folder, it may be a file of variants of the test
            queries of shifts.
        collection: the collection that will be searched for them; its passages are read until one
            that is relevant has come for each test set.

    Raises:
        UsageError: if a name cannot be a folder's.
        NotFoundError: if there is no such folder or file, or the folder lacks a file.
        CollectionError: if a file is malformed, a judged query or the query of a variant has no
            text, or no query is judged.
        DataError: if the collection holds no passage that is relevant to a query of a test set.
    """
    test_sets = tuple(_read(name, Path(path).expanduser()) for name, path in named.items())
    if collection is not None:
        _check_passages(test_sets, collection)
    return test_sets


def _check_passages(test_sets: Iterable[TestSet], collection: Collection) -> None:
    """Check that a collection holds a passage that is relevant to a query of each test set."""
    relevant = {
        test_set.folder: {doc_id for row in test_set.rows for doc_id in row.relevant_doc_ids}
        for test_set in test_sets
    }
    awaited = {folder: doc_ids for folder, doc_ids in relevant.items() if doc_ids}
    for passage in collection.passages() if awaited else ():
        awaited = {f: doc_ids for f, doc_ids in awaited.items() if passage.doc_id not in doc_ids}
        if not awaited:
            break
    for folder, doc_ids in awaited.items():
        raise DataError(
            f"{collection.name} holds none of the {len(doc_ids):,} passages that {folder} judges "
            f"relevant, e.g. {min(doc_ids)!r}: every run for it would score 0; search the "
            "collection that it was judged on, with its doc_ids as they are"
        )


def _read(name: str, folder: Path) -> TestSet:
    if not can_name_runs(name):
        raise UsageError(
            f"{name!r} cannot be a test set's name: it names a folder, so it holds no space or "
            "'/', does not begin with '.', and is no shift's name"
        )
    if folder.is_file():
        return TestSet(name, {}, {}, folder=folder, variants=read_variants(folder))
    test_set, texts = read_test_folder(name, folder)
    if not any((folder / f"{_VARIANTS}{end}").is_file() for end in ("", ".gz")):
        return test_set
    variants = read_variants(find_text_file(folder, _VARIANTS), texts)
    judged = [variant for variant in variants if variant.query_id in test_set.judged]
    return _with_variants(test_set, judged, test_set.judged)


def read_test_folder(name: str, folder: Path) -> tuple[TestSet, dict[str, str]]:
    """Read the queries and judgements of an extra test set, without variants.

    Args:
        name: its name.
        folder: its folder.

    Returns:
        The test set, and query_id -> text of all queries in its folder, judged or not.

    Raises:
        NotFoundError: if there is no such folder, or it lacks a file.
        CollectionError: if a file is malformed, a judged query has no text, or none is judged; with
            all that is wrong with both files.
    """
    if not folder.is_dir():
        raise NotFoundError(f"no folder {folder} for the test set {name}")
    queries_file = find_text_file(folder, "queries.tsv")
    qrels_file = find_text_file(folder, "qrels.tsv")
    findings = FindingLog()
    texts = read_texts(query_rows(queries_file, findings), findings, queries_file)
    known = None if len(findings) else texts
    judged = read_judgements(qrel_rows([qrels_file], findings), findings, known)
    if not judged and not len(findings):
        message = f"it judges none of the {len(texts):,} queries"
        fix = "add judgements: query_id, 0, doc_id, relevance"
        findings.add("no-judgement", message, str(qrels_file), fix=fix)
    findings.stop_if_any(CollectionError, f"the test set in {folder} cannot be used:")
    judged = {query_id: judged[query_id] for query_id in sorted(judged)}
    rows = tuple(
        Row.judged(query_id, texts[query_id], name, of_query)
        for query_id, of_query in judged.items()
    )
    unjudged = len(texts) - len(rows)
    groups = {name: tuple(judged)}
    return TestSet(name, judged, groups, rows=rows, folder=folder, unjudged=unjudged), texts
