"""Run sets to an analysis: points, links, plans and predictions; alignments; what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from typer.testing import CliRunner

from msshift_bench.analysis import (
    ALL_GROUPS,
    MEAN_OF_SYSTEMS,
    align_scores,
    analyse_published,
    analyse_report,
    analyse_run_sets,
    find_links,
    link_losses,
    load_published,
    plot_alignment,
    predict_losses,
    query_claims,
    read_model_scores,
)
from msshift_bench.analysis.query_links import query_notes
from msshift_bench.arrays import Floats
from msshift_bench.cli import app
from msshift_bench.data import DataInfo, open_dataset
from msshift_bench.errors import UsageError
from msshift_bench.evaluation import (
    Result,
    Scores,
    Settings,
    estimates_of,
    evaluate_run_sets,
    losses_of,
    parse_measure,
)
from msshift_bench.similarity import Similarity, group_similarity, set_similarity
from msshift_bench.stats import UNTESTED, Figure, Figures, Inference, infer
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs
from tests.support.golden import Golden
from tests.support.made_scores import made_scores
from tests.support.refusals import check_refusals

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
def similarities(data: Path) -> list[Similarity]:
    names = ("weighted-jaccard", "unseen-words")
    return [one for name in names for one in group_similarity(data, "wh-words", name)]


@pytest.fixture(scope="module")
def analysis(report: Result, similarities: list[Similarity]) -> Result:
    return analyse_report(report, similarities, bins=3)


def test_points_are_the_losses_of_the_report_and_the_values_of_the_indicator(
    analysis: Result, report: Result, similarities: list[Similarity]
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


def test_what_analyses_show(analysis: Result, data: Path, tmp_path: Path, golden: Golden) -> None:
    runs, test = tmp_path / "runs", {"8": "cheap rooms in rome", "9": "who is rome"}
    published, far = analyse_published(), {"9": "quantum chromodynamics"}
    shown = {"two seeds": analysis, "figures of the paper": published}
    for name, shift, seeds in (
        ("one seed", "wh-words", ()),
        ("a shift of two groups, which counts in the link over all", "length", ()),
        ("a system of two seeds beside one of one", "wh-words", (1, 2)),
    ):
        write_runs(runs / ("splade" if seeds else "dense"), data, shift, seeds)
        shown[name] = analyse_run_sets(runs, data, settings=RR, bins=2)
    on_topics = find_links(published.figures)[0]
    few = link_losses(points(0.3, 0.25, 0.1, queries=600))
    flat = link_losses(points(0.2, 0.2, 0.2))
    of_length = {"C0": "short", "C1": "long"}
    of_two = [
        row._replace(shift="length", group=of_length[row.group]) if row.group != "C2" else row
        for row in points(0.3, 0.25, 0.1)
    ]
    shown["three groups of two shifts, too few for two heights"] = link_losses(of_two)
    predicted = {
        "foretold": predict_losses(published, TRAIN, test),
        "foretold by a link": predict_losses(published, TRAIN, test, link=on_topics),
        "extrapolated": predict_losses(published, TRAIN, far, extrapolate=True),
        "of test sets of another size": predict_losses(few, TRAIN, {"9": "who is rome"}),
        "of a flat line": predict_losses(flat, TRAIN, {"9": "who is rome"}),
    }
    for name, result in predicted.items():
        figures = result.figures.where(test="new queries")
        shown[name] = replace(result, figures=figures)
    golden.check_results("analyses.csv.gz", shown)
    golden.check_layout("prediction.md", predicted["of a flat line"])
    slopes = analysis.figures.where(figure=("slope", "slope_inside_groups"), system=MEAN_OF_SYSTEMS)
    assert {row.family for row in slopes} == {"holm over 3 tests (verdicts of this call)"}
    bins = shown["one seed"].figures.where(figure="rel_loss", group=ALL_GROUPS)
    assert set(bins.names("counts")) - {""} == {"queries only"}


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
            assert loss.low < loss.value < loss.high
            assert loss.counts == "queries and seeds"
    assert sum(row.value or 0.0 for row in columns) == pytest.approx(len(GROUPS))


def test_the_loss_of_an_interval_is_that_of_its_queries(
    report: Result, similarities: list[Similarity]
) -> None:
    scores = report.scores[1]
    unseen = {row.group: dict(zip(row.query_ids, row.values, strict=True))
              for row in similarities if row.indicator == "unseen-words"}  # fmt: skip
    edge = np.quantile([value for of_group in unseen.values() for value in of_group.values()], 0.5)
    low = {query for of in unseen.values() for query, value in of.items() if value < edge}
    part = scores.restricted_to(low)
    expected = estimates_of(part, RR10, part.groups, "pooled")["all queries"]["rel_loss"]
    figures = analyse_report(report, similarities, bins=2).figures
    loss = figures.where(figure="rel_loss", group=ALL_GROUPS, system=scores.system)[0]
    assert loss.value == pytest.approx(expected.value)
    assert loss.interval == pytest.approx(expected.uncertainty().interval(expected.value, 0.95))


def test_a_group_of_one_query_has_no_plan(similarities: list[Similarity]) -> None:
    sizes = dict(zip(GROUPS, (1, 4, 4), strict=True))
    draw = np.random.default_rng(0).random
    scores = made_scores("dense", {g: draw((1, 3, n)) for g, n in sizes.items()}, shift="wh-words")
    jaccard = [row for row in similarities if row.indicator == "weighted-jaccard"]
    found = analyse_report(losses_of([scores], DataInfo(), RR), jaccard)
    assert found.figures.where(figure="detectable").names("group") == ["how", "who"]


def test_what_cannot_be_analysed_is_refused(
    report: Result, similarities: list[Similarity], data: Path, runs: Path, tmp_path: Path,

) -> None:  # fmt: skip
    first, *rest = [row for row in similarities if row.indicator == "unseen-words"]
    not_known = np.full(first.queries, np.nan)
    others = tuple(map(str, range(-len(not_known), 0)))
    spoilt = {
        "DataError unseen-words wha": rest,
        "DataError unseen-words wha nan": [replace(first, value=math.nan), *rest],
        "DataError 27 wha": [replace(first, values=not_known), *rest],
        "DataError 27 wha 107": [replace(first, query_ids=others), *rest],
        "UsageError wh-words": [replace(row, shift="topics") for row in similarities],
    }  # fmt: skip
    write_runs(tmp_path / "two groups" / "dense", data, "length")
    write_runs(tmp_path / "untrained" / "bm25", data, "wh-words", one=True)
    write_runs(tmp_path / "lacking" / "dense", data, "wh-words")
    (tmp_path / "lacking" / "dense" / "wh-words" / "how.run.gz").unlink()
    folders = {
        "two groups": "DataError 3 length 2",
        "untrained": "DataError held-out",
        "lacking": "RunError [missing-run] how.run 'how' fix",
    }
    analyse = partial(analyse_run_sets, runs, data)
    refusals = {
        **{wrong: partial(analyse_report, report, given) for wrong, given in spoilt.items()},
        **{
            f"{name}: {facts}": partial(analyse_run_sets, (tmp_path / name,), data)
            for name, facts in folders.items()
        },
        "UnknownNameError 'jaccard'": partial(analyse, indicators=["jaccard"]),
        "UnknownNameError 'ms_shift_v3'": partial(load_published, "ms_shift_v3"),
        "UsageError models model-based": partial(analyse, models="x"),
        "UsageError 2 1": partial(analyse, bins=1),
        "UsageError missing='zero'": partial(analyse, settings=Settings(missing="skip")),
    }
    check_refusals(refusals)


def test_the_papers_own_figures_give_the_known_correlations() -> None:
    """Those that were computed apart from this package; the golden file has the others."""
    found = analyse_published()
    of_all, of_tests, *_, every = find_links(found.figures)
    best, worst = (
        found.figures.first(**{**link.about, "figure": "spearman"}, system=system)
        for link, system in ((of_all, "splade-max"), (of_tests, of_tests.systems[0]))
    )
    assert (best.value, best.p_uncorrected) == pytest.approx((-1, 2 / 120))
    assert worst.value == pytest.approx(-0.4)  # C0 and C3 change places
    printed = load_published("ms_shift_similarity")["all"].values()
    assert of_all.similarities.tolist() == list(printed)
    # What is one line for both shifts is none for shifts of their own heights.
    (line,) = found.figures.where(**every.about, system=MEAN_OF_SYSTEMS)
    assert line.p_uncorrected < 0.05 < every.verdict(found.figures).p_uncorrected < 0.1


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
    assert similarity.value == set_similarity(TRAIN, test, "weighted-jaccard").value
    link = find_links(analysis.figures)[3]
    line, value = link.line(MEAN_OF_SYSTEMS), similarity.value or 0.0
    assert [row.figure for row in rows] == ["foretold", "line"] * 5
    assert [row.system for row in rows][-1] == MEAN_OF_SYSTEMS
    assert rows[-1].value == line.at(value)
    assert rows[-1].interval == line.interval(value)
    assert rows[-2].interval == line.interval(value, of_a_group=True)
    flat = predict_losses(link_losses(points(0.2, 0.2, 0.2)), TRAIN, {"9": "who is rome"})
    (foretold,) = flat.figures.where(figure="foretold")
    assert (foretold.value, foretold.low, foretold.high) == pytest.approx((0.2, 0.2, 0.2))
    nothing = replace(analysis, figures=Figures([]))
    refusals = {
        "DataError 0 0.2261 0.4268 --extrapolate": partial(
            predict_losses, analysis, TRAIN, {"9": "quantum theory"}
        ),
        "UsageError run sets": partial(predict_losses, nothing, TRAIN, TRAIN),
        "UsageError 'analysis'": flat.per_query,
    }
    check_refusals(refusals)


def test_a_link_by_an_encoder_predicts_with_that_encoder_alone(build_once: Build) -> None:
    """The default encoder may be another one, whose cosines lie on another scale."""
    rows = points(0.3, 0.25, 0.1)
    by_encoder = [row._replace(against="mean-cosine" if row.against else "") for row in rows]
    link = link_losses(by_encoder)
    dataset = open_dataset(build_once("mini:300", "length", "wh-words"))
    train, test = (dataset.rows("wh-words-how", split) for split in ("train", "test"))
    with pytest.raises(UsageError, match="--encoder"):
        predict_losses(link, train, test)
    found = predict_losses(link, train, test, encoder="terms", extrapolate=True)
    similarity = found.figures.where(test="new queries")[0]
    assert similarity.value == set_similarity(train, test, "mean-cosine", encoder="terms").value


def test_a_group_has_one_loss_per_system_and_one_similarity() -> None:
    """The last of several losses, and the first of several similarities, would count alone."""
    rows = points(0.3, 0.2, 0.1)
    wrong: dict[str, Sequence[Figure]] = {
        "DataError dense C2": [*rows, rows[4]],
        "two similarities: DataError weighted-jaccard C2": [*rows, rows[5]],
        "no similarity: DataError weighted-jaccard C2": rows[:5],
        "DataError b C1 C2": [*rows, points(0, 0, 0, system="b")[0]],
        "DataError 3 topics 2": rows[:4],
        "nothing: DataError 3 test train all": [],
        "no slice: DataError 3 test train all": [row._replace(slice="") for row in rows],
    }
    refusals: dict[str, Callable[[], object]] = {
        name: partial(link_losses, given) for name, given in wrong.items()
    }
    nothing = made_scores("dense", {"C0": np.zeros((1, 5, 2))}, shift="topics")
    claims = query_claims("model-based", [nothing], RR10, {"C0": np.array([0.1, 0.2])})
    refusals["DataError model-based 0.5"] = partial(linked, SLOPES, alike=TOPICS)
    refusals["DataError dense RR@10 C0"] = partial(list, claims)
    check_refusals(refusals)
    of_numpy = link_losses(points(*np.float32((0.3, 0.2, 0.1)))).to_json()
    assert json.loads(json.dumps(of_numpy))["figures"][0]["value"] == pytest.approx(0.3)


# ---- links inside the groups of one shift, of known slopes ---------------------------------------


RR10 = parse_measure("RR@10")
TOPICS = ("C0", "C1", "C2", "C3", "C4")
SLOPES = (-0.30, -0.28, -0.31, -0.29)
X = np.linspace(0, 1, 40)


def scores_of(slopes: Sequence[float], system: str = "dense", measure: str = "RR@10") -> Scores:
    """Return a system whose losses change at these slopes over X in C0, C1, ..., by one seed."""
    cubes = {}
    for place, (group, slope) in enumerate(zip(TOPICS, slopes, strict=False)):
        cubes[group] = np.ones((1, len(TOPICS), len(X)))
        cubes[group][:, place] = 0.5 - slope * X
    return made_scores(system, cubes, shift="topics", measure=measure)


def linked(
    slopes: Sequence[float], alike: Sequence[str] = (), bins: int = 2
) -> tuple[Figures, list[str]]:
    """Link losses that change at these slopes; queries of the groups `alike` do not differ."""
    scores = scores_of(slopes)
    values: dict[str, Floats] = {
        group: np.full(len(X), 0.5) if group in alike else X for group in scores.groups
    }
    figures = infer(query_claims("model-based", [scores], RR10, values, bins=bins), Inference())
    return figures, [note.text for note in query_notes(figures)]


def test_verdicts_on_slopes_inside_groups() -> None:
    # By hand: the slopes' mean is 0.295, their standard error 0.0129 / 2, and t(3) 3.182.
    cases = {
        "the higher, the less is lost": linked(SLOPES),
        "the higher, the more is lost": linked([-slope for slope in SLOPES]),
        "two groups have a slope": linked(SLOPES, alike=("C2", "C3")),
    }
    for (_, (verdict, *notes)), words, slope in zip(
        cases.values(),
        ("show a link less lost", "show a link more lost", "cannot show"),
        ("-29.5 [-31.6, -27.4]", "+29.5 [27.4, 31.6]", "fewer than 3 groups"),
        strict=True,
    ):
        assert all(word in verdict for word in words.split())
        assert all(part in notes[0] for part in slope.split(" ", 1)), notes[0]
    figures, few = (cases[name][0] for name in list(cases)[::2])
    (found,) = figures.where(figure="slope_inside_groups")
    assert (found.mark, found.counts) == ("*", "groups")
    assert figures.where(figure="groups")[0].value == 4
    assert [row.queries for row in figures.where(figure="rel_loss")] == [80, 80]
    assert not few.where(figure=("slope_inside_groups", "groups"))


@pytest.mark.parametrize("bins", [41, 1000])
def test_more_intervals_than_values_leave_none_of_them_empty(bins: int) -> None:
    figures, _ = linked(SLOPES, bins=bins)
    parts = figures.where(figure="similarity")
    sizes = [part.queries or 0 for part in parts]
    assert sum(sizes) == 160
    assert min(sizes) > 0
    assert len(parts) > 30
    assert [part.high for part in parts[:-1]] == [part.low for part in parts[1:]]
    assert (parts[0].low, parts[-1].high) == (0, 1)


def test_the_verdict_rests_on_the_mean_of_the_systems() -> None:
    # Lower is better: where Out rises with X, more is lost.
    systems = [scores_of([-slope] * 3, f"{slope}", "ASL@100") for slope in (0.1, 0.3)]
    values = dict.fromkeys(TOPICS[:3], X)
    claims = query_claims("model-based", systems, parse_measure("ASL@100"), values)
    figures = infer(claims, Inference())
    slopes = {row.system: row.value for row in figures.where(figure="slope_inside_groups")}
    assert slopes == pytest.approx({"0.1": 0.1, "0.3": 0.3, MEAN_OF_SYSTEMS: 0.2})
    assert query_notes(figures)[1].text.startswith(
        "slope inside the groups, the mean of 2 systems: +20.0 points"
    )


# ---- alignment: two rank correlations of the same models, and the scores that they are of ------

DRAWN = np.random.default_rng(3).standard_normal((3, 9)).round(1)
"""Three scores of nine models, with ties."""

SCORES = """model,beir,interpolation,extrapolation,trec covid
a,0.30,0.61,0.50,0.1
b,0.35,0.60,0.52,0.2
c,0.31,0.63,0.51,0.3
d,0.40,0.62,0.60,0.2
e,0.45,0.64,0.65,0.5
f,0.50,0.59,0.70,0.4
"""


def aligned(interpolation: Floats, extrapolation: Floats, elsewhere: Floats) -> Result:
    """Align models of these scores."""
    columns = {"interpolation": interpolation, "extrapolation": extrapolation, "beir": elsewhere}
    scores = {
        f"m{n}": {name: float(column[n]) for name, column in columns.items()}
        for n in range(len(elsewhere))
    }
    return align_scores(scores, "made up")


@pytest.mark.parametrize("kind", ["spearman", "kendall"])
def test_correlations_are_those_of_scipy_and_their_intervals_hold_them(kind: str) -> None:
    reference = {"spearman": spearmanr, "kendall": kendalltau}[kind]
    first, second, third = DRAWN
    figures = aligned(*DRAWN).figures.where(figure=kind)
    expected = [reference(regime, third).statistic for regime in (first, second)]
    expected.append(expected[1] - expected[0])
    assert [row.value for row in figures] == pytest.approx(expected)
    for row in figures:
        assert row.low < row.value < row.high
    swapped = aligned(second, first, third).figures.where(figure=kind)
    assert swapped[2].value == pytest.approx(-expected[2])
    assert swapped[2].p == pytest.approx(figures[2].p)


def test_clear_differences_and_none(golden: Golden) -> None:
    third = np.arange(6.0)
    scores = {
        "extrapolation": (-third, third**3, third),  # p is 2 of all 2^6 ways to swap
        "interpolation": (third, -third, third),
        "the same": (DRAWN[0], 10 * DRAWN[0], DRAWN[2]),
        "one alike": (np.ones(6), third, third),
        "all alike": (third, -third, np.ones(6)),
    }
    shown = {name: aligned(*columns) for name, columns in scores.items()}
    golden.check_results("alignments.csv", shown)
    golden.check_layout("alignment.md", shown["the same"])


@pytest.mark.extended
def test_a_file_of_scores_from_the_command_line(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(SCORES)
    (tmp_path / "scores.tsv").write_text(SCORES.replace(",", "\t"))
    table = msshift("analyse", "scores.csv", "--format", "csv").stdout.splitlines()
    assert any(line.startswith("score,beir,,a,,,,,,0.3,") for line in table)
    done = msshift("analyse", "scores.csv", "--plot", "points.svg", "--format", "json")
    written = json.loads(done.stdout)
    tests = [row["test"] for row in written["figures"] if row["figure"] == "kendall"]
    assert (written["kind"], tests) == ("alignment", ["beir"] * 3 + ["trec covid"] * 3)
    found = align_scores(read_model_scores(tmp_path / "scores.tsv"), "scores.tsv")
    drawn = plot_alignment(found.figures, tmp_path / "again.svg").read_bytes()
    assert (tmp_path / "points.svg").read_bytes() == drawn
    assert drawn.startswith(b"<?xml")


WRONG = {
    "DataError [no-column] 0.csv:1 fix": "model,interpolation\na,1\n",
    "DataError [repeated-column] 1.csv:1": SCORES.replace("beir", "trec covid"),
    "DataError [not-csv] 2.csv:8 fix": SCORES + 'z,"1,2,3\n',
    "DataError [repeated-model] 3.csv:3 'a'": SCORES.replace("b,", "a,"),
    "DataError [not-a-number] 4.csv:3 'high'": SCORES.replace("0.52", "high"),
    "DataError [not-a-number] 5.csv:3 'nan'": SCORES.replace("0.52", "nan"),
    "DataError [not-a-number] 6.csv:3 6.csv:5": SCORES.replace(",0.2\n", "\n"),
    "DataError [wrong-columns] 7.csv:3 6": SCORES.replace("0.35", "0,35"),
    "DataError [no-column] 8.csv:1 fix": "",
    "DataError [not-utf8] 9.csv 72": SCORES.replace("b,", "\xe9,").encode("latin-1"),
}
"""What is wrong with a file of scores -> the file."""


def test_what_is_wrong_with_scores_is_named(tmp_path: Path) -> None:
    refusals = {}
    for number, (wrong, content) in enumerate(WRONG.items()):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        refusals[wrong] = partial(read_model_scores, path)
    few, blank = tmp_path / "few.csv", tmp_path / "blank.csv"
    few.write_text("".join(SCORES.splitlines(keepends=True)[:4]))
    blank.write_text(SCORES.replace("c,", "\nc,"))
    assert list(read_model_scores(blank)) == list("abcdef")
    regimes = {"interpolation": 1.0, "extrapolation": 1.0}
    models = [f"m{n}" for n in range(5)]
    elsewhere = {model: {**regimes, "dl19": 1.0} for model in models[:4]}
    align = partial(align_scores, source="made up")
    refusals |= {
        "NotFoundError none.csv": partial(read_model_scores, tmp_path / "none.csv"),
        "DataError made": partial(align, dict.fromkeys(models, regimes)),
        "DataError dl19 m4": partial(align, elsewhere | {"m4": regimes}),
        "DataError 3 5": partial(align, read_model_scores(few)),
    }
    check_refusals(refusals)
    for arguments, words in (
        ([str(few), str(few)], "expected one file of models' scores"),
        ([str(few), "--train", "q.tsv", "--test", "q.tsv"], "remove --train, --test"),
        (["--published", "--plot", "p.svg"], "--plot draws alignments"),
        ([str(few), "--plot", "p.gif"], "gif"),
    ):
        done = CliRunner().invoke(app, ["analyse", *arguments])
        assert words in str(done.exception)
