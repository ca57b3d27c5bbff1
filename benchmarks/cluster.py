"""The same shards by each engine: their digests, their seconds, and nodes killed on the way.

A collection of MS MARCO's shape is generated, and BM25 ranks passages for some queries: in this
process, in two, on a Ray cluster of three nodes on this machine, and in a job array whose script
bash carries out, job after job. Then one of the nodes is killed at a drawn moment, several times.

``scripts/bench cluster [--passages 100000] [--queries 1000] [--kills 10] [--out build/cluster]``
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.support.large_collection import write_collection
from benchmarks.support.ray_cluster import add_node, ray_cluster
from msshift_bench.baselines.bm25_shards import Bm25Task
from msshift_bench.baselines.system import stream_passages
from msshift_bench.data import open_collection
from msshift_bench.plumbing import batches, silent
from msshift_bench.search import Bm25Parameters
from msshift_bench.shards import (
    Shard,
    ShardsAwaitedError,
    choose_engine,
    map_shards,
    merge_shards,
    using_engine,
)

SIZE = 50
"""Queries of a shard: so few that a node can be lost between two."""


class Laboratory:
    """Queries to rank passages for, cut into shards."""

    def __init__(self, folder: Path, passages: int, queries: int) -> None:
        self.folder = folder
        source = folder / "collection"
        if not source.exists():
            write_collection(source, passages, queries, 100)
        collection = open_collection(source)
        facts: dict[str, Any] = {}
        for _ in stream_passages(collection, facts, silent):
            continue
        self.places = {"collection": str(collection.address)}
        self.common = {
            "parameters": asdict(Bm25Parameters(depth=100)),
            "passages": facts["passages"]["sha256"],
        }
        texts = collection.queries.texts[:queries]
        self.shards = [Shard({"texts": part}, len(part)) for part in batches(texts, SIZE)]

    def search(self, into: str, **engine: Any) -> tuple[float, str]:
        """Carry all shards out anew; return the seconds, and the digest of names and results."""
        shutil.rmtree(self.folder / into, ignore_errors=True)
        began = time.perf_counter()
        with using_engine(choose_engine(**engine)):
            digest = self.collect(into)
        return time.perf_counter() - began, digest

    def collect(self, into: str) -> str:
        """Carry out the shards that do not stand; return the digest of names and results."""
        digest = hashlib.sha256()
        found = map_shards(
            Bm25Task, self.common, self.shards, self.folder / into, places=self.places
        )
        for store, shard in found:
            digest.update(f"{shard}\n".encode() + store.load(shard).tobytes())
        return digest.hexdigest()

    def search_by_script(self, into: str) -> tuple[float, str]:
        """Do what SLURM does with the script that a command writes."""
        began = time.perf_counter()
        try:
            self.search(into, name="slurm")
        except ShardsAwaitedError as awaited:
            for number in range(len(self.shards)):
                environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(number)}
                subprocess.run(["bash", awaited.job.script], env=environment, check=True)
            merge_shards(awaited.job.folder)
        with using_engine(choose_engine("slurm")):
            digest = self.collect(into)
        return time.perf_counter() - began, digest


def row(name: str, measure: Callable[[], tuple[float, str]]) -> str:
    """Measure, print a row of the table, and return the digest."""
    seconds, digest = measure()
    print(f"| {name} | {seconds:.0f} | `{digest[:16]}` |", flush=True)
    return digest


def kill_later(cluster: Any, delay: float) -> threading.Timer:
    """Kill one of the nodes, but never the first, after some seconds."""
    node = random.choice(cluster.list_all_nodes()[1:])
    timer = threading.Timer(delay, cluster.remove_node, [node])
    timer.start()
    return timer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("build/cluster"))
    options = parser.parse_args()
    import ray

    work = Laboratory(options.out.absolute(), options.passages, options.queries)
    print(f"{options.passages:,} passages, {options.queries:,} queries, {len(work.shards)} shards")
    print("| engine | seconds | digest |\n|---|---:|---|")
    digests = {row("local", lambda: work.search("local"))}
    digests.add(row("local, 2 processes", lambda: work.search("processes", workers=2)))
    digests.add(row("job array", lambda: work.search_by_script("array")))
    with ray_cluster(3) as cluster:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        given = {"name": "ray", "address": cluster.address}
        digests.add(row("ray, first time", lambda: work.search("ray", **given)))
        took, digest = work.search("ray", **given)
        digests.add(row("ray, 3 nodes", lambda: (took, digest)))
        for kill in range(1, options.kills + 1):
            delay = random.uniform(0, took)
            timer = kill_later(cluster, delay)
            name = f"ray, a node killed after {delay:.1f} s ({kill} of {options.kills})"
            digests.add(row(name, lambda: work.search("ray", **given)))
            timer.join()
            add_node(cluster)
    if len(digests) > 1:
        raise SystemExit("the digests differ")
    print("all digests are equal")


if __name__ == "__main__":
    main()
