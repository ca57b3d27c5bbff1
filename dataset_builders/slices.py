"""Slices: parts of MS MARCO, published as ids, and cut from the user's own copy.

A published slice is a Parquet file of ids, each with 16 bits of the digest of its text. In MS
MARCO's collection many characters are double-encoded; ir_datasets repairs them. Digests are of
repaired texts, so that both copies match. The files of a cut slice do not depend on the copy: every
character beyond ASCII is double-encoded, as nearly all are in MS MARCO.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from msshift_bench.data import (
    ContentDigest,
    double_encode,
    open_collection,
    qrel_rows,
    query_rows,
    read_judgements,
    repair_text,
    sha256_of,
)
from msshift_bench.errors import (
    CollectionError,
    DataError,
    FindingLog,
    NotFoundError,
    UsageError,
    check_name,
)
from msshift_bench.plumbing import replace_folder, report_progress, tsv_rows, write_json
from msshift_bench.records import Qrel

SLICES: Mapping[str, str] = {"msmarco-pool": "58,822 passages and 16,367 queries of MS MARCO"}
"""Name of a published slice -> its content."""

FACTS = "slice.json"
"""The file of a cut slice's facts."""

_TESTS = "test-queries.txt"
_MOST_CHANGED = 0.01
"""The largest share of changed texts in an accepted copy of MS MARCO."""

_PASSAGE, _QUERY, _TEST_QUERY = range(3)

_FILES = (
    ("queries.tsv", "queries.train.tsv", "queries.dev.tsv", "queries.dev.small.tsv"),
    ("qrels.tsv", "qrels.train.tsv", "qrels.dev.tsv", "qrels.dev.small.tsv"),
)
"""The possible names of the files of queries and of qrels."""

_PARTS = {"msmarco-passage": ("msmarco-passage/train", "msmarco-passage/dev/small")}
"""Id of ir_datasets without queries -> ids of its parts with queries."""


class Copy(NamedTuple):
    """The user's copy of MS MARCO, from which a slice is cut.

    Attributes:
        passages: id and text of each passage, in any order; can be iterated once.
        queries: query_id -> text.
        qrels: query_id -> doc_id -> relevance.
    """

    passages: Iterable[tuple[str, str]]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]


class BuiltSlice(NamedTuple):
    """A cut slice.

    Attributes:
        folder: the folder of ``collection.tsv``, ``queries.tsv``, ``qrels.tsv`` and the ids of the
            test queries.
        changed: the passages and queries whose texts differ from the published texts, e.g.
            ``passage 12``.
    """

    folder: Path
    changed: tuple[str, ...]

    @property
    def tests(self) -> Path:
        """The file of the ids of the official test queries."""
        return self.folder / _TESTS


def open_copy(source: str | Path) -> Copy:
    """Open a copy of MS MARCO.

    Args:
        source: the folder of Microsoft's files (``collection.tsv``, ``queries.train.tsv``,
            ``qrels.train.tsv``, and the same for ``dev`` or ``dev.small``), or an argument of
            `open_collection`, e.g. ``msmarco-passage`` of ir_datasets.

    Raises:
        NotFoundError: if there is no such folder or id.
        CollectionError: if rows are malformed; for passages, when they are iterated.
    """
    folder = Path(source).expanduser()
    if (folder / "collection.tsv").is_file():
        return _open_files(folder)
    parts = [open_collection(part) for part in _PARTS.get(str(source), (str(source),))]
    return Copy(
        parts[0].passages(),
        {query_id: text for part in parts for query_id, text in part.queries.items()},
        {query_id: judged for part in parts for query_id, judged in part.qrels.items()},
    )


