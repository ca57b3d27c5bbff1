"""What is claimed of scores: names and estimates, in the order of the tables.

Source: MS-Shift (ECIR 2023), section 3.2 and Figure 2. For a group g of a shift, Avg In is the
mean over the models that saw g in training of their means on g's test queries, Out is the mean of
the model that did not, and Rel Loss = (Avg In - Out) / Avg In; Loss and Rel Loss are positive where
the held-out model is worse, also where a lower value is better. A macro average samples each
group's queries separately (queries that two groups share, a handful in ``wh-words``, count as two);
a seed's models are the same for all groups, so that their effects on different groups may cancel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msshift_bench.arrays import Floats, Ints
from msshift_bench.errors import DataError, UsageError, first_few, quoted
from msshift_bench.evaluation.measures import Measure
from msshift_bench.evaluation.scores import ScoredRun, Scores
from msshift_bench.runs import FOR_ALL
from msshift_bench.stats import FIXED, MEAN, Claim, Estimate, Figure, average, rel_loss

ALL_QUERIES = "all queries"
"""The group of an average that pools the queries of all groups."""

WHOLE = (MEAN, ALL_QUERIES)
"""The groups of an average."""

COMPARED = ("avg_in", "out", "rel_loss")
"""The figures that systems are compared by."""

Estimates = Mapping[str, Estimate | None]
"""Figure -> its estimate."""

LEAKED_SLICES = ("not leaked", "all minus not leaked")
"""The slices of figures without the queries that leaked, and of the difference."""


class LeftOut(NamedTuple):
    """Test queries that leaked into training, which figures are computed without, too.

    Attributes:
        query_ids: the queries.
        source: what found them, for the notes.
        searched: the test queries that were looked at; `None` if that is not known.
    """

    query_ids: frozenset[str]
    source: str
    searched: frozenset[str] | None = None


def check_left_out(given: object) -> None:
    """Check that a public function was given what `msshift_bench.read_left_out` returns, or `None`.

    Raises:
        UsageError: if it was given something else, such as the path of the candidates.
    """
    if not isinstance(given, LeftOut | None):
        raise UsageError(
            f"without is {quoted(given)}; read it first: without=read_left_out({quoted(given)})"
        )


def whole_of(averaged: str) -> str:
    """Return the group of an average over groups; `averaged` is a key of `stats.AVERAGES`."""
    return ALL_QUERIES if averaged == "pooled" else MEAN


def estimates_of(
    scores: Scores,
    measure: Measure,
    counted: Mapping[str, Ints],
    averaged: str,
    is_kept: NDArray[np.bool_] | None = None,
) -> dict[str, Estimates]:
    """Return group -> the figures of a system there, and on average, see `whole_of`.

    Args:
        scores: the system's scores.
        measure: one of its measures.
        counted: group -> positions of those of its queries that count.
        averaged: a key of `stats.AVERAGES`.
        is_kept: mask of the queries to average over, of all that count, ``[queries]``, which keeps
            some of each group; the others count as left out. By default all.

    Returns:
        Avg In, Out, loss and Rel Loss; ``score`` of a system that was not trained per group.
        Without groups that have no loss; empty, if none has.
    """
    sides = {
        group: pair
        for group, queries in counted.items()
        if (pair := scores.sides(measure.name, group, queries)) is not None
    }

    def mask_of(queries: Ints) -> NDArray[np.bool_] | None:
        return None if is_kept is None else is_kept[queries]

    training = scores.system if scores.trained_per_group else FIXED
    groups = {
        group: _figures(pair, training, group, measure, mask_of(counted[group]))
        for group, pair in sides.items()
    }
    if not groups:
        return {}
    if averaged == "pooled":
        inside, out = (np.concatenate(side, axis=1) for side in zip(*sides.values(), strict=True))
        mask = mask_of(np.concatenate([counted[group] for group in sides]))
        average_figures = _figures((inside, out), training, "", measure, mask)
    else:
        first = next(iter(groups.values()))
        average_figures = {
            name: average(of_group[name] for of_group in groups.values()) for name in first
        }
    return {**groups, whole_of(averaged): average_figures}


def _figures(
    sides: tuple[Floats, Floats],
    training: str,
    sample: str,
    measure: Measure,
    is_kept: NDArray[np.bool_] | None,
) -> dict[str, Estimate | None]:
    if training == FIXED:
        return {"score": Estimate.mean(sides[1], FIXED, sample, is_kept)}
    inside, out = (Estimate.mean(side, training, sample, is_kept) for side in sides)
    loss = float(measure.sign) * (inside - out)
    return {"avg_in": inside, "out": out, "loss": loss, "rel_loss": loss / inside}


def loss_claims(
    scores: Scores, measure: Measure, counted: Mapping[str, Ints], averaged: str, label: str = ""
) -> Iterator[Claim]:
    """Yield what a system scores and loses on every group of a shift, and on average.

    Args:
        scores: the system's scores.
        measure: one of its measures.
        counted: group -> positions of those of its queries that count.
        averaged: a key of `stats.AVERAGES`.
        label: the label of the queries, if they are a slice.
    """
    of_system = _named(scores, measure)._replace(slice=label)
    groups = estimates_of(scores, measure, counted, averaged)
    seeds = scores.replicates
    sizes = {group: len(queries) for group, queries in counted.items()}
    total = sum(sizes[group] for group in groups if group in sizes)
    for group, figures in groups.items():
        row = of_system._replace(group=group, seeds=seeds, queries=sizes.get(group, total))
        loss = figures.get("loss")
        paired_p, effect_size = (None, None) if loss is None else _of_these_models(loss)
        for figure, estimate in figures.items():
            tested = figure == "rel_loss"
            family = _family_by_group(row, "systems") if tested else ()
            p = paired_p if tested and seeds == 1 and group in sizes else None
            bounds = _bounds_of(figure, measure)
            yield Claim(row._replace(figure=figure), estimate, family, p, bounds)
        if loss is not None:
            yield Claim(row._replace(figure="effect_size", value=effect_size))


def _family(row: Figure, over: str) -> tuple[str, ...]:
    """Return the family of what is tested of all systems, by shift, measure and kind of figure."""
    return row.figure, row.test, row.shift, row.measure, row.slice, over


def _family_by_group(row: Figure, what: str) -> tuple[str, ...]:
    """Return the same: all groups are one family, and what is said of the whole is another."""
    return _family(row, what if row.group in WHOLE else f"{what} x groups")


def _bounds_of(figure: str, measure: Measure) -> tuple[float, float]:
    """Return the range of a figure: that of the measure, if it is a score."""
    is_score = figure in ("avg_in", "out", "score")
    return measure.bounds if is_score else (-math.inf, math.inf)


def _of_these_models(loss: Estimate) -> tuple[float | None, float | None]:
    """Return what is known of a loss of these very models.

    Returns:
        The p of the paper's paired t-test: Student's, over queries; and Cohen's d_z: the mean
        paired difference / its standard deviation over queries. Source: Cohen 1988, section 2.3.5;
        Sakai, SIGIR Forum 2014, asks for one beside every p-value. It is standardised by the spread
        of *differences*, so it is not to be read on the scale of Cohen's d for independent samples.
        It is `None` for several samples, and both are where nothing varies.
    """
    fixed = loss.with_models_fixed()
    known = fixed.uncertainty()
    if known is None:
        return None, None
    deviation = known.queries.scale * (known.queries.df + 1) ** 0.5
    has_size = deviation and len(fixed.parts) == 1
    return known.p_value(loss.value), loss.value / deviation if has_size else None


def matrix_claims(scores: Scores, measure: Measure, counted: Mapping[str, Ints]) -> Iterator[Claim]:
    """Yield the mean of every model on every group, its bounds, and how many queries are missing.

    ``tie_best`` and ``tie_worst`` are the means, had every tie been broken for the relevant
    documents, or against them; they are there only where that matters. ``missing`` counts the
    queries of a group that run files lack, over all models.
    """
    of_system = _named(scores, measure)
    for model in scores.models:
        runs = [run for (name, _), run in scores.runs.items() if name == model]
        training = FIXED if model == FOR_ALL else scores.system
        seeds = None if model == FOR_ALL else len(runs)
        for group, queries in counted.items():
            row = of_system._replace(group=group, model=model, queries=len(queries), seeds=seeds)
            estimate = Estimate.mean(scores.of(measure.name, [model], queries), training, group)
            yield Claim(row._replace(figure="model_score"), estimate, bounds=measure.bounds)
            yield from _bounds(row, runs, queries)
    for group, queries in scores.groups.items():
        missing = sum(int(run.missing[queries].sum()) for run in scores.runs.values())
        yield Claim(of_system._replace(figure="missing", group=group, value=missing))


def _bounds(row: Figure, runs: Sequence[ScoredRun], queries: Ints) -> Iterator[Claim]:
    """Yield a mean's bounds over the orders of ties, where these make a difference."""
    if not any(run.tied[queries].any() for run in runs):
        return
    sides = (
        [run.best[row.measure][queries] for run in runs],
        [run.worst[row.measure][queries] for run in runs],
    )
    known = [[scores[~np.isnan(scores)] for scores in of_runs] for of_runs in sides]
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
    """Yield the figures that systems are compared by, then how far every two are apart.

    Differences on all groups are one family, those on the whole another, for each figure and
    measure: queries are the same, and seeds of two systems are independent.

    Args:
        systems: name -> its scores, on the same queries.
        measure: the measure.
        counted: group -> positions of those of its queries that count, the same for all.
        averaged: a key of `stats.AVERAGES`.
        reference: the system to compare the others with; by default every two are compared.
        untested: pairs whose differences are not tested.
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
            # One ranking for all groups has its score in and out.
            name: {group: of.get("score", of.get(figure)) for group, of in groups.items()}
            for name, groups in estimates.items()
            if figure != "rel_loss" or systems[name].trained_per_group
        }
        of_figure = [pair for pair in pairs if known.keys() >= set(pair)]
        for name in dict.fromkeys(name for pair in of_figure for name in pair):
            for group, estimate in known[name].items():
                row = _named(systems[name], measure)._replace(
                    figure=figure,
                    group=group,
                    queries=sizes.get(group, all_queries),
                    seeds=systems[name].replicates,
                )
                yield Claim(row, estimate, bounds=_bounds_of(figure, measure))
        for first, second in of_figure:
            for group, estimate in known[first].items():
                term = known[second][group]
                seeds = [systems[name].replicates for name in (first, second)]
                row = _named(systems[first], measure)._replace(
                    figure=figure,
                    against=second,
                    group=group,
                    queries=sizes.get(group, all_queries),
                    seeds=min((count for count in seeds if count is not None), default=None),
                )
                difference = None if estimate is None or term is None else estimate - term
                family = () if (first, second) in untested else _family_by_group(row, "pairs")
                yield Claim(row, difference, family)


def run_claims(
    scores: Scores, measure: Measure, counted: Ints, reference: Scores | None = None
) -> Iterator[Claim]:
    """Yield the mean of a single run, its bounds under ties, and its lead over another run.

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
    row = _named(scores, measure)._replace(group=group, queries=values.shape[1])
    if measure.aggregate == "sum":
        yield Claim(row._replace(figure="sum", value=float(values.sum())))
        return
    mean = Estimate.mean(values, FIXED, group)
    if reference is None:
        yield Claim(row._replace(figure="score"), mean, bounds=measure.bounds)
        yield from _bounds(row, [run], counted)
        return
    term = Estimate.mean(reference.of(measure.name, [FOR_ALL], counted), FIXED, group)
    row = row._replace(figure="score", against=reference.system)
    yield Claim(row, mean - term, _family(row, "runs"))


