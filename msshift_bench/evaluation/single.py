"""Scoring single runs against one test set: any run, any qrels, any measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.evaluation.common_notes import data_notes, policy_notes
from msshift_bench.evaluation.fitting import check_sidecars, missing_remarks
from msshift_bench.evaluation.loss_tables import run_counts
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.per_query import run_table
from msshift_bench.evaluation.scored_runs import (
    Cell,
    ScoredRun,
    answered_by_all,
    cell,
    score_run,
    with_value,
)
from msshift_bench.evaluation.settings import Settings
from msshift_bench.output import (
    FIGURE_COLUMNS,
    FigureRow,
    LongTable,
    Table,
    WithFigures,
    plain,
    report_head,
    say_level,
    with_head,
)
from msshift_bench.records import Qrel
from msshift_bench.runs import Judgements, read_qrels
from msshift_bench.shifts import DATASET_NAME, parse_config
from msshift_bench.stats import QUERIES_ONLY, Contributions, Inference, Interval

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JudgedQueries", "RunResult", "EvaluatedRuns", "evaluate_run", "evaluate_runs"]

QrelsSource = str | PathLike[str] | Mapping[str, Mapping[str, int]] | Iterable[Qrel]
"""The types that qrels may have."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgedQueries:
    """Queries with judgements, under a name.

    Attributes:
        name: a config such as ``length-short``, or the qrels file.
        judgements: the queries that count, and their relevant documents.
        data: the data that they come from.
    """

    name: str
    judgements: Judgements
    data: DataInfo

    def __repr__(self) -> str:
        return f"<JudgedQueries: {len(self.judgements):,} of {self.name}>"

    @classmethod
    def of_config(cls, config: str, data: Dataset | str | Path = DATASET_NAME) -> JudgedQueries:
        """Return the test queries of a config of a built data set.

        Args:
            config: e.g. ``length-short``, the test queries of the group ``short``.
            data: ``msshift`` or the folder of a built data set, or one that was opened.

        Returns:
            The queries of the test split; the judgements lack documents judged not relevant.

        Raises:
            UnknownNameError: if there is no such config.
            UsageError: if the config is a whole shift, which has no test split of its own.
            NotFoundError: if there is no built data set.
        """
        shift, group = parse_config(config)
        if group is None:
            raise UsageError(
                f"{config} is a whole shift; name one test set: {', '.join(shift.configs)}"
            )
        dataset = open_dataset(data)
        test_sets = dataset.test_sets(shift)
        relevance = {row.query_id: row.relevant for row in test_sets.pop(group)}
        others = {row.query_id for rows in test_sets.values() for row in rows}
        judgements = Judgements(relevance, relevant_only=True, elsewhere=others)
        return cls(config, judgements, dataset.info)

    @classmethod
    def of_qrels(cls, qrels: QrelsSource) -> JudgedQueries:
        """Return the queries that qrels judge; all of them count.

        Args:
            qrels: a file, as `read_qrels` takes it; a mapping of mappings (query id -> doc id ->
                relevance); or records (query id, doc id, relevance), as `read_qrels` returns them.

        Returns:
            The queries, under the name of the file, or ``<qrels>``.

        Raises:
            NotFoundError: if there is no such file.
            CollectionError: if the qrels are malformed.
        """
        if not isinstance(qrels, str | PathLike):
            return cls("<qrels>", Judgements.from_qrels(qrels), DataInfo())
        if not Path(qrels).exists():
            raise NotFoundError(f"no qrels file {qrels}")
        return cls(str(qrels), Judgements.from_qrels(read_qrels(qrels)), DataInfo())


