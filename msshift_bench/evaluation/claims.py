"""Claims about scores: names and estimates of figures, in the order of the tables.

Source: MS-Shift (ECIR 2023), section 3.2 and Figure 2. For a group g of a shift, Out is the mean on
g's test queries of the model trained without g. Avg In is the average of the means of the models
trained with g. Rel Loss = (Avg In - Out) / Avg In. Loss and Rel Loss are positive where the
held-out model is worse, also where a lower value is better. A macro average samples each group's
queries separately; a query in two groups, as a few in ``wh-words``, counts as two. A seed's models
are the same for all groups, so that their effects on different groups may cancel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import DataError, first_few
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scores import ScoredRun, Scores
from msshift_bench.evaluation.settings import LeakedQueries
from msshift_bench.runs import FOR_ALL
from msshift_bench.stats import (
    FIGURES,
    FIXED,
    MEAN,
    Claim,
    Estimate,
    Figure,
    Sides,
    average,
    compute_figures,
    rel_loss,
)

ALL_QUERIES = "all queries"
"""The group of an average that pools the queries of all groups."""

WHOLE = (MEAN, ALL_QUERIES)
"""The values of `Figure.group` of an average over groups."""

COMPARED = ("score", "avg_in", "out", "rel_loss")
"""The figures by which systems are compared."""

SIDES = ("avg_in", "out")
"""The figures of in-domain and held-out models."""

Estimates = Mapping[str, Estimate | None]
"""Kind of figure -> its estimate; `None` if undefined."""


def group_of_average(averaged: str) -> str:
    """Return the `Figure.group` of an average; `averaged` is a key of `stats.AVERAGES`."""
    return ALL_QUERIES if averaged == "pooled" else MEAN


def estimates_of(
    scores: Scores,
    measure: Measure,
    counted: Mapping[str, Ints],
    averaged: str,
    is_kept: NDArray[np.bool_] | None = None,
    reference: Scores | None = None,
) -> dict[str, Estimates]:
    """Return group -> the system's estimates, also for the average (see `group_of_average`).

    Args:
        scores: the system's scores.
        measure: one of its measures.
        counted: group -> positions of its queries that count.
        averaged: a key of `stats.AVERAGES`.
        is_kept: mask over `Scores.query_ids` of the counted queries to average over, some of each
            group; the others count as left out. By default all.
        reference: the scores of another system on the same queries.

    Returns:
        The kinds of `stats.FIGURES` with a formula for the system's sides. With a reference these
        are leads and drops. Otherwise these are Avg In, Out, loss and Rel Loss, or ``score`` for
        one model for all groups. Groups without scores on both sides are left out; `{}` if all are.
    """

    def sides_on(parts: Mapping[str, Ints], sample: str) -> Sides[Estimate] | None:
        known = _sides(scores, measure, parts, sample, is_kept)
        if known is None or reference is None:
            return known
        of_reference = _sides(reference, measure, parts, sample, is_kept)
        return known._replace(reference=of_reference, over_all=reference.is_all_of(scores))

    sides = {
        group: known
        for group, queries in counted.items()
        if (known := sides_on({group: queries}, group)) is not None
    }
    if not sides:
        return {}
    groups = compute_figures(sides, measure.sign)
    if averaged == "pooled":
        pooled = sides_on({group: counted[group] for group in sides}, "")
        assert pooled is not None
        whole = compute_figures({"": pooled}, measure.sign)[""]
    else:
        whole = {
            name: average(of_group[name] for of_group in groups.values())
            for name in next(iter(groups.values()))
            if not FIGURES[name].is_contrast
        }
    return {**groups, group_of_average(averaged): whole}


def _sides(
    scores: Scores,
    measure: Measure,
    parts: Mapping[str, Ints],
    sample: str,
    is_kept: NDArray[np.bool_] | None,
) -> Sides[Estimate] | None:
    known = [scores.sides(measure.name, group, queries) for group, queries in parts.items()]
    pairs = [side for side in known if side is not None]
    if len(pairs) < len(known):
        return None
    mask = None if is_kept is None else is_kept[np.concatenate(list(parts.values()))]

    def mean(sides: Sequence[Floats]) -> Estimate:
        return Estimate.mean(np.concatenate(sides, axis=1), scores.training, sample, mask)

    out = mean([pair.out for pair in pairs])
    return Sides(mean([pair.inside for pair in pairs]) if scores.trained_per_group else out, out)


def loss_claims(
    scores: Scores, measure: Measure, counted: Mapping[str, Ints], averaged: str, label: str = ""
) -> Iterator[Claim]:
    """Yield a claim for each figure of a system's scores and losses, by group and on average.

    Args:
        scores: the system's scores.
        measure: one of its measures.
        counted: group -> positions of its queries that count.
        averaged: a key of `stats.AVERAGES`.
        label: the label of the queries, if they are a slice.
    """
    of_system = _names_of(scores, measure)._replace(slice=label, seeds=scores.replicates)
    groups = estimates_of(scores, measure, counted, averaged)
    losses = {group: figures.get("loss") for group, figures in groups.items()}
    known = {group: _paired_t_test(loss) for group, loss in losses.items() if loss is not None}
    groups |= {group: {**groups[group], "effect_size": None} for group in known}
    sizes = {group: len(counted[group]) for group in groups if group in counted}
    for claim in _group_claims(of_system, groups, sizes, measure):
        row, (paired_p, effect_size) = claim.figure, known.get(claim.figure.group, (None, None))
        if row.figure == "effect_size":
            claim = claim._replace(figure=row._replace(value=effect_size))
        elif row.figure == "rel_loss" and row.seeds == 1 and row.group in sizes:
            claim = Claim(row, claim.estimate, claim.family, paired_p)
        if not (label and FIGURES[row.figure].is_contrast):
            yield claim


def _family(row: Figure, over: str, kind: str = "") -> tuple[str, ...]:
    """Return `Claim.family` over all systems, by shift, measure and kind of figure."""
    return kind or row.figure, row.test, row.shift, row.measure, row.slice, over


def _family_by_group(row: Figure, what: str, kind: str = "") -> tuple[str, ...]:
    """Return `Claim.family` over all systems; groups are one family, the average is another."""
    return _family(row, what if row.group in WHOLE else f"{what} x groups", kind)


def _claim(row: Figure, estimate: Estimate | None, measure: Measure) -> Claim:
    kind = FIGURES[row.figure]
    family = _family_by_group(row, kind.family[1], kind.family[0]) if kind.family else ()
    bounds = measure.bounds if kind.unit == "score" else (-math.inf, math.inf)
    return Claim(row, estimate, family, bounds=bounds)


def _paired_t_test(loss: Estimate) -> tuple[float | None, float | None]:
    """Return the paired t-test and the effect size of a loss of exactly these models.

    Returns:
        The p of the paper's paired t-test over queries, and Cohen's d_z: the mean paired difference
        / its standard deviation over queries. Source: Cohen 1988, section 2.3.5; Sakai, SIGIR Forum
        2014, asks for an effect size with every p-value. The scale of d_z is not the scale of
        Cohen's d for independent samples. d_z is `None` for several samples, and where nothing
        varies: p is then 1 for a loss of 0, else `None`. Both are `None` for fewer than 2 queries.
    """
    fixed = loss.with_models_fixed()
    known = fixed.uncertainty()
    if known is None:
        return None, None
    deviation = known.queries.scale * (known.queries.df + 1) ** 0.5
    has_size = deviation and len(fixed.parts) == 1
    return known.p_value(loss.value), loss.value / deviation if has_size else None


def matrix_claims(scores: Scores, measure: Measure, counted: Mapping[str, Ints]) -> Iterator[Claim]:
    """Yield the mean of every model on every group, its bounds, and its missing queries.

    ``tie_best`` and ``tie_worst`` are the means with every tie broken for, or against, the relevant
    documents. They are yielded only where ties change the mean. ``missing`` counts a group's
    missing queries over all models.
    """
    of_system = _names_of(scores, measure)
    for model in scores.models:
        runs = [run for (name, _), run in scores.runs.items() if name == model]
        seeds = scores.replicates and len(runs)
        for group, queries in counted.items():
            row = of_system._replace(group=group, model=model, queries=len(queries), seeds=seeds)
            values = scores.of(measure.name, [model], queries)
            estimate = Estimate.mean(values, scores.training, group)
            yield _claim(row._replace(figure="model_score"), estimate, measure)
            yield from _bounds(row, runs, queries)
    for group, queries in scores.groups.items():
        missing = sum(int(run.missing[queries].sum()) for run in scores.runs.values())
        yield Claim(of_system._replace(figure="missing", group=group, value=missing))


def _bounds(row: Figure, runs: Sequence[ScoredRun], queries: Ints) -> Iterator[Claim]:
    """Yield a mean's bounds over the orders of ties, if ties change the mean."""
    if not any(run.tied[queries].any() for run in runs):
        return
    best_of = [run.best[row.measure][queries] for run in runs]
    worst_of = [run.worst[row.measure][queries] for run in runs]
    known = [[scores[~np.isnan(scores)] for scores in of_runs] for of_runs in (best_of, worst_of)]
    if not all(scores.size for of_runs in known for scores in of_runs):
        return  # A run in which no query has a value has no mean, and no bounds.
    best, worst = (float(np.mean([scores.mean() for scores in of_runs])) for of_runs in known)
    if best != worst:
        yield Claim(row._replace(figure="tie_best", value=best))
        yield Claim(row._replace(figure="tie_worst", value=worst))


