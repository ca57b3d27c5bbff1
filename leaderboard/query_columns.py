"""A system's scores query by query, packed for the page to search, sort and download."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.evaluation import SystemScores, parse_measure

__all__ = ["queries_json"]


def queries_json(scores: SystemScores, measures: Iterable[str]) -> dict[str, Any]:
    """Return a system's scores on every test query of a shift.

    Scores have few distinct values, which the page repeats thousands of times: each value is
    written once, with its text, and named by its position.

    Args:
        scores: the per-query scores.
        measures: the measures to show.

    Returns:
        ``groups`` (name and number of queries), ``ids`` and ``missing`` (by how many runs) over
        all groups, and ``measures``: for each its ``values``, their ``texts``, and the columns
        ``avg_in``, ``out`` and ``loss`` (or ``score``, where it was not trained per group) as
        positions of values.
    """
    missing = np.sum([run.missing for run in scores.runs], axis=0)
    return {
        "groups": [[group, len(queries)] for group, queries in scores.groups.items()],
        "ids": [query_id for group in scores.groups for query_id in scores.ids_of(group)],
        "missing": [int(count) for queries in scores.groups.values() for count in missing[queries]],
        "measures": {measure: _packed(_columns(scores, measure)) for measure in measures},
    }


def _columns(scores: SystemScores, measure: str) -> list[dict[str, Floats]]:
    """Return the columns of each group."""
    losses = scores.group_scores(measure, scores.groups)
    if not losses:
        means = np.mean([run.scores[measure] for run in scores.runs], axis=0)
        return [{"score": means[queries]} for queries in scores.groups.values()]
    sign = 1 if parse_measure(measure).higher_is_better else -1
    return [
        {
            "avg_in": of_group.inside.mean(axis=(0, 1)),
            "out": of_group.out.mean(axis=0),
            "loss": sign * of_group.differences(),
        }
        for of_group in losses.values()
    ]


def _packed(groups: list[dict[str, Floats]]) -> dict[str, Any]:
    columns = {
        name: [value for group in groups for value in group[name].tolist()] for name in groups[0]
    }
    values = sorted({value for column in columns.values() for value in column})
    position = {value: number for number, value in enumerate(values)}
    return {
        "values": values,
        "texts": [f"{value:.3f}" for value in values],
        "columns": {
            name: [position[value] for value in column] for name, column in columns.items()
        },
    }
