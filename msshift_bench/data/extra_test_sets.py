"""Extra test sets: other queries than a shift's own, or variants of these.

MS-Shift's first version measured its models on MS MARCO dev and on TREC DL 2019, too (Table 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msshift_bench.data.collection import find_text_file
from msshift_bench.data.digests import ContentDigest
from msshift_bench.data.query_files import read_queries
from msshift_bench.data.variants import Variant, read_variants
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    NotFoundError,
    UsageError,
)
from msshift_bench.plumbing import qrels_rows
from msshift_bench.records import Query, Row
from msshift_bench.shifts import can_name_runs

__all__ = [
    "ExtraTestSet",
    "VariantFile",
    "check_variants",
    "holds_variants",
    "read_extra_tests",
    "read_test_folder",
]

_VARIANTS = "variants.tsv"


@dataclass(frozen=True, eq=False, repr=False)
class ExtraTestSet:
    """An extra test set.

    Attributes:
        name: its name, and that of the folder of its runs.
        folder: the folder, or the file of variants, that it was read from.
        rows: the queries that have judgements, and their variants, sorted by query_id; `Row.group`
            is the name.
        judged: query_id -> doc_id -> relevance, of the same queries, with passages judged not
            relevant.
        unjudged: how many further queries or variants it holds; they count nowhere.
        variants: those of the rows that are variants; their rows have `Variant.run_id` as id.
    """

    name: str
    folder: Path
    rows: tuple[Row, ...]
    judged: Mapping[str, dict[str, int]]
    unjudged: int
    variants: tuple[Variant, ...] = ()

    def __repr__(self) -> str:
        return f"<ExtraTestSet {self.name}: {len(self.rows):,} queries>"

    @cached_property
    def facts(self) -> dict[str, object]:
        """What decides a ranking for it, for sidecars: its name, and its queries' digest."""
        queries = (Query(row.query_id, row.text) for row in self.rows)
        return {"name": self.name, "queries_sha256": ContentDigest.of(queries).hexdigest()}

    def of_shift(self, shift: str, queries: Sequence[Row]) -> ExtraTestSet:
        """Return the same test set, since its queries are its own, whatever a shift's are."""
        del shift, queries
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VariantFile:
    """Variants of the test queries of any shift, which are judged as these are.

    Attributes:
        name: the name of the test set that they make of each shift.
        path: the file that they were read from.
        variants: the variants.
    """

    name: str
    path: Path
    variants: tuple[Variant, ...]

    def __repr__(self) -> str:
        return f"<VariantFile {self.name}: {len(self.variants):,} variants>"

    def of_shift(self, shift: str, queries: Sequence[Row]) -> ExtraTestSet:
        """Return the extra test set of those variants whose queries a shift tests.

        Args:
            shift: the shift's name.
            queries: its test queries.

        Raises:
            DataError: if there are none.
        """
        tested = {row.query_id: row for row in queries}
        held = tuple(one for one in self.variants if one.query_id in tested)
        if not held:
            raise DataError(
                f"none of the {len(self.variants):,} variants in {self.path} is one of a test "
                f"query of {shift}; leave the shift out (--shift), or give a file of its queries"
            )
        judged = {query_id: row.relevant for query_id, row in tested.items()}
        empty = ExtraTestSet(self.name, self.path, (), {}, len(self.variants) - len(held))
        return _with_variants(empty, held, judged)


def _with_variants(
    extra: ExtraTestSet, variants: Sequence[Variant], judged: Mapping[str, dict[str, int]]
) -> ExtraTestSet:
    added = [
        Row.judged(one.run_id, one.text, extra.name, _relevant(judged[one.query_id]))
        for one in variants
    ]
    return replace(
        extra,
        rows=tuple(sorted([*extra.rows, *added])),
        judged={**extra.judged, **{one.run_id: judged[one.query_id] for one in variants}},
        variants=tuple(variants),
    )


def _relevant(judged: Mapping[str, int]) -> dict[str, int]:
    return {doc_id: grade for doc_id, grade in judged.items() if grade >= 1}


