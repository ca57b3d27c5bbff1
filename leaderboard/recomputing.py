"""An entry's report, made again from its per-query scores by the evaluator's own code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msshift_bench.data import DataInfo
from msshift_bench.errors import MsShiftError
from msshift_bench.evaluation import Evaluator, Report, ScoredRun, SystemScores
from msshift_bench.leaderboard.rescoring import SETTINGS
from msshift_bench.leaderboard.schema import Place
from msshift_bench.records import Row
from msshift_bench.runs import RunReport
from msshift_bench.shifts import SHIFTS

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["differences", "recompute"]

_FROM_RUNS_ONLY = ("tied", "best", "worst")
_REL_TOLERANCE = 1e-9


def recompute(report: Mapping[str, Any], table: pa.Table, place: Place) -> None:
    """Compare a report's cells, losses, tests and intervals with what its scores give.

    What only the run files tell (ties, and warnings about the files) is taken as it is.

    Args:
        report: the report, of the right shape.
        table: its per-query scores, as `scores.read_scores` gives them.
        place: where to record what is wrong.
    """
    start = 0
    for position, claimed in enumerate(report["systems"]):
        here = place.at("systems").at(position)
        shift = claimed["shift"]
        rows = sum(claimed["test_queries"].values()) * len(claimed["runs"]) * len(SETTINGS.measures)
        part = table.slice(start, rows)
        start += rows
        scores = _read_blocks(claimed, part, here)
        if scores is None:
            continue
        evaluator = Evaluator(
            SHIFTS[shift],
            {
                group: [Row.judged(one, "", group, {}) for one in ids]
                for group, ids in scores[1].items()
            },
            SETTINGS,
        )
        try:
            result = evaluator.summarise(
                SystemScores(
                    claimed["system"],
                    SHIFTS[shift],
                    evaluator.judgements.query_ids,
                    _positions(evaluator, scores[1]),
                    tuple(_spread(run, evaluator, scores[1]) for run in scores[0]),
                )
            )
        except MsShiftError as error:
            here.wrong("scores-layout", f"nothing can be computed from the scores: {error}")
            continue
        (found,) = Report(DataInfo(), SETTINGS, [result]).to_json()["systems"]
        for path, said, is_so in differences(claimed, _as_claimed(found, claimed)):
            target = here
            for key in path:
                target = target.at(key)
            target.wrong(
                "report-differs",
                f"the report says {said!r}, the per-query scores give {is_so!r}",
                "write the submission again with 'msshift submit'",
            )
    if start != table.num_rows:
        place.wrong(
            "scores-layout",
            f"{table.num_rows} rows of per-query scores where the report makes for {start}",
        )


_Runs = list[tuple[Mapping[str, Any], dict[tuple[str, str], NDArray[Any]]]]


def _read_blocks(
    claimed: Mapping[str, Any], part: pa.Table, place: Place
) -> tuple[_Runs, dict[str, list[str]]] | None:
    """Cut a shift's rows into blocks of one run, group and measure, as `per_query` lays them out.

    Returns:
        Each run with its scores and whether each query is missing from it (under the measure "");
        and group -> query ids. `None`, with a finding, if a block is not where it belongs.
    """
    members: dict[str, list[str]] = {}
    runs: _Runs = []
    start = 0
    for run in claimed["runs"]:
        arrays: dict[tuple[str, str], NDArray[Any]] = {}
        for group in SHIFTS[claimed["shift"]].groups:
            count = claimed["test_queries"].get(group, 0)
            for measure in SETTINGS.measures:
                block = part.slice(start, count)
                start += count
                expected = {
                    "system": claimed["system"],
                    "shift": claimed["shift"],
                    "seed": run["seed"],
                    "held_out": run["held_out"],
                    "group": group,
                    "measure": measure,
                }
                wrong = [name for name, value in expected.items() if _other(block, name, value)]
                ids = block["query_id"].to_pylist()
                if wrong or not count or block.num_rows != count:
                    what = ", ".join(wrong) or "number of rows"
                    place.wrong(
                        "scores-layout",
                        f"the scores of {run['held_out'] or 'the one run'} on {group} under "
                        f"{measure} are not where they belong: {what}",
                    )
                    return None
                if ids != members.setdefault(group, ids) or len(set(ids)) < count or None in ids:
                    place.wrong(
                        "scores-layout",
                        f"the scores of {run['held_out'] or 'the one run'} on {group} under "
                        f"{measure} are of other queries, or of one twice",
                    )
                    return None
                values = block["score"].to_numpy()
                if block["score"].null_count or not np.isfinite(values).all():
                    place.wrong("score-not-finite", f"a score on {group} is no finite number")
                    return None
                if ((values < 0) | (values > 1)).any():
                    place.wrong("score-out-of-range", f"a score on {group} is not from 0 to 1")
                    return None
                missing = block["missing"].to_numpy(zero_copy_only=False)
                if (missing != arrays.setdefault((group, ""), missing)).any():
                    place.wrong("scores-layout", f"on {group}, 'missing' depends on the measure")
                    return None
                arrays[group, measure] = values
        runs.append((run, arrays))
    return runs, members


def _other(block: pa.Table, name: str, value: object) -> bool:
    return any(one != value for one in block[name].unique().to_pylist())


def _positions(evaluator: Evaluator, members: Mapping[str, list[str]]) -> dict[str, Any]:
    index = evaluator.judgements.index
    return {
        group: np.array([index[one] for one in ids], np.int64) for group, ids in members.items()
    }


def _spread(
    run: tuple[Mapping[str, Any], dict[tuple[str, str], NDArray[Any]]],
    evaluator: Evaluator,
    members: Mapping[str, list[str]],
) -> ScoredRun:
    """Return a run's scores as arrays over all test queries of the shift."""
    said, arrays = run
    positions = _positions(evaluator, members)
    size = len(evaluator.judgements)
    scores = {measure: np.zeros(size) for measure in SETTINGS.measures}
    missing = np.zeros(size, np.bool_)
    for group, where in positions.items():
        missing[where] = arrays[group, ""]
        for measure in SETTINGS.measures:
            scores[measure][where] = arrays[group, measure]
    return ScoredRun(
        RunReport(said["name"]),
        missing,
        np.zeros(size, np.bool_),
        scores,
        scores,
        scores,
        said["held_out"],
        said["seed"],
    )


