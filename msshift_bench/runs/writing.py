"""Rankings in memory as checked, sorted lines, written to a file or judged."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from msshift_bench.arrays import Ints, Vectors
from msshift_bench.errors import RunError, UsageError, quoted
from msshift_bench.libraries import compute as pc
from msshift_bench.plumbing import write_atomically
from msshift_bench.runs.lines import Findings, Lines
from msshift_bench.runs.runsets import system_of
from msshift_bench.runs.sources import is_table

BLOCK = 50_000
"""Smallest number of lines of a block of complete queries."""

LEVEL = 1
"""Level of gzip: nine times faster than level 9, 11% larger; bytes are equal on all machines."""

_OTHERS = {".bz2", ".csv", ".json", ".jsonl", ".lz4", ".parquet", ".pkl", ".xz", ".zip", ".zst"}
"""Endings of names of other formats."""

_TEXT = pa.large_string()

Ranked = tuple[str, Mapping[str, float]]
"""A query id, and its ranking: doc id -> score."""


def write_run(
    path: str | PathLike[str],
    rankings: Mapping[str, Mapping[str, float]] | Iterable[Ranked],
    tag: str | None = None,
) -> None:
    """Write a run in TREC's six columns, atomically.

    A query's lines are in the order of the ``trec`` tie policy; a query without documents has none.
    Scores are read back as the same 32-bit floats. The bytes depend on the arguments only. The file
    is compressed if its name ends in ``.gz``.

    Args:
        path: the file to write.
        rankings: query id -> doc id -> score, as `read_run` returns it; or a stream of pairs of a
            query id and its doc id -> score.
        tag: the run tag; by default the name of the system's folder, if the path is in a run set,
            else ``msshift-bench``.

    Raises:
        UsageError: if the name ends in another format's or compression's suffix, or the rankings
            are a table, or a ranking is no mapping.
        RunError: if the file could not be read back: no query has a document; an id or the tag is
            not a string, is empty, or has white space or invalid Unicode; a score is not a finite
            number; or a query is repeated.

    Examples:
        >>> write_run("best.run.gz", {"q1": {"d3": 9.5, "d1": 8.75}}, tag="mine")
        >>> read_run("best.run.gz")
        {'q1': {'d3': 9.5, 'd1': 8.75}}
    """
    path = Path(path)
    tag = "_".join(system_of(path).split()) or "msshift-bench" if tag is None else tag
    if (end := Path(path.name.removesuffix(".gz")).suffix.lower()) in _OTHERS:
        raise UsageError(
            f"{path}: runs are written in TREC's six columns, plain or as .gz, not as {end}; "
            "choose a name that ends in .run or .run.gz"
        )
    if is_table(rankings) or not isinstance(rankings, Iterable):
        raise UsageError(
            f"rankings are query id -> doc id -> score, not {quoted(rankings)}; of a table pass "
            "read_run(table), of a Run of ranx to_dict()"
        )
    pairs = rankings.items() if isinstance(rankings, Mapping) else rankings
    _fields([tag], str(path))
    blocks = (_text(lines, tag) for lines in _lines(pairs, str(path)))
    with write_atomically(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as compressed:
                compressed.writelines(blocks)
        else:
            file.writelines(blocks)


class RankedRun(NamedTuple):
    """A run whose rankings are computed while it is read; it can be read once.

    Attributes:
        name: the name in messages.
        rankings: a stream of pairs of a query id and its doc id -> score.
        tag: the run tag.
    """

    name: str
    rankings: Iterable[Ranked]
    tag: str

    def lines(self, _file: int, _findings: Findings) -> Iterator[Lines]:
        """Yield the lines, numbered from 1; errors are raised as in `write_run`."""
        return _lines(self.rankings, self.name)


def _lines(rankings: Iterable[Ranked], name: str) -> Iterator[Lines]:
    """Yield a run's lines, some queries at a time, rankings in the order of the ``trec`` policy."""
    seen: set[str] = set()
    done = 0
    for part in _parts(rankings):
        queries = [query for query, _ in part]
        counts = np.array([len(documents) for _, documents in part])
        docs = _fields(list(chain.from_iterable(documents for _, documents in part)), name)
        values = list(chain.from_iterable(documents.values() for _, documents in part))
        scores, query_of = _numbers(values, name), np.repeat(np.arange(len(part)), counts)
        for row in np.flatnonzero(~np.isfinite(scores))[:1]:
            query = queries[query_of[row]]
            raise RunError(f"{name}: query {query!r} has a score that is not finite")
        for query in queries:
            if query in seen:
                raise RunError(f"{name}: query {query!r} is there twice")
            seen.add(query)
        if not _in_order(query_of, docs, scores):
            order = pc.sort_indices(
                pa.table({"query": query_of, "score": scores, "doc": docs}),
                sort_keys=[("query", "ascending"), ("score", "descending"), ("doc", "descending")],
            )
            docs, scores = docs.take(order), scores[order]
        numbers = np.arange(1, len(docs) + 1)
        ranks = numbers - (np.cumsum(counts) - counts)[query_of]
        ids = _fields(queries, name).take(pa.array(query_of)).cast(pa.binary())
        yield Lines(ids, docs.cast(pa.binary()), scores, ranks, numbers + done)
        done += len(docs)
    if not done:
        raise RunError(f"{name}: no query has a document, and an empty run cannot be read back")


