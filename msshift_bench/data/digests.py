"""Rows of a data set, read from Parquet, and their digests, which are equal after a rebuild."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from pathlib import Path

from msshift_bench.errors import IntegrityError
from msshift_bench.libraries import compute as pc, parquet as pq, pyarrow as pa
from msshift_bench.plumbing import TooLargeError, sha256_of_parts, unpacked_batches
from msshift_bench.records import OTHERS, PLACES, Row
from msshift_bench.shifts import Shift

_BATCH = 8192
"""Number of rows converted to Python objects at a time."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes: 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_batches(
    path: Path, columns: Sequence[str] = (), *, size: int = _BATCH, in_all: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a data set's Parquet file, which is not trusted.

    Args:
        path: the file.
        columns: the columns to read; all, if empty.
        size: the largest number of rows of a batch.
        in_all: whether the caller keeps all batches in memory.

    Raises:
        IntegrityError: if the texts are too large for memory.
        KeyError: if a column is missing.
        pa.ArrowException, OSError: see `unpacked_batches`.
    """
    schema = pq.read_schema(path.absolute())
    if columns:
        schema = pa.schema([schema.field(name) for name in columns])
    try:
        for batch in unpacked_batches(path, schema.names, size, in_all=in_all):
            yield batch.select(schema.names).cast(schema)
    except TooLargeError as error:
        raise IntegrityError(f"{path}: {error}") from None


def read_split(paths: Iterable[Path]) -> pa.Table:
    """Return the rows of a split from its files, at least one; errors as in `read_batches`."""
    tables = (
        pa.Table.from_batches(read_batches(path, in_all=True), pq.read_schema(path.absolute()))
        for path in paths
    )
    return pa.concat_tables(list(tables))


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of a table with the columns of `Row`; without ``text``, texts are ""."""
    no_texts = "text" not in table.column_names
    # In batches, because Python objects take many times the memory of Arrow columns.
    for batch in table.to_batches(max_chunksize=_BATCH):
        columns = (
            [""] * len(batch) if name == "text" and no_texts else batch[name].to_pylist()
            for name in Row._fields
        )
        for query_id, text, group, doc_ids, relevances in zip(*columns, strict=True):
            yield Row(query_id, text, group, tuple(doc_ids), tuple(relevances))


def count_rows(shift: Shift, table: pa.Table) -> dict[str, dict[str, int]]:
    """Return group -> place (one of `PLACES`) -> number of rows of a complete shift.

    For a shift by size, groups are training sets; each counts all test and validation queries.
    """
    rows = Counter(zip(*(table[name].to_pylist() for name in ("group", "split")), strict=True))
    if shift.by_size:
        for name, place in ((*shift.tested, "test"), (OTHERS, "validation")):
            rows.update({(group, place): rows[name, place] for group in shift.groups})
    return {group: {place: rows[group, place] for place in PLACES} for group in shift.groups}


def row_lines(table: pa.Table, *, texts: bool = True) -> pa.ChunkedArray:
    """Return the canonical form of each row: a JSON array without spaces, without its last ``]``.

    The array has the fields of `Row`, in their order. The caller adds ``]``, or in the config of a
    complete shift a comma, the split and ``]``.

    Args:
        table: the rows.
        texts: whether to include texts; otherwise every text is empty.
    """
    # Ten times faster than json.dumps, which would take a third of a build.
    quote = encode_basestring

    def lines() -> Iterator[str]:
        for query_id, text, group, doc_ids, relevances in rows_of(table):
            shown = quote(text) if texts else '""'
            listed, grades = ",".join(map(quote, doc_ids)), ",".join(map(str, relevances))
            yield f"[{quote(query_id)},{shown},{quote(group)},[{listed}],[{grades}]"

    return pa.chunked_array([pa.array(lines(), pa.string())])


def digest_of_lines(lines: pa.ChunkedArray, splits: pa.ChunkedArray | None = None) -> str:
    """Return the SHA-256 of rows, from their `row_lines`: 64 hexadecimal digits.

    Args:
        lines: the canonical forms of the rows, sorted by query_id.
        splits: the split of each row, in the config of a complete shift; else `None`.
    """
    if splits is not None:
        lines = pc.binary_join_element_wise(lines, ',"', splits, '"', "")
    return sha256_of_parts(joined(chunk, "]\n") for chunk in lines.chunks)


def joined(lines: pa.Array, end: str) -> pa.Buffer:
    """Return the concatenated bytes of lines, each followed by `end`."""
    ended = pc.binary_join_element_wise(lines, end, "")
    return pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], ended), "")[0].as_buffer()


def rows_digest(table: pa.Table, *, texts: bool = True) -> str:
    """Return the SHA-256 of a split's rows, in their order; see `row_lines` for `texts`."""
    splits = table["split"] if "split" in table.column_names else None
    return digest_of_lines(row_lines(table, texts=texts), splits)


class ContentDigest:
    """A digest of rows, repeated rows included, that does not depend on their order.

    The rows' SHA-256 are added modulo 2**256, so rows can be streamed in any order. Fields are
    length-prefixed, so different rows have different bytes. The digest detects accidental changes,
    not rows chosen by an adversary. `rows` is the number of rows.
    """

    def __init__(self) -> None:
        self._sum = 0
        self.rows = 0

    def add(self, row: Iterable[str | int]) -> None:
        """Add one row: a passage, a query or a judgement, as its fields."""
        encoded = bytearray()
        for value in row:
            field = str(value).encode()
            encoded += len(field).to_bytes(8, "little") + field
        self._sum += int.from_bytes(hashlib.sha256(encoded).digest(), "little")
        self.rows += 1

    def hexdigest(self) -> str:
        """Return the digest of the rows added so far: 64 hexadecimal digits, zeros without rows."""
        return (self._sum % (1 << 256)).to_bytes(32, "little").hex()

    @classmethod
    def of(cls, rows: Iterable[Iterable[str | int]]) -> ContentDigest:
        """Return the digest of `rows`."""
        digest = cls()
        for row in rows:
            digest.add(row)
        return digest


def digest_of_test_sets(members: Mapping[str, Iterable[str]]) -> str:
    """Return the digest of a shift's test sets: 64 hexadecimal digits.

    The digest is the SHA-256 of the sorted lines ``group<tab>query_id``.

    Args:
        members: group -> ids of its test queries.
    """
    lines = sorted(f"{group}\t{query_id}\n" for group, ids in members.items() for query_id in ids)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