@dataclass(frozen=True, eq=False, repr=False)
class RunResult:
    """A run on a test set.

    Attributes:
        run: the per-query scores, and facts about the run file.
        settings: measures and policies.
        counted: the positions of the queries that count.
        cells: one summary per measure.
        remarks: doubts about the figures: missing queries.
    """

    run: ScoredRun
    settings: Settings
    counted: Ints
    cells: Sequence[Cell]
    remarks: Sequence[str]

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        return f"<RunResult: {self.run.report.name}, {means}, {self.queries:,} queries>"

    @property
    def queries(self) -> int:
        """How many queries count."""
        return len(self.counted)

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Measure -> confidence interval of the mean over queries (Student's t).

        Sums have none, nor has the mean of fewer than two values.
        """
        means = [one.name for one in self.settings.measures if one.aggregate == "mean"]
        intervals = {
            name: _interval(with_value(self.run.scores[name][self.counted]), self.settings)
            for name in means
        }
        return {name: interval for name, interval in intervals.items() if interval is not None}

    @property
    def means(self) -> dict[str, float]:
        """Measure -> its mean over the queries, from 0 to 1 except for search lengths.

        For a count, such as ``NumRet``, it is the sum.
        """
        return {summary.measure: summary.mean for summary in self.cells}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EvaluatedRuns(WithFigures):
    """Several runs on one test set, and how they were scored.

    Attributes:
        test_set: the test set.
        settings: measures and policies.
        runs: the results, in the order in which the runs were given.
        remarks: doubts about the figures: runs of other data, missing queries.
    """

    test_set: JudgedQueries
    settings: Settings
    runs: Sequence[RunResult]
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        names = ", ".join(result.run.report.name for result in self.runs)
        return f"<EvaluatedRuns: {names} on {self.test_set.name}>"

    def table(self, *, intervals: bool = False) -> Table:
        """Return a row per run: the counted queries, and the mean of every measure.

        Args:
            intervals: show each mean's confidence interval beside it.
        """
        measures = self.settings.measures
        rows = [
            (
                result.run.report.name,
                result.queries,
                result.cells[0].missing,
                result.cells[0].tied,
                *(
                    _show(result, measure, summary.mean, intervals=intervals)
                    for measure, summary in zip(measures, result.cells, strict=True)
                ),
            )
            for result in self.runs
        ]
        header = ("run", "queries", "missing", "tied", *(measure.name for measure in measures))
        unscaled = [measure.name for measure in measures if not measure.percent]
        title = self.test_set.name
        if len(unscaled) < len(measures):
            title += ", means x 100" + (f" (not {', '.join(unscaled)})" if unscaled else "")
        return Table.plain(title, header, rows)

    def notes(self, *, intervals: bool = False) -> list[str]:
        """Return the notes below the tables: data, policies and counts."""
        settings = self.settings
        lines = [*data_notes(self.test_set.data), *policy_notes(settings)]
        for result in self.runs:
            lines.append(f"{result.run.report.name}: {run_counts([result.run])}")
            lines += [
                f"{summary.measure}: the mean of the {summary.queries} of {result.queries} queries "
                "that it has a value for"
                for summary in result.cells
                if summary.queries < result.queries
            ]
        if intervals:
            percent = say_level(settings.confidence)
            lines.append(f"{percent} intervals: {QUERIES_ONLY}, of this one run (Student's t)")
        return [*lines, *self.remarks]

    def tidy(self) -> LongTable:
        """Return every mean as a row of one long table, with its interval over queries."""
        rows = []
        for result in self.runs:
            for measure, summary in zip(self.settings.measures, result.cells, strict=True):
                low, high = result.intervals.get(measure.name) or (None, None)
                rows.append(
                    FigureRow(
                        "",
                        result.run.report.name,
                        measure.name,
                        self.test_set.name,
                        measure.aggregate,
                        summary.mean,
                        low,
                        high,
                        queries=summary.queries,
                    )
                )
        return LongTable(rows, FIGURE_COLUMNS)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON report."""
        return {
            **self._head(),
            "runs": [
                {
                    **plain(result.run.report),
                    "measures": {
                        measure.name: {
                            **plain(summary),
                            "aggregate": measure.aggregate,
                            "interval": plain(result.intervals.get(measure.name)),
                        }
                        for measure, summary in zip(
                            self.settings.measures, result.cells, strict=True
                        )
                    },
                }
                for result in self.runs
            ],
            "remarks": list(self.remarks),
        }

    def _head(self) -> dict[str, Any]:
        return {
            **report_head(),
            "test_set": self.test_set.name,
            "data": plain(self.test_set.data),
            "settings": self.settings.to_json(),
        }

    def per_query(self) -> pa.Table:
        """Return one row per run, query and measure; see `evaluation.per_query.run_table`."""
        import pyarrow as pa

        ids = self.test_set.judgements.query_ids
        everything = {self.test_set.name: np.arange(len(ids))}
        parts = [
            run_table(result.run, ids, everything, {"run": result.run.report.name})
            for result in self.runs
        ]
        runs = [plain(result.run.report) for result in self.runs]
        return with_head(pa.concat_tables(parts), {**self._head(), "runs": runs})


def _show(result: RunResult, measure: Measure, mean: float, *, intervals: bool) -> str:
    if not intervals or measure.name not in result.intervals:
        return measure.show(mean)
    low, high = map(measure.show, result.intervals[measure.name])
    return f"{measure.show(mean)} [{low}, {high}]"


def evaluate_run(
    run: object,
    qrels: QrelsSource | JudgedQueries,
    measures: str | Sequence[str] = ("RR@10",),
    *,
    ties: str = "trec",
    missing: str = "zero",
) -> RunResult:
    """Score one run.

    Args:
        run: a path or anything else that `read_run` takes, or what it returns.
        qrels: a path or anything else that `JudgedQueries.of_qrels` takes; or a test set of the
            benchmark, from `JudgedQueries.of_config`.
        measures: names as ir_measures spells them, in a sequence or in one text.
        ties: how to order documents of equal score, a key of `TIE_POLICIES`.
        missing: how to treat queries that the run lacks, a key of `MISSING_POLICIES`.

    Returns:
        The mean of every measure (`RunResult.means`), per-query scores and facts about the run.

    Raises:
        UnknownNameError: for a measure or a policy that does not exist.
        RunError: if the run is malformed, answers no query that is judged, or was made on other
            data.
        CollectionError: if the qrels are malformed.
        NotFoundError: if a file does not exist.
        DataError: if no query is left to count.
    """
    settings = Settings(measures, ties=ties, missing=missing)
    return evaluate_runs([run], qrels, settings).runs[0]


def evaluate_runs(
    runs: Sequence[object],
    qrels: QrelsSource | JudgedQueries,
    settings: Settings | None = None,
    *,
    force_data: bool = False,
) -> EvaluatedRuns:
    """Score runs against one test set, each on its own.

    Args:
        runs: paths, or anything else that `read_run` takes.
        qrels: as in `evaluate_run`.
        settings: measures and policies.
        force_data: score runs even if their sidecars name other data.

    Returns:
        A result per run, for tables and the JSON report.

    Raises:
        RunError: if a run is malformed, answers no query of the test set, or was made on other
            data (unless `force_data`).
        DataError: if no query is left to count.
    """
    settings = settings or Settings()
    test_set = qrels if isinstance(qrels, JudgedQueries) else JudgedQueries.of_qrels(qrels)
    parts = [part for run in runs for part in (run if isinstance(run, list | tuple) else [run])]
    files = [Path(part) for part in parts if isinstance(part, str | PathLike)]
    remarks = check_sidecars(files, test_set.data, force_data=force_data)
    results = [_evaluate(run, test_set, settings) for run in runs]
    remarks += [remark for result in results for remark in result.remarks]
    return EvaluatedRuns(test_set, settings, results, remarks)


def _evaluate(source: object, test_set: JudgedQueries, settings: Settings) -> RunResult:
    run = score_run(source, test_set.judgements, settings)
    queries = np.arange(len(test_set.judgements))
    counted = answered_by_all([run], queries) if settings.missing == "skip" else queries
    if not counted.size:
        raise DataError(f"{run.report.name} holds no query of {test_set.name}")
    cells = [cell(run, measure, test_set.name, queries, counted) for measure in settings.measures]
    groups = {test_set.name: queries}
    remarks = missing_remarks(run.report.name, [run], groups, test_set.judgements.query_ids)
    return RunResult(run, settings, counted, cells, remarks)


def _interval(scores: Floats, inference: Inference) -> Interval | None:
    if not scores.size:
        return None
    largest = float(np.abs(scores).max())
    uncertainty = Contributions.of([scores[None]], largest).uncertainty()
    if uncertainty is None:
        return None
    return uncertainty.interval(float(scores.mean()), inference.confidence)
