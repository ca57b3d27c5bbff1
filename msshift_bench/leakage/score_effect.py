"""What scores are with and without the test queries that leaked, and how sure the difference is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from msshift_bench.data import Dataset, open_dataset
from msshift_bench.errors import DataError
from msshift_bench.evaluation import EvaluatedRuns, Measure, Report, SystemResult
from msshift_bench.leakage.found import read_candidates
from msshift_bench.output import (
    FIGURE_COLUMNS,
    FigureRow,
    LongTable,
    Table,
    WithFigures,
    plain,
    say_level,
    show_percent,
    show_percent_interval,
)
from msshift_bench.shifts import DATASET_NAME, get_shift
from msshift_bench.stats import ON_AVERAGE, GroupScores, KeptDifference, kept_differences

__all__ = ["LeakageEffect", "LeakedScore", "leakage_effect"]

_TITLES = {"avg_in": "Avg In", "out": "Out", "rel_loss": "Rel Loss", "score": "score", "mean": ""}


@dataclass(frozen=True, slots=True)
class LeakedScore:
    """One figure, with and without the test queries that leaked.

    Attributes:
        shift: the shift; "" for runs that were scored on one test set.
        system: the system or the run.
        measure: the measure.
        group: the group, ``mean`` of the groups, or the name of the test set.
        figure: ``avg_in``, ``out``, ``rel_loss``; ``score`` of a system that was not trained per
            group; ``mean`` of a single run.
        values: the figure on all test queries, on those that did not leak, and the difference.
    """

    shift: str
    system: str
    measure: Measure
    group: str
    figure: str
    values: KeptDifference


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeakageEffect(WithFigures):
    """An evaluation, and what its figures are without the test queries that leaked.

    Attributes:
        evaluated: the evaluation.
        source: the file of candidates.
        leaked: the test queries that leaked.
        scores: every figure, by system and measure.
    """

    evaluated: Report | EvaluatedRuns
    source: str
    leaked: frozenset[str]
    scores: Sequence[LeakedScore]

    def __repr__(self) -> str:
        return f"<LeakageEffect: {len(self.leaked):,} test queries leaked, {self.evaluated!r}>"

    @property
    def remarks(self) -> Sequence[str]:
        """Doubts about the figures."""
        return self.evaluated.remarks

    def tables(self) -> list[Table]:
        """Return a table per shift and measure: each figure with, without, and the difference."""
        by_table: dict[tuple[str, str], list[LeakedScore]] = {}
        for one in self.scores:
            by_table.setdefault((one.shift, str(one.measure)), []).append(one)
        level = say_level(self.evaluated.settings.confidence)
        return [_table(found, level) for found in by_table.values()]

    def notes(self) -> list[str]:
        """Return how many test queries leaked, by group, and what intervals count."""
        if not self.scores:
            return [
                "no figure without leaked test queries: no group has the scores of models that saw "
                "it and of one that did not"
            ]
        counts = {
            (one.shift, one.group): one.values for one in self.scores if one.group != ON_AVERAGE
        }
        told = ", ".join(
            f"{group} {one.left_out} of {one.queries}" for (_, group), one in counts.items()
        )
        return [
            f"test queries that leaked, by {self.source}: {told}",
            "difference: all test queries minus those that did not leak; intervals and p count "
            "what the loss tables count, other test queries and other seeds",
        ]

    def tidy(self) -> LongTable:
        """Return the evaluation's figures, then those without leaked queries, and differences."""
        rows = list(self.evaluated.tidy().rows)
        for one in self.scores:
            found, kept = one.values, one.values.queries - one.values.left_out
            head = one.shift, one.system, one.measure.name, one.group, one.figure
            low, high = found.interval or (None, None)
            rows += [
                FigureRow(*head, found.kept, queries=kept, label="not leaked"),
                FigureRow(
                    *head,
                    found.difference,
                    low,
                    high,
                    found.p,
                    found.queries,
                    label="all minus not leaked",
                ),
            ]
        return LongTable(rows, (*FIGURE_COLUMNS, "label"))

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation's JSON, with what leaked and the differences as ``leakage``."""
        return self.evaluated.to_json() | {
            "leakage": {
                "source": self.source,
                "test_queries": sorted(self.leaked),
                "scores": [
                    {
                        "shift": one.shift,
                        "system": one.system,
                        "measure": one.measure.name,
                        "group": one.group,
                        "figure": one.figure,
                        **plain(one.values),
                    }
                    for one in self.scores
                ],
            }
        }


def _table(scores: Sequence[LeakedScore], level: str) -> Table:
    first = scores[0]
    groups = list(dict.fromkeys(one.group for one in scores))
    by_figure: dict[tuple[str, str], dict[str, LeakedScore]] = {}
    for one in scores:
        by_figure.setdefault((one.system, one.figure), {})[one.group] = one
    rows: list[tuple[str, ...]] = []
    named = ""
    for (system, figure), found in by_figure.items():
        shown = [_shown(found[group]) if group in found else ("-",) * 4 for group in groups]
        title = _TITLES[figure]
        lines = (title or "all", "not leaked", "difference", f"{level} interval")
        for line, values in zip(lines, zip(*shown, strict=True), strict=True):
            rows.append((system if system != named else "", line, *values))
            named = system
    title = f"With and without leaked test queries, {first.measure.mean_name}"
    if first.shift:
        title = f"{get_shift(first.shift).title} ({first.shift}): w{title[1:]}"
    if first.measure.percent:
        title += " x 100"
    return Table.plain(title, ("system" if first.shift else "run", "", *groups), rows, names=2)