def _open_files(folder: Path) -> Copy:
    findings = FindingLog()
    existing = [[folder / name for name in names if (folder / name).is_file()] for names in _FILES]
    for names, paths in zip(_FILES, existing, strict=True):
        if not paths:
            raise NotFoundError(
                f"{folder} holds none of {', '.join(names)}; add one of these files of MS MARCO"
            )
    query_files, qrel_files = existing
    queries = {
        query_id: text for path in query_files for *_, query_id, text in query_rows(path, findings)
    }
    qrels = read_judgements(qrel_rows(qrel_files, findings), findings, None)
    findings.stop_if_any(CollectionError, f"the queries and qrels of {folder} are malformed:")
    return Copy(_passages(folder / "collection.tsv"), queries, qrels)


def _passages(path: Path) -> Iterator[tuple[str, str]]:
    findings = FindingLog()
    for _, (doc_id, text) in tsv_rows(path, ("doc_id", "text"), findings):
        yield doc_id, text
    findings.stop_if_any(CollectionError, f"{path} is malformed:")


def cut_slice(name: str, source: str | Path | None, folder: str | Path) -> BuiltSlice:
    """Cut a published slice from a copy of MS MARCO, unless the folder already contains it.

    Args:
        name: a name in `SLICES`.
        source: the copy; see `open_copy`. `None` if the folder contains the slice.
        folder: the folder to write; it appears only when it is complete.

    Raises:
        UnknownNameError: if there is no such slice.
        UsageError: if the folder does not contain the slice and `source` is `None`, or if the
            folder contains other files.
        DataError: if the copy lacks passages or queries of the slice, has other judgements, or if
            more than 1% of its texts differ.
        NotFoundError, CollectionError: see `open_copy`.
    """
    check_name("slice", name, SLICES)
    published = Path(str(files("msshift_bench.dataset_builders"))) / "slices" / f"{name}.parquet"
    return cut_ids(published, source, Path(folder))


def cut_ids(published: Path, source: str | Path | None, folder: Path) -> BuiltSlice:
    """Cut a slice from a copy; see `cut_slice`.

    Args:
        published: the Parquet file of ids, from `publish_slice`.
        source: the copy; see `open_copy`.
        folder: the folder to write.
    """
    ids_sha256, facts = sha256_of(published), folder / FACTS
    recorded = json.loads(facts.read_bytes()) if facts.is_file() else {}
    if recorded.get("ids_sha256") == ids_sha256:
        return BuiltSlice(folder, tuple(recorded["changed"]))
    if source is None:
        raise UsageError(
            f"{published.stem} is cut from your copy of MS MARCO, but {folder} does not contain "
            "it; add --from FOLDER, or --from msmarco-passage for ir_datasets' copy"
        )
    if folder.is_dir() and any(folder.iterdir()) and not facts.is_file():
        raise UsageError(
            f"{folder} is not a cut slice, and cutting {published.stem} would replace it; move it "
            "away, or write the data set to another folder (--out)"
        )
    table = pq.read_table(published)
    expected = json.loads(table.schema.metadata[b"slice"])
    kinds, ids, checks = (column.to_pylist() for column in table.columns)
    rows = {
        (kind > _PASSAGE, str(key)): check
        for kind, key, check in zip(kinds, ids, checks, strict=True)
    }
    wanted = {key for is_query, key in rows if not is_query}
    copy = open_copy(source)
    passages = _read_passages(copy.passages, wanted)
    texts = {(False, key): text for key, text in passages.items()}
    texts |= {(True, key): repair_text(copy.queries[key]) for _, key in rows if key in copy.queries}
    label = published.stem
    _refuse_copy(
        [_named(row) for row in rows if row not in texts], "lacks", label, source, len(rows)
    )
    changed = [_named(row) for row, check in rows.items() if _check(texts[row]) != check]
    if len(changed) > _MOST_CHANGED * len(rows):
        _refuse_copy(changed, "has other texts of", label, source, len(rows))
    qrels = [
        Qrel(query_id, doc_id, grade)
        for is_query, query_id in rows
        for doc_id, grade in sorted(copy.qrels.get(query_id, {}).items())
        if is_query and doc_id in wanted and grade >= 1
    ]
    digest = ContentDigest.of(qrels)
    if digest.hexdigest() != expected["qrels_sha256"]:
        raise DataError(
            f"{source} has {digest.rows:,} judgements of relevant passages of {label}, expected "
            f"{expected['qrels']:,} with another digest; give MS MARCO's qrels of train and dev"
        )
    with replace_folder(folder) as partial:
        partial.mkdir(parents=True, exist_ok=True)
        lines = {
            "collection.tsv": [
                f"{key}\t{double_encode(passages[key])}" for q, key in rows if not q
            ],
            "queries.tsv": [f"{key}\t{copy.queries[key]}" for is_query, key in rows if is_query],
            "qrels.tsv": [f"{query_id}\t0\t{doc_id}\t{grade}" for query_id, doc_id, grade in qrels],
            _TESTS: [str(key) for kind, key in zip(kinds, ids, strict=True) if kind == _TEST_QUERY],
        }
        for file, file_lines in lines.items():
            (partial / file).write_text(
                "".join(f"{line}\n" for line in file_lines), encoding="utf-8"
            )
        write_json(partial / FACTS, {"slice": label, "ids_sha256": ids_sha256, "changed": changed})
    return BuiltSlice(folder, tuple(changed))


