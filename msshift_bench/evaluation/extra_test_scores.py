"""The scores of one system's runs on an extra test set, and what models trained on all gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msshift_bench.arrays import Floats, Ints
from msshift_bench.data import ExtraTestSet
from msshift_bench.evaluation.extra_runs import check_same_queries, score_models
from msshift_bench.evaluation.fitting import identical_remarks, missing_remarks
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scored_runs import ScoredRun, answered_by_all
from msshift_bench.evaluation.settings import Settings
from msshift_bench.runs import Judgements, RunSet
from msshift_bench.shifts import Shift
from msshift_bench.stats import GroupLoss, Inference, group_loss

__all__ = [
    "FOR_ALL",
    "MODEL_MEAN",
    "ExtraScores",
    "drop_between",
    "score_extra_runs",
    "trained_on_everything",
]

FOR_ALL = "all"
"""What figures call a model that is the same for all groups."""

MODEL_MEAN = "mean"
"""What figures call the mean over the models of a shift."""

_TRAINED_ON_ALL = "-all"
"""The end of the name of a system that is another one, trained on everything."""


@dataclass(frozen=True, slots=True, eq=False)
class ExtraScores:
    """One system's runs on an extra test set, scored.

    Attributes:
        folder: the system's folder.
        system: the system's name.
        shift: the shift that its models were trained for.
        runs: the group that a model was trained without, or `FOR_ALL` -> its runs, seed by seed.
        whole: the models that every seed has.
        queries: the rows of the queries that count.
        remarks: doubts about the runs.
    """

    folder: Path
    system: str
    shift: Shift
    runs: Mapping[str, Sequence[ScoredRun]]
    whole: Sequence[str]
    queries: Ints
    remarks: Sequence[str]

    @property
    def models(self) -> tuple[str, ...]:
        """The models, and `MODEL_MEAN` if there are several to average over."""
        return (*self.runs, *((MODEL_MEAN,) if len(self.whole) > 1 else ()))

    @property
    def files(self) -> list[Path]:
        """The run files."""
        return [Path(run.report.name) for runs in self.runs.values() for run in runs]

    def of(self, model: str, measure: Measure) -> Floats:
        """Return the scores of one of `models` for every judged query, ``[seeds, queries]``.

        NaN where a query has no value.
        """
        chosen = self.whole if model == MODEL_MEAN else [model]
        parts = [np.stack([run.scores[measure.name] for run in self.runs[one]]) for one in chosen]
        found: Floats = np.mean(parts, axis=0)
        return found


def score_extra_runs(
    system: str,
    run_set: RunSet,
    extra: ExtraTestSet,
    settings: Settings,
    *,
    partly: bool,
    allow_identical: bool,
) -> ExtraScores:
    """Score the runs of a system.

    Args:
        system: its name.
        run_set: its runs for the test set.
        extra: the test set.
        settings: measures and policies.
        partly: whether models may be missing.
        allow_identical: whether two models may have the same file.

    Raises:
        RunError: if a run is malformed, was made for other queries, is missing, or is that of
            another model.
    """
    if not partly:
        run_set.check_complete()
    check_same_queries(run_set, extra)
    judgements = Judgements(extra.judged)
    by_seed = score_models(run_set, judgements, settings, allow_identical=allow_identical)
    scored = {model: list(runs.values()) for model, runs in by_seed.items()}
    every = [run for runs in scored.values() for run in runs]
    queries = np.arange(len(judgements))
    name = f"{system} on {extra.name} ({run_set.shift.name})"
    remarks = missing_remarks(name, every, {extra.name: queries}, judgements.query_ids)
    remarks += identical_remarks(every)
    if settings.missing == "skip":
        queries = answered_by_all(every, queries)
    remarks += [
        f"{name}: no run without {group}" + ("" if seed is None else f", seed {seed}")
        for seed, group in run_set.missing
    ]
    # As in losses: models that every seed has, so that all seeds are means over the same models.
    whole = [model for model, runs in scored.items() if len(runs) == len(run_set.runs)]
    folder = run_set.folder.parents[1]  # <system>/also/<test set>
    return ExtraScores(folder, system, run_set.shift, scored, whole, queries, remarks)


def trained_on_everything(own: ExtraScores, others: Iterable[ExtraScores]) -> ExtraScores | None:
    """Return the system that is `own`, trained on everything: ``splade-all`` for ``splade``.

    One in the same folder comes before others, and then one with a run for the same shift: a model
    that was trained on everything is the same for all shifts.

    Args:
        own: a system that was trained per group.
        others: all systems on the same test set.
    """
    name = own.folder.name + _TRAINED_ON_ALL
    found = [one for one in others if one.folder.name == name and FOR_ALL in one.runs]
    found.sort(key=lambda one: (one.folder.parent != own.folder.parent, one.shift != own.shift))
    return found[0] if found else None


def drop_between(
    everything: ExtraScores, own: ExtraScores, measure: Measure, settings: Settings
) -> GroupLoss:
    """Return what the mean over a shift's models loses against a model trained on everything.

    Its Avg In is that of the model trained on everything, its Out the mean; the queries are paired.
    The one model counts as it is, so that intervals count the seeds of the others only.

    Args:
        everything: the scores of the model trained on everything.
        own: those of the models of the shift.
        measure: the measure.
        settings: policies and statistics.
    """
    queries = np.intersect1d(everything.queries, own.queries)
    mean, whole = (
        scores[:, queries]
        for scores in (own.of(MODEL_MEAN, measure), everything.of(FOR_ALL, measure))
    )
    known = np.isfinite(mean).all(axis=0) & np.isfinite(whole).all(axis=0)
    inside = np.broadcast_to(whole[:, known], mean[:, known].shape)
    return group_loss(
        inside[:, np.newaxis],
        mean[:, known],
        Inference(confidence=settings.confidence),
        higher_is_better=measure.higher_is_better,
    )
