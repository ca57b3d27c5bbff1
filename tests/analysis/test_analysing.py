"""Run sets to an analysis: points, intervals of an indicator, plans, predictions; and refusals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.analysis import (
    ALL_GROUPS,
    MEAN_OF_SYSTEMS,
    analyse_published,
    analyse_report,
    analyse_run_sets,
    find_links,
    link_losses,
    load_published,
    predict_losses,
)
from msshift_bench.data import open_dataset
from msshift_bench.errors import DataError, MsShiftError, UnknownNameError, UsageError
from msshift_bench.evaluation import Result, Settings, evaluate_run_sets
from msshift_bench.similarity import GroupSimilarity, group_similarity, set_similarity
from msshift_bench.stats import UNTESTED, Estimate, Figure, Figures, rel_loss
from tests.conftest import Build
from tests.support.fabricated import write_runs

GROUPS = ("wha", "how", "who")
RR = Settings(measures=("RR@10",))


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length", "wh-words")


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two systems with two seeds on question words, and one run that is for no group."""
    folder = tmp_path_factory.mktemp("analysed")
    write_runs(folder / "dense", data, "wh-words", seeds=(1, 2))
    write_runs(folder / "splade", data, "wh-words", seeds=(1, 2))
    write_runs(folder / "bm25", data, "wh-words", one=True)
    return folder


@pytest.fixture(scope="module")
def report(runs: Path, data: Path) -> Result:
    return evaluate_run_sets(runs, data, settings=RR)


@pytest.fixture(scope="module")
def similarities(data: Path) -> list[GroupSimilarity]:
    names = ("weighted-jaccard", "unseen-words")
    return [one for name in names for one in group_similarity(data, "wh-words", name)]


@pytest.fixture(scope="module")
def analysis(report: Result, similarities: list[GroupSimilarity]) -> Result:
    return analyse_report(report, similarities, bins=3)


def test_points_are_the_losses_of_the_report_and_the_values_of_the_indicator(
    analysis: Result, report: Result, similarities: list[GroupSimilarity]
) -> None:
    jaccard, unseen = find_links(analysis.figures)
    assert (jaccard.against, unseen.against) == ("weighted-jaccard", "unseen-words")
    values = [one.value for one in similarities if one.indicator == "weighted-jaccard"]
    assert jaccard.similarities.tolist() == values
    assert list(jaccard.losses) == ["dense", "splade", MEAN_OF_SYSTEMS]
    losses = jaccard.losses_in(analysis.figures)
    assert losses.names("system") == ["dense", "splade"]  # bm25 loses nothing that could be linked
    evaluated = report.figures.where(figure="rel_loss", group=GROUPS)
    assert list(losses) == [row._replace(**UNTESTED) for row in evaluated]
    assert (losses.names("seeds"), losses.names("counts")) == ([2], ["queries and seeds"])
    mean = np.mean([jaccard.losses["dense"], jaccard.losses["splade"]], axis=0)
    assert jaccard.losses[MEAN_OF_SYSTEMS] == pytest.approx(mean)
    line = jaccard.line(MEAN_OF_SYSTEMS)
    assert line.at(jaccard.similarities.mean()) == pytest.approx(mean.mean())


def test_a_link_that_is_not_shown_says_so_with_its_evidence(analysis: Result) -> None:
    slopes = analysis.figures.where(figure=("slope", "slope_inside_groups"), system=MEAN_OF_SYSTEMS)
    assert [row.mark for row in slopes] == [""] * 3
    assert {row.family for row in slopes} == {"holm over 3 tests (verdicts of this call)"}
    texts = [note.text for note in analysis.notes]
    assert sum(text.startswith("These data cannot show a link") for text in texts) == 3
    evidence = " ".join(texts)
    for words in (
        "1 degree of freedom: 3 groups",
        "a perfect order of 3 groups has p = 0.33 before any correction, so that none can be shown",
        "2 systems on the same 3 groups are 3 points, not 6",
    ):
        assert words in evidence


