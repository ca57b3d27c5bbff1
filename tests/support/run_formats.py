"""Runs in every format of run files, with scores as texts, so that damaged ones can be written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["WRITERS", "Rankings", "Rows", "parquet", "rows_of"]

Rankings = Mapping[str, Mapping[str, float]]

Rows = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""Each query with its documents and their scores as texts."""


def rows_of(rankings: Rankings) -> Rows:
    return [(query, [(d, repr(s)) for d, s in docs.items()]) for query, docs in rankings.items()]


def _columns(form: str) -> Callable[[Rows], bytes]:
    """Return a function that writes a line of this form for each document."""

    def write(rows: Rows) -> bytes:
        lines = (
            form.format(q=query, d=doc, r=rank, s=score)
            for query, docs in rows
            for rank, (doc, score) in enumerate(docs, 1)
        )
        return "".join(f"{line}\n" for line in lines).encode()

    return write


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in pairs) + "}"


def _queries(rows: Rows) -> str:
    return _object((query, _object(docs)) for query, docs in rows)


def _mteb(rows: Rows) -> bytes:
    meta = json.dumps({"model_name": "org/model", "revision": "abc"})
    default = _object([("test", _queries(rows))])
    return _object([("mteb_model_meta", meta), ("default", default)]).encode()


def _jsonl(rows: Rows) -> bytes:
    lines = []
    for query, docs in rows:
        found = ", ".join(_object([("corpus_id", json.dumps(d)), ("score", s)]) for d, s in docs)
        fields = [("query_id", json.dumps(query)), ("query", '"text"'), ("results", f"[{found}]")]
        lines.append(_object(fields) + "\n")
    return "".join(lines).encode()


def parquet(rows: Rows, **types: pa.DataType) -> bytes:
    """Return a Parquet file; `types` are of its columns, by default strings and 64-bit floats."""
    flat = [(query, doc, float(score)) for query, docs in rows for doc, score in docs]
    columns = list(zip(*flat, strict=True)) or [(), (), ()]
    names = ("query_id", "doc_id", "score")
    table = pa.table(
        [pa.array(column).cast(types[name]) if name in types else pa.array(column)
         for name, column in zip(names, columns, strict=True)],
        names,
    )  # fmt: skip
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue().to_pybytes())


WRITERS: Mapping[str, Callable[[Rows], bytes]] = {
    "trec": _columns("{q} Q0 {d} {r} {s} tag"),
    "msmarco": _columns("{q}\t{d}\t{r}"),
    "three-scores": _columns("{q}\t{d}\t{s}"),
    "colbert": _columns("{q}\t{d}\t{r}\t{s}"),
    "json": lambda rows: _queries(rows).encode(),
    "mteb": _mteb,
    "jsonl": _jsonl,
    "parquet": parquet,
}
"""Format -> the bytes of a run; of rankings whose documents are in the order of their scores."""
