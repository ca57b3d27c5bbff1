"""The values of an indicator: of groups, of two sets of queries, of single queries; as a result."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.encoders import OWN, TERMS, EncoderSpec, choose_encoder
from msshift_bench.errors import MissingError, UsageError, check_name
from msshift_bench.evaluation import (
    Note,
    OpenedRuns,
    OpenedRunSet,
    Result,
    Section,
    Settings,
    apply_checks,
)
from msshift_bench.output import COUNT, QUERIES, Head, heads_of, number, pivot
from msshift_bench.runs import Listing, find_run_sets, model_path
from msshift_bench.search import warn_of_words
from msshift_bench.shifts import DATASET_NAME, SHIFTS, Shift, get_shift, known_shifts, shift_names
from msshift_bench.similarity.indicators import (
    INDICATORS,
    Indicator,
    IndicatorOptions,
    Models,
    find_indicator,
)
from msshift_bench.similarity.query_sets import (
    QueryColumns,
    QuerySource,
    check_same_texts,
    group_queries,
    read_query_set,
)
from msshift_bench.similarity.vectors import TextVectors, embed_texts
from msshift_bench.stats import Figure, Figures
from msshift_bench.words import WORDS, words_fact


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """The value of an indicator: of a group of a shift, or of a set of test queries.

    Attributes:
        indicator: the indicator's name.
        value: the value; `Indicator.higher` says what a higher one means. Of an indicator that is
            defined per query it is the mean over the test queries, whatever their order.
        queries: how many test queries counted.
        other_queries: how many they were compared with; a query of two groups counts twice.
        shift: the shift's name; "" of two sets of queries.
        group: the group, whose queries are compared with those of the other groups together.
        test: the name of a file of test queries.
        query_ids: the test queries, in the order of their source, if the indicator is defined per
            query; else empty, like what follows.
        values: one per test query, 64-bit floats, shape (queries,).
        nearest: of ``nearest-query`` the nearest training query of each test query, in the same
            order; empty of the others.
        facts: what decided the values beyond the queries, as JSON values: the encoder or the model
            with its digest.

    Examples:
        >>> train, test = {"1": "cheap flights"}, {"8": "cheap hotels", "9": "cheap flights"}
        >>> near = set_similarity(train, test, "unseen-words")
        >>> near.query_ids, near.values, near.value, near.ranks
        (('8', '9'), array([0.5, 0. ]), 0.25, array([2, 1]))
        >>> short, long = group_similarity("msshift", "length", "unseen-words")
        >>> short
        <Similarity: unseen-words of 44 queries, 0.4053>
    """

    indicator: str
    value: float
    queries: int
    other_queries: int
    shift: str = ""
    group: str = ""
    test: str = ""
    query_ids: tuple[str, ...] = ()
    values: Floats = field(default_factory=partial(np.empty, 0))
    nearest: QueryColumns = field(default_factory=partial(QueryColumns, (), ()))
    facts: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Similarity: {self.indicator} of {self.queries:,} queries, {self.value:.4f}>"

    @property
    def ranks(self) -> Ints:
        """The place of each test query from the nearest (1) on, shape (queries,).

        Queries of one value share the first of their places.
        """
        values = self.values if INDICATORS[self.indicator].higher == "farther" else -self.values
        ranks: Ints = np.searchsorted(np.sort(values), values) + 1
        return ranks

    @property
    def figure(self) -> Figure:
        """Its value as a figure."""
        return Figure(
            "similarity",
            test=self.test,
            shift=self.shift,
            against=self.indicator,
            group=self.group,
            value=self.value,
            queries=self.queries,
        )


def group_similarity(
    data: Dataset | str | Path = DATASET_NAME,
    shift: str | Shift = "topics",
    indicator: str = "weighted-jaccard",
    *,
    split: str = "test",
    against: str | None = None,
    **options: Unpack[IndicatorOptions],
) -> tuple[Similarity, ...]:
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
    chosen, dataset = find_indicator(indicator), open_dataset(data)
    cut = get_shift(shift, dataset.shifts)
    _check_options(chosen, options)
    groups = group_queries(dataset, cut, split)
    other_split = against or chosen.other_split(split)
    others = groups if other_split == split else group_queries(dataset, cut, other_split)
    models: Mapping[str, str | Path] = {}
    if chosen.needs == "model":
        models = _models_of_shift(options, cut, dataset.info)
    every = [text for queries in (*groups.values(), *others.values()) for text in queries.texts]
    needed = None if models else _needed(chosen, every, options, dataset=dataset, shift=cut.name)
    values, widths = [], dict[str, int]()
    for group, queries in groups.items():
        rest = [part for other, part in others.items() if other != group]
        together = QueryColumns(
            tuple(chain.from_iterable(part.ids for part in rest)),
            tuple(chain.from_iterable(part.texts for part in rest)),
        )
        if models:
            texts = (*queries.texts, *together.texts)
            needed = _needed(chosen, texts, {**options, "models": models[group]})
            widths[group] = needed.vectors.shape[1]
            first, width = next(iter(widths.items()))
            if widths[group] != width:
                raise UsageError(
                    f"the model without {group} gives vectors of {widths[group]} components, and "
                    f"the one without {first} of {width}; give the models of one system"
                )
        value = _compare(chosen, together, queries, needed)
        values.append(replace(value, shift=cut.name, group=group))
    return tuple(values)


def set_similarity(
    train: QuerySource,
    test: QuerySource,
    indicator: str = "weighted-jaccard",
    *,
    words: str = "whitespace",
    **options: Unpack[IndicatorOptions],
) -> Similarity:
    """Say how near a set of test queries lies to a set of training queries.

    Args:
        train: the training queries: a file of two tab-separated columns (query_id, text), query_id
            -> text, or what has a ``query_id`` and a ``text`` each, such as the rows of a split.
        test: the test queries, likewise.
        indicator: a name in `INDICATORS`.
        words: how texts are divided into words, where the indicator or its encoder counts words
            and no tokenizer is given (`WORDS`).
        **options: how the indicator is computed: ``tokenizer``, ``encoder``, ``pooling``,
            ``models``, ``seed``; see `IndicatorOptions`.

    Returns:
        The value, and that of each test query if the indicator is defined per query: 0 to 1 for
        ``weighted-jaccard``, ``unseen-words`` and ``overlap``, a cosine of -1 to 1 for
        ``mean-cosine`` and ``nearest-query``, and the mean of a model's dot products for
        ``model-based``. `Indicator.higher` says whether a higher one means nearer or farther.

    Raises:
        UnknownNameError: if there is no such indicator or way to divide texts.
        UsageError: if the indicator lacks an option, does not take one, or needs judgements.
        NotFoundError: if there is no such file or encoder.
        DataError: if a file is malformed, a set holds no query, or no word, or a query has another
            text in one set than in the other.
        MissingError: if libraries are not installed.

    Examples:
        >>> set_similarity({"1": "cheap flights to rome"}, {"8": "Cheap hotels in Rome"}).value
        0.3333333333333333
        >>> splits = load_dataset("msshift", "length-short")
        >>> train, test = splits["train"], splits["test"]
        >>> near = set_similarity(train, test, "nearest-query", encoder="terms")
        >>> near.values.shape, near.nearest.ids[0] in {row.query_id for row in train}
        ((44,), True)
    """
    chosen = find_indicator(indicator)
    _check_options(chosen, options)
    if chosen.needs == "labels":
        raise UsageError(
            f"{indicator} of two sets is that of their judgements: give NAME=QRELS for both "
            "(--train and --test), or call count_overlap"
        )
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, {query_id: [text] for query_id, text in tested})
    if not isinstance(options.get("models"), str | Path | None):
        raise UsageError("two sets of queries are compared under one model: give its folder")
    needed = _needed(chosen, (*training.texts, *tested.texts), options, words=words)
    return _compare(chosen, training, tested, needed)


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


def _needed(
    indicator: Indicator,
    texts: Collection[str],
    options: IndicatorOptions,
    *,
    dataset: Dataset | None = None,
    shift: str = "",
    words: str = "whitespace",
) -> Any:
    """Return what an indicator computes with; see `Indicator.function`.

    Args:
        indicator: the indicator.
        texts: those of all queries.
        options: how it is computed, with one model at most.
        dataset: the data set that the queries are from, if they are groups of one.
        shift: its shift, likewise.
        words: how texts are divided into words, if they are of no data set.
    """
    words = check_name("words", words if dataset is None else dataset.words, WORDS)
    if indicator.needs == "labels":
        assert dataset is not None  # sets of queries are refused before
        return {row.query_id: row.relevant_doc_ids for row in dataset.rows(shift, "queries")}
    if indicator.cut is not None:
        warn_of_words(texts, words)
        return options.get("tokenizer") or partial(indicator.cut, words=words)
    if indicator.needs == "model":
        spec = EncoderSpec(str(options.get("models")), pooling=OWN)
    else:
        layout = "" if dataset is None else str(dataset.manifest.collection.get("layout", ""))
        spec = choose_encoder(
            options.get("encoder"), layout, pooling=options.get("pooling"), words=words
        )
        if spec.name == TERMS:
            warn_of_words(texts, words)
    return embed_texts(texts, spec)


def _compare(
    indicator: Indicator, train: QueryColumns, test: QueryColumns, needed: Any
) -> Similarity:
    """Return the value of test queries, and that of each if the indicator is defined per query."""
    computed = indicator.function(train, test, needed)
    if not indicator.per_query:
        return Similarity(indicator.name, float(computed), len(test), len(train))
    values, places = computed
    nearest = [] if places is None else places.tolist()
    columns = (tuple(column[place] for place in nearest) for column in (train.ids, train.texts))
    return Similarity(
        indicator.name,
        math.fsum(values.tolist()) / len(values),
        len(test),
        len(train),
        query_ids=test.ids,
        values=values,
        nearest=QueryColumns(*columns),
        facts=needed.facts if isinstance(needed, TextVectors) else {},
    )


def open_models(
    models: Models, shifts: Iterable[str]
) -> Mapping[str, str | Path] | Sequence[OpenedRunSet]:
    """Open the run sets in a folder of kept models; return other models as they are.

    Args:
        models: the models.
        shifts: the names of the data set's shifts.

    Raises:
        NotFoundError: if there is no such folder.
    """
    if isinstance(models, str | Path):
        listing = Listing(known_shifts(shifts))
        return [OpenedRunSet.of(found) for found in find_run_sets(models, listing=listing)]
    return models or ()


def _models_of_shift(
    options: IndicatorOptions, shift: Shift, data: DataInfo
) -> Mapping[str, str | Path]:
    """Return held-out group -> the folder of the model that was trained without it.

    Args:
        options: its ``models`` are such a mapping, or a folder of run sets of one system, or these
            opened; ``seed`` is by default the smallest.
        shift: the shift.
        data: the data set whose groups the models were trained without.

    Raises:
        NotFoundError: if there is no such folder.
        UsageError: if it holds the runs of several systems or of none that was trained per group,
            or a group has no model in a mapping.
        UnknownNameError: if there is no such seed.
        RunError: if a held-out group has no run, or a model was trained on another data set or
            without another group, as far as the sidecar of its run says.
        MissingError: if a model was not kept.
    """
    models, seed = open_models(options.get("models"), [shift.name]), options.get("seed")
    if isinstance(models, Mapping):
        for group in models:
            shift.check_group(group)
        if absent := [group for group in shift.groups if group not in models]:
            raise UsageError(f"no model is given for {', '.join(absent)} of {shift.name}")
        return models
    run_sets = [part for part in models if part.shift == shift and part.trained_per_group]
    if len(run_sets) != 1:
        names = ", ".join(f"{part.system} in {part.folder}" for part in run_sets) or "none"
        raise UsageError(
            f"there are the runs of {len(run_sets)} systems that were trained per group of "
            f"{shift.name} ({names}), and one is needed: give the folder of one system (--models)"
        )
    (run_set,) = run_sets
    chosen = run_set.seeds[0] if seed is None else seed
    check_name(f"seed of {run_set.folder}", str(chosen), [*map(str, run_set.seeds)])
    runs = {model: run for model, run in run_set.runs.items() if model[1] == chosen}
    # In another data set, a group is of other queries.
    missing = tuple(pair for pair in run_set.missing if pair[0] == chosen)
    apply_checks(
        "models", OpenedRuns([replace(run_set, runs=runs, missing=missing)], data), Settings()
    )
    folders = {group: model_path(run.sidecar.run) for (group, _), run in runs.items()}
    for group, folder in folders.items():
        if not folder.is_dir():
            raise MissingError(
                f"no model was kept of {runs[group, chosen].sidecar.run} ({folder.name}): make the "
                "runs again with --keep-model, under another --name of 'msshift run'"
            )
    return folders


_QUANTILES = {"5%": 0.05, "median": 0.5, "95%": 0.95}

Comparison = tuple[list[Similarity], Result]
"""The values, and the result that shows them."""


def compare_files(
    train: str | Path,
    test: str | Path,
    indicator: str,
    *,
    words: str = "whitespace",
    **options: Unpack[IndicatorOptions],
) -> Comparison:
    """Say how near a file of test queries lies to one of training queries; see `set_similarity`."""
    value = set_similarity(train, test, indicator, words=words, **options)
    title = f"{find_indicator(indicator).title}, to {train}"
    settings = {"train": str(train), "test": str(test), **words_fact(words)}
    of_files = [replace(value, test=str(test))]
    return of_files, _result(of_files, {"": title}, settings, DataInfo())


def compare_groups(
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    indicator: str = "weighted-jaccard",
    *,
    splits: str = "test",
    **options: Unpack[IndicatorOptions],
) -> Comparison:
    """Say how near each group of shifts lies to the others together; see `group_similarity`.

    Args:
        data: the built data set; see `open_dataset`.
        shifts: the shifts; by default all whose groups are groups of queries.
        indicator: a name in `INDICATORS`.
        splits: the queries that count, of the group and after a colon of the other groups; without
            a colon, the indicator's definition says which of the others.
        **options: how the indicator is computed; see `IndicatorOptions`.
    """
    chosen, dataset = find_indicator(indicator), open_dataset(data)
    split, _, against = splits.partition(":")
    against = against or chosen.other_split(split)
    names = shift_names(shifts, known=dataset.shifts) or [
        name for name in dataset.manifest.shifts if not SHIFTS[name].by_size
    ]
    _check_options(chosen, options)
    if chosen.needs == "model":
        options = {**options, "models": open_models(options.get("models"), names)}
    values = [
        value
        for name in names
        for value in group_similarity(
            dataset, name, indicator, split=split, against=against, **options
        )
    ]
    what = f"{split} queries of a group and {against} queries of the others"
    titles = {name: f"{name}: {chosen.title}, {what}" for name in names}
    return values, _result(values, titles, {"split": split, "against": against}, dataset.info)


def _result(
    values: Sequence[Similarity],
    titles: Mapping[str, str],
    settings: Mapping[str, str],
    data: DataInfo,
) -> Result:
    """Return the result that shows values, given the title of each shift's table."""
    indicator = find_indicator(values[0].indicator)
    rows: list[Figure] = []
    for value in values:
        row = value.figure._replace(slice=settings.get("split", ""))
        rows += [row, row._replace(figure="other_queries", value=value.other_queries)]
        if value.query_ids:
            quantiles = {name: np.quantile(value.values, at) for name, at in _QUANTILES.items()}
            rows += [row._replace(figure=name, value=float(at)) for name, at in quantiles.items()]
    lines = [f"higher is {indicator.higher}; source: {indicator.source}"]
    facts = {value.group or value.test: value.facts for value in values if value.facts}
    if facts:
        encoders = dict.fromkeys(str(of_value["encoder"]) for of_value in facts.values())
        lines.append(f"{indicator.needs}: {', '.join(encoders)}")
    return Result(
        "similarity",
        Figures(rows),
        {"indicator": indicator.name, **settings},
        data,
        [Note(line) for line in lines],
        partial(_layout, indicator, titles),
        facts={"computed_with": facts},
    )


