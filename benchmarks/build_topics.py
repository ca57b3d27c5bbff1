"""Making topics: k-means against scikit-learn and faiss, and the exact selection.

Every k-means is a process of its own, on the same generated vectors, with the same k and number
of iterations; the time is that of the clustering alone, the peak memory that of the process. The
scikit-learn run starts from our first centroids; faiss chooses its own, and uses all vectors.

``scripts/bench build_topics [--rows 500000] [--repeats 3] [--only NAME ...]``
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = 768
CLUSTERS = 100
ITERATIONS = 25

Vectors = NDArray[np.float32]
Timed = tuple[float, float]
"""Seconds, and the inertia reached."""


def keys(rows: int) -> list[str]:
    return [f"{number:07d}" for number in range(rows)]


def ours(vectors: Vectors) -> Timed:
    from msshift_bench.dataset_builders.kmeans import kmeans

    ids = keys(len(vectors))
    start = time.perf_counter()
    inertia = kmeans(vectors, ids, k=CLUSTERS, iterations=ITERATIONS).inertia
    return time.perf_counter() - start, inertia


def scikit_learn(vectors: Vectors) -> Timed:
    from sklearn.cluster import KMeans

    from msshift_bench.dataset_builders.kmeans import _first_centroids

    first = _first_centroids(vectors, keys(len(vectors)), CLUSTERS, 0).astype(np.float32)
    start = time.perf_counter()
    # with a tolerance of 0 it ends when no label changes, like ours
    model = KMeans(CLUSTERS, init=first, n_init=1, max_iter=ITERATIONS, tol=0).fit(vectors)
    return time.perf_counter() - start, float(model.inertia_)


def faiss(vectors: Vectors) -> Timed:
    import faiss as library

    start = time.perf_counter()
    model = library.Kmeans(
        COLUMNS, CLUSTERS, niter=ITERATIONS, seed=1, max_points_per_centroid=len(vectors)
    )
    model.train(vectors)
    distances, _ = model.index.search(vectors, 1)  # the labels, which the others give, too
    return time.perf_counter() - start, float(distances.sum(dtype=np.float64))


PROGRAMS: dict[str, Callable[[Vectors], Timed]] = {
    "msshift": ours,
    "scikit-learn": scikit_learn,
    "faiss": faiss,
}


def generate(rows: int, path: Path) -> None:
    """Write vectors around 300 overlapping centres of unequal weight, with a common offset."""
    rng = np.random.default_rng(2022)
    centres = rng.standard_normal((300, COLUMNS), dtype=np.float32) / 2
    weights = rng.dirichlet(np.full(300, 0.7))
    vectors = np.lib.format.open_memmap(path, "w+", np.float32, (rows, COLUMNS))
    for start in range(0, rows, 8192):
        block = vectors[start : start + 8192]
        block[:] = rng.standard_normal(block.shape, dtype=np.float32) + 3
        block += centres[rng.choice(300, len(block), p=weights)]
    vectors.flush()


def measure(name: str, path: Path) -> dict[str, Any]:
    """Run one k-means in a process of its own."""
    command = [sys.executable, __file__, "--child", name, str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def child(name: str, path: str) -> None:
    vectors = np.load(path)
    before = time.process_time()
    seconds, inertia = PROGRAMS[name](vectors)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": time.process_time() - before,
                "peak_mb": usage.ru_maxrss / 1024,
                "inertia": inertia,
            }
        )
    )


def selections() -> dict[str, float]:
    """Seconds to select 5 of 100, for the cases that bounds find easy and hard."""
    from msshift_bench.dataset_builders.clusters import select_farthest

    rng = np.random.default_rng(2022)
    clustered = rng.standard_normal((10, COLUMNS))[np.arange(100) % 10]
    cases = {
        "Gaussian centroids": rng.standard_normal((100, COLUMNS)),
        "clustered centroids": clustered + rng.standard_normal((100, COLUMNS)) / 4,
        "all distances equal": np.eye(100),
    }
    seconds = {}
    for name, centroids in cases.items():
        start = time.perf_counter()
        select_farthest(centroids)
        seconds[name] = time.perf_counter() - start
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many is shown")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as folder:
        path = Path(folder) / "vectors.npy"
        generate(arguments.rows, path)
        print(
            f"k-means, k = {CLUSTERS}, {ITERATIONS} iterations, {arguments.rows:,} x {COLUMNS}; "
            f"{os.cpu_count()} cores; fastest of {arguments.repeats}\n",
            flush=True,
        )
        best: dict[str, dict[str, Any]] = {}
        # one round after the other, so that what else the machine does meets all programs
        for _ in range(arguments.repeats):
            for name in arguments.only:
                found = measure(name, path)
                if name not in best or found["seconds"] < best[name]["seconds"]:
                    best[name] = found
    print("| program | seconds | CPU seconds | peak MB | inertia | times ours |")
    print("|---|---:|---:|---:|---:|---:|")
    reference = next(iter(best.values()))["seconds"]
    for name, found in best.items():
        print(
            f"| {name} | {found['seconds']:.1f} | {found['cpu']:.1f} | {found['peak_mb']:.0f} "
            f"| {found['inertia']:.4g} | {found['seconds'] / reference:.2f} |"
        )
    print("\n| selection of 5 of 100 | seconds |\n|---|---:|")
    for name, seconds in selections().items():
        print(f"| {name} | {seconds:.2f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