def test_intervals_hold_every_query_once_and_make_up_the_whole_loss(
    analysis: Result, report: Result
) -> None:
    of_queries = analysis.figures.where(group=ALL_GROUPS, against="unseen-words")
    columns = analysis.figures.where(figure="distribution")
    for scores in report.scores[1:]:
        losses = of_queries.where(figure="rel_loss", system=scores.system)
        sizes = [row.queries or 0 for row in losses]
        assert len(losses) == 3
        assert sum(sizes) == sum(map(len, scores.groups.values()))
        relative = 0.0
        for group, queries in scores.groups.items():
            in_columns = [row.queries or 0 for row in columns.where(group=group)]
            assert sum(in_columns) == len(queries)
            loss = report.figures.where(figure="rel_loss", system=scores.system, group=group)[0]
            relative += len(queries) * loss.number
        boxes = of_queries.where(system=scores.system)
        means = [row.number for row in boxes.where(figure="mean")]
        assert np.dot(means, sizes) == pytest.approx(relative)
        quartiles = ("whisker_low", "first_quartile", "median", "third_quartile", "whisker_high")
        for loss in losses:
            box = boxes.where(figure=quartiles, slice=loss.slice)
            values = [row.value or 0.0 for row in box]
            assert values == sorted(values)
            assert loss.low is not None
            assert loss.low < (loss.value or 0.0) < (loss.high or 0.0)
            assert loss.counts == "queries and seeds"
    assert sum(row.value or 0.0 for row in columns) == pytest.approx(len(GROUPS))


def test_the_loss_of_an_interval_is_that_of_its_queries(
    report: Result, similarities: list[GroupSimilarity]
) -> None:
    scores = report.scores[1]
    unseen = {one.group: one.per_query for one in similarities if one.indicator == "unseen-words"}
    low = {}
    for group, values in unseen.items():
        assert values is not None
        places = [values.query_ids.index(query) for query in scores.ids_of(group)]
        low[group] = np.asarray(values.values)[places]
    edge = np.quantile(np.concatenate(list(low.values())), 0.5)
    sides = [
        scores.sides("RR@10", group, queries[low[group] < edge])
        for group, queries in scores.groups.items()
    ]
    inside, out = (np.concatenate(side, axis=1) for side in zip(*filter(None, sides), strict=True))
    expected = rel_loss(Estimate.mean(inside, "dense", ""), Estimate.mean(out, "dense", ""))
    figures = analyse_report(report, similarities, bins=2).figures
    loss = figures.where(figure="rel_loss", group=ALL_GROUPS, system=scores.system)[0]
    assert expected is not None
    assert loss.value == pytest.approx(expected.value)
    uncertainty = expected.uncertainty()
    assert uncertainty is not None
    assert loss.interval == pytest.approx(uncertainty.interval(expected.value, 0.95))


def test_more_seeds_detect_less(analysis: Result) -> None:
    now = analysis.figures.where(figure="detectable")
    assert len(now) == 2 * len(GROUPS)
    for row in now:
        names = {"figure": "detectable_with_seeds", "system": row.system, "group": row.group}
        planned = analysis.figures.where(**names)
        losses = [1.0 if plan.value is None else plan.value for plan in planned]
        assert planned.names("seeds") == [2, 3, 5, 10]
        assert losses == sorted(losses, reverse=True)
        assert row.value == planned[0].value


def test_one_seed_is_said(data: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "dense", data, "wh-words")
    found = analyse_run_sets(tmp_path, data, settings=RR)
    links = find_links(found.figures)
    assert [link.against for link in links] == ["weighted-jaccard", "unseen-words"]
    bins = found.figures.where(figure="rel_loss", group=ALL_GROUPS)
    assert set(bins.names("counts")) - {""} == {"queries only"}
    evidence = [note for note in found.notes if "one seed" in note.text]
    about = ["slope", "slope", "slope_inside_groups", "detectable"]
    assert [note.about["figure"] for note in evidence] == about
    assert found.figures.where(figure="detectable").names("seeds") == [1]
    assert not found.figures.where(figure="detectable_with_seeds")
    (table,) = [table for table in found.tables() if table.title.startswith("What these test")]
    assert table.header[-1] == "detects"


def test_of_several_systems_those_with_one_seed_are_named(data: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "dense", data, "wh-words", seeds=(1, 2))
    write_runs(tmp_path / "splade", data, "wh-words")
    found = analyse_run_sets(tmp_path, data, settings=RR)
    evidence = [note.text for note in found.notes if note.text.startswith("one seed per model")]
    assert len(evidence) == 3
    assert all(text.startswith("one seed per model of splade: ") for text in evidence)


def test_similarities_that_do_not_fit_are_refused(
    report: Result, similarities: list[GroupSimilarity]
) -> None:
    first, *rest = [row for row in similarities if row.indicator == "unseen-words"]
    assert first.per_query is not None
    count = len(first.per_query.values)
    not_known = dataclasses.replace(first.per_query, values=np.full(count, np.nan))
    of_others = dataclasses.replace(first.per_query, query_ids=tuple(map(str, range(-count, 0))))
    for spoiled, words in (
        ([], "unseen-words has no value for wha of wh-words"),
        ([dataclasses.replace(first, value=math.nan)], "unseen-words of wha of wh-words is nan"),
        ([dataclasses.replace(first, per_query=not_known)], rf"for {count} of the {count} test"),
        (
            [dataclasses.replace(first, per_query=of_others)],
            r"queries of wha \(\d+, \d+, \d+, \.{3}",
        ),
    ):
        with pytest.raises(DataError, match=words):
            analyse_report(report, [*spoiled, *rest])