def extra_claims(scores: Scores, measure: Measure, queries: Ints) -> Iterator[Claim]:
    """Yield the mean of every model on an extra test set, and the mean over the models.

    The models of a shift are not a sample: intervals count other queries and other seeds.

    Args:
        scores: the system's scores on the test set.
        measure: the measure.
        queries: positions of the queries that count.
    """
    of_system = _named(scores, measure)
    complete = scores.complete_models
    chosen = {model: [model] for model in scores.models}
    chosen |= {MEAN: complete} if len(complete) > 1 else {}
    for model, models in chosen.items():
        values = scores.of(measure.name, models, queries)
        values = values[:, np.isfinite(values).all(axis=0)]
        training = FIXED if model == FOR_ALL else scores.system
        row = of_system._replace(figure="score", model=model, queries=values.shape[1])
        row = row._replace(seeds=None if model == FOR_ALL else len(values))
        mean = Estimate.mean(values, training, scores.test)
        yield Claim(row, mean, bounds=measure.bounds)


def drop_claims(
    scores: Scores, measure: Measure, queries: Ints, everything: Scores
) -> Iterator[Claim]:
    """Yield what the mean over a system's models loses against one trained on everything.

    Args:
        scores: the system's scores on an extra test set; with one complete model nothing is lost.
        measure: the measure.
        queries: positions of the queries of both that count.
        everything: the scores of the same system trained on everything, which counts as it is.
    """
    complete = scores.complete_models
    if len(complete) < 2:
        return
    reference_scores = everything.of(measure.name, [FOR_ALL], queries)
    values = scores.of(measure.name, complete, queries)
    valued = np.isfinite(reference_scores).all(axis=0) & np.isfinite(values).all(axis=0)
    row = _named(scores, measure)._replace(figure="drop", model=MEAN, against=everything.system)
    row = row._replace(queries=int(valued.sum()), seeds=len(values))
    drop = rel_loss(
        Estimate.mean(reference_scores[:, valued], FIXED, scores.test),
        Estimate.mean(values[:, valued], scores.system, scores.test),
        measure.sign,
    )
    yield Claim(row, drop)


