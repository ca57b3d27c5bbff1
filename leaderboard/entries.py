"""The entries of the leaderboards: accepted submissions, in every version, and their figures.

An entry is a folder, ``<board>/<system>/v<n>``: ``system.toml`` (what its author says) and either
``scores.parquet`` and ``training.csv`` (measured) or ``figures.csv`` (a paper's, as printed).
Everything else is computed when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from msshift_bench.checked import Checked, Digest, Name, read_rows
from msshift_bench.data import Dataset, sha256_of
from msshift_bench.errors import Finding, NotFoundError, SubmissionError
from msshift_bench.evaluation import (
    ALL_QUERIES,
    Checks,
    Scores,
    Settings,
    read_per_query,
    score_run_sets,
    system_claims,
)
from msshift_bench.leaderboard.description import (
    BOARDS,
    DESCRIPTION_NAME,
    TRAINING_NAME,
    Board,
    Description,
    TrainedOn,
    read_description,
)
from msshift_bench.libraries import parquet as pq
from msshift_bench.plumbing import settle
from msshift_bench.runs import FOR_ALL, RunSet
from msshift_bench.shifts import SHIFTS, get_shift
from msshift_bench.stats import MEAN, Figure, infer

SCORES_NAME = "scores.parquet"
"""The name of the file in an entry."""

SETTINGS = Settings(measures=("RR@10", "nDCG@10", "R@100"))
"""The settings of every entry; pages show the first measure first."""

MEASURES = tuple(measure.name for measure in SETTINGS.measures)
"""The names of its measures."""

FIGURES: Mapping[str, str] = {"out": "Out", "rel_loss": "Rel Loss", "avg_in": "Avg In"}
"""The figures of a board's tables -> their heads. Systems are sorted by the first, not by Rel Loss:
a system that learns nothing loses nothing."""

FIGURES_NAME = "figures.csv"
"""The name of the file of a paper's figures."""

RESCORED_NAME = "rescored.csv"
"""The file of the maintainers beside the boards: whose run files were scored again, and when."""

BADGES: Mapping[str, str] = {
    "rescored": "a maintainer scored its run files again",
    "by its authors": "its authors scored it; nobody has scored its run files again",
    "from a paper": "taken from a paper as printed; nothing was computed here",
}
"""The source of an entry's scores: badge -> its meaning."""


class PrintedFigure(Checked):
    """A figure as a paper prints it: see `Figure`, of which it is a part."""

    shift: Name
    measure: Name
    group: Name
    figure: Name
    value: Annotated[float, Field(ge=-100, le=1)]
    low: float | None
    high: float | None


class Rescored(Checked):
    """That an entry's run files gave its scores.

    Attributes:
        entry: its folder, e.g. ``mini/bm25/v1``.
        sha256: the digest of its ``scores.parquet``, to which alone the row applies.
        date: the day.
    """

    entry: Name
    sha256: Digest
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


