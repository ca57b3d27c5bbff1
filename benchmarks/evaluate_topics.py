"""A whole shift at the size of the official topics: five runs, 31,244 queries, all statistics.

Times `msshift evaluate` on a generated run set of five run files, each with 100 passages for each
of the 31,244 test queries of the official edition's five topics: the matrix, Avg In, Out, Rel Loss,
tests and intervals. The target is 20 seconds on 2 cores.

``scripts/bench evaluate_topics [--depth 100] [--repeats 3]``
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from msshift_bench.dataset_builders.cut import Cut, cut_table
from msshift_bench.dataset_builders.write import write_dataset
from msshift_bench.records import Grouping, Row
from msshift_bench.runs import run_path
from msshift_bench.shifts import get_shift

TOPICS = get_shift("topics")
SIZES = dict(zip(TOPICS.groups, (6595, 5960, 6255, 5868, 6566), strict=True))
PASSAGES = 8_841_823


def write_data(folder: Path) -> list[Row]:
    ids = iter(np.random.default_rng(0).permutation(1_000_000).tolist())

    def rows(split: str, sizes: dict[str, int]) -> tuple[Row, ...]:
        drawn = [
            Row(str(next(ids)), f"{split} query", group, (str(next(ids)),), (1,))
            for group, size in sizes.items()
            for _ in range(size)
        ]
        return tuple(sorted(drawn))

    train, test = rows("train", dict.fromkeys(SIZES, 1)), rows("test", SIZES)
    rows_of = {"train": train, "validation": (), "test": test}
    cut = Cut(Grouping("topics", {}, "generated", {}), cut_table(rows_of), tuple(rows_of))
    write_dataset(
        folder,
        [cut],
        edition="rebuilt",
        collection={"name": "generated", "text": "raw"},
        parameters={},
    )
    return list(test)


def write_run(path: Path, rows: list[Row], depth: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for row in rows:
            docs = rng.integers(1_000_000, PASSAGES, 2 * depth)
            docs = list(dict.fromkeys(docs.tolist()))[:depth]
            place = int(rng.geometric(0.1)) - 1
            if place < depth:
                docs[place] = int(row.relevant_doc_ids[0])
            scores = np.sort(10 + 15 * rng.random(depth) ** 3)[::-1].tolist()
            file.writelines(
                f"{row.query_id} Q0 {doc} {rank} {score:.4f} generated\n"
                for rank, (doc, score) in enumerate(zip(docs, scores, strict=True), 1)
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many is shown")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as name:
        folder = Path(name)
        rows = write_data(folder / "msshift")
        for seed, group in enumerate(TOPICS.groups):
            path = run_path(folder / "runs", "generated", TOPICS, group).with_suffix("")
            write_run(path, rows, arguments.depth, seed)
        command = [Path(sys.executable).with_name("msshift"), "evaluate", "runs"]
        seconds, peak = [], 0.0
        for _ in range(arguments.repeats):
            start = time.perf_counter()
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if os.waitstatus_to_exitcode(status):
                raise SystemExit("msshift evaluate failed")
            seconds.append(time.perf_counter() - start)
            peak = max(peak, usage.ru_maxrss / 1024)
        lines = len(TOPICS.groups) * len(rows) * arguments.depth
        print(
            f"{len(rows):,} queries x {arguments.depth} x {len(TOPICS.groups)} runs = {lines:,} "
            f"lines: {min(seconds):.1f} s (target 20), peak {peak:.0f} MB, {os.cpu_count()} cores"
        )


if __name__ == "__main__":
    main()