def change_claims(
    of_system: Figure, measure: Measure, plain: Floats, changed: Floats
) -> Iterator[Claim]:
    """Yield what models lose by a change of the queries: 1 - changed / as they are.

    Args:
        of_system: the names of the figures, with the number of seeds.
        measure: the measure.
        plain: scores on the queries as they are, ``[seeds, queries]``.
        changed: scores on the same queries changed.
    """
    row = of_system._replace(queries=plain.shape[1])
    before, after = (Estimate.mean(scores, of_system.system, "") for scores in (plain, changed))
    yield Claim(row._replace(figure="as_is"), before, bounds=measure.bounds)
    yield Claim(row._replace(figure="changed"), after, bounds=measure.bounds)
    row = row._replace(figure="loss_by_change")
    over = "systems x methods" if row.slice else "systems x models"
    family = _family(row._replace(slice=""), over)
    yield Claim(row, rel_loss(before, after, measure.sign), family)


def compound_claims(
    of_system: Figure,
    measure: Measure,
    groups: Mapping[str, tuple[tuple[Floats, Floats], tuple[Floats, Floats]]],
) -> Iterator[Claim]:
    """Yield whether a shift and changed queries compound: what a change costs on each side of it.

    If the held-out model loses more than those that saw the group, shift and change compound: the
    Rel Loss on changed queries is then the greater, since (1 - Rel Loss changed) / (1 - Rel Loss) =
    (1 - loss out) / (1 - loss in). The change of a query is taken as it is.

    Args:
        of_system: the names of the figures, with the number of seeds.
        measure: the measure.
        groups: group -> the scores inside and out, ``[seeds, queries]``, on its queries as they
            are, and the same on these queries changed. Groups where a mean is 0 have no losses.
    """
    figures: dict[str, dict[str, Estimate | None]] = {}
    sizes = {}
    for group, (plain, changed) in groups.items():
        before, after = (
            [Estimate.mean(side, of_system.system, group) for side in pair]
            for pair in (plain, changed)
        )
        if not all(mean.value for mean in (*before, *after)) or not plain[0].size:
            continue
        inside, out = (rel_loss(*pair, measure.sign) for pair in zip(before, after, strict=True))
        assert inside is not None
        assert out is not None
        figures[group] = {
            "loss_by_change_in": inside,
            "loss_by_change_out": out,
            "out_minus_in": out - inside,
            "rel_loss": rel_loss(before[0], before[1], measure.sign),
            "rel_loss_changed": rel_loss(after[0], after[1], measure.sign),
        }
        sizes[group] = plain[0].shape[1]
    if len(figures) > 1:
        names = next(iter(figures.values()))
        figures[MEAN] = {
            name: average(of_group[name] for of_group in figures.values()) for name in names
        }
    for group, of_group in figures.items():
        row = of_system._replace(group=group, queries=sizes.get(group, sum(sizes.values())))
        for figure, estimate in of_group.items():
            family = _family_by_group(row, "systems") if figure == "out_minus_in" else ()
            yield Claim(row._replace(figure=figure), estimate, family)


