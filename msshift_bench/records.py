"""Typed records of passages, queries, judgements and rows of splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "OTHERS",
    "PLACES",
    "SPLITS",
    "UNUSED",
    "Grouping",
    "Passage",
    "Qrel",
    "Query",
    "Row",
    "TitledText",
]

SPLITS = ("train", "validation", "test")
"""Splits of every experiment, in the order in which they are written."""

UNUSED = "unused"
"""Name for queries in no split: groups with more queries are cut to equal numbers for training."""

PLACES = (*SPLITS, UNUSED)
"""All values for where a shift puts a query: a split, or `UNUSED`."""

OTHERS = "others"
"""Label of a query that belongs to no group of a shift."""


class Passage(NamedTuple):
    """One passage of a collection. Ids are always strings."""

    doc_id: str
    text: str


class TitledText(str):
    """The text of a passage that has a title: the title, a space and the rest.

    Attributes:
        heading: the title.
        body: the rest.

    Examples:
        >>> text = TitledText("Ponds", "Frogs live there.")
        >>> text, text.heading
        ('Ponds Frogs live there.', 'Ponds')
    """

    heading: str
    body: str

    def __new__(cls, heading: str, body: str) -> Self:
        """Return the text of a passage with a title (`heading`)."""
        text = super().__new__(cls, f"{heading} {body}".strip())
        text.heading, text.body = heading, body
        return text

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.heading, self.body


class Query(NamedTuple):
    """One query. Ids are always strings."""

    query_id: str
    text: str


class Qrel(NamedTuple):
    """One judgement: the passage is relevant if ``relevance`` is at least 1."""

    query_id: str
    doc_id: str
    relevance: int


class Row(NamedTuple):
    """One row of a split: a query, its group, and the passages judged relevant to it.

    Attributes:
        query_id: the query's id.
        text: the query's text; "" in a data set with ids only.
        group: the query's group, or `OTHERS`.
        relevant_doc_ids: the sorted doc_ids of passages with a relevance of at least 1.
        relevances: their relevances, in the same order.
    """

    query_id: str
    text: str
    group: str
    relevant_doc_ids: tuple[str, ...]
    relevances: tuple[int, ...]

    @classmethod
    def judged(cls, query_id: str, text: str, group: str, relevant: Mapping[str, int]) -> Row:
        """Return a row from ``relevant``: doc_id -> relevance; a relevance below 1 is ignored."""
        doc_ids = tuple(sorted(doc_id for doc_id, grade in relevant.items() if grade >= 1))
        return cls(query_id, text, group, doc_ids, tuple(map(relevant.__getitem__, doc_ids)))

    @property
    def relevant(self) -> dict[str, int]:
        """Return doc_id -> relevance, doc_ids sorted."""
        return dict(zip(self.relevant_doc_ids, self.relevances, strict=True))


@dataclass(frozen=True, slots=True)
class Grouping:
    """Result of a builder: a group for every query, with the rule and its parameters.

    Attributes:
        shift: the shift's name, e.g. ``"length"``.
        labels: ``query_id`` -> group or `OTHERS`, for every query given to the builder; empty for
            an imported shift, whose rows contain their groups.
        rule: the rule that assigned the groups, e.g. ``"word"``.
        parameters: the rule's parameters, e.g. ``{"cut": 6}``; JSON values only.
        found: further results, e.g. each topic's top terms; JSON values only.
        tables: path in the data set -> a table to publish with it, e.g. the clusters.
    """

    shift: str
    labels: Mapping[str, str]
    rule: str
    parameters: Mapping[str, object]
    found: Mapping[str, object] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
