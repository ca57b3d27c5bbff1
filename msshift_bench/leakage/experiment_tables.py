"""The result of a leakage experiment, as tables and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msshift_bench.leakage.leak_effects import (
    EXPERIMENT_MEASURES,
    Effectiveness,
    SizeEffect,
)
from msshift_bench.leakage.memorisation import Memorised
from msshift_bench.leakage.training_sets import KINDS_OF_LEAKAGE
from msshift_bench.output import Table, TableCell, plain, report_head
from msshift_bench.stats import Interval

__all__ = ["LeakageExperiment"]


@dataclass(frozen=True, slots=True, repr=False)
class LeakageExperiment:
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
                row.append(TableCell("" if one.p is None else f"{one.p:.3f}"))
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
            + "; p: Student's t-test on topics",
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


def _with_ends(value: float, interval: Interval | None, digits: int) -> str:
    ends = "" if interval is None else f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return f"{value:.{digits}f}{ends}"


def _with_deviation(mean: float, deviation: float) -> str:
    return f"{mean:.2f} ± {deviation:.2f}"
