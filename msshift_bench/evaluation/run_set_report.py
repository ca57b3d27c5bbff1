"""The result of an evaluation, from which the JSON report and every table are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation.drawing import check_plot, draw_results
from msshift_bench.evaluation.evaluator import Evaluator, SystemResult, score_in_order
from msshift_bench.evaluation.figure_rows import figure_rows
from msshift_bench.evaluation.fitting import (
    check_models,
    check_passages,
    check_sidecars,
    run_remarks,
)
from msshift_bench.evaluation.per_query import system_table
from msshift_bench.evaluation.report_layout import (
    ReportRecord,
    RunRecord,
    SettingsRecord,
    SystemRecord,
)
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.slices import check_labels, slice_scores
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.output import (
    FIGURE_COLUMNS,
    LongTable,
    WithFigures,
    plain,
    report_head,
    with_head,
)
from msshift_bench.plumbing import Progress, silent, write_atomically
from msshift_bench.runs import find_run_sets
from msshift_bench.shifts import DATASET_NAME, get_shift

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Report", "ScoredRunSets", "evaluate_run_sets", "read_run_sets"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Report(WithFigures):
    """Several systems, evaluated on the same data with the same settings.

    Attributes:
        data: the data.
        settings: the settings.
        systems: the results, by shift and system.
        slices: label -> results on the queries with that label alone, in the same order.
        remarks: doubts about the figures: runs of other data, missing queries, shared files.
    """

    data: DataInfo
    settings: Settings
    systems: Sequence[SystemResult]
    slices: Mapping[str, Sequence[SystemResult]] = field(default_factory=dict)
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        systems = ", ".join(dict.fromkeys(result.system for result in self.systems))
        measures = ", ".join(map(str, self.settings.measures))
        return f"<Report: {systems} on {', '.join(self.by_shift())}, {measures}>"

    def by_shift(self) -> dict[str, list[SystemResult]]:
        """Return shift -> results, in the order in which they were given."""
        shifts: dict[str, list[SystemResult]] = {}
        for result in self.systems:
            shifts.setdefault(result.shift.name, []).append(result)
        return shifts

    def record(self) -> ReportRecord:
        """Return the report's JSON as a value: everything needed to compute a figure again."""
        return ReportRecord(
            **report_head(),
            data=self.data,
            settings=SettingsRecord.of(self.settings),
            systems=tuple(map(SystemRecord.of, self.systems)),
            slices={
                label: tuple(map(SystemRecord.of, results))
                for label, results in self.slices.items()
            },
            remarks=tuple(self.remarks),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        values: dict[str, Any] = plain(self.record())
        return values

    def tidy(self) -> LongTable:
        """Return every figure as a row of one long table, those of slices with their label."""
        rows = list(figure_rows(self.systems))
        for label, results in self.slices.items():
            rows += figure_rows(results, label)
        return LongTable(rows, (*FIGURE_COLUMNS, "label") if self.slices else FIGURE_COLUMNS)

    def plot(self, path: str | Path) -> None:
        """Draw what every system loses, with intervals, and each system's matrix, shift by shift.

        Args:
            path: the file to write, which ends on ``.svg``, ``.png`` or ``.pdf``.

        Raises:
            UnknownNameError: if it ends on something else.
            MissingExtraError: if matplotlib is not installed.
        """
        plot_format = check_plot(path)
        drawn = draw_results(self.systems, self.settings.measures, self.data, plot_format)
        with write_atomically(Path(path)) as file:
            file.write(drawn)

    def per_query(self) -> pa.Table:
        """Return one row per run, test query and measure; see `per_query.system_table`."""
        import pyarrow as pa

        parts = [system_table(result.scores) for result in self.systems]
        head = {
            **report_head(),
            "data": plain(self.data),
            "settings": plain(SettingsRecord.of(self.settings)),
            "runs": [plain(RunRecord.of(run)) for one in self.systems for run in one.scores.runs],
        }
        return with_head(pa.concat_tables(parts), head)


class ScoredRunSets(NamedTuple):
    """Run sets that are being read.

    Attributes:
        data: the data.
        settings: the settings.
        scores: the scores of each run set, with the evaluator of its shift, in the order read.
        remarks: doubts about the data that the runs were made on.
    """

    data: DataInfo
    settings: Settings
    scores: Iterator[tuple[Evaluator, SystemScores]]
    remarks: list[str]


def evaluate_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    allow_partial: bool = False,
    allow_identical: bool = False,
    force_data: bool = False,
    progress: Progress = silent,
) -> Report:
    """Find run sets and evaluate them on a built data set, as a whole and by label.

    Args:
        runs: one or several folders, each of a system's run sets or those of several systems.
        data: the built data set, see `open_dataset`.
        shifts: only these; all that the folders hold, if empty.
        settings: measures, policies and statistics.
        labels: query_id -> label; the report then has a slice for every label.
        allow_partial: compute what can be computed where run files are missing.
        allow_identical: accept the same file under two models of a system.
        force_data: score runs even if their sidecars name other data.
        progress: called with the number of run files done.

    Returns:
        Every system's Avg In, Out and Rel Loss, by shift.

    Raises:
        UnknownNameError: for an unknown shift.
        UsageError: if a run file is given instead of a folder, or no run set is of the requested
            shifts.
        NotFoundError: if a folder or the data set does not exist.
        RunError: if a run file is missing (unless `allow_partial`) or malformed, was made on other
            data (unless `force_data`), answers no test query of a group, or is that of another
            model (unless `allow_identical`).
        DataError: if no test query has a label.
    """
    sets = read_run_sets(
        runs,
        data,
        shifts,
        settings,
        allow_partial=allow_partial,
        allow_identical=allow_identical,
        force_data=force_data,
        progress=progress,
    )
    results = []
    slices: dict[str, list[SystemResult]] = {}
    doubts = []
    for evaluator, scores in sets.scores:
        results.append(evaluator.summarise(scores))
        if labels is not None:
            parts = slice_scores(scores, labels, sets.settings.missing)
            for label, part in parts.items():
                found = evaluator.summarise(part)
                slices.setdefault(label, []).append(found)
                losses = [one.loss for one in found.measures.values() if one.loss is not None]
                if any(one.seed_variance != sets.settings.seed_variance for one in losses):
                    doubts.append(
                        f"{scores.system}/{scores.shift.name}: variance of seeds own in the slice "
                        f"{label}, which lacks groups, so that the models cannot be pooled"
                    )
            doubts += [
                f"{scores.system}/{scores.shift.name}: no slice {label}, because a run lacks each "
                "of its queries"
                for label in slice_scores(scores, labels)
                if label not in parts
            ]
    if labels is not None:
        check_labels(labels, (query for one in results for query in one.scores.query_ids))
    remarks = sets.remarks + run_remarks([result.scores for result in results]) + doubts
    return Report(sets.data, sets.settings, results, slices, remarks)


