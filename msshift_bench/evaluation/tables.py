"""The tables of results, each as two lists of heads over figures.

Losses stand in the layout of MS-Shift's Tables 2 and 3. `delta_table` has that of Tables 6 and 7
of Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural Retrieval Models
(CIKM 2022), section 5: interpolation is what MS-Shift calls Avg In, extrapolation what it calls
Out, and Delta = Extra. / Inter. - 1 is minus Rel Loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from msshift_bench.evaluation.claims import WHOLE
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.results import Section
from msshift_bench.evaluation.settings import Settings, parse_measure
from msshift_bench.output import (
    P_VALUE,
    QUERIES,
    Format,
    Head,
    Table,
    column_format,
    heads_of,
    number,
    pivot,
    say_level,
    show_percent,
)
from msshift_bench.shifts import SIZED, Shift, get_shift
from msshift_bench.stats import MEAN, QUERIES_ONLY, UNTESTED, Figure, Figures

FEWEST_IN_SLICE = 20
"""Queries below which a slice has no percentage."""

_SHOWN = {"avg_in": "Avg In", "out": "Out", "rel_loss": "Rel Loss", "score": "mean"}
"""Figure -> its name in tables."""

_SHARES = (
    *("rel_loss", "drop", "rel_loss_changed"),
    *("loss_by_change", "loss_by_change_in", "loss_by_change_out", "out_minus_in"),
)
"""The figures that are fractions, printed in percent; others are on the scale of their measure."""


def figure_text(figure: Figure, value: float | None = None) -> str:
    """Return a figure, or another value like it, as tables print it; "-" where it is undefined."""
    value = figure.value if value is None else value
    if figure.figure in _SHARES:
        return show_percent(value)
    if figure.figure in ("effect_size", "missing"):
        return "-" if value is None else f"{value:,.2f}".removesuffix(".00")
    return parse_measure(figure.measure).show(value)


def _ends(figure: Figure) -> str:
    if figure.interval is None:
        return "-"
    low, high = (figure_text(figure, end) for end in figure.interval)
    return f"[{low}, {high}]".replace("%", "")


def _labelled_ends(figure: Figure) -> str:
    return _ends(figure) + f" {QUERIES_ONLY}" * (figure.counts == QUERIES_ONLY)


def _with_ends(figure: Figure) -> str:
    return figure_text(figure) + (f" {_ends(figure)}" if figure.interval else "")


def figure_ends(figure: Figure) -> str:
    """Return the ends of its interval, which of models of one seed count queries only; or ""."""
    only = f" {QUERIES_ONLY}" * (figure.seeds == 1)
    return "" if figure.interval is None else _ends(figure) + only


VALUE = Format(figure_text, is_marked=True)
"""A value with its mark."""

PLAIN = Format(figure_text)
"""A value without its mark."""

WITH_ENDS = Format(_with_ends)
"""A value with its interval, where it has one, in place of a mark."""

ENDS = Format(_ends)
"""The ends of an interval."""

LABELLED_ENDS = Format(_labelled_ends)
"""The same, and whether they count queries only."""


def scale_of(measures: Sequence[Measure], what: str = "") -> str:
    """Return what a title says of the scale of its means, e.g. ``, means x 100 (not ASL)``."""
    plain = [measure.name for measure in measures if not measure.percent]
    if len(plain) == len(measures):
        return ""
    return f"{what} x 100" + (f" (not {', '.join(plain)})" if plain else "")


def loss_table(
    figures: Figures,
    measure: Measure,
    settings: Settings,
    partial: Collection[str] = (),
    *,
    brief: bool = False,
) -> Table:
    """Return every system's Avg In, Out and Rel Loss on each group of a shift, and on average.

    Systems that were not trained per group have one row, their score on each group. A slice has a
    row with its number of queries, and no figures where there are fewer than 20.

    Args:
        figures: the figures of one shift, one measure, and one slice or none.
        measure: the measure.
        settings: the level of the intervals and the correction.
        partial: the systems that lack run files.
        brief: leave out intervals, spreads and p-values, as the paper's tables do.
    """
    shift, label = get_shift(figures[0].shift), figures[0].slice
    average = next((name for name in WHOLE if figures.where(group=name)), MEAN)
    columns = [Head((group,), {"group": group}) for group in (*shift.tested, average)]
    rows = [_query_counts(figures)] if label else []
    systems = figures.names("system")
    figures = _printable(figures.where(model=""))
    for system in systems:
        of_system = figures.where(system=system)
        loss = of_system.where(figure="rel_loss")
        if of_system.where(figure="score"):
            rows.append(Head((system, ""), {"system": system, "figure": "score"}, VALUE))
        elif not loss:
            rows.append(Head((system, "too few runs"), {"system": system}))
        else:
            name = f"{system} (partial)" if system in partial else system
            lines = islice(_loss_lines(loss, settings), 3 if brief else None)
            rows += [
                Head((name, line), {"system": system, "figure": figure}, shown)
                for line, figure, shown in lines
            ]
    only = f", only {label}" if label else ""
    return pivot(
        figures,
        f"{shift.title} ({shift.name}), {measure.mean_name}{scale_of([measure])}{only}",
        ("system", ""),
        rows,
        columns,
        ruled=1,
        best=best_figures(figures, measure),
        label=f"{shift.name} {measure} {label}",
    )


def _query_counts(figures: Figures) -> Head:
    """Return the row of a slice that says how many queries count."""
    groups = figures.each("group")
    counts = {group: [row.queries or 0 for row in of_group] for (group,), of_group in groups}

    def text(figure: Figure) -> str:
        low, high = min(counts[figure.group]), max(counts[figure.group])
        return f"{low:,}" if low == high else f"{low:,}-{high:,}"

    return Head(("queries", ""), {}, Format(text))


def _printable(figures: Figures) -> Figures:
    """Return figures without those of too few queries, in slices."""
    few = {
        (row.system, row.group)
        for row in figures
        if row.slice and (row.queries or 0) < FEWEST_IN_SLICE
    }
    # A mean over groups is as unsure as its smallest group.
    few |= {(system, MEAN) for system, _ in few}
    nothing = {**UNTESTED, **dict.fromkeys(("value", "low", "high"))}
    return Figures(
        [row._replace(**nothing) if (row.system, row.group) in few else row for row in figures]
    )


def _loss_lines(loss: Figures, settings: Settings) -> Iterator[tuple[str, str, Format]]:
    """Yield the rows of a system: what they are called, their figure, and its format."""
    # An interval or a p-value that counts queries only is labelled so.
    seeds = loss[0].seeds or 1
    only = f", {QUERIES_ONLY}" if seeds == 1 else ""
    yield from (("Avg In", "avg_in", VALUE), ("Out", "out", VALUE), ("Rel Loss", "rel_loss", VALUE))
    if any(figure.counts for figure in loss):
        yield f"{say_level(settings.confidence)} interval{only}", "rel_loss", ENDS
    if seeds > 1:
        yield f"sd of {seeds} seeds", "rel_loss", column_format("seed_sd", show_percent)
        yield "variance from seeds", "rel_loss", column_format("seed_share", show_share)
    this_model = ", this model" if only else ""
    yield f"p ({settings.correction}){only}{this_model}", "rel_loss", P_VALUE


def show_share(value: float | None) -> str:
    """Return a share as tables print it."""
    return "-" if value is None else f"{100 * value:z.0f}%"


def best_figures(figures: Figures, measure: Measure) -> set[Figure]:
    """Return the best figure of each column, where several systems have losses."""
    losses = figures.where(figure="rel_loss")
    if len(losses.names("system")) < 2:
        return set()
    best = set()
    for (name, _), column in figures.where(figure=("avg_in", "out", "rel_loss")).each(
        "figure", "group"
    ):
        sign = -1 if name == "rel_loss" else measure.sign
        values = {figure: sign * figure.value for figure in column if figure.value is not None}
        if values:
            best.add(max(values, key=values.__getitem__))
    return best


def matrix_table(figures: Figures) -> Table:
    """Return a system's matrix: a row per held-out group, a column per evaluated group.

    Args:
        figures: the figures of one system on one shift by one measure.
    """
    shift = get_shift(figures[0].shift)
    scores = figures.where(figure="model_score")
    rows = [Head((shift.training_of(model),), {"model": model}, VALUE) for model in shift.groups]
    columns = [Head((group,), {"group": group}) for group in shift.tested]
    title = f"{figures[0].system}: rows trained {shift.training_of('a group')}"
    zero_shot = [row for row in scores if shift.unseen_by(row.group) == row.model]
    return pivot(
        scores, f"{title}, columns evaluated on a group", ("",), rows, columns, best=zero_shot
    )


def delta_table(
    figures: Figures, measures: Sequence[Measure], partial: Collection[tuple[str, str]] = ()
) -> Table:
    """Return Inter., Extra. and Delta of every system, averaged over the groups of a shift.

    A row is a system, and each measure has three columns; Delta is followed by its interval. One
    ranking that serves all groups has a Delta of exactly 0, and no interval; a system with too few
    runs has dashes. A shift that comes in sizes has all of them in one table, the smallest first,
    as in Table 6.

    Args:
        figures: the figures of one shift, or of several sizes of one, by size.
        measures: the measures to show.
        partial: (shift, system) of those that lack run files.
    """
    shift = get_shift(figures[0].shift)
    rows = []
    for (name, system), _ in figures.each("shift", "system"):
        title = f"{system} (partial)" if (name, system) in partial else system
        names = (get_shift(name).size, title) if shift.size else (title,)
        rows.append(Head(names, {"shift": name, "system": system}))
    columns = [
        Head((title,), {"measure": measure.name, "figure": (figure, "score")}, shown)
        for measure in measures
        for title, figure, shown in (
            (f"{measure.mean_name} Inter.", "avg_in", VALUE),
            ("Extra.", "out", VALUE),
            ("Delta", "rel_loss", Format(_delta_text, is_marked=True)),
        )
    ]
    family = SIZED[shift.family].title if shift.size else shift.title
    return pivot(
        figures.where(group=WHOLE, model="", slice=""),
        f"{family} ({shift.family}){scale_of(measures, ', means')}",
        ("#Q", "system") if shift.size else ("system",),
        rows,
        columns,
        ruled=1 if shift.size else 0,
        label=f"{shift.family} delta",
    )


def _delta_text(figure: Figure) -> str:
    if figure.figure == "score":
        return show_delta(0.0)
    return show_delta(figure.value, figure.interval)


def show_delta(rel_loss: float | None, interval: tuple[float, float] | None = None) -> str:
    """Return the Delta of a Rel Loss, with its sign, as tables print it.

    Args:
        rel_loss: a fraction; `None` if it is undefined.
        interval: its interval, low and high, which is turned with it.
    """
    if rel_loss is None:
        return "-"
    shown = f"{_turned(rel_loss)}%"
    if interval is None:
        return shown
    low, high = interval
    return f"{shown} [{_turned(high)}, {_turned(low)}]"


def _turned(rel_loss: float) -> str:
    # adding 0 makes -0.0 a plain 0
    turned = round(-100 * rel_loss, 1) + 0.0
    return f"{turned:+.1f}" if turned else "0.0"


def compared_tables(
    figures: Figures, measure: Measure, settings: Settings, reference: str | None
) -> Iterator[Table]:
    """Yield the ranks by Rel Loss or an overview beside the reference, then a table for every pair.

    Args:
        figures: the figures of one shift by one measure, differences among them.
        measure: the measure.
        settings: the correction.
        reference: the system that the others are compared with; `None` where every two are.
    """
    shift = get_shift(figures[0].shift)
    heading = f"{shift.name}, {measure.mean_name}{scale_of([measure])}"
    label = f"{shift.name} {measure}"
    values = figures.where(figure=tuple(_SHOWN))
    if reference is not None:
        yield _overview(values, heading, reference, label)
    elif ranks := figures.where(figure="rank"):
        yield _rank_table(values, ranks, shift, measure, label)
    for first, second in dict.fromkeys((row.system, row.against) for row in values if row.against):
        pair = values.where(system=first, against=second)
        loses = f"; in Rel Loss negative where {first} loses less"
        rows = [
            Head((_SHOWN[row.figure], row.group), {"figure": row.figure, "group": row.group})
            for row in pair
        ]
        columns = [
            *(Head((name,), {"system": name, "against": ""}, PLAIN) for name in (first, second)),
            *_difference_heads(settings.correction, {"system": first, "against": second}),
        ]
        yield pivot(
            values,
            f"{heading}: {first} - {second}{loses * bool(pair.where(figure='rel_loss'))}",
            ("figure", ""),
            rows,
            columns,
            ruled=1,
            label=f"{label} {first} minus {second}",
        )


def _difference_heads(correction: str, where: Mapping[str, object]) -> list[Head]:
    """Return the columns of a difference, which has these names: it, its interval and its p."""
    return [
        Head(("difference",), where, VALUE),
        Head(("interval",), where, LABELLED_ENDS),
        Head((f"p ({correction})",), where, P_VALUE),
    ]


def _overview(values: Figures, heading: str, reference: str, label: str) -> Table:
    """Return the averages of every system, with a mark where it differs from the reference."""
    averages = values.where(group=WHOLE)
    (average,) = averages.names("group")
    # A mark is that of the difference, and stands at the value.
    apart = {(row.system, row.figure): row for row in averages.where(against=reference)}
    alone = []
    for row in averages.where(against=""):
        difference = apart.get((row.system, row.figure), row)
        alone.append(row._replace(mark=difference.mark, family=difference.family))
    compared = {reference, *(system for system, _ in apart)}
    names = [name for name in averages.names("system") if name != reference]
    rows = [Head((name,), {"system": name}) for name in (reference, *names) if name in compared]
    columns = [Head((_SHOWN[name],), {"figure": name}, VALUE) for name in averages.names("figure")]
    title = f"{heading}: {average}, * or † differs from {reference}"
    label = f"{label} against {reference}"
    table = pivot(Figures(alone), title, ("system",), rows, columns, label=label)
    return replace(table, sections=frozenset({1}))


def _rank_table(
    values: Figures, ranks: Figures, shift: Shift, measure: Measure, label: str
) -> Table:
    """Return the ranks of systems by their average Rel Loss, as far as they can be told apart."""

    def places(figure: Figure) -> str:
        return "-" if figure.value is None else f"{figure.low:.0f}-{figure.high:.0f}"

    losses = values.where(figure="rel_loss", group=WHOLE, against="")
    columns = [
        Head(("rank",), {"figure": "rank"}, number(0)),
        Head(("range",), {"figure": "rank"}, Format(places)),
        Head(("Rel Loss",), {"figure": "rel_loss"}, PLAIN),
        Head(("interval",), {"figure": "rel_loss"}, LABELLED_ENDS),
    ]
    return pivot(
        Figures([*losses, *ranks]),
        f"{shift.title} ({shift.name}): average Rel Loss in {measure}",
        ("system",),
        heads_of(ranks, "system"),
        columns,
        label=f"{label} ranks",
    )


def run_tables(figures: Figures, measures: Sequence[Measure], correction: str) -> Iterator[Table]:
    """Yield a row per run, with the mean of every measure, then its leads over a reference.

    Args:
        figures: the figures of runs on one test set, and how many queries of each count, are
            missing, or tied.
        measures: the measures.
        correction: the correction of p-values.
    """
    (group,) = figures.names("group")
    title = f"{group}{scale_of(measures, ', means')}"
    columns = [
        *(Head((name,), {"figure": name}, number(0)) for name in ("queries", "missing", "tied")),
        *(Head((m.name,), {"measure": m.name, "against": ""}, WITH_ENDS) for m in measures),
    ]
    values = figures.where(figure=("score", "sum"))
    rows = heads_of(values, "system")
    yield pivot(figures, title, ("run",), rows, columns)
    for measure in measures:
        title = f"{group}, {measure.mean_name}{scale_of([measure])}"
        for (reference,), leads in values.where(measure=measure.name).each("against"):
            if reference:
                yield pivot(
                    leads,
                    f"{title}: run - {reference}",
                    ("run",),
                    heads_of(leads, "system"),
                    _difference_heads(correction, {}),
                    label=f"{group} {measure} runs",
                )


def extra_tables(figures: Figures, settings: Settings) -> Iterator[Section]:
    """Yield tables per extra test set and shift: systems and models down, measures across."""
    measures, tables = settings.measures, []
    for (test, name), part in figures.each("test", "shift"):
        values = part.where(figure=("score", "drop"))
        rows = [
            Head(
                (system, f"drop from {against}" if against else model),
                {"system": system, "model": model, "against": against},
            )
            for (system, model, against), _ in values.each("system", "model", "against")
        ]
        columns = [
            Head((measure.mean_name,), {"measure": measure.name}, WITH_ENDS) for measure in measures
        ]
        counts = sorted({row.queries or 0 for row in values if not row.against})
        queries = f"{counts[0]:,}" + (f" to {counts[-1]:,}" if len(counts) > 1 else "")
        title = f"{test} ({queries} queries), models of {get_shift(name).title} ({name})"
        title += scale_of(measures, ", means")
        corner, label = ("system", "without"), f"{test} {name}"
        tables.append(pivot(values, title, corner, rows, columns, ruled=1, label=label))
    yield Section(tables)


def change_tables(figures: Figures, settings: Settings) -> Iterator[Section]:
    """Yield what models lose by a change of the queries, and whether the shift adds to it."""
    level = say_level(settings.confidence)
    tables: list[Table] = []
    for (test, name, of_measure), part in figures.each("test", "shift", "measure"):
        measure, shift = parse_measure(of_measure), get_shift(name)
        about = f"{test}, {shift.title} ({name}), {measure.mean_name}{scale_of([measure])}"
        label = f"{test} {name} {of_measure}"
        lost = {"figure": "loss_by_change"}
        columns = [
            Head(("queries",), lost, QUERIES),
            Head(("as is",), {"figure": "as_is"}, VALUE),
            Head(("changed",), {"figure": "changed"}, VALUE),
            Head(("loss",), lost, VALUE),
            Head((level,), lost, ENDS),
            Head(("p",), lost, P_VALUE),
        ]
        by_model = part.where(group="", slice="")
        by_method = Figures([row for row in part if not row.group and row.slice])
        for rows, by, title, end in (
            (by_model, "model", "what each model loses", ""),
            (by_method, "slice", "by method, mean over models", " methods"),
        ):
            if rows:
                corner = "method" if by == "slice" else "trained on" if shift.by_size else "without"
                heads = heads_of(rows, "system", by)
                title = f"{about}: {title}"
                tables.append(
                    pivot(
                        rows, title, ("system", corner), heads, columns, ruled=1, label=label + end
                    )
                )
        if groups := part.where(model=""):
            heads = heads_of(groups, "system", "group")
            title = f"{about}: does the shift add to it?"
            added = {"figure": "out_minus_in"}
            columns = [
                Head(("queries",), added, QUERIES),
                Head(("In",), {"figure": "loss_by_change_in"}, PLAIN),
                Head(("Out",), {"figure": "loss_by_change_out"}, PLAIN),
                Head(("Out - In",), added, VALUE),
                Head((level,), added, ENDS),
                Head(("p",), added, P_VALUE),
                Head(("Rel Loss as is",), {"figure": "rel_loss"}, PLAIN),
                Head(("Rel Loss changed",), {"figure": "rel_loss_changed"}, PLAIN),
            ]
            tables.append(
                pivot(
                    groups,
                    title,
                    ("system", "group"),
                    heads,
                    columns,
                    ruled=1,
                    label=f"{label} groups",
                )
            )
    yield Section(tables)


def left_out_tables(figures: Figures, settings: Settings) -> Iterator[Table]:
    """Yield a table per shift and measure: figures with and without the queries that leaked.

    Args:
        figures: the figures of all queries, of those that did not leak, and differences.
        settings: the level of the intervals.
    """
    level = f"{say_level(settings.confidence)} interval"
    differing = figures.where(slice="all minus not leaked")
    for (name, of_measure), part in differing.each("shift", "measure"):
        measure = parse_measure(of_measure)
        titles = {**_SHOWN, "score": "score"}
        rows = [
            Head((system, line), {"system": system, "figure": figure, "slice": slice_}, shown)
            for (system, figure), _ in part.each("system", "figure")
            for line, slice_, shown in (
                (titles[figure] if name else "all", "", PLAIN),
                ("not leaked", "not leaked", PLAIN),
                ("difference", "all minus not leaked", VALUE),
                (level, "all minus not leaked", ENDS),
            )
        ]
        title = f"With and without leaked test queries, {measure.mean_name}{scale_of([measure])}"
        if name:
            title = f"{get_shift(name).title} ({name}): w{title[1:]}"
        columns = [Head((group,), {"group": group}) for group in part.names("group")]
        values = figures.where(shift=name, measure=of_measure, model="", against="")
        yield pivot(values, title, ("system" if name else "run", ""), rows, columns, ruled=1)