def pair_claims(
    systems: Mapping[str, Scores],
    measure: Measure,
    counted: Mapping[str, Ints],
    averaged: str,
    reference: str | None = None,
    untested: Collection[tuple[str, str]] = (),
) -> Iterator[Claim]:
    """Yield, for each figure in `COMPARED`, each system's value, then every pair's difference.

    Differences on groups are one family, differences of averages another, for each figure and
    measure. Queries are paired, and seeds of two systems are independent. Two systems with one
    model for all groups differ equally in Avg In and Out. Both families count that difference, and
    the caller drops the repeated rows.

    Args:
        systems: name -> its scores, on the same queries.
        measure: the measure.
        counted: group -> positions of its queries that count, the same for all systems.
        averaged: a key of `stats.AVERAGES`.
        reference: the system to compare the others with; by default every pair is compared.
        untested: pairs (first, second) of names whose differences are not tested.
    """
    estimates = {
        name: estimates_of(scores, measure, counted, averaged) for name, scores in systems.items()
    }
    sizes = {group: len(queries) for group, queries in counted.items()}
    all_queries = sum(sizes.values())
    pairs = list(itertools.combinations(systems, 2))
    if reference is not None:
        pairs = [(name, reference) for name in systems if name != reference]
    for figure in COMPARED:
        known = {
            name: {group: of.get("score", of.get(figure)) for group, of in groups.items()}
            for name, groups in estimates.items()
            if figure in SIDES or systems[name].trained_per_group is (figure == "rel_loss")
        }
        of_figure = [pair for pair in pairs if known.keys() >= set(pair)]
        is_valued = figure == "score" or (figure == "rel_loss" and reference is not None)
        valued = pairs if is_valued else of_figure
        for name in dict.fromkeys(name for pair in valued for name in pair if name in known):
            for group, estimate in known[name].items():
                queries, seeds = sizes.get(group, all_queries), systems[name].replicates
                row = _names_of(systems[name], measure)._replace(queries=queries, seeds=seeds)
                row = row._replace(figure=figure, group=group)
                yield _claim(row, estimate, measure)._replace(family=())
        # Over a reference, the difference of two scores is a lead.
        for first, second in of_figure if figure != "score" or reference is None else ():
            of_pair = _names_of_pair(systems[first], systems[second], measure)
            for group, estimate in known[first].items():
                term, queries = known[second][group], sizes.get(group, all_queries)
                row = of_pair._replace(figure=figure, group=group, queries=queries)
                difference = None if estimate is None or term is None else estimate - term
                family = () if (first, second) in untested else _family_by_group(row, "pairs")
                yield Claim(row, difference, family)