def read_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path,
    shifts: Sequence[str],
    settings: Settings | None,
    *,
    allow_partial: bool = False,
    allow_identical: bool = False,
    force_data: bool = False,
    progress: Progress = silent,
) -> ScoredRunSets:
    """Find run sets and score them query by query, without computing losses.

    Arguments and errors are those of `evaluate_run_sets`.
    """
    settings = settings or Settings()
    folders = [runs] if isinstance(runs, str | Path) else runs
    for run in folders:
        if str(run) == "-" or Path(run).is_file():
            raise UsageError(
                f"{run} is a run file, not a folder of run sets; say what to score it against: "
                "--test CONFIG, e.g. length-short, or --qrels FILE"
            )
    wanted = {get_shift(name).name for name in shifts}
    run_sets = find_run_sets(folders)
    selected = [run_set for run_set in run_sets if not wanted or run_set.shift.name in wanted]
    if not selected:
        held = ", ".join(dict.fromkeys(run_set.shift.name for run_set in run_sets))
        raise UsageError(f"no run set of {', '.join(sorted(wanted))}; the folders hold {held}")
    dataset = open_dataset(data)
    evaluators = {
        name: Evaluator.from_dataset(name, dataset, settings)
        for name in dict.fromkeys(run_set.shift.name for run_set in selected)
    }
    files = [file for run_set in selected for file in run_set.files]
    remarks = check_sidecars(files, dataset.info, force_data=force_data)
    for run_set in selected:
        check_models(run_set)
    named = [(f"{one.system}/{one.shift.name}", one.files) for one in selected]
    remarks += check_passages(named, force_data=force_data)
    pairs = [(evaluators[run_set.shift.name], run_set) for run_set in selected]
    scored = score_in_order(
        pairs, allow_partial=allow_partial, allow_identical=allow_identical, progress=progress
    )
    in_pairs = zip((evaluator for evaluator, _ in pairs), scored, strict=True)
    return ScoredRunSets(dataset.info, settings, in_pairs, remarks)
