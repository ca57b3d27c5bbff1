"""Comparisons by one indicator: the groups of shifts, or two files of queries, as a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.output import Table, plain, report_head, with_head
from msshift_bench.shifts import DATASET_NAME, SHIFTS
from msshift_bench.similarity.indicators import Indicator, IndicatorOptions, find_indicator
from msshift_bench.similarity.values import (
    GroupSimilarity,
    compare_sets,
    group_similarity,
)

__all__ = ["Comparison", "compare_files", "compare_groups"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The values of groups by shift, or the one value of two files.

    Attributes:
        indicator: the indicator.
        head: what JSON says of the comparison.
        titles: the title of each table.
        values: shift -> its groups' values; for two files there is one, under ``""``.
    """

    indicator: Indicator
    head: Mapping[str, object]
    titles: Mapping[str, str]
    values: Mapping[str, Sequence[GroupSimilarity]]

    def tables(self) -> list[Table]:
        """Return a table per shift."""
        tables = []
        for shift, groups in self.values.items():
            rest = "other queries" if shift else "training queries"
            header = ["group" if shift else "test", self.indicator.name, "queries", rest]
            if self.indicator.per_query:
                header += ["5%", "median", "95%"]
            tables.append(Table.plain(self.titles[shift], header, map(_cells, groups)))
        return tables

    def notes(self) -> list[str]:
        """Return what a value says, and what it was computed with beyond the queries."""
        about = f"higher is {self.indicator.higher}; source: {self.indicator.source}"
        values = [of_group.per_query for groups in self.values.values() for of_group in groups]
        names = [str(of.facts["encoder"]) for of in values if of is not None and of.facts]
        encoders = ", ".join(dict.fromkeys(names))
        return [about, *([f"{self.indicator.needs}: {encoders}"] if encoders else [])]

    def to_json(self) -> dict[str, Any]:
        """Return all values as plain JSON values."""
        row = self.indicator
        about = {"title": row.title, "higher": row.higher, "source": row.source}
        head = {**self._named(), **about, **self.head}
        if "" in self.values:
            return head | _facts(self.values[""][0])
        shifts = {
            shift: [{"group": of_group.group, **_facts(of_group)} for of_group in groups]
            for shift, groups in self.values.items()
        }
        return head | {"shifts": shifts}

    def per_query(self) -> pa.Table:
        """Return every query's value as an Arrow table."""
        rows = [
            row for groups in self.values.values() for of_group in groups for row in _rows(of_group)
        ]
        names = ["shift", "group", "query_id", "value", "rank"]
        if rows and len(rows[0]) > len(names):
            names += ["nearest_query_id", "nearest_text"]
        columns = zip(*rows, strict=True)
        table = pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})
        return with_head(table, {**self._named(), **self.head})

    def _named(self) -> dict[str, Any]:
        return {**report_head(), "indicator": self.indicator.name}


def _facts(of_group: GroupSimilarity) -> dict[str, object]:
    facts = of_group.per_query.facts if of_group.per_query else {}
    return {
        "value": of_group.value,
        "queries": of_group.queries,
        "other_queries": of_group.other_queries,
        **({"computed_with": dict(facts)} if facts else {}),
    }


def _cells(of_group: GroupSimilarity) -> tuple[object, ...]:
    cells = (of_group.group, f"{of_group.value:.6f}", of_group.queries, of_group.other_queries)
    if of_group.per_query is None:
        return cells
    quantiles = np.quantile(of_group.per_query.values, (0.05, 0.5, 0.95)).tolist()
    return (*cells, *(f"{quantile:.6f}" for quantile in quantiles))


def _rows(of_group: GroupSimilarity) -> Iterator[tuple[object, ...]]:
    queries = of_group.per_query
    assert queries is not None
    values = (queries.query_ids, queries.values.tolist(), queries.ranks.tolist())
    nearest = (queries.nearest.ids, queries.nearest.texts) if queries.nearest.ids else ()
    for row in zip(*values, *nearest, strict=True):
        yield (of_group.shift, of_group.group, *row)


def compare_files(
    train: str | Path, test: str | Path, indicator: str, **options: Unpack[IndicatorOptions]
) -> Comparison:
    """Say how near a file of test queries lies to one of training queries; see `set_similarity`."""
    chosen = find_indicator(indicator)
    of_files = replace(compare_sets(train, test, indicator, **options), group=str(test))
    head = {"train": str(train), "test": str(test)}
    return Comparison(chosen, head, {"": f"{chosen.title}, to {train}"}, {"": [of_files]})


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
    against = against or (split if chosen.against == "same" else chosen.against)
    names = shifts or [name for name in dataset.manifest.shifts if not SHIFTS[name].by_size]
    values = {
        name: group_similarity(dataset, name, indicator, split=split, against=against, **options)
        for name in names
    }
    what = f"{split} queries of a group and {against} queries of the others"
    titles = {name: f"{name}: {chosen.title}, {what}" for name in names}
    head = {"data": plain(dataset.info), "split": split, "against": against}
    return Comparison(chosen, head, titles, values)