def _as_claimed(found: dict[str, Any], claimed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recomputed system with what only run files tell taken from the claim."""
    runs = [
        {**said, "missing_queries": run["missing_queries"]}
        for run, said in zip(found["runs"], claimed["runs"], strict=True)
    ]
    measures = {}
    for name, measure in found["measures"].items():
        said = claimed["measures"].get(name, {}).get("cells", [])
        if len(said) == len(measure["cells"]):
            kept = [{key: cell[key] for key in _FROM_RUNS_ONLY} for cell in said]
            cells = [{**a, **b} for a, b in zip(measure["cells"], kept, strict=True)]
            measure = {**measure, "cells": cells}
        measures[name] = measure
    return {**found, "runs": runs, "measures": measures}


def differences(
    said: Any, found: Any, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    """Yield the path of each difference between two JSON values, and both values there.

    Numbers are equal up to 1e-9 of their size: the same code gives the same numbers, but for the
    last bits, which may depend on the processor.
    """
    if isinstance(said, Mapping) and isinstance(found, Mapping):
        for key in [*found, *(key for key in said if key not in found)]:
            yield from differences(said.get(key), found.get(key), (*path, key))
    elif isinstance(said, list | tuple) and isinstance(found, list | tuple):
        if len(said) != len(found):
            yield path, f"{len(said)} items", f"{len(found)} items"
            return
        for position, (one, other) in enumerate(zip(said, found, strict=True)):
            yield from differences(one, other, (*path, position))
    elif isinstance(said, float) and isinstance(found, float):
        if not math.isclose(said, found, rel_tol=_REL_TOLERANCE, abs_tol=1e-12):
            yield path, said, found
    elif said != found:
        yield path, said, found
