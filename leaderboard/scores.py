"""A system's per-query scores, and every figure that a board shows of them.

Nothing else is stored of a measured system: means, losses, intervals, tests and matrices are
computed when they are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.data import Dataset
from msshift_bench.errors import Finding, SubmissionError
from msshift_bench.evaluation import (
    ALL_QUERIES,
    FOR_ALL,
    Checks,
    Scores,
    Settings,
    loss_claims,
    matrix_claims,
    parse_measure,
    score_run_sets,
)
from msshift_bench.output import show_percent
from msshift_bench.plumbing import Progress, silent
from msshift_bench.runs import RunSet
from msshift_bench.shifts import SHIFTS
from msshift_bench.stats import MEAN, QUERIES_ONLY, Figure, infer

__all__ = [
    "FIGURES",
    "MEASURES",
    "SCORES_NAME",
    "SETTINGS",
    "complete_figures",
    "ends_of",
    "figures_of",
    "key_of",
    "read_head",
    "score_submission",
    "text_of",
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


def score_submission(
    run_sets: Sequence[RunSet], system: str, dataset: Dataset, progress: Progress = silent
) -> list[Scores]:
    """Score the run sets of one system by the settings of the boards.

    Args:
        run_sets: its run sets, at least one, at most one per shift.
        system: the system's name.
        dataset: the built data set.
        progress: called with the number of run files done.

    Raises:
        RunError: if runs and data do not belong together, or a run file is missing or malformed.
    """
    named = [replace(run_set, system=system) for run_set in run_sets]
    return score_run_sets(named, dataset, SETTINGS, Checks(dataset.info), progress)


def figures_of(scores: Scores) -> Iterator[Figure]:
    """Yield every figure of a system on a shift, measure by measure, as the boards name them.

    They are ``out``, ``avg_in``, ``loss`` and ``rel_loss`` of each group and of `MEAN`; ``without
    C0``, the mean of one model; ``effect_size``, ``sd_of_seeds`` (of Rel Loss) and ``missing``
    (queries that run files lack, over all models). A system that was not trained per group has its
    scores under ``out``, and no loss.

    Raises:
        DataError: if no query of a group is left to count.
    """
    shift = scores.shift
    assert shift is not None
    counted = scores.check_counted(SETTINGS.missing)
    for measure in SETTINGS.measures:
        claims = [*loss_claims(scores, measure, counted, shift.average)]
        claims += matrix_claims(scores, measure, counted)
        missing = dict.fromkeys(counted, 0.0)
        for row in infer(claims, SETTINGS):
            row = row._replace(group=MEAN if row.group == ALL_QUERIES else row.group, system="")
            if row.figure == "missing":
                missing[row.group] += row.value or 0
            elif row.figure == "score":
                yield _only_value(row, "out")._replace(seeds=1)
            elif row.figure == "model_score" and row.model != FOR_ALL:
                yield _only_value(row, shift.training_of(row.model))
            elif row.figure in ("avg_in", "out", "loss", "effect_size") and row.value is not None:
                yield row
            elif row.figure == "rel_loss" and row.value is not None:
                # Only a group's loss is tested, and only several seeds say something of others.
                untested = row.group == MEAN or (row.seeds or 1) < 2
                yield row._replace(p=None, star=False) if untested else row
                if row.seed_sd is not None:
                    yield _only_value(row._replace(value=row.seed_sd), "sd_of_seeds")
        for group, count in missing.items():
            row = Figure("missing", shift=shift.name, measure=measure.name, group=group)
            yield row._replace(value=count)


def _only_value(row: Figure, figure: str) -> Figure:
    """Return a figure under another name, without its certainty."""
    return Figure(
        figure,
        shift=row.shift,
        measure=row.measure,
        group=row.group,
        value=row.value,
        seeds=row.seeds,
        queries=row.queries,
    )


def key_of(figure: Figure) -> tuple[str, str, str, str]:
    """Return the names of a figure of a board: shift, measure, group and figure."""
    return figure.shift, figure.measure, figure.group, figure.figure


def text_of(figure: Figure, value: float | None = None) -> str:
    """Return a figure, or another value like it, as tables print it."""
    value = figure.value if value is None else value
    if figure.figure in ("rel_loss", "sd_of_seeds"):
        return show_percent(value)
    if figure.figure in ("effect_size", "missing"):
        return "-" if value is None else f"{value:,.2f}".removesuffix(".00")
    return parse_measure(figure.measure).show(value)


def ends_of(figure: Figure) -> str:
    """Return the ends of an interval, and whether they count queries only; "" without one."""
    if figure.interval is None:
        return ""
    low, high = (text_of(figure, end) for end in figure.interval)
    ends = f"[{low}, {high}]".replace("%", "")
    return f"{ends} {QUERIES_ONLY}" if figure.seeds == 1 else ends


def complete_figures(printed: Iterable[Figure]) -> list[Figure]:
    """Return figures, and those that follow from them where they are not printed.

    A score of a system that was not trained per group stands under both Avg In and Out. Of a paper,
    Rel Loss follows from Avg In and Out, and a mean over groups from all groups, rounded as they
    are.
    """
    known = {key_of(figure): figure for figure in printed}
    for out in [figure for figure in known.values() if figure.figure == "out"]:
        names = key_of(out)[:3]
        avg_in = known.setdefault((*names, "avg_in"), out._replace(figure="avg_in"))
        if avg_in.value and out.value is not None and avg_in.value != out.value:
            _add(known, names, "rel_loss", (avg_in.value - out.value) / avg_in.value)
    columns: dict[tuple[str, str, str], list[float]] = {}
    for (shift, measure, group, name), figure in known.items():
        if shift in SHIFTS and group in SHIFTS[shift].groups and name in FIGURES:
            columns.setdefault((shift, measure, name), []).append(figure.value or 0.0)
    for (shift, measure, name), values in columns.items():
        if len(values) == len(SHIFTS[shift].groups):
            _add(known, (shift, measure, MEAN), name, float(np.mean(values)))
    return list(known.values())


def _add(
    known: dict[tuple[str, str, str, str], Figure],
    names: tuple[str, str, str],
    figure: str,
    value: float,
) -> None:
    """Add a figure, if there is none of its names."""
    shift, measure, group = names
    row = Figure(figure, shift=shift, measure=measure, group=group, value=value)
    known.setdefault(key_of(row), row)
