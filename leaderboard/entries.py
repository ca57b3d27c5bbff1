"""The entries of the leaderboards: accepted submissions, in every version, and their figures.

An entry is a folder, ``<board>/<system>/v<n>``. It holds the description, ``system.toml``, and
either ``scores.parquet`` and ``training.csv`` (measured) or ``figures.csv`` (reported). Reported
figures were printed in a paper, or computed from published rankings. All other properties are
computed when they are read.
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
"""The file name of per-query scores."""

SETTINGS = Settings(measures=("RR@10", "nDCG@10", "R@100"))
"""The evaluation settings of every entry; pages show the first measure first."""

MEASURES = tuple(measure.name for measure in SETTINGS.measures)
"""The names of the measures of `SETTINGS`."""

COLUMNS = {name: FIGURES[name].title for name in ("out", "rel_loss", "avg_in")}
"""Figure of a board's tables -> title of its column. Systems are sorted by the first, Out, not by
Rel Loss: a weak system may have no loss."""

FIGURES_NAME = "figures.csv"
"""The file name of reported figures."""

RESCORED_NAME = "rescored.csv"
"""The maintainers' file in the folder of entries: entries whose run files they scored again."""

BADGES: Mapping[str, str] = {
    "rescored": "a maintainer scored its run files again",
    "by its authors": "its authors scored its run files; no maintainer scored them again",
    "from a paper": "copied from a paper as printed; not computed here",
    "from published rankings": "computed from published rankings or per-query scores; their files "
    "are not stored here",
}
"""The source of an entry's scores: badge -> its meaning."""


_Unnamed = Annotated[Line, BeforeValidator(lambda text: text or "")]


class ReportedFigure(Checked):
    """A row of ``figures.csv``; its columns are attributes of `Figure`."""

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
    """A row of ``rescored.csv``: an entry whose run files, scored again, gave its scores.

    Attributes:
        entry: the entry's path, e.g. ``mini/bm25/v1``.
        sha256: the digest of its ``scores.parquet``. For any other file, the row is ignored.
        date: the day, e.g. ``2026-11-21``.
    """

    entry: Name
    sha256: Digest
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


