"""The values of an indicator: of groups, of two sets of queries, and of single test queries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.data import Dataset, QueryColumns, open_dataset
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME, get_shift
from msshift_bench.similarity.indicators import (
    INDICATORS,
    Indicator,
    Ingredients,
    Tokenizer,
    find_indicator,
    split_words,
)
from msshift_bench.similarity.query_sets import (
    QuerySource,
    check_same_texts,
    group_queries,
    read_query_set,
)

__all__ = [
    "GroupSimilarity",
    "QuerySimilarity",
    "group_similarity",
    "query_similarity",
    "set_similarity",
]


@dataclass(frozen=True, slots=True)
class GroupSimilarity:
    """The value of an indicator for one group of a shift.

    Attributes:
        indicator: the indicator's name.
        shift: the shift's name.
        group: the group, whose queries are compared with those of the other groups together.
        value: the value; `Indicator.higher` says what a higher one means.
        queries: how many queries of the group counted.
        other_queries: how many of the other groups did; a query of two of them counts twice.
    """

    indicator: str
    shift: str
    group: str
    value: float
    queries: int
    other_queries: int


@dataclass(frozen=True, slots=True)
class QuerySimilarity:
    """The values of an indicator for single test queries.

    Attributes:
        indicator: the indicator's name.
        query_ids: the test queries, in the order of their source.
        values: one per test query, 64-bit floats, shape (queries,).
    """

    indicator: str
    query_ids: tuple[str, ...]
    values: Floats

    @property
    def mean(self) -> float:
        """The mean over the test queries, whatever their order."""
        return math.fsum(self.values.tolist()) / len(self.values)


def group_similarity(
    data: Dataset | str | Path = DATASET_NAME,
    shift: str = "topics",
    indicator: str = "weighted-jaccard",
    *,
    split: str = "test",
    against: str | None = None,
    tokenizer: Tokenizer = split_words,
) -> tuple[GroupSimilarity, ...]:
    """Say how near each group of a shift lies to the other groups together.

    Args:
        data: the built data set; see `open_dataset`.
        shift: the shift.
        indicator: a name in `INDICATORS`.
        split: the queries of the group that count: ``test``, ``train``, or ``all`` that it has.
        against: the queries of the other groups that count, likewise; by default as the indicator's
            row says.
        tokenizer: cuts a query into words; by default lower-cased, at white space.

    Returns:
        One value per group, in the shift's order.

    Raises:
        UnknownNameError: if there is no such shift, indicator or split.
        NotFoundError: if there is no built data set.
        DataError: if a group has no such queries, or none of them a word.
        MissingError: if the data set holds ids only.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    chosen, cut, dataset = find_indicator(indicator), get_shift(shift), open_dataset(data)
    other_split = against or (chosen.against if chosen.against != "same" else split)
    groups = group_queries(dataset, cut, split)
    others = groups if other_split == split else group_queries(dataset, cut, other_split)
    ingredients = Ingredients(tokenizer)
    found = []
    for group, queries in groups.items():
        rest = _together(others, but=group)
        value = _value(chosen, rest, queries, ingredients)
        found.append(GroupSimilarity(chosen.name, cut.name, group, value, len(queries), len(rest)))
    return tuple(found)


def set_similarity(
    train: QuerySource,
    test: QuerySource,
    indicator: str = "weighted-jaccard",
    *,
    tokenizer: Tokenizer = split_words,
) -> float:
    """Say how near a set of test queries lies to a set of training queries.

    Args:
        train: the training queries: a file of two tab-separated columns (query_id, text), query_id
            -> text, or what has a ``query_id`` and a ``text`` each, such as the rows of a split.
        test: the test queries, likewise.
        indicator: a name in `INDICATORS`; the value of one that is defined per query is the mean
            over the test queries.
        tokenizer: cuts a query into words; by default lower-cased, at white space.

    Returns:
        The value.

    Raises:
        UnknownNameError: if there is no such indicator.
        NotFoundError: if there is no such file.
        DataError: if a file is malformed, a set holds no query, or no word, or a query has another
            text in one set than in the other.
    """
    chosen = find_indicator(indicator)
    return _value(chosen, *_both(train, test), Ingredients(tokenizer))


def query_similarity(
    train: QuerySource,
    test: QuerySource,
    indicator: str,
    *,
    tokenizer: Tokenizer = split_words,
) -> QuerySimilarity:
    """Say how near each test query lies to a set of training queries.

    Args:
        train: the training queries; see `set_similarity`.
        test: the test queries, likewise.
        indicator: the name of an indicator that is defined per query.
        tokenizer: cuts a query into words; by default lower-cased, at white space.

    Returns:
        The values, one per test query.

    Raises:
        UnknownNameError: if there is no such indicator.
        UsageError: if it is defined for sets of queries only.
        NotFoundError: if there is no such file.
        DataError: as in `set_similarity`.
    """
    chosen = find_indicator(indicator)
    if not chosen.per_query:
        per_query = [name for name, row in INDICATORS.items() if row.per_query]
        raise UsageError(
            f"{chosen.name} is defined for sets of queries, not for single ones; defined per query "
            f"are: {', '.join(per_query) or 'none'}"
        )
    return _per_query(chosen, *_both(train, test), Ingredients(tokenizer))


def _both(train: QuerySource, test: QuerySource) -> tuple[QueryColumns, QueryColumns]:
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, tested)
    return training, tested


def _value(
    indicator: Indicator, train: QueryColumns, test: QueryColumns, ingredients: Ingredients
) -> float:
    if indicator.per_query:
        return _per_query(indicator, train, test, ingredients).mean
    return float(indicator.load()(train, test, ingredients))


def _per_query(
    indicator: Indicator, train: QueryColumns, test: QueryColumns, ingredients: Ingredients
) -> QuerySimilarity:
    values = np.asarray(indicator.load()(train, test, ingredients), dtype=np.float64)
    return QuerySimilarity(indicator.name, test.ids, values)


def _together(groups: Mapping[str, QueryColumns], *, but: str) -> QueryColumns:
    """Return the queries of all groups but one."""
    others = [queries for group, queries in groups.items() if group != but]
    return QueryColumns(
        tuple(chain.from_iterable(queries.ids for queries in others)),
        tuple(chain.from_iterable(queries.texts for queries in others)),
    )
