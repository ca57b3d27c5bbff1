"""Run sets on extra test sets: every held-out model, and the mean over the models of a shift.

MS-Shift's first version prints this mean beside a model trained on everything (its Table 5). The
models of a shift are not a sample: intervals count other queries and other seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.data import ExtraTestSet, VariantFile, read_extra_tests
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.common_notes import policy_notes, what_counts
from msshift_bench.evaluation.extra_runs import (
    check_same_queries,
    runs_for_test_set,
    score_models,
)
from msshift_bench.evaluation.fitting import missing_remarks
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scored_runs import answered_by_all
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output import (
    FIGURE_COLUMNS,
    FigureRow,
    LongTable,
    Table,
    TableCell,
    WithFigures,
    plain,
    report_head,
)
from msshift_bench.runs import Judgements, RunSet, find_run_sets
from msshift_bench.shifts import get_shift
from msshift_bench.stats import Contributions, Interval

__all__ = ["ExtraFigure", "ExtraTestReport", "evaluate_extra_tests"]


@dataclass(frozen=True, slots=True)
class ExtraFigure:
    """One mean on an extra test set.

    Attributes:
        test_set: the test set's name.
        shift: the shift that the models were trained for.
        system: the system.
        measure: the measure.
        model: the group that the model was trained without; ``mean`` for the mean over the models
            of the shift, ``all`` for a system that was not trained per group.
        mean: the mean over queries and seeds, and for ``mean`` over models; NaN if no query has a
            value.
        interval: its interval over queries, and over seeds where there are several; `None` for
            fewer than two queries.
        queries: how many queries count.
        seeds: how many seeds count.
    """

    test_set: str
    shift: str
    system: str
    measure: str
    model: str
    mean: float
    interval: Interval | None
    queries: int
    seeds: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtraTestReport(WithFigures):
    """Run sets on extra test sets.

    Attributes:
        settings: the settings.
        figures: by test set, shift, system, model and measure.
        remarks: doubts about the figures: missing queries, models or seeds.
    """

    settings: Settings
    figures: Sequence[ExtraFigure]
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(figure.test_set for figure in self.figures))
        return f"<ExtraTestReport: {names}, {len(self.figures)} figures>"

    def tables(self) -> list[Table]:
        """Return a table per test set and shift: systems and their models down, measures across."""
        parts: dict[tuple[str, str], dict[tuple[str, str], list[ExtraFigure]]] = {}
        for figure in self.figures:
            rows = parts.setdefault((figure.test_set, figure.shift), {})
            rows.setdefault((figure.system, figure.model), []).append(figure)
        return [self._table(*names, rows) for names, rows in parts.items()]

    def _table(
        self, test_set: str, shift: str, rows: Mapping[tuple[str, str], Sequence[ExtraFigure]]
    ) -> Table:
        measures = self.settings.measures
        cells: list[tuple[TableCell, ...]] = []
        sections: set[int] = set()
        last = ""
        for (system, model), figures in rows.items():
            if system != last:
                sections.add(len(cells))
            shown = map(_show, measures, figures)
            cells.append(tuple(map(TableCell, (system if system != last else "", model, *shown))))
            last = system
        counts = sorted({figure.queries for figures in rows.values() for figure in figures})
        queries = f"{counts[0]:,}" + (f" to {counts[-1]:,}" if len(counts) > 1 else "")
        unscaled = [measure.name for measure in measures if not measure.percent]
        title = f"{test_set} ({queries} queries), models of {get_shift(shift).title} ({shift})"
        if len(unscaled) < len(measures):
            title += ", means x 100" + (f" (not {', '.join(unscaled)})" if unscaled else "")
        return Table(
            title,
            ("system", "without", *(measure.mean_name for measure in measures)),
            tuple(cells),
            frozenset(sections),
            names=2,
            label=f"{test_set} {shift}",
        )

    def notes(self) -> list[str]:
        """Return the notes below the tables: what rows and intervals mean, and policies."""
        counted = what_counts(figure.seeds for figure in self.figures)
        return [
            "without: the group that the model was trained without; mean: over these models; all: "
            "one model for all groups",
            f"{100 * self.settings.confidence:g}% intervals: {counted}",
            *policy_notes(self.settings),
            *self.remarks,
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            **report_head(),
            "settings": self.settings.to_json(),
            "figures": [plain(figure) for figure in self.figures],
            "remarks": list(self.remarks),
        }

    def tidy(self) -> LongTable:
        """Return every figure as a row of one long table, the model as its label."""
        rows = []
        for one in self.figures:
            low, high = one.interval or (None, None)
            rows.append(
                FigureRow(
                    one.shift,
                    one.system,
                    one.measure,
                    one.test_set,
                    "mean" if one.model in ("mean", "all") else "model",
                    one.mean,
                    low,
                    high,
                    queries=one.queries,
                    seeds=None if one.model == "all" else one.seeds,
                    label=one.model,
                )
            )
        return LongTable(rows, (*FIGURE_COLUMNS, "label"))


def _show(measure: Measure, figure: ExtraFigure) -> str:
    if figure.interval is None:
        return measure.show(figure.mean)
    low, high = map(measure.show, figure.interval)
    return f"{measure.show(figure.mean)} [{low}, {high}]"


def evaluate_extra_tests(
    runs: str | Path | Iterable[str | Path],
    also_test: Mapping[str, str | Path],
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    allow_partial: bool = False,
) -> ExtraTestReport:
    """Score run sets on extra test sets: each held-out model, and the mean over a shift's models.

    Args:
        runs: folders of run sets; the runs for a test set lie in ``<system>/also/<name>``, as
            `run_baseline` lays them out. Systems without such runs are left out, with a remark.
        also_test: name -> a folder of ``queries.tsv`` and ``qrels.tsv``; judgements may be graded.
        shifts: only the models of these shifts; all, if empty.
        settings: measures and policies; every measure must be a mean.
        allow_partial: go on where models are missing, with those that every seed has.

    Returns:
        The figures by test set, shift, system, model and measure, for tables, JSON and pandas.

    Raises:
        UsageError: if a measure is a sum, or a name cannot be a folder's.
        NotFoundError: if a folder or a file does not exist, or no system has runs for a test set.
        CollectionError: if the queries or judgements are malformed.
        RunError: if a run is malformed, was made for other queries, or is missing (unless
            `allow_partial`).
    """
    settings = settings or Settings()
    for measure in settings.measures:
        if measure.aggregate != "mean":
            raise UsageError(f"{measure.name} is a sum, and models are averaged; leave it out")
    wanted = [get_shift(name) for name in dict.fromkeys(shifts)]
    run_sets = find_run_sets(runs)
    figures: list[ExtraFigure] = []
    remarks: list[str] = []
    for extra in read_extra_tests(also_test):
        if isinstance(extra, VariantFile) or extra.variants:
            raise UsageError(
                f"{also_test[extra.name]} holds variants of queries, which evaluate_variants is for"
            )
        found, lacking = runs_for_test_set(run_sets, extra, extra.folder, wanted)
        remarks += lacking
        for system, run_set in found:
            added, doubts = _evaluate(system, run_set, extra, settings, partly=allow_partial)
            figures += added
            remarks += doubts
    return ExtraTestReport(settings, figures, remarks)


def _evaluate(
    system: str, run_set: RunSet, extra: ExtraTestSet, settings: Settings, *, partly: bool
) -> tuple[list[ExtraFigure], list[str]]:
    if not partly:
        run_set.check_complete()
    check_same_queries(run_set, extra)
    judgements = Judgements(extra.judged)
    by_seed = score_models(run_set, judgements, settings)
    scored = {model: list(runs.values()) for model, runs in by_seed.items()}
    every = [run for runs in scored.values() for run in runs]
    queries = np.arange(len(judgements))
    name = f"{system} on {extra.name} ({run_set.shift.name})"
    remarks = missing_remarks(name, every, {extra.name: queries}, judgements.query_ids)
    if settings.missing == "skip":
        queries = answered_by_all(every, queries)
    remarks += [
        f"{name}: no run without {group}" + ("" if seed is None else f", seed {seed}")
        for seed, group in run_set.missing
    ]
    # As in losses: models that every seed has, so that all seeds are means over the same models.
    whole = [model for model, runs in scored.items() if len(runs) == len(run_set.runs)]

    figures = []
    for model in [*scored, *(["mean"] if len(whole) > 1 else [])]:
        for measure in settings.measures:
            parts = [
                np.stack([run.scores[measure.name][queries] for run in scored[one]])
                for one in (whole if model == "mean" else [model])
            ]
            scores = np.mean(parts, axis=0)
            scores = scores[:, ~np.isnan(scores).any(axis=0)]
            figures.append(
                ExtraFigure(
                    extra.name,
                    run_set.shift.name,
                    system,
                    measure.name,
                    model,
                    float(scores.mean()) if scores.size else float("nan"),
                    _interval(scores, settings.confidence),
                    scores.shape[1],
                    len(scores),
                )
            )
    return figures, remarks


def _interval(scores: Floats, confidence: float) -> Interval | None:
    """Return the interval of the mean of scores ``[seeds, queries]``."""
    if not scores.size:
        return None
    known = Contributions.of([scores], float(np.abs(scores).max())).uncertainty()
    return None if known is None else known.interval(float(scores.mean()), confidence)
