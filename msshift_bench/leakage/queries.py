"""What is compared: test topics with their texts, and training queries as a stream of blocks."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from msshift_bench.errors import CollectionError, DataError, FindingLog, NotFoundError, UsageError
from msshift_bench.plumbing import (
    UTF8_BOM,
    DamagedInputError,
    batches,
    counted,
    numbered_lines,
    open_stream,
    tsv_rows,
)
from msshift_bench.records import Query
from msshift_bench.similarity import QuerySource, read_query_set

__all__ = ["TopicText", "TrainingStream", "read_topics"]

_FIELDS = {"title": "title", "desc": "description"}
"""Tags of TREC's topic files -> the texts that are compared; the narrative is none of them."""

_LABEL = re.compile(r"^(Number|Topic|Description)\s*:\s*", re.IGNORECASE)
_TAG = re.compile(
    r"<(top|num|title|desc|narr)>(.*?)(?=</?(?:top|num|title|desc|narr)>|\Z)", re.DOTALL
)
_MOST_TOPIC_BYTES = 1 << 26
_PEEK = 4096


class TopicText(NamedTuple):
    """One text of a test topic, which may have several: title, description, variants.

    Attributes:
        test_id: the topic.
        text: the text.
        field: what it is of the topic: ``title``, ``description``, or any other word; ``query``
            where a topic has one text.
    """

    test_id: str
    text: str
    field: str = "query"


def read_topics(source: QuerySource) -> tuple[TopicText, ...]:
    """Read test queries or topics, sorted.

    A file holds lines of query_id and text, separated by a tab, or of query_id, text and field,
    where an id may have several lines; or it is a file of TREC topics, of which title and
    description count.

    Raises:
        NotFoundError: if there is no such file.
        CollectionError: if it is malformed, repeats a text, or holds a topic without text.
        DataError: if there is no query.
    """
    if not isinstance(source, str | Path):
        queries = read_query_set(source)
        return tuple(sorted(map(TopicText, queries.ids, queries.texts)))
    path, findings = Path(source), FindingLog()
    topics = _trec_texts(path, findings) if _is_trec(path) else _columns(path, findings)
    line_of: dict[TopicText, int] = {}
    for line, topic in topics:
        if not topic.test_id:
            findings.add("empty-id", "the query_id is empty", str(path), line)
        elif not topic.text.strip():
            findings.add("empty-text", f"query {topic.test_id!r} has no text", str(path), line)
        elif topic in line_of:
            message = f"query {topic.test_id!r} has this text in line {line_of[topic]} already"
            findings.add("repeated-text", message, str(path), line, "keep one of the lines")
        else:
            line_of[topic] = line
    if not line_of and not len(findings):
        findings.add("no-queries", "the file holds no query", str(path))
    findings.stop_if_any(CollectionError, f"the test queries in {path} cannot be used:")
    return tuple(sorted(line_of))


def _columns(path: Path, findings: FindingLog) -> Iterator[tuple[int, TopicText]]:
    """Yield the texts of tab-separated lines; the first line says how many columns there are."""
    columns = 0
    known: set[str] = set()
    for number, line in numbered_lines(path, findings):
        fields = line.split("\t")
        columns = columns or len(fields)
        if len(fields) != columns or columns not in (2, 3):
            wanted = "2 (query_id, text) or 3 (query_id, text, field)"
            if columns in (2, 3):
                wanted = f"{columns}, as in the first line,"
            message = f"{len(fields)} tab-separated fields where {wanted} were expected"
            fix = "one text per line, fields separated by single tabs; or give TREC topics"
            findings.add("field-count", message, str(path), number, fix)
        elif columns == 2 and fields[0] in known:
            message = f"query_id {fields[0]!r} again"
            fix = "give each of a topic's texts a third column that names it, such as title"
            findings.add("repeated-id", message, str(path), number, fix)
        elif columns == 3 and len(fields[2].split()) != 1:
            message = f"{fields[2]!r} does not say what the text is of the topic"
            findings.add("bad-field", message, str(path), number, "name it by one word, as title")
        else:
            known.add(fields[0])
            yield number, TopicText(*fields)


