"""The tables of an analysis and of a prediction, and the notes below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msshift_bench.analysis.analysed import Analysis
from msshift_bench.analysis.binned_losses import BinnedLosses
from msshift_bench.analysis.decomposing import LossByWords
from msshift_bench.analysis.group_links import GroupLink, LinkVerdict, SystemLink
from msshift_bench.analysis.plans import DetectableLoss
from msshift_bench.analysis.predicting import Prediction
from msshift_bench.analysis.query_links import QueryLink, what_bands_count
from msshift_bench.analysis.rank_correlations import RankCorrelation
from msshift_bench.analysis.slope_tests import SlopeTest
from msshift_bench.output import Table, say_level, show_p, show_percent, show_percent_interval
from msshift_bench.similarity import find_indicator

__all__ = ["Panel", "analysis_panels", "prediction_panel"]

Panel = tuple[list[Table], list[str]]
"""Tables that belong together, and the notes below them."""


def analysis_panels(analysis: Analysis) -> list[Panel]:
    """Return the tables of an analysis, each with its verdict and its evidence below."""
    panels = [_group_panel(link) for link in analysis.group_links]
    panels += [_query_panel(link) for link in analysis.query_links]
    if analysis.losses_by_words:
        panels.append(_word_panel(analysis.losses_by_words))
    for measure in analysis.measures:
        of_measure = [one for one in analysis.detectable if one.measure == measure]
        if of_measure:
            panels.append(_plan_panel(measure, of_measure))
    if panels:
        panels[-1][1].extend([*_legend(analysis), *analysis.remarks])
    return panels


def _legend(analysis: Analysis) -> list[str]:
    """Return what the columns of links mean; it stands once, below the last table."""
    lines = [
        "slope x 100: points of Rel Loss per 1 of the indicator; p by t with groups - 2 degrees of "
        "freedom, of systems Holm-corrected; [95% intervals]; those of rank correlations invert "
        "exact tests (docs/statistics.md)"
    ]
    if any(link.mean.mixed is not None for link in analysis.group_links):
        lines.append(
            "mixed: a mixed model over queries, groups and seeds as random effects; its p by t "
            "with groups - 2 degrees of freedom. Wald forgets how few groups there are: too bold"
        )
    links = analysis.query_links
    if not links:
        return lines
    lines.append(
        f"intervals of an indicator: [95% bands] by bootstrap count {what_bands_count(links)}; "
        "slopes inside the groups: p by t with groups - 1 degrees of freedom"
    )
    control = _controls((link.shift, link.systems[0].control) for link in links)
    if control:
        lines.append(f"at equal difficulty: among queries of the same fifth by {control}")
    return lines


def _controls(of_shifts: Iterable[tuple[str, str]]) -> str:
    """Return the control of difficulty; if shifts have different ones, each with its shift."""
    controls = dict(of_shifts)
    if len(set(controls.values())) == 1:
        return next(iter(controls.values()))
    return ", ".join(f"{name} ({shift})" for shift, name in controls.items() if name)


def _verdict(verdict: LinkVerdict) -> list[str]:
    return [verdict.sentence, *verdict.evidence]


def _group_panel(link: GroupLink) -> Panel:
    many = len(link.shifts) > 1
    own: dict[str, dict[str, str]] = {}
    for point in link.points:
        name = f"{point.shift}-{point.group}" if many else point.group
        own.setdefault(point.system, {})[name] = show_percent(point.rel_loss)
        own.setdefault(link.indicator, {})[name] = f"{point.similarity:.3f}"
    groups = list(own[link.indicator])
    rows = [
        [name, *(own[name][group] for group in groups)]
        for name in (link.indicator, *(one.system for one in link.systems))
    ]
    against = f"{link.measure} against {link.indicator} of {link.split} queries"
    title = f"{link.name}: Rel Loss in {against}"
    points = Table.plain(title, ("", *groups), rows)
    links = [*link.systems, link.mean] if len(link.systems) > 1 else list(link.systems)
    mixed = any(one.mixed is not None for one in links)
    header = ["", "groups", "slope x 100", "R2", "p", "Spearman", "p", "Kendall", "p"]
    fitted = Table.plain(
        f"{link.name}: the line of {against}, and rank correlations",
        [*header, *(["mixed: t p", "Wald p"] if mixed else [])],
        [_line_row(one, mixed=mixed) for one in links],
        label=f"{title} line",
    )
    return [points, fitted], _verdict(link.verdict)


def _line_row(one: SystemLink, *, mixed: bool) -> list[str]:
    line = one.line
    low, high = line.slope_interval
    row = [
        one.system,
        str(line.groups),
        f"{100 * line.slope:z.1f} [{100 * low:z.1f}, {100 * high:z.1f}]",
        "-" if line.r_squared is None else f"{line.r_squared:.2f}",
        show_p(line.p if one.adjusted_p is None else one.adjusted_p),
        *_correlation(one.spearman),
        *_correlation(one.kendall),
    ]
    if mixed:
        found = one.mixed
        row += ["-", "-"] if found is None else [show_p(found.p), show_p(found.wald_p)]
    return row


def _correlation(found: RankCorrelation) -> list[str]:
    if found.value is None or found.interval is None:
        return ["-", "-"]
    low, high = found.interval
    return [f"{found.value:z.2f} [{low:z.2f}, {high:z.2f}]", show_p(found.p)]


def _query_panel(link: QueryLink) -> Panel:
    first = link.systems[0]
    rows = []
    for place, one in enumerate(first.bins):
        below = "" if place == len(first.bins) - 1 else "below "
        row = [f"{one.low:.4g} to {below}{one.high:.4g}", f"{one.queries:,}"]
        for system in link.systems:
            found = system.bins[place]
            row.append(f"{show_percent(found.rel_loss)} {show_percent_interval(found.band)}")
        rows.append(row)
    names = [one.system for one in link.systems]
    title = f"{link.shift}: Rel Loss in {link.measure} by {link.indicator} of the query"
    bins = Table.plain(title, (link.indicator, "queries", *names), rows)
    header = ["", "groups", "slope x 100", "p"]
    if first.control:
        header += ["at equal difficulty", "p"]
    tests = Table.plain(
        f"{link.shift}: change of Rel Loss in {link.measure} per 1 of {link.indicator}, inside "
        "the groups",
        [*header, "mixed: t p", "Wald p"],
        [_slope_row(one) for one in link.systems],
        label=f"{title} slopes",
    )
    notes = _verdict(link.verdict)
    if find_indicator(link.indicator).needs == "model":
        notes.append(
            f"{link.indicator} of each group comes from another model: the intervals mix their "
            "scales, the slopes inside the groups do not"
        )
    return [bins, tests], notes


def _slope_row(one: BinnedLosses) -> list[str]:
    row = [one.system, *_slope(one.within)]
    if one.control:
        row += _slope(one.at_equal_difficulty)[1:]
    mixed = one.mixed
    return row + (["-", "-"] if mixed is None else [show_p(mixed.p), show_p(mixed.wald_p)])


def _slope(test: SlopeTest | None) -> list[str]:
    if test is None:
        return ["-", "-", "-"]
    low, high = test.interval
    shown = f"{100 * test.slope:z.1f} [{100 * low:z.1f}, {100 * high:z.1f}]"
    return [str(test.df + 1), shown, show_p(test.p)]


def _word_panel(found: Sequence[LossByWords]) -> Panel:
    rows = [
        [
            one.shift,
            one.system,
            one.measure,
            part.words,
            f"{part.queries:,} ({100 * part.query_share:.0f}%)",
            f"{show_percent(part.rel_loss)} {show_percent_interval(part.band)}",
            _share(part.loss_share),
        ]
        for one in found
        for part in one.parts
    ]
    header = ("shift", "system", "measure", "words", "queries", "Rel Loss", "of the loss")
    shares = Table.plain("Losses by whether training queries had the words", header, rows, names=4)
    control = _controls((one.shift, one.control) for one in found)
    differences = Table.plain(
        "What queries with words never met lose more, inside the groups",
        ("shift", "system", "measure", "points", "p")
        + (("at equal difficulty", "p", "remains") if control else ()),
        [
            [
                one.shift,
                one.system,
                one.measure,
                *_slope(one.difference)[1:],
                *([*_slope(one.at_equal_difficulty)[1:], _share(one.remaining)] if control else []),
            ]
            for one in found
        ],
        names=3,
    )
    notes = ["of the loss: the part's share of all that the system loses; [95% bands] by bootstrap"]
    if control:
        notes.append(
            f"at equal difficulty: among queries of the same fifth by {control}; remains: which "
            "share of a significant difference is left then"
        )
    else:
        notes.append(
            "there is no control of difficulty: add the runs of a system that was not trained per "
            "group, such as BM25, to see how much remains at equal difficulty"
        )
    return [shares, differences], notes


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:z.0f}%"


def _plan_panel(measure: str, found: Sequence[DetectableLoss]) -> Panel:
    planned = list(dict.fromkeys(seeds for one in found for seeds in one.by_seeds))
    rows = [
        [
            one.shift,
            one.system,
            one.group,
            f"{one.queries:,}",
            str(one.seeds),
            show_percent(one.rel_loss),
            show_percent(one.now),
            *(show_percent(one.by_seeds.get(seeds)) for seeds in planned),
        ]
        for one in found
    ]
    header = ["shift", "system", "group", "queries", "seeds", "Rel Loss", "detects"]
    table = Table.plain(
        f"What these test sets can show in {measure}",
        [*header, *(f"{seeds} seeds" for seeds in planned)],
        rows,
        names=3,
    )
    notes = [
        "detects: the Rel Loss that a test of one group at 5% would find in 80 of 100 repetitions "
        "with other queries and other seeds, by the variances of these systems; then with so many "
        "seeds; - : not even the loss of everything"
    ]
    if any(one.seeds == 1 for one in found):
        notes.append(
            "with one seed, only other queries count; train with two seeds or more to know what "
            "seeds add"
        )
    return [table], notes


def prediction_panel(found: Prediction) -> Panel:
    """Return the table of a prediction and the notes below it."""
    percent = say_level(found.confidence)
    table = Table.plain(
        f"Rel Loss in {found.measure} that is to be expected at {found.indicator} "
        f"{found.similarity:.4f}",
        ("", "Rel Loss", f"{percent} prediction interval", "interval of the line"),
        [
            (
                one.system,
                show_percent(one.rel_loss),
                show_percent_interval(one.interval),
                show_percent_interval(one.line_interval),
            )
            for one in found.systems
        ],
    )
    return [table], [
        f"by the link over {found.groups} groups of {' and '.join(found.shifts)}, fitted from "
        f"{found.lowest:.4g} to {found.highest:.4g}",
        f"the prediction interval holds the loss of one more group in {percent} of cases, if it "
        "scatters about the line as these groups do",
        *found.remarks,
    ]
