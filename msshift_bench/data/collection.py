"""Collections: passages, queries and qrels, wherever they come from.

`open_collection` takes a folder of TSV files, a folder in BEIR's layout, an ir_datasets id, or the
word ``mini``. It streams passages and reads queries and qrels as columns. Ids are strings
throughout. A passage may have the id of a query.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench import mini
from msshift_bench.data.collection_columns import QrelColumns, QueryColumns
from msshift_bench.data.digests import ContentDigest
from msshift_bench.data.ir_datasets_failures import IR_DATASETS_FAILURES, reason_of
from msshift_bench.errors import (
    CollectionError,
    FindingLog,
    MissingError,
    MissingExtraError,
    NotFoundError,
    UsageError,
    name_of,
    require,
)
from msshift_bench.plumbing import jsonl_rows, qrels_rows, tsv_rows
from msshift_bench.records import Passage, Qrel, Query

__all__ = ["Collection", "find_text_file", "open_collection"]

_ID = re.compile(r"[^\0\t-\r ]+")
"""What a field of a run file may be; only ASCII white space separates them."""

_MINI = re.compile(r"mini(?::([0-9]+))?")


class Collection(ABC):
    """Passages, queries and qrels under one name.

    Attributes:
        name: a folder's name, an ir_datasets id, or ``mini``.
        layout: where it comes from: ``tsv``, ``beir``, ``ir_datasets`` or ``generated``.
        text_variant: ``raw`` if texts are as in their source, ``repaired`` if ir_datasets has
            repaired MS MARCO's double-encoded characters.
        address: what another process gives `open_collection` to read the same passages: an absolute
            path or a name; `None` if nothing does.
    """

    name: str
    layout: str
    text_variant: str = "raw"
    address: str | None = None

    def __repr__(self) -> str:
        return f"<Collection {self.name}: {self.layout}>"

    @abstractmethod
    def passages(self) -> Iterator[Passage]:
        """Stream the passages, in the order of their source.

        Raises:
            CollectionError: at the end of the stream, if rows are malformed, or ids repeat or hold
                white space, or if a folder holds none.
        """

    @abstractmethod
    def _read_queries(self, findings: FindingLog) -> Iterable[tuple[str, int, Query]]:
        """Yield ``(source, line, query)``."""

    @abstractmethod
    def _read_qrels(self, findings: FindingLog) -> Iterable[tuple[str, int, Qrel]]:
        """Yield ``(source, line, judgement)``."""

    @cached_property
    def queries(self) -> QueryColumns:
        """All queries.

        Raises:
            CollectionError: if rows are malformed or ids repeat.
        """
        findings = FindingLog()
        seen: dict[str, str] = {}
        for source, line, query in self._read_queries(findings):
            if query.query_id in seen:
                findings.add("repeated-id", f"query_id {query.query_id!r} again", source, line)
            elif not query.text.strip():
                findings.add("empty-text", f"query {query.query_id!r} has no text", source, line)
            else:
                seen[query.query_id] = query.text
        findings.stop_if_any(CollectionError, f"the queries of {self.name} are malformed:")
        return QueryColumns(tuple(seen), tuple(seen.values()))

    @cached_property
    def queries_digest(self) -> str:
        """The `ContentDigest` of all queries; a data set records that of its collection."""
        return ContentDigest.of(self.queries).hexdigest()

    @cached_property
    def qrels(self) -> QrelColumns:
        """All judgements.

        Raises:
            CollectionError: if rows are malformed, judge a pair twice, or name a query that does
                not exist.
        """
        findings = FindingLog()
        known = frozenset(self.queries.ids)
        seen: dict[tuple[str, str], int] = {}
        for source, line, (query_id, doc_id, relevance) in self._read_qrels(findings):
            if query_id not in known:
                findings.add(
                    "unknown-query",
                    f"query_id {query_id!r} is not among the queries",
                    source,
                    line,
                    "add the query, or remove the row",
                )
            elif (query_id, doc_id) in seen:
                findings.add(
                    "duplicate-judgement",
                    f"query {query_id!r} and passage {doc_id!r} judged again",
                    source,
                    line,
                )
            else:
                seen[query_id, doc_id] = relevance
        findings.stop_if_any(CollectionError, f"the qrels of {self.name} are malformed:")
        return QrelColumns(
            tuple(pair[0] for pair in seen), tuple(pair[1] for pair in seen), tuple(seen.values())
        )

    def provenance(self) -> dict[str, object]:
        """Return what a manifest records of the collection, e.g. counts and digests."""
        return {
            "name": self.name,
            "layout": self.layout,
            "text": self.text_variant,
            "queries": {"rows": len(self.queries), "sha256": self.queries_digest},
            "qrels": {"rows": len(self.qrels), "sha256": ContentDigest.of(self.qrels).hexdigest()},
        }


class _Mini(Collection):
    """The generated collection."""

    layout = "generated"

    def __init__(self, size: int) -> None:
        self.address = self.name = "mini" if size == mini.DEFAULT_SIZE else f"mini:{size}"
        self.size = size

    def passages(self) -> Iterator[Passage]:
        return mini.passages(self.size)

    def _read_queries(self, findings: FindingLog) -> Iterable[tuple[str, int, Query]]:  # noqa: ARG002
        return ((self.name, 0, query) for query in mini.queries(self.size))

    def _read_qrels(self, findings: FindingLog) -> Iterable[tuple[str, int, Qrel]]:  # noqa: ARG002
        return ((self.name, 0, qrel) for qrel in mini.qrels(self.size))


class _Folder(Collection):
    """What the two folder layouts share."""

    collection_file: Path
    queries_file: Path
    qrels_files: tuple[Path, ...]

    @abstractmethod
    def _read_passages(self, findings: FindingLog) -> Iterator[tuple[int, Passage]]:
        """Yield ``(line, passage)``."""

    def passages(self) -> Iterator[Passage]:
        findings = FindingLog()
        hashes = array("q")
        for line, passage in self._read_passages(findings):
            if _ID.fullmatch(passage.doc_id) is None:
                message = f"doc_id {passage.doc_id!r} is empty or holds white space"
                fix = "make it one word: no run file can hold it"
                findings.add("id-of-words", message, str(self.collection_file), line, fix)
            hashes.append(hash(passage.doc_id))
            yield passage
        # Eight bytes a passage instead of a set of strings: 8.8 million ids cost 70 MB. Equal
        # hashes only cast suspicion; the second pass compares the ids themselves.
        values, counts = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
        suspects = set(values[counts > 1].tolist())
        if suspects:
            self._find_repeated_ids(suspects, findings)
        if not hashes and not len(findings):
            findings.add("no-passages", "the file holds no passage", str(self.collection_file))
        findings.stop_if_any(CollectionError, f"the passages of {self.name} are malformed:")

    def _find_repeated_ids(self, suspects: set[int], findings: FindingLog) -> None:
        seen: set[str] = set()
        for line, passage in self._read_passages(FindingLog()):
            if hash(passage.doc_id) in suspects:
                if passage.doc_id in seen:
                    findings.add(
                        "repeated-id",
                        f"doc_id {passage.doc_id!r} again",
                        str(self.collection_file),
                        line,
                    )
                seen.add(passage.doc_id)

    def _read_qrels(self, findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
        for path in self.qrels_files:
            for line, qrel in qrels_rows(path, findings):
                yield str(path), line, qrel


class _TsvFolder(_Folder):
    """``collection.tsv``, ``queries.tsv``, ``qrels.tsv``, each plain or gzip."""

    layout = "tsv"

    def __init__(self, folder: Path, qrels: Path | None) -> None:
        self.name = name_of(folder)
        self.address = str(folder.absolute())
        self.collection_file = find_text_file(folder, "collection.tsv")
        self.queries_file = find_text_file(folder, "queries.tsv")
        # A slice of a larger collection keeps all known judgements in qrels.tsv; those whose
        # passage is in the slice stand in qrels_in_pool.tsv, and only they can be retrieved.
        self.qrels_files = (qrels or find_text_file(folder, "qrels_in_pool.tsv", "qrels.tsv"),)

    def _read_passages(self, findings: FindingLog) -> Iterator[tuple[int, Passage]]:
        for line, fields in tsv_rows(self.collection_file, ("doc_id", "text"), findings):
            yield line, Passage(*fields)

    def _read_queries(self, findings: FindingLog) -> Iterator[tuple[str, int, Query]]:
        for line, fields in tsv_rows(self.queries_file, ("query_id", "text"), findings):
            yield str(self.queries_file), line, Query(*fields)


class _BeirFolder(_Folder):
    """BEIR's layout: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/*.tsv``."""

    layout = "beir"

    def __init__(self, folder: Path, qrels: Path | None) -> None:
        self.name = name_of(folder)
        self.address = str(folder.absolute())
        self.collection_file = find_text_file(folder, "corpus.jsonl")
        self.queries_file = find_text_file(folder, "queries.jsonl")
        self.qrels_files = (qrels,) if qrels else tuple(sorted((folder / "qrels").glob("*.tsv")))
        if not self.qrels_files:
            raise NotFoundError(f"{folder / 'qrels'} holds no .tsv file")

    def _read_passages(self, findings: FindingLog) -> Iterator[tuple[int, Passage]]:
        rows = jsonl_rows(self.collection_file, ("_id", "text"), findings, optional=("title",))
        for line, record in rows:
            text = f"{record['title']} {record['text']}".strip()
            yield line, Passage(record["_id"], text)

    def _read_queries(self, findings: FindingLog) -> Iterator[tuple[str, int, Query]]:
        for line, record in jsonl_rows(self.queries_file, ("_id", "text"), findings):
            yield str(self.queries_file), line, Query(record["_id"], record["text"])


