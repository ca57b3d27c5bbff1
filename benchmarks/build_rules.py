"""Building the shifts that rules make, at the size of MS MARCO.

Times `msshift build length` and `msshift build wh-words`, whole processes from cold start to the
sealed folder, on 500,000 generated queries with one relevant passage each, and on the real query
texts of ../shared/data where they are at hand. The target is 15 seconds for each on 2 cores.

``scripts/bench build_rules [--queries 500000] [--repeats 3] [--texts FOLDER]``
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from evaluate import Timing, measure

from msshift_bench.mini import generator as mini

TARGET = 15
SHIFTS = (("length",), ("wh-words",), ("length", "wh-words"))
REAL_TEXTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "msmarco-query-texts"
PASSAGES = 8_841_823


def write_collection(folder: Path, texts: Iterable[str]) -> int:
    """Write queries with one relevant passage each; the rules read no passage."""
    folder.mkdir()
    (folder / "collection.tsv").write_text("1\ta passage\n")
    number = 0
    with (folder / "queries.tsv").open("w") as queries, (folder / "qrels.tsv").open("w") as qrels:
        for number, text in enumerate(texts, 1):
            # ids in no order, as in MS MARCO
            query_id = number * 524_287 % 1_185_869
            queries.write(f"{query_id}\t{text}\n")
            qrels.write(f"{query_id}\t0\t{number * 7919 % PASSAGES}\t1\n")
    return number


def generated(count: int) -> Iterable[str]:
    """Texts of the mini collection; every two of its passages have three queries."""
    return (query.text for query in islice(mini.queries(count), count))


def real(folder: Path) -> Iterable[str]:
    """The lines of every file of a folder."""
    for path in sorted(folder.glob("*.txt")):
        with path.open(newline="\n") as file:
            yield from (line.removesuffix("\n") for line in file)


def fastest(collection: Path, shifts: tuple[str, ...], repeats: int) -> Timing:
    script = Path(sys.executable).with_name("msshift")
    out = collection.with_name("msshift")
    command = [str(script), "build", *shifts, "--collection", str(collection), "--out", str(out)]
    return min(measure([*command, "--overwrite"]) for _ in range(repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3, help="the fastest of so many is shown")
    parser.add_argument("--texts", type=Path, default=REAL_TEXTS, help="a folder of real queries")
    arguments = parser.parse_args()
    sources = {"generated": generated(arguments.queries)}
    if arguments.texts.is_dir():
        sources["real texts"] = real(arguments.texts)
    print(f"{os.cpu_count()} cores; fastest of {arguments.repeats}; target {TARGET} s a shift\n")
    print("| queries | shifts | seconds | CPU seconds | peak MB |")
    print("|---:|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="msshift-bench-") as name:
        for source, texts in sources.items():
            collection = Path(name) / source.replace(" ", "-")
            count = write_collection(collection, texts)
            for shifts in SHIFTS:
                timing = fastest(collection, shifts, arguments.repeats)
                print(
                    f"| {count:,} {source} | {' '.join(shifts)} | {timing.seconds:.1f} "
                    f"| {timing.cpu_seconds:.1f} | {timing.peak_mb:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
