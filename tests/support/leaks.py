"""Candidates for leakage, as `msshift leakage find` writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msshift_bench.leakage import LeakageResult, LeakedPair

FACTS = {"train": None, "train_qrels": None, "encoder": "terms", "threshold": 0.9, "nearest": 100}


def write_found(folder: Path, pairs: Iterable[LeakedPair], test_ids: Iterable[str] = ()) -> Path:
    """Write what was found; without the ids of what was searched, the candidates alone."""
    pairs, ids = tuple(pairs), tuple(test_ids)
    LeakageResult(pairs, len(pairs), {}, FACTS, ids or ("0",)).write(folder)
    if not ids:
        (folder / "found.json").unlink()
    return folder
