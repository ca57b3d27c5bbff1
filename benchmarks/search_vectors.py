"""Exact search of vectors in 16 bits from disk, beside faiss' flat index in memory.

Vectors of 384 dimensions and length 1 lie around the centres of clusters, as a sentence encoder's
do; queries are near passages. Blocks of 20,000 passages are read from disk for each search, as
`msshift baseline` reads them. Both programs search in one process, in turns, on one thread each, to
depth 1,000. Rankings are compared with faiss' on the same rounded vectors, and with those of the
vectors before they were rounded: RR@10 counts one passage per query as relevant.

``scripts/bench search_vectors [--passages 250000] [--queries 2000] [--rounds 3] [--only-speed]``
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# One thread each, or CPU seconds would count threads that wait.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import faiss
import numpy as np

from msshift_bench.baselines.retrievers.block_search import PassageBlock
from msshift_bench.search import PassageIds, search_vectors
from msshift_bench.search.ranking import unpack

DIMENSIONS, DEPTH, BLOCK, CLUSTERS = 384, 1_000, 20_000, 2_000


def near(rng: np.random.Generator, centres: Any, spread: float) -> Any:
    """Return vectors of length 1 near others."""
    noise = rng.standard_normal(centres.shape, dtype=np.float32)
    drawn = centres + np.float32(spread / np.sqrt(DIMENSIONS)) * noise
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def cpu_of(work: Callable[[], Any], spent: list[float]) -> Any:
    """Do some work and note its CPU seconds."""
    before = time.process_time()
    done = work()
    spent.append(time.process_time() - before)
    return done


def first_relevant(places: Any, relevant: Any) -> Any:
    """Return each query's RR@10."""
    ranks = np.arange(1, 11)
    return np.where(places[:, :10] == relevant[:, None], 1 / ranks, 0.0).sum(axis=1)


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Print what both took, and what the rounding changed."""
    passages, queries = options.passages, options.queries
    rng = np.random.default_rng(0)
    centres = near(rng, np.zeros((CLUSTERS, DIMENSIONS), np.float32), 1.0)
    exact = np.empty((passages, DIMENSIONS), np.float32)
    blocks = []
    for start in range(0, passages, BLOCK):
        part = exact[start : start + BLOCK]
        part[:] = near(rng, centres[rng.integers(0, CLUSTERS, len(part))], 0.7)
        blocks.append(PassageBlock(folder / f"{start}.npz", len(part)))
        with blocks[-1].path.open("wb") as file:
            np.savez(file, vectors=part.astype(np.float16))
    relevant = rng.integers(0, passages, queries)
    asked = near(rng, exact[relevant], 3.0)
    # The doc_ids are in the collection's order, as faiss' numbers are.
    ids = PassageIds([f"{number:08}" for number in range(passages)])
    index = faiss.IndexFlatIP(DIMENSIONS)
    for start in range(0, passages, BLOCK):
        index.add(exact[start : start + BLOCK].astype(np.float16).astype(np.float32))

    def rounded() -> Iterator[Any]:
        return (block.load()["vectors"] for block in blocks)

    def ours(given: Callable[[], Iterator[Any]]) -> tuple[Any, Any]:
        best = search_vectors(given(), asked, ids, depth=DEPTH)
        scores, places = unpack(np.sort(best, axis=1)[:, ::-1])
        return scores, places

    ours(lambda: iter([exact[:BLOCK]]))
    spent: dict[str, list[float]] = {"ours": [], "faiss": [], "product": []}
    for _ in range(options.rounds):
        scores, places = cpu_of(lambda: ours(rounded), spent["ours"])
        theirs = cpu_of(lambda: index.search(asked, DEPTH), spent["faiss"])
        cpu_of(lambda: [asked[:512] @ exact[:BLOCK].T for _ in range(2)], spent["product"])
        print({name: round(seconds[-1], 1) for name, seconds in spent.items()}, flush=True)
    print(f"{passages:,} passages, {queries:,} queries, {DIMENSIONS} dimensions, depth {DEPTH:,}")
    for name in ("ours", "faiss"):
        print(f"{name:6} CPU s: {', '.join(f'{one:.1f}' for one in spent[name])}")
    ratios = [two / one for one, two in zip(spent["ours"], spent["faiss"], strict=True)]
    print(f"speed of ours, faiss = 1: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    alone = min(spent["product"]) * passages * queries / (2 * 512 * BLOCK)
    print(f"the matrix product alone, by numpy: about {alone:.1f} CPU s")
    print(f"largest difference to faiss' scores: {np.abs(scores - theirs[0]).max():.1e}")
    print(f"places of the rankings that differ from faiss': {(places != theirs[1]).mean():.2%}")
    if options.only_speed:
        return
    full, before = ours(lambda: (exact[at : at + BLOCK] for at in range(0, passages, BLOCK)))
    shared = [len(np.intersect1d(one, two)) for one, two in zip(places, before, strict=True)]
    print(f"rounding changes a score at a rank by at most {np.abs(full - scores).max():.1e}")
    print(f"  passages of the first 1,000 that stay: {np.mean(shared) / DEPTH:.3%}")
    print(
        f"  queries whose first ten differ: {(places[:, :10] != before[:, :10]).any(1).mean():.2%}"
    )
    reciprocal = [first_relevant(one, relevant) for one in (before, places)]
    print(f"  RR@10 in 32 bits {reciprocal[0].mean():.5f}, in 16 bits {reciprocal[1].mean():.5f}")


def main() -> None:
    """Compare at one size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=250_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-speed", action="store_true", help="not what the rounding changes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


if __name__ == "__main__":
    main()
