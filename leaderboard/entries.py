"""The entries of the leaderboards: accepted submissions, in every version, and their figures.

An entry is a folder, ``<board>/<system>/v<n>``: ``system.toml`` (what its author says) and either
``scores.parquet`` and ``training.csv`` (measured) or ``figures.csv`` (reported: a paper's, as
printed, or computed from rankings that others published).
Everything else is computed when it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

from msshift_bench.checked import Checked, Count, Digest, Line, Name, read_rows
from msshift_bench.data import sha256_of
from msshift_bench.errors import Finding, NotFoundError, SubmissionError, UsageError, check_name
from msshift_bench.evaluation import (
    ALL_QUERIES,
    EVERYTHING,
    NONE,
    GroupState,
    OpenedRuns,
    Scored,
    Scores,
    Settings,
    group_states,
    lead_claims,
    read_per_query,
    score_opened,
    system_claims,
)
from msshift_bench.leaderboard.description import (
    BOARD_SHIFTS,
    BOARDS,
    CLASSES,
    DESCRIPTION_NAME,
    LISTS,
    TRAINING_NAME,
    UNDECLARED,
    Board,
    Description,
    TrainedOn,
    read_description,
)
from msshift_bench.libraries import parquet as pq
from msshift_bench.plumbing import clean_up
from msshift_bench.runs import FOR_ALL
from msshift_bench.shifts import get_shift
from msshift_bench.stats import FIGURES, MEAN, Claim, Figure, Figures, infer, rel_loss

SCORES_NAME = "scores.parquet"
"""The name of the file in an entry."""

SETTINGS = Settings(measures=("RR@10", "nDCG@10", "R@100"))
"""The settings of every entry; pages show the first measure first."""

MEASURES = tuple(measure.name for measure in SETTINGS.measures)
"""The names of its measures."""

COLUMNS = {name: FIGURES[name].title for name in ("out", "rel_loss", "avg_in")}
"""The figures of a board's tables -> their heads. Systems are sorted by the first, not by Rel Loss:
a system that learns nothing loses nothing."""

FIGURES_NAME = "figures.csv"
"""The name of the file of reported figures."""

RESCORED_NAME = "rescored.csv"
"""The file of the maintainers beside the boards: whose run files were scored again, and when."""

BADGES: Mapping[str, str] = {
    "rescored": "a maintainer scored its run files again",
    "by its authors": "its authors scored it; nobody has scored its run files again",
    "from a paper": "taken from a paper as printed; nothing was computed here",
    "from published rankings": "computed from rankings or scores of queries that others published; "
    "the files are not here",
}
"""The source of an entry's scores: badge -> its meaning."""


_Unnamed = Annotated[Line, BeforeValidator(lambda text: text or "")]


