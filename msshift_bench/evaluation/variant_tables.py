"""The result of an evaluation on variants of queries, its tables and notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msshift_bench.data import DataInfo
from msshift_bench.evaluation.common_notes import data_notes, policy_notes, what_counts
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
    show_p,
    show_percent,
    show_percent_interval,
)
from msshift_bench.shifts import get_shift
from msshift_bench.stats import CompoundLoss, Interval

__all__ = ["ALL", "CompoundFigure", "VariantFigure", "VariantReport"]

ALL = "all"
"""The method of figures on the variants of all methods together."""


@dataclass(frozen=True, slots=True)
class VariantFigure:
    """What a model loses on variants of queries.

    Attributes:
        test_set: the name of the variants.
        shift: the shift that the models were trained for.
        system: the system.
        measure: the measure.
        model: the group that the model was trained without; `ON_AVERAGE` for the mean over the
            models of the shift, ``all`` for a system that was not trained per group.
        method: the method that made the variants, or `ALL`.
        score: the mean on the queries as they are.
        changed: the mean on their variants; that of a query with several is their mean.
        loss: 1 - `changed` / `score`, positive where variants are worse; `None` if `score` is 0.
        interval: its interval over queries, and over seeds where there are several; `None` below
            two queries.
        p: of "the loss is 0", not corrected; `None` where `interval` is.
        queries: how many queries have a variant that counts.
        seeds: how many seeds count.
    """

    test_set: str
    shift: str
    system: str
    measure: str
    model: str
    method: str
    score: float
    changed: float
    loss: float | None
    interval: Interval | None
    p: float | None
    queries: int
    seeds: int


@dataclass(frozen=True, slots=True)
class CompoundFigure:
    """Whether a group's shift and changed queries compound.

    Attributes:
        test_set: the name of the variants.
        shift: the shift.
        system: the system.
        measure: the measure.
        group: the group whose queries count, or `ON_AVERAGE` for the mean over groups.
        losses: what the change costs on both sides of the shift.
        p: of "the two lose alike", corrected over groups; that of `ON_AVERAGE` is one test.
        seeds: how many seeds count.
    """

    test_set: str
    shift: str
    system: str
    measure: str
    group: str
    losses: CompoundLoss
    p: float | None
    seeds: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VariantReport(WithFigures):
    """Systems on variants of queries.

    Attributes:
        settings: the settings.
        data: the data set that the queries are from; without content if they have a folder.
        figures: by test set, shift, system and measure.
        compounds: likewise, by group; none for systems that were not trained per group.
        contents: a line on each test set: how many variants there are, and how many change nothing.
        remarks: doubts about the figures: missing queries, models or seeds.
    """

    settings: Settings
    data: DataInfo
    figures: Sequence[VariantFigure]
    compounds: Sequence[CompoundFigure]
    contents: Sequence[str]
    remarks: Sequence[str] = ()

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(figure.test_set for figure in self.figures))
        return f"<VariantReport: {names}, {len(self.figures)} figures>"

    def tables(self) -> list[Table]:
        """Return the tables of each test set, shift and measure: by model, method and group."""
        tables = []
        level = say_level(self.settings.confidence)
        keys = dict.fromkeys((one.test_set, one.shift, one.measure) for one in self.figures)
        for test_set, shift, measure in keys:
            figures = [f for f in self.figures if _key(f) == (test_set, shift, measure)]
            compounds = [f for f in self.compounds if _key(f) == (test_set, shift, measure)]
            (found,) = (one for one in self.settings.measures if one.name == measure)
            about = f"{test_set}, {get_shift(shift).title} ({shift}), {found.mean_name}"
            if found.percent:
                about += " x 100"
            models = [figure for figure in figures if figure.method == ALL]
            methods = [figure for figure in figures if figure.method != ALL]
            label = f"{test_set} {shift} {measure}"
            title = f"{about}: what each model loses"
            by = "trained on" if get_shift(shift).by_size else "without"
            tables.append(_losses(title, found, models, by, level, label))
            if methods:
                title = f"{about}: by method, mean over models"
                tables.append(_losses(title, found, methods, "method", level, f"{label} methods"))
            if compounds:
                title = f"{about}: does the shift add to it?"
                tables.append(_compounds(title, compounds, level, f"{label} groups"))
        return tables

    def notes(self) -> list[str]:
        """Return the notes below the tables: what figures and intervals mean, and policies."""
        counted = what_counts(figure.seeds for figure in self.figures)
        lines = [
            *data_notes(self.data),
            *self.contents,
            "loss: 1 - changed / as is, each a mean over queries; a query with several variants "
            "counts with their mean",
            "without, trained on: the group that the model was trained without, or its training "
            "set; mean: over these models; all: one model for all groups",
        ]
        if self.compounds:
            lines.append(
                "In, Out: what the change costs the models that saw the group in training, and the "
                "one that did not; above 0, their difference says that shift and change compound "
                f"(p corrected over groups: {self.settings.correction})"
            )
        return [
            *lines,
            f"{say_level(self.settings.confidence)} intervals: {counted}; variants are taken as "
            "they are",
            *policy_notes(self.settings),
            *self.remarks,
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            **report_head(),
            "data": plain(self.data),
            "settings": self.settings.to_json(),
            "figures": [plain(figure) for figure in self.figures],
            "compounds": [plain(figure) for figure in self.compounds],
            "contents": list(self.contents),
            "remarks": list(self.remarks),
        }

    def tidy(self) -> LongTable:
        """Return every figure as a row of one long table, the model and method as its label."""
        rows = [row for figure in self.figures for row in _model_rows(figure)]
        rows += [row for figure in self.compounds for row in _group_rows(figure)]
        return LongTable(rows, (*FIGURE_COLUMNS, "label"))


def _key(figure: VariantFigure | CompoundFigure) -> tuple[str, str, str]:
    return figure.test_set, figure.shift, figure.measure


def _losses(
    title: str, measure: Measure, figures: Sequence[VariantFigure], by: str, level: str, label: str
) -> Table:
    rows = [
        (
            figure.system,
            figure.method if by == "method" else figure.model,
            f"{figure.queries:,}",
            measure.show(figure.score),
            measure.show(figure.changed),
            show_percent(figure.loss),
            show_percent_interval(figure.interval),
            show_p(figure.p),
        )
        for figure in figures
    ]
    header = ("system", by, "queries", "as is", "changed", "loss", level, "p")
    return _by_system(title, header, rows, label)


def _compounds(title: str, figures: Sequence[CompoundFigure], level: str, label: str) -> Table:
    rows = [
        (
            figure.system,
            figure.group,
            f"{figure.losses.queries:,}",
            *map(show_percent, (figure.losses.inside, figure.losses.out)),
            show_percent(figure.losses.difference),
            show_percent_interval(figure.losses.interval),
            show_p(figure.p),
            *map(show_percent, (figure.losses.rel_loss, figure.losses.rel_loss_changed)),
        )
        for figure in figures
    ]
    header = ("system", "group", "queries", "In", "Out", "Out - In", level, "p")
    return _by_system(title, (*header, "Rel Loss as is", "Rel Loss changed"), rows, label)


def _by_system(
    title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], label: str
) -> Table:
    """Return a table that names each system, the first cell of its rows, once."""
    names = [row[0] for row in rows]
    first = [place for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    shown = [
        tuple(map(TableCell, (name if place in first else "", *row[1:])))
        for place, (name, row) in enumerate(zip(names, rows, strict=True))
    ]
    return Table(title, header, tuple(shown), frozenset(first), names=2, label=label)


def _model_rows(figure: VariantFigure) -> Iterable[FigureRow]:
    low, high = figure.interval or (None, None)
    head = FigureRow(
        figure.shift,
        figure.system,
        figure.measure,
        figure.test_set,
        "as_is",
        figure.score,
        queries=figure.queries,
        seeds=figure.seeds,
        label=f"{figure.model}/{figure.method}",
    )
    yield head
    yield head._replace(figure="changed", value=figure.changed)
    yield head._replace(figure="loss_by_change", value=figure.loss, low=low, high=high, p=figure.p)


def _group_rows(figure: CompoundFigure) -> Iterable[FigureRow]:
    one = figure.losses
    low, high = one.interval or (None, None)
    head = FigureRow(
        figure.shift,
        figure.system,
        figure.measure,
        figure.group,
        "loss_by_change_in",
        one.inside,
        queries=one.queries,
        seeds=figure.seeds,
        label=figure.test_set,
    )
    yield head
    yield head._replace(figure="loss_by_change_out", value=one.out)
    yield head._replace(figure="out_minus_in", value=one.difference, low=low, high=high, p=figure.p)
    yield head._replace(figure="rel_loss", value=one.rel_loss)
    yield head._replace(figure="rel_loss_changed", value=one.rel_loss_changed)
