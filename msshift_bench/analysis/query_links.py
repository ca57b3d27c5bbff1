"""Links between the Rel Loss of single queries and their similarity to training queries.

Source: MS-Shift (ECIR 2023), section 5.2. Figure 4 draws the distributions of an indicator over
queries, and Figure 5 the Rel Loss in intervals of the indicator. Figure 6 has box plots of the
losses of single queries. The paper tests none of these. This module adds a confidence interval to
each loss of an interval, and tests the link inside the groups (`stats.slope_inside_groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from msshift_bench.analysis.group_links import (
    ALL_GROUPS,
    MEAN_OF_SYSTEMS,
    OTHER_SLOPES,
    SLOPE,
    VERDICTS,
    link_text,
    one_seed_text,
    slope_text,
)
from msshift_bench.arrays import Floats
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import (
    ALL_QUERIES,
    WITH_ENDS,
    Measure,
    Note,
    Scores,
    Section,
    estimates_of,
)
from msshift_bench.output import P_VALUE, QUERIES, Head, number, pivot
from msshift_bench.similarity import find_indicator
from msshift_bench.stats import Claim, Figure, Figures, rel_loss, slope_inside_groups

BOX = ("whisker_low", "first_quartile", "median", "third_quartile", "whisker_high", "mean")
"""Figure names of a box plot (Tukey, 1977) of the losses of single queries, in units of Avg In.
Whiskers reach at most 1.5 box lengths; ``beyond`` counts the queries outside the whiskers."""

_COLUMNS = 30


def distribution(of_indicator: Figure, values: Mapping[str, Floats]) -> Iterator[Figure]:
    """Yield a histogram of each group: the share and number of queries per column of equal width.

    A figure's `low` and `high` are the ends of its column. All groups have the same columns.

    Args:
        of_indicator: a figure with the names of the shift and the indicator.
        values: group -> the values of its test queries, ``[queries]``.
    """
    edges = np.histogram_bin_edges(np.concatenate(list(values.values())), _COLUMNS)
    for group, of_group in values.items():
        counts = np.histogram(of_group, edges)[0].tolist()
        for (low, high), count in zip(pairwise(edges.tolist()), counts, strict=True):
            share = count / (len(of_group) or 1)
            yield of_indicator._replace(
                figure="distribution", group=group, value=share, low=low, high=high, queries=count
            )


def query_claims(
    indicator: str,
    scores: Sequence[Scores],
    measure: Measure,
    values: Mapping[str, Floats],
    *,
    bins: int = 6,
) -> Iterator[Claim]:
    """Yield the losses of single queries by an indicator, and their slopes over the indicator.

    Args:
        indicator: the indicator's name.
        scores: the systems' scores on one shift, with all models.
        measure: one of their measures.
        values: group -> the indicator's values, in the order of the group's queries, ``[queries]``.
        bins: the number of intervals; there are fewer if many queries have the same value, or if
            there are fewer queries.

    Yields:
        For each interval of the indicator, its mean value and the systems' Rel Losses with box
        plots. Then, for every system and the mean of the systems, the slope inside the groups; the
        last is the verdict. There is no slope if the indicator varies in fewer than 3 groups.

    Raises:
        UsageError: if `bins` is below 2.
        DataError: if all queries have the same value, or a system has an Avg In of 0 on a group.
    """
    shared = Figure(
        "", shift=scores[0].shift_name, against=indicator, measure=measure.name, group=ALL_GROUPS
    )
    edges = _edges(shared, values, bins)
    places = {g: np.searchsorted(edges[1:-1], of, side="right") for g, of in values.items()}
    relative = {part.system: _relative_losses(part, measure, values) for part in scores}
    for interval, (low, high) in enumerate(pairwise(edges.tolist())):
        masks = {group: place == interval for group, place in places.items()}
        inside = np.concatenate([values[group][mask] for group, mask in masks.items()])
        row = shared._replace(slice=f"{low:.6g} to {high:.6g}", queries=len(inside))
        yield Claim(
            row._replace(figure="similarity", value=float(inside.mean()), low=low, high=high)
        )
        for part in scores:
            of_system = row._replace(system=part.system, seeds=len(part.seeds))
            counted = {group: part.groups[group][mask] for group, mask in masks.items()}
            pooled = estimates_of(part, measure, counted, "pooled")[ALL_QUERIES]
            yield Claim(of_system._replace(figure="rel_loss"), pooled["rel_loss"])
            lost = [relative[part.system][group][mask] for group, mask in masks.items()]
            for figure, value in _box(np.concatenate(lost)).items():
                yield Claim(of_system._replace(figure=figure, value=value))
    if len(scores) > 1:
        relative[MEAN_OF_SYSTEMS] = {
            group: np.mean([lost[group] for lost in relative.values()], axis=0) for group in values
        }
    *_, tested = relative
    for system, of_groups in relative.items():
        slope = slope_inside_groups(of_groups, values)
        if slope is not None:
            row = shared._replace(system=system)
            family = VERDICTS if system == tested else OTHER_SLOPES
            yield Claim(row._replace(figure="slope_inside_groups"), slope, family)
            yield Claim(row._replace(figure="groups", value=slope.df + 1))


def _relative_losses(scores: Scores, measure: Measure, groups: Iterable[str]) -> dict[str, Floats]:
    """Return group -> each query's loss in units of the group's Avg In, ``[queries]``.

    A query's loss is the mean over seeds. The mean over the queries is the group's Rel Loss.

    Raises:
        DataError: if Avg In of a group is 0.
    """
    relative = {}
    for group in groups:
        sides = scores.sides(measure.name, group, scores.groups[group])
        assert sides is not None  # analyse_report raises if a group has no model
        avg_in = float(sides.inside.mean())
        if not avg_in:
            raise DataError(
                f"the Avg In of {scores.system} in {measure} on {group} is 0, so the Rel Loss is "
                "undefined; choose another measure, or leave out the system"
            )
        relative[group] = rel_loss(*sides[:2], measure.sign, of=avg_in).mean(axis=0)
    return relative


def _edges(of_indicator: Figure, values: Mapping[str, Floats], bins: int) -> Floats:
    """Return the edges of non-empty intervals with about equal numbers of queries.

    Raises:
        UsageError: if `bins` is below 2.
        DataError: if all queries have the same value.
    """
    if bins < 2:
        raise UsageError(f"the number of intervals (bins) must be at least 2, got {bins}")
    pooled = np.concatenate(list(values.values()))
    edges = np.unique(np.quantile(pooled, np.linspace(0, 1, bins + 1)))
    if len(edges) < 2:
        raise DataError(
            f"all test queries of {of_indicator.shift} have the same {of_indicator.against}, "
            f"{edges[0]:.4g}, so intervals cannot be formed; choose another indicator"
        )
    # With more intervals than queries, some are empty; each is joined to the interval below.
    return np.append(edges[:-1][np.histogram(pooled, edges)[0] > 0], edges[-1])


def _box(losses: Floats) -> dict[str, float]:
    """Return figure name -> value of a box plot; see `BOX`."""
    first, median, third = np.quantile(losses, [0.25, 0.5, 0.75]).tolist()
    reach = 1.5 * (third - first)
    within = losses[(losses >= first - reach) & (losses <= third + reach)]
    ends = float(within.min()), first, median, third, float(within.max()), float(losses.mean())
    return {**dict(zip(BOX, ends, strict=True)), "beyond": float(len(losses) - len(within))}


def query_notes(figures: Figures) -> list[Note]:
    """Return the verdict on the losses of single queries, and its evidence.

    Args:
        figures: the figures of `query_claims`.
    """
    shared = figures[0]
    systems = figures.where(figure="rel_loss").names("system")
    tested = MEAN_OF_SYSTEMS if len(systems) > 1 else systems[0]
    slope = figures.first(figure="slope_inside_groups", system=tested)
    if slope is None:
        lines = [
            link_text(shared._replace(figure="slope_inside_groups")),
            f"{shared.against} differs between the queries of fewer than 3 groups, and groups are "
            "the observations",
        ]
    else:
        of = f"the mean of {len(systems)} systems" if len(systems) > 1 else tested
        count = round(figures.where(figure="groups", system=tested)[0].number)
        queries = sum(part.queries or 0 for part in figures.where(figure="similarity"))
        lines = [
            link_text(slope),
            f"slope inside the groups, {of}: {slope_text(slope, 'no p')}; t with {count - 1} "
            f"degrees of freedom: the slopes of {count} groups",
            f"{queries:,} queries of {count} groups are {count} observations",
        ]
        one_seed = one_seed_text(figures.where(figure="rel_loss"))
        if one_seed:
            lines.append(
                f"{one_seed}: the intervals of these losses count queries only; the test also "
                "counts differences between models, including the variance from seeds"
            )
    if find_indicator(shared.against).needs == "model":
        lines.append(
            f"{shared.against} of each group is computed with a different model: the intervals mix "
            "the models' scales, but the slopes inside the groups do not"
        )
    about = {"shift": shared.shift, "against": shared.against, "measure": shared.measure}
    return [Note(line, "data", {"figure": "slope_inside_groups", **about}) for line in lines]


def query_section(figures: Figures, about: dict[str, str]) -> Section:
    """Return the tables of losses in intervals of an indicator and of slopes inside the groups.

    Args:
        figures: the figures of `query_claims`.
        about: the names of the measure, the shift and the indicator.
    """
    shift, measure, indicator = about["shift"], about["measure"], about["against"]
    parts = figures.where(figure="similarity")
    systems = figures.where(figure="rel_loss").names("system")
    rows = []
    for part in parts:
        low, high = part.interval or (0.0, 0.0)
        below = "" if part is parts[-1] else "below "
        rows.append(Head((f"{low:.4g} to {below}{high:.4g}",), {"slice": part.slice}))
    title = f"{shift}: Rel Loss in {measure} by {indicator} of the query"
    columns = [
        Head(("queries",), {"figure": "similarity"}, QUERIES),
        *(Head((name,), {"figure": "rel_loss", "system": name}, WITH_ENDS) for name in systems),
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