def _shown(one: LeakedScore) -> tuple[str, str, str, str]:
    found = one.values
    if one.figure == "rel_loss":
        show, interval = show_percent, show_percent_interval(found.interval)
    else:
        show = one.measure.show
        interval = "-" if found.interval is None else _ends(one.measure, found.interval)
    return show(found.everything), show(found.kept), show(found.difference), interval


def _ends(measure: Measure, ends: tuple[float, float]) -> str:
    low, high = map(measure.show, ends)
    return f"[{low}, {high}]"


def leakage_effect(
    evaluated: Report | EvaluatedRuns,
    found: str | Path,
    data: Dataset | str | Path | None = DATASET_NAME,
) -> LeakageEffect:
    """Compute every score again without the test queries that leaked into training queries.

    Args:
        evaluated: what `evaluate_run_sets` or `evaluate_runs` returned.
        found: what `find_leakage` wrote, the folder or its ``candidates.parquet``.
        data: the data set that was evaluated on; `None` for runs that were scored on qrels.

    Returns:
        Every mean, Avg In, Out and Rel Loss, with and without the queries, and the difference with
        its interval. A sum has none.

    Raises:
        NotFoundError: if there is no such file or data set.
        CollectionError: if the file holds no candidates.
        DataError: if it was made for other test queries, or every query of a group leaked.
    """
    texts = {one.test_id: one.test_text for one in read_candidates(found)}
    if isinstance(evaluated, Report):
        _check_texts(texts, _test_texts(open_dataset(data or DATASET_NAME)), found)
        scores = [
            one for result in evaluated.systems for one in _of_system(result, texts, evaluated)
        ]
    else:
        known: Mapping[str, str]
        if data is None:
            known = dict.fromkeys(evaluated.test_set.judgements.query_ids, "")
        else:
            known = _test_texts(open_dataset(data))
        _check_texts(texts, known, found)
        scores = list(_of_runs(evaluated, texts))
    return LeakageEffect(evaluated, str(found), frozenset(texts), scores)


def _test_texts(dataset: Dataset) -> dict[str, str]:
    """Return query_id -> text of all test queries; "" in a data set of ids only."""
    return {
        row.query_id: row.text or ""
        for name in dataset.manifest.shifts
        for rows in dataset.test_sets(get_shift(name)).values()
        for row in rows
    }


def _check_texts(leaked: Mapping[str, str], known: Mapping[str, str], found: str | Path) -> None:
    """Check that test queries that leaked are those that are scored."""
    strangers = [test_id for test_id in leaked if test_id not in known]
    other = [
        test_id for test_id, text in leaked.items() if known.get(test_id) and known[test_id] != text
    ]
    for wrong, why in (
        (strangers, "are not among those that are scored"),
        (other, "have other texts than those that are scored"),
    ):
        if wrong:
            shown = ", ".join(wrong[:3]) + (", ..." if len(wrong) > 3 else "")
            raise DataError(
                f"{found} was made for other test queries: {len(wrong)} of the {len(leaked)} that "
                f"it says leaked {why} ({shown}); search the data set's with 'msshift leakage find'"
            )


def _of_system(
    result: SystemResult, leaked: Iterable[str], report: Report
) -> Iterator[LeakedScore]:
    scores, settings = result.scores, report.settings
    counted = scores.counted(settings.missing)
    gone = np.isin(np.array(scores.query_ids), sorted(leaked))
    for name, of_measure in result.measures.items():
        by_group = of_measure.scores
        if not scores.trained_per_group:
            by_group = scores.untrained_scores(name, counted)
        if not by_group:
            continue
        kept = {group: ~gone[counted[group]] for group in by_group}
        for group, mask in kept.items():
            if not mask.any():
                raise DataError(
                    f"every test query of {scores.shift.name}-{group} leaked; no score is left"
                )
        changes = kept_differences(
            by_group,
            kept,
            settings.confidence,
            average=of_measure.average,
            higher_is_better=of_measure.measure.higher_is_better,
        )
        for figure in dict.fromkeys(figure for one in changes.values() for figure in one):
            for group, figures in changes.items():
                if figure in figures:
                    values = figures[figure]
                    head = scores.shift.name, result.system, of_measure.measure
                    yield LeakedScore(*head, group, figure, values)


def _of_runs(evaluated: EvaluatedRuns, leaked: Iterable[str]) -> Iterator[LeakedScore]:
    test_set, settings = evaluated.test_set, evaluated.settings
    gone = np.isin(np.array(test_set.judgements.query_ids), sorted(leaked))
    for result in evaluated.runs:
        for measure in settings.measures:
            if measure.aggregate == "sum":
                continue
            values = result.run.scores[measure.name][result.counted]
            valued = ~np.isnan(values)
            kept = ~gone[result.counted][valued]
            if not kept.any():
                raise DataError(f"every test query of {test_set.name} leaked; no score is left")
            changes = kept_differences(
                {test_set.name: GroupScores.untrained(values[valued])},
                {test_set.name: kept},
                settings.confidence,
            )
            name = result.run.report.name
            (found,) = changes[test_set.name].values()
            yield LeakedScore("", name, measure, test_set.name, "mean", found)
