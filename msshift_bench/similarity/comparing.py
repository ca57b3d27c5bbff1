"""Comparisons by one indicator: the groups of shifts, or two files of queries, as a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np
import pyarrow as pa

from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.evaluation import Note, Result, Section
from msshift_bench.output import QUERIES, Head, heads_of, number, pivot
from msshift_bench.shifts import DATASET_NAME, SHIFTS
from msshift_bench.similarity.indicators import Indicator, IndicatorOptions, find_indicator
from msshift_bench.similarity.values import Similarity, compare_sets, group_similarity
from msshift_bench.stats import Figure, Figures

__all__ = ["compare_files", "compare_groups", "similarity_per_query"]

_QUANTILES = {"5%": 0.05, "median": 0.5, "95%": 0.95}

Comparison = tuple[list[Similarity], Result]
"""The values, and the result that shows them."""


def compare_files(
    train: str | Path, test: str | Path, indicator: str, **options: Unpack[IndicatorOptions]
) -> Comparison:
    """Say how near a file of test queries lies to one of training queries; see `set_similarity`."""
    of_files = replace(compare_sets(train, test, indicator, **options), test=str(test))
    title = f"{find_indicator(indicator).title}, to {train}"
    settings = {"train": str(train), "test": str(test)}
    return [of_files], _result([of_files], {"": title}, settings, DataInfo())


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
    names = shifts or [name for name in dataset.manifest.shifts if not SHIFTS[name].by_size]
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
        rows += [row, row._replace(figure="other_queries", queries=value.other_queries)]
        if value.query_ids:
            quantiles = np.quantile(value.values, list(_QUANTILES.values())).tolist()
            of_name = zip(_QUANTILES, quantiles, strict=True)
            rows += [row._replace(figure=name, value=quantile) for name, quantile in of_name]
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
        name, others = ("group", "other queries") if shift else ("test", "training queries")
        columns = [
            Head((indicator.name,), {"figure": "similarity"}, number(6)),
            Head(("queries",), {"figure": "similarity"}, QUERIES),
            Head((others,), {"figure": "other_queries"}, QUERIES),
        ]
        quantiles = [quantile for quantile in of_shift.names("figure") if quantile in _QUANTILES]
        columns += [Head((at,), {"figure": at}, number(6)) for at in quantiles]
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
