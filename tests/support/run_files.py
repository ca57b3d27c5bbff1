"""What the tests of the baselines read of the runs that these write, and extra test sets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msshift_bench.data.dataset import open_dataset
from msshift_bench.runs import sidecar_path
from msshift_bench.shifts import get_shift

Lines = dict[str, list[tuple[str, int, float, str]]]


def read_run(run: Path) -> Lines:
    """Return query -> its lines, each as passage, rank, score and tag."""
    lines: Lines = {}
    for line in gzip.decompress(run.read_bytes()).decode().splitlines():
        query_id, _, doc_id, place, score, tag = line.split(" ")
        lines.setdefault(query_id, []).append((doc_id, int(place), float(score), tag))
    return lines


def sidecar(run: Path) -> dict[str, Any]:
    """Return what a run's sidecar says."""
    value = json.loads(sidecar_path(run).read_bytes())
    assert isinstance(value, dict)
    return value


def queries_of(shift: str, data: Path) -> Iterator[Any]:
    """Yield the test queries of all groups of a shift."""
    for rows in open_dataset(data).test_sets(get_shift(shift)).values():
        yield from rows


def write_test_set(folder: Path, queries: Mapping[str, str], judged: Mapping[str, str]) -> None:
    """Write a test set.

    Args:
        folder: where.
        queries: query_id -> text.
        judged: query_id -> a passage of relevance 2; another is judged not relevant.
    """
    folder.mkdir(parents=True)
    lines = (f"{query_id}\t{text}\n" for query_id, text in queries.items())
    (folder / "queries.tsv").write_text("".join(lines))
    graded = (f"{query} 0 {doc} 2\n{query} 0 other 0\n" for query, doc in judged.items())
    (folder / "qrels.tsv").write_text("".join(graded))
