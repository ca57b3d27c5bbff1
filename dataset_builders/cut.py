"""Cut the groups of a shift into training, validation and test queries: one table per shift.

The samples depend on the seed and the queries' ids alone, not on the order of the queries in a
file.
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
"""Number of validation queries; no shift trains or tests on them (MS-Shift, section 4)."""

WHOLE_SPLIT = "queries"
"""The only split of a config with all queries of a shift (datasets reserves the name "all")."""

NANO_SIZES: Mapping[str, int] = {"train": 1500, "validation": 300, "test": 300}
"""Split -> most queries in a small data set: per group for training and test, else in total."""

TrainSize = int | Literal["all"] | None
"""Training queries per group: a number, ``"all"`` remaining ones, or `None` for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizes:
    """How many queries a build samples for each purpose.

    Attributes:
        train_size: training queries per group. The default is the paper's number, reduced to the
            remaining queries of the smallest group; for `resttest` it is ``"all"``, as in its
            paper. ``"all"`` takes all remaining queries of each group. Training sets then differ
            in size, and manifest, card and reports contain a note on it.
        test_size: test queries per group, the paper's number by default; scaled down for small
            collections by `SPLIT_SCALE_RULE`.
        test_queries: given test queries, for the shifts with `shifts.Shift.takes_tests`, in place
            of a sample: a set of ids, or a file with one id per line. The shift's rule puts each
            into its group. No shift trains or validates on them.
        validation_size: validation queries, scaled down by the same rule.
        seed: the seed of every sample.
        nano: write a small part of every split; see `make_nano`.

    Raises:
        UsageError: if `test_size` is below 1, `validation_size` below 0, or the seed beyond 64
            bits.

    Examples:
        >>> samples = SampleSizes(test_size=20, seed=1)
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
            raise UsageError(f"test size must be at least 1 per group, got {self.test_size}")
        if self.validation_size < 0:
            raise UsageError(f"validation size must be at least 0, got {self.validation_size}")

    @property
    def resized(self) -> dict[str, object]:
        """The training and test sizes that the user set: name -> size."""
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
"""The rule that scales sizes down for collections smaller than MS MARCO, as text."""


@dataclass(frozen=True, slots=True)
class ShiftSplits:
    """The queries of one shift, each with its group and exactly one of `records.PLACES`.

    Attributes:
        grouping: the groups, and how they were made.
        table: columns ``query_id``, ``text``, ``group``, ``split``, ``relevant_doc_ids`` and
            ``relevances``, sorted by query_id. Every row has a group of the shift, with two
            exceptions: validation rows may have `OTHERS`, and the test rows of a shift with sizes
            have the name of the test set, ``test``.
        sizes: the requested sizes, e.g. the test queries per group; JSON values.
    """

    grouping: Grouping
    table: pa.Table
    sizes: Mapping[str, object] = field(default_factory=dict)

    @property
    def shift(self) -> Shift:
        """The shift that `grouping` names."""
        return get_shift(self.grouping.shift)

    def values(self, *columns: str, split: str = "") -> Iterator[tuple[str, ...]]:
        """Yield the values of some columns, row by row.

        Args:
            columns: names of columns of strings.
            split: the split of the rows; if empty, all rows.
        """
        table = self.table.filter(pc.field("split") == split) if split else self.table
        return zip(*(table[name].to_pylist() for name in columns), strict=True)

    def configs(self) -> Iterator[tuple[str, str, pc.Expression]]:
        """Yield config, split, and the filter on `table` that selects its rows.

        The shift's own config, with all rows, comes first. A filter may select no row.
        """
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
        """Count the test queries that have the same words as a training query, in any order.

        Args:
            words: how texts are divided into words (`WORDS`).

        Returns:
            Group -> number of such test queries in its experiment, 0 for none; for a shift with
            sizes, the group is a training set. See ``same-words`` in docs/leakage.md.
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
    """Check that a seed is from -2^63 to 2^64 - 1, and so fits into the key of a keyed hash.

    Raises:
        UsageError: if it is not.
    """
    if not -(2**63) <= seed < 2**64:
        raise UsageError(f"seed {seed} is beyond 64 bits; give one from -2^63 to 2^64 - 1")


def sample(query_ids: Iterable[str], count: int, *, seed: int, purpose: str) -> frozenset[str]:
    """Choose the `count` ids with the smallest keyed hashes.

    Args:
        query_ids: the ids to choose from, in any order.
        count: how many ids to choose; all, if there are fewer.
        seed: the build's seed.
        purpose: the sample's purpose; samples for different purposes are independent.
    """
    key = f"{seed}/{purpose}"
    keyed = ((keyed_hash(query_id, key), query_id) for query_id in query_ids)
    return frozenset(query_id for _, query_id in heapq.nsmallest(count, keyed))


def queries_table(collection: Collection, exclusions: Exclusions = _NO_EXCLUSIONS) -> pa.Table:
    """Return the queries that have a relevant passage; other queries cannot be used.

    Args:
        collection: the collection.
        exclusions: passages that must not count for a query.

    Returns:
        The columns ``query_id``, ``text``, ``relevant_doc_ids`` (ascending) and ``relevances`` (1
        or more), sorted by query_id.

    Raises:
        CollectionError: if the queries or qrels are malformed.
        DataError: if no query has a relevant passage.
    """
    qrels = collection.qrels
    judged = (
        Row.judged(query_id, text, "", exclusions.left(query_id, qrels.get(query_id, {})))
        for query_id, text in collection.queries.items()
    )
    rows = [row for row in judged if row.relevant_doc_ids]
    if not rows:
        raise DataError(
            f"no query of {collection.name} has a relevant passage; check that its qrels have the "
            "ids of its queries"
        )
    return cut_table({"": rows}).drop_columns(["group", "split"])


