"""Making an entry again: its commands, the figures to expect, and what new runs give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import NotFoundError, UnknownNameError, UsageError
from msshift_bench.evaluation import ReportRecord
from msshift_bench.leaderboard.entries import Entry, load_entries
from msshift_bench.leaderboard.rescoring import data_digest, score_run_sets
from msshift_bench.leaderboard.results import FIGURES, MEAN, Result, mean_title, results_of
from msshift_bench.leaderboard.submission import Submission
from msshift_bench.output import Table
from msshift_bench.plumbing import Progress, silent
from msshift_bench.runs import RunSet, find_run_sets
from msshift_bench.shifts import DATASET_NAME, SHIFTS

__all__ = [
    "ReproducedMean",
    "compare_with_entry",
    "comparison_table",
    "expected_table",
    "find_entry",
    "how_closely",
    "why_not_reproducible",
]

_FIGURES = {"avg_in": FIGURES["avg_in"], "out": FIGURES["out"], "rel_loss": FIGURES["rel_loss"]}
_LAST_DIGIT = 1e-9


@dataclass(frozen=True, slots=True)
class ReproducedMean:
    """A mean score of an entry, and the one of new runs.

    Attributes:
        shift: the shift.
        measure: the measure.
        group: the group whose test queries it is the mean over.
        figure: ``out`` or ``avg_in``.
        expected: the entry's, from 0 to 1.
        found: that of the new runs.
    """

    shift: str
    measure: str
    group: str
    figure: str
    expected: float
    found: float

    @property
    def difference(self) -> float:
        """How far the two means lie from each other."""
        return abs(self.found - self.expected)

    def within(self, tolerance: float) -> bool:
        """Whether the means are as close as an entry says; 0 is to the last digit."""
        return self.difference <= tolerance + _LAST_DIGIT


def find_entry(name: str, entries: str | Path | None = None) -> Entry:
    """Return the newest version of a system's entry.

    Args:
        name: its board and its name, e.g. ``mini/bm25``.
        entries: the folder of entries; by default the package's.

    Raises:
        NotFoundError: if there is no such folder.
        UnknownNameError: if there is no such entry.
    """
    listed = {f"{one.board.id}/{one.submission.system.name}": one for one in load_entries(entries)}
    if name not in listed:
        raise UnknownNameError("entry", name, list(listed))
    return listed[name]


def why_not_reproducible(submission: Submission) -> str:
    """Return why there are no commands that make an entry again; "" if there are some."""
    if submission.reported is not None:
        source = submission.reported["source"]
        return f"Reported from a paper ({source}): it was not run here, so there are no commands."
    if submission.reproduction is None:
        return "Its authors give no commands that make it again; its run files were scored here."
    return ""


def how_closely(submission: Submission) -> str:
    """Return how closely an entry's figures repeat, as its authors say."""
    if submission.reproduction is None or submission.reproduction.tolerance is None:
        return "Its authors do not say how closely the figures repeat."
    tolerance = submission.reproduction.tolerance
    if tolerance == 0:
        return "The figures repeat to the last digit."
    return f"Every group's Avg In and Out come within {100 * tolerance:g} points of this row's."


def expected_table(submission: Submission) -> Table:
    """Return the figures to expect: the means of each shift, by an entry's first measure."""
    first: dict[str, Result] = {}
    for (shift, _), result in results_of(submission).items():
        if MEAN in result.columns:
            first.setdefault(shift, result)
    rows = [
        (
            SHIFTS[shift].title,
            *(
                result.columns[MEAN][figure].text if figure in result.columns[MEAN] else "-"
                for figure in _FIGURES
            ),
        )
        for shift, result in first.items()
    ]
    means = dict.fromkeys(mean_title(result.measure) for result in first.values())
    return Table.plain(", ".join(means), ("Shift", *_FIGURES.values()), rows)