def _is_trec(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with open_stream(path) as stream:
            return stream.read(_PEEK).removeprefix(UTF8_BOM).lstrip().startswith(b"<")
    except DamagedInputError:  # whoever reads its lines says where
        return False


def _trec_texts(path: Path, findings: FindingLog) -> Iterator[tuple[int, TopicText]]:
    """Yield the titles and descriptions of TREC's topics, whose tags need not be closed."""
    try:
        with open_stream(path) as stream:
            stored = stream.read(_MOST_TOPIC_BYTES + 1)
        if len(stored) > _MOST_TOPIC_BYTES:
            message = f"topics are at most {_MOST_TOPIC_BYTES:,} bytes; give queries in columns"
            findings.add("too-large", message, str(path))
            return
        text = stored.decode("utf-8")
    except (UnicodeDecodeError, DamagedInputError) as error:
        findings.add("not-utf8", f"the topics cannot be read: {error}", str(path))
        return
    test_id = ""
    for tag in _TAG.finditer(text):
        name, content = tag[1], _LABEL.sub("", " ".join(tag[2].split()))
        if name in ("top", "num"):
            test_id = content if name == "num" else ""
        elif name in _FIELDS:
            line = text.count("\n", 0, tag.start()) + 1
            yield line, TopicText(test_id, content, _FIELDS[name])


class TrainingStream:
    """Training queries that can be read several times, a block of them at a time in memory.

    Args:
        source: the queries. A file must be one on disk, since it is read more than once.

    Attributes:
        total: the number of queries; 0 before they were read to their end once.

    Raises:
        NotFoundError: if there is no such file.
        UsageError: if it is a pipe or a folder.
        DataError: if there is no query in memory.
    """

    def __init__(self, source: QuerySource) -> None:
        self._source = Path(source) if isinstance(source, str | Path) else read_query_set(source)
        self.total = 0
        if isinstance(self._source, Path) and not self._source.is_file():
            if self._source.exists():
                raise UsageError(f"{source} is read twice; give a file, no pipe and no folder")
            raise NotFoundError(f"there is no file {source}")

    def checked(self, test_texts: Mapping[str, Collection[str]]) -> Iterator[str]:
        """Yield the text of every query, and check the queries.

        Args:
            test_texts: query_id -> the texts of which a training query of this id must have one.

        Raises:
            CollectionError: at the end, if the file is malformed, repeats an id, holds a query
                without text, or holds none; with every such line.
            DataError: if a query has another text than the test query of its id.
        """
        findings = FindingLog()
        hashes = array("q")
        differing: list[Query] = []
        for query in counted(self._rows(findings), "read"):
            hashes.append(hash(query.query_id))
            if query.text not in test_texts.get(query.query_id, (query.text,)):
                differing.append(query)
            yield query.text
        self.total = len(hashes)
        if isinstance(self._source, Path):
            if not (self.total or len(findings)):
                findings.add("no-queries", "the file holds no query", str(self._source))
            self._add_repeated(self._source, hashes, findings)
            findings.stop_if_any(CollectionError, f"the queries in {self._source} cannot be used:")
        if differing:
            query_id, text = differing[0]
            raise DataError(
                f"{len(differing)} query ids have another text among the training queries than "
                f"among the test queries: {query_id!r} is {text!r} and "
                f"{min(test_texts[query_id])!r}; if the two number their queries each in its own "
                "way, say so (--separate-ids; in Python, separate_ids), or else give queries of "
                "one collection"
            )

    def blocks(self, size: int) -> Iterator[list[Query]]:
        """Yield the queries, after they were checked, in blocks and in their order."""
        rows = counted(self._rows(FindingLog()), "compare", self.total)
        return batches(rows, size)

    def _rows(self, findings: FindingLog) -> Iterator[Query]:
        if not isinstance(self._source, Path):
            yield from self._source
            return
        for line, (query_id, text) in tsv_rows(self._source, ("query_id", "text"), findings):
            if text.strip():
                yield Query(query_id, text)
            else:
                message = f"query {query_id!r} has no text"
                findings.add("empty-text", message, str(self._source), line)

    @staticmethod
    def _add_repeated(path: Path, hashes: array[int], findings: FindingLog) -> None:
        """Find repeated ids without holding them all: only those whose hashes occur twice."""
        distinct, counts = np.unique(np.frombuffer(hashes, dtype=np.int64), return_counts=True)
        suspected = set(distinct[counts > 1].tolist())
        rows = tsv_rows(path, ("query_id", "text"), FindingLog()) if suspected else ()
        known: set[str] = set()
        for line, (query_id, _) in rows:
            if query_id in known:
                findings.add("repeated-id", f"query_id {query_id!r} again", str(path), line)
            elif hash(query_id) in suspected:
                known.add(query_id)
