"""Links between Rel Loss and the similarity of groups, and predictions for new queries."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from msshift_bench.analysis.group_links import (
    ALL_GROUPS,
    Link,
    find_links,
    link_claims,
    link_notes,
    link_section,
    link_text,
)
from msshift_bench.analysis.query_links import (
    distribution,
    query_claims,
    query_notes,
    query_section,
)
from msshift_bench.arrays import Floats
from msshift_bench.data import DataInfo, Dataset, open_dataset
from msshift_bench.errors import DataError, UsageError, first_few
from msshift_bench.evaluation import (
    Measure,
    Note,
    Result,
    RunSetsSource,
    Scores,
    Section,
    Settings,
    SettingsSource,
    by_shift,
    estimates_of,
    evaluate_run_sets,
    interval_sources,
    open_run_sets,
    parse_measure,
)
from msshift_bench.output import PERCENT_ENDS, QUERIES, REL_LOSS, Format, Head, heads_of, pivot
from msshift_bench.shifts import DATASET_NAME, ShiftNames, as_list, get_shift, shift_names
from msshift_bench.similarity import (
    GROUP_SPLITS,
    INDICATORS,
    IndicatorOptions,
    QuerySource,
    Similarity,
    find_indicator,
    group_similarity,
    open_models,
    read_query_set,
    set_similarity,
)
from msshift_bench.stats import (
    FEWEST_GROUPS,
    UNTESTED,
    Claim,
    Figure,
    Figures,
    Inference,
    detectable_loss,
    infer,
)

_PLANNED_SEEDS = (2, 3, 5, 10)
_SEEDS = Format("{0.seeds}".format)

_NEW_QUERIES = "new queries"
"""Test set name of predictions."""

_LEGEND = (
    "slope x 100: points of Rel Loss per 1 of the indicator; p by Student's t with groups - 2 "
    "degrees of freedom; [95% intervals]; p of rank correlations is exact for up to 8 groups, "
    "before its correction (docs/statistics.md)"
)


def analyse_run_sets(
    runs: RunSetsSource,
    data: Dataset | str | Path = DATASET_NAME,
    shifts: ShiftNames = (),
    settings: SettingsSource = None,
    *,
    indicators: str | Sequence[str] = (),
    split: str = "test",
    bins: int = 6,
    allow: str | Collection[str] = (),
    **options: Unpack[IndicatorOptions],
) -> Result:
    """Evaluate run sets, and link their Rel Losses to the similarity of the groups.

    Args:
        runs: one or several folders with run sets of one or several systems; or opened run sets
            with their data.
        data: the built data set, see `open_dataset`.
        shifts: only these; if empty, all shifts in the folders except shifts by size.
        settings: measures, policies and statistics; queries missing from a run score 0.
        indicators: the indicators; by default all that need only the queries.
        split: the queries of a group that count for its similarity; see `group_similarity`.
        bins: see `analyse_report`.
        allow: errors to ignore, see `evaluate_run_sets`.
        **options: options of the indicators, see `group_similarity`; each indicator gets only the
            options that it accepts.

    Returns:
        The analysis; see `analyse_report`.

    Raises:
        RunError: if a run file is missing or malformed, or was made on other data.
        DataError: as in `analyse_report`.
        UsageError: as in `analyse_report`, or if an indicator lacks a required option, or no
            indicator accepts an option.
        UnknownNameError: for an unknown shift, indicator or split.
        NotFoundError: if a folder or the data set does not exist.

    Examples:
        >>> result = analyse_run_sets("runs", shifts=["wh-words"], indicators=["weighted-jaccard"])
        >>> result.notes[0].text
        'These data cannot show a link between weighted-jaccard and the Rel Loss in RR@10.'
    """
    chosen = _options_by_indicator(as_list(indicators), options)
    settings = Settings.of(settings)
    opened = open_run_sets(runs, data, shifts, settings.run_format)
    dataset = open_dataset(data if opened.dataset is None else opened.dataset)
    named = shift_names(shifts, known=dataset.shifts)
    report = evaluate_run_sets(opened, settings=settings, allow=allow)
    for of_indicator in chosen.values():
        models = of_indicator.get("models")
        if isinstance(models, str | Path):
            folder = Path(models).resolve()
            known = [part for part in opened.run_sets if part.folder.is_relative_to(folder)]
            of_indicator["models"] = known or open_models(models, dataset.manifest.shifts)
    # The groups of a shift by size are training sets for one test set: they have no similarity.
    scores = [
        part
        for part in report.scores
        if not get_shift(part.shift_name).by_size or part.shift_name in named
    ]
    report = replace(report, scores=scores)
    similarities = [
        similarity
        for shift in dict.fromkeys(part.shift_name for part in scores)
        for indicator, its_options in chosen.items()
        for similarity in group_similarity(dataset, shift, indicator, split=split, **its_options)
    ]
    return analyse_report(report, similarities, split=split, bins=bins)


def _options_by_indicator(indicators: Sequence[str], options: IndicatorOptions) -> dict[str, Any]:
    names = indicators or [name for name, row in INDICATORS.items() if not row.needs]
    rows = [find_indicator(name) for name in names]
    for name in options:
        if not any(name in row.options for row in rows):
            takers = [row.name for row in INDICATORS.values() if name in row.options]
            raise UsageError(
                f"none of the indicators {', '.join(names)} accepts the option {name!r}; leave it "
                f"out, or add one of {', '.join(takers)}"
            )
    return {
        row.name: {name: value for name, value in options.items() if name in row.options}
        for row in rows
    }


def link_losses(
    figures: Iterable[Figure],
    source: str = "figures",
    *,
    remarks: str | Iterable[str] = (),
    further: Iterable[Claim] = (),
) -> Result:
    """Fit and test the links between losses and similarities.

    Args:
        figures: the ``rel_loss`` of each system on each group in a measure, as fractions; and the
            ``similarity`` of each group, with the indicator in ``against`` and the compared
            queries in ``slice``: ``test``, ``train`` or ``all``. Similarities with another
            ``slice`` are ignored.
        source: a short description of the figures, for the settings of the result.
        remarks: further notes for the result.
        further: further claims of the same call; all verdicts of a call are one family of tests.

    Returns:
        The links of each measure with each indicator, for each shift with at least 3 groups. With
        several shifts, also the links over the groups of all shifts.

    Raises:
        DataError: if a system or an indicator lacks a group that another has, or has two figures
            for a group; if a value is not finite, there are fewer than 3 groups, or all groups are
            equally similar.

    Examples:
        >>> loss = Figure("rel_loss", shift="topics", system="mine", measure="RR@10")
        >>> near = Figure("similarity", shift="topics", against="overlap", slice="test")
        >>> losses, values = {"C0": 0.1, "C1": 0.3, "C2": 0.2}, {"C0": 0.5, "C1": 0.2, "C2": 0.4}
        >>> rows = [loss._replace(group=group, value=losses[group]) for group in losses]
        >>> rows += [near._replace(group=group, value=values[group]) for group in values]
        >>> round(link_losses(rows).figures.first(figure="slope").value, 3)
        -0.643
    """
    points = Figures(as_list(figures))
    links = find_links(points)
    if not links:
        counts = ", ".join(
            f"{shift} has {len(rows.names('group'))}"
            for (shift,), rows in points.where(figure="similarity", slice=GROUP_SPLITS).each(
                "shift"
            )
        )
        counts = counts or f"no similarity has a slice among {', '.join(GROUP_SPLITS)}"
        raise DataError(
            f"a link needs at least {FEWEST_GROUPS} groups, but {counts}; "
            "analyse a shift with more groups, or several shifts at once"
        )
    claims = [claim for link in links for claim in link_claims(link)]
    inference = Inference()
    figures = infer([*claims, *as_list(further)], inference)
    notes = [
        *(note for link in links for note in link_notes(link, figures, link.losses_in(points))),
        Note(_LEGEND),
        *(Note(remark, "data") for remark in as_list(remarks)),
    ]
    settings = {
        "source": source,
        "confidence": inference.confidence,
        "correction": inference.correction,
    }
    return Result("analysis", Figures([*points, *figures]), settings, DataInfo(), notes, _sections)


def analyse_report(
    report: Result,
    similarities: Similarity | Sequence[Similarity],
    *,
    split: str = "test",
    bins: int = 6,
) -> Result:
    """Link the systems' Rel Losses to the similarity of the groups and of their queries.

    Systems that were not trained per group have no Rel Loss and are left out.

    Args:
        report: a result of `evaluate_run_sets`, with all run files.
        similarities: results of `group_similarity` for one or several indicators, for every shift
            of the report.
        split: the queries of the groups that the similarities compare.
        bins: the number of intervals for the losses of queries, at least 2.

    Returns:
        The analysis. Shifts with fewer than 3 groups are analysed together with others only.

    Raises:
        DataError: if no system was trained per group, a run file or a Rel Loss is missing, or
            there are fewer than 3 groups in all. Or if a similarity is NaN or lacks values of test
            queries.
        UsageError: if a shift has no similarity, `bins` is below 2, or the report was computed
            with ``missing="skip"``.

    Examples:
        >>> report = evaluate_run_sets("runs", shifts=["wh-words"])
        >>> result = analyse_report(report, group_similarity("msshift", "wh-words"))
        >>> slope = result.figures.first(figure="slope", system="dense")
        >>> slope.against, slope.measure, slope.counts
        ('weighted-jaccard', 'RR@10', 'groups')
    """
    if report.settings["missing"] == "skip":
        raise UsageError(
            "an analysis needs all systems on the same queries, but the report has "
            "missing='skip'; evaluate with missing='zero': queries missing from a run score 0"
        )
    measures = [parse_measure(name) for name in report.settings["measures"]]
    systems = [scores for scores in report.scores if scores.trained_per_group]
    trained = by_shift(systems)
    if not trained:
        raise DataError(
            "no system was trained once per held-out group, so there is no Rel Loss; add run sets "
            "with a run file for every held-out group"
        )
    similarities = [value for value in as_list(similarities) if value.shift in trained]
    lacking = trained.keys() - {value.shift for value in similarities}
    if lacking:
        raise UsageError(
            f"the groups of {', '.join(sorted(lacking))} have no similarity; compute it with "
            "group_similarity"
        )
    points = [
        row
        for scores in systems
        for measure in measures
        for row in _losses(report.figures, scores, measure)
    ]
    points += [value.figure._replace(slice=split, queries=None) for value in similarities]
    source = f"run sets of {', '.join(dict.fromkeys(scores.system for scores in systems))}"
    claims = list(_query_claims(trained, similarities, measures, bins))
    links = link_losses(points, source, further=claims)
    # `link_losses` puts the figures of further claims last, in order.
    of_queries = Figures(links.figures[len(links.figures) - len(claims) :])
    notes = [
        note
        for _, linked in of_queries.each("measure", "shift", "against")
        if linked[0].figure != "distribution"
        for note in query_notes(linked)
    ]
    plans = [
        row for measure in measures for scores in systems for row in _detectable(scores, measure)
    ]
    notes += _legends(of_queries, Figures(plans))
    warnings = *report.warnings, *_few_groups(trained, links.figures)
    notes += [Note(text, "doubt") for text in warnings]
    return replace(
        links,
        figures=Figures([*links.figures, *plans]),
        data=report.data,
        notes=[*links.notes, *notes],
    )


def _losses(figures: Figures, scores: Scores, measure: Measure) -> list[Figure]:
    """Return the Rel Loss of a system on each group of a shift.

    Raises:
        DataError: if a group has no Rel Loss.
    """
    shift = get_shift(scores.shift_name)
    losses = figures.where(
        figure="rel_loss",
        shift=shift.name,
        system=scores.system,
        measure=measure.name,
        group=tuple(shift.groups),
        slice="",
    )
    known = [row.group for row in losses if row.value is not None]
    without = [group for group in shift.groups if group not in known]
    if scores.missing_files or without:
        raise DataError(
            f"{scores.system} has no Rel Loss in {measure} on "
            f"{', '.join(without) or 'the groups of its missing run files'} of {shift.name}; "
            "complete its run files, or leave out the system, the measure or the shift"
        )
    return [row._replace(**UNTESTED) for row in losses]


def _query_claims(
    trained: Mapping[str, Sequence[Scores]],
    similarities: Sequence[Similarity],
    measures: Sequence[Measure],
    bins: int,
) -> Iterator[Claim]:
    """Yield the claims about single queries, for the indicators with a value per query."""
    values: dict[tuple[str, str], dict[str, Floats]] = {}
    for similarity in similarities:
        scores, group = trained[similarity.shift][0], similarity.group
        if similarity.query_ids and group in scores.groups:
            in_order = _in_order(similarity, scores.ids_of(group))
            values.setdefault((similarity.shift, similarity.indicator), {})[group] = in_order
    for (shift, indicator), of_groups in values.items():
        yield from map(Claim, distribution(Figure("", shift=shift, against=indicator), of_groups))
    for measure in measures:
        for (shift, indicator), of_groups in values.items():
            yield from query_claims(indicator, trained[shift], measure, of_groups, bins=bins)


def _in_order(similarity: Similarity, query_ids: Sequence[str]) -> Floats:
    """Return the values in this order, ``[queries]``; DataError if a query has no finite value."""
    known = dict(zip(similarity.query_ids, similarity.values, strict=True))
    values = np.array([known.get(query_id, math.nan) for query_id in query_ids], np.float64)
    lacking = [query_ids[int(place)] for place in np.flatnonzero(~np.isfinite(values))]
    if lacking:
        raise DataError(
            f"{similarity.indicator} has no value for {len(lacking):,} of the {len(query_ids):,} "
            f"test queries of {similarity.group} ({first_few(lacking, 3)}); compute it for the "
            "test queries of this data set"
        )
    return values


def _detectable(scores: Scores, measure: Measure) -> Iterator[Figure]:
    """Yield the Rel Loss of each group that is detectable in 80 of 100 repetitions.

    A repetition draws other queries and other seeds. The variance from queries is estimated per
    group. The variance from seeds is the mean over the groups, as one group has few seeds. With a
    single seed, the variance from seeds is unknown, so other numbers of seeds are left out. So are
    groups without an error estimate.
    """
    estimates = estimates_of(scores, measure, scores.groups, "macro")
    errors = {}
    for group in scores.groups:
        loss = estimates[group]["rel_loss"]
        known = None if loss is None else loss.uncertainty()
        if known is not None:
            errors[group] = known
    of_system = Figure("", shift=scores.shift_name, system=scores.system, measure=measure.name)
    mean = np.mean([error.trained.scale**2 for error in errors.values()] or [0.0])
    seeds = len(scores.seeds)
    for group, error in errors.items():
        row = of_system._replace(group=group, queries=len(scores.groups[group]))
        error = replace(error, trained=error.trained._replace(scale=float(mean) ** 0.5))
        yield row._replace(figure="detectable", value=detectable_loss(error), seeds=seeds)
        for planned in _PLANNED_SEEDS if seeds > 1 else ():
            value = detectable_loss(error, planned_seeds=planned)
            yield row._replace(figure="detectable_with_seeds", value=value, seeds=planned)


def _legends(of_queries: Figures, plans: Figures) -> Iterator[Note]:
    about = {"figure": "detectable"}
    yield Note(
        "detects: the smallest Rel Loss that a test of one group at 5% finds in 80 of 100 "
        "repetitions with other queries and other seeds, by the variances of these systems; the "
        "next columns: the same with other numbers of seeds; - : not even a Rel Loss of 100%",
        about=about,
    )
    if 1 in plans.names("seeds"):
        yield Note(
            "with one seed, only the variance between queries counts; train with two or more seeds "
            "to include the variance between seeds",
            about=about,
        )
    losses = of_queries.where(figure="rel_loss")
    if losses:
        yield Note(
            "[95% intervals] of losses by intervals of an indicator count "
            f"{interval_sources(losses)}; slopes inside the groups: p by Student's t with "
            "groups - 1 degrees of freedom"
        )


def _few_groups(trained: Iterable[str], figures: Figures) -> Iterator[str]:
    """Yield a warning for each shift with too few groups for a link."""
    linked = " and ".join(figures.where(figure="slope").names("shift")).split(" and ")
    for shift in trained:
        groups = len(get_shift(shift).groups)
        if groups < FEWEST_GROUPS:
            yield f"{shift} has {groups} groups, too few for a separate link" + (
                "; they count in the link over all shifts" if shift in linked else ""
            )


_SIZE_RATIO = 2
"""Largest ratio of queries between test sets of similar size."""


def predict_losses(
    analysis: Result,
    train: QuerySource,
    test: QuerySource,
    *,
    link: Link | None = None,
    extrapolate: bool = False,
    **options: Unpack[IndicatorOptions],
) -> Result:
    """Predict the Rel Loss on new test queries from their similarity to training queries.

    Args:
        analysis: a result of `analyse_run_sets`, `analyse_report` or `link_losses`.
        train: the training queries; see `set_similarity`.
        test: the new test queries; see `set_similarity`.
        link: a link of `find_links`; by default the link over the most groups, for the first
            indicator and the first measure.
        extrapolate: predict also where the similarity is outside the range of the fitted groups.
        **options: options of the indicator, the same as for the link; see `set_similarity`. Texts
            are split into words as in the analysed data set.

    Returns:
        The analysis with figures for the test set "new queries": their ``similarity``; every
        system's predicted Rel Loss (``foretold``) with its 95% prediction interval; and the value
        of the ``line`` with the line's 95% interval. The prediction interval contains the Rel Loss
        of a new group in 95% of cases, if it scatters about the line like the fitted groups.

    Raises:
        DataError: if the similarity is outside the fitted range (unless `extrapolate`), or the
            queries cannot be read.
        NotFoundError: if a file does not exist.
        UsageError: if there is no link, an option is missing, or the indicator needs judgements.

    Examples:
        >>> link = analyse_run_sets("runs", shifts=["wh-words"], indicators=["weighted-jaccard"])
        >>> train, test = {"1": "who is pope"}, {"8": "who is the pope"}
        >>> result = predict_losses(link, train, test, extrapolate=True)
        >>> foretold = result.figures.first(figure="foretold", system="dense")
        >>> foretold.test, foretold.low < foretold.value < foretold.high
        ('new queries', True)
    """
    link = link or _widest(find_links(analysis.figures))
    if find_indicator(link.against).needs == "encoder" and not options.get("encoder"):
        raise UsageError(
            f"{link.against} needs the encoder of the analysis, but none is given; add it with "
            "--encoder (encoder=...)"
        )
    training, tested = read_query_set(train), read_query_set(test)
    value = set_similarity(
        *(training, tested, link.against), words=analysis.data.words, **options
    ).value
    lowest, highest = float(link.similarities.min()), float(link.similarities.max())
    fitted = f"{lowest:.4g} to {highest:.4g}"
    inside = lowest <= value <= highest
    if not inside and not extrapolate:
        raise DataError(
            f"{link.against} of the new queries is {value:.4g}, outside the range of the link's "
            f"{len(link.groups)} groups, {fitted}; add --extrapolate (extrapolate=True) to extend "
            "the line"
        )
    similarity = link.named("similarity", "")._replace(test=_NEW_QUERIES, group="")
    rows = [similarity._replace(value=value, queries=len(tested))]
    for system in link.losses:
        line = link.line(system)
        row = similarity._replace(system=system, value=float(line.at(value)))
        for figure, of_a_group in (("foretold", True), ("line", False)):
            low, high = map(float, line.interval(value, of_a_group=of_a_group))
            rows.append(row._replace(figure=figure, low=low, high=high))
    policy = (
        f"by the link over {len(link.groups)} groups of {link.shift}, fitted from {fitted}",
        "the prediction interval contains the Rel Loss of a new group in 95% of cases, if it "
        "scatters about the line like these groups",
    )
    warnings = []
    verdict = link.verdict(analysis.figures)
    if not verdict.mark:
        warnings.append(f"{link_text(verdict)} The prediction is therefore unreliable.")
    if not inside:
        warnings.append(
            f"extrapolated: {value:.4g} is outside the fitted range, {fitted}; the intervals "
            "assume that the line continues"
        )
    sizes = [row.queries for row in link.losses_in(analysis.figures) if row.queries is not None]
    if sizes and not min(sizes) / _SIZE_RATIO <= len(tested) <= max(sizes) * _SIZE_RATIO:
        warnings.append(
            f"the link was fitted to test sets of {min(sizes):,} to {max(sizes):,} queries, but "
            f"the new test set has {len(tested):,}; indicators that count words depend on the "
            "number of queries, and small sets scatter more"
        )
    about = {"figure": "foretold"}
    notes = [
        *analysis.notes,
        *(Note(text, "policy", about) for text in policy),
        *(Note(text, "doubt", about) for text in warnings),
    ]
    return replace(analysis, figures=Figures([*analysis.figures, *rows]), notes=notes)


def _widest(links: Sequence[Link]) -> Link:
    """Return the link over the most groups, for the first indicator and the first measure.

    Raises:
        UsageError: if there is no link.
    """
    if not links:
        raise UsageError("the analysis has no link for a prediction; analyse run sets first")
    against, measure = links[0].against, links[0].measure
    same = [link for link in links if (link.against, link.measure) == (against, measure)]
    return max(same, key=lambda link: len(link.groups))


def _sections(figures: Figures) -> Iterator[Section]:
    """Yield the tables of links, of losses of queries, of detectable losses, and of predictions."""
    for link in find_links(figures):
        yield link_section(link, figures)
    of_queries = figures.where(group=ALL_GROUPS)
    intervals = of_queries.where(figure="rel_loss")
    for (measure, shift, indicator), _ in intervals.each("measure", "shift", "against"):
        about = {"measure": measure, "shift": shift, "against": indicator}
        yield query_section(of_queries.where(**about), about)
    for measure in figures.where(figure="detectable").names("measure"):
        yield _detectable_section(figures.where(measure=measure, against=""), measure)
    if figures.where(figure="foretold"):
        yield _prediction_section(figures.where(test=_NEW_QUERIES))


def _detectable_section(figures: Figures, measure: str) -> Section:
    columns = [
        Head(("queries",), {"figure": "detectable"}, QUERIES),
        Head(("seeds",), {"figure": "detectable"}, _SEEDS),
        Head(("Rel Loss",), {"figure": "rel_loss"}, REL_LOSS),
        Head(("detects",), {"figure": "detectable"}, REL_LOSS),
        *(
            Head((f"{seeds} seeds",), {"figure": "detectable_with_seeds", "seeds": seeds}, REL_LOSS)
            for seeds in figures.where(figure="detectable_with_seeds").names("seeds")
        ),
    ]
    table = pivot(
        figures,
        f"Detectable Rel Loss in {measure}",
        ("shift", "system", "group"),
        heads_of(figures.where(figure="detectable"), "shift", "system", "group"),
        columns,
    )
    return Section([table], {"figure": "detectable", "measure": measure})


def _prediction_section(figures: Figures) -> Section:
    similarity = figures.where(figure="similarity")[0]
    predicted = figures.where(figure="foretold")
    table = pivot(
        figures,
        f"Predicted Rel Loss in {predicted[0].measure} at {similarity.against} "
        f"{similarity.value:.4f}",
        ("",),
        heads_of(predicted, "system"),
        [
            Head(("Rel Loss",), {"figure": "foretold"}, REL_LOSS),
            Head(("95% prediction interval",), {"figure": "foretold"}, PERCENT_ENDS),
            Head(("interval of the line",), {"figure": "line"}, PERCENT_ENDS),
        ],
    )
    return Section([table], {"figure": "foretold"})
