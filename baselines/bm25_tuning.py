"""BM25 whose k1 and b are chosen on the training queries of each held-out group.

Source: Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval
Models (CIKM 2022), section 5.1.2, who "tune its parameters on the training data with grid search".
They name neither grid, nor measure, nor how many queries; those below are ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection as Sized
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from msshift_bench.baselines.lexical import Bm25Words
from msshift_bench.baselines.shift_data import ShiftData
from msshift_bench.baselines.system import Run
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


class TunedBm25System(Bm25Words):
    """BM25, with the k1 and b that rank a held-out group's training queries best by RR@10.

    Every group gives the same queries to whichever experiment trains on it, and their scores are
    kept. So the collection is indexed for the whole grid only for the first two experiments.
    """

    name = "bm25-tuned"
    per_group = True

    def parameters(self) -> dict[str, Any]:
        """Return the variant, the fields, and how k1 and b are chosen."""
        tuning = {
            "k1": list(K1_GRID),
            "b": list(B_GRID),
            "measure": f"RR@{_CUT}",
            "queries per group": _QUERIES,
        }
        return {**super().parameters(), "tuning": tuning}

    def choose_triples(self, data: ShiftData, held_out: str | None) -> None:
        """Return `None`: it is tuned on queries and their judgements."""
        del data, held_out

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Choose k1 and b on the training queries, index the collection with them, and rank.

        Raises:
            DataError: if there are no training queries.
        """
        if not run.train:
            raise DataError(f"{run.name}: there are no training queries to choose k1 and b on")
        with run.stage("tune"):
            point = self._tune(run)
        yield from self.rank_by(self.index_parameters(**point._asdict()), run)

    def _tune(self, run: Run) -> _Point:
        rows = list(_queries_of(run.train))
        known: dict[str, tuple[float, ...]] = run.shared.setdefault(self.name, {})
        known |= self._scores([row for row in rows if row.query_id not in known], run)
        means = [
            math.fsum(known[row.query_id][place] for row in rows) / len(rows)
            for place in range(len(_GRID))
        ]
        place = max(range(len(_GRID)), key=means.__getitem__)
        run.facts["tuned"] = {
            "parameters": _GRID[place]._asdict(),
            f"RR@{_CUT}": means[place],
            "lowest in the grid": min(means),
            "queries": len(rows),
        }
        return _GRID[place]

    def _scores(self, rows: Sequence[Row], run: Run) -> dict[str, tuple[float, ...]]:
        """Return query_id -> its scores at every point of the grid."""
        if not rows:
            return {}
        columns: list[list[float]] = []
        choices = [replace(self.index_parameters(**point._asdict()), depth=_CUT) for point in _GRID]
        for done, index in enumerate(Bm25.variants(run.passages("read"), choices), 1):
            rankings = index.search(row.text for row in rows)
            columns.append(
                [
                    _reciprocal_rank(ranking, row.relevant_doc_ids)
                    for ranking, row in zip(rankings, rows, strict=True)
                ]
            )
            run.progress("tune", done, len(_GRID))
        scores = zip(*columns, strict=True)
        return {row.query_id: points for row, points in zip(rows, scores, strict=True)}


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
