"""Training triples of a built data set, read as a stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Triple", "TripleStream", "canonical_lines"]

_BATCH = 65_536


class Triple(NamedTuple):
    """A query, a passage that is relevant to it, and one that nobody judged relevant."""

    query_id: str
    positive_id: str
    negative_id: str


@dataclass(frozen=True, slots=True)
class TripleStream:
    """The triples of one config; every iteration streams them from its files.

    Attributes:
        files: Parquet files with the columns of `Triple`, in the order of their rows.
        rows: number of triples.
    """

    files: tuple[Path, ...]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[Triple]:
        for batch in self.batches():
            yield from map(Triple._make, zip(*(c.to_pylist() for c in batch), strict=True))

    def batches(self, size: int = _BATCH) -> Iterator[pa.RecordBatch]:
        """Stream the columns of `Triple`, at most `size` rows at a time."""
        import pyarrow.parquet as pq

        for path in self.files:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(size, columns=list(Triple._fields))

    def digest(self) -> str:
        """Return the SHA-256 of the canonical lines: 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for batch in self.batches():
            digest.update(canonical_lines(batch))
        return digest.hexdigest()


def canonical_lines(batch: pa.RecordBatch) -> memoryview:
    r"""Return ``query_id \t positive_id \t negative_id \n`` for every triple, in UTF-8."""
    import numpy as np
    import pyarrow.compute as pc

    lines = pc.binary_join_element_wise(*batch.columns, "\t")
    lines = pc.binary_join_element_wise(lines, "", "\n")
    _, offsets, data = lines.buffers()
    end = int(np.frombuffer(offsets, np.int32)[len(lines)])
    return memoryview(data)[:end]
