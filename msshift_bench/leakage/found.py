"""What was found: pairs of test topics and training queries, by tier, as tables and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msshift_bench.data import sha256_of
from msshift_bench.errors import UnknownNameError, UsageError
from msshift_bench.output import Table, plain, report_head, with_head
from msshift_bench.plumbing import (
    check_folder,
    replace_folder,
    with_checksum,
    write_json,
    write_parquet,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CANDIDATES_NAME",
    "FOUND_NAME",
    "TIERS",
    "FoundLeakage",
    "LeakedPair",
    "NEAR_TIER",
    "PASSAGE_TIER",
    "TierCount",
    "check_own_folder",
    "tiers_up_to",
]

TIERS = ("same-text", "same-normalised", "same-words", "near-duplicate", "same-passage")
"""The tiers of evidence, from the strictest to the loosest."""

NEAR_TIER, PASSAGE_TIER = TIERS[-2:]

CANDIDATES_NAME, FOUND_NAME = "candidates.parquet", "found.json"

_ANY_TEXT = "any of these"


def tiers_up_to(tier: str) -> tuple[str, ...]:
    """Return a tier and those that are stricter.

    Raises:
        UnknownNameError: if there is no such tier.
    """
    if tier not in TIERS:
        raise UnknownNameError("tier", tier, TIERS)
    return TIERS[: TIERS.index(tier) + 1]


class LeakedPair(NamedTuple):
    """A training query that may leak a test topic.

    Attributes:
        test_id: the test topic.
        train_id: the training query.
        tier: one of `TIERS`; of those that compare texts, the strictest.
        cosine: of the two texts; `None` where the tier needs none.
        test_text: the topic's text that is meant.
        train_text: the training query's text.
    """

    test_id: str
    train_id: str
    tier: str
    cosine: float | None
    test_text: str
    train_text: str


class TierCount(NamedTuple):
    """How much leaks: pairs, and how many topics and training queries they hold."""

    pairs: int
    topics: int
    queries: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> TierCount:
        """Count pairs of test_id and train_id."""
        distinct = set(pairs)
        tests, trains = ({pair[place] for pair in distinct} for place in (0, 1))
        return cls(len(distinct), len(tests), len(trains))


@dataclass(frozen=True, slots=True, repr=False)
class FoundLeakage:
    """Training queries that may leak test topics.

    Attributes:
        pairs: by test_id, train_id and tier. A pair is once among the tiers that compare texts, and
            once more if it shares a passage.
        topics: how many test topics there are.
        queries: how many training queries.
        fields: a topic's kind of text, such as ``title`` -> what leaks through it, by text.
        facts: the sources with their digests, the encoder, the threshold; JSON values.
    """

    pairs: tuple[LeakedPair, ...]
    topics: int
    queries: int
    fields: Mapping[str, TierCount]
    facts: Mapping[str, object]

    def __repr__(self) -> str:
        return f"<FoundLeakage: {len(self.pairs):,} pairs of {self.topics:,} test topics>"

    def count(self, *tiers: str) -> TierCount:
        """Count what leaks at some tiers, all of them by default.

        Args:
            tiers: some of `TIERS`.
        """
        wanted = tiers or TIERS
        return TierCount.of((one.test_id, one.train_id) for one in self.pairs if one.tier in wanted)

    def tables(self) -> list[Table]:
        """Return the counts by tier, and by the topics' texts where a topic may have several."""
        searched = TIERS if self.facts.get("train_qrels") else TIERS[:-1]
        rows = [self._row(tier, self.count(tier)) for tier in searched]
        rows.append(self._row(_ANY_TEXT, self.count(*searched)))
        what = f"{self.topics:,} test topics and {self.queries:,} training queries"
        tables = [
            Table.plain(
                f"What may leak, of {what}",
                ("tier", "pairs", "training queries", "test topics", "of all topics"),
                rows,
            )
        ]
        if len(self.fields) > 1:
            union = self.count(*TIERS[:-1])
            by_field = [*self.fields.items(), ("union", union)]
            tables.append(
                Table.plain(
                    "By the topics' texts (T: topics, Q: training queries)",
                    ("candidates", "T", "Q"),
                    [(field, f"{one.topics:,}", f"{one.queries:,}") for field, one in by_field],
                )
            )
        return tables

    def notes(self) -> list[str]:
        """Return what the figures rest on, for the lines below the tables."""
        encoder = self.facts["encoder"]
        name = encoder["encoder"] if isinstance(encoder, Mapping) else encoder
        return [
            f"near-duplicate: a cosine of at least {self.facts['threshold']} under {name}, the "
            f"{self.facts['nearest']} nearest of each text",
            "a pair counts at the strictest of the tiers that compare texts",
        ]

    def _row(self, name: str, one: TierCount) -> tuple[str, ...]:
        share = f"{100 * one.topics / self.topics:.1f}%"
        return (name, f"{one.pairs:,}", f"{one.queries:,}", f"{one.topics:,}", share)

    def to_json(self) -> dict[str, Any]:
        """Return parameters and counts, without the pairs, as plain JSON values."""
        return {
            **report_head(),
            **plain(self.facts),
            "test_topics": self.topics,
            "training_queries": self.queries,
            "tiers": {tier: plain(self.count(tier)) for tier in TIERS},
            "any_tier": plain(self.count()),
            "fields": {field: plain(one) for field, one in self.fields.items()},
        }

    def table(self) -> pa.Table:
        """Return the pairs as an Arrow table, the columns being the fields of `LeakedPair`."""
        import pyarrow as pa

        types = dict.fromkeys(LeakedPair._fields, pa.string()) | {"cosine": pa.float32()}
        return pa.table(
            {
                name: pa.array([getattr(one, name) for one in self.pairs], type=kind)
                for name, kind in types.items()
            }
        )

    def write(self, folder: str | Path) -> None:
        """Write ``candidates.parquet`` and ``found.json`` to a folder, both or none.

        Args:
            folder: the folder; what `write` wrote there before is replaced.

        Raises:
            UsageError: if it holds other files, or another process is writing it.
        """
        check_own_folder(Path(folder))
        with replace_folder(Path(folder)) as new:
            write_parquet(new / CANDIDATES_NAME, with_head(self.table(), report_head()))
            digest = sha256_of(new / CANDIDATES_NAME)
            facts = {**self.to_json(), "candidates_sha256": digest}
            write_json(new / FOUND_NAME, with_checksum(facts))


def check_own_folder(
    folder: Path,
    names: Iterable[str] = (CANDIDATES_NAME, FOUND_NAME),
    marks: Iterable[str] = (),
) -> None:
    """Check that a folder can be replaced, before anything is computed.

    Args:
        folder: the folder.
        names: the files that it may hold; by default those that `FoundLeakage.write` writes.
        marks: those of them that it must hold, unless it is empty, as others may hold the rest.

    Raises:
        UsageError: if it holds other files, or another process is writing it.
        OSError: if it cannot be written.
    """
    check_folder(folder)
    if folder.is_dir():
        present = {path.name for path in folder.iterdir()}
        others = sorted(present - set(names)) or (sorted(present) if set(marks) - present else [])
        if others:
            raise UsageError(
                f"{folder} holds {others[0]}, which would be lost; give another folder, or move it "
                "away"
            )
