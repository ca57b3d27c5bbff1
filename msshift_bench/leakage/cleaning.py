"""Remove leaking queries from a training set: its queries, qrels and triples."""

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
"""Figure of a file -> title and format of its column."""

_TABLES: Sequence[TableSpec] = (
    ("Training files without leaking queries", {"slice": "file"}, _COLUMNS),
    (
        "Removed training queries, each at its strictest tier",
        {"slice": "tier"},
        {"left_out": ("training queries", COUNT)},
    ),
)

_Rows = Callable[[Path, FindingLog], Iterator[tuple[str, str]]]
"""A reader of a file: yields the id or the text of a line's query, and the line to write."""


def clean_training(
    found: str | Path,
    train: str | Path,
    out: str | Path,
    *,
    qrels: str | Path | None = None,
    triples: str | Path | None = None,
    tier: str = NEAR_TIER,
) -> Result:
    """Write a training set without the queries that leak. After an error, `out` is unchanged.

    Args:
        found: the folder that `LeakageResult.write` wrote for the same file `train`.
        train: the training queries: a file of query_id, tab, text.
        out: the folder to write: ``queries.tsv``, ``qrels.tsv``, ``triples.tsv``, the removed
            queries (``removed.tsv``: train_id, tier) and ``manifest.json``.
        qrels: the training judgements; written in TREC's four columns.
        triples: the training triples: three columns, of ids or of texts.
        tier: the loosest tier to remove: queries found at it or at a stricter tier leak.

    Returns:
        For each file (column `slice`), the numbers of its ``lines``, of removed lines
        (``leaking_lines``: their query leaks; ``other_lines``: it is not in `train`), and of
        written lines (``kept_lines``). Then, for each tier (`slice`), the number of removed
        training queries with this strictest tier (``left_out``). The facts hold the digests of the
        files.

    Raises:
        NotFoundError: if a file does not exist, or `found` holds no result of `find_leakage`.
        UnknownNameError: if there is no such tier.
        UsageError: if `out` holds other files or an input file, or another process is writing it.
        CollectionError: if a file is malformed; it lists every such line.
        DataError: if `found` was made for other training queries, or no line would be left.

    Examples:
        >>> find_leakage("train.tsv", {"8": "Who is pope?"}).write("found")
        >>> cleaned = clean_training("found", "train.tsv", "cleaned")
        >>> [(row.slice, row.value) for row in cleaned.figures.where(figure="kept_lines")]
        [('queries.tsv', 1)]
        >>> Path("cleaned/queries.tsv").read_text().split()
        ['2', 'cheap', 'flights', 'to', 'rome']
    """
    out, train = Path(out), Path(train)
    leaking, train_facts = _read_found(Path(found), tier)
    check_folder(out)
    # Any training set may hold queries.tsv and qrels.tsv; only a cleaned one has these two files.
    for mark in (_REMOVED, _MANIFEST):
        check_contents(out, mark, _NAMES, "a cleaned training set")
    for source in (train, *(Path(path) for path in (qrels, triples) if path is not None)):
        if source.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{source} is in {out}, which is replaced; give another --out")
    if not train.is_file():
        raise NotFoundError(f"no file {train}; give the file of training queries")
    if not isinstance(train_facts, Mapping) or train_facts.get("sha256") != sha256_of(train):
        raise DataError(
            f"{found} was made for other training queries than {train}; run 'msshift leakage find "
            f"--train {train} --test TEST' again"
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
        lines = (f"{query_id}\t{strictest}\n" for query_id, strictest in leaking.items())
        write_bytes(new / _REMOVED, "".join(lines).encode())
        removed = Counter(leaking.values())
        rows = [
            *(row for figures, _ in copies for row in figures),
            *(Figure("left_out", slice=t, value=removed[t]) for t in tiers_up_to(tier)),
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
    """Return leaking train_id -> strictest tier, and the recorded name and digest of `train`.

    Raises:
        NotFoundError: if the folder holds no result of `find_leakage`.
    """
    tiers = tiers_up_to(tier)
    facts = read_found(folder)
    if not facts:
        raise NotFoundError(
            f"{folder} holds no {FOUND_NAME} and {CANDIDATES_NAME}; give the folder that "
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
    """Copy the lines of known queries that do not leak.

    Args:
        rows: the reader of `source`.
        source: the file to read.
        target: the file to write.
        leaking: the ids or texts of the queries that leak.
        known: the ids or texts of all training queries.

    Returns:
        The counts of lines, and the names and digests of both files.

    Raises:
        CollectionError: if `source` is malformed.
        DataError: if no line would be left.
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
            f"no line of {source} would be left: of {counts['lines']:,} lines, "
            f"{counts['leaking_lines']:,} have a leaking query and {counts['other_lines']:,} an "
            "unknown query; give more training queries, or a stricter --tier"
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
    """Return whether triples hold ids: no field of the first row has white space; true if empty."""
    first = next(tsv_rows(path, ("query", "positive", "negative"), FindingLog()), (0, []))
    return all(len(field.split()) == 1 for field in first[1])
