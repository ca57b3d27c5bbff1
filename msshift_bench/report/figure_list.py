"""The figures of the report, section by section: a new figure is a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from msshift_bench.analysis import find_links
from msshift_bench.report.certainty_figures import draw_ties, draw_variances
from msshift_bench.report.data_figures import count_groups, draw_composition, draw_overlap
from msshift_bench.report.in_out_figures import draw_in_out
from msshift_bench.report.link_figures import draw_group_links
from msshift_bench.report.link_inputs import MODEL_BASED
from msshift_bench.report.loss_figures import draw_rel_loss, losses_of
from msshift_bench.report.matrix_figures import draw_matrices
from msshift_bench.report.query_figures import changed_queries, draw_changed_queries
from msshift_bench.report.query_link_figures import (
    draw_box_plots,
    draw_distributions,
    draw_intervals,
)
from msshift_bench.report.report_figure import Drawn, LeftOut
from msshift_bench.report.report_inputs import Gathered
from msshift_bench.report.slice_figures import draw_slices
from msshift_bench.report.topic_map import draw_topic_map, sample_topics

__all__ = ["SECTIONS", "Section"]

_MOST_QUERIES = 6
"""Hurt queries in a figure, and helped ones."""

_MOST_POINTS = 1_000
"""Queries on the map of topics: more take minutes, and hide each other."""

Draw = Callable[[Gathered], Iterator[Drawn]]


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that answer one question.

    Attributes:
        name: the section's anchor.
        title: one line.
        about: one or two sentences.
        draw: yields its figures.
    """

    name: str
    title: str
    about: str
    draw: Draw


def _losses(found: Gathered) -> Iterator[Drawn]:
    shifts = list(found.report.by_shift().values())
    yield draw_rel_loss(shifts, found.measure, found.looks)
    for results in shifts:
        yield draw_in_out(results, found.measure, found.looks)
    for results in shifts:
        yield from draw_matrices(results, found.measure, found.report.settings)


def _places(found: Gathered) -> Iterator[Drawn]:
    by_shift = found.report.by_shift()
    for shift, results in by_shift.items():
        yield draw_slices(results[0].shift, found.slices[shift], found.measure, found.looks)
    for results in by_shift.values():
        for result, _ in losses_of(results, found.measure):
            missing = found.report.settings.missing
            nearest = found.nearest.get(result.shift.name, {})
            queries = changed_queries(result, found.measure, found.texts, missing, nearest)
            look = found.looks[result.system]
            yield draw_changed_queries(result, queries, found.measure, look, _MOST_QUERIES)


def _certainty(found: Gathered) -> Iterator[Drawn]:
    shifts = list(found.report.by_shift().values())
    for results in shifts:
        yield draw_variances(results, found.measure, found.looks)
    for results in shifts:
        yield draw_ties(results, found.measure, found.looks)


def _links(found: Gathered) -> Iterator[Drawn]:
    analysis = found.analysis
    if isinstance(analysis, LeftOut):
        yield analysis
        return
    links = find_links(analysis.figures)
    indicators = list(dict.fromkeys(link.against for link in links))
    for indicator in indicators:
        of_indicator = [link for link in links if link.against == indicator]
        yield draw_group_links(analysis.figures, of_indicator, found.looks)
    for indicator in analysis.figures.where(figure="distribution").names("against"):
        figures = analysis.figures.where(against=indicator)
        yield draw_distributions(figures)
        yield draw_intervals(figures, found.looks)
        yield draw_box_plots(figures, found.looks)
    if MODEL_BASED not in indicators:
        yield LeftOut(
            "Losses by the model-based similarity R",
            "the kept models are no bi-encoders, or their libraries are not installed"
            if any(found.kept.values())
            else "no system kept the models of its bi-encoders",
            "`msshift baseline run bi-encoder --keep-model`, and the extra `neural` for the report",
        )


def _data(found: Gathered) -> Iterator[Drawn]:
    topics = sample_topics(found.dataset, _MOST_POINTS)
    yield topics if isinstance(topics, LeftOut) else draw_topic_map(topics)
    sizes = count_groups(found.dataset, list(found.report.by_shift()))
    yield draw_composition(sizes)
    yield draw_overlap(sizes)


SECTIONS: Sequence[Section] = (
    Section(
        "losses",
        "What is lost",
        "Avg In is the mean over the models that saw a group in training, Out the score of the "
        "model that did not, on the same test queries; Rel Loss = (Avg In - Out) / Avg In.",
        _losses,
    ),
    Section(
        "places",
        "Where it is lost",
        "The same losses on slices of the test queries, and the queries that change most.",
        _places,
    ),
    Section(
        "certainty",
        "How sure this is",
        "What other test queries, other seeds of training and other orders of ties would change.",
        _certainty,
    ),
    Section(
        "links",
        "Is it distance?",
        "What is lost against how near the test queries lie to the training queries. Groups are "
        "the witnesses: a few groups can show a strong link only.",
        _links,
    ),
    Section(
        "data",
        "The queries",
        "The groups that are held out: what they are about, how many queries they give, and what "
        "they share.",
        _data,
    ),
)
"""The sections in the order of the page."""
