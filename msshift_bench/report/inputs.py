"""What a report is drawn from: results, texts, and how near queries lie to training queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msshift_bench.analysis import analyse_report
from msshift_bench.data import Dataset
from msshift_bench.errors import DataError, MissingError, RunError, UsageError
from msshift_bench.evaluation import (
    Measure,
    Opened,
    OpenedRunSet,
    Result,
    Scores,
    Settings,
    by_shift,
    parse_measure,
)
from msshift_bench.output import Look, looks_of
from msshift_bench.report.drawing import NotDrawn
from msshift_bench.shifts import SHIFTS, Shift
from msshift_bench.similarity import Similarity, group_similarity
from msshift_bench.stats import Figures

RANK_MEASURE = "RR"
"""The measure whose inverse is the rank of the first relevant passage."""

MODEL_BASED = "model-based"
"""The indicator R, which takes the models that were trained without each group."""

NearestQuery = tuple[str, float]
"""The text of the training query that is nearest to a test query, and their cosine."""

_LINKS = "Losses against similarity: groups, distributions, intervals, box plots"
"""The title of all pictures of the links together."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Everything that pictures are drawn from.

    Attributes:
        result: what was evaluated, by the measures that were asked for and by `RANK_MEASURE`.
        settings: with the measures that were asked for; the first one is drawn.
        dataset: the data set.
        shifts: the shifts, each with the scores of its systems.
        looks: system -> how it is drawn.
        nearest: shift -> test query -> its nearest training query, of those that the models without
            its group were trained on; empty if the data set holds no texts.
        links: the links of losses with indicators; or why there are none.
    """

    result: Result
    settings: Settings
    dataset: Dataset
    shifts: Sequence[tuple[Shift, Sequence[Scores]]]
    looks: Mapping[str, Look]
    nearest: Mapping[str, Mapping[str, NearestQuery]]
    links: Result | NotDrawn

    @property
    def measure(self) -> Measure:
        """The measure that is drawn."""
        return self.settings.measures[0]

    def figures(self, shift: Shift, *names: str) -> Figures:
        """Return the figures of these names, e.g. ``rel_loss``, by the measure that is drawn."""
        return self.result.figures.where(shift=shift.name, measure=self.measure.name, figure=names)


def with_ranks(settings: Settings) -> Settings:
    """Return settings whose measures also say at which ranks answers stand."""
    if RANK_MEASURE in map(str, settings.measures):
        return settings
    return replace(settings, measures=(*settings.measures, parse_measure(RANK_MEASURE)))


def read_inputs(
    result: Result, settings: Settings, opened: Opened, dataset: Dataset, *, links: bool = True
) -> Inputs:
    """Read what pictures show beside the result on run sets.

    Args:
        result: the losses, with the measures of `with_ranks`.
        settings: with the measures that were asked for.
        opened: the run sets that were evaluated.
        dataset: the data set.
        links: as for `write_report`, like the next one.
    """
    shifts = [(SHIFTS[name], scores) for name, scores in by_shift(result.scores).items()]
    nearest: dict[str, Mapping[str, NearestQuery]] = {}
    similarities: list[Similarity] = []
    for shift, scores in shifts:
        is_linked = links and dataset.manifest.texts and not shift.by_size
        if is_linked and any(part.trained_per_group for part in scores):
            of_shift = _read_similarities(dataset, shift, opened.run_sets)
            nearest[shift.name] = {
                query_id: (text, float(cosine))
                for part in of_shift
                if part.indicator == "nearest-query"
                for query_id, text, cosine in zip(
                    part.query_ids, part.nearest.texts, part.values, strict=True
                )
            }
            similarities += of_shift
    return Inputs(
        result,
        settings,
        dataset,
        shifts,
        looks_of(part.system for part in result.scores),
        nearest,
        _link(result, settings.measures[0], similarities)
        if similarities
        else _unlinked(dataset, links=links),
    )


KEEP_MODELS = "msshift run bi-encoder --keep-model --name bi-encoder-kept"
"""A command that keeps models also where complete runs of the bi-encoder have kept none."""


def why_no_loss(scores: Iterable[Scores]) -> tuple[str, str]:
    """Return why systems have no Rel Loss, and what would bring one."""
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


def _unlinked(dataset: Dataset, *, links: bool) -> Result | NotDrawn:
    """Return why nothing can be said about losses and similarity."""
    if not links:
        return NotDrawn(_LINKS, "it was not asked for", "`msshift report` without --no-links")
    if not dataset.manifest.texts:
        return NotDrawn(_LINKS, "the data set holds no texts", "`msshift import` puts them back")
    return NotDrawn(
        _LINKS, "no system was trained without each group in turn", f"run one, e.g. `{KEEP_MODELS}`"
    )


def _read_similarities(
    dataset: Dataset, shift: Shift, run_sets: Iterable[OpenedRunSet]
) -> list[Similarity]:
    """Return how near a shift's groups lie to each other: by words, nearest query, and models.

    Data without training queries, as a release may be, have the first alone. The first system
    whose kept models are bi-encoders gives R.
    """
    similarities = list(group_similarity(dataset, shift.name, "weighted-jaccard"))
    if shift.name not in dataset.info.training:
        return similarities
    # Term vectors need no model.
    similarities += group_similarity(dataset, shift.name, "nearest-query", encoder="terms")
    for run_set in run_sets:
        if run_set.shift == shift and run_set.trained_per_group:
            try:
                similarities += group_similarity(dataset, shift.name, MODEL_BASED, models=[run_set])
            except (MissingError, RunError, UsageError):  # no models, libraries or bi-encoders
                continue
            break
    return similarities


def _link(
    result: Result, measure: Measure, similarities: Sequence[Similarity]
) -> Result | NotDrawn:
    """Return the links of losses in a measure with indicators, or why there are none."""
    # The groups of a shift by size are training sets, which could not be near or far.
    scores = [part for part in result.scores if part.shift and not part.shift.by_size]
    in_measure = {**result.settings, "measures": [measure.name]}
    try:
        return analyse_report(replace(result, scores=scores, settings=in_measure), similarities)
    except (DataError, UsageError) as error:
        why, _, remedy = str(error).partition("; ")
        return NotDrawn(_LINKS, why, remedy or "run sets and data without this fault")
