"""Collections: passages, queries and qrels.

`open_collection` takes a folder of TSV files, a folder in BEIR's layout, an ir_datasets id, or
``mini``. It streams passages, and reads queries and qrels as mappings. Ids are strings. A passage
may have the id of a query.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench import mini
from msshift_bench.data.digests import ContentDigest
from msshift_bench.data.reading import (
    problem_of_id,
    qrel_rows,
    query_rows,
    read_judgements,
    read_texts,
)
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
from msshift_bench.plumbing import jsonl_rows, tsv_rows
from msshift_bench.records import Passage, Qrel, TitledText

IR_DATASETS_FAILURES = (OSError, RuntimeError)
"""Exceptions of ir_datasets for a failed download, from one source or several."""

_MINI = re.compile(r"mini(?::([0-9]+))?")

_UTF8_AS_LATIN1 = re.compile(
    "[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


class Collection(ABC):
    """A named collection of passages, queries and qrels.

    Attributes:
        name: a folder's name, an ir_datasets id, ``mini`` or ``mini:<size>``.
        layout: its format: ``tsv``, ``beir``, ``ir_datasets`` or ``generated``.
        text_variant: ``raw`` if texts are as in their source, ``repaired`` if ir_datasets has
            repaired MS MARCO's double-encoded characters.
        address: the argument of `open_collection` in another process: an absolute path or a name;
            `None` if the collection has neither.

    Examples:
        >>> collection = open_collection("mini:500")
        >>> len(collection.queries), next(collection.passages()).doc_id
        (750, '0')
    """

    name: str
    layout: str
    text_variant: str = "raw"
    address: str | None = None

    def __repr__(self) -> str:
        return f"<Collection {self.name}: {self.layout}>"

    @abstractmethod
    def passages(self) -> Iterator[Passage]:
        """Yield the passages, in the order of their source.

        Raises:
            CollectionError: of a folder, at the end, if rows are malformed, ids repeat or have
                white space, or there are no passages. Malformed rows are left out.
            NotFoundError, MissingError: if ir_datasets has no passages of the id, or cannot
                download them; likewise for queries and qrels.
        """

    @abstractmethod
    def _query_rows(self, findings: FindingLog) -> Iterator[tuple[str, int, str, str]]:
        """Yield the rows of queries, see `query_rows`."""

    @abstractmethod
    def _qrel_rows(self, findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
        """Yield the rows of judgements, see `qrel_rows`."""

    @cached_property
    def _read_queries(self) -> tuple[dict[str, str], FindingLog]:
        findings = FindingLog()
        return read_texts(self._query_rows(findings), findings), findings

    @cached_property
    def queries(self) -> dict[str, str]:
        """All queries: query_id -> text, in the order of their source.

        Raises:
            CollectionError: if rows are malformed, ids repeat, or a text is empty.
        """
        queries, findings = self._read_queries
        findings.stop_if_any(CollectionError, f"the queries of {self.name} are malformed:")
        return queries

    @cached_property
    def queries_digest(self) -> str:
        """The `ContentDigest` of all queries, hexadecimal; errors as in `queries`."""
        return ContentDigest.of(self.queries.items()).hexdigest()

    @cached_property
    def qrels(self) -> dict[str, dict[str, int]]:
        """All judgements: query_id -> doc_id -> relevance, in the order of their source.

        Raises:
            CollectionError: if rows or queries are malformed, a pair is judged twice with different
                relevance, or a query does not exist; with all findings.
        """
        queries, of_queries = self._read_queries
        findings = deepcopy(of_queries)
        known = None if len(of_queries) else queries
        qrels = read_judgements(self._qrel_rows(findings), findings, known)
        counts = {"queries": len(of_queries), "qrels": len(findings) - len(of_queries)}
        malformed = " and the ".join(part for part, count in counts.items() if count)
        findings.stop_if_any(CollectionError, f"the {malformed} of {self.name} are malformed:")
        return qrels

    @cached_property
    def relevant(self) -> dict[str, dict[str, int]]:
        """The part of `qrels` with a relevance of 1 or more; queries without one are left out."""
        graded = {
            query_id: {doc_id: grade for doc_id, grade in judged.items() if grade >= 1}
            for query_id, judged in self.qrels.items()
        }
        return {query_id: judged for query_id, judged in graded.items() if judged}

    def provenance(self) -> dict[str, object]:
        """Return the facts for manifests: names, and counts and digests of queries and qrels."""
        judgements = ContentDigest.of(
            (query_id, doc_id, relevance)
            for query_id, judged in self.qrels.items()
            for doc_id, relevance in judged.items()
        )
        return {
            "name": self.name,
            "layout": self.layout,
            "text": self.text_variant,
            "queries": {"rows": len(self.queries), "sha256": self.queries_digest},
            "qrels": {"rows": judgements.rows, "sha256": judgements.hexdigest()},
        }


class _Mini(Collection):
    layout = "generated"

    def __init__(self, size: int) -> None:
        self.address = self.name = "mini" if size == mini.DEFAULT_SIZE else f"mini:{size}"
        self.size = size

    def passages(self) -> Iterator[Passage]:
        return mini.passages(self.size)

    def _query_rows(self, _: FindingLog) -> Iterator[tuple[str, int, str, str]]:
        return ((self.name, 0, *query) for query in mini.queries(self.size))

    def _qrel_rows(self, _: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
        return ((self.name, 0, qrel) for qrel in mini.qrels(self.size))


class _Folder(Collection):
    """A folder with ``collection.tsv``, ``queries.tsv`` and ``qrels.tsv``, or BEIR's files."""

    def __init__(self, folder: Path, qrels: Path | None) -> None:
        self.name = name_of(folder)
        self.address = str(folder.absolute())
        self.collection_file = find_text_file(folder, "corpus.jsonl", "collection.tsv")
        is_beir = self.collection_file.name.startswith("corpus.jsonl")
        self.layout = "beir" if is_beir else "tsv"
        self.queries_file = find_text_file(folder, f"queries.{'jsonl' if is_beir else 'tsv'}")
        if qrels is not None:
            self.qrels_files = [qrels]
        elif is_beir:
            ends = (".tsv", ".tsv.gz")
            self.qrels_files = sorted(
                path for path in (folder / "qrels").glob("*") if path.name.endswith(ends)
            )
        else:
            # A slice of a larger collection has all judgements in qrels.tsv. qrels_in_pool.tsv has
            # only judgements of passages in the slice, which can be retrieved.
            self.qrels_files = [find_text_file(folder, "qrels_in_pool.tsv", "qrels.tsv")]
        if not self.qrels_files:
            raise NotFoundError(f"{folder / 'qrels'} has no .tsv or .tsv.gz file; add the qrels")

    def passages(self) -> Iterator[Passage]:
        findings = FindingLog()
        hashes = array("q")
        for line, passage in self._read_passages(findings):
            if problem := problem_of_id("doc_id", passage.doc_id):
                code, message, fix = problem
                findings.add(code, message, str(self.collection_file), line, fix)
            hashes.append(hash(passage.doc_id))
            yield passage
        # Hashes need 70 MB for 8.8 million ids, far less than a set of strings. Different ids may
        # have equal hashes, so a second pass compares the ids with repeated hashes.
        values, counts = np.unique(np.frombuffer(hashes, np.int64), return_counts=True)
        suspects = set(values[counts > 1].tolist())
        seen: set[str] = set()
        for line, (doc_id, _) in self._read_passages(FindingLog()) if suspects else ():
            if hash(doc_id) in suspects:
                if doc_id in seen:
                    message = f"doc_id {doc_id!r} is repeated"
                    findings.add("repeated-id", message, str(self.collection_file), line)
                seen.add(doc_id)
        if not hashes and not len(findings):
            findings.add("no-passages", "the file has no passages", str(self.collection_file))
        findings.stop_if_any(CollectionError, f"the passages of {self.name} are malformed:")

    def _read_passages(self, findings: FindingLog) -> Iterator[tuple[int, Passage]]:
        if self.layout == "tsv":
            for line, fields in tsv_rows(self.collection_file, ("doc_id", "text"), findings):
                yield line, Passage(*fields)
            return
        rows = jsonl_rows(self.collection_file, ("_id", "text"), findings, optional=("title",))
        for line, record in rows:
            yield line, Passage(record["_id"], TitledText(record["title"], record["text"]))

    def _qrel_rows(self, findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
        return qrel_rows(self.qrels_files, findings)

    def _query_rows(self, findings: FindingLog) -> Iterator[tuple[str, int, str, str]]:
        if self.layout == "tsv":
            return query_rows(self.queries_file, findings)
        rows = jsonl_rows(self.queries_file, ("_id", "text"), findings)
        return ((str(self.queries_file), n, row["_id"], row["text"]) for n, row in rows)


class _IrDataset(Collection):
    """A data set of ir_datasets, downloaded when first read."""

    layout = "ir_datasets"

    def __init__(self, dataset_id: str) -> None:
        self.address = self.name = dataset_id
        # ir_datasets repairs the passages of this collection only.
        self.text_variant = "repaired" if dataset_id.split("/")[0] == "msmarco-passage" else "raw"
        self._dataset = require("ir_datasets", "irds", "an ir_datasets id").load(dataset_id)

    def passages(self) -> Iterator[Passage]:
        for doc in self._rows("docs"):
            text = doc.default_text()
            if title := getattr(doc, "title", ""):
                titled = TitledText(title, getattr(doc, "text", ""))
                text = titled if titled == text else text
            yield Passage(str(doc.doc_id), text)

    def _query_rows(self, _: FindingLog) -> Iterator[tuple[str, int, str, str]]:
        for row in self._rows("queries"):
            yield self.name, 0, str(row.query_id), row.default_text()

    def _qrel_rows(self, findings: FindingLog) -> Iterator[tuple[str, int, Qrel]]:
        for row in self._rows("qrels"):
            if float(row.relevance).is_integer():
                yield self.name, 0, Qrel(str(row.query_id), str(row.doc_id), int(row.relevance))
            else:
                message = (
                    f"relevance {row.relevance} of document {row.doc_id!r} for query "
                    f"{row.query_id!r} is not a whole number"
                )
                fix = "give a qrels file with whole numbers as --qrels"
                findings.add("relevance-not-integer", message, self.name, 0, fix)

    def _rows(self, kind: str) -> Iterator[Any]:
        """Yield rows of ir_datasets, downloaded if needed; errors as in `Collection.passages`."""
        if not self._dataset.has(kind):
            raise NotFoundError(
                f"{self.name} has no {kind} in ir_datasets; give the id of a subset with {kind}, "
                "e.g. msmarco-passage/train instead of msmarco-passage"
            )
        try:
            yield from getattr(self._dataset, f"{kind}_iter")()
        except IR_DATASETS_FAILURES as error:
            raise MissingError(
                f"ir_datasets could not download the {kind} of {self.name}: {reason_of(error)}; "
                "try again with a network, or give a folder with the collection"
            ) from error


def reason_of(error: Exception) -> str:
    """Return the cause of a failure of ir_datasets as text, from messages of three libraries."""
    if isinstance(error, RuntimeError) and len(error.args) > 1:
        _, error = error.args[1][-1]  # The error of the last source.
    # requests wraps the error of urllib3, which has the reason of the last attempt.
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return str(reason).rpartition(": ")[2]


def is_double_encoded(text: str) -> bool:
    """Return whether a text has a double-encoded part: UTF-8 bytes decoded as Latin-1 characters.

    Many of MS MARCO's passages are double-encoded. ir_datasets repairs ``msmarco-passage``; most
    other tools do not. Scores differ slightly, so every sidecar has the number of such passages.

    Examples:
        >>> is_double_encoded("caf\u00c3\u00a9"), is_double_encoded("caf\u00e9")
        (True, False)
    """
    # A fast check, as most texts are ASCII.
    return not text.isascii() and _UTF8_AS_LATIN1.search(text) is not None


def repair_text(text: str) -> str:
    """Return a text without double encoding, as ir_datasets repairs MS MARCO's passages.

    Examples:
        >>> repair_text("caf\u00c3\u00a9") == "caf\u00e9"
        True
    """
    return text if text.isascii() else _UTF8_AS_LATIN1.sub(_decoded, text)


def _decoded(match: re.Match[str]) -> str:
    try:
        return match[0].encode("latin-1").decode()
    except UnicodeDecodeError:  # The bytes are not a character, e.g. a surrogate.
        return match[0]


def double_encode(text: str) -> str:
    """Return a text with double encoding: all its UTF-8 bytes decoded as Latin-1."""
    return text if text.isascii() else text.encode().decode("latin-1")


def find_text_file(folder: Path, *names: str) -> Path:
    """Return the first existing file in `folder`: in the order of `names`, plain before ``.gz``.

    Raises:
        NotFoundError: if no such file exists.
    """
    for name in names:
        for candidate in (folder / name, folder / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    *others, last = names
    raise NotFoundError(
        f"{folder} has no {last} (nor {', '.join((f'{last}.gz', *others))}); add the file"
    )


def open_collection(
    source: Collection | str | Path, *, qrels: str | Path | None = None
) -> Collection:
    """Return an opened collection; a `Collection` is returned unchanged.

    Args:
        source: ``mini`` (``mini:50000`` for another size; ``./mini`` for a folder named mini), a
            folder with ``collection.tsv``, ``queries.tsv`` and ``qrels.tsv`` (plain or ``.gz``;
            ``qrels_in_pool.tsv``, if present, replaces ``qrels.tsv``), a folder in BEIR's layout
            (with all files of ``qrels/``), or an ir_datasets id such as ``msmarco-passage/train``.
        qrels: for a folder, another qrels file, in the folder or relative to the working directory.
            If both exist, give the complete path, or ``./qrels.tsv`` for the working directory.

    Returns:
        The collection; it reads queries, qrels and passages when they are first used. A size of
        mini out of range is then a `UsageError`.

    Raises:
        NotFoundError: if the folder, file or id does not exist.
        MissingExtraError: if `source` needs ir_datasets, which is not installed.
        UsageError: if `qrels` is ambiguous, or given for a source that is not a folder.

    Examples:
        >>> collection = open_collection("mini:300")
        >>> next(iter(collection.passages())).text[:26], len(collection.qrels)
        ('The parish register enters', 450)
    """
    if isinstance(source, Collection):
        if qrels is not None:
            raise UsageError(
                f"qrels cannot be changed for {source.name}, which is already open; give its "
                "folder, or leave out qrels"
            )
        return source
    folder = Path(source).expanduser()
    match = _MINI.fullmatch(str(source))
    if not match and folder.is_dir():
        return _Folder(folder, None if qrels is None else _choose_qrels(folder, str(qrels)))
    if qrels is not None:
        raise UsageError(
            f"qrels can be given only for a folder, and {source} is not a folder; leave out qrels"
        )
    if match:
        return _Mini(int(match[1] or mini.DEFAULT_SIZE))
    return _open_ir_dataset(str(source))


def _choose_qrels(folder: Path, qrels: str) -> Path:
    # pathlib removes a leading "./".
    places = [Path(qrels)] if qrels.startswith(("./", "../")) else [folder / qrels, Path(qrels)]
    found = [place for place in places if place.is_file()]
    if not found:
        searched = f" in {folder} or in the working directory" * (len(places) == 2)
        raise NotFoundError(f"no qrels file {qrels}{searched}; correct the name")
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
