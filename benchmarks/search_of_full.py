"""How fast BM25 searches the index that `full` made: the queries of its test, all at once.

``scripts/bench search_of_full INDEX QUERIES [--rounds 3]``

INDEX is a folder below ``indexes`` in the cache that `full` worked with, QUERIES a file of query_id
and text. Nothing else should run beside it: queries a second are told by the clock.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

from msshift_bench.search import Bm25, Bm25Parameters

DEPTH = 1_000


def main() -> None:
    """Open, search and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    start = time.perf_counter()
    index = Bm25.opened(given.index, Bm25Parameters(depth=DEPTH))
    opened = time.perf_counter() - start
    texts = [line.split("\t")[1] for line in given.queries.read_text("utf-8").splitlines()]
    size = sum(path.stat().st_size for path in given.index.iterdir())
    print(f"{len(index.ids):,} passages, {size / 1e9:.2f} GB, opened in {opened:.2f} s")
    index.find(texts[:256])  # compiles
    for _ in range(given.rounds):
        start, before = time.perf_counter(), time.process_time()
        index.find(texts)
        seconds, used = time.perf_counter() - start, time.process_time() - before
        print(f"{len(texts) / seconds:,.0f} queries/s, {1_000 * used / len(texts):.2f} CPU ms each")
    start = time.perf_counter()
    for _ in index.search(texts):
        pass
    print(f"{len(texts) / (time.perf_counter() - start):,.0f} queries/s with rankings as mappings")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
