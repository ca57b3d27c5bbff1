"""Finding leaks at the size of MS MARCO and of ORCAS: near-duplicates, and the whole command.

Each task is a process of its own. ``near-duplicates`` compares vectors that lie in a file, as
embeddings do, block by block: the 100 nearest training queries of each test query that reach a
cosine of 0.91. One test query in ten has a near-duplicate. ``matrix product`` is what that needs at
least. ``find`` is `find_leakage` with `terms` on files of generated texts: reading, all tiers that
compare texts, and writing. Memory is the process's own, without the file of vectors.

``scripts/bench leakage [--training 500000] [--test 7000] [--columns 384] [--only NAME ...]``
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.similarity import BLOCK, make_vectors, matrix_product
from benchmarks.support.measured_tasks import measure_as_asked

WORDS = 200_000
_READ = 131_072


def near_duplicates(path: Path, training: int) -> None:
    from msshift_bench.leakage import NearDuplicates
    from msshift_bench.plumbing import slices
    from msshift_bench.records import Query

    vectors = np.load(path, mmap_mode="r")
    search = NearDuplicates(np.array(vectors[training:]), least=0.91, most=100)
    for part in slices(training, _READ):
        block = [Query(str(row), "") for row in range(part.start, part.stop)]
        search.meet(block, vectors[part], np.arange(len(block)))
    print(f"{sum(map(len, search.found)):,} pairs", file=sys.stderr)


def find(path: Path, _: int) -> None:
    from msshift_bench import find_leakage

    folder = path.parent
    find_leakage(folder / "train.tsv", folder / "test.tsv").write(folder / "found")


def make_files(path: Path, training: int, test: int, columns: int) -> None:
    """Write the vectors and the texts; one test query in ten is near a training query."""
    make_vectors(path, training + test, columns)
    vectors = np.lib.format.open_memmap(path, "r+")
    generator = np.random.default_rng(2)
    for row in range(training, training + test, 10):
        noise = generator.normal(size=columns).astype(np.float32) / 4
        vectors[row] = vectors[row % training] + noise
    vectors.flush()
    for name, count in (("train", training), ("test", test)):
        with (path.parent / f"{name}.tsv").open("w") as file:
            for start in range(0, count, BLOCK):
                rows = generator.zipf(1.3, size=(min(BLOCK, count - start), 6)) % WORDS
                file.writelines(
                    f"{name}{start + place}\t{' '.join(f'w{number}' for number in row)}\n"
                    for place, row in enumerate(rows.tolist())
                )


TASKS = {"near-duplicates": near_duplicates, "matrix product": matrix_product, "find": find}


if __name__ == "__main__":
    measure_as_asked(__file__, __doc__, TASKS, make_files, columns=384)
