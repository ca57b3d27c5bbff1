"""Take leaking queries out of a training set: queries, qrels and triples, with a manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msshift_bench.data import DataInfo, sha256_of
from msshift_bench.errors import CollectionError, DataError, FindingLog, NotFoundError, UsageError
from msshift_bench.evaluation import Result, TableSpec, tabulated
from msshift_bench.leakage.found import (
    CANDIDATES_NAME,
    FOUND_NAME,
    NEAR_TIER,
    TIERS,
    read_candidates,
    read_found,
    tiers_up_to,
)
from msshift_bench.output import COUNT
from msshift_bench.plumbing import (
    check_contents,
    check_folder,
    counted,
    judged_once,
    qrels_rows,
    replace_folder,
    tsv_rows,
    write_atomically,
    write_bytes,
    write_json,
)
from msshift_bench.stats import Figure, Figures

_MANIFEST, _REMOVED = "manifest.json", "removed.tsv"
_NAMES = ("queries.tsv", "qrels.tsv", "triples.tsv", _REMOVED, _MANIFEST)
_COLUMNS = {
    "lines": ("lines", COUNT),
    "leaking_lines": ("of leaking queries", COUNT),
    "other_lines": ("of other queries", COUNT),
    "kept_lines": ("kept", COUNT),
}
"""The figures of a file -> the columns of its table."""

_TABLES: Sequence[TableSpec] = (
    ("Training files without what leaks", {"slice": "file"}, _COLUMNS),
    (
        "Training queries that were left out, each at its strictest tier",
        {"slice": "tier"},
        {"left_out": ("training queries", COUNT)},
    ),
)

_Rows = Callable[[Path, FindingLog], Iterator[tuple[str, str]]]
"""Reads a file: yields what names a line's query, its id or its text, and the line to write."""


