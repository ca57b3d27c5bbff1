"""Reading files of strangers: JSON and Parquet of limited size, JSON without ambiguity."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from msshift_bench.errors import Finding, NotFoundError, SubmissionError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_JSON_BYTES", "dump_json", "read_scores_table", "read_strict_json"]

MAX_JSON_BYTES = 8_000_000
"""The largest JSON file to read; a report of five models with five seeds takes a tenth."""

MAX_SCORES_BYTES = 400_000_000
"""The largest file of scores to read."""

MAX_UNPACKED = 4_000_000_000
"""The most bytes of its columns, uncompressed, by its metadata."""

MAX_ROWS = 20_000_000
"""The most rows: all shifts, five seeds, three measures take a third of it."""

_MAX_DEPTH = 32


def dump_json(value: object) -> bytes:
    """Return JSON as submissions hold it: sorted keys, UTF-8, finite numbers."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def read_strict_json(path: Path, limit: int = MAX_JSON_BYTES) -> Any:
    """Read a JSON file.

    Args:
        path: the file.
        limit: the most bytes that it may have; a larger file is not read.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is too large, no UTF-8, no JSON, nested too deeply, or if an object
            has a key twice or a number is not finite.
    """

    def wrong(code: str, message: str, line: int = 0) -> Never:
        raise SubmissionError(
            "this is no file of a submission:", [Finding(code, message, str(path), line)]
        )

    if path.is_symlink():
        wrong("not-a-file", "a link")
    if not path.is_file():
        raise NotFoundError(f"no file {path}")
    size = path.stat().st_size
    if size > limit:
        wrong("json-too-large", f"{size} bytes where at most {limit} are read")
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        wrong("not-utf8", f"byte {error.start + 1} is not UTF-8")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            wrong("duplicate-key", f"an object has the key {twice!r} twice")
        return members

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            wrong("not-finite", f"the number {digits[:40]} is not finite")
        return value

    try:
        value = json.loads(
            text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite
        )
    except json.JSONDecodeError as error:
        wrong("not-json", error.msg, error.lineno)
    except RecursionError:
        wrong("nested-too-deep", f"nested more than {_MAX_DEPTH} deep")
    except ValueError as error:
        wrong("not-json", str(error))
    if _deeper_than(value, _MAX_DEPTH):
        wrong("nested-too-deep", f"nested more than {_MAX_DEPTH} deep")
    return value


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            item
            for container in level
            if isinstance(container, dict | list)
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    return any(isinstance(item, dict | list) for item in level)


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


def read_scores_table(path: Path) -> pa.Table:
    """Read the table of a submission's per-query scores: the columns of `Report.per_query`.

    It reads nothing before the file's metadata say that it is small enough.

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
