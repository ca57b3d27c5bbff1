"""Declared training queries: lists of ids, and which test queries are among them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.leaderboard.submission import Training, TrainingIds
from msshift_bench.plumbing import DamagedInputError, open_stream
from msshift_bench.shifts import SHIFTS

__all__ = ["ONE_MODEL", "exposure_of", "ids_digest", "read_ids", "training_ids", "write_ids"]

ONE_MODEL = "*"
"""Stands for a held-out group where a system was not trained per group."""

_MAX_BYTES = 100_000_000


def read_ids(path: Path) -> tuple[str, ...]:
    """Read a list of query ids, one per line, plain or compressed.

    Returns:
        The ids, sorted.

    Raises:
        NotFoundError: if there is no such file.
        SubmissionError: if it is too large, damaged or no text, or if a line is blank, holds more
            than an id, or is there twice.
    """

    def wrong(code: str, message: str, line: int = 0) -> SubmissionError:
        finding = Finding(code, message, str(path), line)
        return SubmissionError("this is no list of query ids:", [finding])

    if not path.is_file():
        raise NotFoundError(f"no list of training queries at {path}")
    try:
        with open_stream(path) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except DamagedInputError as error:
        raise wrong("damaged-ids", str(error)) from None
    if len(data) > _MAX_BYTES:
        raise wrong("ids-too-large", f"more than {_MAX_BYTES} bytes uncompressed")
    try:
        lines = data.decode().removesuffix("\n").split("\n") if data else []
    except UnicodeDecodeError:
        raise wrong("not-utf8", "it is not UTF-8") from None
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        query_id = line.removesuffix("\r")
        if not query_id or query_id.split() != [query_id] or len(query_id) > 200:
            raise wrong("not-an-id", f"{query_id[:50]!r} is not one query id", number)
        if query_id in seen:
            raise wrong("repeated-id", f"{query_id!r} is there twice", number)
        seen.add(query_id)
    return tuple(sorted(seen))


def ids_digest(ids: Iterable[str]) -> str:
    """Return the SHA-256 of ids, sorted, one per line."""
    return hashlib.sha256("".join(f"{one}\n" for one in sorted(ids)).encode()).hexdigest()


def write_ids(path: Path, ids: Iterable[str]) -> None:
    """Write ids, sorted, one per line, compressed; equal ids give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{one}\n" for one in sorted(ids))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def training_ids(
    ids: Sequence[str], tests: Mapping[str, Iterable[str]], file: str | None
) -> TrainingIds:
    """Describe the queries that a model was trained on.

    Args:
        ids: of the training queries.
        tests: group -> ids of its test queries.
        file: where the list is; `None` for the data set's own training split.
    """
    trained = frozenset(ids)
    held = {group: sum(one in trained for one in queries) for group, queries in tests.items()}
    return TrainingIds(len(trained), ids_digest(trained), file, held)


def exposure_of(training: Training, shifts: Iterable[str]) -> str:
    """Return what is known of the queries that a system was trained on: a key of `CLASSES`.

    Args:
        training: what was declared, with the test queries counted.
        shifts: the shifts that it has results on.
    """
    models = [
        training.queries.get(shift, {}).get(held_out)
        for shift in shifts
        for held_out in (SHIFTS[shift].groups if training.per_group else (ONE_MODEL,))
    ]
    declared = [ids for ids in models if ids is not None]
    if any(count for ids in declared for count in ids.test_queries.values()):
        return "trained-on-test"
    if len(declared) < len(models) or not models:
        return "undeclared"
    return "held-out" if any(ids.count for ids in declared) else "none"