@dataclass(frozen=True, eq=False)
class Entry:
    """One version of a system on a board.

    Attributes:
        folder: its folder.
        description: what its author says.
    """

    folder: Path
    description: Description

    @property
    def board(self) -> Board:
        """The board."""
        return BOARDS[self.description.board]

    @cached_property
    def rescored(self) -> str:
        """The day on which its run files gave these very scores; "" if no maintainer tried.

        Raises:
            SubmissionError: if `RESCORED_NAME` cannot be read.
        """
        rows = read_rescored(self.folder.resolve().parents[2])
        days = {(row.entry, row.sha256): row.date for row in rows}
        return days.get((self.description.place, sha256_of(self.folder / SCORES_NAME)), "")

    @property
    def badge(self) -> str:
        """The source of its scores, a key of `BADGES`."""
        if self.description.source:
            return "from a paper"
        return "rescored" if self.rescored else "by its authors"

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """Shift -> its per-query scores; nothing for a paper's figures.

        Raises:
            NotFoundError: if there is no file of scores.
            DataError: if it holds no such scores; see `read_per_query`.
        """
        path = self.folder / SCORES_NAME
        return {} if self.description.source else read_per_query(path, MEASURES)

    @cached_property
    def head(self) -> dict[str, Any]:
        """What was recorded when its runs were scored; nothing for a paper's figures.

        ``data`` says what the runs answer, ``runs`` has their digests, and ``rankings`` those of
        what they rank, whatever their scores; entries that were written before there were any have
        ``""``. ``doubts`` says why figures may not be what they seem. Nobody checks it: it tells
        where the scores came from, and no figure rests on it.

        Raises:
            SubmissionError: if there is no such record.
        """
        if self.description.source:
            return {}
        path = self.folder / SCORES_NAME
        try:
            head = json.loads((pq.read_schema(path.absolute()).metadata or {})[b"msshift_bench"])
            runs = {str(run["name"]): str(run["digest"]) for run in head["runs"]}
            rankings = {str(run["name"]): str(run.get("ranking", "")) for run in head["runs"]}
            names = ("collection", "edition", "data_version", "content_digest")
            data = {name: str(head["data"][name]) for name in names}
            notes = head.get("notes", ())
            doubts = [str(note["text"]) for note in notes if note["kind"] == "doubt"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            message = f"its metadata do not say what was scored: {error!r}"
            finding = Finding("no-head", message, str(path))
            raise SubmissionError("these are no per-query scores:", [finding]) from None
        return {"data": data, "runs": runs, "rankings": rankings, "doubts": doubts}

    @cached_property
    def training(self) -> list[TrainedOn]:
        """What its models were trained on; nothing for a paper's figures.

        Raises:
            NotFoundError: if there is no such file.
            SubmissionError: if a row or a cell is wrong; with all of them, each with its line.
        """
        path = self.folder / TRAINING_NAME
        if self.description.source:
            return []
        return read_rows(path, TrainedOn, SubmissionError, f"{path} counts no training queries:")

    @cached_property
    def training_class(self) -> str:
        """The class of its training queries, a key of `CLASSES`."""
        system, training = self.description.system, self.description.training
        if self.description.source and system.family != "lexical":
            return "held-out-reported" if training.data.strip() else "undeclared"
        if any(row.test_queries for row in self.training):
            return "trained-on-test"
        declared = {(row.shift, row.model) for row in self.training}
        models = {(shift, m) for shift, part in self.scores.items() for m in part.models}
        if not models <= declared:
            return "undeclared"
        return "held-out" if any(row.queries for row in self.training) else "none"

    @property
    def unbalanced(self) -> set[str]:
        """The shifts whose models were not all trained on equally many queries."""
        sizes = {(row.shift, row.queries) for row in self.training}
        shifts = [shift for shift, _ in sizes]
        return {shift for shift in shifts if shifts.count(shift) > 1}

    @cached_property
    def figures(self) -> list[Figure]:
        """Every figure: of scores as computed now, of a paper as printed, and what follows.

        Raises:
            NotFoundError: if a file is missing.
            SubmissionError: if a file cannot be read.
        """
        figures = [f for part in self.scores.values() for f in figures_of(part)]
        if self.description.source:
            path = self.folder / FIGURES_NAME
            rows = read_rows(path, PrintedFigure, SubmissionError, f"{path} holds no figures:")
            figures = [Figure(**row.model_dump()) for row in rows]
        return complete_figures(figures)

    @property
    def older(self) -> list[Entry]:
        """The versions before that lie beside it, the last first.

        Raises:
            SubmissionError: if one of them describes no system.
        """
        folders = [
            self.folder.with_name(f"v{n}") for n in range(self.description.version - 1, 0, -1)
        ]
        return [open_entry(folder) for folder in folders if folder.is_dir()]


def entries_folder() -> Path:
    """Return the folder of the entries that come with the package."""
    return Path(str(files(__package__))) / "entries"


def read_rescored(root: Path) -> list[Rescored]:
    """Return whose run files were scored again, of a folder of entries.

    Raises:
        SubmissionError: if the file is none.
    """
    path = root / RESCORED_NAME
    summary = f"{path} does not name entries:"
    return read_rows(path, Rescored, SubmissionError, summary) if path.exists() else []


def open_entry(folder: Path) -> Entry:
    """Read what the author of one version says; scores and figures are read when asked for.

    Raises:
        NotFoundError: if there is no description.
        SubmissionError: if it describes no system.
    """
    return Entry(folder, read_description(folder / DESCRIPTION_NAME))


def load_entries(*roots: str | Path) -> tuple[Entry, ...]:
    """Read the newest version of every entry; the gate (`check_entries`) checks them.

    Args:
        roots: folders of ``<board>/<system>/v<n>``; by default the package's. Of a system that two
            of them hold, that of the later folder counts.

    Returns:
        The entries by board in the order of `BOARDS`, then by system.

    Raises:
        NotFoundError: if there is no such folder, or a version lacks its description.
        SubmissionError: if a file describes no system.
    """
    newest: dict[tuple[int, str], Entry] = {}
    for root in map(Path, roots or (entries_folder(),)):
        settle(root)
        if not root.is_dir():
            raise NotFoundError(f"no folder of entries at {root}")
        for board, name in enumerate(BOARDS):
            for system in root.glob(f"{name}/[a-z0-9]*"):
                if numbers := [int(path.name[1:]) for path in system.glob("v[1-9]*")]:
                    newest[board, system.name] = open_entry(system / f"v{max(numbers)}")
    return tuple(entry for _, entry in sorted(newest.items(), key=lambda item: item[0]))


def score_submission(run_sets: Sequence[RunSet], system: str, dataset: Dataset) -> list[Scores]:
    """Score the run sets of one system by the settings of the boards.

    Args:
        run_sets: its run sets, at least one, at most one per shift.
        system: the system's name.
        dataset: the built data set.

    Raises:
        RunError: if runs and data do not belong together, or a run file is missing or malformed.
    """
    under_one_name = [replace(run_set, system=system) for run_set in run_sets]
    return score_run_sets(under_one_name, dataset, SETTINGS, Checks(dataset.info))


def figures_of(scores: Scores) -> Iterator[Figure]:
    """Yield every figure of a system on a shift, measure by measure, as the boards name them.

    They are ``out``, ``avg_in``, ``loss`` and ``rel_loss`` of each group and of `MEAN`; ``without
    C0``, the mean of one model; ``effect_size`` and ``missing`` (queries that run files lack, over
    all models). A system that was not trained per group has its scores under ``out``, and no loss.

    Raises:
        DataError: if no query of a group is left to count.
    """
    # A system that joins the board must not change what is said of another: nothing is tested.
    untested = (claim._replace(family=()) for claim in system_claims(scores, SETTINGS))
    for row in infer(untested, SETTINGS):
        row = row._replace(group=MEAN if row.group == ALL_QUERIES else row.group, system="")
        bare = row._replace(low=None, high=None, counts="", seed_sd=None, seed_share=None)
        if row.figure == "score":
            yield bare._replace(figure="out", seeds=1)
        elif row.figure == "model_score" and row.model != FOR_ALL:
            yield bare._replace(figure=get_shift(row.shift).training_of(row.model), model="")
        elif row.value is not None and not row.model:
            yield row


def key_of(figure: Figure) -> tuple[str, str, str, str]:
    """Return the names of a figure of a board: shift, measure, group and figure."""
    return figure.shift, figure.measure, figure.group, figure.figure


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
