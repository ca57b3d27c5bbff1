"""The result of a leakage experiment, as tables and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from msshift_bench.leakage.leak_effects import (
    EXPERIMENT_MEASURES,
    Effectiveness,
    SizeEffect,
)
from msshift_bench.leakage.memorisation import Memorised
from msshift_bench.leakage.training_sets import KINDS_OF_LEAKAGE
from msshift_bench.output import (
    FIGURE_COLUMNS,
    FigureRow,
    LongTable,
    Table,
    TableCell,
    WithFigures,
    plain,
    report_head,
    show_p,
)
from msshift_bench.stats import Interval

__all__ = ["LeakageExperiment"]


_LEAKING = "leaking topics"


@dataclass(frozen=True, slots=True, repr=False)
class LeakageExperiment(WithFigures):
    """What models learnt from leakage.

    Attributes:
        facts: what was trained on what; JSON values.
        effectiveness: a figure per measure, system and kind of leakage.
        by_size: nDCG@10 at each size.
        swaps: (measure, kind, system, overtaken).
        memorised: what became of the leaked passages.
    """

    facts: Mapping[str, Any]
    effectiveness: Sequence[Effectiveness]
    by_size: Sequence[SizeEffect]
    swaps: Sequence[tuple[str, str, str, str]]
    memorised: Sequence[Memorised]

    def __repr__(self) -> str:
        systems = ", ".join(dict.fromkeys(one.system for one in self.effectiveness))
        return f"<LeakageExperiment: {systems}>"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return warnings: none, since what does not fit together is refused."""
        return ()

    def tidy(self) -> LongTable:
        """Return every figure as a row of one long table.

        The column `group` says which topics count, and `label` the kind of leakage, with the size
        of the training set where it was not chosen by fold.
        """
        return LongTable(list(self._rows()), (*FIGURE_COLUMNS, "label"))

    def _rows(self) -> Iterator[FigureRow]:
        topics, seeds = self.facts["topics"], len(self.facts["seeds"])

        def row(
            system: str,
            name: str,
            value: float,
            label: str,
            *,
            measure: str = "",
            group: str = _LEAKING,
            test: tuple[Interval | None, float | None] = (None, None),
            queries: int | None = None,
        ) -> FigureRow:
            interval, p = test
            return FigureRow(
                *("", system, measure, group, name, value, *_ends(interval), p, queries, seeds),
                label=label,
            )

        for figure in self.effectiveness:
            whole = partial(
                row,
                figure.system,
                label=figure.kind,
                measure=figure.measure,
                group="all topics",
                queries=topics,
            )
            yield whole("score", figure.value)
            if figure.difference is not None:
                test = figure.interval, figure.p
                yield whole("difference", figure.difference, test=test)
        measure = EXPERIMENT_MEASURES[0]
        for effect in self.by_size:
            none, *others = (f"{kind}, {effect.size} instances" for kind in KINDS_OF_LEAKAGE)
            yield row(effect.system, "score", effect.none, none, measure=measure)
            for label, (value, interval) in zip(others, (effect.leaked, effect.test), strict=True):
                test = interval, None
                yield row(effect.system, "difference", value, label, measure=measure, test=test)
        for memory in self.memorised:
            sizes = " and ".join(map(str, memory.sizes))
            system, label = memory.system, f"{memory.kind}, {sizes} instances"
            found = partial(row, system, label=label, queries=memory.topics)
            for name, (given, _, without, _) in (("rank", memory.rank), ("score", memory.score)):
                yield found(f"{name}_with", given)
                yield found(f"{name}_without", without)
            yield found("rank_offset", memory.offset, test=(memory.interval, None))

    def tables(self) -> list[Table]:
        """Return the tables: effectiveness by measure, then by size, and what was memorised."""
        return [*map(self._measure, EXPERIMENT_MEASURES), self._sizes(), self._memory()]

    def _measure(self, measure: str) -> Table:
        rows: dict[str, list[TableCell]] = {}
        for one in self.effectiveness:
            if one.measure != measure:
                continue
            row = rows.setdefault(one.system, [TableCell(one.system)])
            row.append(TableCell(f"{one.value:.3f}", significant=one.is_significant))
            if one.difference is not None:
                row.append(TableCell(_with_ends(one.difference, one.interval, 3)))
                row.append(TableCell("" if one.p is None else show_p(one.p)))
        header = ["system", "none"]
        for kind in KINDS_OF_LEAKAGE[1:]:
            header += [kind, "difference", "p (bonferroni)"]
        return Table(f"{measure}, five-fold", tuple(header), tuple(map(tuple, rows.values())))

    def _sizes(self) -> Table:
        header = ("system", "instances", "share leaked", "none", "leaked - none", "test - none")
        rows = [
            (
                one.system,
                f"{one.size:,}",
                f"{100 * one.share:.1f}%",
                f"{one.none:.3f}",
                *(_with_ends(*differences, 3) for differences in (one.leaked, one.test)),
            )
            for one in self.by_size
        ]
        return Table.plain("nDCG@10 by size, on the topics that leak", header, rows, 2)

    def _memory(self) -> Table:
        header = (
            "system", "leakage", "instances", "rank with", "rank without", "score with",
            "score without", "increase of rank offset",
        )  # fmt: skip
        rows = [
            (
                one.system,
                one.kind,
                "all" if len(one.sizes) > 1 else f"{one.sizes[0]:,}",
                *(_with_deviation(*part) for part in (one.rank[:2], one.rank[2:])),
                *(_with_deviation(*part) for part in (one.score[:2], one.score[2:])),
                _with_ends(one.offset, one.interval, 2),
            )
            for one in self.memorised
        ]
        return Table.plain("Leaked passages", header, rows, 3)

    def notes(self) -> list[str]:
        """Return what the figures rest on, for the lines below the tables."""
        facts = self.facts
        found = [
            f"{facts['topics']:,} test topics; {facts['leaked']:,} leaked instances in each set; "
            f"seeds {', '.join(map(str, facts['seeds']))}; epochs: {facts['epochs']}",
            f"leaked: {facts['leaking_pairs'] - facts['planted_pairs']:,} training queries with a "
            f"relevant passage each, and {facts['planted_pairs']:,} planted ones (a topic's words "
            "in another order)",
            f"test: of {facts['test_pairs']:,} pairs, {facts['judged_not_relevant']:,} have a "
            "passage that was judged not relevant; the others have one of BM25's first "
            f"{facts['depth']} that nobody judged relevant",
            f"models re-rank BM25's first {facts['depth']}; MFR counts {facts['depth'] + 1} where "
            "none of them is relevant",
            "difference: to none; intervals and rank offsets count other topics"
            + (" and other seeds" if len(facts["seeds"]) > 1 else " only: one seed")
            + "; p: Student's t-test on topics, corrected over the comparisons of a table; "
            "* at most 0.05",
            "ranks, scores: mean and deviation; a leaked passage that BM25 did not find has the "
            "rank that its score would give it",
        ]
        swaps = [
            f"{measure}: {system} with {kind} overtakes {other} without"
            for measure, kind, system, other in self.swaps
        ]
        return [*found, *(swaps or ["no leakage changes the order of two systems"])]

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {
            **report_head(),
            **plain(self.facts),
            "effectiveness": [plain(one) for one in self.effectiveness],
            "by_size": [plain(one) for one in self.by_size],
            "swaps": [
                dict(zip(("measure", "kind", "system", "overtakes"), one, strict=True))
                for one in self.swaps
            ],
            "memorised": [plain(one) for one in self.memorised],
        }


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _with_ends(value: float, interval: Interval | None, digits: int) -> str:
    ends = "" if interval is None else f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return f"{value:.{digits}f}{ends}"


def _with_deviation(mean: float, deviation: float) -> str:
    return f"{mean:.2f} ± {deviation:.2f}"