def _numbers(values: Sequence[float], name: str) -> Vectors:
    """Return scores as 32-bit floats; NaN and infinite values are not checked.

    Raises:
        RunError: for the first value that cannot be converted to a float.
    """
    unread = iter(values)
    try:
        with np.errstate(over="ignore"):
            return np.fromiter(unread, np.float32, len(values))
    except (TypeError, ValueError, OverflowError):
        wrong = values[len(values) - len(list(unread)) - 1]
        raise RunError(f"{name}: {quoted(wrong)} is no score") from None


def _parts(rankings: Iterable[Ranked]) -> Iterator[list[Ranked]]:
    """Yield lists of queries with `BLOCK` lines or more; the last list may have fewer.

    A ranking that is no mapping raises `UsageError`.
    """
    part: list[Ranked] = []
    lines = 0
    for query, documents in rankings:
        if not hasattr(documents, "items"):
            raise UsageError(
                f"a ranking is doc id -> score, and query {quoted(query)} has {quoted(documents)}"
            )
        part.append((query, documents))
        lines += len(documents)
        if lines >= BLOCK:
            yield part
            part, lines = [], 0
    if part:
        yield part


def _fields(words: Sequence[str], name: str) -> pa.Array:
    """Return words as an Arrow array.

    Raises:
        RunError: for the first word that cannot be a field of a run file.
    """
    with suppress(UnicodeEncodeError, pa.ArrowTypeError):  # half of a surrogate pair; a number
        fields = pa.array(words, _TEXT)
        ends, text = _content(fields)
        # White space and NUL are bytes up to 32.
        if (ends[1:] > ends[:-1]).all() and not (text <= ord(" ")).any():
            return fields
    for word in words:
        if not isinstance(word, str):
            raise RunError(f"{name}: {word!r} is not a string; ids and the run tag must be strings")
        encoded = word.encode(errors="replace")
        if encoded.decode() != word or encoded.split() != [encoded] or b"\0" in encoded:
            raise RunError(f"{name}: {word!r} is empty, holds white space or is no Unicode text")
    return pa.array(words, _TEXT)


def _content(array: pa.Array) -> tuple[Ints, NDArray[np.uint8]]:
    """Return the offsets of an array's texts, and their concatenated bytes."""
    _, offsets, text = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[: len(array) + 1]
    return ends, np.frombuffer(text, np.uint8)[: ends[-1]]


def _text(lines: Lines, tag: str) -> memoryview:
    """Return lines with ranks as text in TREC's six columns."""
    iteration, last, space = (pa.scalar(text, _TEXT) for text in ("Q0", f"{tag}\n", " "))
    queries, docs, ranks = (
        pc.cast(column, _TEXT) for column in (lines.queries, lines.docs, pa.array(lines.ranks))
    )
    fields = queries, iteration, docs, ranks, _score_texts(lines.scores), last
    return _content(pc.binary_join_element_wise(*fields, space))[1].data


def _in_order(query_of: Ints, docs: pa.Array, scores: Vectors) -> bool:
    """Return whether each query's lines are sorted by score, then document id, both descending."""
    before, after = scores[:-1], scores[1:]
    same = query_of[:-1] == query_of[1:]
    if (same & (before < after)).any():
        return False
    ties = np.flatnonzero(same & (before == after))
    # Arrow compares UTF-8 bytes, as the reader does.
    return bool(
        pc.all(pc.greater(docs.take(pa.array(ties)), docs.take(pa.array(ties + 1)))).as_py()
    )


def _score_texts(scores: Vectors) -> pa.Array:
    """Return the shortest texts of 32-bit floats, as numpy prints them.

    Arrow gives equal texts, several times faster, for medium numbers that are not whole; all 222
    million positive ones were compared.
    """
    texts = pc.cast(pa.array(scores), _TEXT)
    size = np.abs(scores)
    is_other = (size < 0.001) | (size >= 100_000) | (size == np.floor(size))
    # By their bits, to distinguish 0.0 from -0.0.
    bits, which = np.unique(scores[is_other].view(np.int32), return_inverse=True)
    printed = pa.array([str(score) for score in bits.view(np.float32)], _TEXT)
    return pc.replace_with_mask(texts, pa.array(is_other), printed.take(pa.array(which)))
