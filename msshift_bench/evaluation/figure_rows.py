"""Every figure of an evaluation as a row of one long table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msshift_bench.evaluation.evaluator import MeasureResult, SystemResult
from msshift_bench.output import FigureRow
from msshift_bench.stats import GroupLoss, ShiftLoss

__all__ = ["figure_rows"]

_FIGURES = ("avg_in", "out", "loss", "rel_loss")


def figure_rows(results: Iterable[SystemResult], label: str = "") -> Iterator[FigureRow]:
    """Yield the figures of systems: on every group, then on the whole shift.

    Args:
        results: the systems' results.
        label: the label of the queries that they are restricted to.
    """
    for result in results:
        for found in result.measures.values():
            if found.loss is not None:
                yield from _losses(result, found, found.loss, label)
            elif not result.scores.trained_per_group:
                yield from _scores(result, found, label)


def _whole(found: MeasureResult) -> str:
    return "all queries" if found.average == "pooled" else "mean"


def _losses(
    result: SystemResult, found: MeasureResult, loss: ShiftLoss, label: str
) -> Iterator[FigureRow]:
    everything = sum(one.queries for one in loss.groups.values())
    parts: list[tuple[str, GroupLoss | ShiftLoss, float | None, int]] = [
        *((g, one, loss.adjusted_p.get(g), one.queries) for g, one in loss.groups.items()),
        (_whole(found), loss, loss.p, everything),
    ]
    for group, one, p_value, queries in parts:
        for figure in _FIGURES:
            low, high = getattr(one.intervals, figure, None) or (None, None)
            yield FigureRow(
                result.shift.name,
                result.system,
                found.measure.name,
                group,
                figure,
                getattr(one, figure),
                low,
                high,
                p_value if figure == "rel_loss" else None,
                queries,
                loss.seeds,
                label=label,
            )


def _scores(result: SystemResult, found: MeasureResult, label: str) -> Iterator[FigureRow]:
    queries = {cell.group: cell.queries for cell in found.cells}
    means: Mapping[str, float | None] = {
        **{group: found.mean(group) for group in queries},
        _whole(found): found.mean_of_groups(),
    }
    for group, mean in means.items():
        yield FigureRow(
            result.shift.name,
            result.system,
            found.measure.name,
            group,
            "score",
            mean,
            queries=queries.get(group, sum(queries.values())),
            label=label,
        )
