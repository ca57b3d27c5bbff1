"""BM25, and BM25 whose k1 and b are chosen on the training queries of each held-out group.

The index itself is `msshift_bench.search.bm25`. Source of the choice: Zhan et al., Evaluating
Interpolation and Extrapolation Performance of Neural Retrieval Models (CIKM 2022), section 5.1.2,
who "tune its parameters on the training data with grid search". They name neither grid, nor
measure, nor how many queries; those below are ours.
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
from msshift_bench.dataset_builders.negatives import named_index, shared_address
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
"""Queries of a block: 8 MB of passages and scores at depth 1,000."""


class Bm25Words(System):
    """The fields that decide which words BM25 finds, and how much it ranks."""

    stemmer: str = "english"
    stop_words: str = "english"
    depth: int = 1000
    engine: str = "bm25s"

    def index_parameters(self, **point: Any) -> Bm25Parameters:
        """Return the parameters of the index.

        Args:
            **point: the words of a run, and k1 and b where they are no fields.

        Raises:
            UsageError: if a value is impossible.
        """
        return Bm25Parameters(**dict(self), **point)

    def model_post_init(self, _context: Any) -> None:
        """Check the values."""
        self.index_parameters()

    def parameters(self) -> dict[str, Any]:
        """Return the variant and the fields."""
        return {"variant": "lucene", **super().parameters()}

    def check_installed(self) -> None:
        """Check that the engine is installed, by indexing one word."""
        Bm25([Passage("1", "word")], self.index_parameters())

    def rank_by(self, parameters: Bm25Parameters, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Index the collection, unless that is done, and rank passages that are not excluded."""
        depth = parameters.depth
        if more := run.exclusions.most(run.queries):
            parameters = replace(parameters, depth=depth + more)
        # Other machines have an index of their own, and this process only needs the doc_ids.
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
        """Index the collection, unless that is done, and rank; one index serves all shifts."""
        yield from self.rank_by(self.index_parameters(words=run.words), run)


@dataclass(frozen=True, slots=True)
class _RankingBlock:
    """Queries to be ranked for, and what decides their rankings."""

    passages: str
    parameters: Bm25Parameters
    stemmed_by: str
    texts: Sequence[str]
    index: Bm25 | None = field(compare=False)
    address: str = field(compare=False)


def _find(block: _RankingBlock) -> npt.NDArray[np.int64]:
    """Return the rankings of a block, packed; see `Bm25.find`."""
    index = block.index
    if index is None:
        index = named_index(block.address, block.passages, block.parameters, block.stemmed_by)
    return index.find(block.texts)


def _rank(
    run: Run, parameters: Bm25Parameters, ids: PassageIds, index: Bm25 | None
) -> Iterator[Ranking]:
    """Rank passages for the test queries of a run, by the engine in use.

    Args:
        run: the run; its passages were streamed.
        parameters: the parameters.
        ids: the doc_ids of its collection.
        index: the index; `None` if only a cluster's machines rank.

    Yields:
        A ranking for each query, in their order.

    Raises:
        UsageError: if a cluster's machines would not find the collection.
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
"""The values that are tried, every k1 with every b; 0.82 and 0.68 are tuned on all of MS MARCO."""

_QUERIES = 500
"""Most training queries of each group that the choice rests on, by the keyed hash of their ids."""
_CUT = 10
_MEASURE = parse_measure(f"RR@{_CUT}")

_GRID = tuple({"k1": k1, "b": b} for k1, b in product(K1_GRID, B_GRID))


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
            "measure": _MEASURE.name,
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
        yield from self.rank_by(self.index_parameters(words=run.words, **point), run)

    def _tune(self, run: Run) -> dict[str, float]:
        rows = list(_queries_of(run.train))
        known: dict[str, tuple[float, ...]] = run.shared.setdefault(self.name, {})
        known |= self._scores([row for row in rows if row.query_id not in known], run)
        means = [
            math.fsum(known[row.query_id][place] for row in rows) / len(rows)
            for place in range(len(_GRID))
        ]
        place = max(range(len(_GRID)), key=means.__getitem__)
        run.facts["tuned"] = {
            "parameters": _GRID[place],
            _MEASURE.name: means[place],
            "lowest in the grid": min(means),
            "queries": len(rows),
        }
        return _GRID[place]

    def _scores(self, rows: Sequence[Row], run: Run) -> dict[str, tuple[float, ...]]:
        """Return query_id -> its scores at every point of the grid."""
        if not rows:
            return {}
        relevant = {row.query_id: row.relevant_doc_ids for row in rows}
        columns: list[dict[str, float]] = []
        choices = [
            replace(self.index_parameters(words=run.words, **point), depth=_CUT) for point in _GRID
        ]
        for done, index in enumerate(Bm25.variants(run.passages("read"), choices), 1):
            found = dict(zip(relevant, run.first_of_bm25(rows, _CUT, index), strict=True))
            columns.append(_MEASURE.of_rankings(found, relevant))
            report_progress("tune", done, len(_GRID))
        return {query_id: tuple(column[query_id] for column in columns) for query_id in relevant}


def _queries_of(train: Iterable[Row]) -> Iterator[Row]:
    """Yield those training queries of every group that the choice rests on."""
    by_group: dict[str, dict[str, Row]] = {}
    for row in train:
        by_group.setdefault(row.group, {})[row.query_id] = row
    for group, rows in sorted(by_group.items()):
        for query_id in sorted(sample(rows, _QUERIES, seed=0, purpose=f"tune/{group}")):
            yield rows[query_id]
