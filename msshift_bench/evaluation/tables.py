"""Tables of results, each made of figures and two lists of heads.

Tables of losses have the layout of MS-Shift's Tables 2 and 3. `delta_table` has the layout of
Tables 6 and 7 of Zhan et al., Evaluating Interpolation and Extrapolation Performance of Neural
Retrieval Models (CIKM 2022), section 5. Its interpolation is Avg In, its extrapolation is Out, and
Delta = Extra. / Inter. - 1 is minus Rel Loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from msshift_bench.evaluation.claims import COMPARED, WHOLE
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
    level_text,
    number,
    pivot,
    show_percent,
    with_marks_of,
)
from msshift_bench.shifts import SIZED, Shift, get_shift
from msshift_bench.stats import (
    FIGURES,
    MEAN,
    QUERIES_AND_SEEDS,
    QUERIES_ONLY,
    UNTESTED,
    Figure,
    Figures,
)

FEWEST_IN_SLICE = 20
"""Smallest number of queries of a slice whose figures are printed."""


def figure_text(figure: Figure, value: float | None = None) -> str:
    """Return a figure's value, or `value`, as tables print it; "-" if undefined."""
    value = figure.value if value is None else value
    # The boards name the mean of a model by the group that it was trained without.
    unit = FIGURES.get(figure.figure, FIGURES["model_score"]).unit
    if unit == "share":
        return show_percent(value)
    if unit in ("count", "number"):
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


def _seed_sd(figure: Figure) -> str:
    return "-" if figure.seed_sd is None else figure_text(figure, figure.seed_sd)


def figure_ends(figure: Figure) -> str:
    """Return the ends of a figure's interval as text; "" if it has no interval.

    If the interval includes the variance of queries only, the text ends with `QUERIES_ONLY`.
    """
    only = f" {QUERIES_ONLY}" * (figure.seeds == 1 or figure.counts == QUERIES_ONLY)
    return "" if figure.interval is None else _ends(figure) + only


VALUE = Format(figure_text, is_marked=True)
"""A value with its mark of significance."""

PLAIN = Format(figure_text)
"""A value without its mark."""

WITH_ENDS = Format(_with_ends)
"""A value with its interval, where it has one, in place of a mark."""

ENDS = Format(_ends)
"""The ends of an interval."""

LABELLED_ENDS = Format(_labelled_ends)
"""The ends of an interval, labelled if it counts queries only."""