def _read_passages(passages: Iterable[tuple[str, str]], wanted: Set[str]) -> dict[str, str]:
    """Return doc_id -> repaired text of the wanted passages, without missing ones."""
    texts: dict[str, str] = {}
    for doc_id, text in passages:
        if doc_id in wanted:
            texts[doc_id] = repair_text(text)
            report_progress("cut", len(texts), len(wanted))
            if len(texts) == len(wanted):
                break
    return texts


def publish_slice(
    path: Path,
    passages: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    tests: Iterable[str],
) -> None:
    """Write the ids of a slice, with 16 bits of the digest of each text.

    Args:
        path: the Parquet file to write.
        passages: doc_id -> text; ids are integers as strings.
        queries: query_id -> text; ids are integers as strings.
        qrels: query_id -> doc_id -> relevance; other pairs than the slice's, and relevances below
            1, are ignored.
        tests: the ids of the official test queries.
    """
    tests = set(tests)
    rows = [(_PASSAGE, int(key), _check(repair_text(text))) for key, text in passages.items()]
    rows += [
        (_TEST_QUERY if key in tests else _QUERY, int(key), _check(repair_text(text)))
        for key, text in queries.items()
    ]
    rows.sort(key=lambda row: (row[0] > _PASSAGE, row[1]))
    digest = ContentDigest.of(
        Qrel(key, doc_id, grade)
        for key in queries
        for doc_id, grade in qrels.get(key, {}).items()
        if doc_id in passages and grade >= 1
    )
    facts: dict[str, Any] = {"qrels": digest.rows, "qrels_sha256": digest.hexdigest()}
    types = {"kind": pa.int8(), "id": pa.int32(), "check": pa.uint16()}
    columns = [
        pa.array(column, kind)
        for column, kind in zip(zip(*rows, strict=True), types.values(), strict=True)
    ]
    schema = pa.schema(list(types.items()), {"slice": json.dumps(facts)})
    table = pa.table(columns, schema=schema)
    encodings = {"id": "DELTA_BINARY_PACKED", "check": "PLAIN"}
    pq.write_table(
        table, path, compression="zstd", use_dictionary=["kind"], column_encoding=encodings
    )


def _check(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=2).digest(), "little")


def _named(row: tuple[bool, str]) -> str:
    is_query, key = row
    return f"{'query' if is_query else 'passage'} {key}"


def _refuse_copy(names: list[str], verb: str, label: str, source: object, count: int) -> None:
    if names:
        shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
        raise DataError(
            f"{source} {verb} {len(names):,} of {count:,} passages and queries of {label} ({shown})"
            "; give a complete copy of MS MARCO passage, version 1"
        )
