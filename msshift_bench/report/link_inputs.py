"""How near the test queries lie to the training queries, and what that has to do with losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msshift_bench.analysis import analyse_report
from msshift_bench.data import Dataset
from msshift_bench.errors import DataError, MissingError, UsageError
from msshift_bench.evaluation import Measure, Report, Result
from msshift_bench.plumbing import Progress, silent
from msshift_bench.report.report_figure import LeftOut
from msshift_bench.runs import find_run_sets, model_path
from msshift_bench.shifts import Shift
from msshift_bench.similarity import GroupSimilarity, group_similarity

__all__ = [
    "LINKS_TITLE",
    "MODEL_BASED",
    "NearestQuery",
    "kept_models",
    "link_or_reason",
    "nearest_queries",
    "read_similarities",
]

LINKS_TITLE = "Losses against similarity: groups, distributions, intervals, box plots"
"""The title of all figures of the links together."""

MODEL_BASED = "model-based"
"""The indicator R, which takes the models that were trained without each group."""

_NEAREST = "nearest-query"
_TERMS = "terms"
"""The encoder of training queries for the nearest one: it needs no model."""

_OF_GROUPS = "weighted-jaccard"


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """The training query that is nearest to a test query.

    Attributes:
        query_id: its id.
        text: its text.
        cosine: of the vectors of the two.
    """

    query_id: str
    text: str
    cosine: float


def kept_models(
    runs: str | Path | Sequence[str | Path], shift: Shift
) -> dict[str, Mapping[str, Path]]:
    """Return system -> held-out group -> its model, of systems that kept all of a shift's models.

    Of several seeds it is the smallest.

    Args:
        runs: the folders of run sets.
        shift: the shift.
    """
    found: dict[str, Mapping[str, Path]] = {}
    for one in find_run_sets([runs] if isinstance(runs, str | Path) else runs):
        if one.shift == shift and one.runs:
            seed = min(one.runs, key=lambda seed: -1 if seed is None else seed)
            models = {group: model_path(path) for group, path in one.runs[seed].items()}
            if models.keys() == shift.groups.keys() and all(map(Path.is_dir, models.values())):
                found[one.system] = models
    return found


def read_similarities(
    dataset: Dataset,
    shift: Shift,
    models: Iterable[Mapping[str, Path]],
    *,
    progress: Progress = silent,
) -> list[GroupSimilarity]:
    """Return how near a shift's groups lie to each other: by words, nearest query, and models.

    Data without training queries, as a release may be, have the first alone.

    Args:
        dataset: the data set, which holds texts.
        shift: the shift.
        models: kept models, system by system; the first that are bi-encoders give R.
        progress: called with the stages of embedding queries.
    """
    found = list(group_similarity(dataset, shift.name, _OF_GROUPS))
    if shift.name not in dataset.info.training:
        return found
    found += group_similarity(dataset, shift.name, _NEAREST, encoder=_TERMS, progress=progress)
    for of_system in models:
        try:
            found += group_similarity(
                dataset, shift.name, MODEL_BASED, models=of_system, progress=progress
            )
        except (MissingError, UsageError):  # no library for them, or no bi-encoders
            continue
        break
    return found


def nearest_queries(found: Iterable[GroupSimilarity]) -> dict[str, NearestQuery]:
    """Return test query -> its nearest training query, of one shift."""
    nearest = {}
    for one in found:
        values = one.per_query
        if one.indicator == _NEAREST and values is not None:
            columns = (values.query_ids, values.nearest.ids, values.nearest.texts, values.values)
            for query_id, other, text, cosine in zip(*columns, strict=True):
                nearest[query_id] = NearestQuery(other, text, float(cosine))
    return nearest


def link_or_reason(
    report: Report, similarities: Sequence[GroupSimilarity], measure: Measure
) -> Result | LeftOut:
    """Return the links of losses with indicators, or why there are none.

    Args:
        report: the evaluation.
        similarities: of all of its shifts.
        measure: the measure of the losses.
    """
    title = LINKS_TITLE
    try:
        alone = replace(report, settings=replace(report.settings, measures=(measure,)))
        return analyse_report(alone, similarities)
    except (DataError, UsageError) as error:
        why, _, remedy = str(error).partition("; ")
        return LeftOut(title, why, remedy or "run sets and data without this fault")
