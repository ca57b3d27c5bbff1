"""Vectors and words of queries at the size of MS MARCO and of ORCAS: similarity, and leaks.

The vectors are drawn in clusters, as queries lie, and stand in a file, as embeddings do. Memory is
a process's own, without that file.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from benchmarks.runner import Case, Clock, Sizes

BLOCK, READ = 4096, 131_072
CENTRES = 2000
WORDS = 200_000


def open_vectors(folder: Path) -> np.ndarray:
    """Open the file of vectors."""
    vectors: np.ndarray = np.load(folder / "vectors.npy", mmap_mode="r")
    return vectors


def write_vectors(folder: Path, sizes: Sizes) -> None:
    """Write the vectors of the training queries, then those of the test queries."""
    generator = np.random.default_rng(1)
    columns, rows = sizes.columns, sizes.training + sizes.test
    centres = generator.normal(size=(CENTRES, columns)).astype(np.float32)
    path = folder / "vectors.npy"
    vectors = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    for start in range(0, rows, BLOCK):
        count = min(BLOCK, rows - start)
        noise = generator.standard_normal((count, columns), dtype=np.float32)
        vectors[start : start + count] = centres[generator.integers(CENTRES, size=count)] + noise
    vectors.flush()


def write_leaks(folder: Path, sizes: Sizes) -> None:
    """Write vectors and texts; one test query in ten is near a training query."""
    write_vectors(folder, sizes)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "r+")
    generator = np.random.default_rng(2)
    for row in range(sizes.training, sizes.training + sizes.test, 10):
        noise = generator.normal(size=sizes.columns).astype(np.float32) / 4
        vectors[row] = vectors[row % sizes.training] + noise
    vectors.flush()
    for name, count in (("train", sizes.training), ("test", sizes.test)):
        with (folder / f"{name}.tsv").open("w") as file:
            for place, text in enumerate(draw_texts(generator, count)):
                file.write(f"{name}{place}\t{text}\n")


def draw_texts(generator: np.random.Generator, count: int) -> list[str]:
    """Return so many texts of six words, by Zipf's law."""
    numbers = generator.zipf(1.3, size=(count, 6)) % WORDS
    return [" ".join(f"w{number}" for number in row) for row in numbers.tolist()]


def nearest(folder: Path, sizes: Sizes, clock: Clock) -> None:
    """Find the exact nearest training query of each test query."""
    with clock():
        count_nearest(folder, sizes, most=1)


def count_nearest(folder: Path, sizes: Sizes, **limits: float) -> int:
    """Return how many pairs are within the limits, of all test with all training queries."""
    from msshift_bench.plumbing import slices
    from msshift_bench.similarity import NearestQueries

    vectors = open_vectors(folder)
    search = NearestQueries(np.array(vectors[sizes.training :]), **limits)
    for part in slices(sizes.training, READ):
        names = [(str(row), "") for row in range(part.start, part.stop)]
        search.meet(names, vectors[part], np.arange(len(names)))
    return sum(map(len, search.found))


def matrix_product(folder: Path, sizes: Sizes, clock: Clock) -> None:
    """Do what every comparison needs at least: the products in 32 bits, and nothing else."""
    with clock():
        vectors = open_vectors(folder)
        test = np.ascontiguousarray(vectors[sizes.training :])
        for start in range(0, sizes.training, BLOCK):
            block = np.ascontiguousarray(vectors[start : min(start + BLOCK, sizes.training)].T)
            for first in range(0, len(test), 512):
                test[first : first + 512] @ block


def faiss_flat(folder: Path, sizes: Sizes, clock: Clock) -> None:
    """Do the same by faiss' IndexFlatIP, in 32 bits, with all vectors in memory."""
    import faiss

    with clock():
        vectors = open_vectors(folder)
        index = faiss.IndexFlatIP(vectors.shape[1])
        for start in range(0, sizes.training, BLOCK):
            block = np.array(vectors[start : min(start + BLOCK, sizes.training)])
            faiss.normalize_L2(block)
            index.add(block)
        test = np.array(vectors[sizes.training :])
        faiss.normalize_L2(test)
        index.search(test, 1)


def jaccard(_: Path, sizes: Sizes, clock: Clock) -> None:
    """Compare the words of two sets, with making the texts."""
    from msshift_bench.similarity import QueryColumns
    from msshift_bench.similarity.indicators import weighted_jaccard

    with clock():
        generator = np.random.default_rng(1)
        texts = [tuple(draw_texts(generator, count)) for count in (sizes.training, sizes.test)]
        weighted_jaccard(*(QueryColumns(part, part) for part in texts))


def near_duplicates(folder: Path, sizes: Sizes, clock: Clock) -> dict[str, str]:
    """Find the 100 nearest training queries of each test query that reach a cosine of 0.91."""
    with clock():
        pairs = count_nearest(folder, sizes, most=100, least=0.91)
    return {"pairs": f"{pairs:,}"}


def find(folder: Path, _: Sizes, clock: Clock) -> None:
    """Find leaks in files of texts with `terms`: reading, all tiers that compare texts, writing."""
    from msshift_bench import find_leakage

    with clock():
        found = find_leakage(folder / "train.tsv", folder / "test.tsv")
        found.write(folder / f"found-{os.getpid()}")


SIZES = {"training": 500_000, "test": 7000}

CASES = {
    "similarity": Case(
        "Indicators of similarity: the nearest training queries, and words.",
        write_vectors,
        {
            "nearest": nearest,
            "faiss flat": faiss_flat,
            "matrix product": matrix_product,
            "jaccard": jaccard,
        },
        {**SIZES, "columns": 768},
        targets={"nearest": "120 s"},
        without_files=True,
    ),
    "leakage": Case(
        "Near-duplicates of training queries, and `find_leakage` as a whole.",
        write_leaks,
        {"near-duplicates": near_duplicates, "matrix product": matrix_product, "find": find},
        {**SIZES, "columns": 384},
        targets={"near-duplicates": "120 s"},
        without_files=True,
    ),
}
