"""Exact search beside its peers, in one process and in turns, so that CPU seconds can be compared.

- ``bm25``: our search beside that of bm25s with numba, of one index of bm25s, on generated passages
  of 36 words (as many as MS MARCO's hold that are no stop words) and queries of four words, to
  depth 1,000. The scores of the rankings are compared bit by bit.
- ``splade``: inverted indexes of 130 terms a passage and queries of 24, drawn by Zipf's law from
  BERT's 30,522; beside the product of sparse matrices that SPLADE was searched with before.

``scripts/bench search bm25 [--passages 1000000] [--queries 512]``
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.support.zipf_collection import Generated
from msshift_bench.baselines.retrievers.splade import inverted_index
from msshift_bench.search import BATCH, Best, Bm25, PassageIds, Sparse
from msshift_bench.search.ranking import unpack

DEPTH = 1_000
BLOCK, TERMS, PASSAGE_TERMS, QUERY_TERMS = 20_000, 30_522, 130, 24


def cpu_of(work: Callable[[], Any], spent: list[float]) -> Any:
    """Do some work and add its CPU seconds."""
    before = time.process_time()
    done = work()
    spent.append(time.process_time() - before)
    return done


def row(name: str, what: str, seconds: float, count: int, ratio: float = 1.0) -> None:
    """Print a row of the table."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    each = seconds / count * 1000
    print(
        f"| {name} | {what} | {seconds:.2f} | {each:.3f} | {ratio:.2f} | {peak:.2f} |", flush=True
    )


def bm25(passages: int, queries: int) -> None:
    """Compare our search of bm25s' index with its own."""
    collection = Generated(passages)
    texts = [row.text for row in collection.rows(queries)]
    spent: list[float] = []
    index = cpu_of(lambda: Bm25(collection.passages()), spent)
    row("msshift and bm25s", "words and index", spent[0], passages)
    peer = index._index
    peer.backend = "numba"
    peer.activate_numba_scorer()

    def ask(part: list[str]) -> Any:
        terms = [index.terms_of(text) for text in part]
        return peer.retrieve(
            terms, k=DEPTH, show_progress=False, sorted=False, backend_selection="numba"
        )

    index.select(texts[:2])  # compiles
    ask(texts[:2])
    ours: list[float] = []
    theirs: list[float] = []
    ranked: list[float] = []
    equal = True
    for start in range(0, queries, BATCH):
        part = texts[start : start + BATCH]
        cpu_of(lambda part=part: index.select(part), ours)
        answer = cpu_of(lambda part=part: ask(part), theirs)
        rankings = cpu_of(lambda part=part: list(index.search(part)), ranked)
        for ranking, scores in zip(rankings, answer.scores, strict=True):
            best = np.sort(scores[scores > 0])[::-1]
            equal &= np.array_equal(np.fromiter(ranking.values(), np.float32), best)
    row("msshift", "passages, in any order", sum(ours), queries)
    row("bm25s", "passages, in any order", sum(theirs), queries, sum(theirs) / sum(ours))
    row("msshift", "rankings, ties by doc_id", sum(ranked), queries)
    print(f"\nthe same scores in every ranking: {'yes' if equal else 'NO'}")


def zipf_rows(rng: np.random.Generator, rows: int, terms: int) -> Any:
    """Return a sparse matrix with so many terms per row."""
    from scipy import sparse

    drawn = np.floor(TERMS ** rng.random((rows, terms))).astype(np.int32) - 1
    weights = rng.random(drawn.size, dtype=np.float32) + np.float32(0.1)
    bounds = np.arange(0, drawn.size + 1, terms)
    matrix = sparse.csr_array((weights, drawn.ravel(), bounds), shape=(rows, TERMS))
    matrix.sum_duplicates()
    return matrix


def splade(passages: int, queries: int) -> None:
    """Compare search of SPLADE's blocks with a product of sparse matrices.

    Blocks are drawn when they are searched and forgotten, so that memory does not grow with their
    number; each program searches every other block first.
    """
    from scipy import sparse

    asked = zipf_rows(np.random.default_rng(0), queries, QUERY_TERMS)
    ids = PassageIds([str(number) for number in range(passages)])
    blocks = passages // BLOCK
    besides: list[float] = []
    theirs: list[float] = []

    def draw(number: int) -> Any:
        rows = zipf_rows(np.random.default_rng([1, number]), BLOCK, PASSAGE_TERMS)
        return inverted_index(rows)

    def product(arrays: Any) -> Any:
        """Return the best scores of a block, in any order, shape ``[queries, depth]``."""
        parts = (arrays["weights"], arrays["passages"], arrays["starts"])
        postings = sparse.csr_array(parts, shape=(TERMS, BLOCK))
        best = []
        for first in range(0, queries, 64):
            scores = (asked[first : first + 64] @ postings).toarray()
            best.append(np.partition(scores, BLOCK - DEPTH, axis=1)[:, BLOCK - DEPTH :])
        return np.concatenate(best)

    def searched(count: int) -> Any:
        best = Best(ids, queries, DEPTH, floor=0.0)
        for number in range(count):
            arrays = cpu_of(lambda number=number: draw(number), besides)
            if number % 2:
                expected.append(cpu_of(lambda arrays=arrays: product(arrays), theirs))
            postings = Sparse(arrays["weights"], arrays["passages"], arrays["starts"])
            best.add_products(asked, postings, number * BLOCK, BLOCK)
            if not number % 2:
                expected.append(cpu_of(lambda arrays=arrays: product(arrays), theirs))
        return best.keys

    expected: list[Any] = []
    searched(1)  # compiles
    for spent in (expected, besides, theirs):
        spent.clear()
    total: list[float] = []
    best = cpu_of(lambda: searched(blocks), total)
    ours = total[0] - sum(besides) - sum(theirs)

    def best_of_all() -> Any:
        scores = np.concatenate(expected, axis=1)
        cut = scores.shape[1] - DEPTH
        return np.sort(np.partition(scores, cut, axis=1)[:, cut:], axis=1)[:, ::-1]

    wanted = cpu_of(best_of_all, theirs)
    scores, _ = unpack(np.sort(best, axis=1)[:, ::-1])
    row("msshift", "passages", ours, queries)
    row("scipy", "scores", sum(theirs), queries, sum(theirs) / ours)
    print(f"\nthe same scores: {'yes' if np.array_equal(scores, wanted) else 'NO'}; ", end="")
    print(f"drawing {blocks * BLOCK:,} passages took {sum(besides):.0f} CPU s besides")


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["bm25", "splade"])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=512)
    options = parser.parse_args()
    print(
        f"{options.passages:,} passages, {options.queries:,} queries, {os.cpu_count()} processors"
    )
    print(
        "| program | what | CPU s | CPU ms each | times ours | peak GB |\n"
        "|---|---|---:|---:|---:|---:|"
    )
    globals()[options.what](options.passages, options.queries)


if __name__ == "__main__":
    main()