def lead_claims(
    systems: Mapping[str, Scores],
    measure: Measure,
    counted: Mapping[str, Ints],
    averaged: str,
    reference: str,
    untested: Collection[tuple[str, str]] = (),
) -> Iterator[Claim]:
    """Yield systems' leads over a reference, and each lead minus the leads on other groups.

    Leads are one family and their differences another, over systems, groups and sides. With two
    groups, the second difference is the negative of the first, and only the first is tested.

    Args:
        systems: name -> its scores, on the same queries.
        measure: the measure.
        counted: group -> positions of its queries that count, the same for all systems.
        averaged: a key of `stats.AVERAGES`.
        reference: the system to compare the others with.
        untested: pairs (name, `reference`) whose leads are not tested.
    """
    sizes = {group: len(queries) for group, queries in counted.items()}
    for name, scores in systems.items():
        if name != reference:
            yield from _group_claims(
                _names_of_pair(scores, systems[reference], measure),
                estimates_of(scores, measure, counted, averaged, reference=systems[reference]),
                sizes,
                measure,
                is_tested=(name, reference) not in untested,
            )


def _group_claims(
    of_system: Figure,
    groups: Mapping[str, Estimates],
    sizes: Mapping[str, int],
    measure: Measure,
    *,
    is_tested: bool = True,
) -> Iterator[Claim]:
    """Yield a claim for each figure of each group; a contrast counts the queries of all groups.

    With two groups, the second contrast is the negative of the first: only the first is tested.
    """
    all_queries = sum(sizes.values())
    for group, figures in groups.items():
        for figure, estimate in figures.items():
            is_contrast = FIGURES[figure].is_contrast
            queries = all_queries if is_contrast else sizes.get(group, all_queries)
            row = of_system._replace(figure=figure, group=group, queries=queries)
            claim = _claim(row, estimate, measure)
            if is_contrast and [*sizes][1:] == [group]:
                claim = claim._replace(family=(), repeats=len(figures))
            yield claim if is_tested else claim._replace(family=())


