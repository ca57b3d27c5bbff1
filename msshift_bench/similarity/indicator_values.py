"""The values of an indicator: of groups, of two sets of queries, and of single test queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Unpack

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Dataset, Manifest, QueryColumns, open_dataset, open_source
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift
from msshift_bench.similarity.gathering import check_options, gather, gather_of_model
from msshift_bench.similarity.indicators import INDICATORS, Indicator, find_indicator
from msshift_bench.similarity.ingredients import IndicatorOptions, Ingredients
from msshift_bench.similarity.kept_models import models_of_shift
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

_NO_QUERIES = QueryColumns((), ())


@dataclass(frozen=True, slots=True, eq=False)
class QuerySimilarity:
    """The values of an indicator for single test queries.

    Attributes:
        indicator: the indicator's name.
        query_ids: the test queries, in the order of their source.
        values: one per test query, 64-bit floats, shape (queries,).
        nearest: of ``nearest-query`` the nearest training query of each test query, in the same
            order; empty of the others.
        facts: what decided the values beyond the queries, as JSON values: the encoder or the model
            with its digest, or the collection.
    """

    indicator: str
    query_ids: tuple[str, ...]
    values: Floats
    nearest: QueryColumns = _NO_QUERIES
    facts: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<QuerySimilarity: {self.indicator} of {len(self.query_ids):,} queries>"

    @property
    def mean(self) -> float:
        """The mean over the test queries, whatever their order."""
        return math.fsum(self.values.tolist()) / len(self.values)

    @property
    def ranks(self) -> Ints:
        """The place of each test query from the nearest (1) on, of a control from the clearest on.

        Queries of one value share the first of their places. The shape is (queries,).
        """
        values = self.values if INDICATORS[self.indicator].higher == "farther" else -self.values
        ranks: Ints = np.searchsorted(np.sort(values), values) + 1
        return ranks


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
        per_query: the values of the group's queries, if the indicator is defined per query; `value`
            is then their mean.
    """

    indicator: str
    shift: str
    group: str
    value: float
    queries: int
    other_queries: int
    per_query: QuerySimilarity | None = field(default=None, compare=False, repr=False)


def group_similarity(
    data: Dataset | str | Path = DATASET_NAME,
    shift: str = "topics",
    indicator: str = "weighted-jaccard",
    *,
    split: str = "test",
    against: str | None = None,
    **options: Unpack[IndicatorOptions],
) -> tuple[GroupSimilarity, ...]:
    """Say how near each group of a shift lies to the other groups together.

    Args:
        data: the built data set; see `open_dataset`.
        shift: the shift.
        indicator: a name in `INDICATORS`.
        split: the queries of the group that count: ``test``, ``train``, or ``all`` that it has.
        against: the queries of the other groups that count, likewise; by default as the indicator's
            row says.
        **options: how the indicator is computed: ``tokenizer``, ``encoder``, ``pooling``,
            ``models``, ``seed``, ``collection``, ``depth``, ``progress``; see `IndicatorOptions`.

    Returns:
        One value per group, in the shift's order.

    Raises:
        UnknownNameError: if there is no such shift, indicator or split.
        UsageError: if the indicator lacks an option, does not take one, the collection is not the
            one that the data set was built from, or the models differ in the width of their
            vectors.
        NotFoundError: if there is no built data set, encoder or collection.
        DataError: if a group has no such queries, or none of them a word, or the models were
            trained on another data set.
        MissingError: if the data set holds ids only, a model was not kept, or libraries are not
            installed.
        IntegrityError: if a file is missing or is not the one that was built.
    """
    chosen, cut, dataset = find_indicator(indicator), get_shift(shift), open_dataset(data)
    if chosen.needs == "collection":
        source = open_source(dataset, options.get("collection"))
        dataset.check_built_from(source)
        options["collection"] = source
    check_options(chosen, options)
    groups = group_queries(dataset, cut, split)
    others: Mapping[str, QueryColumns] = {}
    if chosen.against:
        other_split = against or (split if chosen.against == "same" else chosen.against)
        others = groups if other_split == split else group_queries(dataset, cut, other_split)
    elif against is not None:
        raise UsageError(f"{chosen.name} looks at the group's queries alone; leave 'against' out")
    else:
        return _alone(chosen, cut, groups, options)
    found = []
    for group, ingredients in _of_groups(chosen, cut, groups, others, options, dataset.manifest):
        rest = _together(others, but=group)
        per_query = None
        if chosen.per_query:
            per_query = _per_query(chosen, rest, groups[group], ingredients)
            value = per_query.mean
        else:
            value = _of_sets(chosen, rest, groups[group], ingredients)
        sizes = (len(groups[group]), len(rest))
        found.append(GroupSimilarity(chosen.name, cut.name, group, value, *sizes, per_query))
    return tuple(found)


def _alone(
    indicator: Indicator,
    shift: Shift,
    groups: Mapping[str, QueryColumns],
    options: IndicatorOptions,
) -> tuple[GroupSimilarity, ...]:
    """Return the values of an indicator that compares with nothing: one pass for all groups."""
    everything = _together(groups, but="")
    ingredients = gather(indicator, options, everything.texts, "")
    values = _per_query(indicator, _NO_QUERIES, everything, ingredients).values
    found = []
    start = 0
    for group, queries in groups.items():
        own = values[start : start + len(queries)]
        start += len(queries)
        per_query = QuerySimilarity(indicator.name, queries.ids, own, facts=ingredients.facts)
        sizes = (len(queries), 0)
        found.append(
            GroupSimilarity(indicator.name, shift.name, group, per_query.mean, *sizes, per_query)
        )
    return tuple(found)