def ids_and_texts(queries: pa.Table) -> dict[str, str]:
    """Return query_id -> text of a `queries_table`."""
    return dict(zip(*(queries[name].to_pylist() for name in ("query_id", "text")), strict=True))


def cut_table(rows: Mapping[str, Sequence[Row]]) -> pa.Table:
    """Return the table of a `ShiftSplits` from split -> rows, sorted by query_id."""
    splits = [split for split, in_split in rows.items() for _ in in_split]
    columns = list(zip(*chain(*rows.values()), strict=True)) or [()] * len(Row._fields)
    values = dict(zip((*Row._fields, "split"), (*columns, splits), strict=True))
    arrays = [pa.array(values[field.name], field.type) for field in _COLUMNS]
    return pa.table(arrays, schema=_COLUMNS).sort_by("query_id")


def sample_validation(
    query_ids: Iterable[str], *, size: int, seed: int, reserved: Sized[str] = frozenset()
) -> frozenset[str]:
    """Choose the validation queries of all shifts; see `SPLIT_SCALE_RULE`.

    Args:
        query_ids: the ids to choose from.
        size: the most ids to choose; none are chosen from fewer than 20.
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

    Queries in no group have no row, except validation queries.

    By default every group gets the same number of training queries: the paper's number, or all
    remaining queries of the smallest group. With unequal numbers, a loss would partly measure the
    size of the training set.

    Args:
        grouping: the groups, with a label for every query of `queries`.
        queries: the queries to cut; see `queries_table`.
        validation: the validation queries, which are in no training or test set.
        test_size: test queries per group; scaled down by `SPLIT_SCALE_RULE`.
        train_size: training queries per group, exactly. ``"all"`` takes all remaining queries, so
            that training sets differ in size.
        tests: the given test queries of all groups; if `None`, they are sampled.
        reserved: queries that no shift trains on: the given test queries of another shift.
        seed: the build's seed.

    Raises:
        DataError: if a group is too small for one test and one training query. Also if a given test
            query is in no group, or a group has none of them.
        UsageError: if `train_size` is below 1, or a group has fewer training queries.
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
    for group, group_ids in members.items():
        split_of.update(dict.fromkeys(group_ids, UNUSED))
        split_of.update(dict.fromkeys(chosen[group], "test"))
        left[group] = [q for q in group_ids if q not in chosen[group] and q not in reserved]
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
    """Return group -> test queries, scaled down by `SPLIT_SCALE_RULE`.

    A group of fewer than 4 queries raises DataError.
    """
    chosen = {}
    for group, query_ids in members.items():
        count = min(size, len(query_ids) // _TEST_SHARE)
        if count == 0:
            others = [s.name for s in SHIFTS.values() if s.in_ms_shift and s != shift]
            fix = f"Build only other shifts: {' '.join(others)}"
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
    """Return group -> its given test queries; DataError if a query or a group has none."""
    chosen = {group: tests.intersection(query_ids) for group, query_ids in members.items()}
    if outside := sorted(tests.difference(*chosen.values())):
        raise DataError(
            f"{shift.name}: {len(outside)} of the {len(tests)} given test queries are in no group, "
            f"e.g. {outside[0]!r}; remove them"
        )
    if empty := [group for group, query_ids in chosen.items() if not query_ids]:
        raise DataError(
            f"{shift.name}: none of the {len(tests)} given test queries is in group {empty[0]!r}; "
            "give at least one for every group"
        )
    return chosen


def _training_sizes(
    shift: Shift, left: Mapping[str, Sized[str]], train_size: TrainSize
) -> dict[str, int]:
    """Return group -> number of its training queries, at most its queries in `left`.

    Raises:
        DataError: if a group has no query left.
        UsageError: if `train_size` is below 1, or a group has fewer queries left.
    """
    counts = {group: len(query_ids) for group, query_ids in left.items()}
    smallest = min(counts, key=counts.__getitem__)
    if not counts[smallest]:
        raise DataError(
            f"{shift.name}: group {smallest!r} has no training queries left after test and "
            "validation; give fewer test queries, or a larger collection"
        )
    wanted = shift.train_size if train_size is None else train_size
    if wanted == "all":
        return counts
    count = min(wanted, counts[smallest]) if train_size is None else wanted
    if count < 1:
        raise UsageError(f"{shift.name}: train size must be at least 1 per group, got {count}")
    if count > counts[smallest]:
        raise UsageError(
            f"{shift.name}: train size is {count:,} per group, but group {smallest!r} has "
            f"{counts[smallest]:,} queries left after test and validation; give at most this many, "
            "or 'all', which makes training sets of different sizes"
        )
    return dict.fromkeys(counts, count)


def make_nano(cut: ShiftSplits, *, seed: int) -> ShiftSplits:
    """Return a small part of a shift's queries, for quick experiments; see `NANO_SIZES`.

    Every split is sampled from the same split of the full data set. So a small data set never
    trains on test queries of the full data set. Unused queries are removed.
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
