"""Sheets for people who judge how alike test queries and training queries are.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 3.2 and Tables 1 and 2: BM25 and an embedding model each recall ten
training queries per test query; annotators judge on three points whether two queries share their
entities, and whether they have the same intent; where they differ, the median counts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from types import MappingProxyType
from typing import Any

import numpy as np

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.data import QueryColumns
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import CollectionError, FindingLog, NotFoundError, UsageError
from msshift_bench.output import Table, csv_text, plain, report_head
from msshift_bench.plumbing import Progress, csv_rows, silent, slices
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters, PassageIds, Ranking, rank
from msshift_bench.similarity.query_sets import QuerySource, check_same_texts, read_query_set
from msshift_bench.similarity.text_vectors import unit_rows
from msshift_bench.stats import Agreement, annotator_agreement

__all__ = ["SCALES", "SimilarityLabels", "annotation_sheet", "read_annotations"]

SCALES: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "entity": ("zero overlap", "partial overlap", "full overlap"),
        "intent": ("dissimilar", "similar", "duplicate"),
    }
)
"""What is judged -> what its points 0, 1 and 2 are called."""

_COLUMNS = ("test_id", "test_query", "train_id", "train_query", "found_by", *SCALES)
_BATCH = 256


def annotation_sheet(
    train: QuerySource,
    test: QuerySource,
    encoder: EncoderSpec,
    *,
    candidates: int = 10,
    progress: Progress = silent,
) -> str:
    """Return a sheet to annotate, as CSV: every test query with its candidates.

    The candidates of a query are the training queries that BM25 ranks first for it, and those whose
    embeddings have the highest cosine; they stand in an order that tells nothing of their ranks.
    A training query of the same id as the test query is left out.

    Args:
        train: the training queries.
        test: the test queries.
        encoder: the encoder.
        candidates: how many candidates each of the two recalls for a test query.
        progress: called with ``(stage, done, total)``.

    Raises:
        NotFoundError: if there is no such file or encoder.
        CollectionError: if a file is malformed.
        DataError: if a query that is in both sets has two texts.
    """
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, tested)
    text_of = dict(zip(training.ids, training.texts, strict=True))
    # One more than is wanted, as a test query may find itself.
    found = {
        "BM25": _by_words(training, tested, candidates + 1),
        encoder.name: _by_vectors(training, tested, encoder, candidates + 1, progress),
    }
    rows = []
    for place, (query_id, text) in enumerate(tested):
        found_by: dict[str, list[str]] = {}
        for name, rankings in found.items():
            kept = [other for other in rankings[place] if other != query_id][:candidates]
            for other in kept:
                found_by.setdefault(other, []).append(name)
        for other in sorted(found_by, key=lambda other: _hash(query_id, other)):
            by = " and ".join(found_by[other])
            rows.append((query_id, text, other, text_of[other], by, "", ""))
    return csv_text(_COLUMNS, rows)


def _by_words(training: QueryColumns, tested: QueryColumns, depth: int) -> list[Ranking]:
    index = Bm25(map(Passage, training.ids, training.texts), Bm25Parameters(depth=depth))
    return list(index.search(tested.texts))


def _by_vectors(
    training: QueryColumns,
    tested: QueryColumns,
    encoder: EncoderSpec,
    depth: int,
    progress: Progress,
) -> list[Ranking]:
    texts = dict(training) | dict(tested)
    both = QueryColumns(tuple(texts), tuple(texts.values()))
    embeddings = embed_queries(both, encoder, progress=progress)
    row_of = {query_id: row for row, query_id in enumerate(embeddings.query_ids)}

    def units(queries: QueryColumns) -> Vectors:
        rows = embeddings.vectors[[row_of[query_id] for query_id in queries.ids]]
        return unit_rows(rows).astype(np.float32)

    ids, here, there = PassageIds(training.ids), units(tested), units(training)
    rankings = []
    for places in slices(len(here), _BATCH):
        part = here[places]

        def retrieve(which: Ints, k: int, part: Vectors = part) -> tuple[Vectors, Ints]:
            scores = part[which] @ there.T
            rows = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            return np.take_along_axis(scores, rows, axis=1), rows

        rankings += rank(retrieve, ids, len(part), depth=depth)
    return rankings


def _hash(query_id: str, other: str) -> bytes:
    return hashlib.blake2b(f"{query_id}\t{other}".encode(), digest_size=8).digest()


@dataclass(frozen=True, slots=True, repr=False)
class SimilarityLabels:
    """What annotators say of test queries and their candidates.

    Attributes:
        annotators: how many there are.
        pairs: how many pairs of a test query and a candidate they judged.
        queries: judgement -> test query -> its point: the highest of its candidates' medians.
        agreement: judgement -> the annotators' agreement on pairs; empty for one annotator.
    """

    annotators: int
    pairs: int
    queries: Mapping[str, Mapping[str, int]]
    agreement: Mapping[str, Agreement]

    def __repr__(self) -> str:
        return f"<SimilarityLabels: {self.annotators} annotators, {self.pairs:,} pairs>"

    def tables(self) -> list[Table]:
        """Return how many test queries have each point, as Tables 1 and 2, and the agreement."""
        tables = []
        for judged, points in self.queries.items():
            counts = Counter(points.values())
            rows = [
                (name, counts[point], f"{100 * counts[point] / len(points):.0f}%")
                for point, name in reversed(list(enumerate(SCALES[judged])))
            ]
            tables.append(Table.plain(judged, ("of test queries", "queries", "share"), rows))
        if self.agreement:
            rows_of_agreement = [
                (judged, _shown(one.kappa), _interval(one), ", ".join(map(_shown, one.pairs)))
                for judged, one in self.agreement.items()
            ]
            header = ("judged", "Cohen's kappa", "95% interval", "pairs of annotators")
            tables.append(Table.plain("agreement", header, rows_of_agreement))
        return tables

    def to_json(self) -> dict[str, Any]:
        """Return labels and agreement as plain JSON values."""
        return {
            **report_head(),
            "annotators": self.annotators,
            "pairs": self.pairs,
            "queries": {judged: dict(points) for judged, points in self.queries.items()},
            "agreement": {judged: plain(one) for judged, one in self.agreement.items()},
        }


def _shown(kappa: float | None) -> str:
    return "-" if kappa is None else f"{kappa:.2f}"


def _interval(one: Agreement) -> str:
    return "-" if one.interval is None else "[{:.2f}, {:.2f}]".format(*one.interval)


def read_annotations(sheets: Sequence[str | Path]) -> SimilarityLabels:
    """Read filled-in sheets, one per annotator.

    Of a pair, the median of the annotators' points counts (the lower of the two in the middle, for
    an even number); of a test query, the highest point among its candidates.

    Args:
        sheets: files of `annotation_sheet`, with 0, 1 or 2 in every cell of `SCALES`; rows may
            stand in any order.

    Raises:
        UsageError: if there is no sheet, or one is given twice.
        NotFoundError: if a file does not exist.
        CollectionError: if a sheet is malformed, lacks a point, or judges other pairs than the
            first, by their ids or texts; with every such line.
    """
    if not sheets:
        raise UsageError("give the sheets that were filled in, one per annotator")
    places = [Path(sheet).resolve() for sheet in sheets]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise UsageError(f"{sheets[number]} is given twice, and would agree with itself")
    findings = FindingLog()
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    read = [dict(_rows_of(Path(sheet), findings, texts)) for sheet in sheets]
    for sheet, rows in zip(sheets[1:], read[1:], strict=True):
        if rows.keys() != read[0].keys() and not len(findings):
            lacking, further = len(read[0].keys() - rows.keys()), len(rows.keys() - read[0].keys())
            message = f"it lacks {lacking} pairs of {sheets[0]}, and has {further} others"
            findings.add("other-pairs", message, str(sheet), fix="give copies of one sheet")
    findings.stop_if_any(CollectionError, "these sheets cannot be used:")
    pairs = sorted(read[0])
    queries: dict[str, dict[str, int]] = {}
    agreement = {}
    for number, judged in enumerate(SCALES):
        labels = [[rows[pair][number] for pair in pairs] for rows in read]
        points = queries.setdefault(judged, {})
        for (query_id, _), given in zip(pairs, zip(*labels, strict=True), strict=True):
            points[query_id] = max(points.get(query_id, 0), median_low(given))
        if len(read) > 1:
            agreement[judged] = annotator_agreement(labels, [query_id for query_id, _ in pairs])
    return SimilarityLabels(len(read), len(pairs), queries, agreement)


def _rows_of(
    path: Path, findings: FindingLog, texts: dict[tuple[str, str], tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], tuple[int, ...]]]:
    """Yield ``(test_id, train_id)`` and the points of a sheet's rows.

    Args:
        path: the sheet.
        findings: where to record what is wrong.
        texts: pair -> the texts of the two in the sheets before; the sheet's own are added.
    """
    if not path.is_file():
        raise NotFoundError(f"no file {path}; give a sheet that was filled in")
    seen: set[tuple[str, str]] = set()
    for line, row in csv_rows(path, _COLUMNS, findings):
        pair = row["test_id"], row["train_id"]
        if pair in seen:
            message = f"the pair {' and '.join(map(repr, pair))} again"
            findings.add("repeated-pair", message, str(path), line, "keep one row")
        seen.add(pair)
        both = row["test_query"], row["train_query"]
        if texts.setdefault(pair, both) != both:
            message = f"the pair {' and '.join(map(repr, pair))} has other texts than before"
            findings.add("other-texts", message, str(path), line, "give copies of one sheet")
        points = [row[judged] for judged in SCALES]
        for judged, point in zip(SCALES, points, strict=True):
            if point not in ("0", "1", "2"):
                message = f"{judged} is {point!r}" if point else f"{judged} is empty"
                scale = ", ".join(f"{n} ({name})" for n, name in enumerate(SCALES[judged]))
                findings.add("no-point", message, str(path), line, f"write {scale}")
                break
        else:
            yield pair, tuple(map(int, points))
    if not seen:
        findings.add("no-pair", "the sheet holds no pair", str(path))
