"""Run sets on extra test sets: every held-out model, and the mean over the models of a shift.

MS-Shift's first version prints this mean beside a model trained on everything (its Table 5), and
says what is lost against that one. The models of a shift are not a sample: intervals count other
queries and other seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.data import VariantFile, read_extra_tests
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.common_notes import policy_notes, what_counts
from msshift_bench.evaluation.extra_runs import runs_for_test_set
from msshift_bench.evaluation.extra_test_scores import (
    FOR_ALL,
    MODEL_MEAN,
    ExtraScores,
    drop_between,
    score_extra_runs,
    trained_on_everything,
)
from msshift_bench.evaluation.fitting import check_passages
from msshift_bench.evaluation.measures import Measure
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
    say_level,
    show_percent,
    show_percent_interval,
)
from msshift_bench.runs import find_run_sets
from msshift_bench.shifts import get_shift
from msshift_bench.stats import Contributions, Interval

__all__ = ["ExtraDrop", "ExtraFigure", "ExtraTestReport", "evaluate_extra_tests"]

_DROP = (
    "drop: what the mean over the models loses against the system trained on everything, in per "
    "cent of what that one reaches, on the same queries; the one model counts as it is"
)


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


@dataclass(frozen=True, slots=True)
class ExtraDrop:
    """What the models of a shift lose on an extra test set against one trained on everything.

    Attributes:
        test_set: the test set's name.
        shift: the shift that the models were trained for.
        system: the system.
        measure: the measure.
        against: the system that was trained on everything.
        drop: its mean less the mean over the models, divided by its mean; positive where the models
            of the shift are worse. `None` if its mean is 0, or no query has a value.
        interval: over paired queries, and over the seeds of the shift's models where there are
            several; `None` for fewer than two queries.
        queries: how many queries count.
        seeds: how many seeds of the shift's models count.
    """

    test_set: str
    shift: str
    system: str
    measure: str
    against: str
    drop: float | None
    interval: Interval | None
    queries: int
    seeds: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtraTestReport(WithFigures):
    """Run sets on extra test sets.

    Attributes:
        settings: the settings.
        figures: by test set, shift, system, model and measure.
        drops: against systems that were trained on everything, where there are any; in the same
            order.
        remarks: doubts about the figures: missing queries, models or seeds.
    """

    settings: Settings
    figures: Sequence[ExtraFigure]
    drops: Sequence[ExtraDrop] = ()
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
        drops: dict[str, list[ExtraDrop]] = {}
        for one in self.drops:
            if (one.test_set, one.shift) == (test_set, shift):
                drops.setdefault(one.system, []).append(one)
        for (system, model), figures in rows.items():
            if system != last:
                sections.add(len(cells))
            shown = map(_show, measures, figures)
            cells.append(tuple(map(TableCell, (system if system != last else "", model, *shown))))
            last = system
            if model == MODEL_MEAN and system in drops:
                lost = (
                    f"{show_percent(one.drop)} {show_percent_interval(one.interval)}"
                    for one in drops[system]
                )
                cells.append(
                    tuple(map(TableCell, ("", f"drop from {drops[system][0].against}", *lost)))
                )
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
            *([_DROP] if self.drops else []),
            f"{say_level(self.settings.confidence)} intervals: {counted}",
            *policy_notes(self.settings),
            *self.remarks,
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            **report_head(),
            "settings": self.settings.to_json(),
            "figures": [plain(figure) for figure in self.figures],
            "drops": [plain(drop) for drop in self.drops],
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
                    "mean" if one.model in (MODEL_MEAN, FOR_ALL) else "model",
                    one.mean,
                    low,
                    high,
                    queries=one.queries,
                    seeds=None if one.model == FOR_ALL else one.seeds,
                    label=one.model,
                )
            )
        for drop in self.drops:
            low, high = drop.interval or (None, None)
            rows.append(
                FigureRow(
                    drop.shift,
                    drop.system,
                    drop.measure,
                    drop.test_set,
                    "drop",
                    drop.drop,
                    low,
                    high,
                    queries=drop.queries,
                    seeds=drop.seeds,
                    against=drop.against,
                    label=MODEL_MEAN,
                )
            )
        return LongTable(rows, (*FIGURE_COLUMNS, "against", "label"))


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
    allow_identical: bool = False,
    force_data: bool = False,
) -> ExtraTestReport:
    """Score run sets on extra test sets: each held-out model, and the mean over a shift's models.

    Args:
        runs: folders of run sets; the runs for a test set lie in ``<system>/also/<name>``, as
            `run_baseline` lays them out. Systems without such runs are left out, with a remark.
        also_test: name -> a folder of ``queries.tsv`` and ``qrels.tsv``; judgements may be graded.
        shifts: only the models of these shifts; all, if empty.
        settings: measures and policies; every measure must be a mean.
        allow_partial: go on where models are missing, with those that every seed has.
        allow_identical: accept the same file under two models of a system.
        force_data: go on with runs of different passages; a remark says so.

    Returns:
        The figures by test set, shift, system, model and measure, for tables, JSON and pandas; for
        a system with one beside it that was trained on everything, such as ``splade-all`` beside
        ``splade``, also what the mean loses against that one.

    Raises:
        UsageError: if a measure is a sum, or a name cannot be a folder's.
        NotFoundError: if a folder or a file does not exist, or no system has runs for a test set.
        CollectionError: if the queries or judgements are malformed.
        RunError: if a run is malformed, was made for other queries, is missing (unless
            `allow_partial`), or is that of another model (unless `allow_identical`), or a system's
            runs, or those that it is compared with, are of different passages (unless
            `force_data`).
    """
    settings = settings or Settings()
    for measure in settings.measures:
        if measure.aggregate != "mean":
            raise UsageError(f"{measure.name} is a sum, and models are averaged; leave it out")
    wanted = [get_shift(name) for name in dict.fromkeys(shifts)]
    systems = find_run_sets(runs)
    figures: list[ExtraFigure] = []
    drops: list[ExtraDrop] = []
    remarks: list[str] = []
    for extra in read_extra_tests(also_test):
        if isinstance(extra, VariantFile) or extra.variants:
            raise UsageError(
                f"{also_test[extra.name]} holds variants of queries, which evaluate_variants is for"
            )
        run_sets, lacking = runs_for_test_set(systems, extra, extra.folder, wanted)
        remarks += lacking
        named = [
            (f"{system} on {extra.name} ({one.shift.name})", one.files) for system, one in run_sets
        ]
        remarks += check_passages(named, force_data=force_data)
        scored = [
            score_extra_runs(
                system,
                run_set,
                extra,
                settings,
                partly=allow_partial,
                allow_identical=allow_identical,
            )
            for system, run_set in run_sets
        ]
        remarks += check_passages(
            (
                (
                    f"{everything.system} and {found.system} on {extra.name}",
                    [*everything.files, *found.files],
                )
                for found in scored
                if (everything := trained_on_everything(found, scored)) is not None
                and MODEL_MEAN in found.models
            ),
            force_data=force_data,
            whose="runs that are compared",
        )
        for found in scored:
            figures += _figures(found, extra.name, settings)
            drops += _drops(found, scored, extra.name, settings)
            remarks += found.remarks
    return ExtraTestReport(settings, figures, drops, remarks)


def _figures(found: ExtraScores, test_set: str, settings: Settings) -> Iterator[ExtraFigure]:
    for model in found.models:
        for measure in settings.measures:
            scores = found.of(model, measure)[:, found.queries]
            scores = scores[:, ~np.isnan(scores).any(axis=0)]
            yield ExtraFigure(
                test_set,
                found.shift.name,
                found.system,
                measure.name,
                model,
                float(scores.mean()) if scores.size else float("nan"),
                _interval(scores, settings.confidence),
                scores.shape[1],
                len(scores),
            )


def _drops(
    found: ExtraScores, others: Sequence[ExtraScores], test_set: str, settings: Settings
) -> Iterator[ExtraDrop]:
    everything = trained_on_everything(found, others)
    if everything is None or MODEL_MEAN not in found.models:
        return
    for measure in settings.measures:
        loss = drop_between(everything, found, measure, settings)
        yield ExtraDrop(
            test_set,
            found.shift.name,
            found.system,
            measure.name,
            everything.system,
            loss.rel_loss,
            None if loss.intervals is None else loss.intervals.rel_loss,
            loss.queries,
            loss.seeds,
        )


def _interval(scores: Floats, confidence: float) -> Interval | None:
    """Return the interval of the mean of scores ``[seeds, queries]``."""
    if not scores.size:
        return None
    known = Contributions.of([scores], float(np.abs(scores).max())).uncertainty()
    return None if known is None else known.interval(float(scores.mean()), confidence)
