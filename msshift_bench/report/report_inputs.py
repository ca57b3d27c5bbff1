"""What a report is made of, read and computed once: scores, slices, texts and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msshift_bench.data import Collection, Dataset, open_source
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import (
    Evaluator,
    Measure,
    Report,
    Result,
    Settings,
    SystemResult,
    parse_measure,
    read_labels,
    slice_scores,
)
from msshift_bench.output import Look, looks_of
from msshift_bench.plumbing import Progress, silent
from msshift_bench.report.link_inputs import (
    LINKS_TITLE,
    NearestQuery,
    kept_models,
    link_or_reason,
    nearest_queries,
    read_similarities,
)
from msshift_bench.report.query_figures import RANK_MEASURE
from msshift_bench.report.report_figure import LeftOut
from msshift_bench.report.slice_figures import SlicedBy
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import GroupSimilarity

__all__ = ["Gathered", "read_inputs", "with_ranks"]


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Everything that figures are drawn from.

    Attributes:
        report: the evaluation, with the measures that were asked for and `RANK_MEASURE`.
        measures: the measures that were asked for; the first one is drawn.
        dataset: the data set.
        looks: system -> how it is drawn.
        texts: query_id -> text of the test queries; empty if the data set holds no texts.
        slices: shift -> its losses by the groups of the data set's other shifts.
        nearest: test query -> its nearest training query among those that the model without its
            group was trained on, by shift; empty if the data set holds no texts.
        analysis: the links of losses with indicators; or why there are none.
        kept: shift -> system -> held-out group -> the model that was kept.
        collection: the collection of the data set; `None` if no models were kept, or nobody said
            where it is.
    """

    report: Report
    measures: tuple[Measure, ...]
    dataset: Dataset
    looks: Mapping[str, Look]
    texts: Mapping[str, str]
    slices: Mapping[str, Sequence[SlicedBy]]
    nearest: Mapping[str, Mapping[str, NearestQuery]]
    analysis: Result | LeftOut
    kept: Mapping[str, Mapping[str, Mapping[str, Path]]]
    collection: Collection | None

    @property
    def measure(self) -> Measure:
        """The measure that is drawn."""
        return self.measures[0]


def with_ranks(settings: Settings) -> Settings:
    """Return settings whose measures also say at which ranks answers stand."""
    if RANK_MEASURE in map(str, settings.measures):
        return settings
    return replace(settings, measures=(*settings.measures, parse_measure(RANK_MEASURE)))


def read_inputs(
    report: Report,
    measures: tuple[Measure, ...],
    runs: str | Path | Sequence[str | Path],
    dataset: Dataset,
    *,
    links: bool = True,
    collection: Collection | str | Path | None = None,
    progress: Progress = silent,
) -> Gathered:
    """Read what the figures show beside the report on run sets.

    Args:
        report: the evaluation, with the measures of `with_ranks`.
        measures: those of them that were asked for.
        runs: the run sets that were evaluated.
        dataset: the data set.
        links: as for `write_report`, like the arguments below.
        collection: the collection.
        progress: called with the number of parts done.
    """
    by_shift = report.by_shift()
    pooled = replace(report.settings, measures=measures[:1], average="pooled")
    texts: dict[str, str] = {}
    similarities: list[GroupSimilarity] = []
    nearest = {}
    kept = {
        name: {} if SHIFTS[name].by_size else kept_models(runs, SHIFTS[name]) for name in by_shift
    }
    wanted = collection is not None or any(kept.values())
    source = _find_collection(dataset, collection) if wanted else None
    for name, results in by_shift.items():
        shift = SHIFTS[name]
        if not dataset.manifest.texts:
            break
        for rows in dataset.test_sets(shift).values():
            texts.update({row.query_id: row.text for row in rows})
        trained = any(result.scores.trained_per_group for result in results)
        if links and trained and not shift.by_size:
            of_shift = read_similarities(dataset, shift, kept[name].values(), progress=progress)
            nearest[name] = nearest_queries(of_shift)
            similarities += of_shift
    return Gathered(
        report,
        measures,
        dataset,
        looks_of(result.system for result in report.systems),
        texts,
        {name: _sliced(results, dataset, pooled) for name, results in by_shift.items()},
        nearest,
        link_or_reason(
            replace(report, systems=[one for one in report.systems if not one.shift.by_size]),
            similarities,
            measures[0],
        )
        if similarities
        else _unlinked(dataset, links=links),
        kept,
        source,
    )


def _find_collection(dataset: Dataset, said: Collection | str | Path | None) -> Collection | None:
    """Return the collection of a data set; `None` if nobody said where it is."""
    try:
        found = open_source(dataset, said)
    except UsageError:
        return None
    dataset.check_built_from(found)
    return found


def _unlinked(dataset: Dataset, *, links: bool) -> LeftOut:
    """Return why nothing can be said about losses and similarity."""
    title = LINKS_TITLE
    if not links:
        return LeftOut(title, "it was not asked for", "`msshift report` without --no-links")
    if not dataset.manifest.texts:
        return LeftOut(title, "the data set holds no texts", "`msshift hydrate` puts them back")
    return LeftOut(
        title,
        "no system was trained without each group in turn",
        "run one, e.g. `msshift baseline run bi-encoder --keep-model`",
    )


def _sliced(results: Sequence[SystemResult], dataset: Dataset, pooled: Settings) -> list[SlicedBy]:
    """Return the results on slices of the queries, all groups of a slice pooled."""
    shift = results[0].shift
    trained = [result for result in results if result.scores.trained_per_group]
    if not trained:
        return []
    evaluator = Evaluator.from_dataset(shift.name, dataset, pooled)
    parts = [
        SlicedBy("all queries", {"all": [evaluator.summarise(one.scores) for one in trained]}),
        SlicedBy(
            f"held-out group ({shift.name})",
            {
                group: [evaluator.summarise(one.scores.restricted_to(ids)) for one in trained]
                for group, ids in (
                    (group, trained[0].scores.ids_of(group)) for group in trained[0].scores.groups
                )
            },
        ),
    ]
    for other in dataset.manifest.shifts:
        if other == shift.name or other not in SHIFTS or SHIFTS[other].by_size:
            continue
        labels = read_labels(other, dataset)
        slices: dict[str, list[SystemResult]] = {}
        for one in trained:
            for label, part in slice_scores(one.scores, labels, pooled.missing).items():
                slices.setdefault(label, []).append(evaluator.summarise(part))
        parts.append(SlicedBy(SHIFTS[other].title.lower(), slices))
    return parts
