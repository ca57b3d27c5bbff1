"""Reading JSON that strangers wrote: bounded, unambiguous, and with finite numbers only."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Never

from msshift_bench.errors import Finding, NotFoundError, SubmissionError

__all__ = ["MAX_JSON_BYTES", "dump_json", "read_strict_json"]

MAX_JSON_BYTES = 8_000_000
"""The largest JSON file that is read; a report of five models with five seeds takes a tenth."""

_MAX_DEPTH = 32


def dump_json(value: object) -> bytes:
    """Return the one way in which submissions are written: sorted keys, UTF-8, finite numbers."""
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
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            wrong("duplicate-key", f"an object has the key {twice!r} twice")
        return found

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
            for one in level
            if isinstance(one, dict | list)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
    return any(isinstance(one, dict | list) for one in level)
