"""A system's scores query by query, packed for the page to search, sort and download."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msshift_bench.arrays import Floats
from msshift_bench.leaderboard.view_scores import QueryScores

__all__ = ["queries_json"]


def queries_json(
    by_measure: Mapping[str, Mapping[str, QueryScores]], *, signs: Mapping[str, int]
) -> dict[str, Any]:
    """Return a system's scores on every test query of a shift.

    A score takes few distinct values, and the page repeats them thousands of times: each is written
    once, with its text, and named by its position.

    Args:
        by_measure: measure -> group -> scores.
        signs: measure -> 1 where higher is better, -1 where lower is.

    Returns:
        ``groups`` (name and number of queries), ``ids`` and ``missing`` over all groups, and
        ``measures``: for each its ``values``, their ``texts``, and the columns ``avg_in``, ``out``
        and ``loss`` (or ``score``, where it was not trained per group) as positions of values.
    """
    first = next(iter(by_measure.values()))
    return {
        "groups": [[group, len(one.query_ids)] for group, one in first.items()],
        "ids": [query for one in first.values() for query in one.query_ids],
        "missing": [int(count) for one in first.values() for count in one.missing],
        "measures": {
            measure: _packed(
                [_columns(group, one, signs[measure]) for group, one in groups.items()]
            )
            for measure, groups in by_measure.items()
        },
    }


def _columns(group: str, scores: QueryScores, sign: int) -> dict[str, Floats]:
    losses = scores.losses(group)
    if losses is None:
        return {"score": scores.scores.mean(axis=(0, 1))}
    return {
        "avg_in": losses.inside.mean(axis=(0, 1)),
        "out": losses.out.mean(axis=0),
        "loss": sign * losses.differences(),
    }


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
