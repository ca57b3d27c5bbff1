"""What systems lose on variants of queries, e.g. with typing errors, and whether shifts add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msshift_bench.data import (
    DataInfo,
    Dataset,
    VariantFile,
    open_dataset,
    read_extra_tests,
)
from msshift_bench.errors import RunError, UsageError
from msshift_bench.evaluation.evaluator import check_loss
from msshift_bench.evaluation.extra_runs import runs_for_test_set
from msshift_bench.evaluation.fitting import check_passages, check_sidecars
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.variant_scores import VariantScores, score_variants
from msshift_bench.evaluation.variant_tables import (
    ALL,
    CompoundFigure,
    VariantFigure,
    VariantReport,
)
from msshift_bench.records import Row
from msshift_bench.runs import RunSet, find_run_sets
from msshift_bench.shifts import DATASET_NAME, get_shift
from msshift_bench.stats import ON_AVERAGE, Inference, adjust, compound_losses, group_loss

__all__ = ["evaluate_variants"]


def evaluate_variants(
    runs: str | Path | Iterable[str | Path],
    variants: Mapping[str, str | Path],
    data: Dataset | str | Path = DATASET_NAME,
    shifts: Sequence[str] = (),
    settings: Settings | None = None,
    *,
    allow_partial: bool = False,
    allow_identical: bool = False,
    force_data: bool = False,
) -> VariantReport:
    """Say what every model loses on variants of queries: 1 - changed / as they are, by query.

    Args:
        runs: folders of run sets; the runs on the variants lie in ``<system>/also/<name>``, as
            `run_baseline` lays them out. Systems without such runs are left out, with a remark.
        variants: name -> a file of variants of the shifts' test queries (query_id, text, method),
            or the folder of an extra test set that holds ``variants.tsv``. In runs a variant has
            the id ``<query_id>#<method>``.
        data: the data set with the queries; not read for folders.
        shifts: only the models of these shifts; all, if empty.
        settings: measures and policies.
        allow_partial: go on where models or seeds are missing, with those that both kinds of runs
            have.
        allow_identical: accept the same file under two models of a system.
        force_data: accept runs of other data.

    Returns:
        What every model loses, by test set, shift, system, measure and method; by group, whether
        the model that was trained without it loses more.

    Raises:
        UsageError: if a measure has no loss, or a folder holds no variants.
        NotFoundError: if a folder or file does not exist, or no system has runs on the variants.
        CollectionError: if a file is malformed.
        DataError: if no variant is of a test query of a shift, or none counts.
        RunError: if a run is malformed or missing (unless `allow_partial`), was made for other
            queries or on other data (unless `force_data`), or by another model, or is that of
            another held-out group (unless `allow_identical`); or if a system has no runs on the
            queries as they are.
    """
    settings = settings or Settings()
    for measure in settings.measures:
        check_loss(measure)
    wanted = [get_shift(name) for name in dict.fromkeys(shifts)]
    run_sets = find_run_sets(runs)
    parts: list[_Part] = []
    remarks: list[str] = []
    info = DataInfo()
    for read in read_extra_tests(variants):
        of_shifts = isinstance(read, VariantFile)
        found, doubts = runs_for_test_set(run_sets, read, Path(variants[read.name]), wanted)
        remarks += doubts
        dataset = open_dataset(data) if of_shifts else None
        if dataset is not None:
            info = dataset.info
        tests: dict[str, Mapping[str, Sequence[Row]]] = {}
        for system, changed in found:
            shift = changed.shift
            if shift.name not in tests:
                tests[shift.name] = {} if dataset is None else dataset.test_sets(shift)
            rows = [row for members in tests[shift.name].values() for row in members]
            extra = read.of_shift(shift.name, rows)
            if not extra.variants:
                raise UsageError(
                    f"{variants[read.name]} holds no variants.tsv; evaluate_extra_tests is for "
                    "test sets without variants"
                )
            own = _own_runs(run_sets, system, changed) if of_shifts else changed
            name = f"{system} on {extra.name} ({shift.name})"
            files = [*own.files, *changed.files]
            if dataset is not None:
                remarks += check_sidecars(files, dataset.info, force_data=force_data)
            remarks += check_passages([(name, files)], force_data=force_data)
            scores = score_variants(
                name,
                own,
                changed,
                extra,
                tests[shift.name],
                settings,
                partly=allow_partial,
                allow_identical=allow_identical,
            )
            remarks += scores.remarks
            texts = {row.query_id: row.text for row in (*rows, *extra.rows)}
            same = sum(one.text == texts[one.query_id] for one in extra.variants)
            contents = f"{len(extra.variants):,} variants"
            if dataset is None or dataset.manifest.texts:
                contents += f", {same:,} of them as the query"
            parts.append(_Part(extra.name, contents, shift.name, system, scores))
    return VariantReport(
        settings,
        info,
        [figure for part in parts for figure in part.figures(settings)],
        [figure for part in parts for figure in part.compounds(settings)],
        list(dict.fromkeys(f"{p.test_set} ({p.shift}): {p.contents}" for p in parts)),
        remarks,
    )


def _own_runs(run_sets: Sequence[RunSet], system: str, changed: RunSet) -> RunSet:
    for run_set in run_sets:
        if (run_set.system, run_set.shift) == (system, changed.shift):
            return run_set
    raise RunError(
        f"{system} has runs on variants for {changed.shift.name} and none on the queries as they "
        f"are, in {system}/{changed.shift.name}, with which they are compared"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A system's scores on one test set of variants, for the models of one shift."""

    test_set: str
    contents: str
    shift: str
    system: str
    scores: VariantScores

    def figures(self, settings: Settings) -> Iterable[VariantFigure]:
        """Yield what each model loses on all variants, and their mean on those of each method."""
        scores = self.scores
        for measure in settings.measures:
            yield from self._models(measure, settings)
            for method in scores.methods if len(scores.methods) > 1 else ():
                yield self._figure(measure, settings, scores.models, method)

    def _models(self, measure: Measure, settings: Settings) -> Iterable[VariantFigure]:
        models = self.scores.models
        for model in models:
            yield self._figure(measure, settings, [model])
        if len(models) > 1:
            yield self._figure(measure, settings, models)

    def _figure(
        self,
        measure: Measure,
        settings: Settings,
        models: Sequence[str],
        method: str | None = None,
    ) -> VariantFigure:
        plain, changed, _ = self.scores.pairs(measure.name, method)
        chosen = [self.scores.models.index(model) for model in models]
        loss = group_loss(
            plain[:, chosen],
            changed[:, chosen].mean(axis=1),
            # Both sides are scores of the same models, which pooling takes for independent.
            Inference(settings.confidence),
            higher_is_better=measure.higher_is_better,
        )
        return VariantFigure(
            self.test_set,
            self.shift,
            self.system,
            measure.name,
            models[0] if len(models) == 1 else ON_AVERAGE,
            method or ALL,
            loss.avg_in,
            loss.out,
            loss.rel_loss,
            None if loss.intervals is None else loss.intervals.rel_loss,
            loss.p,
            loss.queries,
            loss.seeds,
        )

    def compounds(self, settings: Settings) -> Iterable[CompoundFigure]:
        """Yield, by group, whether the model that never saw it loses more than those that did."""
        for measure in settings.measures:
            found = compound_losses(
                self.scores.by_group(measure.name),
                settings.confidence,
                higher_is_better=measure.higher_is_better,
            )
            tested = {group: one.p for group, one in found.items() if group != ON_AVERAGE}
            corrected = adjust(tested, settings.correction)
            for group, one in found.items():
                yield CompoundFigure(
                    self.test_set,
                    self.shift,
                    self.system,
                    measure.name,
                    group,
                    one,
                    one.p if group == ON_AVERAGE else corrected.get(group),
                    len(self.scores.seeds),
                )