def slice_claims(
    scores: Scores, measure: Measure, slices: Mapping[str, Ints], reference: Scores | None = None
) -> Iterator[Claim]:
    """Yield a single run's mean or lead on each slice, and its difference from other slices.

    Each kind of figure is one family over runs and slices. Slices are samples of their own.

    Args:
        scores: as in `run_claims`.
        measure: a measure; a sum has no figures, and queries without a value do not count.
        slices: label -> positions of its queries that count; at least 2 are needed for figures.
        reference: as in `run_claims`.
    """
    parts = [scores] if reference is None else [scores, reference]
    sides, sizes = dict[str, Sides[Estimate]](), dict[str, int]()
    for label, queries in slices.items() if measure.aggregate == "mean" else ():
        values = np.stack([part.of(measure.name, [FOR_ALL], queries) for part in parts])
        values = values[..., ~np.isnan(values).any(axis=(0, 1))]
        if values.shape[-1] > 1:
            means = (Estimate.mean(of_run, FIXED, label) for of_run in values)
            of_run, *of_reference = (Sides(mean, mean) for mean in means)
            sides[label] = of_run._replace(reference=next(iter(of_reference), None))
            sizes[label] = values.shape[-1]
    if not sides:
        return
    row = _names_of(scores, measure)._replace(against="" if reference is None else reference.system)
    for claim in _group_claims(
        row, compute_figures(sides, measure.sign, of_slices=True), sizes, measure
    ):
        named = claim.figure._replace(group=next(iter(scores.groups)), slice=claim.figure.group)
        family = (*claim.family[:-1], "runs x groups") if claim.family else ()
        yield claim._replace(figure=named, family=family)


def run_claims(
    scores: Scores, measure: Measure, counted: Ints, reference: Scores | None = None
) -> Iterator[Claim]:
    """Yield the mean of a single run and its bounds under ties; or its lead over another run.

    Args:
        scores: the run's scores; its one group is the test set.
        measure: a measure; a count is summed, and has no interval.
        counted: the positions of the queries that count.
        reference: the scores of the run to compare it with, on the same queries.
    """
    (group,) = scores.groups
    (run,) = scores.runs.values()
    values = scores.of(measure.name, [FOR_ALL], counted)
    values = values[:, ~np.isnan(values[0])]
    row = _names_of(scores, measure)._replace(group=group, queries=values.shape[1])
    if measure.aggregate == "sum":
        yield Claim(row._replace(figure="sum", value=float(values.sum())))
        return
    mean = Estimate.mean(values, FIXED, group)
    if reference is None:
        yield Claim(row._replace(figure="score"), mean, bounds=measure.bounds)
        yield from _bounds(row, [run], counted)
        return
    row = row._replace(figure="score", against=reference.system)
    term = Estimate.mean(reference.of(measure.name, [FOR_ALL], counted), FIXED, group)
    yield Claim(row, mean - term, _family(row, "runs"))