@dataclass(frozen=True, eq=False)
class Entry:
    """One version of a system on a board.

    Attributes:
        folder: its folder.
        description: its description.
    """

    folder: Path
    description: Description

    @property
    def board(self) -> Board:
        """The board."""
        return BOARDS[self.description.board]

    @cached_property
    def rescored(self) -> str:
        """The day on which a maintainer reproduced the current scores from run files; "" if none.

        Raises:
            FileNotFoundError: if the entry has no per-query scores, e.g. with reported figures.
            SubmissionError: if `RESCORED_NAME` cannot be read.
        """
        rows = read_rescored(self.folder.resolve().parents[2])
        days = {(row.entry, row.sha256): row.date for row in rows}
        return days.get((self.description.place, sha256_of(self.folder / SCORES_NAME)), "")

    @property
    def badge(self) -> str:
        """The source of its scores or reported figures, a key of `BADGES`."""
        if self.description.reported:
            return "from a paper" if self.description.source else "from published rankings"
        return "rescored" if self.rescored else "by its authors"

    @cached_property
    def scores(self) -> dict[str, Scores]:
        """Shift -> per-query scores; `{}` for reported figures.

        Raises:
            NotFoundError: if there is no file of scores.
            DataError: if the file does not hold valid scores; see `read_per_query`.
        """
        path = self.folder / SCORES_NAME
        return {} if self.description.reported else read_per_query(path, MEASURES, BOARD_SHIFTS)

    @cached_property
    def head(self) -> dict[str, Any]:
        """The record of the scoring; `{}` for reported figures.

        ``data`` identifies the data set of the runs. ``runs`` maps run names to digests.
        ``rankings`` maps them to digests of their rankings, without scores; in early entries they
        are ``""``. ``warnings`` lists the warnings of the evaluation. The gate does not verify the
        record, and no figure depends on it.

        Raises:
            FileNotFoundError: if there is no file of scores.
            SubmissionError: if the record is missing or malformed.
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
            message = f"the metadata do not name the data and runs: {error!r}"
            finding = Finding("no-head", message, str(path), 0, "write it with 'msshift submit'")
            raise SubmissionError("the per-query scores cannot be used:", [finding]) from None
        return {"data": data, "runs": runs, "rankings": rankings, "warnings": warnings}

    @cached_property
    def training(self) -> list[TrainedOn]:
        """The rows of ``training.csv``; `[]` for reported figures.

        Raises:
            NotFoundError: if there is no such file.
            SubmissionError: if a row or a cell is wrong. The error lists every such line.
        """
        path = self.folder / TRAINING_NAME
        if self.description.reported:
            return []
        return read_rows(path, TrainedOn, SubmissionError, f"{path} cannot be used:")

    @cached_property
    def training_class(self) -> str:
        """The class of its training queries, a key of `CLASSES`.

        Raises:
            MsShiftError: as `training` and `scores`.
        """
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
        """Return group -> ``seen``, ``unseen`` or ``unknown`` by a model; see `group_states`."""
        default = NONE if self.training_class == NONE else UNDECLARED
        declared = self.description.training.queries.get(shift, default)
        rows = [row for row in self.training if (row.shift, row.model) == (shift, model)]
        listed = {row.group: row.state for row in rows if declared == LISTS}
        return group_states(get_shift(shift), model, declared) | listed

    @property
    def unbalanced(self) -> set[str]:
        """The shifts whose models have different numbers of training queries."""
        shifts = [shift for shift, _ in {(row.shift, row.queries) for row in self.training}]
        return {shift for shift in shifts if shifts.count(shift) > 1}

    @cached_property
    def figures(self) -> list[Figure]:
        """All figures, computed from scores or reported, completed by `complete_figures`.

        Raises:
            NotFoundError: if a file is missing.
            DataError: if a file is not valid.
        """
        figures = [f for part in self.scores.values() for f in figures_of(part)]
        if self.description.reported:
            path = self.folder / FIGURES_NAME
            rows = read_rows(path, ReportedFigure, SubmissionError, f"{path} cannot be used:")
            figures = [Figure(**row.model_dump()) for row in rows]
        return [
            figure._replace(test=test)
            for (test,), part in Figures(figures).each("test")
            for figure in complete_figures(part)
        ]

    @property
    def older(self) -> list[Entry]:
        """The earlier versions in the system's folder, the newest first.

        Raises:
            NotFoundError: if a version lacks its description.
            SubmissionError: if a description is not valid.
        """
        folders = [
            self.folder.with_name(f"v{n}") for n in range(self.description.version - 1, 0, -1)
        ]
        return [open_entry(folder) for folder in folders if folder.is_dir()]


def entries_folder() -> Path:
    """Return the folder of the package's entries."""
    return Path(str(files(__package__))) / "entries"


def read_rescored(root: Path) -> list[Rescored]:
    """Return the rows of ``rescored.csv`` in a folder of entries; `[]` without such a file.

    Raises:
        SubmissionError: if the file is malformed.
    """
    path = root / RESCORED_NAME
    summary = f"{path} cannot be used:"
    return read_rows(path, Rescored, SubmissionError, summary) if path.exists() else []


def open_entry(folder: Path) -> Entry:
    """Read the description of one version; scores and figures are read at first access.

    Raises:
        NotFoundError: if there is no description.
        SubmissionError: if the description is not valid.
    """
    return Entry(folder, read_description(folder / DESCRIPTION_NAME))


def load_entries(*roots: str | Path) -> tuple[Entry, ...]:
    """Read the newest version of every entry, without the checks of `check_entries`.

    Args:
        roots: folders of ``<board>/<system>/v<n>``; by default the package's. If several folders
            hold a system, the last folder is used, whatever its versions.

    Returns:
        The entries by board in the order of `BOARDS`, then by system.

    Raises:
        NotFoundError: if there is no such folder, or a version lacks its description.
        SubmissionError: if a description is not valid.
    """
    newest: dict[tuple[int, str], Entry] = {}
    for root in map(Path, roots or (entries_folder(),)):
        clean_up(root)
        if not root.is_dir():
            raise NotFoundError(f"no folder of entries at {root}; give an existing folder")
        for board, name in enumerate(BOARDS):
            for system in root.glob(f"{name}/[a-z0-9]*"):
                if numbers := [int(path.name[1:]) for path in system.glob("v[1-9]*")]:
                    newest[board, system.name] = open_entry(system / f"v{max(numbers)}")
    return tuple(entry for _, entry in sorted(newest.items(), key=lambda item: item[0]))


