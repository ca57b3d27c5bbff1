"""Indicators of similarity at the size of MS MARCO: words, and the nearest training queries.

Each task is a process of its own. The vectors are generated in clusters, as queries are, and lie in
a file, as embeddings do; making them is not timed. Memory is the process's own, without the file.
``matrix product`` is what the comparison needs at least: the same products in 32 bits, block by
block, and nothing else. ``faiss flat`` is the peer, faiss' IndexFlatIP: in 32 bits, with all
vectors in memory.

``scripts/bench similarity [--training 500000] [--test 7000] [--columns 768] [--only NAME ...]``
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.support.measured_tasks import Task, measure_as_asked

BLOCK = 4096
CENTRES = 2000
WORDS = 60_000


def make_vectors(path: Path, rows: int, columns: int) -> None:
    generator = np.random.default_rng(1)
    centres = generator.normal(size=(CENTRES, columns)).astype(np.float32)
    vectors = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    for start in range(0, rows, BLOCK):
        count = min(BLOCK, rows - start)
        noise = generator.standard_normal((count, columns), dtype=np.float32)
        vectors[start : start + count] = centres[generator.integers(CENTRES, size=count)] + noise
    vectors.flush()


def make_files(path: Path, training: int, test: int, columns: int) -> None:
    make_vectors(path, training + test, columns)


def nearest(path: Path, training: int) -> None:
    from msshift_bench.similarity.vectors import nearest_rows

    vectors = np.load(path, mmap_mode="r")
    nearest_rows(vectors, np.arange(training), np.arange(training, len(vectors)))


def matrix_product(path: Path, training: int) -> None:
    vectors = np.load(path, mmap_mode="r")
    test = np.ascontiguousarray(vectors[training:])
    for start in range(0, training, BLOCK):
        block = np.ascontiguousarray(vectors[start : min(start + BLOCK, training)].T)
        for first in range(0, len(test), 512):
            test[first : first + 512] @ block


def faiss_flat(path: Path, training: int) -> None:
    import faiss

    vectors = np.load(path, mmap_mode="r")
    index = faiss.IndexFlatIP(vectors.shape[1])
    for start in range(0, training, BLOCK):
        block = np.array(vectors[start : min(start + BLOCK, training)])
        faiss.normalize_L2(block)
        index.add(block)
    test = np.array(vectors[training:])
    faiss.normalize_L2(test)
    index.search(test, 1)


def jaccard(path: Path, training: int) -> None:
    from msshift_bench.similarity import QueryColumns
    from msshift_bench.similarity.words import weighted_jaccard

    generator = np.random.default_rng(1)
    test = len(np.load(path, mmap_mode="r")) - training
    sets = []
    for count in (training, test):
        numbers = generator.zipf(1.3, size=(count, 6)) % WORDS
        texts = tuple(" ".join(f"w{number}" for number in row) for row in numbers.tolist())
        sets.append(QueryColumns(texts, texts))
    begin = time.process_time()
    weighted_jaccard(*sets)
    print(f"of which the indicator {time.process_time() - begin:.1f} CPU s", file=sys.stderr)


TASKS: dict[str, Task] = {
    "jaccard": jaccard,
    "nearest": nearest,
    "matrix product": matrix_product,
    "faiss flat": faiss_flat,
}


if __name__ == "__main__":
    measure_as_asked(__file__, __doc__, TASKS, make_files, columns=768)