def _layout(indicator: Indicator, titles: Mapping[str, str], figures: Figures) -> list[Section]:
    """Return a table per shift, with a row per group; or the one of two files."""
    tables = []
    for (shift,), of_shift in figures.each("shift"):
        name, rest = ("group", "other queries") if shift else ("test", "training queries")
        columns = [
            Head((indicator.name,), {"figure": "similarity"}, number(6)),
            Head(("queries",), {"figure": "similarity"}, QUERIES),
            Head((rest,), {"figure": "other_queries"}, COUNT),
            *(Head((at,), {"figure": at}, number(6)) for at in _QUANTILES if indicator.per_query),
        ]
        tables.append(pivot(of_shift, titles[shift], (name,), heads_of(of_shift, name), columns))
    return [Section(tables)]


def similarity_per_query(values: Sequence[Similarity], result: Result) -> pa.Table:
    """Return every query's value as an Arrow table, whose schema holds what the result says."""
    tables = []
    for value in values:
        columns = {
            "shift": [value.shift] * len(value.query_ids),
            "group": [value.group or value.test] * len(value.query_ids),
            "query_id": list(value.query_ids),
            "value": value.values.tolist(),
            "rank": value.ranks.tolist(),
        }
        if value.nearest.ids:
            columns["nearest_query_id"] = list(value.nearest.ids)
            columns["nearest_text"] = list(value.nearest.texts)
        tables.append(pa.table(columns))
    return pa.concat_tables(tables).replace_schema_metadata(result.to_arrow().schema.metadata)