def stored_scores(name: str, *roots: str | Path) -> list[Scores]:
    """Return the per-query scores of an entry, for comparison with other systems.

    Args:
        name: ``<board>/<system>`` for the newest version, or ``<board>/<system>/v<n>``.
        roots: folders of entries, in addition to the package's.

    Returns:
        The scores on each shift. `Scores.system` has the form ``bm25 (board)``; `Scores.source`
        holds the entry's path, badge, class of training queries and warnings.

    Raises:
        UnknownNameError: if there is no such entry, or no such version.
        UsageError: if the entry has reported figures, without scores.
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
            f"{name} has no per-query scores: its figures are {entry.badge}; choose an entry whose "
            "runs were scored"
        )
    system = f"{board.partition('/')[2]}{f' v{version}' * bool(version)} (board)"
    trained = CLASSES[entry.training_class]
    source = f"entry {entry.description.place}, {entry.badge}; training queries: {trained}"
    source = "; ".join([source, *entry.head["warnings"]])
    return [
        replace(
            part,
            system=system,
            states={model: entry.states_of(shift, model) for model in part.models},
            source=source,
        )
        for shift, part in entry.scores.items()
    ]


def score_submission(opened: OpenedRuns, system: str) -> Scored:
    """Return the scores of one system's run sets with `SETTINGS`, and warnings.

    Args:
        opened: its run sets, at least one, at most one per shift, with their data set.
        system: the system's name in the scores; it replaces the run sets' names.

    Raises:
        RunError: if the runs were made for other data, or a run file is missing or malformed.
    """
    run_sets = [replace(run_set, system=system) for run_set in opened.run_sets]
    return score_opened(replace(opened, run_sets=run_sets), SETTINGS)


def figures_of(scores: Scores) -> Iterator[Figure]:
    """Yield all figures of a system on a shift, measure by measure, without the system's name.

    They are ``out``, ``avg_in``, ``loss`` and ``rel_loss`` of each group and of `MEAN`; the mean of
    each model, such as ``without C0``; ``effect_size``; and ``missing``, the number of queries
    without a ranking, over all models. A system that was not trained per group has only ``out``
    for its scores, and no loss.

    Raises:
        DataError: if a group has no query with scores.
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
    """Yield the leads of an entry over a reference, on every shift with equal test queries.

    There are none over itself, or without a reference.
    """
    for shift, scores in entry.scores.items() if entry is not reference else ():
        compared = reference.scores.get(shift) if reference else None
        if compared is None or {g: compared.ids_of(g) for g in compared.groups} != {
            g: scores.ids_of(g) for g in scores.groups
        }:
            continue
        systems, averaged = {"": scores, compared.system: compared}, get_shift(shift).average
        for measure in SETTINGS.measures:
            yield from _untested(
                lead_claims(systems, measure, scores.groups, averaged, compared.system)
            )


def _untested(claims: Iterable[Claim]) -> Iterator[Figure]:
    """Yield the figures of claims without tests of significance and without the system's name.

    The mean over all queries gets the group `MEAN`. Without tests, a new system on a board does not
    change the figures of other systems.
    """
    for row in infer((claim._replace(family=()) for claim in claims), SETTINGS):
        yield row._replace(group=MEAN if row.group == ALL_QUERIES else row.group, system="")


def key_of(figure: Figure) -> tuple[str, str, str, str]:
    """Return the shift, measure, group and figure name."""
    return figure.shift, figure.measure, figure.group, figure.figure


def complete_figures(reported: Iterable[Figure]) -> list[Figure]:
    """Return figures, completed by figures that can be computed from them.

    A missing Avg In is set to Out: the system was not trained per group. A missing Rel Loss is
    computed from Avg In and Out, if they differ. A missing mean is computed if every group of a
    board's shift has the figure. Printed figures are rounded,
    and so are these results.
    """
    known = {key_of(figure): figure for figure in reported}
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
