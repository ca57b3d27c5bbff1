"""What an evaluation found as one long table: each number with its names and its certainty."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from msshift_bench.evaluation.evaluator import Evaluator
from msshift_bench.evaluation.parsing import parse_measure
from msshift_bench.evaluation.settings import Settings
from msshift_bench.evaluation.system_scores import SystemScores
from msshift_bench.output import show_percent
from msshift_bench.stats import QUERIES_ONLY, GroupLoss, OverallLoss, ShiftLoss

__all__ = ["MEAN", "Figure", "figures_of"]

MEAN = "mean"
"""The group of an average over groups; of the one test set, if a shift has one."""

_PERCENT = ("rel_loss", "sd_of_seeds")
_PLAIN = ("effect_size", "missing")


class Figure(NamedTuple):
    """One number of a system.

    Attributes:
        shift: the shift.
        measure: the measure, e.g. ``"RR@10"``.
        group: the group whose test queries it is of, or `MEAN`.
        figure: ``out``, ``avg_in``, ``loss`` or ``rel_loss``; ``without C0``, the mean of one
            model; ``effect_size`` (Cohen's d_z over queries), ``sd_of_seeds`` (of Rel Loss) or
            ``missing`` (queries that run files lack, over all models).
        value: the number; means are on the scale of the measure, Rel Loss is a fraction.
        low: the lower end of its interval; `None` without one.
        high: the upper end.
        p: the corrected p of a group's Rel Loss; `None` if it has no test.
        significant: whether it is a significant loss; see `OverallLoss.is_significant`.
        seeds: the number of replicates; 0 if it is not known.
        queries: the number of queries; 0 if it is not known, or an average over groups.
    """

    shift: str
    measure: str
    group: str
    figure: str
    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    significant: bool = False
    seeds: int = 0
    queries: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Its names: shift, measure, group and figure."""
        return self[:4]

    @property
    def text(self) -> str:
        """The number as tables print it."""
        return self._show(self.value)

    @property
    def interval(self) -> str:
        """Both ends likewise, and whether they count queries only; "" without an interval."""
        if self.low is None or self.high is None:
            return ""
        ends = f"[{self._show(self.low)}, {self._show(self.high)}]".replace("%", "")
        return f"{ends} {QUERIES_ONLY}" if self.seeds == 1 else ends

    def _show(self, value: float) -> str:
        if self.figure in _PERCENT:
            return show_percent(value)
        if self.figure in _PLAIN:
            return f"{value:,.2f}".removesuffix(".00")
        return parse_measure(self.measure).show(value)


def figures_of(scores: SystemScores, settings: Settings) -> Iterator[Figure]:
    """Yield every figure of a system on a shift, measure by measure.

    A system that was not trained per group has its scores under ``out``, and no loss.

    Args:
        scores: its per-query scores.
        settings: measures, policies and statistics.

    Raises:
        DataError: if no query of a group is left to count.
    """
    shift = scores.shift
    evaluator = Evaluator(shift, dict.fromkeys(shift.tested, ()), settings)
    for measure, of_measure in evaluator.summarise(scores).measures.items():
        figure, losses = partial(Figure, shift.name, measure), of_measure.loss
        seeds = losses.seeds if losses else 1
        queries = {cell.group: cell.queries for cell in of_measure.cells}
        for group in queries:
            missing = sum(cell.missing for cell in of_measure.cells if cell.group == group)
            yield figure(group, "missing", missing)
            for model in (None, *shift.groups):
                name = "out" if model is None else shift.training_of(model)
                if (mean := of_measure.mean(group, model)) is not None:
                    yield figure(group, name, mean, seeds=seeds, queries=queries[group])
        if (average := of_measure.mean_of_groups()) is not None:
            yield figure(MEAN, "out", average, seeds=seeds)
        if losses is None:
            continue
        parts: dict[str, GroupLoss | OverallLoss] = {**losses.groups, MEAN: losses}
        for group, loss in parts.items():
            count = queries.get(group, 0)
            for name in ("out", "avg_in", "loss", "rel_loss"):
                low, high = getattr(loss.intervals, name, None) or (None, None)
                p, star = _test(losses, group, name)
                if (value := getattr(loss, name)) is not None:
                    yield figure(group, name, value, low, high, p, star, seeds, count)
            if loss.spread is not None and loss.spread.rel_loss is not None:
                yield figure(group, "sd_of_seeds", loss.spread.rel_loss)
            if isinstance(loss, GroupLoss) and loss.tests.d_z is not None:
                yield figure(group, "effect_size", loss.tests.d_z)


def _test(losses: ShiftLoss, group: str, name: str) -> tuple[float | None, bool]:
    """Return the corrected p of a figure, and whether it has a star."""
    if name != "rel_loss" or losses.seeds < 2:
        return None, False
    return losses.adjusted_p.get(group), losses.is_significant(group)