def _named(scores: Scores, measure: Measure) -> Figure:
    """Return the names that all figures of a system by a measure share."""
    return Figure("", scores.test, scores.shift_name, scores.system, measure=measure.name)


def left_out_claims(
    scores: Scores, measure: Measure, missing: str, averaged: str, without: LeftOut
) -> Iterator[Claim]:
    """Yield what figures are without some queries, and how sure the difference is.

    The figure on all queries and the one on those that are kept rest on the same scores, so that
    their difference is far surer than either. The slice of the first is ``not leaked``, that of the
    second ``all minus not leaked``.

    Args:
        scores: the scores of a system, or of a single run.
        measure: a measure; queries without a value do not count.
        missing: the policy for missing queries.
        averaged: a key of `stats.AVERAGES`.
        without: the queries to leave out.

    Raises:
        DataError: if no query of a group would be left, or some were not searched for leaks.
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
            f"{without.source} was made for other test queries: it does not say whether "
            f"{len(unknown):,} of the {len(ids):,} of {scores.system} leaked "
            f"({first_few(unknown)}); "
            "search these, too, with 'msshift leakage find'"
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
    for figure in ("avg_in", "out", "rel_loss", "score"):
        for group, figures in everything.items():
            estimate, kept_estimate = figures.get(figure), of_kept[group].get(figure)
            if estimate is None or kept_estimate is None:
                continue
            queries = sizes.get(group, sum(sizes.values()))
            rest = queries - leaked.get(group, sum(leaked.values()))
            row = _named(scores, measure)._replace(figure=figure, group=group)
            yield Claim(row._replace(slice="not leaked", value=kept_estimate.value, queries=rest))
            row = row._replace(slice="all minus not leaked", queries=queries)
            yield Claim(row, estimate - kept_estimate, _family_by_group(row, "systems"))
