"""Fabricated run sets: quick to make, and with a loss on the held-out group."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from msshift_bench.data.dataset import open_dataset
from msshift_bench.shifts import SHIFTS

__all__ = ["SYSTEM", "write_run", "write_runs", "write_system"]

SYSTEM = """
board = "mini"
version = {version}
authors = ["Ada Lovelace"]
note = "{note}"
submitted = "2026-11-21"

[system]
name = "{name}"
title = "Made up"
family = "dense"
description = "Ranks that were drawn."
backbone = ""
backbone_revision = ""
candidates = ""
licence = "Apache-2.0"
year = 2026
parameters = ""

[system.links]
paper = ""
code = "https://example.org/code"
model = ""

[training]
data = "The shifts' own training splits."
hard_negatives = ""
distillation = ""
hardware = "none"

[reproduction]
commands = ""
tolerance = ""

[training.queries]
{queries}
"""


def _draw(*keys: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(keys).encode(), digest_size=8).digest(), "big")


def write_system(
    path: Path, name: str = "made-up", *, version: int = 1, note: str = "", **queries: str
) -> Path:
    """Write a description of a system; shifts have ``_`` for ``-``."""
    lines = "\n".join(
        f'{shift.replace("_", "-")} = "{declared}"' for shift, declared in queries.items()
    )
    text = SYSTEM.format(name=name, version=version, note=note, queries=lines)
    path.write_text(text, encoding="utf-8")
    return path


def write_run(path: Path, rankings: Iterable[tuple[str, Sequence[str]]], tag: str = "tag") -> Path:
    """Write a run of queries with their passages, best first; compressed, if its name says so."""
    text = "".join(
        f"{query_id} Q0 {doc_id} {rank} {100 - rank} {tag}\n"
        for query_id, ranking in rankings
        for rank, doc_id in enumerate(ranking, 1)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def write_runs(
    folder: Path, data: Path, shift: str = "length", seeds: tuple[int, ...] = (), one: bool = False
) -> Path:
    """Write a run set whose relevant passages stand lower for the model that saw less.

    Args:
        folder: the system's folder; its name is part of what is drawn.
        data: the built data set.
        shift: the shift.
        seeds: of replicates; none writes one model per group.
        one: whether to write a single run instead of one per held-out group.
    """
    tests = open_dataset(data).test_sets(SHIFTS[shift])
    for seed in seeds or (None,):
        for held_out in (None,) if one else SHIFTS[shift].groups:
            place = f"seed-{seed}" if seed is not None else ""
            name = f"{shift}.run.gz" if one else f"{shift}/{place}/{held_out}.run.gz"
            queries = {row.query_id: row for rows in tests.values() for row in rows}
            rankings = []
            for query_id, row in sorted(queries.items()):
                depth = 20 if row.group == held_out else 8
                drawn = _draw(folder.name, str(seed), str(held_out), query_id) % depth
                ranked = [f"filler{n}" for n in range(12)]
                for doc_id in row.relevant_doc_ids:
                    ranked.insert(min(drawn, len(ranked)), doc_id)
                rankings.append((query_id, ranked))
            write_run(folder / name, rankings, "made-up")
    return folder
