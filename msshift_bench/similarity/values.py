"""Values of an indicator for groups, for two sets of queries, and for single queries."""

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
    """The value of an indicator for a group of a shift, or for a set of test queries.

    Attributes:
        indicator: the indicator's name.
        value: the value; for its direction, see `Indicator.higher`. If the indicator is defined per
            query, the mean over the test queries, independent of their order.
        queries: the number of test queries.
        other_queries: the number of queries compared with the test queries; a query in two groups
            counts twice.
        shift: the shift's name; "" for two sets of queries.
        group: the group, compared with all other groups together; "" for two sets of queries.
        test: the name of a file of test queries.
        query_ids: the test queries, in the order of their source, if the indicator is defined per
            query; otherwise empty.
        values: the value of each test query, 64-bit floats, shape (queries,); empty like
            `query_ids`.
        nearest: for ``nearest-query``, the nearest training query of each test query, in the same
            order; otherwise empty.
        facts: the encoder or model with its digest, as JSON values; empty for indicators without.

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
        """The rank of each test query by similarity, shape (queries,); 1 is the nearest.

        Queries with equal values share the smallest of their ranks. Empty like `values`.
        """
        values = self.values if INDICATORS[self.indicator].higher == "farther" else -self.values
        ranks: Ints = np.searchsorted(np.sort(values), values) + 1
        return ranks

    @property
    def figure(self) -> Figure:
        """The value as a figure."""
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
    """Return the similarity of each group of a shift to the other groups together.

    Args:
        data: the built data set; see `open_dataset`.
        shift: the shift.
        indicator: a name in `INDICATORS`.
        split: the queries of the group: ``test``, ``train`` or ``all``.
        against: the queries of the other groups: ``test``, ``train`` or ``all``; by default
            `Indicator.other_split` of `split`.
        **options: options of the indicator: ``tokenizer``, ``encoder``, ``pooling``, ``models``,
            ``seed``; see `IndicatorOptions`.

    Returns:
        One value per group, in the shift's order; for the ranges see `set_similarity`.

    Raises:
        UnknownNameError: for an unknown shift, indicator or split.
        UsageError: if the indicator lacks a required option or does not accept an option, or the
            models differ in the number of components of their vectors.
        NotFoundError: if the data set or the encoder does not exist.
        DataError: if a group has no queries or no words, or the models were trained on another data
            set.
        MissingError: if the data set contains only ids, a model was not kept, or libraries are not
            installed.
        IntegrityError: if a file is missing or was changed after the build.

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
    needed = None if models else _input(chosen, every, options, dataset=dataset, shift=cut.name)
    values, widths = [], dict[str, int]()
    for group, queries in groups.items():
        rest = [part for other, part in others.items() if other != group]
        together = QueryColumns(
            tuple(chain.from_iterable(part.ids for part in rest)),
            tuple(chain.from_iterable(part.texts for part in rest)),
        )
        if models:
            texts = (*queries.texts, *together.texts)
            needed = _input(chosen, texts, {**options, "models": models[group]})
            widths[group] = needed.vectors.shape[1]
            first, width = next(iter(widths.items()))
            if widths[group] != width:
                raise UsageError(
                    f"the model without {group} returns vectors of {widths[group]} components, but "
                    f"the model without {first} of {width}; use the models of one system"
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
    """Return the similarity of a set of test queries to a set of training queries.

    Args:
        train: the training queries: a file of two tab-separated columns (query_id, text), a mapping
            query_id -> text, or objects with ``query_id`` and ``text``, such as rows of a split.
        test: the test queries, in any of these forms.
        indicator: a name in `INDICATORS`.
        words: a name in `WORDS`: the way to split texts into words, if the indicator or its encoder
            counts words and no tokenizer is given.
        **options: options of the indicator: ``tokenizer``, ``encoder``, ``pooling``, ``models``,
            ``seed``; see `IndicatorOptions`.

    Returns:
        The value, and the value of each test query if the indicator is defined per query. Ranges
        are 0 to 1 for ``weighted-jaccard``, ``unseen-words`` and ``overlap`` (groups only), and -1
        to 1 for ``mean-cosine`` and ``nearest-query``. ``model-based`` is a mean dot product of the
        model. For the direction of values, see `Indicator.higher`.

    Raises:
        UnknownNameError: for an unknown indicator or an unknown name in `words`.
        UsageError: if the indicator lacks a required option, does not accept an option, or needs
            judgements (``overlap``).
        NotFoundError: if a file or the encoder does not exist.
        DataError: if a file is malformed, a set has no queries or no words, or the text of a query
            differs between the sets.
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
            f"the indicator {indicator} of two sets needs their judgements; give NAME=QRELS for "
            "--train and --test, or call count_overlap"
        )
    training, tested = read_query_set(train), read_query_set(test)
    check_same_texts(training, {query_id: [text] for query_id, text in tested})
    if not isinstance(options.get("models"), str | Path | None):
        raise UsageError(
            "for two sets of queries, models must be the folder of one model; give its path"
        )
    needed = _input(chosen, (*training.texts, *tested.texts), options, words=words)
    return _compare(chosen, training, tested, needed)


def _check_options(indicator: Indicator, options: IndicatorOptions) -> None:
    """Raise a UsageError if the indicator lacks a required option or does not accept an option."""
    for name, value in options.items():
        if value is not None and name not in indicator.options:
            takers = ", ".join(row.name for row in INDICATORS.values() if name in row.options)
            option = name if name == "tokenizer" else f"{name} (--{name})"
            raise UsageError(
                f"the indicator {indicator.name} does not accept {option}; leave it out, or choose "
                f"one of {takers}"
            )
    if indicator.needs == "model" and options.get("models") is None:
        raise UsageError(
            f"the indicator {indicator.name} needs a bi-encoder for each held-out group; give "
            "models (--models), a folder of run sets made with 'msshift run --keep-model'"
        )


def _input(
    indicator: Indicator,
    texts: Collection[str],
    options: IndicatorOptions,
    *,
    dataset: Dataset | None = None,
    shift: str = "",
    words: str = "whitespace",
) -> Any:
    """Return the third argument of `Indicator.function`.

    Args:
        indicator: the indicator.
        texts: the texts of all queries.
        options: the options of the indicator, with at most one model.
        dataset: the data set of the queries; `None` for two sets of queries.
        shift: the shift of the queries; "" for two sets of queries.
        words: a name in `WORDS`, for queries without a data set.
    """
    words = check_name("words", words if dataset is None else dataset.words, WORDS)
    if indicator.needs == "labels":
        assert dataset is not None  # set_similarity raises for this indicator
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
    """Return the similarity to the training queries; `needed` is the result of `_input`."""
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
    """Return the opened run sets of a folder with kept models; `()` for no models.

    Other forms of models are returned unchanged.

    Args:
        models: the folder, or models in another form.
        shifts: the names of the data set's shifts.

    Raises:
        NotFoundError: if the folder does not exist.
        MsShiftError: as `find_run_sets`, e.g. if the folder has no run set.
    """
    if isinstance(models, str | Path):
        listing = Listing(known_shifts(shifts))
        return [OpenedRunSet.of(found) for found in find_run_sets(models, listing=listing)]
    return models or ()


def _models_of_shift(
    options: IndicatorOptions, shift: Shift, data: DataInfo
) -> Mapping[str, str | Path]:
    """Return held-out group -> the folder of the model trained without the group.

    Args:
        options: ``models`` and ``seed`` of `IndicatorOptions`.
        shift: the shift.
        data: facts about the data set.

    Raises:
        NotFoundError: if the folder of models does not exist.
        UsageError: if the folder does not have the runs of exactly one system trained per group, or
            a mapping lacks a group.
        UnknownNameError: for an unknown seed or group.
        RunError: if a held-out group has no run; or if the sidecar of a run has another data set or
            another held-out group.
        MissingError: if a model was not kept.
    """
    models, seed = open_models(options.get("models"), [shift.name]), options.get("seed")
    if isinstance(models, Mapping):
        for group in models:
            shift.check_group(group)
        if absent := [group for group in shift.groups if group not in models]:
            raise UsageError(
                f"models has no model for {', '.join(absent)} of {shift.name}; add the folder of "
                "each model"
            )
        return models
    run_sets = [part for part in models if part.shift == shift and part.trained_per_group]
    if len(run_sets) != 1:
        names = ", ".join(f"{part.system} in {part.folder}" for part in run_sets) or "none"
        raise UsageError(
            f"models must have the runs of one system trained per group of {shift.name}, got "
            f"{len(run_sets)} ({names}); give the folder of one system (--models)"
        )
    (run_set,) = run_sets
    chosen = run_set.seeds[0] if seed is None else seed
    check_name(f"seed of {run_set.folder}", str(chosen), [*map(str, run_set.seeds)])
    runs = {model: run for model, run in run_set.runs.items() if model[1] == chosen}
    # In another data set, the group has other queries.
    missing = tuple(pair for pair in run_set.missing if pair[0] == chosen)
    apply_checks(
        "models", OpenedRuns([replace(run_set, runs=runs, missing=missing)], data), Settings()
    )
    folders = {group: model_path(run.sidecar.run) for (group, _), run in runs.items()}
    for group, folder in folders.items():
        if not folder.is_dir():
            raise MissingError(
                f"the model of {runs[group, chosen].sidecar.run} was not kept (no {folder.name}); "
                "make the runs again with 'msshift run --keep-model' and another --name"
            )
    return folders


_QUANTILES = {"5%": 0.05, "median": 0.5, "95%": 0.95}

Comparison = tuple[list[Similarity], Result]
"""The values, and their `Result` with tables."""


def compare_files(
    train: str | Path,
    test: str | Path,
    indicator: str,
    *,
    words: str = "whitespace",
    **options: Unpack[IndicatorOptions],
) -> Comparison:
    """Return the similarity of test to training queries in files, as a list, and its `Result`.

    For the arguments and errors, see `set_similarity`.
    """
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
    """Return the similarity of each group to its shift's other groups together, and the `Result`.

    For the errors, see `group_similarity`. A data set of shifts by size only is a `UsageError`.

    Args:
        data: the built data set; see `open_dataset`.
        shifts: the shifts; by default all except shifts by size, whose groups are training sets.
        indicator: a name in `INDICATORS`.
        splits: the queries of the group and of the other groups, e.g. ``test:train``; without a
            colon, the other groups' queries are `Indicator.other_split`.
        **options: options of the indicator; see `IndicatorOptions`.
    """
    chosen, dataset = find_indicator(indicator), open_dataset(data)
    split, _, against = splits.partition(":")
    against = against or chosen.other_split(split)
    names = shift_names(shifts, known=dataset.shifts) or [
        name for name in dataset.manifest.shifts if not SHIFTS[name].by_size
    ]
    if not names:
        raise UsageError(
            f"{dataset.folder} has only {', '.join(dataset.manifest.shifts)}, whose groups are "
            "training sets for one test set, so they cannot be compared; compare files of queries "
            "with --train and --test"
        )
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
    compared = f"{split} queries of a group and {against} queries of the others"
    titles = {name: f"{name}: {chosen.title}, {compared}" for name in names}
    return values, _result(values, titles, {"split": split, "against": against}, dataset.info)


def _result(
    values: Sequence[Similarity],
    titles: Mapping[str, str],
    settings: Mapping[str, str],
    data: DataInfo,
) -> Result:
    """Return the result of values; `titles` are shift -> title of its table."""
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
    """Return a table per shift, with a row per group; or the table of two files."""
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
    """Return every query's value as an Arrow table, with the result's metadata in its schema.

    Columns are shift, group (or test file), query_id, value, rank (1 is the nearest) and, if known,
    the nearest query. The table is empty if the indicator has no values per query.
    """
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
