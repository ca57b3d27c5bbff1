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


def main(collection: str, queries: Path, found: Path, out: Path) -> None:
    """Write the topics and their judgements.

    Raises:
        MsShiftError: if a file is missing or malformed.
    """
    judged = open_collection(collection).relevant
    given = read_queries(queries)
    texts = dict(zip(given.ids, given.texts, strict=True))
    tests = [query_id for query_id in given.ids if judged.get(query_id)]
    pairs = [pair for pair in read_candidates(found) if judged.get(pair.train_id)]
    leaking = {pair.test_id for pair in pairs}.intersection(tests)
    others = sorted(
        (query_id for query_id in tests if query_id not in leaking),
        key=lambda query_id: hashlib.sha256(query_id.encode()).digest(),
    )
    chosen = leaking.union(others[: max(0, TOPICS - len(leaking))])
    topics = [query_id for query_id in tests if query_id in chosen]
    out.mkdir(parents=True, exist_ok=True)
    with write_atomically(out / "queries.tsv") as file:
        file.writelines(f"{query_id}\t{texts[query_id]}\n".encode() for query_id in topics)
    with write_atomically(out / "qrels.tsv") as file:
        file.writelines(
            f"{query_id} 0 {doc_id} {relevance}\n".encode()
            for query_id in topics
            for doc_id, relevance in sorted(judged[query_id].items())
        )
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
