"""Exact search beside its peers: BM25 and SPLADE by postings, vectors in 16 bits from disk."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.runner import Case, Clock, Row, Sizes

DEPTH, BLOCK = 1_000, 20_480
TERMS, PASSAGE_TERMS, QUERY_TERMS, TOGETHER = 30_522, 130, 24, 64
DIMENSIONS, CLUSTERS = 384, 2_000
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def each(clock: Clock, queries: int) -> dict[str, str]:
    """Return the column of CPU time a query."""
    return {"CPU ms each": f"{1000 * clock.cpu / queries:.3f}"}


def write_index(folder: Path, sizes: Sizes) -> None:
    """Write BM25's index of generated passages, what it took, and queries of four words."""
    from benchmarks.support.zipf_collection import Generated
    from msshift_bench.search import Bm25

    collection = Generated(sizes.passages)
    (folder / "queries.json").write_text(
        json.dumps([row.text for row in collection.rows(sizes.queries)])
    )
    before = time.process_time()
    index = Bm25(collection.passages())
    (folder / "index").mkdir()
    index.save(folder / "index")
    took = {
        "cpu": time.process_time() - before,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "disk_gb": sum(path.stat().st_size for path in (folder / "index").iterdir()) / 1e9,
    }
    (folder / "index.json").write_text(json.dumps(took))


def open_index(folder: Path) -> tuple[Any, list[list[str]]]:
    """Return the index, and the queries in batches."""
    from msshift_bench.search import BATCH, Bm25, Bm25Parameters

    index = Bm25.opened(folder / "index", Bm25Parameters(depth=DEPTH))
    texts = json.loads((folder / "queries.json").read_text())
    return index, [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]


def keep_scores(folder: Path, name: str, rankings: list[Any]) -> None:
    """Write the scores of each query above 0, best first."""
    scores = np.zeros((len(rankings), DEPTH), np.float32)
    for row, ranking in zip(scores, rankings, strict=True):
        found = np.asarray(ranking, np.float32)
        row[: len(found)] = np.sort(found)[::-1]
    np.save(folder / f"{name}.npy", scores)


