"""A board as the page shows it: its systems, and a table for every shift and measure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msshift_bench.evaluation import parse_measure
from msshift_bench.leaderboard.boards import Board
from msshift_bench.leaderboard.entries import Entry
from msshift_bench.leaderboard.layout import BADGES, FAMILIES, RERANKS
from msshift_bench.leaderboard.leaked_tests import leaked_share
from msshift_bench.leaderboard.ranks import Ranks
from msshift_bench.leaderboard.results import (
    FIGURES,
    MEAN,
    Result,
    describe_mean,
    mark_best,
    mean_title,
    over_shifts,
    results_of,
    show_parameters,
)
from msshift_bench.shifts import SHIFTS

__all__ = [
    "ALL_SHIFTS",
    "ON_TEST",
    "UNBALANCED",
    "BoardView",
    "SystemView",
    "by_out",
    "file_name",
    "pareto_front",
    "view_board",
]

ALL_SHIFTS = "all"
"""The page's name for the mean over the shifts of MS-Shift."""

REFERENCE = "bm25"
"""The system that table and scatter measure all others against, where it was not trained."""

ON_TEST = "trained-on-test"
"""The class of systems that the page shows separately."""

FAMILY_TITLES: Mapping[str, str] = {
    family: family.replace("-", " ").capitalize() for family in FAMILIES
} | {"cross-encoder": "Cross-encoder"}
CLASS_TITLES: Mapping[str, str] = {
    "held-out": "Held out",
    "held-out-reported": "Held out, as reported",
    ON_TEST: "Trained on test",
    "undeclared": "Undeclared",
    "none": "Not trained",
}


UNBALANCED = "unbalanced training sets"
"""The label of losses that also depend on the sizes of training sets."""


@dataclass(frozen=True, slots=True)
class SystemView:
    """A system on a board.

    Attributes:
        name: its slug.
        entry: its versions.
        results: (shift, measure) -> its result.
    """

    name: str
    entry: Entry
    results: Mapping[tuple[str, str], Result]

    @property
    def on_test(self) -> bool:
        """Whether it was trained on test queries."""
        return self.entry.submission.training.exposure == ON_TEST

    @property
    def family(self) -> str:
        """The page's name for its family."""
        return FAMILY_TITLES[self.entry.submission.system.family]

    @property
    def training_class(self) -> str:
        """The page's name for its class of training queries."""
        return CLASS_TITLES[self.entry.submission.training.exposure]

    def notes(self, shifts: Iterable[str]) -> list[str]:
        """Return notes on its figures on some shifts."""
        submission = self.entry.submission
        notes = []
        if submission.system.candidates.startswith(RERANKS):
            notes.append(submission.system.candidates)
        training = submission.report.data.training if submission.report is not None else {}
        balanced = all(training[shift].balanced for shift in shifts if shift in training)
        if submission.training.per_group and not balanced:
            notes.append(UNBALANCED)
        return notes

    @property
    def measures(self) -> tuple[str, ...]:
        """Its measures, in the order of its report."""
        return tuple(dict.fromkeys(measure for _, measure in self.results))

    def measures_on(self, shift: str) -> list[str]:
        """Return the measures that it was scored by on a shift."""
        return [measure for own, measure in self.results if own == shift]

    @property
    def shifts(self) -> tuple[str, ...]:
        """The shifts on which it has results."""
        return tuple(dict.fromkeys(shift for shift, _ in self.results))