class ReportedFigure(Checked):
    """A figure that was reported: see `Figure`, of which it is a part."""

    shift: Name
    measure: Name
    group: Name
    figure: Name
    value: Annotated[float, Field(ge=-100, le=1)]
    low: float | None
    high: float | None
    test: _Unnamed = ""
    against: _Unnamed = ""
    seeds: Count | None = None


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
        if self.description.reported:
            return "from a paper" if self.description.source else "from published rankings"
        return "rescored" if self.rescored else "by its authors"

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """Shift -> its per-query scores; nothing for reported figures.

        Raises:
            NotFoundError: if there is no file of scores.
            DataError: if it holds no such scores; see `read_per_query`.
        """
        path = self.folder / SCORES_NAME
        return {} if self.description.reported else read_per_query(path, MEASURES, BOARD_SHIFTS)

    @cached_property
    def head(self) -> dict[str, Any]:
        """What was recorded when its runs were scored; nothing for reported figures.

        ``data`` says what the runs answer, ``runs`` has their digests, and ``rankings`` those of
        what they rank, whatever their scores; entries that were written before there were any have
        ``""``. ``warnings`` says why figures may not be what they seem. Nobody checks it: it tells
        where the scores came from, and no figure rests on it.

        Raises:
            SubmissionError: if there is no such record.
        """
        if self.description.reported:
            return {}
        path = self.folder / SCORES_NAME
        try:
            head = json.loads((pq.read_schema(path.absolute()).metadata or {})[b"msshift_bench"])
            runs = {str(run["name"]): str(run["digest"]) for run in head["runs"]}
            rankings = {str(run["name"]): str(run.get("ranking", "")) for run in head["runs"]}
            names = ("collection", "edition", "data_version", "content_digest")
            data = {name: str(head["data"][name]) for name in names}
            warnings = [str(n["text"]) for n in head.get("notes", ()) if n["kind"] == "doubt"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            message = f"its metadata do not say what was scored: {error!r}"
            finding = Finding("no-head", message, str(path))
            raise SubmissionError("these are no per-query scores:", [finding]) from None
        return {"data": data, "runs": runs, "rankings": rankings, "warnings": warnings}

    @cached_property
    def training(self) -> list[TrainedOn]:
        """What its models were trained on; nothing for reported figures.

        Raises:
            NotFoundError: if there is no such file.
            SubmissionError: if a row or a cell is wrong; with all of them, each with its line.
        """
        path = self.folder / TRAINING_NAME
        if self.description.reported:
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
        if EVERYTHING in training.queries.values():
            return "trained-on-everything"
        declared = {(row.shift, row.model) for row in self.training}
        models = {(shift, m) for shift, part in self.scores.items() for m in part.models}
        if UNDECLARED in training.queries.values() or not models <= declared:
            return "undeclared"
        return "held-out" if any(row.queries for row in self.training) else "none"

    def states_of(self, shift: str, model: str = FOR_ALL) -> dict[str, GroupState]:
        """Return group -> whether a model trained on its queries; see `group_states`."""
        unnamed = NONE if self.training_class == NONE else UNDECLARED
        declared = self.description.training.queries.get(shift, unnamed)
        rows = [row for row in self.training if (row.shift, row.model) == (shift, model)]
        listed = {row.group: row.state for row in rows if declared == LISTS}
        return group_states(get_shift(shift), model, declared) | listed

    @property
    def unbalanced(self) -> set[str]:
        """The shifts whose models were not all trained on equally many queries."""
        shifts = [shift for shift, _ in {(row.shift, row.queries) for row in self.training}]
        return {shift for shift in shifts if shifts.count(shift) > 1}

    @cached_property
    def figures(self) -> list[Figure]:
        """Every figure: of scores as computed now, others as reported, and what follows.

        Raises:
            NotFoundError: if a file is missing.
            SubmissionError: if a file cannot be read.
        """
        figures = [f for part in self.scores.values() for f in figures_of(part)]
        if self.description.reported:
            path = self.folder / FIGURES_NAME
            rows = read_rows(path, ReportedFigure, SubmissionError, f"{path} holds no figures:")
            figures = [Figure(**row.model_dump()) for row in rows]
        return [
            figure._replace(test=test)
            for (test,), part in Figures(figures).each("test")
            for figure in complete_figures(part)
        ]

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
        clean_up(root)
        if not root.is_dir():
            raise NotFoundError(f"no folder of entries at {root}")
        for board, name in enumerate(BOARDS):
            for system in root.glob(f"{name}/[a-z0-9]*"):
                if numbers := [int(path.name[1:]) for path in system.glob("v[1-9]*")]:
                    newest[board, system.name] = open_entry(system / f"v{max(numbers)}")
    return tuple(entry for _, entry in sorted(newest.items(), key=lambda item: item[0]))


def stored_scores(name: str, *roots: str | Path) -> list[Scores]:
    """Return the per-query scores of an entry, to compare other systems with.

    Args:
        name: ``<board>/<system>`` for the newest version, or ``<board>/<system>/v<n>``.
        roots: folders of entries, in addition to the package's.

    Returns:
        Its scores on each shift. The system is named as in ``bm25 (board)``; `Scores.source` holds
        the entry's place, badge, training queries and warnings.

    Raises:
        UnknownNameError: if there is no such entry, or no such version.
        UsageError: if the entry stores no scores: its figures were reported.
        MsShiftError: as `load_entries`, and as `Entry.scores`.

    Examples:
        >>> [scores.shift_name for scores in stored_scores("mini/bm25")]
        ['topics', 'wh-words', 'length']
        >>> stored_scores("mini/bm25/v1")[0].system
        'bm25 v1 (board)'
    """
    board, _, version = name.rpartition("/v") if re.search(r"/v[0-9]+$", name) else (name, "", "")
    rows = {row.description.name: row for row in load_entries(entries_folder(), *roots)}
    entry = rows[check_name("entry", board, rows)]
    if version:
        versions = [f"v{row.description.version}" for row in (entry, *entry.older)]
        entry = open_entry(entry.folder.with_name(check_name("version", f"v{version}", versions)))
    if entry.description.reported:
        raise UsageError(
            f"{name} stores no scores of queries: its figures are {entry.badge}; choose an entry "
            "whose runs were scored"
        )
    named = f"{board.partition('/')[2]}{f' v{version}' * bool(version)} (board)"
    trained = CLASSES[entry.training_class]
    source = f"entry {entry.description.place}, {entry.badge}; training queries: {trained}"
    source = "; ".join([source, *entry.head["warnings"]])
    return [
        replace(
            part,
            system=named,
            states={model: entry.states_of(shift, model) for model in part.models},
            source=source,
        )
        for shift, part in entry.scores.items()
    ]


def score_submission(opened: OpenedRuns, system: str) -> Scored:
    """Score the run sets of one system by the settings of the boards.

    Args:
        opened: its run sets, at least one, at most one per shift, with their data set.
        system: the system's name.

    Raises:
        RunError: if runs and data do not belong together, or a run file is missing or malformed.
    """
    run_sets = [replace(run_set, system=system) for run_set in opened.run_sets]
    return score_opened(replace(opened, run_sets=run_sets), SETTINGS)


def figures_of(scores: Scores) -> Iterator[Figure]:
    """Yield every figure of a system on a shift, measure by measure, as the boards name them.

    They are ``out``, ``avg_in``, ``loss`` and ``rel_loss`` of each group and of `MEAN`; ``without
    C0``, the mean of one model; ``effect_size`` and ``missing`` (queries that run files lack, over
    all models). A system that was not trained per group has its scores under ``out``, and no loss.

    Raises:
        DataError: if no query of a group is left to count.
    """
    for row in _untested(system_claims(scores, SETTINGS)):
        bare = row._replace(low=None, high=None, counts="", seed_sd=None, seed_share=None)
        if row.figure == "score":
            yield bare._replace(figure="out", seeds=row.seeds or 1)
        elif row.figure == "model_score" and row.model != FOR_ALL:
            yield bare._replace(figure=get_shift(row.shift).training_of(row.model), model="")
        elif row.value is not None and not row.model and row.figure != "rel_loss_difference":
            yield row


def leads_of(entry: Entry, reference: Entry | None) -> Iterator[Figure]:
    """Yield the leads of a system over another, on every shift where both have the same queries."""
    for shift, scores in entry.scores.items() if entry is not reference else ():
        other = reference.scores.get(shift) if reference else None
        if other is None or {g: other.ids_of(g) for g in other.groups} != {
            g: scores.ids_of(g) for g in scores.groups
        }:
            continue
        systems, averaged = {"": scores, other.system: other}, get_shift(shift).average
        for measure in SETTINGS.measures:
            yield from _untested(
                lead_claims(systems, measure, scores.groups, averaged, other.system)
            )


def _untested(claims: Iterable[Claim]) -> Iterator[Figure]:
    """Yield figures as the boards name them, without tests.

    A system that joins a board does not change the figures of the others.
    """
    for row in infer((claim._replace(family=()) for claim in claims), SETTINGS):
        yield row._replace(group=MEAN if row.group == ALL_QUERIES else row.group, system="")


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
        shift, measure, group, _ = key_of(out)
        avg_in = known.setdefault((shift, measure, group, "avg_in"), out._replace(figure="avg_in"))
        if avg_in.value and out.value is not None and avg_in.value != out.value:
            loss = Figure(
                "rel_loss",
                shift=shift,
                measure=measure,
                group=group,
                value=rel_loss(avg_in.value, out.value),
            )
            known.setdefault(key_of(loss), loss)
    columns: dict[tuple[str, str, str], list[float]] = {}
    for (shift, measure, group, name), figure in known.items():
        if shift in BOARD_SHIFTS and group in BOARD_SHIFTS[shift].groups and name in COLUMNS:
            columns.setdefault((shift, measure, name), []).append(figure.value or 0.0)
    for (shift, measure, name), values in columns.items():
        if len(values) == len(BOARD_SHIFTS[shift].groups):
            value = float(np.mean(values))
            mean = Figure(name, shift=shift, measure=measure, group=MEAN, value=value)
            known.setdefault(key_of(mean), mean)
    return list(known.values())
