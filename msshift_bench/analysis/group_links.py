"""Links between the groups' Rel Loss and their similarity to the training queries.

Source: MS-Shift (ECIR 2023), section 5.2 and Figure 3, which draws the points. This module adds a
line and rank correlations for every system and for the mean of the systems. All systems share the
groups, so four systems on five groups are five points, not twenty: the verdict tests the mean of
the systems. Over several shifts, it tests one slope with an intercept for each shift, so that other
differences between shifts do not count as similarity. The verdicts of a call are one family of
tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError
from msshift_bench.evaluation import Note, Section
from msshift_bench.output import (
    P_VALUE,
    REL_LOSS,
    Format,
    Head,
    number,
    p_text,
    pivot,
    show_percent_interval,
)
from msshift_bench.similarity import GROUP_SPLITS
from msshift_bench.stats import (
    FEWEST_GROUPS,
    RANK_CORRELATIONS,
    SIGNIFICANT,
    Claim,
    Figure,
    Figures,
    Line,
    fit_line,
    fit_parallel_lines,
    rank_correlation,
)

MEAN_OF_SYSTEMS = "mean of systems"
"""The name of the mean in tables, in place of a system's name."""

VERDICTS = ("verdict", "verdicts of this call")
OTHER_SLOPES = ("slope", "other slopes of this call")
"""Families of tests: the slopes that give the verdicts, and all other slopes."""

ALL_GROUPS = "all"
"""The group name of a figure over all groups."""


_OF_LINES = ("groups", "slope", "slope_within_shifts", "r_squared", *RANK_CORRELATIONS)


class Link(NamedTuple):
    """The points of a link: similarity and Rel Loss of the groups of one or several shifts.

    Attributes:
        shift: the shift; several are joined by " and ".
        against: the indicator.
        measure: the measure of the losses.
        slice: the queries that the indicator compares: ``test``, ``train`` or ``all``.
        groups: the shift and the group of each point.
        similarities: the values of the indicator, ``[groups]``.
        losses: system -> its Rel Losses, ``[groups]``; with several systems, their mean is last.
    """

    shift: str
    against: str
    measure: str
    slice: str
    groups: Sequence[tuple[str, str]]
    similarities: Floats
    losses: Mapping[str, Floats]

    @property
    def shifts(self) -> list[str]:
        """The shifts, each once."""
        return list(dict.fromkeys(shift for shift, _ in self.groups))

    @property
    def systems(self) -> list[str]:
        """The systems, without their mean."""
        return [system for system in self.losses if system != MEAN_OF_SYSTEMS]

    @property
    def tested(self) -> str:
        """The name in `losses` that the verdict tests: the mean of the systems, or the system."""
        return list(self.losses)[-1]

    @property
    def about(self) -> dict[str, str]:
        """The columns and values that select the link's slopes in `Figures.where`."""
        names = "shift", "against", "measure", "slice"
        return {"figure": "slope", **{name: getattr(self, name) for name in names}}

    def verdict(self, figures: Figures) -> Figure:
        """Return the slope that gives the verdict; its value is `None` if it was not fitted."""
        figure = "slope_within_shifts" if len(self.shifts) > 1 else "slope"
        slope = figures.first(**{**self.about, "figure": figure}, system=self.tested)
        return slope or self.named(figure, self.tested)

    def line(self, system: str) -> Line:
        """Return the least-squares line of a name in `losses` over the similarities.

        Raises:
            DataError: if all groups are equally similar.
        """
        return fit_line(self.similarities, self.losses[system])

    def losses_in(self, figures: Figures) -> Figures:
        """Return the figures of the link's losses, without the mean of the systems."""
        return figures.where(
            figure="rel_loss",
            shift=tuple(self.shifts),
            system=tuple(self.systems),
            against="",
            measure=self.measure,
        )

    def named(self, figure: str, system: str) -> Figure:
        """Return a figure without a value, with the link's shift, indicator, measure and slice."""
        return Figure(
            figure,
            shift=self.shift,
            system=system,
            against=self.against,
            measure=self.measure,
            group=ALL_GROUPS,
            slice=self.slice,
        )


def find_links(figures: Figures) -> list[Link]:
    """Return the links between losses and indicators, ordered by measure and indicator.

    Each shift with at least 3 groups has a link. Several shifts also have a link over all their
    groups, for the systems with losses on every shift.

    Args:
        figures: ``rel_loss`` of systems on groups, and the ``similarity`` of the groups.

    Raises:
        DataError: if a system or an indicator lacks a group that another has, or has two figures
            for a group, or a value is not finite.
    """
    similarities = figures.where(figure="similarity", slice=GROUP_SPLITS)
    links = []
    for (measure,), of_measure in figures.where(figure="rel_loss", against="").each("measure"):
        for _, values in similarities.each("against", "slice"):
            lost = of_measure.where(shift=tuple(values.names("shift")))
            shifts = lost.names("shift")
            complete = tuple(
                system
                for (system,), of_system in lost.each("system")
                if len(of_system.names("shift")) == len(shifts)
            )
            linked = [(values.where(shift=shift), lost) for shift in shifts]
            if len(shifts) > 1 and complete:
                linked.append((values.where(shift=tuple(shifts)), lost.where(system=complete)))
            links += [
                _make_link(measure, of_groups, of_systems) for of_groups, of_systems in linked
            ]
    return [link for link in links if len(link.groups) >= FEWEST_GROUPS]


