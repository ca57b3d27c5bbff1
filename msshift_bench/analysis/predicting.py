"""Predicting what systems will lose on new queries, from a link that was fitted before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from msshift_bench.analysis.group_links import Link, find_links, say_link
from msshift_bench.analysis.tables import NEW_QUERIES
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import Note, Result
from msshift_bench.similarity import (
    IndicatorOptions,
    QuerySource,
    find_indicator,
    read_query_set,
    set_similarity,
)
from msshift_bench.stats import Figures

__all__ = ["predict_losses"]

_ALIKE = 2
"""Test sets are of about the same size if neither is more than so many times the other."""


def predict_losses(
    analysis: Result,
    train: QuerySource,
    test: QuerySource,
    *,
    link: Link | None = None,
    extrapolate: bool = False,
    **options: Unpack[IndicatorOptions],
) -> Result:
    """Say what systems will lose on new test queries, by their similarity to training queries.

    Args:
        analysis: an analysis, or the links of `link_losses`.
        train: the training queries; see `set_similarity`.
        test: the new test queries, likewise.
        link: one of `find_links`; by default that over the most groups, of the first indicator and
            the first measure.
        extrapolate: go on where the similarity lies beyond all groups that the link was fitted to.
        **options: how the indicator is computed; see `set_similarity`. It must be computed as it
            was for the link.

    Returns:
        The analysis, and what it foretells for the test set "new queries": their ``similarity``;
        every system's ``foretold`` Rel Loss with its 95% prediction interval, which holds the loss
        of one more group with this chance, if that scatters about the line as the fitted groups do;
        and the ``line`` there, with the 95% interval of the line itself.

    Raises:
        DataError: if the similarity lies beyond the fitted ones (unless `extrapolate`), or the
            queries cannot be read.
        NotFoundError: if there is no such file.
        UsageError: if there is no link, or its indicator takes an encoder and none is named.

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
            f"{link.against} was computed with an encoder, which the link does not hold; name "
            "the same one: --encoder (encoder=...)"
        )
    training, tested = read_query_set(train), read_query_set(test)
    value = set_similarity(training, tested, link.against, **options)
    lowest, highest = float(link.similarities.min()), float(link.similarities.max())
    fitted = f"{lowest:.4g} to {highest:.4g}"
    inside = lowest <= value <= highest
    if not inside and not extrapolate:
        raise DataError(
            f"{link.against} of the new queries is {value:.4g}, and the link was fitted to "
            f"{len(link.groups)} groups of {fitted}: beyond that it says nothing; to continue the "
            "line all the same, --extrapolate (extrapolate=True)"
        )
    shared = link.named("similarity", "")._replace(test=NEW_QUERIES, group="")
    rows = [shared._replace(value=value, queries=len(tested))]
    for system in link.losses:
        line = link.line(system)
        for figure, of_a_group in (("foretold", True), ("line", False)):
            low, high = map(float, line.interval(value, of_a_group=of_a_group))
            row = shared._replace(figure=figure, system=system, value=float(line.at(value)))
            rows.append(row._replace(low=low, high=high))
    policy = (
        f"by the link over {len(link.groups)} groups of {link.shift}, fitted from {fitted}",
        "the prediction interval holds the loss of one more group in 95% of cases, if it scatters "
        "about the line as these groups do",
    )
    doubts = []
    verdict = link.verdict(analysis.figures)
    if not verdict.mark:
        doubts.append(f"{say_link(verdict)} The prediction then says little.")
    if not inside:
        doubts.append(
            f"extrapolated: {value:.4g} lies beyond the fitted {fitted}; the intervals assume that "
            "the line goes on"
        )
    sizes = [row.queries for row in link.losses_in(analysis.figures) if row.queries is not None]
    if sizes and not min(sizes) / _ALIKE <= len(tested) <= max(sizes) * _ALIKE:
        doubts.append(
            f"the link was fitted to test sets of {min(sizes):,} to {max(sizes):,} queries, and "
            f"this one has {len(tested):,}; indicators that count words depend on the number of "
            "queries, and small sets scatter more"
        )
    about = {"figure": "foretold"}
    notes = [Note(text, "policy", about) for text in policy]
    notes += [Note(text, "doubt", about) for text in doubts]
    return replace(
        analysis,
        figures=Figures([*analysis.figures, *rows]),
        notes=[*analysis.notes, *notes],
    )


def _widest(links: Sequence[Link]) -> Link:
    """Return the link over the most groups, of the first indicator and the first measure."""
    if not links:
        raise UsageError("there is no link to predict with; analyse run sets first")
    against, measure = links[0].against, links[0].measure
    alike = [link for link in links if (link.against, link.measure) == (against, measure)]
    return max(alike, key=lambda link: len(link.groups))
