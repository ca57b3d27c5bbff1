"""BM25, and BM25 with k1 and b tuned on the training queries of each held-out group's experiment.

The index is `msshift_bench.search.bm25`. Source of the tuning: Zhan et al., Evaluating
Interpolation and Extrapolation Performance of Neural Retrieval Models (CIKM 2022), section 5.1.2,
who "tune its parameters on the training data with grid search". They do not publish the grid, the
measure or the number of queries; the values below are this package's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.baselines.systems.system import Run, System
from msshift_bench.dataset_builders.cut import sample
from msshift_bench.dataset_builders.negatives import open_shared_index, shared_address
from msshift_bench.engine import engine_in_use
from msshift_bench.errors import DataError
from msshift_bench.evaluation import parse_measure
from msshift_bench.plumbing import batches, counted_parts, report_progress
from msshift_bench.records import Passage, Row
from msshift_bench.search import (
    BATCH,
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    rankings_of,
    stemmer_version,
)

_BLOCK_QUERIES = 8 * BATCH
"""Queries per block: 8 MB of passages and scores at depth 1,000."""


class Bm25Words(System):
    """The fields that both BM25 systems share; see `Bm25System` for their meaning."""

    stemmer: str = "english"
    stop_words: str = "english"
    depth: int = 1000
    engine: str = "bm25s"

    def index_parameters(self, **point: Any) -> Bm25Parameters:
        """Return the parameters of the index.

        Args:
            **point: ``words`` of a run; and ``k1`` and ``b``, if they are no fields of the system.

        Raises:
            UsageError: if a value is invalid.
        """
        return Bm25Parameters(**dict(self), **point)

    def model_post_init(self, _context: Any) -> None:
        """Check the values; see `index_parameters`."""
        self.index_parameters()

    def parameters(self) -> dict[str, Any]:
        """Return ``variant``, which is ``lucene``, and the fields."""
        return {"variant": "lucene", **super().parameters()}

    def check_installed(self) -> None:
        """Check that the engine is installed, by indexing one word."""
        Bm25([Passage("1", "word")], self.index_parameters())

    def rank_by(self, parameters: Bm25Parameters, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query, without excluded passages.

        Args:
            parameters: the parameters of the index, which is read or made if needed.
            run: the run.
        """
        depth = parameters.depth
        if more := run.exclusions.most(run.queries):
            parameters = replace(parameters, depth=depth + more)
        # On a cluster, other machines index the collection; this process only needs the doc_ids.
        index: Bm25 | None = None
        if engine_in_use().address is None:
            with run.stage("index"):
                index = run.bm25(parameters)
            ids = index.ids
        else:
            ids = PassageIds([passage.doc_id for passage in run.passages("read")])
        for query_id, ranking in run.ranked(_rank(run, parameters, ids, index), ids):
            yield query_id, run.exclusions.left(query_id, ranking, depth) if more else ranking


