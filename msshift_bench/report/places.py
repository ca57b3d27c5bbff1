"""Where it is lost, on which slices and which queries most, and how sure that is.

What other seeds and other queries would change says how sure it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from textwrap import shorten as cut, wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msshift_bench.data import read_labels
from msshift_bench.evaluation import (
    ALL_QUERIES,
    FEWEST_IN_SLICE,
    WHOLE,
    Scores,
    loss_claims,
    slice_scores,
)
from msshift_bench.output import LINE, PALE_INK, Look, show_percent
from msshift_bench.report.drawing import (
    ABOVE,
    NotDrawn,
    Picture,
    blank_axes,
    draw_losses,
    draw_points,
    file_name,
    group_rows,
    in_rows,
    name_rows,
    rule_between,
    say_sizes,
    say_system,
    spread,
)
from msshift_bench.report.inputs import RANK_MEASURE, Inputs, NearestQuery, why_no_loss
from msshift_bench.shifts import SHIFTS, Shift
from msshift_bench.stats import Figure, Figures, infer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_MOST_QUERIES = 6
"""Hurt queries in a picture, and helped ones."""

_LETTERS = 44
"""Of a line of a query's text."""

_NOT_FOUND = 2.0
"""How far right of the greatest rank a query stands that was not found, as a factor."""


