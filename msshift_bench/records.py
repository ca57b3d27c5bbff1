"""The typed records that the rest of the package passes around."""

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
"""The splits of every experiment, in the order in which they are written."""

UNUSED = "unused"
"""The place of queries left over when every group of a shift trains with the same number."""

PLACES = (*SPLITS, UNUSED)
"""The places that a query of a whole shift may be in."""

OTHERS = "others"
"""The label of a query that no group of a shift takes."""


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
        """Return the text of a passage with this title."""
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
    """One judgement: relevant where ``relevance`` is at least 1."""

    query_id: str
    doc_id: str
    relevance: int


class Row(NamedTuple):
    """One row of a split: a query, its group, and the passages judged relevant to it.

    Attributes:
        query_id: the query's id.
        text: the query's text.
        group: the query's group, or `OTHERS`.
        relevant_doc_ids: the passages of relevance at least 1, doc_ids sorted.
        relevances: the relevance of each, in the same order.
    """

    query_id: str
    text: str
    group: str
    relevant_doc_ids: tuple[str, ...]
    relevances: tuple[int, ...]

    @classmethod
    def judged(cls, query_id: str, text: str, group: str, relevant: Mapping[str, int]) -> Row:
        """Return a row from doc_id -> relevance; only passages of relevance at least 1 count."""
        doc_ids = tuple(sorted(doc_id for doc_id, grade in relevant.items() if grade >= 1))
        return cls(query_id, text, group, doc_ids, tuple(map(relevant.__getitem__, doc_ids)))

    @property
    def relevant(self) -> dict[str, int]:
        """Return doc_id -> relevance, doc_ids sorted."""
        return dict(zip(self.relevant_doc_ids, self.relevances, strict=True))


@dataclass(frozen=True, slots=True)
class Grouping:
    """What a builder returns: a group for every query, and how it decided.

    Attributes:
        shift: the shift's name, e.g. ``"length"``.
        labels: ``query_id`` -> group, or `OTHERS`; every query given to the builder has one.
            Empty for an imported shift, whose rows say their groups.
        rule: the rule that decided, e.g. ``"word"``.
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
