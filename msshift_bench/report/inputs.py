"""Inputs of a report: results, leads, and links between losses and similarity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msshift_bench.analysis import analyse_report
from msshift_bench.data import Dataset
from msshift_bench.errors import DataError, MissingError, RunError, UsageError
from msshift_bench.evaluation import (
    Measure,
    OpenedRuns,
    OpenedRunSet,
    Result,
    Scores,
    Settings,
    by_shift,
    differences_of,
    evaluate_run_sets,
)
from msshift_bench.output import SystemStyle, styles_of
from msshift_bench.shifts import SHIFTS, Shift
from msshift_bench.similarity import Similarity, group_similarity
from msshift_bench.stats import FIGURES, Figures

_MODEL_BASED = "model-based"
"""Indicator R, which needs the models that were trained without each group."""

_LEADS = tuple(name for name, kind in FIGURES.items() if kind.is_lead)

Missing = tuple[str, str]
"""Reason why a chart cannot be drawn, and remedy."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Inputs of all charts of a report.

    Attributes:
        result: the losses, by all measures of the settings.
        settings: the settings; charts show the first measure.
        dataset: the data set.
        shifts: the shifts, each with the scores of its systems.
        looks: system -> its colour and marker.
        reference: the system for leads; `None` for no leads.
        leads: the comparison of all systems with the reference; `None` without a reference.
        links: the links between losses and indicators; or the reason why there are none.
        figures: all figures in the measure of the charts, including leads.
    """

    result: Result
    settings: Settings
    dataset: Dataset
    shifts: Sequence[tuple[Shift, Sequence[Scores]]]
    looks: Mapping[str, SystemStyle]
    reference: str | None
    leads: Result | None
    links: Result | Missing
    figures: Figures

    @property
    def measure(self) -> Measure:
        """The measure of the charts: the first of the settings."""
        return self.settings.measures[0]

    def groups(self, shift: Shift) -> Mapping[str, str]:
        """Return group -> a description of its queries; `{}` if the data have none."""
        return self.result.data.groups.get(shift.name, {})


def read_inputs(
    opened: OpenedRuns,
    dataset: Dataset,
    settings: Settings,
    allow: str | Collection[str],
    *,
    links: bool,
) -> Inputs:
    """Evaluate run sets, and return the inputs of all charts.

    Args:
        opened: the run sets, and the reference.
        dataset: the data set.
        settings: see `write_report`.
        allow: see `write_report`.
        links: whether to compute links between losses and similarity.
    """
    reference, measure = opened.reference, settings.measures[0]
    compared = opened if reference is None else opened.comparing()
    result = evaluate_run_sets(compared, settings=settings, allow=allow)
    shifts = [(SHIFTS[name], scores) for name, scores in by_shift(result.scores).items()]
    leads = None
    if reference is not None:
        leads = differences_of(result.scores, result.data, settings, reference=reference)
    of_leads = () if leads is None else leads.figures.where(figure=_LEADS)
    return Inputs(
        result,
        settings,
        dataset,
        shifts,
        styles_of(part.system for part in result.scores),
        reference,
        leads,
        _compute_links(result, measure, opened, dataset)
        if links
        else ("links were not requested", "run `msshift report` without --no-links"),
        Figures([*result.figures, *of_leads]).where(measure=measure.name),
    )


KEEP_MODELS = "msshift run bi-encoder --keep-model --name bi-encoder-kept"
"""Command that keeps models; its new name forces training if complete runs kept no models."""


def reason_without_loss(scores: Iterable[Scores]) -> Missing:
    """Return the reason why no system has a Rel Loss, and the remedy."""
    lacking = [
        f"{part.system} on {part.shift_name} lacks {', '.join(part.missing_runs)}"
        for part in scores
        if part.trained_per_group and part.missing_files
    ]
    if lacking:
        return f"runs are missing: {'; '.join(lacking)}", "add these run files"
    return (
        "no system was trained without each group in turn",
        "run a system, e.g. `msshift run bi-encoder`, or name your own runs "
        "`<system>/<shift>/<held-out group>.run`",
    )


def _compute_links(
    result: Result, measure: Measure, opened: OpenedRuns, dataset: Dataset
) -> Result | Missing:
    """Return the links between losses in a measure and indicators, or why there are none."""
    # If `by_size`, groups are training sets, and similarities between groups do not apply.
    scores = [part for part in result.scores if part.shift and not part.shift.by_size]
    shifts = dict.fromkeys(part.shift_name for part in scores if part.trained_per_group)
    if not dataset.manifest.texts:
        return "the data set contains no texts", "run `msshift import`, which adds texts"
    if not shifts:
        return "no system was trained without each group in turn", f"run e.g. `{KEEP_MODELS}`"
    similarities = [
        similarity
        for shift in shifts
        for similarity in _read_similarities(dataset, shift, opened.run_sets)
    ]
    in_measure = {**result.settings, "measures": [measure.name]}
    try:
        return analyse_report(replace(result, scores=scores, settings=in_measure), similarities)
    except (DataError, UsageError) as error:
        why, _, remedy = str(error).partition("; ")
        return why, remedy or "correct the run sets or the data"


def _read_similarities(
    dataset: Dataset, shift: str, run_sets: Iterable[OpenedRunSet]
) -> list[Similarity]:
    """Return the similarities between a shift's groups, by words, nearest query, and models.

    Data without training queries, e.g. some releases, have only the similarity by words. The first
    system with kept bi-encoder models is used for the similarity by models (R).
    """
    similarities = list(group_similarity(dataset, shift, "weighted-jaccard"))
    if shift not in dataset.info.training:
        return similarities
    # Term vectors need no model.
    similarities += group_similarity(dataset, shift, "nearest-query", encoder="terms")
    for run_set in run_sets:
        if run_set.shift_name == shift and run_set.trained_per_group:
            try:
                return [
                    *similarities,
                    *group_similarity(dataset, shift, _MODEL_BASED, models=[run_set]),
                ]
            except (MissingError, RunError, UsageError):  # no models, libraries or bi-encoders
                continue
    return similarities
