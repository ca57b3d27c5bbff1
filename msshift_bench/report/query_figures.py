"""The most hurt and the most helped queries: their texts, and where every model ranked them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten as cut
from textwrap import wrap

import numpy as np

from msshift_bench.evaluation import Measure, SystemResult
from msshift_bench.output import LINE, PALE_INK, Look
from msshift_bench.report.link_inputs import NearestQuery
from msshift_bench.report.report_figure import (
    Drawn,
    LeftOut,
    ReportFigure,
    Value,
    blank_figure,
    figure_name,
)

__all__ = ["NO_TEXT", "RANK_MEASURE", "ChangedQuery", "changed_queries", "draw_changed_queries"]

RANK_MEASURE = "RR"
"""The measure whose inverse is the rank of the first relevant passage."""

NO_TEXT = "(no text)"

_LETTERS = 44
_NOT_FOUND = 2.0
"""How far right of the greatest rank a query stands that was not found, as a factor."""


@dataclass(frozen=True, slots=True)
class ChangedQuery:
    """A test query, and what holding its group out changed for it.

    Attributes:
        query_id: the query.
        text: its text; "" if the data set holds none.
        group: its group.
        inside: its mean score over the models that saw the group.
        out: its mean score under those that did not.
        ranks: (held-out group, seed) -> the rank of its first relevant passage; `None` if the run
            does not hold one.
        nearest: its nearest training query of those that the models without its group were trained
            on; `None` if that is not known.
        new_to: the held-out group of the model that did not see its group.
    """

    query_id: str
    text: str
    group: str
    inside: float
    out: float
    ranks: Mapping[tuple[str, int | None], float | None] = field(default_factory=dict)
    nearest: NearestQuery | None = None
    new_to: str = ""

    def ranks_of(self, *, held_out: bool) -> list[float | None]:
        """Return the ranks under the models that did not see the group, or those that did."""
        return [
            rank for (model, _), rank in self.ranks.items() if (model == self.new_to) == held_out
        ]


def changed_queries(
    result: SystemResult,
    measure: Measure,
    texts: Mapping[str, str],
    missing: str,
    nearest: Mapping[str, NearestQuery],
) -> list[ChangedQuery]:
    """Return every test query of a system with a loss, the most hurt first.

    Equal changes of the score are in the order of the change of the rank, then of the ids.

    Args:
        result: the system, scored by `RANK_MEASURE` as well.
        measure: the measure.
        texts: query_id -> text.
        missing: the policy for missing queries.
        nearest: query_id -> its nearest training query.
    """
    found = result.measures[measure.name]
    sign = 1 if measure.higher_is_better else -1
    queries = []
    for group, positions in result.scores.counted(missing).items():
        if group not in found.scores:
            continue
        scores = found.scores[group]
        inside, out = scores.inside.mean(axis=(0, 1)), scores.out.mean(axis=0)
        for place, position in enumerate(positions):
            ranks = {
                (run.held_out, run.seed): _rank(float(run.scores[RANK_MEASURE][position]))
                for run in result.scores.runs
                if run.held_out is not None
            }
            query_id = result.scores.query_ids[position]
            queries.append(
                ChangedQuery(
                    query_id,
                    texts.get(query_id, ""),
                    group,
                    float(inside[place]),
                    float(out[place]),
                    ranks,
                    nearest.get(query_id),
                    result.shift.unseen_by(group),
                )
            )
    return sorted(
        queries, key=lambda one: (-sign * (one.inside - one.out), -_change(one), one.query_id)
    )


def _rank(reciprocal: float) -> float | None:
    return round(1 / reciprocal, 1) if reciprocal else None


def _change(query: ChangedQuery) -> float:
    """Return the change of the rank, as a logarithm; positive if the rank got worse."""
    inside, out = (
        float(np.median([math.log(rank or 10_000) for rank in query.ranks_of(held_out=held_out)]))
        for held_out in (False, True)
    )
    return out - inside


def draw_changed_queries(
    result: SystemResult, queries: Sequence[ChangedQuery], measure: Measure, look: Look, most: int
) -> Drawn:
    """Draw the ranks of the most hurt queries and of the most helped ones.

    Args:
        result: the system.
        queries: all its test queries, as `changed_queries` orders them.
        measure: the measure that orders them.
        look: how the system is drawn.
        most: of each kind.
    """
    shift = result.shift
    title = f"{shift.title}: queries that {result.system} loses and wins"
    sign = 1 if measure.higher_is_better else -1
    hurt = [one for one in queries if sign * (one.inside - one.out) > 0]
    helped = [one for one in queries if sign * (one.inside - one.out) < 0]
    shown = [*hurt[:most], *helped[::-1][:most]]
    if not shown:
        return LeftOut(
            title,
            f"no query's {measure.name} differs between the models that saw its group and those "
            "that did not",
            "a measure that reaches deeper, e.g. `--measures RR@1000`",
        )
    ranks = [rank for one in shown for rank in one.ranks.values() if rank is not None]
    beyond = max([10.0, *ranks]) * _NOT_FOUND
    figure = blank_figure(0.85 + 0.31 * len(shown))
    ax = figure.subplots()
    split = len(hurt[:most])
    for row, one in enumerate(shown):
        inside, out = (
            [rank or beyond for rank in one.ranks_of(held_out=held_out)]
            for held_out in (False, True)
        )
        ax.plot([min(inside + out), max(inside + out)], [row, row], color=LINE, lw=1, zorder=1)
        ax.plot(inside, [row] * len(inside), "|", color=PALE_INK, ms=8, mew=1.1, ls="")
        ax.plot(out, [row] * len(out), look.marker, color=look.colour, ms=5, ls="")
    if 0 < split < len(shown):
        ax.axhline(split - 0.5, color=PALE_INK, lw=0.8)
    ax.set_xscale("log")
    ax.set_xlim(0.85, beyond * 1.25)
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000) if tick * 3 < beyond]
    ax.set_xticks([*ticks, beyond], [*(f"{tick:,}" for tick in ticks), "not found"])
    ax.minorticks_off()
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_yticks([])
    for row, one in enumerate(shown):
        lines = _label(one)
        for number, line in enumerate(lines):
            at = row + (number - (len(lines) - 1) / 2) * 0.38
            ax.text(
                -0.02,
                at,
                line,
                ha="right",
                va="center",
                fontsize=7,
                transform=ax.get_yaxis_transform(),
            )
    ax.set_xlabel("rank of the first relevant passage")
    ax.plot([], [], look.marker, color=look.colour, ls="", label="model that never saw its group")
    ax.plot([], [], "|", color=PALE_INK, ms=8, mew=1.1, ls="", label="models that did")
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    same = len(queries) - len(hurt) - len(helped)
    kinds = [*["hurt"] * split, *["helped"] * (len(shown) - split)]
    rows: list[list[Value]] = [
        [
            shift.name,
            result.system,
            kind,
            one.query_id,
            one.text,
            one.group,
            held_out,
            seed,
            rank,
            one.inside,
            one.out,
            *((None, None) if one.nearest is None else (one.nearest.text, one.nearest.cosine)),
        ]
        for kind, one in zip(kinds, shown, strict=True)
        for (held_out, seed), rank in one.ranks.items()
    ]
    return ReportFigure(
        figure_name("queries", shift.name, result.system),
        title,
        f"Above, the queries whose {measure.name} falls most where their group was held out; below "
        f"the line, those whose {measure.name} rises most. Of {len(queries):,} test queries "
        f"{len(hurt):,} are hurt, {len(helped):,} helped, {same:,} unchanged. These are the "
        "extremes among many, so part of what they show is chance. The table of numbers has every "
        "rank, and each query's nearest training query by term vectors.",
        _alternative(shown, kinds),
        (
            "shift",
            "system",
            "kind",
            "query_id",
            "text",
            "group",
            "held_out",
            "seed",
            "rank",
            f"{measure.name}_avg_in",
            f"{measure.name}_out",
            "nearest_training_query",
            "cosine_with_it",
        ),
        rows,
        figure,
    )


def _label(query: ChangedQuery) -> list[str]:
    """Return a query's text in two lines at most, with its group."""
    text = query.text or f"{query.query_id} {NO_TEXT}"
    lines = wrap(f"{query.group}: {text}", _LETTERS) or [query.query_id]
    if len(lines) > 2:
        lines = [lines[0], cut(" ".join(lines[1:]), _LETTERS, placeholder="…")]
    return lines


def _alternative(shown: Sequence[ChangedQuery], kinds: Sequence[str]) -> str:
    def said(ranks: Sequence[float | None]) -> str:
        return ", ".join("not found" if rank is None else f"{rank:g}" for rank in ranks)

    parts = [
        f"{kind}: {query.text or query.query_id} ({query.group}), rank "
        f"{said(query.ranks_of(held_out=True))} without its group, "
        f"{said(query.ranks_of(held_out=False))} with it"
        + ("" if query.nearest is None else f", nearest training query: {query.nearest.text}")
        for query, kind in zip(shown, kinds, strict=True)
    ]
    return f"Ranks on a logarithmic axis, one row per query. {'; '.join(parts)}."
