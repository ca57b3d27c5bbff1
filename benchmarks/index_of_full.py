"""What it takes to make BM25's index of the collection that `full` generated, and nothing else.

``scripts/bench index_of_full COLLECTION [--keep FOLDER]``

COLLECTION is the folder ``collection`` of a size. Its passages are read, checked and digested as
`msshift run bm25` does; the index is made, written to FOLDER (or to a folder that is
removed). CPU seconds count: on a busy machine the clock says little.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from msshift_bench.baselines.systems.system import stream_passages
from msshift_bench.data import open_collection
from msshift_bench.plumbing import silent
from msshift_bench.search import kept_index


def main() -> None:
    """Make the index and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("collection", type=Path)
    parser.add_argument("--keep", type=Path, help="keep the index in this folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.keep and given.keep.parent) as scratch:
        folder = given.keep or Path(scratch)
        collection = open_collection(given.collection)
        facts: dict[str, dict[str, str]] = {}
        start, before = time.perf_counter(), time.process_time()
        index = kept_index(
            lambda stage: stream_passages(collection, facts, silent, stage),
            lambda: facts["passages"]["sha256"] if facts else "",
            cache=folder,
        )
        seconds, used = time.perf_counter() - start, time.process_time() - before
        (told,) = folder.glob("*/index.json")
        stored = json.loads(told.read_text("utf-8"))
        print(f"{len(index.ids):,} passages of {stored['passages'][:12]}: {seconds:,.0f} s", end="")
        size = sum(path.stat().st_size for path in told.parent.iterdir())
        print(f" by the clock, {used:,.1f} CPU s, {size / 1e9:.2f} GB on disk")
        print(f"SHA-256 of the doc_ids: {stored['files']['doc_ids.npy']}")
        print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