@dataclass(frozen=True, slots=True)
class BoardView:
    """A board with its systems.

    Attributes:
        board: the board.
        systems: name -> system, by name.
    """

    board: Board
    systems: Mapping[str, SystemView]

    @property
    def shifts(self) -> tuple[str, ...]:
        """The shifts on which a system has results, in the order of the board."""
        held = {shift for system in self.systems.values() for shift in system.shifts}
        return tuple(shift for shift in self.board.shifts if shift in held)

    @property
    def reference(self) -> str | None:
        """The system that all others are measured against; `None` if the board has none."""
        system = self.systems.get(REFERENCE)
        untrained = system is not None and not system.entry.submission.training.per_group
        return REFERENCE if untrained else None

    @property
    def averaged(self) -> tuple[str, ...]:
        """The shifts whose mean `ALL_SHIFTS` is: those of MS-Shift itself."""
        return tuple(shift for shift in self.board.shifts if SHIFTS[shift].in_ms_shift)

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Return shift -> measures that a system has results in; last `ALL_SHIFTS`."""
        systems = self.systems.values()
        tables = {
            shift: tuple(dict.fromkeys(m for system in systems for m in system.measures_on(shift)))
            for shift in self.shifts
        }
        if self.averaged and all(shift in tables for shift in self.averaged):
            measures = tables[self.averaged[0]]
            held = tuple(m for m in measures if any(self.results(ALL_SHIFTS, m)))
            if held:
                tables[ALL_SHIFTS] = held
        return tables

    def results(self, shift: str, measure: str) -> dict[str, Result]:
        """Return system -> its result, as `by_out` orders them.

        The best are marked among those not trained on test queries.
        """
        results = {}
        for name, system in self.systems.items():
            if shift == ALL_SHIFTS:
                result = over_shifts(system.results, self.averaged, measure)
            else:
                result = system.results.get((shift, measure))
            if result is not None:
                results[name] = result
        fair = {name: result for name, result in results.items() if not self.systems[name].on_test}
        higher = parse_measure(measure).higher_is_better
        marked = {**results, **mark_best(fair, higher_is_better=higher)}
        return by_out(marked, higher_is_better=higher)

    def columns(self, shift: str) -> list[dict[str, str]]:
        """Return the columns of a table with their descriptions, the mean last."""
        if shift == ALL_SHIFTS:
            named = {name: SHIFTS[name].title for name in self.averaged}
        else:
            named = dict(self.board.describe_groups(shift))
        over = "over shifts" if shift == ALL_SHIFTS else describe_mean(shift)
        return [
            *({"name": name, "description": text} for name, text in named.items()),
            {"name": MEAN, "description": over},
        ]

    def head_json(self) -> dict[str, Any]:
        """Return the data of every page of the board: its systems, shifts and measures."""
        tables = self.tables()
        measures = dict.fromkeys(measure for held in tables.values() for measure in held)
        return {
            "board": {"id": self.board.id, "title": self.board.title, "kind": self.board.kind},
            "shifts": [
                {
                    "name": shift,
                    "title": shift_title(shift),
                    "description": "" if shift == ALL_SHIFTS else SHIFTS[shift].description,
                    "columns": self.columns(shift),
                    "measures": held,
                }
                for shift, held in tables.items()
            ],
            "measures": {measure: _measure(measure) for measure in measures},
            "figures": dict(FIGURES),
            "badges": dict(BADGES),
            "reference": self.reference,
            "systems": {name: _system(system) for name, system in self.systems.items()},
        }

    def table_json(self, shift: str, measure: str, ranks: Ranks | None) -> dict[str, Any]:
        """Return one table.

        Args:
            shift: a shift, or `ALL_SHIFTS`.
            measure: the measure.
            ranks: the systems' ranks; `None` without per-query scores.
        """
        results = self.results(shift, measure)
        covered = self.averaged if shift == ALL_SHIFTS else (shift,)
        higher = parse_measure(measure).higher_is_better
        fronts = {
            figure: pareto_front(self._points(results, figure), higher_is_better=higher)
            for figure in ("out", "avg_in")
        }
        return {
            "shift": shift,
            "measure": measure,
            "columns": self.columns(shift),
            "rows": {
                name: {
                    **_rank(ranks, name, self.systems[name], shift),
                    "notes": self.systems[name].notes(covered),
                    "perGroup": result.per_group,
                    "seeds": result.seeds,
                    **_leaked(self.systems[name], covered),
                    "front": [figure for figure, front in fronts.items() if name in front],
                    "cells": {
                        column: {figure: cell.to_json() for figure, cell in figures.items()}
                        for column, figures in result.columns.items()
                    },
                }
                for name, result in results.items()
            },
        }

    def _points(self, results: Mapping[str, Result], figure: str) -> dict[str, tuple[float, float]]:
        means = {
            name: result.columns[MEAN]
            for name, result in results.items()
            if MEAN in result.columns and not self.systems[name].on_test
        }
        return {
            name: (figures[figure].value, figures["rel_loss"].value)
            for name, figures in means.items()
            if "rel_loss" in figures
        }


def view_board(board: Board, entries: Iterable[Entry]) -> BoardView:
    """Return a board with the systems among `entries` that are on it."""
    systems = {
        entry.submission.system.name: SystemView(
            entry.submission.system.name, entry, results_of(entry.submission)
        )
        for entry in entries
        if entry.board.id == board.id
    }
    return BoardView(board, dict(sorted(systems.items())))


def shift_title(shift: str) -> str:
    """Return the page's name for a shift."""
    return "All shifts" if shift == ALL_SHIFTS else SHIFTS[shift].title