def scale_of(measures: Sequence[Measure], what: str = "") -> str:
    """Return `what` with a scale, ``, means x 100 (not ASL@10)``; "" if none is in percent."""
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

    Systems that were not trained per group have one row, their score on each group. A system with
    too few runs has an empty row. A slice has a row with its number of queries, and dashes if fewer
    than 20.

    Args:
        figures: the figures of one shift and measure, and of one slice or none.
        measure: the measure.
        settings: the level of the intervals and the correction.
        partial: the systems with missing run files.
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
            rows += [
                Head((name, line), {"system": system, "figure": figure}, shown)
                for line, figure, shown in _lines(of_system, settings, brief=brief)
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
    counts = {
        group: [row.queries or 0 for row in of_group]
        for (group,), of_group in figures.each("group")
    }

    def text(figure: Figure) -> str:
        low, high = min(counts[figure.group]), max(counts[figure.group])
        return f"{low:,}" if low == high else f"{low:,}-{high:,}"

    return Head(("queries", ""), {}, Format(text))


def _printable(figures: Figures) -> Figures:
    """Return the figures; in a slice of too few queries, they have no values."""
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


def _lines(
    of_system: Figures, settings: Settings, *, brief: bool = False
) -> Iterator[tuple[str, str, Format]]:
    """Yield the rows of a system: title, kind of figure, format; intervals and p unless `brief`."""
    for name, kind in FIGURES.items():
        rows = of_system.where(figure=name) if kind.is_shown and kind.formula else Figures()
        is_extra = kind.is_contrast and not kind.is_lead
        if not rows or (is_extra and brief):
            continue
        yield kind.title, name, VALUE
        if not kind.family or brief or is_extra:
            continue
        # An interval or a p-value that counts queries only is labelled so.
        seeds, counts = rows[0].seeds or 1, set(rows.names("counts")) - {""}
        only = f", {QUERIES_ONLY}" if seeds == 1 and QUERIES_AND_SEEDS not in counts else ""
        if counts:
            yield f"{level_text(settings.confidence)} interval{only}", name, ENDS
        if seeds > 1 and not kind.is_lead:
            yield f"sd of {seeds} seeds", name, Format(_seed_sd)
            yield "variance from seeds", name, column_format("seed_share", show_share)
        this_model = ", this model" if only else ""
        yield f"p ({settings.correction}){only}{this_model}", name, P_VALUE


def show_share(value: float | None) -> str:
    """Return a share, from 0 to 1, as tables print it: in percent, a dash for `None`."""
    return "-" if value is None else f"{100 * value:z.0f}%"


def best_figures(figures: Figures, measure: Measure) -> set[Figure]:
    """Return the best figure of each kind and group; none if fewer than 2 systems have losses."""
    if len(figures.where(figure="rel_loss").names("system")) < 2:
        return set()
    best = set()
    shown = [name for name, kind in FIGURES.items() if kind.sides == "two" and kind.is_shown]
    for (name, _), column in figures.where(figure=shown).each("figure", "group"):
        kind = FIGURES[name]
        sign = kind.direction * (measure.sign if kind.unit == "score" else 1)
        values = {figure: sign * figure.value for figure in column if figure.value is not None}
        if values and sign:
            best.add(max(values, key=values.__getitem__))
    return best


def matrix_table(figures: Figures) -> Table:
    """Return a system's matrix: a row per held-out group, a column per evaluated group.

    Args:
        figures: the figures of one system on one shift by one measure.
    """
    shift = get_shift(figures[0].shift)
    scores = figures.where(figure="model_score")
    title = f"{figures[0].system}: rows trained {shift.training_of('a group')}"
    return pivot(
        scores,
        f"{title}, columns evaluated on a group",
        ("",),
        [Head((shift.training_of(model),), {"model": model}, VALUE) for model in shift.groups],
        [Head((group,), {"group": group}) for group in shift.tested],
        best=[row for row in scores if shift.out_model(row.group) == row.model],
    )


def delta_table(
    figures: Figures, measures: Sequence[Measure], partial: Collection[tuple[str, str]] = ()
) -> Table:
    """Return Inter., Extra. and Delta of every system, averaged over the groups of a shift.

    A row is a system, and each measure has three columns; Delta has its interval. One model for all
    groups has a Delta of exactly 0 without interval; a system with too few runs has dashes. All
    sizes of a shift are in one table, the smallest first, as in Table 6.

    Args:
        figures: the figures of one shift, or of several sizes of one, by size.
        measures: the measures to show.
        partial: (shift, system) pairs with missing run files.
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
    """Return Delta, minus a Rel Loss in percent, with its sign and interval; "-" for `None`.

    Args:
        rel_loss: a fraction; `None` if it is undefined.
        interval: the interval of the Rel Loss, low and high.
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
    """Yield the ranks, or the averages and leads over the reference, then a table for every pair.

    Args:
        figures: the figures and differences of one shift by one measure.
        measure: the measure.
        settings: the correction.
        reference: the system to compare the others with; `None` for every pair.
    """
    shift = get_shift(figures[0].shift)
    heading = f"{shift.name}, {measure.mean_name}{scale_of([measure])}"
    label = f"{shift.name} {measure}"
    values = figures.where(figure=COMPARED)
    if reference is not None:
        yield _overview(figures, heading, reference, label)
        yield lead_table(figures, measure, settings, reference)
    elif ranks := figures.where(figure="rank"):
        yield _rank_table(values, ranks, shift, measure, label)
    for first, second in dict.fromkeys((row.system, row.against) for row in values if row.against):
        pair = values.where(system=first, against=second)
        loses = f"; in Rel Loss negative where {first} loses less"
        columns = [
            *(Head((name,), {"system": name, "against": ""}, PLAIN) for name in (first, second)),
            *difference_heads(settings.correction, {"system": first, "against": second}),
        ]
        yield pivot(
            values,
            f"{heading}: {first} - {second}{loses * bool(pair.where(figure='rel_loss'))}",
            ("figure", ""),
            [
                Head(
                    (FIGURES[row.figure].title, row.group),
                    {"figure": (row.figure, "score"), "group": row.group},
                )
                for row in pair
            ],
            columns,
            ruled=1,
            label=f"{label} {first} minus {second}",
        )


def difference_heads(
    correction: str, where: Mapping[str, object], title: str = "difference"
) -> list[Head]:
    """Return the columns of a difference: its value, interval and p; `where` names the figure."""
    return [
        Head((title,), where, VALUE),
        Head(("interval",), where, LABELLED_ENDS),
        Head((f"p ({correction})",), where, P_VALUE),
    ]


def lead_table(figures: Figures, measure: Measure, settings: Settings, reference: str) -> Table:
    """Return every system's leads over a reference, and their differences between groups.

    Args:
        figures: the figures of a comparison with the reference, of one shift by one measure.
        measure: the measure.
        settings: the level of the intervals and the correction.
        reference: the reference.
    """
    shift = get_shift(figures[0].shift)
    leads = [name for name, kind in FIGURES.items() if kind.is_lead]
    scores = figures.where(figure=[name for name in COMPARED if name != "rel_loss"], against="")
    values = Figures([*scores, *figures.where(figure=leads)])
    return pivot(
        values,
        f"{shift.name}, {measure.mean_name}{scale_of([measure])}: lead over {reference}",
        ("system", ""),
        [
            Head((system, line), {"system": system, "figure": figure}, shown)
            for system in sorted(values.names("system"), key=lambda name: name != reference)
            for line, figure, shown in _lines(values.where(system=system), settings)
        ],
        heads_of(values, "group"),
        ruled=1,
        label=f"{shift.name} {measure} leads over {reference}",
    )


def _overview(figures: Figures, heading: str, reference: str, label: str) -> Table:
    """Return the averages of every system, marked if significantly different from the reference."""
    averages = figures.where(figure=COMPARED, group=WHOLE)
    (average,) = averages.names("group")
    alone = with_marks_of(figures.where(group=WHOLE), reference).where(figure=COMPARED)
    compared = {reference, *figures.where(group=WHOLE, against=reference).names("system")}
    names = [name for name in averages.names("system") if name != reference]
    rows = [Head((name,), {"system": name}) for name in (reference, *names) if name in compared]
    columns = [
        Head((FIGURES[name].title,), {"figure": name}, VALUE) for name in averages.names("figure")
    ]
    label = f"{label} against {reference}"
    table = pivot(alone, heading, ("system",), rows, columns, label=label)
    marks = sorted({cell.mark for row in table.rows for cell in row} - {""})
    what = f"{' or '.join(marks)} differs from" if marks else "compared with"
    return replace(
        table, title=f"{heading}: {average}, {what} {reference}", sections=frozenset({1})
    )


def _rank_table(
    values: Figures, ranks: Figures, shift: Shift, measure: Measure, label: str
) -> Table:
    def places(figure: Figure) -> str:
        return "-" if figure.value is None else f"{figure.low:.0f}-{figure.high:.0f}"

    return pivot(
        Figures([*values.where(figure="rel_loss", group=WHOLE, against=""), *ranks]),
        f"{shift.title} ({shift.name}): average Rel Loss in {measure}",
        ("system",),
        heads_of(ranks, "system"),
        [
            Head(("rank",), {"figure": "rank"}, number(0)),
            Head(("range",), {"figure": "rank"}, Format(places)),
            Head(("Rel Loss",), {"figure": "rel_loss"}, PLAIN),
            Head(("interval",), {"figure": "rel_loss"}, LABELLED_ENDS),
        ],
        label=f"{label} ranks",
    )


def extra_tables(figures: Figures, settings: Settings) -> Iterator[Section]:
    """Yield one section, with a table per extra test set and shift: a row per system and model."""
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
        tables.append(
            pivot(
                values,
                title + scale_of(measures, ", means"),
                ("system", "without"),
                rows,
                columns,
                ruled=1,
                label=f"{test} {name}",
            )
        )
    yield Section(tables)


def change_tables(figures: Figures, settings: Settings) -> Iterator[Section]:
    """Yield one section: losses on changed queries, and whether the shift increases them."""
    level = level_text(settings.confidence)
    lost, added = {"figure": "loss_by_change"}, {"figure": "out_minus_in"}
    of_losses = [
        Head(("queries",), lost, QUERIES),
        Head(("as is",), {"figure": "as_is"}, VALUE),
        Head(("changed",), {"figure": "changed"}, VALUE),
        Head(("loss",), lost, VALUE),
        Head((level,), lost, ENDS),
        Head(("p",), lost, P_VALUE),
    ]
    of_groups = [
        Head(("queries",), added, QUERIES),
        Head(("In",), {"figure": "loss_by_change_in"}, PLAIN),
        Head(("Out",), {"figure": "loss_by_change_out"}, PLAIN),
        Head(("Out - In",), added, VALUE),
        Head((level,), added, ENDS),
        Head(("p",), added, P_VALUE),
        Head(("Rel Loss as is",), {"figure": "rel_loss"}, PLAIN),
        Head(("Rel Loss changed",), {"figure": "rel_loss_changed"}, PLAIN),
    ]
    tables: list[Table] = []
    for (test, name, of_measure), part in figures.each("test", "shift", "measure"):
        measure, shift = parse_measure(of_measure), get_shift(name)
        about = f"{test}, {shift.title} ({name}), {measure.mean_name}{scale_of([measure])}"
        without = "trained on" if shift.by_size else "without"
        by_method = Figures([row for row in part if not row.group and row.slice])
        by_model, by_group = part.where(group="", slice=""), part.where(model="")
        tables += [
            pivot(
                rows,
                f"{about}: {title}",
                ("system", corner),
                heads_of(rows, "system", by),
                columns,
                ruled=1,
                label=f"{test} {name} {of_measure}{end}",
            )
            for rows, by, corner, title, columns, end in (
                (by_model, "model", without, "loss of each model", of_losses, ""),
                (
                    by_method,
                    "slice",
                    "method",
                    "by method, mean over models",
                    of_losses,
                    " methods",
                ),
                (by_group, "group", "group", "does the shift add to it?", of_groups, " groups"),
            )
            if rows
        ]
    yield Section(tables)


def leakage_tables(figures: Figures, settings: Settings) -> Iterator[Table]:
    """Yield a table per shift and measure: figures with and without the leaked queries.

    Args:
        figures: the figures with and without leaked queries, and their differences.
        settings: the level of the intervals.
    """
    level = f"{level_text(settings.confidence)} interval"
    differing = figures.where(slice="all minus not leaked")
    for (name, of_measure), part in differing.each("shift", "measure"):
        measure = parse_measure(of_measure)
        rows = [
            Head((system, line), {"system": system, "figure": figure, "slice": slice_}, shown)
            for (system, figure), _ in part.each("system", "figure")
            for line, slice_, shown in (
                (FIGURES[figure].title if name else "all", "", PLAIN),
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