def place_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw losses by slice, then the queries that change most, shift by shift."""
    for shift, scores in inputs.shifts:
        yield _slices(inputs, shift, [part for part in scores if part.trained_per_group])
    for shift, scores in inputs.shifts:
        with_loss = inputs.figures(shift, "rel_loss").names("system")
        for part in scores:
            if part.system in with_loss:
                yield _changed_queries(inputs, shift, part)


def _slices(inputs: Inputs, shift: Shift, trained: Sequence[Scores]) -> Picture | NotDrawn:
    """Draw what every system loses on the queries of each slice."""
    title = f"{shift.title}: losses by slice"
    losses = _slice_losses(inputs, shift, trained)
    if not losses:
        return NotDrawn(
            title,
            f"no slice of {FEWEST_IN_SLICE} test queries or more has a loss",
            why_no_loss(trained)[1],
        )
    by = [name.split(": ")[0] for name in losses.names("slice")]
    rows = {row.slice: f"{row.slice.split(': ')[1]} (n = {row.queries:,})" for row in losses}
    systems = len(losses.names("system"))
    drawing, ax = blank_axes(0.6 + len(rows) * (0.13 * systems + 0.1) + 0.17 * systems)
    draw_losses(ax, losses, inputs.looks, rows, "slice")
    rule_between(ax, by)
    ax.set_xlabel("Rel Loss (%), all held-out groups together")
    worst = max(losses, key=lambda row: row.number)
    titles = ", then ".join(dict.fromkeys(by))
    return Picture(
        f"slices-{shift.name}",
        title,
        f"Rel Loss in {inputs.measure.mean_name} on the test queries of each slice, by {titles}; "
        "every query counts alike, with the model that never saw its group as Out. n is the number "
        f"of test queries; slices of fewer than {FEWEST_IN_SLICE} are left out. Lines are "
        "intervals, cut where they reach far; white markers rest on one seed.",
        f"Dots with intervals, a row per slice, by {titles}. The greatest loss is "
        f"{show_percent(worst.value)}, of {worst.system} on {worst.slice.split(': ')[1]} "
        f"({worst.queries:,} queries).",
        losses,
        drawing,
    )


def _slice_losses(inputs: Inputs, shift: Shift, trained: Sequence[Scores]) -> Figures:
    """Return the losses on slices, all groups of a slice pooled."""
    shifts = inputs.dataset.manifest.shifts
    crossed = [name for name in shifts if name != shift.name and name in SHIFTS]
    labels = {
        name: read_labels(name, inputs.dataset) for name in crossed if not SHIFTS[name].by_size
    }
    missing = inputs.settings.missing
    slices: list[tuple[int, str, Scores]] = []
    for part in trained:
        parts: dict[str, Mapping[str, Scores]] = {
            "all queries": {"all": part},
            f"held-out group ({shift.name})": {
                group: part.restricted_to(part.ids_of(group)) for group in part.groups
            },
            **{
                SHIFTS[name].title.lower(): slice_scores(part, of_queries, missing)
                for name, of_queries in labels.items()
            },
        }
        slices += [
            (place, f"{by}: {label}", scores)
            for place, (by, scores_of) in enumerate(parts.items())
            for label, scores in scores_of.items()
        ]
    slices.sort(key=itemgetter(0))  # systems stand beside each other
    claims = [
        claim._replace(family=())
        for _, name, scores in slices
        for claim in loss_claims(scores, inputs.measure, scores.counted(missing), "pooled", name)
        if (claim.figure.figure, claim.figure.group) == ("rel_loss", ALL_QUERIES)
        and (claim.figure.queries or 0) >= FEWEST_IN_SLICE
        and claim.estimate is not None
    ]
    return infer(claims, inputs.settings)


class _Query(NamedTuple):
    """A test query, and what holding its group out changed for it.

    Attributes:
        query_id: the query.
        text: its text; "" if the data set holds none.
        group: its group.
        inside: its mean score over the models that saw the group.
        out: its mean score under those that did not.
        ranks: (held-out group, seed) -> the rank of its first relevant passage; `None` if the run
            does not hold one.
        seen: those of the models that saw its group.
        unseen: those of the models that did not.
        nearest: its nearest training query, and their cosine, where they are known.
    """

    query_id: str
    text: str
    group: str
    inside: float
    out: float
    ranks: Mapping[tuple[str, int | None], float | None]
    seen: Sequence[float | None]
    unseen: Sequence[float | None]
    nearest: NearestQuery | tuple[None, None]

    def rank_change(self) -> float:
        """Return the change of the rank, as a logarithm; positive if the rank got worse."""
        inside, out = (
            np.median([math.log(rank or 10_000) for rank in ranks])
            for ranks in (self.seen, self.unseen)
        )
        return float(out - inside)

    def label(self) -> str:
        """Return the text in two lines at most, with the group."""
        text = self.text or f"{self.query_id} (no text)"
        first, *rest = wrap(f"{self.group}: {text}", _LETTERS)
        second = cut(" ".join(rest), _LETTERS, placeholder="…")
        return f"{first}\n{second}".strip()

    def in_words(self) -> str:
        """Return the text and the ranks."""
        out, inside = (
            ", ".join("not found" if rank is None else f"{rank:g}" for rank in ranks)
            for ranks in (self.unseen, self.seen)
        )
        nearest = "" if self.nearest[0] is None else f", nearest training query: {self.nearest[0]}"
        return (
            f"{self.text or self.query_id} ({self.group}), rank {out} without its group, {inside} "
            f"with it{nearest}"
        )


def _queries_by_change(inputs: Inputs, shift: Shift, scores: Scores) -> list[_Query]:
    """Return every test query of a group with a loss, the most hurt first.

    Equal changes of the score are in the order of the change of the rank, then of the ids.
    """
    measure, nearest = inputs.measure, inputs.nearest.get(shift.name, {})
    test_sets = inputs.dataset.test_sets(shift).values()
    texts = {row.query_id: row.text or "" for rows in test_sets for row in rows}
    queries = []
    for group, positions in scores.counted(inputs.settings.missing).items():
        sides = scores.sides(measure.name, group, positions)
        models = scores.models_by_side(group)
        if sides is None or models is None:
            continue
        inside, out = (side.mean(axis=0).tolist() for side in sides[:2])
        for place, position in enumerate(positions):
            query_id = scores.query_ids[position]
            reciprocals = {
                model: float(run.scores[RANK_MEASURE][position])
                for model, run in scores.runs.items()
            }
            ranks = {model: round(1 / r, 1) if r else None for model, r in reciprocals.items()}
            out_of = {model for model in ranks if model[0] in models.out}
            queries.append(
                _Query(
                    query_id,
                    texts[query_id],
                    group,
                    inside[place],
                    out[place],
                    ranks,
                    [rank for model, rank in ranks.items() if model not in out_of],
                    [ranks[model] for model in ranks if model in out_of],
                    nearest.get(query_id, (None, None)),
                )
            )
    return sorted(
        queries,
        key=lambda row: (-measure.sign * (row.inside - row.out), -row.rank_change(), row.query_id),
    )


def _changed_queries(inputs: Inputs, shift: Shift, scores: Scores) -> Picture | NotDrawn:
    """Draw the ranks of the most hurt queries and of the most helped ones."""
    measure, system = inputs.measure, scores.system
    title = f"{shift.title}: queries that {system} loses and wins"
    queries = _queries_by_change(inputs, shift, scores)
    hurt = [row for row in queries if measure.sign * (row.inside - row.out) > 0]
    helped = [row for row in queries if measure.sign * (row.inside - row.out) < 0]
    shown = [("hurt", row) for row in hurt[:_MOST_QUERIES]]
    shown += [("helped", row) for row in helped[::-1][:_MOST_QUERIES]]
    if not shown:
        return NotDrawn(
            title,
            f"no query's {measure.name} differs between the models that saw its group and those "
            "that did not",
            "a measure that reaches deeper, e.g. `--measures RR@1000`",
        )
    same = len(queries) - len(hurt) - len(helped)
    in_words = "; ".join(f"{kind}: {row.in_words()}" for kind, row in shown)
    return Picture(
        file_name("queries", shift.name, system),
        title,
        f"Above, the queries whose {measure.name} falls most where their group was held out; below "
        f"the line, those whose {measure.name} rises most. Of {len(queries):,} test queries "
        f"{len(hurt):,} are hurt, {len(helped):,} helped, {same:,} unchanged. These are the "
        "extremes among many, so part of what they show is chance. The table of numbers has every "
        "rank, and each query's nearest training query by term vectors.",
        f"Ranks on a logarithmic axis, one row per query. {in_words}.",
        [
            (
                shift.name, system, kind, row.query_id, row.text, row.group, held_out, seed, rank,
                row.inside, row.out, *row.nearest,
            )
            for kind, row in shown
            for (held_out, seed), rank in row.ranks.items()
        ],
        _draw_ranks(inputs.looks[system], shown),
        (
            "shift", "system", "kind", "query_id", "text", "group", "held_out", "seed", "rank",
            f"{measure.name}_avg_in", f"{measure.name}_out", "nearest_training_query",
            "cosine_with_it",
        ),
    )  # fmt: skip


def _draw_ranks(look: Look, shown: Sequence[tuple[str, _Query]]) -> Drawing:
    ranks = [rank for _, row in shown for rank in row.ranks.values() if rank is not None]
    beyond = max([10.0, *ranks]) * _NOT_FOUND
    drawing, ax = blank_axes(0.85 + 0.31 * len(shown))
    seen: dict[str, Any] = {"marker": "|", "color": PALE_INK, "ms": 8, "mew": 1.1, "ls": ""}
    draw_points(ax, look, [], [], label="model that never saw its group")
    ax.plot([], [], label="models that did", **seen)
    for y, (_, row) in enumerate(shown):
        inside, out = ([rank or beyond for rank in ranks] for ranks in (row.seen, row.unseen))
        ax.plot([min(inside + out), max(inside + out)], [y, y], color=LINE, lw=1, zorder=1)
        ax.plot(inside, [y] * len(inside), **seen)
        draw_points(ax, look, out, [y] * len(out), ms=5)
    rule_between(ax, [kind for kind, _ in shown])
    ax.set(xscale="log", xlim=(0.85, beyond * 1.25), ylim=(len(shown) - 0.4, -0.6))
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000) if tick * 3 < beyond]
    ax.set_xticks([*ticks, beyond], [*(f"{tick:,}" for tick in ticks), "not found"])
    ax.minorticks_off()
    ax.set_yticks(range(len(shown)), [row.label() for _, row in shown], fontsize=7)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("rank of the first relevant passage")
    drawing.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=8)
    return drawing


_SHARED = ("shift", "system", "measure", "group", "seeds", "queries", "seed_share")
"""What the figures of what queries, and seeds of training, add to the standard error of a Rel Loss
share with it."""


def certainty_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw what seeds and queries add to the error of losses."""
    return (_errors(inputs, shift) for shift, _ in inputs.shifts)


