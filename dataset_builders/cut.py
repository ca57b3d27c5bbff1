"""From a grouping to training, validation and test queries: one table per shift.

The samples depend on the seed and the queries' ids alone, never on their position, their number or
the order in which a file lists them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection as Sized, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from msshift_bench.data import Collection
from msshift_bench.errors import DataError, UsageError
from msshift_bench.exclusions import Exclusions
from msshift_bench.plumbing import values_by_key
from msshift_bench.records import OTHERS, SPLITS, UNUSED, Grouping, Row
from msshift_bench.sampling import keyed_hash
from msshift_bench.search import sorted_words
from msshift_bench.shifts import SHIFTS, LabelledShift, Shift, get_shift

VALIDATION_SIZE = 1600
"""Validation queries, which no shift touches (MS-Shift, section 4)."""

WHOLE_SPLIT = "queries"
"""The one split of a config that holds a whole shift ("all" is a reserved word of datasets)."""

NANO_SIZES: Mapping[str, int] = {"train": 1500, "validation": 300, "test": 300}
"""Most queries of a small data set: per group for training and test, in all for validation."""

TrainSize = int | Literal["all"] | None
"""Training queries per group: a number, ``"all"`` that are left, or `None` for the default of
`cut_shift`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """How many queries a build samples for each purpose.

    Attributes:
        train_size: training queries per group; by default the paper's numbers, or what the smallest
            group has left; for `resttest`, as in its paper, ``"all"``. That takes whatever each
            group has left: training sets then differ in size, and manifest, card and reports say
            so.
        test_size: test queries per group; the paper's numbers by default. Scaled down for small
            collections by `SPLIT_SCALE_RULE`.
        test_queries: test queries for the shifts that take them (`shifts.Shift.takes_tests`)
            instead of a sample: their ids, or a file of ids, each on a line of its own. Each goes
            to its group by the shift's rule. No shift trains or validates on them.
        validation_size: validation queries, scaled down likewise.
        seed: the seed of every sample.
        nano: write a small part of every split; see `make_nano`.

    Raises:
        UsageError: for a size below 1 (of `validation_size`, below 0), or a seed beyond 64 bits.

    Examples:
        >>> samples = Samples(test_size=20, seed=1)
        >>> build_dataset("mini:300", ["length"], "small", samples=samples).parameters["test_size"]
        20
    """

    train_size: TrainSize = None
    test_size: int | None = None
    test_queries: str | Path | frozenset[str] | None = None
    validation_size: int = VALIDATION_SIZE
    seed: int = 0
    nano: bool = False

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.test_size is not None and self.test_size < 1:
            raise UsageError(f"{self.test_size} test queries of each group; ask for 1 or more")
        if self.validation_size < 0:
            raise UsageError(f"{self.validation_size} validation queries; ask for 0 or more")

    @property
    def resized(self) -> dict[str, object]:
        """The sizes of groups that are not the default ones, by name."""
        sizes = {"train_size": self.train_size, "test_size": self.test_size}
        return {name: size for name, size in sizes.items() if size is not None}


_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "text", "group", "split")),
        ("relevant_doc_ids", pa.list_(pa.string())),
        ("relevances", pa.list_(pa.int64())),
    ]
)

_NO_EXCLUSIONS = Exclusions()

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
        table: columns ``query_id``, ``text``, ``group``, ``split``, ``relevant_doc_ids`` and
            ``relevances``, sorted by query_id. All rows belong to a group of the shift, but those
            of ``validation`` may be `OTHERS`, and the test set of a shift that comes in sizes has
            its own name.
        sizes: the requested sizes, e.g. the test queries per group; JSON values.
    """

    grouping: Grouping
    table: pa.Table
    sizes: Mapping[str, object] = field(default_factory=dict)

    @property
    def shift(self) -> Shift:
        """The shift's row in the table."""
        return get_shift(self.grouping.shift)

    def values(self, *columns: str, split: str = "") -> Iterator[tuple[str, ...]]:
        """Yield the values of some columns of text, row by row.

        Args:
            columns: their names.
            split: only the rows of this split; of all, if empty.
        """
        table = self.table.filter(pc.field("split") == split) if split else self.table
        return zip(*(table[name].to_pylist() for name in columns), strict=True)

    def configs(self) -> Iterator[tuple[str, str, pc.Expression]]:
        """Yield config, split, and the condition on `table` that its rows meet."""
        yield self.shift.name, WHOLE_SPLIT, pc.scalar(True)
        by_size = self.shift.by_size
        for config, held_out in self.shift.configs.items():
            in_group = pc.field("group") == held_out
            rows_of = {
                "train": in_group if by_size else ~in_group,
                "validation": pc.scalar(True),
                "test": pc.scalar(True) if by_size else in_group,
            }
            for split in SPLITS:
                yield config, split, rows_of[split] & (pc.field("split") == split)

    def same_words(self, words: str = "whitespace") -> dict[str, int]:
        """Count the test queries of the words of a training query, spelling and order aside.

        Args:
            words: how texts are divided into words (`WORDS`).

        Returns:
            Group -> how many of the test queries of the experiment that is named after it have a
            training query of the same words; see ``same-words`` in docs/leakage.md.
        """
        tests = [
            (sorted_words(text, words), group)
            for text, group in self.values("text", "group", split="test")
        ]
        trained_in: dict[str, set[str]] = {key: set() for key, _ in tests}
        for text, group in self.values("text", "group", split="train"):
            key = sorted_words(text, words)
            if key in trained_in:
                trained_in[key].add(group)
        if self.shift.by_size:
            leaks = Counter(group for key, _ in tests for group in trained_in[key])
        else:
            leaks = Counter(group for key, group in tests if trained_in[key] - {group})
        return {group: leaks[group] for group in self.shift.groups}


