"""Run sets to an analysis: points, intervals of an indicator, words, plans, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.support.fabricated import write_runs
from msshift_bench.analysis import (
    MEAN_OF_SYSTEMS,
    Analysis,
    LossPoint,
    analyse_report,
    analyse_run_sets,
    link_losses,
    predict_losses,
    read_links,
)
from msshift_bench.analysis.paper_tables import analyse_published, load_published
from msshift_bench.data import open_dataset
from msshift_bench.errors import DataError, MsShiftError, UnknownNameError, UsageError
from msshift_bench.evaluation import Report, Settings, evaluate_run_sets
from msshift_bench.similarity import GroupSimilarity, group_similarity, set_similarity
from tests.conftest import Build

GROUPS = ("wha", "how", "who")


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
def report(runs: Path, data: Path) -> Report:
    return evaluate_run_sets(runs, data, settings=Settings(measures=("RR@10",)))


@pytest.fixture(scope="module")
def similarities(data: Path) -> list[GroupSimilarity]:
    names = ("weighted-jaccard", "unseen-words")
    return [one for name in names for one in group_similarity(data, "wh-words", name)]


@pytest.fixture(scope="module")
def analysis(report: Report, similarities: list[GroupSimilarity]) -> Analysis:
    return analyse_report(report, similarities, bins=3)


def test_points_are_the_losses_of_the_report_and_the_values_of_the_indicator(
    analysis: Analysis, report: Report, similarities: list[GroupSimilarity]
) -> None:
    jaccard, unseen = analysis.group_links
    assert (jaccard.indicator, unseen.indicator) == ("weighted-jaccard", "unseen-words")
    values = {(one.indicator, one.group): one.value for one in similarities}
    for result in report.systems:
        loss = result.measures["RR@10"].loss
        own = {point.group: point for point in jaccard.points if point.system == result.system}
        assert bool(own) == (loss is not None)  # bm25 loses nothing that could be linked
        for group, point in own.items():
            assert loss is not None
            known = loss.groups[group]
            assert (point.rel_loss, point.queries) == (known.rel_loss, known.queries)
            assert (point.seeds, point.counts) == (2, "queries and seeds")
            assert point.similarity == values["weighted-jaccard", group]
    assert [one.system for one in jaccard.systems] == ["dense", "splade"]
    assert jaccard.mean.system == MEAN_OF_SYSTEMS
    mean = np.mean(
        [[p.rel_loss for p in jaccard.points[:3]], [p.rel_loss for p in jaccard.points[3:]]]
    )
    assert jaccard.mean.line.at(jaccard.mean.line.mean) == pytest.approx(mean)
    assert jaccard.mean.mixed is not None
    assert jaccard.mean.mixed.seeds == 2


def test_a_link_that_is_not_shown_says_so_with_its_evidence(analysis: Analysis) -> None:
    for link in (*analysis.group_links, *analysis.query_links):
        assert not link.verdict.shown
        assert link.verdict.sentence.startswith("These data cannot show a link")
    evidence = " ".join(analysis.group_links[0].verdict.evidence)
    assert "1 degree of freedom: 3 groups" in evidence
    assert "even a perfect order has p = 0.33" in evidence
    assert "2 systems on the same 3 groups are 3 points, not 6" in evidence


def test_intervals_hold_every_query_once_and_make_up_the_whole_loss(
    analysis: Analysis, report: Report
) -> None:
    (link,) = analysis.query_links
    (spread,) = analysis.distributions
    for system in link.systems:
        queries = sum(one.queries for one in system.bins)
        assert queries == sum(sum(counts) for counts in spread.counts.values())
        result = next(one for one in report.systems if one.system == system.system)
        for group, scores in result.measures["RR@10"].scores.items():
            assert sum(one.of_groups[group] for one in system.bins) == scores.queries
        whole = [scores.differences() for scores in result.measures["RR@10"].scores.values()]
        inside = {g: s.inside.mean() for g, s in result.measures["RR@10"].scores.items()}
        relative = sum(float(one.sum()) / inside[g] for one, g in zip(whole, inside, strict=True))
        parts = sum(one.box.mean * one.queries for one in system.bins)
        assert parts == pytest.approx(relative)
        for one in system.bins:
            assert one.box.low <= one.box.first <= one.box.median <= one.box.third <= one.box.high
            if one.band is not None and one.rel_loss is not None:
                assert one.band.low < one.rel_loss < one.band.high
        assert (system.control, system.counts) == ("bm25", "queries and seeds")
        assert set(system.within.slopes if system.within else GROUPS) == set(GROUPS)


def test_words_that_were_never_met_split_the_loss(analysis: Analysis) -> None:
    for one in analysis.losses_by_words:
        met, never = one.parts
        assert (met.words, never.words) == ("met", "never met")
        assert met.query_share + never.query_share == pytest.approx(1)
        assert met.loss_share is not None
        assert never.loss_share is not None
        assert met.loss_share + never.loss_share == pytest.approx(1)


def test_more_seeds_detect_less(analysis: Analysis) -> None:
    assert len(analysis.detectable) == 2 * len(GROUPS)
    for plan in analysis.detectable:
        losses = [1.0 if loss is None else loss for loss in plan.by_seeds.values()]
        assert list(plan.by_seeds) == ["2", "3", "5", "10"]
        assert losses == sorted(losses, reverse=True)
        assert plan.now == plan.by_seeds["2"]


def test_json_is_read_back_as_the_links_that_were_written(
    analysis: Analysis, tmp_path: Path
) -> None:
    path = tmp_path / "analysis.json"
    path.write_text(json.dumps(analysis.to_json(), allow_nan=False))
    assert read_links(path) == analysis.group_links
    figures = {(row.figure, row.label) for row in analysis.tidy().rows}
    assert {("slope", "weighted-jaccard"), ("spearman", "unseen-words")} < figures
    content = json.loads(path.read_text())
    content["group_links"][0]["mean"]["line"]["slope"] = "steep"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"group_links\[0\].mean.line.slope"):
        read_links(path)
    path.write_text(json.dumps({**analysis.to_json(), "kind": "analysis", "checksum": "0" * 64}))
    with pytest.raises(DataError, match=r"analysis\.json was changed after it was written"):
        read_links(path)
    for wrong in ("{", "[]", '{"kind": "report"}'):
        path.write_text(wrong)
        with pytest.raises(DataError, match="analyse --output"):
            read_links(path)


def test_one_seed_is_said(data: Path, tmp_path: Path) -> None:
    write_runs(tmp_path / "dense", data, "wh-words")
    found = analyse_run_sets(tmp_path, data, settings=Settings(measures=("RR@10",)))
    assert found.indicators == ("weighted-jaccard", "unseen-words")
    (link,) = found.query_links
    assert link.systems[0].counts == "queries only"
    assert any("one seed" in line for line in found.group_links[0].verdict.evidence)
    assert all(not one.by_seeds and one.counts == "queries only" for one in found.detectable)


def spoil(similarities: list[GroupSimilarity], what: str) -> list[GroupSimilarity]:
    first, *others = [one for one in similarities if one.indicator == "unseen-words"]
    if what == "group":
        return others
    if what == "nan":
        return [dataclasses.replace(first, value=float("nan")), *others]
    assert first.per_query is not None
    if what == "query":
        values = np.full(len(first.per_query.values), np.nan)
        changed = dataclasses.replace(first.per_query, values=values)
    else:
        ids = tuple(f"other-{n}" for n in range(len(first.per_query.query_ids)))
        changed = dataclasses.replace(first.per_query, query_ids=ids)
    return [dataclasses.replace(first, per_query=changed), *others]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("group", "unseen-words has no value for wha of wh-words"),
        ("nan", "unseen-words of wha is nan"),
        ("query", "is not finite"),
        ("others", r"has no value for \d+ of the \d+ test queries of wha \(\d"),
    ],
)
def test_similarities_that_do_not_fit_are_refused(
    report: Report, similarities: list[GroupSimilarity], what: str, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        analyse_report(report, spoil(similarities, what))


@pytest.mark.slow
def test_what_cannot_be_analysed_is_refused(
    report: Report, similarities: list[GroupSimilarity], data: Path, runs: Path, tmp_path: Path
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
    refused(UnknownNameError, "control 'bm52'.*did you mean 'bm25'", control="bm52")
    refused(UnknownNameError, "indicator 'jaccard'", indicators=["jaccard"])
    refused(UsageError, "takes the option seed; model-based would", seed=3)
    refused(UsageError, "at least 2 intervals", bins=1)
    refused(UsageError, "missing='zero'", settings=Settings(missing="skip"))
    with pytest.raises(UsageError, match="no similarity of the groups of wh-words"):
        analyse_report(report, [dataclasses.replace(one, shift="topics") for one in similarities])


def test_short_shifts_count_among_all(data: Path, tmp_path: Path) -> None:
    for shift in ("wh-words", "length"):
        write_runs(tmp_path / "dense", data, shift)
    found = analyse_run_sets(
        tmp_path,
        data,
        settings=Settings(measures=("RR@10",)),
        indicators=["weighted-jaccard"],
    )
    assert [(link.name, link.mean.line.groups) for link in found.group_links] == [
        ("wh-words", 3),
        ("wh-words and length", 5),
    ]
    assert "length has 2 groups, too few for a link of its own" in found.remarks[-1]
    assert any("line of its own height" in line for line in found.group_links[1].verdict.evidence)


def test_the_papers_own_figures_give_the_known_correlations() -> None:
    links = analyse_published().group_links
    of_all, of_tests, *_, both = links
    assert {one.system: one.spearman.value for one in of_all.systems} == pytest.approx(
        {"bi-encoder": -0.7, "splade-max": -1.0, "colbert": -0.9, "monobert": -0.5}
    )
    splade = of_all.systems[1].spearman
    assert splade.interval == pytest.approx((-1, -0.33), abs=0.01)
    assert splade.p == pytest.approx(2 / 120)
    assert not of_all.verdict.shown
    assert "a perfect one has p = 0.017" in of_all.verdict.evidence[1]
    printed = load_published("ms_shift_similarity")
    assert list(printed["all"].values()) == [point.similarity for point in of_all.points[:5]]
    assert of_tests.systems[0].spearman.value == pytest.approx(-0.4)  # C0 and C3 change places
    assert (both.mean.line.groups, both.verdict.shown) == (8, True)


TRAIN = {"1": "cheap flights to rome", "2": "who is the pope"}


def test_a_prediction_is_the_line_with_its_interval() -> None:
    analysis = analyse_published()
    test = {"8": "cheap rooms in rome", "9": "who is rome"}
    found = predict_losses(analysis, TRAIN, test)
    link = analysis.group_links[3]
    line = link.mean.line
    assert (found.groups, found.extrapolated) == (8, False)
    assert [one.system for one in found.systems][-1] == MEAN_OF_SYSTEMS
    assert found.systems[-1].rel_loss == line.at(found.similarity)
    assert found.systems[-1].interval == line.prediction(found.similarity)
    assert found.remarks == ()
    on_topics = predict_losses(analysis, TRAIN, test, shift="topics")
    assert any("cannot show a link" in remark for remark in on_topics.remarks)
    with pytest.raises(UnknownNameError, match="shift of a link 'topic'"):
        predict_losses(analysis, TRAIN, test, shift="topic")


def test_extrapolation_is_refused_or_said() -> None:
    analysis = analyse_published()
    far = {"9": "quantum chromodynamics"}
    with pytest.raises(DataError, match=r"is 0, and the link was fitted to 8 groups of 0.2261"):
        predict_losses(analysis, TRAIN, far)
    found = predict_losses(analysis, TRAIN, far, extrapolate=True)
    assert found.extrapolated
    assert found.remarks[-1].startswith("extrapolated: 0 lies beyond")


def test_a_prediction_for_a_set_of_another_size_says_so() -> None:
    points = [
        LossPoint("topics", group, "dense", x, y, queries=600, seeds=1)
        for group, x, y in (("C0", 0.0, 0.3), ("C1", 0.2, 0.25), ("C2", 1.0, 0.1))
    ]
    link = link_losses("weighted-jaccard", "RR@10", points)
    found = predict_losses([link], TRAIN, {"9": "who is rome"})
    assert any("test sets of 600 to 600 queries, and this one has 1" in r for r in found.remarks)
    with pytest.raises(DataError, match="dense has no Rel Loss on C2"):
        link_losses(
            "weighted-jaccard", "RR@10", [*points[:2], dataclasses.replace(points[2], system="b")]
        )


def test_a_link_by_an_encoder_predicts_with_that_encoder_alone(build_once: Build) -> None:
    """The default encoder may be another one, whose cosines lie on another scale."""
    points = [
        LossPoint("topics", group, "dense", x, y)
        for group, x, y in (("C0", 0.0, 0.3), ("C1", 0.2, 0.25), ("C2", 1.0, 0.1))
    ]
    link = link_losses("mean-cosine", "RR@10", points)
    dataset = open_dataset(build_once("mini:300", "length", "wh-words"))
    train, test = (dataset.rows("wh-words-how", split) for split in ("train", "test"))
    with pytest.raises(UsageError, match=r"name the same one: --encoder \(encoder=\.\.\.\)"):
        predict_losses([link], train, test)
    found = predict_losses([link], train, test, encoder="terms", extrapolate=True)
    assert found.similarity == set_similarity(train, test, "mean-cosine", encoder="terms")


def test_a_control_alone_explains_nothing(
    report: Report, similarities: list[GroupSimilarity]
) -> None:
    unseen = [one for one in similarities if one.indicator == "unseen-words"]
    with pytest.raises(UsageError, match="unseen-words is the control, and there is no indicator"):
        analyse_report(report, unseen, control="unseen-words")
