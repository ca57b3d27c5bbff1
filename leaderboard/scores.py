"""Per-query scores of an entry: read with limits, and turned into the figures they must give."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msshift_bench.errors import Finding, NotFoundError, SubmissionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_scores", "table_digest", "test_set_digest"]

MAX_SCORES_BYTES = 400_000_000
"""The largest file of scores that is read."""

MAX_UNPACKED = 4_000_000_000
"""The most bytes that its columns may say they take uncompressed."""

MAX_ROWS = 20_000_000
"""The most rows: all shifts, five seeds, three measures take a third of it."""


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        {
            "system": pa.string(),
            "shift": pa.string(),
            "seed": pa.int64(),
            "held_out": pa.string(),
            "group": pa.string(),
            "query_id": pa.string(),
            "measure": pa.string(),
            "score": pa.float64(),
            "missing": pa.bool_(),
        }
    )


def read_scores(path: Path) -> pa.Table:
    """Read the per-query scores of a submission: the columns of `Report.per_query`.

    Nothing is read before the file's own metadata say that it is small enough.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is too large, no Parquet file, or has other columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def wrong(code: str, message: str) -> SubmissionError:
        return SubmissionError(
            "these are no per-query scores:", [Finding(code, message, str(path))]
        )

    if not path.is_file():
        raise NotFoundError(f"no file {path}")
    if path.stat().st_size > MAX_SCORES_BYTES:
        raise wrong("scores-too-large", f"more than {MAX_SCORES_BYTES} bytes")
    try:
        metadata = pq.read_metadata(path)
        unpacked = sum(
            metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
        )
        if metadata.num_rows > MAX_ROWS or unpacked > MAX_UNPACKED:
            raise wrong(
                "scores-too-large",
                f"it says it holds {metadata.num_rows} rows and {unpacked} bytes uncompressed; "
                f"at most {MAX_ROWS} and {MAX_UNPACKED} are read",
            )
        schema = pq.read_schema(path).remove_metadata()
        if schema != _schema():
            raise wrong(
                "wrong-columns",
                f"its columns are {_columns(schema)}; expected {_columns(_schema())}",
            )
        table = pq.read_table(path)
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        first = str(error).partition("\n")[0]
        raise wrong("not-parquet", f"not a whole Parquet file: {first[:200]}") from None


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name[:50]} {field.type}" for field in list(schema)[:20])


def test_set_digest(members: Mapping[str, Sequence[str]]) -> str:
    """Return the digest of a shift's test sets: 64 hexadecimal digits.

    It is the SHA-256 of the lines ``group<tab>query_id``, sorted.

    Args:
        members: group -> ids of its test queries.
    """
    lines = sorted(f"{group}\t{query_id}\n" for group, ids in members.items() for query_id in ids)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def table_digest(table: pa.Table, shift: str) -> str:
    """Return the digest of a shift's test sets as a table of per-query scores has them."""
    import pyarrow.compute as pc

    rows = table.filter(pc.equal(table["shift"], shift)).select(["group", "query_id"])
    members: dict[str, list[str]] = {}
    for row in rows.group_by(["group", "query_id"]).aggregate([]).to_pylist():
        members.setdefault(row["group"], []).append(row["query_id"])
    return test_set_digest(members)