def _make_link(measure: str, values: Figures, lost: Figures) -> Link:
    """Return the link between an indicator's values and the losses on the same groups.

    Raises:
        DataError: if the indicator or a system lacks a group, or as `_by_group`.
    """
    shifts, indicator = values.names("shift"), values[0].against
    losses = {
        system: _by_group(of_system, system)
        for (system,), of_system in lost.where(shift=tuple(shifts)).each("system")
    }
    every = list(dict.fromkeys(group for of_system in losses.values() for group in of_system))
    columns = {}
    for name, of_groups in {indicator: _by_group(values, indicator), **losses}.items():
        lacking = [
            f"{group} of {shift}" for shift, group in every if (shift, group) not in of_groups
        ]
        if lacking:
            raise DataError(
                f"{name} has no value for {', '.join(lacking)}, but other systems or indicators "
                f"have; add the values, or leave out {name} or the shift"
            )
        columns[name] = np.array([of_groups[group] for group in every])
    similarities = columns.pop(indicator)
    if len(columns) > 1:
        columns[MEAN_OF_SYSTEMS] = np.mean(list(columns.values()), axis=0)
    shift = " and ".join(shifts)
    return Link(shift, indicator, measure, values[0].slice, every, similarities, columns)


def _by_group(figures: Figures, name: str) -> dict[tuple[str, str], float]:
    """Return (shift, group) -> value.

    Raises:
        DataError: if a group has two values, or a value is not finite.
    """
    values: dict[tuple[str, str], float] = {}
    for figure in figures:
        group = f"{figure.group} of {figure.shift}"
        if (figure.shift, figure.group) in values:
            raise DataError(
                f"{name} has two values for {group}; keep one value, e.g. the mean over seeds"
            )
        if figure.value is None or not math.isfinite(figure.value):
            raise DataError(
                f"the value of {name} for {group} must be finite, got {figure.value}; compute it "
                "again"
            )
        values[figure.shift, figure.group] = figure.value
    return values


def link_claims(link: Link) -> Iterator[Claim]:
    """Yield the line and the rank correlations of every system and of the mean of the systems.

    Over several shifts, the last is a slope with an intercept for each shift, if it can be fitted.

    Raises:
        DataError: if all groups are equally similar.
    """
    for system, losses in link.losses.items():
        line = link.line(system)
        is_verdict = system == link.tested and len(link.shifts) == 1
        family = VERDICTS if is_verdict else OTHER_SLOPES
        yield Claim(link.named("slope", system), line.slope, family)
        yield Claim(link.named("groups", system)._replace(value=len(link.groups)))
        yield Claim(link.named("intercept", system)._replace(value=line.intercept))
        yield Claim(link.named("r_squared", system)._replace(value=line.r_squared))
        for kind in RANK_CORRELATIONS:
            value, p = rank_correlation(kind, link.similarities, losses)
            row = link.named(kind, system)._replace(value=value)
            yield Claim(row, family=(kind, "rank correlations of this call"), p=p)
    if len(link.shifts) > 1:
        parallel = fit_parallel_lines(
            link.similarities, link.losses[link.tested], [shift for shift, _ in link.groups]
        )
        if parallel is not None:
            yield Claim(link.named("slope_within_shifts", link.tested), parallel, VERDICTS)


def link_text(slope: Figure) -> str:
    """Return the verdict on a slope as a sentence.

    Args:
        slope: a ``slope`` over groups, or a ``slope_inside_groups``.
    """
    lost = f"the Rel Loss in {slope.measure}"
    if slope.figure == "slope_inside_groups":
        lost = f"the Rel Loss of single queries of {slope.shift} in {slope.measure}"
    linked = f"between {slope.against} and {lost}"
    if not slope.mark:
        return f"These data cannot show a link {linked}."
    change = "less" if slope.number < 0 else "more"
    return f"These data show a link {linked}: the higher {slope.against}, the {change} is lost."


def slope_text(slope: Figure, no_p: str) -> str:
    """Return a slope as text, with its interval and p-value.

    Args:
        slope: the slope.
        no_p: the text in place of a missing p-value.
    """
    return (
        f"{100 * slope.number:+z.1f} points of Rel Loss per 1 of {slope.against}, 95% "
        f"interval {show_percent_interval(slope.interval)}, "
        + (no_p if slope.p is None else f"{p_text(slope.p)}, {slope.family}")
    )


