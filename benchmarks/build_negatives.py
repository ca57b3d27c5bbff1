"""Mining negatives: a million passages, a hundred thousand queries, BM25 to depth 1,000.

Beside it bm25s as one would call it directly: the same index, its own parallel search, and 100 of
1,000 passages drawn by Python's random module. It is given fewer queries, and decides ties and
draws as they come, so its negatives change with the order of the passages. Either is a process of
its own. Texts are generated: 36 words a passage from a Zipf-Mandelbrot distribution without its
head (MS MARCO's passages have about as many that are not stop words), four words of the relevant
passage a query.

``scripts/bench build_negatives [--passages 1000000] [--queries 100000] [--peer-queries 5000]``
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.support.zipf_collection import Generated

COUNT, DEPTH = 100, 1000


def with_msshift(passages: int, queries: int) -> dict[str, float]:
    """Mine with the package; the index ends where the first queries are done."""
    from msshift_bench.dataset_builders.negatives import mine_negatives

    collection = Generated(passages)
    rows = collection.rows(queries)
    first: list[tuple[float, float, int]] = []

    def progress(stage: str, done: int, _: int) -> None:
        if stage == "negatives" and not first:
            first.append((time.perf_counter(), time.process_time(), done))

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        mine_negatives(
            collection,
            rows,
            Path(work),
            passages="",
            count=COUNT,
            depth=DEPTH,
            progress=progress,
        )
    indexed, cpu, done = first[0]
    return {
        "index": indexed - start,
        "mine": time.perf_counter() - indexed,
        "cpu": time.process_time() - cpu,
        "queries": queries - done,
    }


def with_bm25s(passages: int, queries: int) -> dict[str, float]:
    """Call bm25s directly and draw with Python."""
    import bm25s
    import Stemmer

    collection = Generated(passages)
    rows = collection.rows(queries)
    stemmer = Stemmer.Stemmer("english")
    start = time.perf_counter()
    ids, texts = zip(*collection.passages(), strict=True)
    tokens = bm25s.tokenize(list(texts), stemmer=stemmer, show_progress=False)
    index = bm25s.BM25(k1=0.82, b=0.68, method="lucene", backend="numba")
    index.index(tokens, show_progress=False)
    asked = bm25s.tokenize([r.text for r in rows], stemmer=stemmer, show_progress=False)
    asked = bm25s.tokenization.convert_tokenized_to_string_list(asked)
    threads = os.cpu_count() or 1
    index.retrieve(asked[:8], k=DEPTH, n_threads=threads, show_progress=False)
    indexed, cpu = time.perf_counter(), time.process_time()
    generator = random.Random(0)
    drawn = {}
    for first in range(0, queries, 1000):
        part = rows[first : first + 1000]
        found = index.retrieve(
            asked[first : first + 1000], k=DEPTH, n_threads=threads, show_progress=False
        )
        for row, documents in zip(part, found.documents.tolist(), strict=True):
            relevant = set(row.relevant_doc_ids)
            candidates = [ids[number] for number in documents if ids[number] not in relevant]
            drawn[row.query_id] = generator.sample(candidates, COUNT)
    return {
        "index": indexed - start,
        "mine": time.perf_counter() - indexed,
        "cpu": time.process_time() - cpu,
        "queries": queries,
    }


CHILDREN = {"msshift": with_msshift, "bm25s and random": with_bm25s}


def measure(name: str, passages: int, queries: int) -> None:
    """Run one program in a process of its own and print its row of the table."""
    command = [sys.executable, __file__, "--child", name]
    command += ["--passages", str(passages), "--queries", str(queries)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{name} failed with {process.returncode}")
        output.seek(0)
        took = json.load(output)
    print(
        f"| {name} | {queries:,} | {took['index']:.0f} | {took['mine']:.1f} "
        f"| {took['queries'] / took['mine']:,.0f} | {took['cpu'] / took['queries'] * 1000:.2f} "
        f"| {usage.ru_maxrss / 1e6:.2f} |",
        flush=True,
    )


def main() -> None:
    """Print the table, or run one program of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--peer-queries", type=int, default=5_000)
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILDREN[options.child](options.passages, options.queries)))
        return
    print(f"{options.passages:,} passages, {os.cpu_count()} processors")
    print("| | queries | s to index | s to mine | queries/s | CPU ms/query | peak GB |")
    print("|---|---|---|---|---|---|---|")
    measure("msshift", options.passages, options.queries)
    measure("bm25s and random", options.passages, options.peer_queries)


if __name__ == "__main__":
    main()
