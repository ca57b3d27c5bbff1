"""What the cache holds, and removing it: everything in it can be made again.

===============  ===========================================================
``data``         the data set that ``msshift install`` copied
``embeddings``   vectors of queries, by encoder and queries; exported models
``indexes``      BM25 indexes, by parameters and collection
``passages``     ir_datasets' stores of passages
===============  ===========================================================
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msshift_bench.doctor.diagnosis import Diagnosis, State
from msshift_bench.errors import UnknownNameError
from msshift_bench.plumbing import cache_root, is_held, is_unfinished, remove_folder
from msshift_bench.shifts import DATASET_NAME

__all__ = ["CachedItem", "cached", "look_at_cache", "prune"]

_KINDS = {
    "data": re.escape(DATASET_NAME),
    "embeddings": r"[0-9a-f]{64}",
    "indexes": r"[0-9a-f]{16}-[0-9a-f]{32}",
    "passages": r"[0-9a-f]{32}",
}
"""A kind -> how its folders are named. Others may lie beside them, and are not ours to remove."""

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class CachedItem:
    """One folder of the cache.

    Attributes:
        kind: ``data``, ``embeddings``, ``indexes`` or ``passages``.
        folder: the folder.
        bytes: the size of its files.
        age: seconds since one of its files was last changed.
        in_use: whether a process is writing it.
    """

    kind: str
    folder: Path
    bytes: int
    age: float
    in_use: bool


def cached(kinds: Sequence[str] = ()) -> list[CachedItem]:
    """Return what the cache holds, by kind and name.

    Args:
        kinds: only these; all, if empty.

    Raises:
        UnknownNameError: for a kind that does not exist.
    """
    for kind in kinds:
        if kind not in _KINDS:
            raise UnknownNameError("kind", kind, _KINDS)
    return list(_items(kinds or tuple(_KINDS)))


def _items(kinds: Sequence[str]) -> Iterator[CachedItem]:
    now = time.time()
    for kind in kinds:
        root = cache_root() / kind
        for folder in sorted(root.iterdir()) if root.is_dir() else []:
            name = folder.name.removeprefix(".").removesuffix(".partial")
            if not (folder.is_dir() and re.fullmatch(_KINDS[kind], name)):
                continue
            files = [path.stat() for path in folder.rglob("*") if path.is_file()]
            changed = max((file.st_mtime for file in files), default=folder.stat().st_mtime)
            size = sum(file.st_size for file in files)
            yield CachedItem(kind, folder, size, max(0.0, now - changed), is_held(folder))


def prune(
    kinds: Sequence[str] = ("embeddings", "indexes", "passages"),
    *,
    days: float = 0,
    dry_run: bool = False,
) -> list[CachedItem]:
    """Remove what the cache holds.

    What a process is writing stays. An installed data set stays unless `kinds` names ``data``.

    Args:
        kinds: what to remove.
        days: only what was last changed so many days ago or earlier.
        dry_run: whether nothing is removed.

    Returns:
        What was removed, or would be.

    Raises:
        UnknownNameError: for a kind that does not exist.
    """
    chosen = [item for item in cached(kinds) if not item.in_use and item.age >= days * _DAY]
    if not dry_run:
        for item in chosen:
            remove_folder(item.folder)
    return chosen


def look_at_cache() -> Iterator[Diagnosis]:
    """Look at the cache's size, and at what killed processes have left in it."""
    items = cached()
    total = sum(item.bytes for item in items)
    found = f"{total / 1024**2:,.1f} MB in {cache_root()}"
    left = [item for item in items if is_unfinished(item.folder) and not item.in_use]
    if left:
        found += f", {len(left)} of {len(items)} folders left by killed processes"
    cure = "'msshift cache list' shows it, 'msshift cache prune' empties it" if items else ""
    yield Diagnosis("cache", State.OK, found, cure)