def check_seed(seed: int) -> None:
    """Check that keyed hashes can take a seed: their keys hold 64 bytes, with the purpose.

    Raises:
        UsageError: if it needs more than 64 bits.
    """
    if not -(2**63) <= seed < 2**64:
        raise UsageError(f"seed {seed} is beyond 64 bits; give a smaller one")


def sample(query_ids: Iterable[str], count: int, *, seed: int, purpose: str) -> frozenset[str]:
    """Choose the `count` ids with the smallest keyed hashes.

    Args:
        query_ids: the ids to choose from, in any order.
        count: how many to choose; all, if there are fewer.
        seed: the build's seed.
        purpose: the sample's purpose; samples for different purposes are independent.
    """
    key = f"{seed}/{purpose}"
    keyed = ((keyed_hash(query_id, key), query_id) for query_id in query_ids)
    return frozenset(query_id for _, query_id in heapq.nsmallest(count, keyed))


def queries_table(collection: Collection, exclusions: Exclusions = _NO_EXCLUSIONS) -> pa.Table:
    """Return the queries that have a relevant passage; no other can be trained on or scored.

    Args:
        collection: the collection.
        exclusions: passages that are relevant to no query.

    Returns:
        The columns ``query_id``, ``text``, ``relevant_doc_ids`` (ascending) and ``relevances`` (1
        or more), sorted by query_id.

    Raises:
        CollectionError: if the queries or qrels are malformed.
        DataError: if there are none.
    """
    qrels = collection.qrels
    judged = (
        Row.judged(query_id, text, "", exclusions.left(query_id, qrels.get(query_id, {})))
        for query_id, text in collection.queries.items()
    )
    rows = [row for row in judged if row.relevant_doc_ids]
    if not rows:
        raise DataError(f"no query of {collection.name} has a relevant passage")
    return cut_table({"": rows}).drop_columns(["group", "split"])


def ids_and_texts(queries: pa.Table) -> dict[str, str]:
    """Return query_id -> text, what builders group by, of a `queries_table`."""
    return dict(zip(*(queries[name].to_pylist() for name in ("query_id", "text")), strict=True))


def cut_table(rows: Mapping[str, Sequence[Row]]) -> pa.Table:
    """Return the table of a `ShiftSplits` from split -> rows."""
    splits = [split for split, in_split in rows.items() for _ in in_split]
    columns = list(zip(*chain(*rows.values()), strict=True)) or [()] * len(Row._fields)
    values = dict(zip((*Row._fields, "split"), (*columns, splits), strict=True))
    arrays = [pa.array(values[field.name], field.type) for field in _COLUMNS]
    return pa.table(arrays, schema=_COLUMNS).sort_by("query_id")


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
    return sample(free, min(size, len(free) // _VALIDATION_SHARE), seed=seed, purpose="validation")


def cut_shift(
    grouping: Grouping,
    queries: pa.Table,
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
        queries: the queries that take part; see `queries_table`.
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
    for group, of_group in members.items():
        split_of.update(dict.fromkeys(of_group, UNUSED))
        split_of.update(dict.fromkeys(chosen[group], "test"))
        left[group] = [q for q in of_group if q not in chosen[group] and q not in reserved]
    for group, count in _training_sizes(shift, left, train_size).items():
        train = sample(left[group], count, seed=seed, purpose=f"train/{shift.name}/{group}")
        split_of.update(dict.fromkeys(train, "train"))

    query_ids = queries["query_id"].to_pylist()
    groups = pa.array(map(grouping.labels.__getitem__, query_ids), pa.string())
    splits = pa.array(map(split_of.get, query_ids), pa.string())
    table = queries.add_column(2, "group", groups).add_column(3, "split", splits)
    return ShiftSplits(
        grouping,
        table.filter(pc.is_valid(splits)),
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
            fix = f"Leave {shift.name} out: name the shifts {' '.join(others)}"
            if isinstance(shift.name, LabelledShift):
                fix = "Label more queries, or join the group with another"
            raise DataError(
                f"{shift.name}: group {group!r} ({shift.groups[group]}) has {len(query_ids)} "
                f"queries with a relevant passage; at least {_TEST_SHARE} are needed. {fix}"
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


def make_nano(cut: ShiftSplits, *, seed: int) -> ShiftSplits:
    """Return a part of a shift's queries, for quick work; see `NANO_SIZES`.

    Every split is sampled from the same split of the full data set, so that a small data set never
    trains on test queries of the full one. Unused queries are left out.
    """
    places = [
        (query_id, (split, "" if split == "validation" else f"{cut.shift.name}/{group}"))
        for query_id, group, split in cut.values("query_id", "group", "split")
    ]
    chosen = {
        (split, name): sample(ids, NANO_SIZES[split], seed=seed, purpose=f"nano/{split}/{name}")
        for (split, name), ids in values_by_key((place, id_) for id_, place in places).items()
        if split != UNUSED
    }
    in_part = [query_id in chosen.get(place, ()) for query_id, place in places]
    sizes = {**cut.sizes, "nano": dict(NANO_SIZES)}
    return replace(cut, table=cut.table.filter(pa.array(in_part, pa.bool_())), sizes=sizes)
