"""The cost of a BM25 run, and of writing its lines in columns instead of one by one.

It times the whole command ``msshift run bm25`` in a process of its own, then the writer
alone on the rankings of that run, beside a loop that formats every line by itself and compresses it
at gzip's level 9. CPU seconds are user and system together.

``scripts/bench baseline_bm25 [--collection mini:20000] [--queries 5000]``
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path

import numpy as np

from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.runs import write_run

Rankings = list[tuple[str, dict[str, float]]]
COMMAND = "from msshift_bench.cli import main; main()"


def make(collection: str, folder: Path) -> Path:
    """Make the run with the command, and print what that took."""
    build_dataset(open_collection(collection), ["length"], folder / "msshift")
    places = ("--data", str(folder / "msshift"), "--out", str(folder / "runs"))
    arguments = ("run", "bm25", "--shift", "length", "--collection", collection)
    began, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments, *places], check=True, stdout=subprocess.DEVNULL
    )
    after = os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    print(f"| `msshift run bm25` | {time.perf_counter() - began:.1f} | {cpu:.1f} |  |")
    return folder / "runs" / "bm25" / "length.run.gz"


def read(run: Path, queries: int) -> Rankings:
    """Return the rankings of the first queries of a run."""
    rankings: Rankings = []
    with gzip.open(run, "rt") as file:
        rows = (line.split(" ") for line in file)
        for query, lines in groupby(rows, key=lambda row: row[0]):
            if len(rankings) == queries:
                break
            rankings.append((query, {row[2]: float(np.float32(row[4])) for row in lines}))
    return rankings


def one_by_one(path: Path, rankings: Rankings, tag: str) -> None:
    """Write a run as one would."""
    with gzip.open(path, "wt", compresslevel=9) as file:
        for query, documents in rankings:
            pairs = sorted(
                ((np.float32(score), doc) for doc, score in documents.items()), reverse=True
            )
            for rank, (score, doc) in enumerate(pairs, start=1):
                file.write(f"{query} Q0 {doc} {rank} {score!s} {tag}\n")


def main() -> None:
    """Measure the command and the two writers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--collection", default="mini:20000")
    parser.add_argument("--queries", type=int, default=5_000)
    arguments = parser.parse_args()
    print("| what | seconds | CPU seconds | MB |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as name:
        folder = Path(name)
        rankings = read(make(arguments.collection, folder), arguments.queries)
        texts = set()
        for what, write in (("one by one, level 9", one_by_one), ("`write_run`", write_run)):
            path = folder / "a.run.gz"
            began, cpu = time.perf_counter(), time.process_time()
            write(path, rankings, "bm25")
            cpu, wall = time.process_time() - cpu, time.perf_counter() - began
            print(f"| {what} | {wall:.1f} | {cpu:.1f} | {path.stat().st_size / 1e6:.1f} |")
            texts.add(gzip.decompress(path.read_bytes()))
        lines = sum(len(documents) for _, documents in rankings)
        print(f"\n{lines:,} lines; the same text: {'yes' if len(texts) == 1 else 'NO'}")


if __name__ == "__main__":
    main()
