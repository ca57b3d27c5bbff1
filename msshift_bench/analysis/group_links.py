"""The link between what groups lose and how similar they are to the training queries.

Source: MS-Shift (ECIR 2023), section 5.2 and Figure 3, which draws the points. Here every system
has its line and its rank correlations, and the mean of the systems has too. All systems answer the
same groups, so that four systems on five groups are five points and not twenty: the verdict rests
on the mean of the systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msshift_bench.analysis.line_fits import (
    FittedLine,
    ParallelLines,
    fit_line,
    fit_parallel_lines,
)
from msshift_bench.analysis.mixed_models import MixedModel
from msshift_bench.analysis.rank_correlations import (
    RankCorrelation,
    rank_correlation,
    rank_reach,
)
from msshift_bench.errors import DataError, UsageError
from msshift_bench.output import say_level, say_p
from msshift_bench.stats import SIGNIFICANT, Interval, adjust

__all__ = ["MEAN_OF_SYSTEMS", "GroupLink", "LossPoint", "SystemLink", "LinkVerdict", "link_losses"]

MEAN_OF_SYSTEMS = "mean of systems"
"""The name of the mean in tables, where systems have theirs."""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """One system on one group.

    Attributes:
        shift: the shift's name.
        group: the group.
        system: the system.
        similarity: the group's value of the indicator.
        rel_loss: the Rel Loss, a fraction.
        interval: its confidence interval; `None` if it is not known.
        counts: what the interval counts: "queries and seeds", or "queries only"; "" without one.
        queries: how many test queries the loss is the mean of; `None` if it is not known.
        seeds: how many seeds; `None` if it is not known.
    """

    shift: str
    group: str
    system: str
    similarity: float
    rel_loss: float
    interval: Interval | None = None
    counts: str = ""
    queries: int | None = None
    seeds: int | None = None


@dataclass(frozen=True, slots=True)
class SystemLink:
    """The link of one system, or of the mean of several.

    Attributes:
        system: the system, or `MEAN_OF_SYSTEMS`.
        line: the fitted line, with the test of its slope.
        adjusted_p: the p-value of the slope, corrected by Holm's method for the systems; `None` for
            the mean, which is one test, or if the line has no p-value.
        spearman: the rank correlation after Spearman.
        kendall: after Kendall.
        mixed: the mixed model over queries; `None` where only the losses of groups are known, or
            queries of one group lose all the same.
    """

    system: str
    line: FittedLine
    adjusted_p: float | None
    spearman: RankCorrelation
    kendall: RankCorrelation
    mixed: MixedModel | None = None


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """What data show of a link, and why.

    Attributes:
        shown: whether the test of the link is significant.
        sentence: the verdict in plain words.
        evidence: one line per fact that it rests on.
    """

    shown: bool
    sentence: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupLink:
    """The link of an indicator with losses, over the groups of one shift or of several.

    Attributes:
        indicator: the indicator's name.
        measure: the measure whose Rel Loss it is.
        split: which queries of the groups the indicator compares: ``test``, ``train`` or ``all``.
        shifts: the shifts whose groups are the points.
        points: system by system, the groups of each in one order.
        systems: the links of the systems.
        mean: the link of the mean of the systems; for a single system, its own.
        verdict: what `mean` shows.
    """

    indicator: str
    measure: str
    split: str
    shifts: tuple[str, ...]
    points: tuple[LossPoint, ...]
    systems: tuple[SystemLink, ...]
    mean: SystemLink
    verdict: LinkVerdict

    @property
    def name(self) -> str:
        """The shifts, as titles name them."""
        return " and ".join(self.shifts)


def link_losses(
    indicator: str,
    measure: str,
    points: Sequence[LossPoint],
    *,
    split: str = "test",
    mixed: Mapping[str, MixedModel] | None = None,
    confidence: float = 0.95,
) -> GroupLink:
    """Fit and test the link between similarity and loss.

    Args:
        indicator: the indicator's name.
        measure: the measure of the losses.
        points: every system on every group.
        split: which queries of the groups the indicator compares.
        mixed: system, or `MEAN_OF_SYSTEMS` -> its mixed model.
        confidence: the level of every interval.

    Returns:
        The link, with its verdict.

    Raises:
        DataError: if a system lacks a group that another has, or has two losses on one, a group
            has two similarities, there are fewer than 3 groups, or all are equally similar.
        UsageError: if there is no point, or a number is not finite.
    """
    by_system: dict[str, dict[tuple[str, str], LossPoint]] = {}
    of_group: dict[tuple[str, str], LossPoint] = {}
    for point in points:
        own, group = by_system.setdefault(point.system, {}), (point.shift, point.group)
        first = of_group.setdefault(group, point)
        where = f"{point.group} of {point.shift}"
        if group in own:
            raise DataError(f"{point.system} has two losses on {where}; give their mean over seeds")
        if first.similarity != point.similarity:
            raise DataError(
                f"{where} has the similarity {first.similarity:.6g} for {first.system} and "
                f"{point.similarity:.6g} for {point.system}; systems are compared on the same one"
            )
        own[group] = point
    if not by_system:
        raise UsageError("a link takes the losses of at least one system")
    groups = list(of_group)
    for system, own in by_system.items():
        lacking = [group for _, group in groups if (_, group) not in own]
        if lacking:
            raise DataError(
                f"{system} has no Rel Loss on {', '.join(lacking)}, and another system has; "
                "complete its runs, or leave the system or the shift out"
            )
    columns = {
        system: (
            [own[group].similarity for group in groups],
            [own[group].rel_loss for group in groups],
        )
        for system, own in by_system.items()
    }
    lines = {system: fit_line(*columns[system], confidence=confidence) for system in by_system}
    adjusted = adjust({system: line.p for system, line in lines.items()}, "holm")
    known = mixed or {}

    def linked(name: str, of: tuple[list[float], list[float]], line: FittedLine) -> SystemLink:
        return SystemLink(
            name,
            line,
            adjusted.get(name),
            rank_correlation("spearman", *of, confidence=confidence),
            rank_correlation("kendall", *of, confidence=confidence),
            known.get(name),
        )

    systems = tuple(linked(name, columns[name], lines[name]) for name in by_system)
    mean = systems[0]
    of_groups = zip(*(losses for _, losses in columns.values()), strict=True)
    both = (
        next(iter(columns.values()))[0],
        [sum(column) / len(systems) for column in of_groups],
    )
    if len(systems) > 1:
        mean = linked(MEAN_OF_SYSTEMS, both, fit_line(*both, confidence=confidence))
    shifts = tuple(dict.fromkeys(point.shift for point in points))
    parallel = None
    if len(shifts) > 1:
        parallel = fit_parallel_lines(*both, [shift for shift, _ in groups])
    ordered = tuple(own[group] for own in by_system.values() for group in groups)
    return GroupLink(
        indicator,
        measure,
        split,
        shifts,
        ordered,
        systems,
        mean,
        _judge(indicator, measure, mean, ordered, parallel),
    )


def _judge(
    indicator: str,
    measure: str,
    link: SystemLink,
    points: Sequence[LossPoint],
    parallel: ParallelLines | None,
) -> LinkVerdict:
    systems = len({point.system for point in points})
    line = link.line
    shown = line.p is not None and line.p <= SIGNIFICANT
    what = f"between {indicator} and the Rel Loss in {measure}"
    if shown:
        way = "less" if line.slope < 0 else "more"
        sentence = f"These data show a link {what}: the higher it is, the {way} is lost."
    else:
        sentence = f"These data cannot show a link {what}."
    of = f"the mean of {systems} systems" if systems > 1 else link.system
    level = say_level(line.confidence)
    low, high = line.slope_interval
    evidence = [
        f"slope of {of}: {100 * line.slope:+z.1f} points of Rel Loss per 1 of {indicator}, {level} "
        f"interval [{100 * low:z.1f}, {100 * high:z.1f}], "
        + ("no p, because all points lie on the line" if line.p is None else say_p(line.p))
        + f" (t with {line.df} degree{'s' * (line.df > 1)} of freedom: {line.groups} groups)",
    ]
    reach = rank_reach(line.groups)
    if reach.needed is None:
        evidence.append(
            f"{line.groups} groups cannot show a rank correlation at all: even a perfect order has "
            f"p = {reach.smallest_p:.2f}"
        )
    else:
        assert reach.detectable is not None
        only = "only a perfect order" if reach.needed == 1 else f"only {reach.needed:.2f} or more"
        evidence.append(
            f"rank correlation (Spearman) {_number(link.spearman.value)}: of {line.groups} groups "
            f"{only} is significant (a perfect one has p = {reach.smallest_p:.2g}), and a true "
            f"correlation must be {reach.detectable:.3f} to be found in 80 of 100 cases"
        )
    if parallel is not None:
        evidence.append(
            "what else differs between these shifts counts as similarity here; with a line of its "
            f"own height for each shift the slope is {100 * parallel.slope:+z.1f}, "
            + ("no p" if parallel.p is None else say_p(parallel.p))
            + f" (t with {parallel.df} degree{'s' * (parallel.df > 1)} of freedom)"
        )
    if systems > 1:
        evidence.append(
            f"{systems} systems on the same {line.groups} groups are {line.groups} points, not "
            f"{systems * line.groups}"
        )
    seeds = {point.seeds for point in points}
    if 1 in seeds:
        evidence.append(
            "one seed per model: what another seed would change is part of the scatter about the "
            "line, and cannot be told from it"
        )
    return LinkVerdict(shown, sentence, tuple(evidence))


def _number(value: float | None) -> str:
    return "is not defined" if value is None else f"{value:.2f}"
