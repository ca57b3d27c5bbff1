"""Candidates for leakage: reading the file that a search for them wrote."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.errors import CollectionError, Finding, NotFoundError, quoted
from msshift_bench.leakage.found import CANDIDATES_NAME, LeakedPair

__all__ = ["read_candidates"]


def read_candidates(source: str | Path) -> list[LeakedPair]:
    """Read what `msshift leakage find` wrote.

    Args:
        source: the folder, or its ``candidates.parquet``.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is no Parquet file, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(source)
    if path.is_dir():
        path /= CANDIDATES_NAME
    if not path.is_file():
        raise NotFoundError(
            f"no file {path}; give the folder that 'msshift leakage find --out' wrote, or its "
            f"{CANDIDATES_NAME}"
        )

    def wrong(message: str) -> CollectionError:
        fix = "give the file that 'msshift leakage find --out' wrote"
        finding = Finding("no-candidates", message, str(path), fix=fix)
        return CollectionError("these are no candidates:", [finding])

    try:
        with pq.ParquetFile(path) as file:
            lacking = [name for name in LeakedPair._fields if name not in file.schema_arrow.names]
            if lacking:
                raise wrong(f"no column {', '.join(lacking)}")
            table = file.read(columns=list(LeakedPair._fields))
    except (pa.ArrowInvalid, OSError) as error:
        raise wrong(f"not a whole Parquet file: {quoted(str(error))}") from None
    if not pa.types.is_floating(table["cosine"].type):
        raise wrong("the column cosine holds no numbers")
    columns = [
        (table[name] if name == "cosine" else table[name].cast(pa.string())).to_pylist()
        for name in LeakedPair._fields
    ]
    return [LeakedPair(*row) for row in zip(*columns, strict=True)]