def read_extra_tests(named: Mapping[str, str | Path]) -> tuple[ExtraTestSet | VariantFile, ...]:
    """Read extra test sets.

    Args:
        named: name -> a folder of ``queries.tsv`` (query_id, text) and ``qrels.tsv`` (TREC's four
            columns, or three), each plain or ``.gz``. Queries without a judgement are left out. The
            folder may hold ``variants.tsv`` (query_id, text, method), which are searched and judged
            with their queries. Instead of a folder, it may be a file of variants of the test
            queries of shifts.

    Raises:
        UsageError: if a name cannot be a folder's.
        NotFoundError: if there is no such folder or file, or the folder lacks a file.
        CollectionError: if a file is malformed, a judged query or the query of a variant has no
            text, or no query is judged.
    """
    return tuple(_read(name, Path(path).expanduser()) for name, path in named.items())


def holds_variants(path: Path) -> bool:
    """Return whether an extra test set has variants of queries: a file of them, or one in it."""
    return path.is_file() or any((path / f"{_VARIANTS}{end}").is_file() for end in ("", ".gz"))


def _read(name: str, folder: Path) -> ExtraTestSet | VariantFile:
    if not can_name_runs(name):
        raise UsageError(
            f"{name!r} cannot be a test set's name: it names a folder, so it holds no space or "
            "'/', does not begin with '.', and is no shift's name"
        )
    if folder.is_file():
        return VariantFile(name, folder, read_variants(folder))
    extra = read_test_folder(name, folder)
    if not holds_variants(folder):
        return extra
    path = find_text_file(folder, _VARIANTS)
    variants = read_variants(path)
    check_variants(path, variants, dict(read_queries(find_text_file(folder, "queries.tsv"))))
    held = [one for one in variants if one.query_id in extra.judged]
    return _with_variants(extra, held, extra.judged)


def read_test_folder(name: str, folder: Path) -> ExtraTestSet:
    """Read the queries and judgements of an extra test set, without variants.

    Args:
        name: its name.
        folder: its folder.

    Raises:
        NotFoundError: if there is no such folder, or it lacks a file.
        CollectionError: if a file is malformed, a judged query has no text, or none is judged.
    """
    if not folder.is_dir():
        raise NotFoundError(f"no folder {folder} for the test set {name}")
    queries = read_queries(find_text_file(folder, "queries.tsv"))
    texts = dict(zip(queries.ids, queries.texts, strict=True))
    judged = _judgements(find_text_file(folder, "qrels.tsv"), texts)
    rows = tuple(
        Row.judged(query_id, texts[query_id], name, _relevant(judged[query_id]))
        for query_id in sorted(judged)
    )
    judged = {row.query_id: judged[row.query_id] for row in rows}
    return ExtraTestSet(name, folder, rows, judged, len(texts) - len(rows))


def check_variants(path: Path, variants: Iterable[Variant], texts: Mapping[str, str]) -> None:
    """Check that variants are of queries that are there.

    Args:
        path: the file of the variants, for messages.
        variants: the variants.
        texts: query_id -> text.

    Raises:
        CollectionError: naming the queries that are not.
    """
    findings = FindingLog()
    for line, variant in enumerate(variants, 1):
        if variant.query_id not in texts:
            message = f"there is no query {variant.query_id!r}"
            findings.add("unknown-query", message, str(path), line, "remove the variant")
    findings.stop_if_any(CollectionError, f"not all variants in {path} have a query:")


def _judgements(path: Path, texts: Mapping[str, str]) -> dict[str, dict[str, int]]:
    findings = FindingLog()
    judged: dict[str, dict[str, int]] = {}
    for line, (query_id, doc_id, relevance) in qrels_rows(path, findings):
        if query_id not in texts:
            message = f"query_id {query_id!r} is not in queries.tsv"
            fix = "add the query, or remove the row"
            findings.add("unknown-query", message, str(path), line, fix)
        elif doc_id in judged.setdefault(query_id, {}):
            message = f"query {query_id!r} and passage {doc_id!r} judged again"
            findings.add("duplicate-judgement", message, str(path), line)
        else:
            judged[query_id][doc_id] = relevance
    if not judged and not len(findings):
        message = f"it judges none of the {len(texts):,} queries"
        fix = "add judgements: query_id, 0, doc_id, relevance"
        findings.add("no-judgement", message, str(path), fix=fix)
    findings.stop_if_any(CollectionError, f"the judgements in {path} cannot be used:")
    return judged
