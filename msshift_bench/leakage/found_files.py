"""Candidates for leakage: reading the file that a search for them wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msshift_bench.data import sha256_of
from msshift_bench.errors import CollectionError, DataError, Finding, NotFoundError, quoted
from msshift_bench.leakage.found import CANDIDATES_NAME, FOUND_NAME, TIERS, LeakedPair
from msshift_bench.plumbing import is_as_written

__all__ = ["read_candidates", "read_found"]


def read_candidates(source: str | Path) -> list[LeakedPair]:
    """Read what `msshift leakage find` wrote.

    Args:
        source: the folder, or its ``candidates.parquet``.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is no Parquet file, lacks a column, or is not the file that the
            folder's ``found.json`` describes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(source)
    is_folder = path.is_dir()
    if is_folder:
        path /= CANDIDATES_NAME
    if not path.is_file():
        raise NotFoundError(
            f"no file {path}; give the folder that 'msshift leakage find --out' wrote, or its "
            f"{CANDIDATES_NAME}"
        )

    def wrong(message: str) -> CollectionError:
        fix = "find again, or give the file as 'msshift leakage find --out' wrote it"
        finding = Finding("no-candidates", message, str(path), fix=fix)
        return CollectionError("these are no candidates:", [finding])

    if is_folder and (path.parent / FOUND_NAME).is_file():
        digest = read_found(path.parent).get("candidates_sha256")
        if digest not in (None, sha256_of(path)):
            raise wrong(f"{FOUND_NAME} names another SHA-256")
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
    pairs = [LeakedPair(*row) for row in zip(*columns, strict=True)]
    if unknown := sorted({str(one.tier) for one in pairs} - set(TIERS)):
        raise wrong(f"there is no tier {quoted(unknown[0])}; expected {', '.join(TIERS)}")
    return pairs


def read_found(folder: Path) -> dict[str, Any]:
    """Read the facts that `msshift leakage find` wrote beside the candidates.

    Args:
        folder: the folder.

    Raises:
        DataError: if the file is no JSON object, or was changed after it was written.
    """
    path = folder / FOUND_NAME
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not what 'msshift leakage find' wrote: {error}; find again"
        ) from error
    if not isinstance(facts, dict) or not is_as_written(facts):
        raise DataError(f"{path} was changed after 'msshift leakage find' wrote it; find again")
    return facts