def one_seed_text(losses: Figures) -> str:
    """Return a text about models with one seed; "" if every model has several.

    Systems are named only if others have several seeds.

    Args:
        losses: losses of one or several shifts, with their numbers of seeds.
    """
    shifts, single = losses.names("shift"), losses.where(seeds=1)
    if len(single) == len(losses):
        return "one seed per model" if single else ""
    names = [f"{row.system} on {row.shift}" if len(shifts) > 1 else row.system for row in single]
    return f"one seed per model of {', '.join(dict.fromkeys(names))}" if names else ""


def link_notes(link: Link, figures: Figures, losses: Figures) -> list[Note]:
    """Return the verdict on a link and its evidence.

    Args:
        link: the link.
        figures: the figures of `link_claims`.
        losses: the losses of the link's points, with their numbers of seeds.
    """
    slope, spearman = (
        figures.where(**{**link.about, "figure": figure}, system=link.tested)[0]
        for figure in ("slope", "spearman")
    )
    groups, systems, shifts = len(link.groups), len(link.systems), len(link.shifts)
    of = f"the mean of {systems} systems" if systems > 1 else link.tested
    no_p = "no p, because all points lie on the line"
    degrees = f"t with {_degrees(groups - 2)}: {groups} groups"
    shared = f"slope of {of}: {slope_text(slope, no_p)}; {degrees}"
    verdict = link.verdict(figures)
    lines = [link_text(verdict)]
    if shifts > 1:
        if verdict.value is not None:
            degrees = f"t with {_degrees(groups - shifts - 1)}: {groups} groups of {shifts} shifts"
            lines.append(
                f"slope of {of}, with an intercept for each shift: {slope_text(verdict, no_p)}; "
                f"{degrees}"
            )
        lines.append(f"{shared}; other differences between shifts count as similarity")
    else:
        lines.append(shared)
    lines.append(_order_text(spearman, groups))
    if systems > 1:
        lines.append(
            f"{systems} systems on the same {groups} groups are {groups} points, not "
            f"{systems * groups}"
        )
    one_seed = one_seed_text(losses)
    if one_seed:
        lines.append(
            f"{one_seed}: the variance from seeds is part of the scatter about the line, and "
            "cannot be separated from it"
        )
    return [Note(line, "data", link.about) for line in lines]


def _order_text(spearman: Figure, groups: int) -> str:
    """Return a rank correlation as text, with the smallest p-value of this number of groups."""
    value = "is not defined" if spearman.value is None else f"{spearman.value:.2f}"
    test = "" if spearman.p is None else f", {p_text(spearman.p)}, {spearman.family}"
    smallest = 2 / math.factorial(groups)
    return (
        f"rank correlation (Spearman) {value}{test}; a perfect order of {groups} groups has "
        f"p = {smallest:.2g} before any correction"
        + ", so no rank correlation can be significant"
        * (smallest > SIGNIFICANT)
    )


def _degrees(df: int) -> str:
    return f"{df} degree{'s' * (df > 1)} of freedom"


def _slope(figure: Figure) -> str:
    return f"{100 * figure.number:z.1f} {show_percent_interval(figure.interval)}"


SLOPE = Format(_slope, is_marked=True)


def link_section(link: Link, figures: Figures) -> Section:
    """Return two tables of a link: each group's similarity and Rel Loss; each system's line.

    The table of lines also has the rank correlations.
    """
    against = f"{link.measure} against {link.against} of {link.slice} queries"
    title = f"{link.shift}: Rel Loss in {against}"
    several = len(link.shifts) > 1
    columns = [
        Head((f"{shift}-{group}" if several else group,), {"shift": shift, "group": group})
        for shift, group in link.groups
    ]
    similarity = {"figure": "similarity", "against": link.against, "slice": link.slice}
    loss = {"figure": "rel_loss", "against": "", "measure": link.measure}
    rows = [
        Head((link.against,), similarity, number(3)),
        *(Head((system,), {**loss, "system": system}, REL_LOSS) for system in link.systems),
    ]
    points = pivot(figures, title, ("",), rows, columns)
    within = {"figure": "slope_within_shifts"}
    parallel = [Head(("within shifts",), within, SLOPE), Head(("p",), within, P_VALUE)]
    fitted = pivot(
        figures.where(**{**link.about, "figure": _OF_LINES}),
        f"{link.shift}: the line of {against}, and rank correlations",
        ("",),
        [Head((system,), {"system": system}) for system in link.losses],
        [
            Head(("groups",), {"figure": "groups"}, number(0)),
            Head(("slope x 100",), {"figure": "slope"}, SLOPE),
            Head(("R2",), {"figure": "r_squared"}, number(2)),
            Head(("p",), {"figure": "slope"}, P_VALUE),
            *(parallel if several else []),
            Head(("Spearman",), {"figure": "spearman"}, number(2, is_marked=True)),
            Head(("p",), {"figure": "spearman"}, P_VALUE),
            Head(("Kendall",), {"figure": "kendall"}, number(2, is_marked=True)),
            Head(("p",), {"figure": "kendall"}, P_VALUE),
        ],
        label=f"{title} line",
    )
    return Section([points, fitted], link.about)