def _of_groups(
    indicator: Indicator,
    shift: Shift,
    groups: Mapping[str, QueryColumns],
    others: Mapping[str, QueryColumns],
    options: IndicatorOptions,
    manifest: Manifest,
) -> Iterator[tuple[str, Ingredients]]:
    """Yield each group and what its value is computed with."""
    if indicator.needs != "model":
        everything = chain(*(queries.texts for queries in (*groups.values(), *others.values())))
        layout = str(manifest.collection.get("layout", ""))
        ingredients = gather(indicator, options, everything, layout)
        yield from ((group, ingredients) for group in groups)
        return
    models = options.get("models")
    assert models is not None
    folders = models_of_shift(models, shift, options.get("seed"), manifest.content_digest)
    widths: dict[str, int] = {}
    for group, folder in folders.items():
        texts = chain(groups[group].texts, _together(others, but=group).texts)
        ingredients = gather_of_model(folder, options, texts)
        assert ingredients.vectors is not None
        widths[group] = ingredients.vectors.vectors.shape[1]
        first = next(iter(widths))
        if widths[group] != widths[first]:
            raise UsageError(
                f"the model without {group} gives vectors of {widths[group]} components, and the "
                f"one without {first} of {widths[first]}; give the models of one system"
            )
        yield group, ingredients


def set_similarity(
    train: QuerySource,
    test: QuerySource,
    indicator: str = "weighted-jaccard",
    **options: Unpack[IndicatorOptions],
) -> float:
    """Say how near a set of test queries lies to a set of training queries.

    Args:
        train: the training queries: a file of two tab-separated columns (query_id, text), query_id
            -> text, or what has a ``query_id`` and a ``text`` each, such as the rows of a split.
        test: the test queries, likewise.
        indicator: a name in `INDICATORS`; the value of one that is defined per query is the mean
            over the test queries.
        **options: how the indicator is computed: ``tokenizer``, ``encoder``, ``pooling``,
            ``models``, ``seed``, ``collection``, ``depth``, ``progress``; see `IndicatorOptions`.

    Returns:
        The value.

    Raises:
        UnknownNameError: if there is no such indicator.
        UsageError: if the indicator lacks an option, or does not take one.
        NotFoundError: if there is no such file, encoder or collection.
        DataError: if a file is malformed, a set holds no query, or no word, or a query has another
            text in one set than in the other.
        MissingError: if libraries are not installed.
    """
    chosen, training, tested, ingredients = _prepare(train, test, indicator, options)
    if chosen.per_query:
        return _per_query(chosen, training, tested, ingredients).mean
    return _of_sets(chosen, training, tested, ingredients)


def query_similarity(
    train: QuerySource, test: QuerySource, indicator: str, **options: Unpack[IndicatorOptions]
) -> QuerySimilarity:
    """Say how near each test query lies to a set of training queries.

    Args:
        train: the training queries; see `set_similarity`.
        test: the test queries, likewise.
        indicator: the name of an indicator that is defined per query.
        **options: see `set_similarity`.

    Returns:
        The values, one per test query.

    Raises:
        UnknownNameError: if there is no such indicator.
        UsageError: if it is defined for sets of queries only, lacks an option, or does not take
            one.
        NotFoundError: as in `set_similarity`.
        DataError: as in `set_similarity`.
        MissingError: as in `set_similarity`.
    """
    if not find_indicator(indicator).per_query:
        per_query = [name for name, row in INDICATORS.items() if row.per_query]
        raise UsageError(
            f"{indicator} is defined for sets of queries, not for single ones; defined per query "
            f"are {', '.join(per_query)}"
        )
    return _per_query(*_prepare(train, test, indicator, options))


def _prepare(
    train: QuerySource, test: QuerySource, indicator: str, options: IndicatorOptions
) -> tuple[Indicator, QueryColumns, QueryColumns, Ingredients]:
    chosen = find_indicator(indicator)
    check_options(chosen, options)
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, tested)
    texts = chain(training.texts, tested.texts)
    if chosen.needs == "model":
        ingredients = gather_of_model(options.get("models"), options, texts)
    else:
        ingredients = gather(chosen, options, texts, "")
    return chosen, training, tested, ingredients


def _of_sets(
    indicator: Indicator, train: QueryColumns, test: QueryColumns, ingredients: Ingredients
) -> float:
    return float(indicator.load()(train, test, ingredients))


def _per_query(
    indicator: Indicator, train: QueryColumns, test: QueryColumns, ingredients: Ingredients
) -> QuerySimilarity:
    values, places = indicator.load()(train, test, ingredients)
    nearest = _NO_QUERIES
    if places is not None:
        nearest = QueryColumns(
            tuple(train.ids[place] for place in places),
            tuple(train.texts[place] for place in places),
        )
    return QuerySimilarity(indicator.name, test.ids, values, nearest, ingredients.facts)


def _together(groups: Mapping[str, QueryColumns], *, but: str) -> QueryColumns:
    """Return the queries of all groups but one."""
    others = [queries for group, queries in groups.items() if group != but]
    return QueryColumns(
        tuple(chain.from_iterable(queries.ids for queries in others)),
        tuple(chain.from_iterable(queries.texts for queries in others)),
    )
