"""Passages that must not count for a query: its own document, or passages that a file names.

In ArguAna a query is a document of the collection, and BRIGHT has a list of excluded documents. An
excluded passage is removed from runs and judgements before ties, cutoffs and depth, and it is no
negative.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TypeVar

from msshift_bench.errors import (
    CollectionError,
    FindingLog,
    IntegrityError,
    NotFoundError,
    UsageError,
    first_few,
)
from msshift_bench.plumbing import numbered_lines
from msshift_bench.records import Passage, Row

OWN_ID = "own-id"
"""The name of the rule that excludes, for each query, the passage with the query's own id."""

EXCLUDED_NAME = "excluded.tsv"
"""The file of a data set with the pairs that its build excluded."""

_Score = TypeVar("_Score")


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The passages that must not count, by query; false if there are none.

    Attributes:
        own_ids: whether a query excludes the passage with its own id.
        sha256: digest of the sorted lines ``query_id TAB doc_id``; "" without pairs.
        pairs: query_id -> the doc_ids that it excludes.
        source: the file of the pairs.

    Examples:
        >>> own = Exclusions.of("own-id")
        >>> own.of_query("q1"), own.left("q1", {"q1": 9.0, "d3": 8.0})
        (('q1',), {'d3': 8.0})
    """

    own_ids: bool = False
    sha256: str = ""
    pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    source: str = field(default="", compare=False)

    @classmethod
    def of(cls, source: ExclusionsSource) -> Exclusions:
        """Return the exclusions that ``--exclude`` names; a value that is open already as it is.

        Args:
            source: ``"own-id"``; a file of lines ``query_id doc_id``, separated by a tab or
                spaces; or `None`, which excludes nothing.

        Raises:
            NotFoundError: if there is no such file.
            UsageError: if it is a folder.
            CollectionError: if the file is malformed or empty, with every malformed line.
        """
        if source is None or isinstance(source, Exclusions):
            return source or cls()
        if source == OWN_ID:
            return cls(own_ids=True)
        path, findings = Path(source), FindingLog()
        if not path.exists():
            raise NotFoundError(
                f"--exclude is {str(source)!r}, and there is no such file; give {OWN_ID}, or a "
                "file of lines 'query_id doc_id'"
            )
        pairs: dict[str, dict[str, None]] = {}
        for number, line in numbered_lines(path, findings):
            fields = [part.decode() for part in line.encode().split()]
            if len(fields) != 2:
                message = f"{len(fields)} fields where 2 were expected (query_id doc_id)"
                fix = "write one pair per line, separated by a tab or a space"
                findings.add("field-count", message, str(path), number, fix)
            else:
                pairs.setdefault(fields[0], {})[fields[1]] = None
        if not (pairs or len(findings)):
            findings.add("empty-file", "the file excludes no passage", str(path))
        findings.stop_if_any(CollectionError, f"the exclusions in {path} cannot be used:")
        sorted_pairs = {query_id: tuple(sorted(pairs[query_id])) for query_id in sorted(pairs)}
        digest = hashlib.sha256(_lines(sorted_pairs).encode()).hexdigest()
        return cls(sha256=digest, pairs=sorted_pairs, source=str(path))

    @classmethod
    def recorded(cls, facts: object, folder: Path) -> Exclusions:
        """Return the exclusions of a built data set.

        Args:
            facts: the `facts` in its manifest; `None` if it records none.
            folder: its folder.

        Raises:
            NotFoundError: if the file of its pairs is missing.
            IntegrityError: if the file has changed.
        """
        if facts is None:
            return cls()
        exclusions = cls.of(OWN_ID if facts == OWN_ID else folder / EXCLUDED_NAME)
        if exclusions.facts != facts:
            raise IntegrityError(
                f"{folder / EXCLUDED_NAME} has changed since it was built; 'msshift verify "
                f"{folder}' says more, build it again"
            )
        return exclusions

    def __bool__(self) -> bool:
        return self.own_ids or bool(self.pairs)

    @property
    def facts(self) -> str | dict[str, object] | None:
        """The exclusions in manifests, sidecars and results, as JSON values; `None` for none."""
        own = OWN_ID if self.own_ids else None
        return {"pairs": self._count, "sha256": self.sha256} if self.pairs else own

    @property
    def described(self) -> str:
        """The exclusions in words; "" for none."""
        own = f"{OWN_ID}, the passage with the query's own id" if self.own_ids else ""
        pairs = f"{self._count:,} pairs of a query and a passage ({self.sha256[:12]})"
        return pairs if self.pairs else own

    @property
    def _count(self) -> int:
        return sum(map(len, self.pairs.values()))

    @property
    def lines(self) -> str:
        """The pairs, sorted, as the lines of a file."""
        return _lines(self.pairs)

    def joined(self, given: Exclusions, place: str) -> Exclusions:
        """Return these exclusions, or those that are given where these are none.

        Args:
            given: what ``--exclude`` names.
            place: the data set that records these, for the message.

        Raises:
            UsageError: if both exclude something, and not the same.
        """
        if self and given and self != given:
            raise UsageError(
                f"--exclude names {given.described}, and {place} was built with {self.described}; "
                "leave --exclude out, or build the data set again"
            )
        return self or given

    def of_query(self, query_id: str) -> tuple[str, ...]:
        """Return the doc_ids that a query excludes."""
        return (query_id,) if self.own_ids else self.pairs.get(query_id, ())

    def most(self, rows: Iterable[Row]) -> int:
        """Return the largest number of passages that one of some queries excludes."""
        return max((len(self.of_query(row.query_id)) for row in rows), default=0) if self else 0

    def left(
        self, query_id: str, values: Mapping[str, _Score], depth: int | None = None
    ) -> dict[str, _Score]:
        """Return a query's ranking or judgements without excluded passages.

        Args:
            query_id: the query.
            values: doc_id -> score or relevance.
            depth: the most passages to keep, the first ones; all by default.
        """
        excluded = self.of_query(query_id)
        pairs = [pair for pair in values.items() if pair[0] not in excluded]
        return dict(pairs[:depth])

    def barring(self, rows: Sequence[Row]) -> list[Row]:
        """Return training queries whose relevant passages include the excluded ones.

        Negatives are never relevant, so that none is excluded, either.
        """
        barred = [
            Row.judged(*row[:3], dict.fromkeys(self.of_query(row.query_id), 1) | row.relevant)
            for row in (rows if self else ())
        ]
        return barred or list(rows)

    def check(self, queries: Mapping[str, str], passages: Iterable[Passage], name: str) -> None:
        """Check that the exclusions fit the queries and passages of a collection.

        Args:
            queries: query_id -> text.
            passages: the passages; read for `own_ids` only.
            name: the collection's name, for the message.

        Raises:
            UsageError: if no pair is of one of the queries; or if, for `own_ids`, most passages
                with the id of a query do not contain its text, or there is no such passage.
        """
        if self.pairs and self.pairs.keys().isdisjoint(queries):
            raise UsageError(
                f"{self.source} excludes passages of {len(self.pairs):,} queries, e.g. "
                f"{next(iter(self.pairs))!r}, and {name} has none of these queries; give a file "
                "of its queries"
            )
        own = [one for one in passages if one.doc_id in queries] if self.own_ids else []
        others = [
            doc_id
            for doc_id, text in own
            if f" {_plain(queries[doc_id])} " not in f" {_plain(text)} "
        ]
        if self.own_ids and (not own or 2 * len(others) > len(own)):
            found = f"{len(others):,} of the {len(own):,} passages with the id of a query do not "
            found += f"contain its text ({first_few(others)})"
            raise UsageError(
                f"--exclude {OWN_ID} is for queries that are documents under the same id, and in "
                f"{name} {found if others else 'no passage has the id of a query'}; leave "
                "--exclude out, or give a file of lines 'query_id doc_id'"
            )


ExclusionsSource = Exclusions | str | PathLike[str] | None
"""What excludes passages; see `Exclusions.of`."""


def _lines(pairs: Mapping[str, tuple[str, ...]]) -> str:
    return "".join(f"{query}\t{doc}\n" for query, docs in pairs.items() for doc in docs)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
