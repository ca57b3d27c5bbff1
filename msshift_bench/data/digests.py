"""Content digests, which a build promises to reproduce."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring
from pathlib import Path

from msshift_bench.records import Row

__all__ = ["ContentDigest", "canonical_rows", "rows_digest", "sha256_of"]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes: 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_rows(rows: Iterable[Row], *, texts: bool = True) -> Iterator[str]:
    """Yield the canonical form of each row: a JSON array without spaces, not yet closed by ``]``.

    What follows it is ``]``, or in the config of a whole shift a comma, the split and ``]``.

    Args:
        rows: the rows.
        texts: whether the form holds the texts; otherwise every text is empty.
    """
    # Ten times faster than json.dumps, which would otherwise be a third of a build.
    quote = encode_basestring
    for query_id, text, group, doc_ids, relevances in rows:
        shown = quote(text) if texts else '""'
        listed, grades = ",".join(map(quote, doc_ids)), ",".join(map(str, relevances))
        yield f"[{quote(query_id)},{shown},{quote(group)},[{listed}],[{grades}]"


def rows_digest(
    rows: Iterable[Row], splits: Sequence[str] | None = None, *, texts: bool = True
) -> str:
    """Return the SHA-256 of rows in the order given: 64 hexadecimal digits.

    A row's canonical form is a JSON array in UTF-8, one line, no spaces; in the config of a whole
    shift its split is the last element.

    Args:
        rows: the rows, sorted by query_id.
        splits: the split of each row, in the config of a whole shift.
        texts: see `canonical_rows`.
    """
    digest = hashlib.sha256()
    lines = canonical_rows(rows, texts=texts)
    if splits is not None:
        pairs = zip(lines, splits, strict=True)
        lines = (f"{line},{encode_basestring(split)}" for line, split in pairs)
    for line in lines:
        digest.update(f"{line}]\n".encode())
    return digest.hexdigest()


class ContentDigest:
    """A SHA-256-based digest of a set of rows that does not depend on their order.

    The rows' digests are added modulo 2**256, so that rows can stream past in any order. Every
    field is length-prefixed, so that no two different rows are the same bytes. It guards against
    accidents, not against an adversary who may choose the rows.
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
        """Return the digest of the rows added so far: 64 hexadecimal digits."""
        return (self._sum % (1 << 256)).to_bytes(32, "little").hex()

    @classmethod
    def of(cls, rows: Iterable[Iterable[str | int]]) -> ContentDigest:
        """Return the digest of `rows`."""
        digest = cls()
        for row in rows:
            digest.add(row)
        return digest