def clean_training(
    found: str | Path,
    train: str | Path,
    out: str | Path,
    *,
    qrels: str | Path | None = None,
    triples: str | Path | None = None,
    tier: str = NEAR_TIER,
) -> Result:
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
        Of each file (column `slice`) its ``lines``, those of queries that leak (``leaking_lines``),
        those of queries that are not among the training queries (``other_lines``), left out, too,
        and those that were written (``kept_lines``); and the training queries that were
        ``left_out``, each at its strictest tier (`slice`). Its facts are the digests of the files.

    Raises:
        NotFoundError: if a file is not there, or `found` is no folder of `find_leakage`.
        UnknownNameError: if there is no such tier.
        UsageError: if `out` holds other files, or one that is read, or another process is writing
            it.
        CollectionError: if a file is malformed; with every such line.
        DataError: if `found` was made for other training queries, or nothing would be left.

    Examples:
        >>> find_leakage("train.tsv", {"8": "Who is pope?"}).write("found")
        >>> cleaned = clean_training("found", "train.tsv", "cleaned")
        >>> [(row.slice, row.value) for row in cleaned.figures.where(figure="kept_lines")]
        [('queries.tsv', 1)]
        >>> Path("cleaned/queries.tsv").read_text().split()
        ['2', 'cheap', 'flights', 'to', 'rome']
    """
    out, train = Path(out), Path(train)
    leaking, of_train = _read_found(Path(found), tier)
    check_folder(out)
    # Any training set may hold a queries.tsv and a qrels.tsv; only a cleaned one has these two.
    for mark in (_REMOVED, _MANIFEST):
        check_contents(out, mark, _NAMES, "a cleaned training set")
    for source in (train, *(Path(path) for path in (qrels, triples) if path is not None)):
        if source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{source} is read, and would be overwritten; give another --out")
    if not train.is_file():
        raise NotFoundError(f"there is no file {train}")
    if not isinstance(of_train, Mapping) or of_train.get("sha256") != sha256_of(train):
        raise DataError(
            f"{found} was made for other training queries than {train}: 'msshift leakage find "
            f"--train {train} --test TEST' finds which of these leak"
        )
    with replace_folder(out) as new:
        texts: dict[str, str] = {}

        def query_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, str]]:
            for _, (query_id, text) in tsv_rows(path, ("query_id", "text"), findings):
                texts[query_id] = text
                yield query_id, f"{query_id}\t{text}\n"

        copies = [_copy(query_rows, train, new / "queries.tsv", leaking, texts)]
        if qrels is not None:
            copies.append(_copy(_qrels_rows, Path(qrels), new / "qrels.tsv", leaking, texts))
        if triples is not None:
            leaks_and_known: tuple[Container[str], Container[str]] = leaking, texts
            if not _holds_ids(Path(triples)):
                leaking_texts = {text for query_id, text in texts.items() if query_id in leaking}
                leaks_and_known = leaking_texts, set(texts.values())
            copies.append(_copy(_triple_rows, Path(triples), new / "triples.tsv", *leaks_and_known))
        lines = (f"{query_id}\t{its}\n" for query_id, its in leaking.items())
        write_bytes(new / _REMOVED, "".join(lines).encode())
        removed = Counter(leaking.values())
        rows = [
            *(row for figures, _ in copies for row in figures),
            *(Figure("left_out", slice=its, value=removed[its]) for its in tiers_up_to(tier)),
        ]
        facts = {
            "found_sha256": sha256_of(Path(found) / FOUND_NAME),
            "files": [digests for _, digests in copies],
        }
        kind, settings, layout = "cleaned-training", {"tier": tier}, partial(tabulated, _TABLES)
        cleaned = Result(kind, Figures(rows), settings, DataInfo(), (), layout, facts=facts)
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
    return strictest, facts["settings"]["train"]


def _copy(
    rows: _Rows, source: Path, target: Path, leaking: Container[str], known: Container[str]
) -> tuple[list[Figure], dict[str, str]]:
    """Copy the lines of queries that do not leak.

    Args:
        rows: yields the lines of `source`, each after what names its query.
        source: the file.
        target: the file to write.
        leaking: what names the queries that leak.
        known: what names the training queries.

    Returns:
        How many lines there are of each kind, and the names and digests of both files.
    """
    findings, counts = FindingLog(), dict.fromkeys(_COLUMNS, 0)
    with write_atomically(target) as file:
        for name, line in counted(rows(source, findings), f"clean {source.name}"):
            counts["lines"] += 1
            if name in leaking:
                counts["leaking_lines"] += 1
            elif name in known:
                counts["kept_lines"] += 1
                file.write(line.encode())
            else:
                counts["other_lines"] += 1
    findings.stop_if_any(CollectionError, f"{source} cannot be cleaned:")
    if not counts["kept_lines"]:
        raise DataError(
            f"nothing of {source} would be left: of {counts['lines']:,} lines, "
            f"{counts['leaking_lines']:,} are of training queries that leak, and "
            f"{counts['other_lines']:,} of queries that are not among the training "
            "queries; give more training queries, or clean up to a stricter tier (--tier)"
        )
    figures = [Figure(kind, slice=target.name, value=count) for kind, count in counts.items()]
    return figures, {
        "name": target.name,
        "source": source.name,
        "source_sha256": sha256_of(source),
        "sha256": sha256_of(target),
    }


def _qrels_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, str]]:
    rows = ((str(path), line, qrel) for line, qrel in qrels_rows(path, findings))
    for query_id, doc_id, relevance in judged_once(rows, findings):
        yield query_id, f"{query_id}\t0\t{doc_id}\t{relevance}\n"


def _triple_rows(path: Path, findings: FindingLog) -> Iterator[tuple[str, str]]:
    for _, fields in tsv_rows(path, ("query", "positive", "negative"), findings):
        yield fields[0], "\t".join(fields) + "\n"


def _holds_ids(path: Path) -> bool:
    """Say whether triples hold ids: then no field of the first has white space in it."""
    first = next(tsv_rows(path, ("query", "positive", "negative"), FindingLog()), (0, []))
    return all(len(field.split()) == 1 for field in first[1])
