"""Passages excluded for a query: the passage with its own id, or passages listed in a file.

In ArguAna a query is a document of the collection. BRIGHT has a list of excluded documents. An
excluded passage is removed from runs and judgements before ties, cutoffs and depth apply. It is
never used as a negative.
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
"""Name of the rule that excludes, for each query, the passage with the query's id."""

EXCLUDED_NAME = "excluded.tsv"
"""Name of a data set's file with the pairs of query and passage that its build excluded."""

_Score = TypeVar("_Score")


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The excluded passages of each query; `bool` is false if there are none.

    Attributes:
        own_ids: whether each query excludes the passage with its own id.
        sha256: digest of the sorted lines ``query_id TAB doc_id``; "" without pairs.
        pairs: query_id -> its excluded doc_ids.
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
        """Return the exclusions of an option ``--exclude``.

        Args:
            source: ``"own-id"``; a file of lines ``query_id doc_id``, separated by a tab or
                spaces; `None` for no exclusions; or exclusions, which are returned unchanged.

        Raises:
            NotFoundError: if the file does not exist.
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
                f"--exclude: no file {str(source)!r}; use '--exclude {OWN_ID}', or a file of lines "
                "'query_id doc_id'"
            )
        pairs: dict[str, dict[str, None]] = {}
        for number, line in numbered_lines(path, findings):
            fields = [part.decode() for part in line.encode().split()]
            if len(fields) != 2:
                message = f"expected 2 fields (query_id doc_id), found {len(fields)}"
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
            facts: the `facts` in the data set's manifest; `None` for no exclusions.
            folder: the folder of the data set.

        Raises:
            NotFoundError: if the file of its pairs is missing.
            IntegrityError: if the file has changed.
            CollectionError: if the file is malformed or empty.
        """
        if facts is None:
            return cls()
        exclusions = cls.of(OWN_ID if facts == OWN_ID else folder / EXCLUDED_NAME)
        if exclusions.facts != facts:
            raise IntegrityError(
                f"{folder / EXCLUDED_NAME} has changed since the build; build the data set again "
                f"('msshift verify {folder}' lists all differences)"
            )
        return exclusions

    def __bool__(self) -> bool:
        return self.own_ids or bool(self.pairs)

    @property
    def facts(self) -> str | dict[str, object] | None:
        """The exclusions as JSON values for manifests, sidecars and results; `None` for none.

        They are ``"own-id"``, or the number and digest of the pairs.
        """
        own = OWN_ID if self.own_ids else None
        return {"pairs": self._count, "sha256": self.sha256} if self.pairs else own

    @property
    def described(self) -> str:
        """A description of the exclusions; "" for none."""
        own = f"{OWN_ID}, the passage with the query's own id" if self.own_ids else ""
        pairs = f"{self._count:,} pairs of a query and a passage ({self.sha256[:12]})"
        return pairs if self.pairs else own

    @property
    def _count(self) -> int:
        return sum(map(len, self.pairs.values()))

    @property
    def lines(self) -> str:
        """The pairs, sorted, as lines ``query_id TAB doc_id``; "" without pairs."""
        return _lines(self.pairs)

    def joined(self, given: Exclusions, place: str) -> Exclusions:
        """Return these exclusions of a data set, or `given` if the data set has none.

        Args:
            given: the exclusions of the option ``--exclude``.
            place: the data set, for the message.

        Raises:
            UsageError: if both have exclusions and they differ.
        """
        if self and given and self != given:
            raise UsageError(
                f"--exclude is {given.described}, but {place} was built with {self.described}; "
                "remove --exclude, or build the data set again"
            )
        return self or given

    def of_query(self, query_id: str) -> tuple[str, ...]:
        """Return the excluded doc_ids of a query; `()` if there are none."""
        return (query_id,) if self.own_ids else self.pairs.get(query_id, ())

    def most(self, rows: Iterable[Row]) -> int:
        """Return the largest number of excluded passages of one query in `rows`; 0 for no rows."""
        return max((len(self.of_query(row.query_id)) for row in rows), default=0) if self else 0

    def left(
        self, query_id: str, values: Mapping[str, _Score], depth: int | None = None
    ) -> dict[str, _Score]:
        """Return a query's ranking or judgements without its excluded passages, order unchanged.

        Args:
            query_id: the query.
            values: doc_id -> score or relevance.
            depth: maximum number of passages to keep, the first ones; by default all.
        """
        excluded = self.of_query(query_id)
        pairs = [pair for pair in values.items() if pair[0] not in excluded]
        return dict(pairs[:depth])

    def barring(self, rows: Sequence[Row]) -> list[Row]:
        """Return training queries with their excluded passages added as relevant (relevance 1).

        So no excluded passage can become a negative: negatives are never relevant.
        """
        changed = [
            Row.judged(*row[:3], dict.fromkeys(self.of_query(row.query_id), 1) | row.relevant)
            for row in (rows if self else ())
        ]
        return changed or list(rows)

    def check(self, queries: Mapping[str, str], passages: Iterable[Passage], name: str) -> None:
        """Check that the exclusions fit the queries and passages of a collection.

        Args:
            queries: query_id -> text.
            passages: the passages; read for `own_ids` only.
            name: the collection's name, for the message.

        Raises:
            UsageError: if there are pairs, but none for these queries. For `own_ids`: if no passage
                has a query's id, or most such passages do not contain the query's text.
        """
        if self.pairs and self.pairs.keys().isdisjoint(queries):
            raise UsageError(
                f"{self.source} excludes passages for {len(self.pairs):,} queries, e.g. "
                f"{next(iter(self.pairs))!r}, but {name} contains none of these queries; use a "
                f"file for the queries of {name}"
            )
        own = [passage for passage in passages if passage.doc_id in queries] if self.own_ids else []
        others = [
            doc_id
            for doc_id, text in own
            if f" {_plain(queries[doc_id])} " not in f" {_plain(text)} "
        ]
        if self.own_ids and (not own or 2 * len(others) > len(own)):
            reason = f"{len(others):,} of the {len(own):,} passages with the id of a query do not "
            reason += f"contain its text ({first_few(others)})"
            raise UsageError(
                f"--exclude {OWN_ID} requires that each query is a document with the same id, but "
                f"in {name} {reason if others else 'no passage has the id of a query'}; remove "
                "--exclude, or use a file of lines 'query_id doc_id'"
            )


ExclusionsSource = Exclusions | str | PathLike[str] | None
"""A source of exclusions; see `Exclusions.of`."""


def _lines(pairs: Mapping[str, tuple[str, ...]]) -> str:
    return "".join(f"{query}\t{doc}\n" for query, docs in pairs.items() for doc in docs)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