@pytest.mark.slow
def test_what_cannot_be_analysed_is_refused(
    report: Result, similarities: list[GroupSimilarity], data: Path, runs: Path, tmp_path: Path
) -> None:
    def refused(kind: type[MsShiftError], words: str, *folders: Path, **options: object) -> None:
        with pytest.raises(kind, match=words):
            analyse_run_sets(folders or runs, data, **options)  # type: ignore[arg-type]

    write_runs(tmp_path / "short" / "dense", data, "length")
    write_runs(tmp_path / "untrained" / "bm25", data, "wh-words", one=True)
    write_runs(tmp_path / "lacking" / "dense", data, "wh-words")
    (tmp_path / "lacking" / "dense" / "wh-words" / "how.run.gz").unlink()
    refused(DataError, "length has 2", tmp_path / "short")
    refused(DataError, "no system was trained", tmp_path / "untrained")
    refused(DataError, "how", tmp_path / "lacking")
    refused(UnknownNameError, "indicator 'jaccard'", indicators=["jaccard"])
    refused(UsageError, "takes the option models; model-based would", models="x")
    refused(UsageError, "at least 2 intervals", bins=1)
    refused(UsageError, "missing='zero'", settings=Settings(missing="skip"))
    with pytest.raises(UsageError, match="no similarity of the groups of wh-words"):
        analyse_report(report, [dataclasses.replace(one, shift="topics") for one in similarities])


def test_short_shifts_count_among_all(data: Path, tmp_path: Path) -> None:
    for shift in ("wh-words", "length"):
        write_runs(tmp_path / "dense", data, shift)
    found = analyse_run_sets(tmp_path, data, settings=RR, indicators=["weighted-jaccard"])
    links = {link.shift: len(link.groups) for link in find_links(found.figures)}
    assert links == {"wh-words": 3, "wh-words and length": 5}
    assert "length has 2 groups, too few for a link of its own; it counts in" in found.doubts[-1]
    notes = [note for note in found.notes if "with a height for each shift" in note.text]
    assert [note.about["shift"] for note in notes] == ["wh-words and length"]


def test_the_papers_own_figures_give_the_known_correlations() -> None:
    found = analyse_published()
    of_all, of_tests, *_, every = find_links(found.figures)
    spearman = found.figures.where(**{**of_all.about, "figure": "spearman"})
    assert {row.system: row.value for row in spearman} == pytest.approx(
        {"bi-encoder": -0.7, "splade-max": -1.0, "colbert": -0.9, "monobert": -0.5,
         MEAN_OF_SYSTEMS: -0.9}
    )  # fmt: skip
    assert spearman.where(system="splade-max")[0].p_uncorrected == pytest.approx(2 / 120)
    assert not of_all.verdict(found.figures).mark
    printed = load_published("ms_shift_similarity")["all"].values()
    assert of_all.similarities.tolist() == list(printed)
    of_tests_spearman = found.figures.where(**{**of_tests.about, "figure": "spearman"})
    assert of_tests_spearman[0].value == pytest.approx(-0.4)  # C0 and C3 change places
    assert len(every.groups) == 8
    # What is one line for both shifts is none for shifts of their own heights.
    (line,) = found.figures.where(**every.about, system=MEAN_OF_SYSTEMS)
    verdict = every.verdict(found.figures)
    assert line.p_uncorrected < 0.05 < verdict.p_uncorrected < 0.1
    assert (verdict.mark, verdict.family) == ("", "holm over 4 tests (verdicts of this call)")
    *_, (_, notes) = found.sections()
    assert "published losses carry no intervals: they rest on one training each, and count as" in (
        " ".join(notes)
    )


TRAIN = {"1": "cheap flights to rome", "2": "who is the pope"}


def points(*losses: float, system: str = "dense", queries: int | None = None) -> list[Figure]:
    """Return losses on C0, C1 and C2, whose similarities are 0, 0.2 and 1, and these."""
    values = zip(("C0", "C1", "C2"), (0.0, 0.2, 1.0), losses, strict=True)
    shared = Figure("rel_loss", shift="topics", measure="RR@10", seeds=1, queries=queries)
    near = Figure("similarity", shift="topics", against="weighted-jaccard", slice="test")
    return [
        row
        for group, similarity, loss in values
        for row in (
            shared._replace(system=system, group=group, value=loss),
            near._replace(group=group, value=similarity),
        )
    ]


