"""What a report reads where something is not there: training queries, texts, models, libraries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_runs
from msshift_bench.data import open_collection, open_dataset
from msshift_bench.dataset_builders.importing import import_official
from msshift_bench.dataset_builders.top_terms import top_terms
from msshift_bench.evaluation import Result, Settings, evaluate_run_sets
from msshift_bench.output import picture_style
from msshift_bench.report.link_inputs import MODEL_BASED
from msshift_bench.report.loss_figures import draw_rel_loss
from msshift_bench.report.report_figure import LeftOut, ReportFigure
from msshift_bench.report.report_inputs import Gathered, read_inputs, with_ranks
from msshift_bench.report.topic_map import TopicSample, sample_topics
from msshift_bench.runs import find_run_sets, model_path
from tests.conftest import Build
from tests.support.official_checkout import write_checkout, write_mini_checkout

pytest.importorskip("matplotlib")

SETTINGS = Settings("RR@10")


def gather(runs: Path, data: Path, settings: Settings = SETTINGS) -> Gathered:
    report = evaluate_run_sets(runs, data, settings=with_ranks(settings))
    return read_inputs(report, settings.measures, runs, open_dataset(data))


def indicators(analysis: Result) -> list[str]:
    return analysis.figures.where(figure="slope").names("against")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a release with training queries, whose topics nobody described."""
    folder, collection = tmp_path_factory.mktemp("released"), open_collection("mini:500")
    checkout = write_mini_checkout(folder / "checkout", collection)
    import_official([checkout], folder / "msshift", collection=collection)
    return folder / "msshift"


@pytest.fixture(scope="module")
def tests_only(released: Path) -> Path:
    """Return the same release without its training queries."""
    checkout = released.with_name("tests-only")
    shutil.copytree(released.with_name("checkout") / "EVAL", checkout / "EVAL")
    import_official([checkout], checkout / "msshift")
    return checkout / "msshift"


def write_kept_runs(folder: Path, data: Path) -> Path:
    """Write runs of topics beside folders for their models, in which there is no model."""
    write_runs(folder / "dense", data, "topics")
    (trained,) = find_run_sets([folder])
    for path in trained.runs[None].values():
        model_path(path).mkdir()
    return folder


def test_a_release_without_training_queries_is_linked_by_its_words(
    tests_only: Path, tmp_path: Path
) -> None:
    found = gather(write_kept_runs(tmp_path, tests_only), tests_only)
    assert isinstance(found.analysis, Result)
    assert indicators(found.analysis) == ["weighted-jaccard"]
    assert found.nearest == {"topics": {}}
    assert found.kept["topics"].keys() == {"dense"}


def test_one_query_per_group_has_neither_intervals_nor_links(tmp_path: Path) -> None:
    import_official([write_checkout(tmp_path / "checkout")], tmp_path / "msshift")
    write_runs(tmp_path / "runs" / "dense", tmp_path / "msshift", "topics")
    found = gather(tmp_path / "runs", tmp_path / "msshift")
    assert isinstance(found.analysis, LeftOut)
    assert found.analysis.why.startswith("all 5 groups are equally similar (0.3333)")
    assert found.analysis.remedy == "take another indicator, or a shift with other groups"
    shifts = list(found.report.by_shift().values())
    with picture_style():
        figure = draw_rel_loss(shifts, found.measure, found.looks)
    assert isinstance(figure, ReportFigure)
    assert "Lines are" not in figure.caption
    assert "Query topics: C0 1, C1 1, C2 1, C3 1, C4 1" in figure.caption
    assert {row[figure.columns.index("low")] for row in figure.rows} == {None}


def test_models_that_cannot_be_read_are_passed_over(released: Path, tmp_path: Path) -> None:
    found = gather(write_kept_runs(tmp_path, released), released)
    assert isinstance(found.analysis, Result)
    assert "weighted-jaccard" in indicators(found.analysis)
    assert MODEL_BASED not in indicators(found.analysis)
    tested = {row.query_id for row in open_dataset(released).rows("topics-C0", "test")}
    assert tested <= found.nearest["topics"].keys()


@pytest.mark.slow
def test_links_are_those_of_the_measure_that_is_drawn(build_once: Build, tmp_path: Path) -> None:
    """No passage of `mini` has a grade of 3, so that there is no loss in the other measure."""
    data = build_once("mini:300", "wh-words")
    runs = write_runs(tmp_path / "dense", data, "wh-words")
    found = gather(runs, data, Settings("RR@10 RR(rel=3)@10"))
    assert isinstance(found.analysis, Result), found.analysis
    assert found.analysis.figures.where(figure="rel_loss").names("measure") == ["RR@10"]


def test_links_need_texts_and_a_system_that_was_trained_without_each_group(
    build_once: Build, tmp_path: Path
) -> None:
    def why(data: Path, *, one: bool) -> LeftOut:
        folder = tmp_path / data.parent.name
        write_runs(folder / "dense", data, one=one)
        found = gather(folder, data).analysis
        assert isinstance(found, LeftOut)
        return found

    untrained = why(build_once("mini:300", "length"), one=True)
    assert untrained.why == "no system was trained without each group in turn"
    assert "msshift baseline run bi-encoder --keep-model" in untrained.remedy
    without = why(build_once("mini:300", "length", texts=False), one=False)
    assert without.why == "the data set holds no texts"
    assert "msshift hydrate" in without.remedy


def test_topics_that_nobody_described_are_described_by_their_words(
    released: Path, build_once: Build
) -> None:
    data = open_dataset(released)
    found = sample_topics(data, 20)
    assert isinstance(found, TopicSample)
    rows = list(data.rows("topics", "queries"))
    groups = {row.query_id: row.group for row in rows}
    assert [groups[one] for one in found.query_ids] == list(found.groups)
    assert (len(found.query_ids), found.of) == (20, sum(g != "others" for g in groups.values()))
    # Words stand out against all queries, those of no topic included.
    of_group = {g: [row.text for row in rows if row.group == g] for g in set(groups.values())}
    assert found.terms == top_terms(of_group)
    without = sample_topics(open_dataset(build_once("mini:300", "topics", texts=False)), 20)
    assert isinstance(without, LeftOut)
    assert (without.why, without.remedy) == (
        "the data set holds no texts",
        "`msshift hydrate` puts them back",
    )


def test_ranks_are_measured_once() -> None:
    asked = Settings("nDCG@10 RR")
    assert with_ranks(asked) is asked
    assert [str(one) for one in with_ranks(SETTINGS).measures] == ["RR@10", "RR"]
