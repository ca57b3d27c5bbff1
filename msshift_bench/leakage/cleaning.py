"""Take leaking queries out of a training set: queries, qrels and triples, with a manifest."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from msshift_bench.arrays import Ints
from msshift_bench.data import sha256_of
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    NotFoundError,
    UsageError,
)
from msshift_bench.leakage.found import (
    CANDIDATES_NAME,
    FOUND_NAME,
    NEAR_TIER,
    TIERS,
    read_candidates,
    read_found,
    tiers_up_to,
)
from msshift_bench.output import Table, plain, report_head
from msshift_bench.plumbing import (
    batches,
    check_contents,
    check_folder,
    counted,
    qrels_rows,
    replace_folder,
    tsv_rows,
    write_atomically,
    write_json,
)

__all__ = ["CleanedFile", "CleanedTraining", "clean_training"]

_MANIFEST, _REMOVED = "manifest.json", "removed.tsv"
_NAMES = ("queries.tsv", "qrels.tsv", "triples.tsv", _REMOVED, _MANIFEST)
_BATCH = 65_536

_Rows = Callable[[Path, FindingLog], Iterator[tuple[str, str]]]
"""Reads a file: yields what names a line's query, its id or its text, and the line to write."""


class CleanedFile(NamedTuple):
    """What became of one file.

    Attributes:
        name: the name of the file that was written.
        source: the name of the file that was read.
        source_sha256: its digest.
        lines: its lines.
        leaking: lines of queries that leak, left out.
        unknown: lines of queries that are not among the training queries, left out, too.
        sha256: the digest of what was written.
    """

    name: str
    source: str
    source_sha256: str
    lines: int
    leaking: int
    unknown: int
    sha256: str

    @property
    def kept(self) -> int:
        """How many lines were written."""
        return self.lines - self.leaking - self.unknown


