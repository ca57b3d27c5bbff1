"""What a report is drawn from: results, leads, and the links of losses with similarity."""

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
"""The indicator R, which takes the models that were trained without each group."""

_LEADS = tuple(name for name, kind in FIGURES.items() if kind.is_lead)

Missing = tuple[str, str]
"""Why a chart cannot be drawn, and how to get what is missing."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that charts are drawn from.

    Attributes:
        result: the losses, by all measures of the settings.
        settings: the first measure is drawn.
        dataset: the data set.
        shifts: the shifts, each with the scores of its systems.
        looks: system -> how it is drawn.
        reference: the system that leads are computed over; `None` for no leads.
        leads: the comparison of all systems with the reference; `None` without a reference.
        links: the links of losses with indicators; or why there are none.
        figures: all figures by the measure that is drawn, with the leads.
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
        """The measure that is drawn."""
        return self.settings.measures[0]

    def groups(self, shift: Shift) -> Mapping[str, str]:
        """Return group -> a description of its queries."""
        return self.result.data.groups.get(shift.name, {})


def read_inputs(
    opened: OpenedRuns,
    dataset: Dataset,
    settings: Settings,
    allow: str | Collection[str],
    *,
    links: bool,
) -> Inputs:
    """Evaluate run sets, and read what charts show with their losses.

    Args:
        opened: the run sets, and the reference.
        dataset: the data set.
        settings: as for `write_report`, like all others.
        allow: the allowances.
        links: whether to link losses with similarity.
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
        _link(result, measure, opened, dataset)
        if links
        else ("it was not asked for", "`msshift report` without --no-links"),
        Figures([*result.figures, *of_leads]).where(measure=measure.name),
    )


KEEP_MODELS = "msshift run bi-encoder --keep-model --name bi-encoder-kept"
"""A command that keeps models also where complete runs of the bi-encoder have kept none."""


def reason_without_loss(scores: Iterable[Scores]) -> Missing:
    """Return why systems have no Rel Loss, and how to get one."""
    lacking = [
        f"{part.system} on {part.shift_name} lacks {', '.join(part.missing_runs)}"
        for part in scores
        if part.trained_per_group and part.missing_files
    ]
    if lacking:
        return f"runs are missing: {'; '.join(lacking)}", "add these run files"
    return (
        "no system was trained without each group in turn",
        "run one, e.g. `msshift run bi-encoder`, or lay out runs of your own as "
        "`<system>/<shift>/<held-out group>.run`",
    )


def _link(
    result: Result, measure: Measure, opened: OpenedRuns, dataset: Dataset
) -> Result | Missing:
    """Return the links of losses in a measure with indicators, or why there are none."""
    # The groups of a shift by size are training sets, which could not be near or far.
    scores = [part for part in result.scores if part.shift and not part.shift.by_size]
    shifts = dict.fromkeys(part.shift_name for part in scores if part.trained_per_group)
    if not dataset.manifest.texts:
        return "the data set holds no texts", "`msshift import` puts them back"
    if not shifts:
        return "no system was trained without each group in turn", f"run one, e.g. `{KEEP_MODELS}`"
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
        return why, remedy or "run sets and data without this fault"


def _read_similarities(
    dataset: Dataset, shift: str, run_sets: Iterable[OpenedRunSet]
) -> list[Similarity]:
    """Return how near a shift's groups are to each other: by words, nearest query, and models.

    Data without training queries, as a release may be, have the first alone. The first system
    whose kept models are bi-encoders gives R.
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