def bm25_passages(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Find the best passages, in any order."""
    index, parts = open_index(folder)
    index.select(parts[0][:2])  # Compiles.
    with clock():
        for part in parts:
            index.select(part)
    return each(clock, sizes.queries)


def bm25_rankings(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Rank the best passages, ties by doc_id."""
    index, parts = open_index(folder)
    list(index.search(parts[0][:2]))
    with clock():
        rankings = [ranking for part in parts for ranking in index.search(part)]
    keep_scores(folder, "msshift", [list(ranking.values()) for ranking in rankings])
    return each(clock, sizes.queries)


def bm25_of_bm25s(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Find the best passages of the same index, in any order, by bm25s with numba."""
    index, parts = open_index(folder)
    peer = index._index
    peer.backend = "numba"
    peer.activate_numba_scorer()

    def ask(part: list[str]) -> Any:
        terms = [index.terms_of(text) for text in part]
        return peer.retrieve(
            terms, k=DEPTH, show_progress=False, sorted=False, backend_selection="numba"
        ).scores

    ask(parts[0][:2])
    with clock():
        scores = [row for part in parts for row in ask(part)]
    keep_scores(folder, "bm25s", [row[row > 0] for row in scores])
    return each(clock, sizes.queries)


def check_bm25(folder: Path, sizes: Sizes, rows: Mapping[str, Row]) -> Iterator[str]:
    """Say what the index took, and whether both found the same scores."""
    took = json.loads((folder / "index.json").read_text())
    yield (
        f"words and index: {took['cpu']:.1f} CPU s, {1000 * took['cpu'] / sizes.passages:.3f} ms a "
        f"passage, peak {took['peak_gb']:.2f} GB, {took['disk_gb']:.2f} GB on disk"
    )
    yield from same_scores(folder, sizes, rows, peer="bm25s")


def same_scores(folder: Path, _: Sizes, __: Mapping[str, Row], *, peer: str) -> Iterator[str]:
    """Say whether a peer found the same scores, to the bit."""
    files = [folder / f"{name}.npy" for name in ("msshift", peer)]
    if all(file.exists() for file in files):
        equal = np.array_equal(*map(np.load, files))
        yield f"the same scores in every ranking: {'yes' if equal else 'NO'}"


def draw_terms(rng: np.random.Generator, rows: int, terms: int) -> Any:
    """Return a sparse matrix with so many terms a row, by Zipf's law."""
    from scipy import sparse

    drawn = np.floor(TERMS ** rng.random((rows, terms))).astype(np.int32) - 1
    weights = rng.random(drawn.size, dtype=np.float32) + np.float32(0.1)
    bounds = np.arange(0, drawn.size + 1, terms)
    matrix = sparse.csr_array((weights, drawn.ravel(), bounds), shape=(rows, TERMS))
    matrix.sum_duplicates()
    return matrix


def splade_blocks(passages: int) -> Iterator[Any]:
    """Yield SPLADE's blocks, drawn when they are searched, so that memory does not grow."""
    from msshift_bench.baselines.retrievers.splade import inverted_index

    for number in range(passages // BLOCK):
        yield inverted_index(draw_terms(np.random.default_rng([1, number]), BLOCK, PASSAGE_TERMS))


def splade_of_msshift(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Search the blocks as SPLADE does."""
    from msshift_bench.search import PassageIds, Sparse, TopK
    from msshift_bench.search.ranking import unpack

    asked = draw_terms(np.random.default_rng(0), sizes.queries, QUERY_TERMS)
    ids = PassageIds([str(number) for number in range(sizes.passages)])
    best, compiling = (TopK(ids, sizes.queries, DEPTH, floor=0.0) for _ in range(2))
    for number, block in enumerate(splade_blocks(sizes.passages)):
        postings = Sparse(block["weights"], block["passages"], block["starts"])
        if not number:
            compiling.add_products(asked, postings, 0, BLOCK)
        with clock():
            best.add_products(asked, postings, number * BLOCK, BLOCK)
    scores, _ = unpack(np.sort(best.keys, axis=1)[:, ::-1])
    np.save(folder / "msshift.npy", scores)
    return each(clock, sizes.queries)


def splade_of_scipy(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Search the blocks by products of sparse matrices."""
    from scipy import sparse

    asked = draw_terms(np.random.default_rng(0), sizes.queries, QUERY_TERMS)
    best = np.zeros((sizes.queries, 0), np.float32)
    for block in splade_blocks(sizes.passages):
        parts = (block["weights"], block["passages"], block["starts"])
        with clock():
            postings = sparse.csr_array(parts, shape=(TERMS, BLOCK))
            for_block = []
            for first in range(0, sizes.queries, TOGETHER):
                scores = (asked[first : first + TOGETHER] @ postings).toarray()
                for_block.append(np.partition(scores, BLOCK - DEPTH, axis=1)[:, BLOCK - DEPTH :])
            best = np.concatenate([best, np.concatenate(for_block)], axis=1)
            cut = best.shape[1] - DEPTH
            best = np.partition(best, cut, axis=1)[:, cut:]
    np.save(folder / "scipy.npy", np.sort(best, axis=1)[:, ::-1])
    return each(clock, sizes.queries)


def draw_near(rng: np.random.Generator, centres: Any, spread: float) -> Any:
    """Return vectors of length 1 near others."""
    noise = rng.standard_normal(centres.shape, dtype=np.float32)
    drawn = centres + np.float32(spread / np.sqrt(DIMENSIONS)) * noise
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def write_blocks(folder: Path, sizes: Sizes) -> None:
    """Write passages' vectors around the centres of clusters, exact and in 16 bits, and queries."""
    rng = np.random.default_rng(0)
    centres = draw_near(rng, np.zeros((CLUSTERS, DIMENSIONS), np.float32), 1.0)
    shape = (sizes.passages, DIMENSIONS)
    exact = np.lib.format.open_memmap(folder / "exact.npy", "w+", np.float32, shape)
    for start in range(0, sizes.passages, BLOCK):
        part = exact[start : start + BLOCK]
        part[:] = draw_near(rng, centres[rng.integers(0, CLUSTERS, len(part))], 0.7)
        with (folder / f"{start}.npz").open("wb") as file:
            np.savez(file, vectors=part.astype(np.float16))
    relevant = rng.integers(0, sizes.passages, sizes.queries)
    np.save(folder / "relevant.npy", relevant)
    np.save(folder / "queries.npy", draw_near(rng, exact[relevant], 3.0))


def blocks_of(folder: Path, passages: int, *, is_exact: bool = False) -> Iterator[Any]:
    """Yield the blocks of vectors, from disk."""
    exact = np.load(folder / "exact.npy", mmap_mode="r") if is_exact else None
    for start in range(0, passages, BLOCK):
        if exact is not None:
            yield np.array(exact[start : start + BLOCK])
        else:
            with np.load(folder / f"{start}.npz") as arrays:
                yield arrays["vectors"]


def search_blocks(
    folder: Path, sizes: Sizes, clock: Clock, *, is_exact: bool = False
) -> dict[str, str]:
    """Search vectors from disk, and keep what is found."""
    from msshift_bench.search import PassageIds, search_vectors
    from msshift_bench.search.ranking import unpack

    # The doc_ids are in the collection's order, as faiss' numbers are.
    ids = PassageIds([f"{number:08}" for number in range(sizes.passages)])
    asked = np.load(folder / "queries.npy")
    # What is imported and made once is no part of a search.
    search_vectors(islice(blocks_of(folder, sizes.passages), 1), asked[:2], ids, depth=DEPTH)
    with clock():
        best = search_vectors(
            blocks_of(folder, sizes.passages, is_exact=is_exact), asked, ids, depth=DEPTH
        )
        scores, places = unpack(np.sort(best, axis=1)[:, ::-1])
    name = "exact" if is_exact else "rounded"
    np.savez(folder / f"found-{name}.npz", scores=scores, places=places)
    return each(clock, sizes.queries)


def search_with_faiss(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Search the rounded vectors by faiss' flat index, in memory, in 32 bits."""
    import faiss

    index = faiss.IndexFlatIP(DIMENSIONS)
    for block in blocks_of(folder, sizes.passages):
        index.add(block.astype(np.float32))
    asked = np.load(folder / "queries.npy")
    with clock():
        scores, places = index.search(asked, DEPTH)
    np.savez(folder / "found-faiss.npz", scores=scores, places=places)
    return each(clock, sizes.queries)


def multiply(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Compute the matrix product alone."""
    asked = np.load(folder / "queries.npy")
    for block in blocks_of(folder, sizes.passages, is_exact=True):
        with clock():
            for first in range(0, sizes.queries, 512):
                asked[first : first + 512] @ block.T
    return each(clock, sizes.queries)


def check_vectors(folder: Path, _: Sizes, __: Mapping[str, Row]) -> Iterator[str]:
    """Say what differs from faiss, and what the rounding changes."""
    found = {
        name: dict(np.load(path))
        for name in ("rounded", "faiss", "exact")
        if (path := folder / f"found-{name}.npz").exists()
    }
    if {"rounded", "faiss"} <= found.keys():
        ours, faiss = found["rounded"], found["faiss"]
        yield f"largest difference to faiss' scores: {_largest(ours, faiss):.1e}"
        yield f"places that differ from faiss': {(ours['places'] != faiss['places']).mean():.2%}"
    if {"rounded", "exact"} <= found.keys():
        places, before = (found[name]["places"] for name in ("rounded", "exact"))
        shared = [len(np.intersect1d(*pair)) for pair in zip(places, before, strict=True)]
        differ = (places[:, :10] != before[:, :10]).any(axis=1).mean()
        largest = _largest(found["rounded"], found["exact"])
        yield f"rounding changes a score at a rank by at most {largest:.1e}"
        yield f"  passages of the first {DEPTH:,} that stay: {np.mean(shared) / DEPTH:.3%}"
        yield f"  queries whose first ten differ: {differ:.2%}"
        relevant = np.load(folder / "relevant.npy")[:, None]
        for name in ("exact", "rounded"):
            hits = found[name]["places"][:, :10] == relevant
            yield f"  RR@10 {name}: {np.where(hits, 1 / np.arange(1, 11), 0).sum(1).mean():.5f}"


def _largest(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    return float(np.abs(first["scores"] - second["scores"]).max())


CASES = {
    "search bm25": Case(
        "BM25 on bm25s' index by our search and by bm25s' own, of queries of four words among "
        "passages of 36; --passages 8841823 is MS MARCO's size.",
        write_index,
        {
            "msshift, passages in any order": bm25_passages,
            "bm25s with numba, passages in any order": bm25_of_bm25s,
            "msshift, rankings with ties by doc_id": bm25_rankings,
        },
        {"passages": 1_000_000, "queries": 512},
        environment=ONE_THREAD,
        check=check_bm25,
    ),
    "search splade": Case(
        f"SPLADE's blocks of {BLOCK:,} passages by our search and by products of sparse matrices; "
        "--passages 8841823 is MS MARCO's size.",
        None,
        {"msshift": splade_of_msshift, "product of sparse matrices": splade_of_scipy},
        {"passages": 100_000, "queries": 256},
        environment=ONE_THREAD,
        check=partial(same_scores, peer="scipy"),
    ),
    "search vectors": Case(
        f"Vectors of {DIMENSIONS} components in 16 bits from disk, beside faiss in memory.",
        write_blocks,
        {
            "msshift, 16 bits from disk": search_blocks,
            "faiss, 32 bits in memory": search_with_faiss,
            "the matrix product alone": multiply,
            "msshift, before rounding": partial(search_blocks, is_exact=True),
        },
        {"passages": 250_000, "queries": 2_000},
        environment=ONE_THREAD,
        check=check_vectors,
    ),
}