def test_a_prediction_is_the_line_with_its_interval() -> None:
    analysis = analyse_published()
    test = {"8": "cheap rooms in rome", "9": "who is rome"}
    found = predict_losses(analysis, TRAIN, test)
    similarity, *rows = found.figures.where(test="new queries")
    assert similarity.value == set_similarity(TRAIN, test, "weighted-jaccard")
    link = find_links(analysis.figures)[3]
    line = link.line(MEAN_OF_SYSTEMS)
    assert [row.figure for row in rows] == ["foretold", "line"] * 5
    assert [row.system for row in rows][-1] == MEAN_OF_SYSTEMS
    assert rows[-1].value == line.at(similarity.value or 0.0)
    assert rows[-1].interval == line.interval(similarity.value or 0.0)
    assert rows[-2].interval == line.interval(similarity.value or 0.0, of_a_group=True)
    assert [doubt.partition(" a link")[0] for doubt in found.doubts] == ["These data cannot show"]
    assert found.tables()[-1].title == (
        "Rel Loss in RR@10 that is to be expected at weighted-jaccard 0.3333"
    )
    on_topics = predict_losses(analysis, TRAIN, test, link=find_links(analysis.figures)[0])
    assert "cannot show a link" in on_topics.doubts[0]


def test_what_a_link_does_not_reach_is_refused_or_said() -> None:
    published = analyse_published()
    far = {"9": "quantum chromodynamics"}
    with pytest.raises(DataError, match=r"is 0, and the link was fitted to 8 groups of 0.2261"):
        predict_losses(published, TRAIN, far)
    found = predict_losses(published, TRAIN, far, extrapolate=True)
    assert found.doubts[-1].startswith("extrapolated: 0 lies beyond")
    link = link_losses(points(0.3, 0.25, 0.1, queries=600))
    found = predict_losses(link, TRAIN, {"9": "who is rome"})
    assert "test sets of 600 to 600 queries, and this one has 1" in found.doubts[-1]
    nothing = dataclasses.replace(published, figures=Figures([]))
    with pytest.raises(UsageError, match="no link to predict with; analyse run sets first"):
        predict_losses(nothing, TRAIN, TRAIN)


def test_a_flat_line_foretells_the_loss_of_all_groups() -> None:
    link = link_losses(points(0.2, 0.2, 0.2))
    (row,) = link.tables()[1].rows
    assert [cell.text for cell in row] == [
        "dense", "3", "0.0 [0.0, 0.0]", "-", "1.000", *["-"] * 4,
    ]  # fmt: skip
    found = predict_losses(link, TRAIN, {"9": "who is rome"})
    (foretold,) = found.figures.where(figure="foretold")
    assert (foretold.value, foretold.low, foretold.high) == pytest.approx((0.2, 0.2, 0.2))


def test_a_link_by_an_encoder_predicts_with_that_encoder_alone(build_once: Build) -> None:
    """The default encoder may be another one, whose cosines lie on another scale."""
    rows = points(0.3, 0.25, 0.1)
    by_encoder = [row._replace(against="mean-cosine" if row.against else "") for row in rows]
    link = link_losses(by_encoder)
    dataset = open_dataset(build_once("mini:300", "length", "wh-words"))
    train, test = (dataset.rows("wh-words-how", split) for split in ("train", "test"))
    with pytest.raises(UsageError, match=r"name the same one: --encoder \(encoder=\.\.\.\)"):
        predict_losses(link, train, test)
    found = predict_losses(link, train, test, encoder="terms", extrapolate=True)
    similarity = found.figures.where(test="new queries")[0]
    assert similarity.value == set_similarity(train, test, "mean-cosine", encoder="terms")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*points(0.3, 0.2, 0.1), points(0.3, 0.2, 0.1)[4]], "dense has two values on C2 of topi"),
        ([*points(0.3, 0.2, 0.1), points(0.3, 0.2, 0.1)[5]], "jaccard has two values on C2"),
        (points(0.3, 0.2, 0.1)[:5], "weighted-jaccard has no value for C2 of topics"),
        ([*points(0.3, 0.2, 0.1), points(0, 0, 0, system="b")[0]], "b has no value for C1 of top"),
        (points(0.3, 0.2, 0.1)[:4], "at least 3 groups, and topics has 2"),
        ([], "at least 3 groups, and there are none"),
    ],
    ids=["seeds one by one", "two similarities", "no similarity", "no loss", "groups", "nothing"],
)
def test_a_group_has_one_loss_per_system_and_one_similarity(
    rows: Sequence[Figure], words: str
) -> None:
    """The last of several losses, and the first of several similarities, would count alone."""
    with pytest.raises(DataError, match=words):
        link_losses(rows)
