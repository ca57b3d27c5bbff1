"""Test topics with their texts, in columns or as TREC writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msshift_bench.errors import CollectionError, FindingLog
from msshift_bench.plumbing import (
    UTF8_BOM,
    DamagedInputError,
    numbered_lines,
    open_stream,
)
from msshift_bench.similarity import QuerySource, read_query_set

__all__ = ["TopicText", "read_topics"]

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
