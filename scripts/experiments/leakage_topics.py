"""The test topics of the leakage experiment in docs/leakage.md: those that leak, and some others.

Usage: python -m scripts.experiments.leakage_topics COLLECTION QUERIES FOUND OUT

QUERIES are the test queries that FOUND was made for by ``msshift leakage find``. OUT becomes a
folder of test topics with a relevant passage in the collection: all for which FOUND has a training
query with one, too, and others, drawn by their ids, until they are 200.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from msshift_bench.data import open_collection, read_queries
from msshift_bench.errors import MsShiftError
from msshift_bench.leakage import read_candidates
from msshift_bench.plumbing import write_atomically

TOPICS = 200


def choose(tests: list[str], leaking: set[str], count: int) -> list[str]:
    """Return the topics that leak and others, `count` in all, in the order of `tests`."""
    others = sorted(
        (one for one in tests if one not in leaking),
        key=lambda query_id: hashlib.sha256(query_id.encode()).digest(),
    )
    chosen = leaking | {*others[: max(0, count - len(leaking))]}
    return [one for one in tests if one in chosen]


def main(collection: str, queries: Path, found: Path, out: Path) -> None:
    """Write the topics and their judgements.

    Raises:
        MsShiftError: if a file is missing or malformed.
    """
    judged = open_collection(collection).relevant
    given = read_queries(queries)
    texts = {query_id: text for query_id, text in given.items() if query_id in judged}
    pairs = [one for one in read_candidates(found) if judged.get(one.train_id)]
    leaking = {one.test_id for one in pairs} & texts.keys()
    topics = choose([*texts], leaking, TOPICS)
    out.mkdir(parents=True, exist_ok=True)
    lines = {
        "queries.tsv": [f"{one}\t{texts[one]}\n" for one in topics],
        "qrels.tsv": [
            f"{one} 0 {doc_id} {relevance}\n"
            for one in topics
            for doc_id, relevance in sorted(judged[one].items())
        ],
    }
    for name, written in lines.items():
        with write_atomically(out / name) as file:
            file.write("".join(written).encode())
    print(f"{len(topics)} topics, {len(leaking)} of them with {len(pairs)} leaking queries")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    for name in ("queries", "found", "out"):
        parser.add_argument(name, type=Path)
    try:
        main(**vars(parser.parse_args()))
    except MsShiftError as error:
        sys.exit(str(error))