def extra_claims(scores: Scores, measure: Measure, queries: Ints) -> Iterator[Claim]:
    """Yield the mean of every model on an extra test set, and the average of several.

    The models of a shift are not a sample: intervals count the choice of queries and seeds.

    Args:
        scores: the system's scores on the test set.
        measure: the measure; queries without a value do not count.
        queries: positions of the queries that count.
    """
    complete = scores.complete_models
    chosen = {model: [model] for model in scores.models}
    chosen |= {MEAN: complete} if len(complete) > 1 else {}
    for model, models in chosen.items():
        values = scores.of(measure.name, models, queries)
        values = values[:, np.isfinite(values).all(axis=0)]
        row = _names_of(scores, measure)._replace(
            figure="score",
            model=model,
            queries=values.shape[1],
            seeds=scores.replicates and len(values),
        )
        yield Claim(row, Estimate.mean(values, scores.training, scores.test), bounds=measure.bounds)


def drop_claims(
    scores: Scores, measure: Measure, queries: Ints, everything: Scores
) -> Iterator[Claim]:
    """Yield the drop of a system's average from the same system trained on everything, a fraction.

    Args:
        scores: the system's scores on an extra test set; with one complete model, no drop.
        measure: the measure.
        queries: positions of the queries of both that count.
        everything: the scores of the system trained on everything, whose seeds do not count.
    """
    complete = scores.complete_models
    if len(complete) < 2:
        return
    reference_scores = everything.of(measure.name, [FOR_ALL], queries)
    values = scores.of(measure.name, complete, queries)
    valued = np.isfinite(reference_scores).all(axis=0) & np.isfinite(values).all(axis=0)
    row = _names_of(scores, measure)._replace(figure="drop", model=MEAN, against=everything.system)
    row = row._replace(queries=int(valued.sum()), seeds=len(values))
    yield Claim(
        row,
        rel_loss(
            Estimate.mean(reference_scores[:, valued], everything.training, scores.test),
            Estimate.mean(values[:, valued], scores.training, scores.test),
            measure.sign,
        ),
    )


def change_claims(
    of_system: Figure, measure: Measure, plain: Floats, changed: Floats
) -> Iterator[Claim]:
    """Yield models' means on unchanged and changed queries, and the loss: 1 - changed / unchanged.

    Args:
        of_system: the names of the figures, with the number of seeds.
        measure: the measure.
        plain: scores on the unchanged queries, ``[seeds, queries]``.
        changed: scores on the changed queries, of the same shape.
    """
    row = of_system._replace(queries=plain.shape[1])
    before, after = (Estimate.mean(scores, of_system.system, "") for scores in (plain, changed))
    yield Claim(row._replace(figure="as_is"), before, bounds=measure.bounds)
    yield Claim(row._replace(figure="changed"), after, bounds=measure.bounds)
    row = row._replace(figure="loss_by_change")
    over = "systems x methods" if row.slice else "systems x models"
    yield Claim(row, rel_loss(before, after, measure.sign), _family(row._replace(slice=""), over))


def compound_claims(
    of_system: Figure, measure: Measure, groups: Mapping[str, Sequence[tuple[Floats, Floats]]]
) -> Iterator[Claim]:
    """Yield the loss by changed queries in and out of a shift, and whether the two compound.

    Shift and change compound if the held-out model loses more than the in-domain models. The Rel
    Loss on changed queries is then greater, since (1 - Rel Loss changed) / (1 - Rel Loss) = (1 -
    loss out) / (1 - loss in). The choice of a change is not sampled.

    Args:
        of_system: the names of the figures, with the number of seeds.
        measure: the measure.
        groups: group -> two pairs (in-domain, held-out) of scores, ``[seeds, queries]``: on its
            unchanged, then on its changed queries. Groups where a mean is 0 are left out.
    """
    figures: dict[str, dict[str, Estimate | None]] = {}
    sizes = {}
    for group, (plain, changed) in groups.items():
        before, after = (
            [Estimate.mean(side, of_system.system, group) for side in pair]
            for pair in (plain, changed)
        )
        inside, out = (rel_loss(*pair, measure.sign) for pair in zip(before, after, strict=True))
        is_lost = all(mean.value for mean in after) and plain[0].size > 0
        if inside is None or out is None or not is_lost:
            continue
        figures[group] = {
            "loss_by_change_in": inside,
            "loss_by_change_out": out,
            "out_minus_in": out - inside,
            "rel_loss": rel_loss(before[0], before[1], measure.sign),
            "rel_loss_changed": rel_loss(after[0], after[1], measure.sign),
        }
        sizes[group] = plain[0].shape[1]
    if len(figures) > 1:
        figures[MEAN] = {
            name: average(of_group[name] for of_group in figures.values())
            for name in next(iter(figures.values()))
        }
    for group, of_group in figures.items():
        row = of_system._replace(group=group, queries=sizes.get(group, sum(sizes.values())))
        for figure, estimate in of_group.items():
            claim = _claim(row._replace(figure=figure), estimate, measure)
            yield claim if figure == "out_minus_in" else claim._replace(family=())


