"""Bringing similarities and scores together: the same groups, and the same queries in one order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.evaluation import Settings, SystemResult, SystemScores
from msshift_bench.similarity import GroupSimilarity, QuerySimilarity, find_indicator

__all__ = ["Control", "ValuesOfGroups", "attach", "find_control"]

_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class ValuesOfGroups:
    """The values of one indicator on one shift.

    Attributes:
        groups: group -> its value.
        queries: group -> the values of its test queries, in the order of their scores,
            ``[queries]``; `None` if the indicator is not defined per query.
    """

    groups: Mapping[str, float]
    queries: Mapping[str, Floats] | None


@dataclass(frozen=True, slots=True, eq=False)
class Control:
    """What tells how difficult queries are.

    Attributes:
        name: an indicator or a system; "" if there is no control.
        only: the indicator that is the control, and nothing else; "" otherwise.
        difficulty: group -> its values, ``[queries]``; `None` if there is no control.
    """

    name: str = ""
    only: str = ""
    difficulty: Mapping[str, Floats] | None = None


def attach(
    shift: str, scores: SystemScores, similarities: Sequence[GroupSimilarity]
) -> dict[str, ValuesOfGroups]:
    """Return indicator -> its values on the groups of a shift and on their test queries.

    Args:
        shift: the shift's name.
        scores: the scores of some system on it.
        similarities: of this shift and of others.

    Raises:
        UsageError: if no similarity is of this shift.
        DataError: if an indicator lacks a group or a test query, or a value is not finite.
    """
    found: dict[str, dict[str, GroupSimilarity]] = {}
    for one in similarities:
        if one.shift == shift:
            found.setdefault(one.indicator, {})[one.group] = one
    if not found:
        raise UsageError(
            f"there is no similarity of the groups of {shift}; compute it with group_similarity"
        )
    attached = {}
    for indicator, of_groups in found.items():
        lacking = [group for group in scores.groups if group not in of_groups]
        if lacking:
            raise DataError(
                f"{indicator} has no value for {', '.join(lacking)} of {shift}; compute it for all "
                "groups of the shift"
            )
        values = {group: of_groups[group].value for group in scores.groups}
        for group, value in values.items():
            if not math.isfinite(value):
                raise DataError(f"{indicator} of {group} is {value}; compute it again")
        per_query = [of_groups[group].per_query for group in scores.groups]
        queries = {
            group: _in_order(one, group, scores.ids_of(group))
            for group, one in zip(scores.groups, per_query, strict=True)
            if one is not None
        }
        attached[indicator] = ValuesOfGroups(
            values, queries if len(queries) == len(values) else None
        )
    return attached


def _in_order(found: QuerySimilarity, group: str, query_ids: Sequence[str]) -> Floats:
    """Return the values of these queries."""
    places = {query_id: place for place, query_id in enumerate(found.query_ids)}
    lacking = [query_id for query_id in query_ids if query_id not in places]
    if lacking:
        shown = ", ".join(lacking[:_SHOWN]) + (", ..." if len(lacking) > _SHOWN else "")
        raise DataError(
            f"{found.indicator} has no value for {len(lacking):,} of the {len(query_ids):,} test "
            f"queries of {group} ({shown}); compute it for the test queries of this data set"
        )
    values = np.asarray(found.values, np.float64)[[places[query_id] for query_id in query_ids]]
    if not np.isfinite(values).all():
        first = query_ids[int(np.flatnonzero(~np.isfinite(values))[0])]
        raise DataError(
            f"{found.indicator} of the query {first} of {group} is not finite; compute it again"
        )
    return values


def find_control(
    wanted: str | None,
    attached: Mapping[str, ValuesOfGroups],
    results: Sequence[SystemResult],
    settings: Settings,
) -> Control:
    """Return the control of a shift; see `analyse_report`.

    Raises:
        UnknownNameError: if nothing has the wanted name.
    """
    per_query = {name: one.queries for name, one in attached.items() if one.queries is not None}
    untrained = {one.system: one for one in results if not one.scores.trained_per_group}
    if wanted is None:
        clear = (name for name in per_query if find_indicator(name).higher == "clearer")
        wanted = next(clear, next(iter(untrained), ""))
    if not wanted:
        return Control()
    if wanted in per_query:
        return Control(wanted, wanted, per_query[wanted])
    if wanted not in untrained:
        raise UnknownNameError("control", wanted, [*per_query, *untrained])
    scores = untrained[wanted].scores
    (run,) = scores.runs
    measure = settings.measures[0].name
    return Control(
        wanted,
        "",
        {group: run.scores[measure][queries] for group, queries in scores.groups.items()},
    )