class _IrDataset(Collection):
    """A data set of ir_datasets, by its id; it is downloaded when it is first read."""

    layout = "ir_datasets"

    def __init__(self, dataset_id: str) -> None:
        self.address = self.name = dataset_id
        # ir_datasets repairs the passages of this collection only.
        self.text_variant = "repaired" if dataset_id.split("/")[0] == "msmarco-passage" else "raw"
        self._dataset = require("ir_datasets", "irds", "an ir_datasets id").load(dataset_id)

    def passages(self) -> Iterator[Passage]:
        for doc in self._rows("docs"):
            yield Passage(str(doc.doc_id), doc.default_text())

    def _read_queries(self, findings: FindingLog) -> Iterator[tuple[str, int, Query]]:  # noqa: ARG002
        for query in self._rows("queries"):
            yield self.name, 0, Query(str(query.query_id), query.default_text())

    def _read_qrels(self, findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:  # noqa: ARG002
        for qrel in self._rows("qrels"):
            yield self.name, 0, Qrel(str(qrel.query_id), str(qrel.doc_id), int(qrel.relevance))

    def _rows(self, kind: str) -> Iterator[Any]:
        """Yield rows of ir_datasets, which may download them first.

        Raises:
            NotFoundError: if it has none.
            MissingError: if it cannot.
        """
        if not self._dataset.has(kind):
            raise NotFoundError(
                f"{self.name} has no {kind} in ir_datasets; give the id of a part that has them, "
                "as msmarco-passage/train is one of msmarco-passage"
            )
        try:
            yield from getattr(self._dataset, f"{kind}_iter")()
        except IR_DATASETS_FAILURES as error:
            raise MissingError(
                f"the {kind} of {self.name} come from ir_datasets, which did not get them: "
                f"{reason_of(error)}; with a network it fetches them once, or give a folder that "
                "holds the collection"
            ) from error


def find_text_file(folder: Path, *names: str) -> Path:
    """Return the first of `names` (or its .gz) that exists in `folder`.

    Raises:
        NotFoundError: if there is none.
    """
    for name in names:
        for candidate in (folder / name, folder / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    raise NotFoundError(f"{folder} holds no {names[-1]} (nor {names[-1]}.gz)")


def open_collection(
    source: Collection | str | Path, *, qrels: str | Path | None = None
) -> Collection:
    """Open a collection; one that is open already is returned as it is.

    Args:
        source: ``mini`` (``mini:50000`` for another size; write ``./mini`` for a folder of that
            name), a folder that holds ``collection.tsv``, ``queries.tsv`` and ``qrels.tsv`` (plain
            or ``.gz``; in a slice of a larger collection ``qrels_in_pool.tsv`` is preferred), a
            folder in BEIR's layout, or an ir_datasets id such as ``msmarco-passage/train``.
        qrels: for a folder, the qrels file to read instead, in the folder or relative to the
            working directory. A file that is there in both is ambiguous: write its whole path, or
            ``./qrels.tsv`` for that in the working directory.

    Returns:
        The collection; it reads queries, qrels and passages when they are first used.

    Raises:
        NotFoundError: if there is no such folder, file or id.
        MissingExtraError: if `source` needs ir_datasets, which is not installed.
        UsageError: if `qrels` is given for something that is not a folder, or is ambiguous.

    Example:
        >>> collection = open_collection("mini:300")
        >>> next(iter(collection.passages())).text[:26], len(collection.qrels)
        ('The parish register enters', 490)
    """
    if isinstance(source, Collection):
        if qrels is not None:
            raise UsageError(f"{source.name} is open already, with its own qrels")
        return source
    folder = Path(source).expanduser()
    match = _MINI.fullmatch(str(source))
    if not match and folder.is_dir():
        chosen = None if qrels is None else _choose_qrels(folder, str(qrels))
        beir = (folder / "corpus.jsonl").exists() or (folder / "corpus.jsonl.gz").exists()
        return (_BeirFolder if beir else _TsvFolder)(folder, chosen)
    if qrels is not None:
        raise UsageError(f"a qrels file can be chosen for a folder, and {source} is none")
    if match:
        return _Mini(int(match[1] or mini.DEFAULT_SIZE))
    return _open_ir_dataset(str(source))


def _choose_qrels(folder: Path, qrels: str) -> Path:
    # pathlib drops the leading "./", which says that the working directory's is meant.
    places = [Path(qrels)] if qrels.startswith(("./", "../")) else [folder / qrels, Path(qrels)]
    found = [place for place in places if place.is_file()]
    if not found:
        raise NotFoundError(
            f"no qrels file {qrels}, neither in {folder} nor in the working directory"
        )
    if len(found) == 2 and not found[0].samefile(found[1]):
        raise UsageError(
            f"{qrels} is in {folder} and in the working directory; write {found[0]} or ./{qrels}"
        )
    return found[0]


def _open_ir_dataset(source: str) -> Collection:
    not_found = f"{source} is a file" if Path(source).is_file() else f"no folder {source}"
    if source.startswith((".", "/", "~")):
        raise NotFoundError(f"{not_found}; give a folder, an ir_datasets id, or 'mini'")
    try:
        return _IrDataset(source)
    except MissingExtraError as error:
        raise MissingExtraError("irds", f"{not_found}; to read it as an ir_datasets id") from error
    except KeyError as error:
        raise NotFoundError(
            f"{not_found}, and ir_datasets has no id {source!r}; "
            "give a folder, an ir_datasets id, or 'mini'"
        ) from error
