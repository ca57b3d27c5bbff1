"""BM25 as a baseline; the index itself is `msshift_bench.search.bm25`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from msshift_bench.baselines.system import Run, System
from msshift_bench.dataset_builders.negatives import named_index, shared_address
from msshift_bench.engine import engine_in_use
from msshift_bench.plumbing import batches
from msshift_bench.records import Passage
from msshift_bench.search import (
    BATCH,
    Bm25,
    Bm25Parameters,
    PassageIds,
    Ranking,
    rankings_of,
    stemmer_version,
)

__all__ = ["Bm25System", "Bm25Words"]

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
            **point: k1 and b, where they are no fields.

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
        """Index the collection, unless that is done, and rank."""
        # Other machines have an index of their own, and this process only needs the doc_ids.
        if engine_in_use().address is None:
            with run.stage("index"):
                index = run.bm25(parameters)
            ids = index.ids
        else:
            index, ids = None, run.passage_ids()
        yield from run.ranked(_rank(run, parameters, ids, index), ids)


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

    k1: float = 0.82
    b: float = 0.68

    def rank(self, run: Run) -> Iterator[tuple[str, Ranking]]:
        """Index the collection, unless that is done, and rank; one index serves all shifts."""
        yield from self.rank_by(self.index_parameters(), run)


@dataclass(frozen=True, slots=True)
class _Block:
    """Queries to be ranked for, and what decides their rankings."""

    passages: str
    parameters: Bm25Parameters
    stemmed_by: str
    texts: Sequence[str]
    index: Bm25 | None = field(compare=False)
    address: str = field(compare=False)


def _find(block: _Block) -> npt.NDArray[np.int64]:
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
        _Block(passages, parameters, stemmed_by, [row.text for row in part], index, address)
        for part in batches(run.queries, _BLOCK_QUERIES)
    )
    done = 0
    for block in engine_in_use().keep(_find, blocks, run.work / "blocks"):
        best = block.load()
        done += len(best)
        run.progress(f"search {run.test_set}".rstrip(), done, len(run.queries))
        for part in batches(range(len(best)), BATCH):
            yield from rankings_of(best[part[0] : part[-1] + 1], ids)