def comparison_table(means: Iterable[ReproducedMean]) -> Table:
    """Return, for every shift and measure, the mean that lies furthest off."""
    furthest: dict[tuple[str, str], ReproducedMean] = {}
    for mean in means:
        key = mean.shift, mean.measure
        if key not in furthest or mean.difference > furthest[key].difference:
            furthest[key] = mean
    rows = [
        (
            SHIFTS[shift].title,
            measure,
            f"{_FIGURES[mean.figure]} of {mean.group}",
            f"{mean.expected:.6f}",
            f"{mean.found:.6f}",
        )
        for (shift, measure), mean in furthest.items()
    ]
    header = ("Shift", "Measure", "Furthest off", "Expected", "Found")
    return Table.plain("What the runs give", header, rows, names=3)


def compare_with_entry(
    entry: Entry,
    runs: str | Path,
    data: Dataset | str | Path = DATASET_NAME,
    *,
    progress: Progress = silent,
) -> tuple[ReproducedMean, ...]:
    """Score runs as the gate does, and set each group's means beside those of an entry.

    Args:
        entry: the entry.
        runs: the folder of run sets that holds the system's own folder, or that folder itself; it
            may lack shifts.
        data: the data set that the runs answer.
        progress: called with ``(stage, done, total)``.

    Raises:
        NotFoundError: if there is no such folder or data set.
        RunError: if a run file is missing or malformed.
        UsageError: if the entry is a paper's, the runs are of several systems and none has the
            entry's name, or of other seeds, or the data set has other test queries.
    """
    submission, name = entry.submission, entry.submission.system.name
    if submission.report is None:
        raise UsageError(f"{name} cannot be compared: {why_not_reproducible(submission)}")
    root, dataset = Path(runs), open_dataset(data)
    own = root / name if (root / name).is_dir() else root
    run_sets = [one for one in find_run_sets([own]) if one.shift.name in submission.shifts]
    if not run_sets:
        raise NotFoundError(
            f"{own} holds no runs on the entry's shifts: {', '.join(submission.shifts)}"
        )
    systems = sorted({run_set.system for run_set in run_sets})
    if len(systems) > 1:
        raise UsageError(
            f"{root} holds runs of {', '.join(systems)}, and none of {name}; give the folder of "
            f"one system, e.g. {root / systems[0]}"
        )
    for run_set in run_sets:
        shift = run_set.shift.name
        if data_digest(shift, dataset) not in entry.board.shifts[shift]:
            raise UsageError(
                f"{dataset.folder} has other test queries of {shift} than {entry.board.id}; build "
                "the data set by the entry's first command"
            )
    _check_seeds(run_sets, submission.report)
    report = score_run_sets(run_sets, name, own.parent, dataset, progress).record()
    made = results_of(replace(submission, report=report))
    return tuple(_means(results_of(submission), made))


def _check_seeds(run_sets: Sequence[RunSet], report: ReportRecord) -> None:
    """Check that the runs are of the entry's own seeds: a mean over others is another mean."""
    of_entry = {
        system.shift: {run.seed for run in system.runs if run.seed is not None}
        for system in report.systems
    }
    for run_set in run_sets:
        shift = run_set.shift.name
        seeds = {seed for seed in run_set.runs if seed is not None}
        if seeds != of_entry[shift]:
            raise UsageError(
                f"the runs of {shift} are of {_seeds(seeds)}, and the entry's of "
                f"{_seeds(of_entry[shift])}; run its commands as they stand"
            )


def _seeds(seeds: Iterable[int]) -> str:
    listed = ", ".join(map(str, sorted(seeds)))
    return f"the seeds {listed}" if listed else "no seed"


def _means(
    expected: dict[tuple[str, str], Result], made: dict[tuple[str, str], Result]
) -> Iterator[ReproducedMean]:
    for (shift, measure), result in made.items():
        of_entry = expected[shift, measure]
        figures: Sequence[str] = ("avg_in", "out") if of_entry.per_group else ("out",)
        # Where training sets differ and the test set is one, its mean is all that there is.
        groups = [group for group in of_entry.columns if group != MEAN] or [MEAN]
        for group in groups:
            for figure in figures:
                expected_mean = of_entry.columns[group][figure].value
                found = result.columns[group][figure].value
                yield ReproducedMean(shift, measure, group, figure, expected_mean, found)
