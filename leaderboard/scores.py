"""A system's per-query scores, and every figure that a board shows of them.

Nothing else is stored of a measured system: means, losses, intervals, tests and matrices are
computed when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.data import Dataset
from msshift_bench.errors import Finding, SubmissionError
from msshift_bench.evaluation import (
    MEAN,
    Evaluator,
    Figure,
    Report,
    Settings,
)
from msshift_bench.plumbing import Progress, counted, silent
from msshift_bench.runs import RunSet
from msshift_bench.shifts import SHIFTS

__all__ = [
    "FIGURES",
    "MEASURES",
    "SCORES_NAME",
    "SETTINGS",
    "complete_figures",
    "read_head",
    "score_run_sets",
]

SCORES_NAME = "scores.parquet"
"""The name of the file in an entry."""

SETTINGS = Settings(measures=("RR@10", "nDCG@10", "R@100"))
"""The settings of every entry; pages show the first measure first."""

MEASURES = tuple(measure.name for measure in SETTINGS.measures)
"""The names of its measures."""

FIGURES: Mapping[str, str] = {"out": "Out", "rel_loss": "Rel Loss", "avg_in": "Avg In"}
"""The figures of a board's tables -> their heads. Systems are sorted by the first, not by Rel Loss:
a system that learns nothing loses nothing."""


def read_head(path: Path) -> dict[str, Any]:
    """Return what the writer of scores recorded: ``data`` and ``runs``, with their digests.

    Nobody checks it: it tells where the scores came from, and no figure rests on it.

    Raises:
        SubmissionError: if there is no such record.
    """
    import pyarrow.parquet as pq

    try:
        head = json.loads((pq.read_schema(path).metadata or {})[b"msshift_bench"])
        runs = {str(run["name"]): str(run["digest"]) for run in head["runs"]}
        names = ("collection", "edition", "data_version", "content_digest")
        return {"data": {name: str(head["data"][name]) for name in names}, "runs": runs}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        finding = Finding(
            "no-head", f"its metadata do not say what was scored: {error!r}", str(path)
        )
        raise SubmissionError("these are no per-query scores:", [finding]) from None


def score_run_sets(
    run_sets: Sequence[RunSet], system: str, dataset: Dataset, progress: Progress = silent
) -> Report:
    """Score the run sets of one system by the settings of the boards.

    Args:
        run_sets: its run sets, at least one, at most one per shift.
        system: the system's name.
        dataset: the built data set.
        progress: called with the number of shifts done.

    Raises:
        RunError: if a run file is missing or malformed.
    """
    results = [
        Evaluator.from_dataset(run_set.shift.name, dataset, SETTINGS).evaluate(
            replace(run_set, system=system)
        )
        for run_set in counted(run_sets, progress, "scoring", len(run_sets), every=1)
    ]
    return Report(dataset.info, SETTINGS, results)


def complete_figures(printed: Iterable[Figure]) -> list[Figure]:
    """Return figures, and those that follow from them where they are not printed.

    A score of a system that was not trained per group stands under both Avg In and Out. Of a paper,
    Rel Loss follows from Avg In and Out, and a mean over groups from all groups, rounded as they
    are.
    """
    known = {figure.key: figure for figure in printed}
    for out in [figure for figure in known.values() if figure.figure == "out"]:
        names = out.key[:3]
        avg_in = known.setdefault((*names, "avg_in"), out._replace(figure="avg_in"))
        if avg_in.value and avg_in[4:] != out[4:]:
            loss = Figure(*names, "rel_loss", (avg_in.value - out.value) / avg_in.value)
            known.setdefault(loss.key, loss)
    columns: dict[tuple[str, str, str], list[float]] = {}
    for (shift, measure, group, name), figure in known.items():
        if shift in SHIFTS and group in SHIFTS[shift].groups and name in FIGURES:
            columns.setdefault((shift, measure, name), []).append(figure.value)
    for (shift, measure, name), values in columns.items():
        if len(values) == len(SHIFTS[shift].groups):
            mean = Figure(shift, measure, MEAN, name, float(np.mean(values)))
            known.setdefault(mean.key, mean)
    return list(known.values())
