"""From a grouping to training, validation and test queries.

The samples depend on the seed and the queries' ids alone, never on their position, their number or
the order in which a file lists them.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection as Sized
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from msshift_bench.data import QueryColumns
from msshift_bench.errors import DataError, UsageError
from msshift_bench.records import OTHERS, PLACES, UNUSED, Grouping, Row
from msshift_bench.shifts import SHIFTS, Shift, get_shift

__all__ = [
    "NANO_SIZES",
    "SPLIT_SCALE_RULE",
    "VALIDATION_SIZE",
    "ShiftSplits",
    "TrainSize",
    "sample",
    "sample_validation",
    "shrink",
    "split_shift",
]

VALIDATION_SIZE = 1600
"""Validation queries, which no shift touches (MS-Shift, section 4)."""

NANO_SIZES: Mapping[str, int] = {"train": 1500, "validation": 300, "test": 300}
"""Most queries of a small data set: per group for training and test, in all for validation."""

TrainSize = int | Literal["all"] | None
"""Training queries per group: a number, ``"all"`` that are left, or `None` for the default of
`split_shift`."""

_TEST_SHARE = 4
_VALIDATION_SHARE = 20

SPLIT_SCALE_RULE = (
    f"test: at most 1/{_TEST_SHARE} of a group's queries; "
    f"validation: at most 1/{_VALIDATION_SHARE} of all queries; "
    "training: of each group at most what the smallest has left"
)
"""How the sizes scale down for collections smaller than MS MARCO, in words."""


@dataclass(frozen=True, slots=True)
class ShiftSplits:
    """One shift, cut: every query that takes part, with its group, in exactly one of `PLACES`.

    Attributes:
        grouping: how the groups were made.
        rows: split -> rows, sorted by query_id. All belong to a group of the shift, but validation
            rows may be `OTHERS`, and the test set of a shift that comes in sizes has its own name.
            An imported shift may lack a split.
        sizes: the requested sizes, e.g. the test queries per group; JSON values.
    """

    grouping: Grouping
    rows: Mapping[str, tuple[Row, ...]]
    sizes: Mapping[str, object] = field(default_factory=dict)

    @property
    def shift(self) -> Shift:
        """The shift's row in the table."""
        return get_shift(self.grouping.shift)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of rows: group -> place -> rows.

        The test set of a shift that comes in sizes counts for each of its training sets.
        """
        table = {group: dict.fromkeys(PLACES, 0) for group in self.shift.groups}
        for split, rows in self.rows.items():
            for row in rows:
                if row.group in table:
                    table[row.group][split] += 1
        if self.shift.by_size:
            for placed in table.values():
                placed["test"] = len(self.rows["test"])
        return table


def sample(query_ids: Iterable[str], count: int, *, seed: int, purpose: str) -> frozenset[str]:
    """Choose the `count` ids with the smallest keyed hashes.

    Args:
        query_ids: the ids to choose from, in any order.
        count: how many to choose; all, if there are fewer.
        seed: the build's seed.
        purpose: the sample's purpose; samples for different purposes are independent.
    """
    key = f"{seed}/{purpose}".encode()
    keyed = (
        (hashlib.blake2b(query_id.encode(), digest_size=16, key=key).digest(), query_id)
        for query_id in query_ids
    )
    return frozenset(query_id for _, query_id in heapq.nsmallest(count, keyed))


def sample_validation(
    query_ids: Iterable[str], *, size: int, seed: int, reserved: Sized[str] = frozenset()
) -> frozenset[str]:
    """Choose the validation queries, the same for every shift; see `SPLIT_SCALE_RULE`.

    Args:
        query_ids: the ids to choose from.
        size: how many at most.
        seed: the build's seed.
        reserved: ids that must not be chosen: given test queries.
    """
    free = [query_id for query_id in query_ids if query_id not in reserved]
    count = min(size, len(free) // _VALIDATION_SHARE)
    return sample(free, count, seed=seed, purpose="validation")


def split_shift(
    grouping: Grouping,
    queries: QueryColumns,
    relevant: Mapping[str, Mapping[str, int]],
    validation: frozenset[str],
    *,
    test_size: int,
    train_size: TrainSize = None,
    tests: frozenset[str] | None = None,
    reserved: frozenset[str] = frozenset(),
    seed: int,
) -> ShiftSplits:
    """Cut a shift's queries into training, validation, test and unused rows.

    By default all groups give the same number of training queries: the paper's, or as many as the
    smallest group has left after test and validation. Otherwise a loss would partly measure size.
    ReSTTest's authors take all that each has; see `shifts.Shift.train_size`.

    Args:
        grouping: the groups; it labels every one of `queries`.
        queries: the queries that take part.
        relevant: query_id -> doc_id -> relevance of relevant passages, for every one of `queries`.
        validation: the queries set aside for validation, in no group's training or test set.
        test_size: test queries per group; scaled down by `SPLIT_SCALE_RULE`.
        train_size: training queries per group, exactly; ``"all"`` takes all that each has left, so
            that training sets differ in size.
        tests: the test queries of all groups, if they are given; else they are sampled.
        reserved: queries that no shift trains on: the given test queries of another shift.
        seed: the build's seed.

    Raises:
        DataError: if a group is too small to give one test query and one to train on, or if given
            test queries are in no group.
        UsageError: if a group has fewer training queries than `train_size`, or that is below 1.
    """
    shift = get_shift(grouping.shift)
    members: dict[str, list[str]] = {group: [] for group in shift.groups}
    for query_id, group in grouping.labels.items():
        if group != OTHERS and query_id not in validation:
            members[group].append(query_id)

    split_of = dict.fromkeys(validation, "validation")
    if tests is None:
        chosen = _sample_tests(shift, members, test_size, seed)
    else:
        chosen = _place_tests(shift, members, tests)
    left: dict[str, list[str]] = {}
    for group, query_ids in members.items():
        split_of.update(dict.fromkeys(query_ids, UNUSED))
        split_of.update(dict.fromkeys(chosen[group], "test"))
        left[group] = [q for q in query_ids if q not in chosen[group] and q not in reserved]
    for group, count in _training_sizes(shift, left, train_size).items():
        train = sample(left[group], count, seed=seed, purpose=f"train/{shift.name}/{group}")
        split_of.update(dict.fromkeys(train, "train"))

    texts = dict(zip(queries.ids, queries.texts, strict=True))
    rows: dict[str, list[Row]] = {place: [] for place in PLACES}
    for query_id in sorted(split_of):
        row = Row.judged(query_id, texts[query_id], grouping.labels[query_id], relevant[query_id])
        rows[split_of[query_id]].append(row)
    return ShiftSplits(
        grouping,
        {place: tuple(rows[place]) for place in PLACES},
        {
            "train_size": shift.train_size if train_size is None else train_size,
            **({"test_size": test_size} if tests is None else {"test_queries": len(tests)}),
            "scale": SPLIT_SCALE_RULE,
        },
    )


def _sample_tests(
    shift: Shift, members: Mapping[str, Sized[str]], size: int, seed: int
) -> dict[str, frozenset[str]]:
    """Return group -> test queries, scaled down by `SPLIT_SCALE_RULE`."""
    chosen = {}
    for group, query_ids in members.items():
        count = min(size, len(query_ids) // _TEST_SHARE)
        if count == 0:
            others = [s.name for s in SHIFTS.values() if s.in_ms_shift and s != shift]
            raise DataError(
                f"{shift.name}: group {group!r} ({shift.groups[group]}) has {len(query_ids)} "
                f"queries with a relevant passage; at least {_TEST_SHARE} are needed. "
                f"Leave {shift.name} out: 'msshift build {' '.join(others)}'"
            )
        chosen[group] = sample(query_ids, count, seed=seed, purpose=f"test/{shift.name}/{group}")
    return chosen


def _place_tests(
    shift: Shift, members: Mapping[str, Sized[str]], tests: frozenset[str]
) -> dict[str, frozenset[str]]:
    """Return group -> those of the given test queries that are in it."""
    chosen = {group: tests.intersection(query_ids) for group, query_ids in members.items()}
    if outside := sorted(tests.difference(*chosen.values())):
        raise DataError(
            f"{shift.name}: {len(outside)} of the {len(tests)} given test queries are in no group, "
            f"e.g. {outside[0]!r}; leave them out"
        )
    if empty := [group for group, query_ids in chosen.items() if not query_ids]:
        raise DataError(
            f"{shift.name}: none of the {len(tests)} given test queries is in group {empty[0]!r}; "
            "every group needs one"
        )
    return chosen


def _training_sizes(
    shift: Shift, left: Mapping[str, Sized[str]], train_size: TrainSize
) -> dict[str, int]:
    """Return how many training queries each group gives, of those it has left.

    Raises:
        DataError: if a group has none.
        UsageError: if a group has fewer than are requested, or fewer than 1 are requested.
    """
    held = {group: len(query_ids) for group, query_ids in left.items()}
    smallest = min(held, key=held.__getitem__)
    if not held[smallest]:
        raise DataError(
            f"{shift.name}: group {smallest!r} has nothing left to train on after test and "
            "validation; give fewer test queries, or a larger collection"
        )
    wanted = shift.train_size if train_size is None else train_size
    if wanted == "all":
        return held
    count = min(wanted, held[smallest]) if train_size is None else wanted
    if count < 1:
        raise UsageError(f"{shift.name}: {count} training queries of each group; ask for 1 or more")
    if count > held[smallest]:
        raise UsageError(
            f"{shift.name}: {count:,} training queries of each group are asked for, and group "
            f"{smallest!r} has {held[smallest]:,} left after test and validation; ask for at most "
            f"as many, or for 'all', which makes training sets of different sizes"
        )
    return dict.fromkeys(held, count)


def shrink(cut: ShiftSplits, *, seed: int) -> ShiftSplits:
    """Return a part of a shift's queries, for quick work; see `NANO_SIZES`.

    Every split is sampled from the same split of the full data set, so that a small data set never
    trains on test queries of the full one. Unused queries are left out.
    """

    def part(split: str, name: str, rows: Iterable[Row]) -> list[Row]:
        held = list(rows)
        purpose = f"nano/{split}/{name}"
        ids = [row.query_id for row in held]
        kept = sample(ids, NANO_SIZES[split], seed=seed, purpose=purpose)
        return [row for row in held if row.query_id in kept]

    smaller: dict[str, tuple[Row, ...]] = {}
    for split, rows in cut.rows.items():
        if split == UNUSED:
            smaller[split] = ()
        elif split == "validation":
            smaller[split] = tuple(part(split, "", rows))
        else:
            groups = (
                part(
                    split, f"{cut.shift.name}/{group}", (row for row in rows if row.group == group)
                )
                for group in (cut.shift.tested if split == "test" else cut.shift.groups)
            )
            smaller[split] = tuple(sorted(row for group in groups for row in group))
    return replace(cut, rows=smaller, sizes={**cut.sizes, "nano": dict(NANO_SIZES)})