def _errors(inputs: Inputs, shift: Shift) -> Picture | NotDrawn:
    """Draw what other queries and other seeds would change of every Rel Loss."""
    title = f"{shift.title}: seeds against queries"
    rows = Figures(list(_standard_errors(inputs.figures(shift, "rel_loss"))))
    if not rows:
        return NotDrawn(
            title,
            "no Rel Loss rests on two seeds or more, so nothing is known of other trainings",
            "train each model more than once, e.g. `msshift run bi-encoder --seeds 1,2,3 --name "
            "bi-encoder-seeds`",
        )
    names, from_seeds = group_rows(shift, rows), rows.where(figure="sd_from_seeds")
    drawing, ax = blank_axes(0.75 + len(names) * (0.15 * len(rows.names("system")) + 0.1))
    for look, from_queries, y in in_rows(rows.where(figure="sd_from_queries"), inputs.looks, names):
        of_seeds = from_seeds.where(system=from_queries[0].system)
        hollow, filled = spread(from_queries)[0], spread(of_seeds)[0]
        ax.plot([hollow, filled], [y, y], color=LINE, lw=1.0, zorder=1)
        draw_points(ax, look, hollow, y, is_hollow=True, ms=5)
        draw_points(ax, look, filled, y, ms=5, label=say_system(from_queries))
    rule_between(ax, [name in WHOLE for name in names])
    name_rows(ax, list(names))
    ax.set(xlim=(0, None), xlabel="standard error of Rel Loss (percentage points)")
    ax.legend(ncols=2, **ABOVE)
    shares = [row.seed_share for row in from_seeds]
    mostly_seeds = sum(share is not None and share > 0.5 for share in shares)
    return Picture(
        f"variance-{shift.name}",
        title,
        "Hollow marks: the standard error of Rel Loss that comes from the choice of test queries; "
        "filled marks: from the seeds of training. Where the filled mark lies to the right, more "
        "seeds narrow the interval, not more queries. Test queries: "
        f"{say_sizes(from_seeds)}.",
        f"Pairs of marks, a row per group: in {mostly_seeds} of {len(shares)} cases the seeds of "
        "training matter more than the choice of queries.",
        rows,
        drawing,
    )


def _standard_errors(losses: Figures) -> Iterator[Figure]:
    """Yield what queries and seeds add to the error of each Rel Loss of several seeds."""
    for loss in losses:
        if loss.seed_share and loss.seed_sd is not None and loss.seeds is not None:
            from_seeds = loss.seed_sd / loss.seeds**0.5
            shared = {name: getattr(loss, name) for name in _SHARED}
            yield Figure(
                "sd_from_queries", value=from_seeds * (1 / loss.seed_share - 1) ** 0.5, **shared
            )
            yield Figure("sd_from_seeds", value=from_seeds, **shared)
