"""BM25's index of a collection of any size whose words are drawn as numbers, never written as text.

Passages and queries are those of `zipf_collection`, without the splitting into words, so that an
index of 8.8 million passages is made in minutes; the same postings are written for bm25s.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.support.zipf_collection import LONGEST, QUERY_WORDS, VOCABULARY
from msshift_bench.search import PassageIds
from msshift_bench.search.bm25 import Bm25Parameters
from msshift_bench.search.impacts import BLOCK_SIZE, CountedTerms, ImpactBlock
from msshift_bench.search.index_files import write_index

__all__ = ["QUERIES", "make_indexes"]

QUERIES = "queries.json"


def _numbers(cumulative: np.ndarray, passages: int) -> Iterator[list[np.ndarray]]:
    """Yield the word numbers of a block of passages at a time, always the same."""
    for block in range(-(-passages // BLOCK_SIZE)):
        rng = np.random.default_rng((block, 2))
        lengths = np.clip(rng.lognormal(3.5, 0.35, BLOCK_SIZE).astype(int), 8, LONGEST)
        lengths = lengths[: passages - block * BLOCK_SIZE]
        drawn = np.searchsorted(cumulative, rng.random(int(lengths.sum())))
        words = np.minimum(drawn, VOCABULARY - 1).astype(np.int32)
        yield np.split(words, np.cumsum(lengths)[:-1])


def make_indexes(folder: Path, what: dict[str, object], passages: int, queries: int) -> None:
    """Write ``ours``, the index of bm25s' files in ``bm25s``, and the queries, as texts."""
    weights = 1 / (np.arange(VOCABULARY) + 60.0) ** 1.07
    counted = CountedTerms()
    rng = np.random.default_rng(5)
    relevant = np.sort(rng.integers(0, passages, queries))
    texts = []
    for start, block in enumerate(_numbers(np.cumsum(weights / weights.sum()), passages)):
        for words in block:
            counted.add(array("i", words.tobytes()))
        here = relevant[relevant // BLOCK_SIZE == start] % BLOCK_SIZE
        for place in here.tolist():
            asked = rng.choice(block[place], QUERY_WORDS, replace=False)
            texts.append(" ".join(f"w{number}" for number in asked.tolist()))
    given = Bm25Parameters()
    blocks = list(counted.weigh(VOCABULARY, given.k1, given.b))
    del counted
    terms = {f"w{number}": number for number in range(VOCABULARY)}
    (folder / "ours").mkdir()
    ids = PassageIds([str(number) for number in range(passages)])
    write_index(folder / "ours", what, ids, terms, blocks)
    _write_for_bm25s(folder / "bm25s", blocks, passages, terms)
    (folder / "terms.json").write_text(json.dumps(terms))
    (folder / QUERIES).write_text(json.dumps(texts))


def _write_for_bm25s(
    folder: Path, blocks: list[ImpactBlock], passages: int, terms: dict[str, int]
) -> None:
    """Write the postings of all blocks, term by term, as bm25s saves its own."""
    import bm25s

    starts = np.zeros(VOCABULARY + 1, np.int64)
    for block in blocks:
        starts[block.terms + 1] += np.diff(block.starts)
    starts = np.cumsum(starts)
    data = np.empty(starts[-1], np.float32)
    rows = np.empty(starts[-1], np.int32)
    free = starts[:-1].copy()
    for number, block in enumerate(blocks):
        counts = np.diff(block.starts)
        places = np.repeat(free[block.terms] - block.starts[:-1], counts)
        places += np.arange(len(places))
        data[places] = block.postings.weights
        rows[places] = block.postings.rows.astype(np.int32) + number * BLOCK_SIZE
        free[block.terms] += counts
    index = bm25s.BM25(k1=0.82, b=0.68, method="lucene", backend="numba")
    index.scores = {"data": data, "indices": rows, "indptr": starts, "num_docs": passages}
    index.vocab_dict, index.nonoccurrence_array = terms, None
    index.save(folder, show_progress=False)
