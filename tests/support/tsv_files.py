"""The TSV files that a collection or a test set is read from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from msshift_bench.data import Collection


def query_lines(queries: Mapping[str, str]) -> list[str]:
    """Return the lines of a file of queries."""
    return [f"{query_id}\t{text}\n" for query_id, text in queries.items()]


def qrel_lines(qrels: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the lines of a file of judgements, in TREC's format."""
    return [
        f"{query_id} 0 {doc_id} {relevance}\n"
        for query_id, judged in qrels.items()
        for doc_id, relevance in judged.items()
    ]


def write_tsv_folder(folder: Path, collection: Collection, *, shuffle: bool = False) -> Path:
    """Write a collection as TSV files, lines in order or shuffled by a keyed hash."""
    folder.mkdir(parents=True)
    tables = {
        "collection": query_lines(dict(collection.passages())),
        "queries": query_lines(collection.queries),
        "qrels": qrel_lines(collection.qrels),
    }
    for name, lines in tables.items():
        if shuffle:
            lines.sort(key=lambda line: hashlib.md5(line.encode()).digest())
        (folder / f"{name}.tsv").write_text("".join(lines))
    return folder
