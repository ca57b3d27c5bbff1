"""The tables of an analysis, and of what it foretells."""

from __future__ import annotations

from collections.abc import Iterator

from msshift_bench.analysis.group_links import ALL_GROUPS, Link, find_links
from msshift_bench.evaluation import Section
from msshift_bench.output import (
    P_VALUE,
    PERCENT_ENDS,
    QUERIES,
    REL_LOSS,
    Format,
    Head,
    heads_of,
    number,
    pivot,
    show_percent,
    show_percent_interval,
)
from msshift_bench.stats import RANK_CORRELATIONS, Figure, Figures

NEW_QUERIES = "new queries"
"""The test set of what an analysis foretells."""

LINE_FIGURES = ("groups", "slope", "slope_within_shifts", "r_squared", *RANK_CORRELATIONS)


def _slope(figure: Figure) -> str:
    return f"{100 * figure.number:z.1f} {show_percent_interval(figure.interval)}"


def _number(figure: Figure) -> str:
    return "-" if figure.value is None else f"{figure.value:z.2f}"


def _loss_with_ends(figure: Figure) -> str:
    return f"{show_percent(figure.value)} {show_percent_interval(figure.interval)}"


SLOPE = Format(_slope)
NUMBER = Format(_number)
SEEDS = Format("{0.seeds}".format)
LOSS_WITH_ENDS = Format(_loss_with_ends)


def analysis_sections(figures: Figures) -> Iterator[Section]:
    """Yield the tables of links over groups and of queries, of plans, and of new queries.

    Args:
        figures: those of `link_losses` or `analyse_report`, and of `predict_losses`.
    """
    for link in find_links(figures):
        yield _group_section(figures, link)
    of_queries = figures.where(group=ALL_GROUPS)
    intervals = of_queries.where(figure="rel_loss")
    for (measure, shift, indicator), _ in intervals.each("measure", "shift", "against"):
        about = {"measure": measure, "shift": shift, "against": indicator}
        yield _query_section(of_queries.where(**about), about)
    for measure in figures.where(figure="detectable").names("measure"):
        yield _plan_section(figures.where(measure=measure, against=""), measure)
    if figures.where(figure="foretold"):
        yield _foretold_section(figures.where(test=NEW_QUERIES))


def _group_section(figures: Figures, link: Link) -> Section:
    against = f"{link.measure} against {link.against} of {link.slice} queries"
    title = f"{link.shift}: Rel Loss in {against}"
    several = len(link.shifts) > 1
    columns = [
        Head((f"{shift}-{group}" if several else group,), {"shift": shift, "group": group})
        for shift, group in link.groups
    ]
    similarity = {"figure": "similarity", "against": link.against, "slice": link.slice}
    loss = {"figure": "rel_loss", "against": "", "measure": link.measure}
    rows = [Head((link.against,), similarity, number(3))]
    rows += [Head((system,), {**loss, "system": system}, REL_LOSS) for system in link.systems]
    points = pivot(figures, title, ("",), rows, columns)
    within = {"figure": "slope_within_shifts"}
    heights = [Head(("with heights",), within, SLOPE), Head(("p",), within, P_VALUE)]
    fitted = pivot(
        figures.where(**{**link.about, "figure": LINE_FIGURES}),
        f"{link.shift}: the line of {against}, and rank correlations",
        ("",),
        [Head((system,), {"system": system}) for system in link.losses],
        [
            Head(("groups",), {"figure": "groups"}, number(0)),
            Head(("slope x 100",), {"figure": "slope"}, SLOPE),
            Head(("R2",), {"figure": "r_squared"}, NUMBER),
            Head(("p",), {"figure": "slope"}, P_VALUE),
            *(heights if several else []),
            Head(("Spearman",), {"figure": "spearman"}, NUMBER),
            Head(("p",), {"figure": "spearman"}, P_VALUE),
            Head(("Kendall",), {"figure": "kendall"}, NUMBER),
            Head(("p",), {"figure": "kendall"}, P_VALUE),
        ],
        label=f"{title} line",
    )
    return Section([points, fitted], link.about)


def _query_section(figures: Figures, about: dict[str, str]) -> Section:
    shift, measure, indicator = about["shift"], about["measure"], about["against"]
    parts = figures.where(figure="similarity")
    systems = figures.where(figure="rel_loss").names("system")
    rows = []
    for part in parts:
        low, high = part.interval or (0.0, 0.0)
        below = "" if part is parts[-1] else "below "
        rows.append(Head((f"{low:.4g} to {below}{high:.4g}",), {"slice": part.slice}))
    title = f"{shift}: Rel Loss in {measure} by {indicator} of the query"
    columns = [Head(("queries",), {"figure": "similarity"}, QUERIES)]
    columns += [
        Head((system,), {"figure": "rel_loss", "system": system}, LOSS_WITH_ENDS)
        for system in systems
    ]
    bins = pivot(figures, title, (indicator,), rows, columns)
    tests = pivot(
        figures,
        f"{shift}: change of Rel Loss in {measure} per 1 of {indicator}, inside the groups",
        ("",),
        [Head((system,), {"system": system}) for system in systems],
        [
            Head(("groups",), {"figure": "groups"}, number(0)),
            Head(("slope x 100",), {"figure": "slope_inside_groups"}, SLOPE),
            Head(("p",), {"figure": "slope_inside_groups"}, P_VALUE),
        ],
        label=f"{title} slopes",
    )
    return Section([bins, tests], {"figure": "slope_inside_groups", **about})


def _plan_section(figures: Figures, measure: str) -> Section:
    columns = [
        Head(("queries",), {"figure": "detectable"}, QUERIES),
        Head(("seeds",), {"figure": "detectable"}, SEEDS),
        Head(("Rel Loss",), {"figure": "rel_loss"}, REL_LOSS),
        Head(("detects",), {"figure": "detectable"}, REL_LOSS),
    ]
    columns += [
        Head((f"{seeds} seeds",), {"figure": "detectable_with_seeds", "seeds": seeds}, REL_LOSS)
        for seeds in figures.where(figure="detectable_with_seeds").names("seeds")
    ]
    table = pivot(
        figures,
        f"What these test sets can show in {measure}",
        ("shift", "system", "group"),
        heads_of(figures.where(figure="detectable"), "shift", "system", "group"),
        columns,
    )
    return Section([table], {"figure": "detectable", "measure": measure})


def _foretold_section(figures: Figures) -> Section:
    similarity = figures.where(figure="similarity")[0]
    foretold = figures.where(figure="foretold")
    table = pivot(
        figures,
        f"Rel Loss in {foretold[0].measure} that is to be expected at {similarity.against} "
        f"{similarity.value:.4f}",
        ("",),
        heads_of(foretold, "system"),
        [
            Head(("Rel Loss",), {"figure": "foretold"}, REL_LOSS),
            Head(("95% prediction interval",), {"figure": "foretold"}, PERCENT_ENDS),
            Head(("interval of the line",), {"figure": "line"}, PERCENT_ENDS),
        ],
    )
    return Section([table], {"figure": "foretold"})