def _names_of(scores: Scores, measure: Measure) -> Figure:
    return Figure("", scores.test, scores.shift_name, scores.system, measure=measure.name)


def _names_of_pair(first: Scores, second: Scores, measure: Measure) -> Figure:
    """Return a `Figure` with the names of two systems and the smaller number of seeds."""
    seeds = [part.replicates for part in (first, second) if part.replicates is not None]
    return _names_of(first, measure)._replace(against=second.system, seeds=min(seeds, default=None))


def leakage_claims(
    scores: Scores, measure: Measure, missing: str, averaged: str, without: LeakedQueries
) -> Iterator[Claim]:
    """Yield figures without some queries, and the difference with its interval.

    Both figures are computed from the same scores, which narrows the interval of their difference.
    The figure without these queries has the slice ``not leaked``, the difference ``all minus not
    leaked``.

    Args:
        scores: the scores of a system, or of a single run.
        measure: a measure; queries without a value do not count.
        missing: the policy for missing queries.
        averaged: a key of `stats.AVERAGES`.
        without: the queries to leave out.

    Raises:
        DataError: if no query of a group is left, or some were not searched for leaks.
    """
    counted = scores.counted(missing)
    if scores.shift is None:
        ((model, seed),) = scores.runs
        valued = ~np.isnan(scores.runs[model, seed].scores[measure.name])
        counted = {group: queries[valued[queries]] for group, queries in counted.items()}
    ids = {scores.query_ids[query] for queries in counted.values() for query in queries}
    unknown = [] if without.searched is None else sorted(ids - without.searched)
    if unknown:
        raise DataError(
            f"{without.source} was made for other test queries: {len(unknown):,} of the "
            f"{len(ids):,} queries of {scores.system} were not searched for leaks "
            f"({first_few(unknown)}); search them with 'msshift leakage find'"
        )
    is_kept = np.array([name not in without.query_ids for name in scores.query_ids], np.bool_)
    everything = estimates_of(scores, measure, counted, averaged)
    groups = [group for group in everything if group in counted]
    for group in groups:
        if not is_kept[counted[group]].any():
            name = f"{scores.shift.name}-{group}" if scores.shift else group
            raise DataError(f"every test query of {name} leaked; no score is left")
    of_kept = estimates_of(scores, measure, counted, averaged, is_kept)
    sizes = {group: len(counted[group]) for group in groups}
    leaked = {group: int((~is_kept[counted[group]]).sum()) for group in groups}
    if len(groups) < 2:
        everything = {group: everything[group] for group in groups}
    shown = [name for name, kind in FIGURES.items() if kind.is_shown and not kind.is_contrast]
    for figure in shown:
        for group, figures in everything.items():
            estimate, kept_estimate = figures.get(figure), of_kept[group].get(figure)
            if estimate is None or kept_estimate is None:
                continue
            queries = sizes.get(group, sum(sizes.values()))
            rest = queries - leaked.get(group, sum(leaked.values()))
            row = _names_of(scores, measure)._replace(figure=figure, group=group)
            yield Claim(row._replace(slice="not leaked", value=kept_estimate.value, queries=rest))
            row = row._replace(slice="all minus not leaked", queries=queries)
            yield Claim(row, estimate - kept_estimate, _family_by_group(row, "systems"))
