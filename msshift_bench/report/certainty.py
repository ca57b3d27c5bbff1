"""How sure it is: seeds against queries, and what other orders of ties would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from msshift_bench.evaluation import FOR_ALL, Scores, estimates_of
from msshift_bench.output import LINE, shorten
from msshift_bench.report.drawing import (
    ABOVE,
    LETTERS,
    WHOLE,
    NotDrawn,
    Picture,
    blank_axes,
    draw_points,
    group_rows,
    name_rows,
    row_places,
    rule_between,
    say_sizes,
    say_system,
    spread,
)
from msshift_bench.report.inputs import Inputs
from msshift_bench.shifts import Shift
from msshift_bench.stats import Figure, Figures

__all__ = ["certainty_pictures"]

_SOURCES = ("sd_from_queries", "sd_from_seeds")
"""The figures of what queries, and seeds of training, add to the standard error of a Rel Loss."""


def certainty_pictures(inputs: Inputs) -> Iterator[Picture | NotDrawn]:
    """Draw what seeds and queries add to the error of losses, then what ties could change."""
    for shift, scores in inputs.shifts:
        yield _errors(inputs, shift, scores)
    for shift, scores in inputs.shifts:
        yield _ties(inputs, shift, scores)


def _errors(inputs: Inputs, shift: Shift, scores: Sequence[Scores]) -> Picture | NotDrawn:
    """Draw what other queries and other seeds would change of every Rel Loss."""
    title = f"{shift.title}: seeds against queries"
    rows = Figures([row for part in scores for row in _standard_errors(inputs, shift, part)])
    if not rows:
        return NotDrawn(
            title,
            "no Rel Loss rests on two seeds or more, so nothing is known of other trainings",
            "train each model more than once, e.g. `msshift run bi-encoder --seeds 3`",
        )
    names, systems = group_rows(shift, rows), list(rows.each("system"))
    drawing, ax = blank_axes(0.75 + len(names) * (0.15 * len(systems) + 0.1))
    for number, ((system,), of_system) in enumerate(systems):
        look, seeds = inputs.looks[system], of_system[0].seeds
        from_queries, from_seeds = (of_system.where(figure=source) for source in _SOURCES)
        y = row_places(from_queries, names, number, len(systems))
        hollow, filled = spread(from_queries)[0], spread(from_seeds)[0]
        ax.plot([hollow, filled], [y, y], color=LINE, lw=1.0, zorder=1)
        draw_points(ax, look, hollow, y, is_hollow=True, ms=5)
        draw_points(ax, look, filled, y, ms=5, label=say_system(system, seeds))
    rule_between(ax, [name in WHOLE for name in names])
    name_rows(ax, list(names))
    ax.set(xlim=(0, None), xlabel="standard error of Rel Loss (percentage points)")
    ax.legend(ncols=2, **ABOVE)
    shares = [row.seed_share for row in rows.where(figure="sd_from_seeds")]
    mostly_seeds = sum(share is not None and share > 0.5 for share in shares)
    return Picture(
        f"variance-{shift.name}",
        title,
        "Hollow marks: the standard error of Rel Loss that comes from the choice of test queries; "
        "filled marks: from the seeds of training. Where the filled mark lies to the right, more "
        "seeds narrow the interval, not more queries. Test queries: "
        f"{say_sizes(rows.where(figure='sd_from_seeds'))}.",
        f"Pairs of marks, a row per group: in {mostly_seeds} of {len(shares)} cases the seeds of "
        "training matter more than the choice of queries.",
        rows,
        drawing,
    )


def _standard_errors(inputs: Inputs, shift: Shift, scores: Scores) -> Iterator[Figure]:
    """Yield what queries and seeds add to the error of each Rel Loss of several seeds."""
    counted = scores.counted(inputs.settings.missing)
    averaged = inputs.settings.average or shift.average
    losses = inputs.figures(shift, "rel_loss").where(system=scores.system)
    for group, estimates in estimates_of(scores, inputs.measure, counted, averaged).items():
        estimate = estimates.get("rel_loss")
        error = None if estimate is None else estimate.uncertainty()
        if error is None or error.seeds == 1:
            continue
        (loss,) = losses.where(group=group)
        names = shift.name, scores.system, "", inputs.measure.name, group
        row = Figure("", "", *names, seeds=error.seeds, queries=loss.queries)
        row = row._replace(seed_share=error.seed_share)
        for source, part in zip(_SOURCES, (error.queries, error.trained), strict=True):
            yield row._replace(figure=source, value=part.scale)


def _ties(inputs: Inputs, shift: Shift, scores: Sequence[Scores]) -> Picture | NotDrawn:
    """Draw between which ends the scores would lie under other orders of tied passages."""
    title, measure = f"{shift.title}: what ties could change", inputs.measure
    figures = inputs.figures(shift, "model_score", "tie_worst", "tie_best")
    zero_shot = Figures(
        [row for row in figures if row.model in (FOR_ALL, shift.unseen_by(row.group))]
    )
    systems = zero_shot.where(figure="tie_best").names("system")
    rows = zero_shot.where(system=tuple(systems))
    if not rows:
        return NotDrawn(
            title,
            "no tie touches a relevant passage in the rankings of Out or of an untrained system",
            "nothing is missing",
        )
    scale = 100 if measure.percent else 1
    drawing, ax = blank_axes(0.7 + len(shift.tested) * (0.15 * len(systems) + 0.1))
    for number, system in enumerate(systems):
        look, of_system = inputs.looks[system], rows.where(system=system)
        means = of_system.where(figure="model_score")
        y = row_places(means, shift.tested, number, len(systems))
        ends = [
            [(of_system.first(figure=end, group=row.group) or row).number for row in means]
            for end in ("tie_worst", "tie_best")
        ]
        # Where lower is better, the worst is above the score.
        changes = np.sort(ends, axis=0) - [row.number for row in means]
        lines = {"xerr": scale * np.abs(changes), "elinewidth": 1.4, "capsize": 3}
        label = shorten(system, LETTERS)
        draw_points(ax, look, np.zeros(len(y)), y, ms=4, label=label, **lines)
    name_rows(ax, list(shift.tested))
    unit = f"{measure.mean_name}{' x 100' if measure.percent else ''}"
    ax.set_xlabel(f"change of Out, or of an untrained system ({unit})")
    ax.legend(ncols=2, **ABOVE)
    rankings = [
        run.tied[queries]
        for part in scores
        if part.system in systems
        for group, queries in part.counted(inputs.settings.missing).items()
        for (model, _), run in part.runs.items()
        if model in (FOR_ALL, shift.unseen_by(group))
    ]
    total, tied = sum(map(len, rankings)), sum(int(ranking.sum()) for ranking in rankings)
    best, worst = max(
        zip(rows.where(figure="tie_best"), rows.where(figure="tie_worst"), strict=True),
        key=lambda pair: abs(pair[0].number - pair[1].number),
    )
    return Picture(
        f"ties-{shift.name}",
        title,
        "Marks stand for the scores under the tie policy of this report; lines reach from what "
        "every tie broken against the relevant passage would take from them to what every tie "
        f"broken for it would add. A tie touches it in {tied:,} of {total:,} rankings of the "
        "systems that have any.",
        f"Marks with their bounds, a row per group. The widest are those of {best.system} on "
        f"{best.group}: {measure.show(worst.value)} to {measure.show(best.value)}.",
        rows,
        drawing,
    )