@dataclass(frozen=True, slots=True, repr=False)
class CleanedTraining:
    """A training set without what leaks.

    Attributes:
        found_sha256: the digest of the ``found.json`` that said what leaks.
        removed: tier -> the training queries that were left out, each at its strictest tier.
        files: what became of each file.

    Examples:
        >>> find_leakage("train.tsv", {"8": "Who is pope?"}).write("leaked")
        >>> cleaned = clean_training("leaked", "train.tsv", "clean")
        >>> cleaned
        <CleanedTraining: 1 queries left out>
        >>> [(file.name, file.lines, file.kept) for file in cleaned.files]
        [('queries.tsv', 2, 1)]
    """

    found_sha256: str
    removed: Mapping[str, int]
    files: tuple[CleanedFile, ...]

    def __repr__(self) -> str:
        return f"<CleanedTraining: {sum(self.removed.values()):,} queries left out>"

    def tables(self) -> list[Table]:
        """Return what became of each file, and the queries that were left out, by tier."""
        rows = [
            (file.name, *(f"{n:,}" for n in (file.lines, file.leaking, file.unknown, file.kept)))
            for file in self.files
        ]
        header = ("file", "lines", "of leaking queries", "of other queries", "kept")
        return [
            Table.plain("Training files without what leaks", header, rows),
            Table.plain(
                "Training queries that were left out, each at its strictest tier",
                ("tier", "training queries"),
                [(tier, f"{count:,}") for tier, count in self.removed.items()],
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain JSON values."""
        files = [{**plain(file), "kept": file.kept} for file in self.files]
        return {**report_head(), **plain(self), "files": files}


def clean_training(
    found: str | Path,
    train: str | Path,
    out: str | Path,
    *,
    qrels: str | Path | None = None,
    triples: str | Path | None = None,
    tier: str = NEAR_TIER,
) -> CleanedTraining:
    """Write a training set without the queries that leak, whole or not at all.

    Args:
        found: the folder that `find_leakage` wrote, for these very training queries.
        train: the training queries: a file of query_id, tab, text.
        out: the folder to write: ``queries.tsv``, ``qrels.tsv``, ``triples.tsv``, the queries that
            were left out (``removed.tsv``: train_id, tier) and ``manifest.json``.
        qrels: the training judgements; written in TREC's four columns.
        triples: the training triples: three columns, of ids or of texts.
        tier: queries leak that were found at this tier or a stricter one.

    Returns:
        What became of each file.

    Raises:
        NotFoundError: if a file is not there, or `found` is no folder of `find_leakage`.
        UnknownNameError: if there is no such tier.
        UsageError: if `out` holds other files, or one that is read, or another process is writing
            it.
        CollectionError: if a file is malformed; with every such line.
        DataError: if `found` was made for other training queries, or nothing would be left.

    Examples:
        >>> find_leakage("train.tsv", {"8": "Who is pope?"}).write("found")
        >>> clean_training("found", "train.tsv", "cleaned").removed
        {'same-text': 0, 'same-normalised': 1, 'same-words': 0, 'near-duplicate': 0}
        >>> Path("cleaned/queries.tsv").read_text().split()
        ['2', 'cheap', 'flights', 'to', 'rome']
    """
    out, train = Path(out), Path(train)
    leaking, facts = _read_found(Path(found), tier)
    check_folder(out)
    # Any training set may hold a queries.tsv and a qrels.tsv; only a cleaned one has these two.
    for mark in (_REMOVED, _MANIFEST):
        check_contents(out, mark, _NAMES, "a cleaned training set")
    for source in (train, *(Path(path) for path in (qrels, triples) if path is not None)):
        if source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{source} is read, and would be overwritten; give another --out")
    if not train.is_file():
        raise NotFoundError(f"there is no file {train}")
    digest = sha256_of(train)
    if not isinstance(facts, Mapping) or facts.get("sha256") != digest:
        raise DataError(
            f"{found} was made for other training queries than {train}: 'msshift leakage find "
            f"--train {train}' says which of these leak"
        )
    with replace_folder(out) as new:
        ids, texts, leaking_texts = array("q"), array("q"), set[str]()

        def query_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, str]]:
            for _, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
                ids.append(hash(query_id))
                texts.append(hash(text))
                if query_id in leaking:
                    leaking_texts.add(text)
                yield query_id, f"{query_id}\t{text}\n"

        files = [_copy(query_rows, train, new / "queries.tsv", leaking, None)]
        by_id = leaking, _sorted(ids)
        if qrels is not None:
            files.append(_copy(_qrels_rows, Path(qrels), new / "qrels.tsv", *by_id))
        if triples is not None:
            path, target = Path(triples), new / "triples.tsv"
            leaks_and_known: tuple[Container[str], Ints] = by_id
            if not _holds_ids(path):
                leaks_and_known = leaking_texts, _sorted(texts)
            files.append(_copy(_triple_rows, path, target, *leaks_and_known))
        with write_atomically(new / _REMOVED) as file:
            file.writelines(f"{query_id}\t{its}\n".encode() for query_id, its in leaking.items())
        removed = Counter(leaking.values())
        cleaned = CleanedTraining(
            sha256_of(Path(found) / FOUND_NAME),
            {its: removed[its] for its in tiers_up_to(tier)},
            tuple(files),
        )
        write_json(new / _MANIFEST, cleaned.to_json())
    return cleaned


def _read_found(folder: Path, tier: str) -> tuple[dict[str, str], Any]:
    """Return the queries that leak, with their strictest tiers, and what is said of the source."""
    tiers = tiers_up_to(tier)
    facts = read_found(folder)
    if not facts:
        raise NotFoundError(
            f"{folder} holds no {FOUND_NAME} and {CANDIDATES_NAME}: give the folder that "
            "'msshift leakage find --out' wrote"
        )
    strictest: dict[str, str] = {}
    for pair in sorted(
        read_candidates(folder), key=lambda pair: (pair.train_id, TIERS.index(pair.tier))
    ):
        if pair.tier in tiers:
            strictest.setdefault(pair.train_id, pair.tier)
    return strictest, facts.get("train")


def _copy(
    rows: _Rows,
    source: Path,
    target: Path,
    leaking: Container[str],
    known: Ints | None,
) -> CleanedFile:
    """Copy the lines of queries that do not leak.

    Args:
        rows: yields the lines of `source`, each after what names its query.
        source: the file.
        target: the file to write.
        leaking: what names the queries that leak.
        known: the sorted hashes of what names the training queries; `None` if all are known.
    """
    findings, lines, leaked, unknown = FindingLog(), 0, 0, 0
    counted_rows = counted(rows(source, findings), f"clean {source.name}")
    with write_atomically(target) as file:
        for batch in batches(counted_rows, _BATCH):
            lines += len(batch)
            is_known = np.ones(len(batch), np.bool_)
            if known is not None:
                hashes = np.array([hash(name) for name, _ in batch], dtype=np.int64)
                places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
                is_known = known[places] == hashes
            for (name, line), of_training in zip(batch, is_known.tolist(), strict=True):
                if name in leaking:
                    leaked += 1
                elif of_training:
                    file.write(line.encode())
                else:
                    unknown += 1
    findings.stop_if_any(CollectionError, f"{source} cannot be cleaned:")
    if lines == leaked + unknown:
        raise DataError(
            f"nothing of {source} would be left: of {lines:,} lines, {leaked:,} are of training "
            f"queries that leak, and {unknown:,} of queries that are not among the training "
            "queries; give more training queries, or clean up to a stricter tier (--tier)"
        )
    return CleanedFile(
        target.name,
        source.name,
        sha256_of(source),
        lines,
        leaked,
        unknown,
        sha256_of(target),
    )


def _sorted(hashes: array[int]) -> Ints:
    return np.sort(np.frombuffer(hashes, dtype=np.int64))


def _qrels_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, str]]:
    for _, (query_id, doc_id, relevance) in qrels_rows(path, findings):
        yield query_id, f"{query_id}\t0\t{doc_id}\t{relevance}\n"


def _triple_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, str]]:
    for _, fields in tsv_rows(path, ("query", "positive", "negative"), findings):
        yield fields[0], "\t".join(fields) + "\n"


def _holds_ids(path: Path) -> bool:
    """Say whether triples hold ids: then no field of the first has white space in it."""
    first = next(tsv_rows(path, ("query", "positive", "negative"), FindingLog()), (0, []))
    return all(len(field.split()) == 1 for field in first[1])