def file_name(shift: str, measure: str) -> str:
    """Return a name for a table's file, of small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", f"{shift}-{measure}".lower()).strip("-")


def by_out(results: Mapping[str, Result], *, higher_is_better: bool) -> dict[str, Result]:
    """Return results by the mean of Out, the best first; equal ones by name, those without last.

    Args:
        results: system -> its result, all of one shift and measure.
        higher_is_better: false for ASL and the like.
    """

    def place(name: str) -> tuple[float, str]:
        mean = results[name].columns.get(MEAN, {}).get("out")
        if mean is None:
            return math.inf, name
        return (-mean.value if higher_is_better else mean.value), name

    return {name: results[name] for name in sorted(results, key=place)}


def pareto_front(
    points: Mapping[str, tuple[float, float]], *, higher_is_better: bool
) -> frozenset[str]:
    """Return the systems that no other beats in both effectiveness and robustness.

    Args:
        points: system -> (score, Rel Loss).
        higher_is_better: whether a higher score is better.
    """
    sign = 1 if higher_is_better else -1

    def beaten(score: float, loss: float) -> bool:
        return any(
            sign * other >= sign * score and less <= loss and (other, less) != (score, loss)
            for other, less in points.values()
        )

    return frozenset(name for name, (score, loss) in points.items() if not beaten(score, loss))


def _rank(ranks: Ranks | None, name: str, system: SystemView, shift: str) -> dict[str, Any]:
    if ranks is not None and name in ranks.ranked:
        place = ranks.ranked[name]
        return {"rank": place.rank, "range": f"{place.best_rank}-{place.worst_rank}"}
    return {"rank": None, "unranked": _why_unranked(ranks, name, system, shift)}


def _why_unranked(ranks: Ranks | None, name: str, system: SystemView, shift: str) -> str:
    if shift == ALL_SHIFTS:
        return "systems are ranked on each shift, not over all of them"
    if system.on_test:
        return "trained on test queries"
    if system.entry.submission.report is None:
        return "taken from a paper, so there are no per-query scores to test"
    return "" if ranks is None else ranks.unranked.get(name, "")


def _leaked(system: SystemView, shifts: Iterable[str]) -> dict[str, Any]:
    """Return the share of zero-shot test queries that leaked, and the page's text for it."""
    counts = [leaked_share(system.entry.submission, shift) for shift in shifts]
    known = [count for count in counts if count is not None]
    total = sum(queries for _, queries in known)
    if len(known) < len(counts) or not total:
        return {"leaked": None, "leakedText": ""}
    leaked = sum(count for count, _ in known)
    return {"leaked": leaked / total, "leakedText": f"{100 * leaked / total:.1f}%"}


def _measure(measure: str) -> dict[str, Any]:
    parsed = parse_measure(measure)
    return {
        "mean": parsed.mean_name,
        "title": mean_title(measure),
        "higherIsBetter": parsed.higher_is_better,
    }


def _system(system: SystemView) -> dict[str, Any]:
    submission = system.entry.submission
    return {
        "title": submission.system.title,
        "family": system.family,
        "badge": submission.badge,
        "trainingClass": system.training_class,
        "onTest": system.on_test,
        "perGroup": submission.training.per_group,
        "backbone": submission.system.backbone,
        "candidates": submission.system.candidates,
        "authors": ", ".join(submission.authors),
        "data": submission.training.data,
        "hardNegatives": submission.training.hard_negatives,
        "distillation": submission.training.distillation,
        "hardware": submission.training.hardware,
        "licence": submission.system.licence,
        "paper": submission.system.links.get("paper", ""),
        "code": submission.system.links.get("code", ""),
        "year": submission.system.year,
        "parameters": submission.system.parameters,
        "hasCommands": submission.reproduction is not None,
        "size": show_parameters(submission.system.parameters),
        "version": submission.version,
        "shifts": system.shifts,
    }
