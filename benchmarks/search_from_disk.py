"""BM25's index on disk beside bm25s': made, opened and searched in processes of their own.

The passages have 36 words, of a vocabulary that follows Zipf's law; the queries have four; rankings
reach to 1,000. bm25s is given our term numbers, and searches by its numba backend with
``mmap=True``. The scores of all rankings are compared, bit by bit.

``scripts/bench search_from_disk [--passages 1000000] [--queries 1024] [--keep FOLDER] [--drawn]``

``--keep`` is for the two indexes; those that a folder holds are not made again. With ``--drawn``,
words are drawn as numbers and the postings of our index are written for bm25s, so that 8.8 million
passages take minutes; then only opening and searching are measured.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.drawn_index import QUERIES, make_indexes
from benchmarks.support.zipf_collection import Generated
from msshift_bench.records import Passage
from msshift_bench.search import BATCH, Bm25, Bm25Parameters, kept_index
from msshift_bench.search.vocabulary import Vocabulary

DEPTH = 1_000
ROUNDS = 2
"""How often the two programs search in turns; the fewest CPU seconds count."""


def measured(work: Callable[[], Any], told: dict[str, Any], name: str) -> Any:
    """Do some work and note its seconds and CPU seconds."""
    start, before = time.perf_counter(), time.process_time()
    done = work()
    told[name] = time.perf_counter() - start, time.process_time() - before
    return done


def texts_of(passages: int, queries: int, folder: Path) -> list[str]:
    """Return the queries."""
    if (folder / QUERIES).exists():
        texts: list[str] = json.loads((folder / QUERIES).read_text())
        return texts[:queries]
    return [row.text for row in Generated(passages).rows(queries)]


def ours(passages: int, queries: int, folder: Path, told: dict[str, Any]) -> Any:
    """Open our index, made before if need be, and return scores."""
    collection = Generated(passages)

    def stream(_: str) -> Iterator[Passage]:
        return collection.passages()

    def opened() -> Bm25:
        if (folder / QUERIES).exists():
            return Bm25.stored(folder / "ours", {"passages": passages}, Bm25Parameters())
        return kept_index(stream, lambda: f"{passages:064}", cache=folder / "ours")

    # Made in the first process, and opened in those that search.
    index = measured(opened, told, "index")
    if not queries:
        return None
    texts = texts_of(passages, queries, folder)
    measured(lambda: index.select(texts[:2]), told, "first")  # compiles, and checks every block
    parts = [texts[start : start + BATCH] for start in range(0, queries, BATCH)]
    measured(lambda: [index.select(part) for part in parts], told, "search")
    rankings = measured(lambda: list(index.search(texts)), told, "rankings")
    return [np.fromiter(ranking.values(), np.float32) for ranking in rankings]


def peer(passages: int, queries: int, folder: Path, told: dict[str, Any]) -> Any:
    """Do the same with bm25s."""
    import bm25s

    collection = Generated(passages)
    place, words = folder / "bm25s", folder / "terms.json"

    def make() -> None:
        vocabulary = Vocabulary("english", "english")
        numbers = [vocabulary.learn(passage.text) for passage in collection.passages()]
        index = bm25s.BM25(k1=0.82, b=0.68, method="lucene", backend="numba")
        given = (numbers, dict(vocabulary.terms))
        index.index(given, create_empty_token=False, show_progress=False)
        index.save(place, show_progress=False)
        words.write_text(json.dumps(given[1]))

    if not queries:
        return measured(make, told, "index")
    index = measured(lambda: bm25s.BM25.load(place, mmap=True), told, "index")
    vocabulary = Vocabulary("english", "english", json.loads(words.read_text()))
    texts = texts_of(passages, queries, folder)

    def ask(part: list[str]) -> Any:
        return index.retrieve(
            [vocabulary.look_up(text) for text in part],
            k=DEPTH,
            show_progress=False,
            sorted=False,
            backend_selection="numba",
        ).scores

    ask(texts[:2])
    parts = [texts[start : start + BATCH] for start in range(0, queries, BATCH)]
    found = measured(lambda: [ask(part) for part in parts], told, "search")
    scores = (row for part in found for row in part)
    return [np.sort(row[row > 0])[::-1] for row in scores]


def draw(passages: int, queries: int, folder: Path, told: dict[str, Any]) -> None:
    """Make both indexes of words that are drawn as numbers."""
    measured(lambda: make_indexes(folder, {"passages": passages}, passages, queries), told, "index")


def part(name: str, options: argparse.Namespace, queries: int) -> dict[str, Any]:
    """Do a part in a process of its own."""
    command = [sys.executable, __file__, "--work", name, "--keep", str(options.keep)]
    command += ["--passages", str(options.passages), "--queries", str(queries)]
    told: dict[str, Any] = json.loads(subprocess.run(command, stdout=-1, check=True).stdout)
    return told


def work(options: argparse.Namespace) -> None:
    """Do one part, keep its scores, and print what it took."""
    told: dict[str, Any] = {}
    scores = globals()[options.work](options.passages, options.queries, options.keep, told)
    if scores is not None:
        np.save(options.keep / f"{options.work}.npy", np.concatenate(scores))
    told["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps(told))


def compare(options: argparse.Namespace) -> None:
    """Print the table."""
    print(
        f"{options.passages:,} passages, {options.queries:,} queries, {os.cpu_count()} processors"
    )
    print("| program | what | seconds | CPU s | queries per CPU s | peak GB |")
    print("|---|---|---:|---:|---:|---:|")
    names = {"ours": "msshift", "peer": "bm25s"}
    folders = {"ours": options.keep / "ours", "peer": options.keep / "terms.json"}
    if options.drawn and not folders["peer"].exists():
        # In a process of its own, or its memory would count as that of those it starts.
        part("draw", options, options.queries)
    for side, name in names.items():
        if not folders[side].exists():
            told = part(side, options, 0)
            seconds, cpu = told["index"]
            print(f"| {name} | index | {seconds:.1f} | {cpu:.1f} | | {told['peak']:.2f} |")
    told_by = {side: [part(side, options, options.queries)] for side in names}
    for _ in range(ROUNDS - 1):
        for side in names:
            told_by[side].append(part(side, options, options.queries))
    for what in ("index", "first", "search", "rankings"):
        for side, name in names.items():
            if what in told_by[side][0]:
                seconds, cpu = min((told[what] for told in told_by[side]), key=lambda one: one[1])
                rate = f"{options.queries / cpu:,.0f}" if what in ("search", "rankings") else ""
                peak = max(told["peak"] for told in told_by[side])
                told = {"index": "open", "first": "first two queries"}.get(what, what)
                print(f"| {name} | {told} | {seconds:.2f} | {cpu:.2f} | {rate} | {peak:.2f} |")
    same = np.array_equal(*(np.load(options.keep / f"{side}.npy") for side in names))
    print(f"\nthe same scores in every ranking: {'yes' if same else 'NO'}")


def main() -> None:
    """Compare, or do one part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1_024)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--drawn", action="store_true")
    parser.add_argument("--work", choices=["ours", "peer", "draw"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        options.keep = options.keep or Path(folder)
        options.keep.mkdir(parents=True, exist_ok=True)
        compare(options)


if __name__ == "__main__":
    main()
