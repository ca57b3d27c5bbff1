"""BM25 whose k1 and b are chosen on the training queries of each held-out group.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 5.1.2, who "tune its parameters on the training data with grid search".
They name neither grid, nor measure, nor how many queries; those below are ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection as Sized
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from msshift_bench.baselines.lexical import Bm25System
from msshift_bench.baselines.system import Task
from msshift_bench.dataset_builders.cut import sample
from msshift_bench.errors import DataError
from msshift_bench.records import Row
from msshift_bench.search import Bm25, Ranking

__all__ = ["B_GRID", "K1_GRID", "TunedBm25System"]

K1_GRID = (0.4, 0.6, 0.8, 1.0, 1.2)
B_GRID = (0.3, 0.45, 0.6, 0.75, 0.9)
"""The values that are tried, every k1 with every b; 0.82 and 0.68 are tuned on all of MS MARCO."""

_QUERIES = 500
"""Most training queries of each group that the choice rests on, by the keyed hash of their ids."""
_CUT = 10


class _Point(NamedTuple):
    k1: float
    b: float


_GRID = tuple(_Point(k1, b) for k1, b in product(K1_GRID, B_GRID))


class TunedBm25System(Bm25System):
    """BM25, with the k1 and b that rank the training queries of a held-out group best by RR@10.

    Every group gives the same queries to whichever experiment trains on it, and their scores are
    kept. So the collection is indexed for the whole grid only for the first two experiments.

    Args:
        **options: fields of `Bm25Parameters`, without k1 and b.
    """

    name = "bm25-tuned"
    per_group = True
    keeps_models = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._known: dict[str, tuple[float, ...]] = {}

    @property
    def parameters(self) -> Mapping[str, object]:
        """The variant, the fields of `Bm25Parameters`, and how k1 and b are chosen."""
        fixed = {k: v for k, v in super().parameters.items() if k not in _Point._fields}
        tuning = {
            "k1": list(K1_GRID),
            "b": list(B_GRID),
            "measure": f"RR@{_CUT}",
            "queries per group": _QUERIES,
        }
        return {**fixed, "tuning": tuning}

    def rankings(self, task: Task) -> Iterator[tuple[str, Ranking]]:
        """Choose k1 and b on the training queries, index the collection with them, and rank.

        Raises:
            DataError: if there are no training queries.
        """
        if not task.train:
            raise DataError(f"{task.name}: there are no training queries to choose k1 and b on")
        with task.record.stage("tune"):
            chosen = self._tune(task)
        yield from self._rankings_by(replace(self._parameters, **chosen._asdict()), task)

    def _tune(self, task: Task) -> _Point:
        rows = list(_queries_of(task.train))
        self._score([row for row in rows if row.query_id not in self._known], task)
        means = [
            math.fsum(self._known[row.query_id][place] for row in rows) / len(rows)
            for place in range(len(_GRID))
        ]
        place = max(range(len(_GRID)), key=means.__getitem__)
        task.record.facts["tuned"] = {
            "parameters": _GRID[place]._asdict(),
            f"RR@{_CUT}": means[place],
            "lowest in the grid": min(means),
            "queries": len(rows),
        }
        return _GRID[place]

    def _score(self, rows: list[Row], task: Task) -> None:
        """Add the scores of queries at every point of the grid to those that are known."""
        if not rows:
            return
        columns: list[list[float]] = []
        choices = [replace(self._parameters, **point._asdict(), depth=_CUT) for point in _GRID]
        for done, index in enumerate(Bm25.variants(task.passages("read"), choices), 1):
            found = index.search(row.text for row in rows)
            columns.append(
                [
                    _reciprocal_rank(ranking, row.relevant_doc_ids)
                    for ranking, row in zip(found, rows, strict=True)
                ]
            )
            task.progress("tune", done, len(_GRID))
        scores = zip(*columns, strict=True)
        self._known |= {row.query_id: one for row, one in zip(rows, scores, strict=True)}


def _queries_of(train: Iterable[Row]) -> Iterator[Row]:
    """Yield those training queries of every group that the choice rests on."""
    by_group: dict[str, dict[str, Row]] = {}
    for row in train:
        by_group.setdefault(row.group, {})[row.query_id] = row
    for group, rows in sorted(by_group.items()):
        for query_id in sorted(sample(rows, _QUERIES, seed=0, purpose=f"tune/{group}")):
            yield rows[query_id]


def _reciprocal_rank(ranking: Ranking, relevant: Sized[str]) -> float:
    for rank, doc_id in enumerate(ranking, 1):
        if doc_id in relevant:
            return 1 / rank
    return 0.0
