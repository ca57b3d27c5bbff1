"""From evaluated run sets and the similarity of their groups to an `Analysis`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from msshift_bench.analysis.analysed import Analysis
from msshift_bench.analysis.attaching import Control, ValuesOfGroups, attach, find_control
from msshift_bench.analysis.binned_losses import distribution
from msshift_bench.analysis.decomposing import LossByWords, split_loss
from msshift_bench.analysis.group_links import MEAN_OF_SYSTEMS, GroupLink, LossPoint, link_losses
from msshift_bench.analysis.line_fits import FEWEST_GROUPS
from msshift_bench.analysis.mixed_models import MixedModel, check_statsmodels, fit_mixed_model
from msshift_bench.analysis.plans import DetectableLoss, detectable_losses
from msshift_bench.analysis.query_links import QueryLink, link_queries
from msshift_bench.analysis.query_losses import QueryLosses
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import (
    Measure,
    Report,
    Settings,
    SystemResult,
    evaluate_run_sets,
)
from msshift_bench.plumbing import silent
from msshift_bench.shifts import DATASET_NAME, get_shift
from msshift_bench.similarity import (
    INDICATORS,
    GroupSimilarity,
    IndicatorOptions,
    find_indicator,
    group_similarity,
)

if TYPE_CHECKING:
    from msshift_bench.data import Dataset

__all__ = ["UNSEEN_WORDS", "analyse_report", "analyse_run_sets"]

UNSEEN_WORDS = "unseen-words"
"""The indicator by which losses are split: the share of words that were never met in training."""


def analyse_run_sets(
    runs: str | Path | Sequence[str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    indicators: Sequence[str] = (),
    split: str = "test",
    control: str | None = None,
    bins: int = 6,
    allow_identical: bool = False,
    force_data: bool = False,
    **options: Unpack[IndicatorOptions],
) -> Analysis:
    """Evaluate run sets, and link what they lose to the similarity of the groups.

    Args:
        runs: one or several folders, each of a system's run sets or those of several systems.
        data: the built data set, see `open_dataset`.
        shifts: only these; all that the folders hold, if empty.
        settings: measures, policies and statistics; queries that a run lacks score 0.
        indicators: the indicators; by default all that need nothing but the queries.
        split: the queries of a group that count for its similarity; see `group_similarity`.
        control: see `analyse_report`; an indicator is computed even if `indicators` lacks it.
        bins: see `analyse_report`.
        allow_identical: accept the same file under two models of a system.
        force_data: score runs even if their sidecars name other data.
        **options: how indicators are computed, see `group_similarity`; each gets those that it
            takes. ``progress`` is called with the number of run files done, too.

    Returns:
        The analysis; see `analyse_report`.

    Raises:
        RunError: if a run file is missing or malformed, or was made on other data.
        DataError: as in `analyse_report`.
        UsageError: as in `analyse_report`, or if an indicator lacks an option, or none takes one.
        UnknownNameError: for an unknown shift, indicator or split.
        NotFoundError: if a folder or the data set does not exist.
        MissingExtraError: if statsmodels is not installed.
    """
    check_statsmodels("an analysis")
    chosen = _options_of(indicators, control, options)
    report = evaluate_run_sets(
        runs,
        data,
        shifts,
        settings,
        allow_identical=allow_identical,
        force_data=force_data,
        progress=options.get("progress", silent),
    )
    # Training sets of one test set are no groups whose queries could be near or far.
    named = [one for one in report.systems if not one.shift.by_size or one.shift.name in shifts]
    report = replace(report, systems=named)
    similarities = [
        one
        for shift in report.by_shift()
        for indicator, taken in chosen.items()
        for one in group_similarity(data, shift, indicator, split=split, **taken)
    ]
    return analyse_report(report, similarities, split=split, control=control, bins=bins)


def _options_of(
    indicators: Sequence[str], control: str | None, options: IndicatorOptions
) -> dict[str, IndicatorOptions]:
    """Return indicator -> the options that it takes, the control among them if it is one."""
    names = list(indicators or [name for name, row in INDICATORS.items() if not row.needs])
    if control is not None and control in INDICATORS and control not in names:
        names.append(control)
    rows = [find_indicator(name) for name in names]
    for name in options.keys() - {"progress"}:
        if not any(name in row.options for row in rows):
            takers = [row.name for row in INDICATORS.values() if name in row.options]
            raise UsageError(
                f"none of {', '.join(names)} takes the option {name}; {', '.join(takers)} would"
            )
    taken: Any = {
        row.name: {name: value for name, value in options.items() if name in row.options}
        for row in rows
    }
    return dict(taken)


def analyse_report(
    report: Report,
    similarities: Sequence[GroupSimilarity],
    *,
    split: str = "test",
    control: str | None = None,
    bins: int = 6,
) -> Analysis:
    """Link what systems lose to the similarity of the groups, and of their queries.

    Systems that were not trained per group lose nothing that could be linked; one of them can be
    the control.

    Args:
        report: evaluated run sets, with all of their run files.
        similarities: what `group_similarity` returns, for one indicator or several, and for every
            shift of the report.
        split: which queries of the groups they compare.
        control: what queries of the same difficulty have in common: one of the similarities, which
            then is only that, or a system of the report that was not trained per group, whose
            scores are taken. By default the first similarity that tells how clear queries are, else
            the first such system, else none.
        bins: the number of intervals in which losses of queries are shown, at least 2.

    Returns:
        The analysis. Shifts with fewer than 3 groups are analysed together with others only.

    Raises:
        DataError: if no system was trained per group, run files are missing, a group has no Rel
            Loss, there are fewer than 3 groups in all, or a similarity is NaN or is not of the test
            queries.
        UsageError: if there is no similarity or that of the control alone, `bins` is below 2, or
            the report leaves out queries that runs lack.
        UnknownNameError: if there is no such control.
        MissingExtraError: if statsmodels is not installed.
    """
    check_statsmodels("an analysis")
    if report.settings.missing == "skip":
        raise UsageError(
            "an analysis takes all systems on the same queries; evaluate with missing='zero', "
            "which counts 0 for queries that a run lacks"
        )
    shifts = []
    for shift, results in report.by_shift().items():
        trained = _trained(shift, results, report.settings.measures)
        if trained:
            values = attach(shift, trained[0].scores, similarities)
            chosen = find_control(control, values, results, report.settings)
            shifts.append(_ShiftInputs(shift, trained, values, chosen))
    if not shifts:
        raise DataError(
            "no system was trained once per held-out group, so that there is no loss to explain; "
            "give run sets with a run file for every held-out group"
        )
    measures = report.settings.measures
    indicators = list(dict.fromkeys(name for one in shifts for name in one.linked()))
    if not indicators:
        raise UsageError(
            f"{shifts[0].control.only} is the control, and there is no indicator beside it to link "
            "losses with; name another one, too"
        )
    group_links = [
        link
        for measure in measures
        for name in indicators
        for link in _group_links(name, measure, shifts, split)
    ]
    if not group_links:
        counts = ", ".join(f"{one.shift} has {one.groups}" for one in shifts)
        raise DataError(
            f"a link takes at least {FEWEST_GROUPS} groups, and {counts}; analyse a shift with "
            "more groups, or several shifts at once"
        )
    each = [(measure, one) for measure in measures for one in shifts]
    systems = list(dict.fromkeys(name for one in shifts for name in one.systems()))
    return Analysis(
        f"run sets of {', '.join(systems)}",
        report.data,
        tuple(map(str, measures)),
        tuple(indicators),
        tuple(group_links),
        tuple(
            distribution(one.shift, name, values)
            for one in shifts
            for name, values in one.per_query().items()
        ),
        tuple(link for measure, one in each for link in _query_links(one, measure, bins)),
        tuple(parts for measure, one in each for parts in _losses_by_words(one, measure)),
        tuple(plan for measure, one in each for plan in _plans(one, measure)),
        (*report.remarks, *_small(shifts, group_links)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ShiftInputs:
    """What one shift is analysed from: its systems with losses, indicators, and the control."""

    shift: str
    results: Sequence[SystemResult]
    values: Mapping[str, ValuesOfGroups]
    control: Control

    @property
    def groups(self) -> int:
        return len(get_shift(self.shift).groups)

    def systems(self) -> list[str]:
        return [result.system for result in self.results]

    def linked(self) -> dict[str, ValuesOfGroups]:
        """Return the indicators without the one that is only the control."""
        return {name: one for name, one in self.values.items() if name != self.control.only}

    def per_query(self) -> dict[str, Mapping[str, Floats]]:
        """Return the indicators that are defined per query."""
        linked = self.linked()
        return {name: one.queries for name, one in linked.items() if one.queries is not None}

    def losses(self, measure: Measure) -> list[QueryLosses]:
        sign = 1 if measure.higher_is_better else -1
        return [
            QueryLosses(
                self.shift, one.system, measure.name, sign, one.measures[measure.name].scores
            )
            for one in self.results
        ]


def _trained(
    shift: str, results: Sequence[SystemResult], measures: Sequence[Measure]
) -> list[SystemResult]:
    """Return the systems that have losses; each must have them on all groups, in these measures."""
    trained = [result for result in results if result.scores.trained_per_group]
    for result in trained:
        for name in map(str, measures):
            loss = result.measures[name].loss
            groups = get_shift(shift).groups
            known = {} if loss is None else loss.groups
            without = [g for g in groups if g not in known or known[g].rel_loss is None]
            if result.partial or without:
                raise DataError(
                    f"{result.system} has no Rel Loss in {name} on "
                    f"{', '.join(without) or 'the groups of its missing run files'} of {shift}; "
                    "complete its run files, or leave the system, the measure or the shift out"
                )
    return trained


def _points(
    results: Sequence[SystemResult], measure: Measure, values: ValuesOfGroups
) -> list[LossPoint]:
    points = []
    for result in results:
        loss = result.measures[measure.name].loss
        assert loss is not None
        for group, of_group in loss.groups.items():
            assert of_group.rel_loss is not None
            known = of_group.intervals
            points.append(
                LossPoint(
                    result.shift.name,
                    group,
                    result.system,
                    values.groups[group],
                    of_group.rel_loss,
                    None if known is None else known.rel_loss,
                    "" if known is None else known.counts,
                    of_group.queries,
                    of_group.seeds,
                )
            )
    return points


def _mixed(losses: Sequence[QueryLosses], values: ValuesOfGroups) -> dict[str, MixedModel]:
    """Return the mixed models that there are: of systems, and of their mean if they are several."""
    relative = {one.system: one.relative() for one in losses}
    if len(losses) > 1:
        alike = len({one.seeds for one in losses}) == 1
        relative[MEAN_OF_SYSTEMS] = {
            group: np.mean(
                [
                    one[group] if alike else one[group].mean(axis=0, keepdims=True)
                    for one in relative.values()
                ],
                axis=0,
            )
            for group in losses[0].scores
        }
    fitted = {
        system: fit_mixed_model(
            of_groups,
            {
                group: np.full(loss.shape[1], values.groups[group])
                for group, loss in of_groups.items()
            },
        )
        for system, of_groups in relative.items()
    }
    return {system: model for system, model in fitted.items() if model is not None}


def _group_links(
    name: str, measure: Measure, shifts: Sequence[_ShiftInputs], split: str
) -> Iterator[GroupLink]:
    """Yield the link over the groups of each shift that has enough, then over those of all."""
    found = [one for one in shifts if name in one.linked()]
    points = {one.shift: _points(one.results, measure, one.values[name]) for one in found}
    for one in found:
        if one.groups >= FEWEST_GROUPS:
            mixed = _mixed(one.losses(measure), one.values[name])
            yield link_losses(name, measure.name, points[one.shift], split=split, mixed=mixed)
    everywhere = set.intersection(*(set(one.systems()) for one in found))
    if len(found) > 1 and everywhere and sum(one.groups for one in found) >= FEWEST_GROUPS:
        kept = [one for some in points.values() for one in some if one.system in everywhere]
        yield link_losses(name, measure.name, kept, split=split)


def _query_links(inputs: _ShiftInputs, measure: Measure, bins: int) -> Iterator[QueryLink]:
    for name, values in inputs.per_query().items():
        yield link_queries(
            name,
            inputs.losses(measure),
            values,
            bins=bins,
            control=inputs.control.name,
            difficulty=inputs.control.difficulty,
        )


def _losses_by_words(inputs: _ShiftInputs, measure: Measure) -> Iterator[LossByWords]:
    unseen = inputs.per_query().get(UNSEEN_WORDS)
    if unseen is None:
        return
    control = inputs.control
    for losses in inputs.losses(measure):
        yield split_loss(losses, unseen, control=control.name, difficulty=control.difficulty)


def _plans(inputs: _ShiftInputs, measure: Measure) -> Iterator[DetectableLoss]:
    for result in inputs.results:
        loss = result.measures[measure.name].loss
        assert loss is not None
        yield from detectable_losses(inputs.shift, result.system, measure.name, loss)


def _small(shifts: Sequence[_ShiftInputs], links: Sequence[GroupLink]) -> list[str]:
    counted = {shift for link in links for shift in link.shifts}
    return [
        f"{one.shift} has {one.groups} groups, too few for a link of its own"
        + ("; it counts in the link over all shifts" if one.shift in counted else "")
        for one in shifts
        if one.groups < FEWEST_GROUPS
    ]
