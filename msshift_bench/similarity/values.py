"""The values of an indicator: of groups, of two sets of queries, and of single test queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeAlias, Unpack

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import Dataset, open_dataset
from msshift_bench.encoders import OWN, EncoderSpec, choose_encoder
from msshift_bench.errors import UsageError
from msshift_bench.shifts import DATASET_NAME, Shift, get_shift
from msshift_bench.similarity.indicators import (
    INDICATORS,
    Indicator,
    IndicatorOptions,
    find_indicator,
)
from msshift_bench.similarity.models import models_of_shift
from msshift_bench.similarity.query_sets import (
    QueryColumns,
    QuerySource,
    check_same_texts,
    group_queries,
    read_query_set,
    relevant_passages,
)
from msshift_bench.similarity.vectors import TextVectors, embed_texts
from msshift_bench.similarity.words import Tokenizer

__all__ = [
    "GroupSimilarity",
    "QuerySimilarity",
    "group_similarity",
    "query_similarity",
    "set_similarity",
]

_NO_QUERIES = QueryColumns((), ())

_Needed: TypeAlias = Tokenizer | TextVectors | Mapping[str, Sequence[str]] | None
"""What an indicator computes with: words, vectors, or query_id -> relevant passages."""


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
            with its digest.

    Examples:
        >>> train, test = {"1": "cheap flights"}, {"8": "cheap hotels", "9": "cheap flights"}
        >>> near = query_similarity(train, test, "unseen-words")
        >>> near.query_ids, near.values, near.mean, near.ranks
        (('8', '9'), array([0.5, 0. ]), 0.25, array([2, 1]))
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
        """The place of each test query from the nearest (1) on, shape (queries,).

        Queries of one value share the first of their places.
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

    Examples:
        >>> short, long = group_similarity("msshift", "length", "unseen-words")
        >>> short.group, round(short.value, 2), short.per_query
        ('short', 0.41, <QuerySimilarity: unseen-words of 44 queries>)
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
            ``models``, ``seed``; see `IndicatorOptions`.

    Returns:
        One value per group, in the shift's order; for their range see `set_similarity`.

    Raises:
        UnknownNameError: if there is no such shift, indicator or split.
        UsageError: if the indicator lacks an option, does not take one, or the models differ in the
            width of their vectors.
        NotFoundError: if there is no built data set or encoder.
        DataError: if a group has no such queries, or none of them a word, or the models were
            trained on another data set.
        MissingError: if the data set holds ids only, a model was not kept, or libraries are not
            installed.
        IntegrityError: if a file is missing or is not the one that was built.

    Examples:
        >>> for group in group_similarity("msshift", "length", "weighted-jaccard"):
        ...     print(group.group, round(group.value, 2), group.queries, group.other_queries)
        short 0.18 44 62
        long 0.18 62 44
    """
    chosen, cut, dataset = find_indicator(indicator), get_shift(shift), open_dataset(data)
    _check_options(chosen, options)
    groups = group_queries(dataset, cut, split)
    other_split = against or (split if chosen.against == "same" else chosen.against)
    rest_groups = groups if other_split == split else group_queries(dataset, cut, other_split)
    values = []
    for group, needed in _of_groups(chosen, cut, groups, rest_groups, options, dataset):
        rest = _together(rest_groups, but=group)
        value, per_query = _compare(chosen, rest, groups[group], needed)
        sizes = (len(groups[group]), len(rest))
        values.append(GroupSimilarity(chosen.name, cut.name, group, value, *sizes, per_query))
    return tuple(values)


def _of_groups(
    indicator: Indicator,
    shift: Shift,
    groups: Mapping[str, QueryColumns],
    rest_groups: Mapping[str, QueryColumns],
    options: IndicatorOptions,
    dataset: Dataset,
) -> Iterator[tuple[str, _Needed]]:
    """Yield each group and what its value is computed with."""
    manifest = dataset.manifest
    if indicator.needs != "model":
        needed: _Needed = options.get("tokenizer")
        if indicator.needs == "labels":
            needed = relevant_passages(dataset, shift)
        elif indicator.needs == "encoder":
            texts = chain(*(queries.texts for queries in (*groups.values(), *rest_groups.values())))
            layout = str(manifest.collection.get("layout", ""))
            needed = embed_texts(texts, _encoder(options, layout))
        yield from ((group, needed) for group in groups)
        return
    models = options.get("models")
    assert models is not None
    folders = models_of_shift(models, shift, options.get("seed"), manifest.content_digest)
    widths: dict[str, int] = {}
    for group, folder in folders.items():
        texts = chain(groups[group].texts, _together(rest_groups, but=group).texts)
        vectors = embed_texts(texts, EncoderSpec(str(folder), pooling=OWN))
        widths[group] = vectors.vectors.shape[1]
        first = next(iter(widths))
        if widths[group] != widths[first]:
            raise UsageError(
                f"the model without {group} gives vectors of {widths[group]} components, and the "
                f"one without {first} of {widths[first]}; give the models of one system"
            )
        yield group, vectors


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
            ``models``, ``seed``; see `IndicatorOptions`.

    Returns:
        The value: 0 to 1 for ``weighted-jaccard``, ``unseen-words`` and ``overlap``, a cosine of -1
        to 1 for ``mean-cosine`` and ``nearest-query``, and the mean of a model's dot products for
        ``model-based``. `Indicator.higher` says whether a higher one means nearer or farther.

    Raises:
        UnknownNameError: if there is no such indicator.
        UsageError: if the indicator lacks an option, does not take one, or needs judgements.
        NotFoundError: if there is no such file or encoder.
        DataError: if a file is malformed, a set holds no query, or no word, or a query has another
            text in one set than in the other.
        MissingError: if libraries are not installed.

    Examples:
        >>> set_similarity({"1": "cheap flights to rome"}, {"8": "Cheap hotels in Rome"})
        0.3333333333333333
    """
    return _compare(*_prepare(train, test, indicator, options))[0]


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

    Examples:
        >>> splits = load_dataset("msshift", "length-short")
        >>> train, test = splits["train"], splits["test"]
        >>> near = query_similarity(train, test, "nearest-query", encoder="terms")
        >>> near.values.shape, near.nearest.ids[0] in {row.query_id for row in train}
        ((44,), True)
    """
    if not find_indicator(indicator).per_query:
        per_query = [name for name, row in INDICATORS.items() if row.per_query]
        raise UsageError(
            f"{indicator} is defined for sets of queries, not for single ones; defined per query "
            f"are {', '.join(per_query)}"
        )
    _, values = _compare(*_prepare(train, test, indicator, options))
    assert values is not None
    return values


def _prepare(
    train: QuerySource, test: QuerySource, indicator: str, options: IndicatorOptions
) -> tuple[Indicator, QueryColumns, QueryColumns, _Needed]:
    chosen = find_indicator(indicator)
    _check_options(chosen, options)
    if chosen.needs == "labels":
        raise UsageError(
            f"{indicator} of two sets is that of their judgements: give NAME=QRELS for both "
            "(--train and --test), or call count_overlap"
        )
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, tested)
    if not chosen.needs:
        return chosen, training, tested, options.get("tokenizer")
    model = options.get("models")
    if isinstance(model, Mapping):
        raise UsageError("two sets of queries are compared under one model: give its folder")
    by_model = chosen.needs == "model"
    spec = EncoderSpec(str(model), pooling=OWN) if by_model else _encoder(options)
    texts = chain(training.texts, tested.texts)
    return chosen, training, tested, embed_texts(texts, spec)


def _check_options(indicator: Indicator, options: IndicatorOptions) -> None:
    """Check that an indicator takes the options that were given, and has those that it needs."""
    for name, value in options.items():
        if value is not None and name not in indicator.options:
            takers = ", ".join(row.name for row in INDICATORS.values() if name in row.options)
            option = name if name == "tokenizer" else f"{name} (--{name})"
            raise UsageError(
                f"{indicator.name} does not take {option}, which is for {takers}; leave it out, or "
                "name another indicator"
            )
    if indicator.needs == "model" and options.get("models") is None:
        raise UsageError(
            f"{indicator.name} needs the bi-encoders that were trained without each group: give "
            "models (--models), a folder of run sets made with 'msshift run --keep-model'"
        )


def _encoder(options: IndicatorOptions, layout: str = "") -> EncoderSpec:
    """Return the encoder that the user named, or the default for this layout of a collection."""
    name = choose_encoder(options.get("encoder"), layout)
    return EncoderSpec(name, pooling=options.get("pooling", "cls"))


def _compare(
    indicator: Indicator, train: QueryColumns, test: QueryColumns, needed: _Needed
) -> tuple[float, QuerySimilarity | None]:
    """Return the value of test queries, and that of each if the indicator is defined per query."""
    if not indicator.per_query:
        return float(indicator.function(train, test, needed)), None
    values, places = indicator.function(train, test, needed)
    nearest = _NO_QUERIES
    if places is not None:
        nearest = QueryColumns(
            tuple(train.ids[place] for place in places),
            tuple(train.texts[place] for place in places),
        )
    facts = needed.facts if isinstance(needed, TextVectors) else {}
    per_query = QuerySimilarity(indicator.name, test.ids, values, nearest, facts)
    return per_query.mean, per_query


def _together(groups: Mapping[str, QueryColumns], *, but: str) -> QueryColumns:
    """Return the queries of all groups but one."""
    sets = [queries for group, queries in groups.items() if group != but]
    return QueryColumns(
        tuple(chain.from_iterable(queries.ids for queries in sets)),
        tuple(chain.from_iterable(queries.texts for queries in sets)),
    )