class Bm25System(Bm25Words):
    """BM25 in Lucene's variant, by bm25s or rank_bm25; not trained.

    Attributes:
        k1: saturation of the term frequency, 0 or more; 0.82 is tuned on MS MARCO passages.
        b: weight of the length normalisation, 0 to 1; 0.68 is tuned on MS MARCO passages.
        stemmer: ``english`` (Snowball's Porter 2) or ``none``.
        stop_words: ``english`` (Lucene's 33, removed before stemming) or ``none``.
        depth: passages per ranking, at least 1.
        engine: ``bm25s``, or ``rank_bm25``, which is slow.
    """

    name = "bm25"
    training_queries = "none"

    k1: float = 0.82
    b: float = 0.68

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Yield (query_id, ranking) for each query; the runs of all shifts share one index."""
        yield from self.rank_by(self.index_parameters(words=run.words), run)


@dataclass(frozen=True, slots=True)
class _RankingBlock:
    """A block of queries, with the collection and the parameters that determine the rankings.

    `passages` is the collection's digest. `index` is `None` on a cluster, which opens `address`.
    """

    passages: str
    parameters: Bm25Parameters
    stemmed_by: str
    texts: Sequence[str]
    index: Bm25 | None = field(compare=False)
    address: str = field(compare=False)


def _find(block: _RankingBlock) -> npt.NDArray[np.int64]:
    """Return the rankings of a block as packed integers; see `Bm25.find`."""
    index = block.index
    if index is None:
        index = open_shared_index(block.address, block.passages, block.parameters, block.stemmed_by)
    return index.find(block.texts)


def _rank(
    run: Run, parameters: Bm25Parameters, ids: PassageIds, index: Bm25 | None
) -> Iterator[Ranking]:
    """Yield BM25's ranking for each test query of a run, in order, by the engine in use.

    Args:
        run: the run, whose passages were streamed before.
        parameters: the parameters of the index.
        ids: the doc_ids of the run's collection.
        index: the index; `None` if the machines of a cluster rank.

    Raises:
        UsageError: if the machines of a cluster cannot open the collection.
    """
    passages = run.facts["passages"]["sha256"]
    stemmed_by = stemmer_version(parameters.stemmer)
    address = shared_address(run.collection) if index is None else ""
    blocks = (
        _RankingBlock(passages, parameters, stemmed_by, [row.text for row in part], index, address)
        for part in batches(run.queries, _BLOCK_QUERIES)
    )
    kept = (block.load() for block in engine_in_use().keep(_find, blocks, run.work / "blocks"))
    for best in counted_parts(kept, f"search {run.test_set}".rstrip(), len(run.queries)):
        for part in batches(range(len(best)), BATCH):
            yield from rankings_of(best[part[0] : part[-1] + 1], ids)


K1_GRID = (0.4, 0.6, 0.8, 1.0, 1.2)
B_GRID = (0.3, 0.45, 0.6, 0.75, 0.9)
"""The grid: every k1 with every b. It omits 0.82 and 0.68, which are tuned on all of MS MARCO."""

_QUERIES = 500
"""Most training queries per group used for the tuning, chosen by the keyed hash of their ids."""
_CUT = 10
_MEASURE = parse_measure(f"RR@{_CUT}")

_GRID = tuple({"k1": k1, "b": b} for k1, b in product(K1_GRID, B_GRID))


class TunedBm25System(Bm25Words):
    """BM25 with k1 and b tuned by RR@10 on the training queries of each held-out group's run.

    A group gives the same queries to all runs that train on it, and their scores are kept. So only
    the first two runs index the collection for the complete grid.
    """

    name = "bm25-tuned"
    per_group = True

    def parameters(self) -> dict[str, Any]:
        """Return the variant, the fields and the parameters of the tuning."""
        tuning = {
            "k1": list(K1_GRID),
            "b": list(B_GRID),
            "measure": _MEASURE.name,
            "queries per group": _QUERIES,
        }
        return {**super().parameters(), "tuning": tuning}

    def choose_triples(self, data: ShiftData, held_out: str | None) -> None:
        """Return `None`: the tuning uses queries and judgements, not triples."""
        del data, held_out

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Tune k1 and b on the training queries, and yield (query_id, ranking) for each query.

        Raises:
            DataError: if there are no training queries.
        """
        if not run.train:
            raise DataError(
                f"{run.name}: there are no training queries to tune k1 and b; use the system bm25"
            )
        with run.stage("tune"):
            point = self._tune(run)
        yield from self.rank_by(self.index_parameters(words=run.words, **point), run)

    def _tune(self, run: Run) -> dict[str, float]:
        rows = list(_queries_of(run.train))
        known: dict[str, tuple[float, ...]] = run.shared.setdefault(self.name, {})
        known |= self._scores([row for row in rows if row.query_id not in known], run)
        means = [
            math.fsum(known[row.query_id][point] for row in rows) / len(rows)
            for point in range(len(_GRID))
        ]
        best = max(range(len(_GRID)), key=means.__getitem__)
        run.facts["tuned"] = {
            "parameters": _GRID[best],
            _MEASURE.name: means[best],
            "lowest in the grid": min(means),
            "queries": len(rows),
        }
        return _GRID[best]

    def _scores(self, rows: Sequence[Row], run: Run) -> dict[str, tuple[float, ...]]:
        """Return query_id -> the query's RR@10 at each point of `_GRID`; `{}` for no queries."""
        if not rows:
            return {}
        relevant = {row.query_id: row.relevant_doc_ids for row in rows}
        columns: list[dict[str, float]] = []
        choices = [
            replace(self.index_parameters(words=run.words, **point), depth=_CUT) for point in _GRID
        ]
        for done, index in enumerate(Bm25.variants(run.passages("read"), choices), 1):
            rankings = dict(zip(relevant, run.bm25_rankings(rows, _CUT, index), strict=True))
            columns.append(_MEASURE.of_rankings(rankings, relevant))
            report_progress("tune", done, len(_GRID))
        return {query_id: tuple(column[query_id] for column in columns) for query_id in relevant}


def _queries_of(train: Iterable[Row]) -> Iterator[Row]:
    """Yield the queries for the tuning, at most `_QUERIES` per group, by group and query_id."""
    by_group: dict[str, dict[str, Row]] = {}
    for row in train:
        by_group.setdefault(row.group, {})[row.query_id] = row
    for group, rows in sorted(by_group.items()):
        for query_id in sorted(sample(rows, _QUERIES, seed=0, purpose=f"tune/{group}")):
            yield rows[query_id]
