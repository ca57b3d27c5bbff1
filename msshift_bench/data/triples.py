"""Training triples as TSV, the format of MS MARCO's triples for other trainers."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import IO, cast

from msshift_bench.data.collection import Collection
from msshift_bench.data.dataset import Dataset, canonical_lines, open_dataset
from msshift_bench.data.digests import ContentDigest
from msshift_bench.errors import CollectionError, DataError, UsageError
from msshift_bench.libraries import pyarrow as pa
from msshift_bench.plumbing import counted, counted_parts, write_atomically
from msshift_bench.shifts import TRIPLES, parse_config

_BREAKS = str.maketrans("\t\n\r", "   ")


def export_triples(
    data: Dataset | str | Path, name: str, out: str | Path, *, texts: Collection | None = None
) -> int:
    r"""Write the triples of one config as TSV, one per line, in their order.

    With ids, a line is ``query_id \t positive_id \t negative_id``, as in MS MARCO's
    ``qidpidtriples``. The SHA-256 of such a file, uncompressed, is the split's digest in the
    manifest. With texts, a line has the three texts, as in MS MARCO's
    ``triples.train.small.tsv``; tabs and line breaks in a text become spaces.

    Memory does not grow with triples or passages; with texts, passages are in a temporary file.

    Args:
        data: the built data set; see `open_dataset`.
        name: the config, e.g. ``length-short-triples``.
        out: the file; compressed if its name ends in ``.gz``. Equal triples give equal bytes.
        texts: the data set's source collection, to write texts; by default, ids are written.

    Returns:
        The number of triples.

    Raises:
        NotFoundError: if there is no built data set.
        UnknownNameError: if the data set lacks the triples.
        UsageError: if the queries or passages of `texts` differ from the data set's source
            collection, another process is writing the file, or `out` is a folder.
        IntegrityError: if a file is missing or was changed after the build.
        CollectionError: if `texts` is malformed, or repeats a doc_id.
        DataError: if `texts` lacks a passage.
    """
    out = Path(out).expanduser()
    dataset = open_dataset(data)
    triples = dataset.triples(name)
    with closing(sqlite3.connect("")) as passages:
        lines: Callable[[pa.RecordBatch], bytes | pa.Buffer] = canonical_lines
        if texts is not None:
            queries = _queries(dataset, name, texts)
            _store_passages(texts, dataset, name, passages)
            lines = partial(_lines, queries=queries, passages=passages, collection=texts.name)
        with write_atomically(out) as file, ExitStack() as stack:
            stream: IO[bytes] = file
            if out.suffix == ".gz":
                # No time and no file name in the gzip header, so that bytes are reproducible.
                compressed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
                stream = cast("IO[bytes]", stack.enter_context(compressed))
            for batch in counted_parts(triples.batches(), "export", len(triples)):
                stream.write(lines(batch))
    return len(triples)


def _queries(dataset: Dataset, name: str, collection: Collection) -> Mapping[str, str]:
    dataset.check_built_from(collection)
    texts = collection.queries
    if dataset.manifest.texts:
        rows = dataset.rows(name.removesuffix(TRIPLES), "train")
        texts = {row.query_id: row.text for row in rows}
    return {query_id: text.translate(_BREAKS) for query_id, text in texts.items()}


def _store_passages(
    collection: Collection, dataset: Dataset, name: str, database: sqlite3.Connection
) -> None:
    """Write the passages to a table; `UsageError` if they are not the passages of the triples."""
    digest = ContentDigest()

    def rows() -> Iterator[tuple[str, str]]:
        for passage in counted(collection.passages(), "passages"):
            digest.add(passage)
            yield passage.doc_id, passage.text.translate(_BREAKS)

    database.execute("CREATE TABLE passages (doc_id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")
    stored = database.executemany("INSERT OR IGNORE INTO passages VALUES (?, ?)", rows())
    if stored.rowcount < digest.rows:
        raise CollectionError(
            f"{collection.name} has {digest.rows:,} passages, but {stored.rowcount:,} different "
            "doc_ids; make each doc_id unique, or export ids without texts"
        )
    shift, _ = parse_config(name.removesuffix(TRIPLES), dataset.shifts)
    drawn_from = dataset.manifest.shifts[shift.name].get("triples", {}).get("passages", {})
    if drawn_from.get("sha256", digest.hexdigest()) != digest.hexdigest():
        raise UsageError(
            f"the passages of {collection.name!r} ({digest.rows:,}) differ from the passages of "
            f"the triples in {dataset.folder} ({drawn_from['rows']:,}); give the collection of the "
            "triples, or make the triples again with 'msshift triples'"
        )


def _lines(
    batch: pa.RecordBatch,
    *,
    queries: Mapping[str, str],
    passages: sqlite3.Connection,
    collection: str,
) -> bytes:
    def text_of(doc_id: str) -> str:
        row = passages.execute("SELECT text FROM passages WHERE doc_id = ?", (doc_id,)).fetchone()
        if row is None:
            raise DataError(
                f"{collection} lacks the passage {doc_id!r} of the triples; give the collection "
                "of the triples"
            )
        return str(row[0])

    columns = (column.to_pylist() for column in batch.columns)
    return "".join(
        f"{queries[query_id]}\t{text_of(positive_id)}\t{text_of(negative_id)}\n"
        for query_id, positive_id, negative_id in zip(*columns, strict=True)
    ).encode()
