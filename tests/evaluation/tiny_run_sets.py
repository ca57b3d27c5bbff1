"""A shift with four test queries, and runs that have their relevant passages at given ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msshift_bench.data import DataInfo, TestSet
from msshift_bench.evaluation import (
    OpenedRuns,
    OpenedRunSet,
    Result,
    Scores,
    Settings,
    losses_of,
    score_opened,
)
from msshift_bench.runs import find_run_sets
from tests.support.fabricated import write_run

__all__ = ["evaluate", "score", "write_ranks"]

RELEVANT = {"s1": ("d1",), "s2": ("d2", "d9"), "l1": ("d3",), "l2": ("d4",)}
TEST_SET = TestSet(
    "length",
    {query_id: dict.fromkeys(docs, 1) for query_id, docs in RELEVANT.items()},
    {"short": ("s1", "s2"), "long": ("l1", "l2")},
    DataInfo("1.0.0", "rebuilt", "abc", "toy"),
    relevant_only=True,
)


def write_ranks(path: Path, ranks: Mapping[str, int]) -> Path:
    """Write a run that has each query's first relevant passage at a rank, or nowhere (0)."""
    rankings = []
    for query_id, rank in ranks.items():
        docs = [f"x{n}" for n in range(10)]
        if rank:
            docs[rank - 1] = RELEVANT[query_id][0]
        rankings.append((query_id, docs))
    return write_run(path, rankings)


def score(
    root: Path, settings: Settings | None = None, allow: Collection[str] = ()
) -> list[Scores]:
    """Check and score the run sets in a folder."""
    run_sets = [OpenedRunSet.of(part, TEST_SET) for part in find_run_sets([root])]
    return score_opened(OpenedRuns(run_sets), settings or Settings(), allow).scores


def evaluate(root: Path, allow: Collection[str] = (), **settings: Any) -> Result:
    """Evaluate the run sets in a folder."""
    chosen = Settings(**settings)
    return losses_of(score(root, chosen, allow), TEST_SET.data, chosen)
