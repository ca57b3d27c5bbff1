"""The report: the numbers of its pictures, their words, and what is left out; and its picture."""

from __future__ import annotations

import csv
import dataclasses
import html
import json
import math
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from msshift_bench.analysis import MEAN_OF_SYSTEMS, analyse_run_sets, say_link
from msshift_bench.cli import app
from msshift_bench.data import open_collection, open_dataset
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.errors import MissingExtraError, UnknownNameError, UsageError
from msshift_bench.evaluation import Result, Settings, evaluate_run_sets, losses_of, score_runs
from msshift_bench.output import pictures
from msshift_bench.report import WrittenReport, draw_result, write_report
from msshift_bench.runs import find_run_sets, model_path
from msshift_bench.stats import Figure, Figures
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs
from tests.support.official_checkout import write_checkout, write_mini_checkout
from tests.support.run_files import write_test_set
from tests.support.small_report import COLLECTION, SHIFTS, tie_first, write_small_runs
from tests.support.synthetic_entries import DATA, scored_report

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

SETTINGS = Settings("RR@10 nDCG@10")
FORMATS = "msshift_bench.report.writing.PICTURE_FORMATS"


@pytest.fixture(scope="module", autouse=True)
def _no_pictures() -> Iterator[None]:
    """Write the page and the numbers, without a file of every format."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FORMATS, ())
        yield


@pytest.fixture
def _not_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw without a layout, which takes most of the time: for what is said, and the numbers."""
    engine = "matplotlib.layout_engine.ConstrainedLayoutEngine"
    monkeypatch.setattr(f"{engine}.execute", lambda engine, figure: None)


@pytest.fixture
def _not_flattened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Place the points of the map of topics anyhow, where nobody looks at it."""
    monkeypatch.setattr("msshift_bench.report.data._flatten", lambda vectors: vectors[:, :2])


class Small(NamedTuple):
    """A report on the small runs, and what it was made of."""

    written: WrittenReport
    runs: Path
    data: Path
    result: Result


@pytest.fixture(scope="module")
def small(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Small:
    data = build_once(COLLECTION, *SHIFTS, "topics")
    folder = tmp_path_factory.mktemp("small")
    runs = write_small_runs(folder / "runs", data)
    written = write_report(runs, folder / "report", data, settings=SETTINGS)
    return Small(written, runs, data, evaluate_run_sets(runs, data, settings=SETTINGS))


def rows_of(written: WrittenReport, name: str, **wanted: str) -> list[dict[str, str]]:
    """Return the rows of a picture's CSV file with these values."""
    folder = "tables" if name.startswith("losses-") else "figures"
    path = written.page.parent / folder / f"{name}.csv"
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    return [row for row in rows if all(row[column] == value for column, value in wanted.items())]


def words_of(written: WrittenReport, name: str) -> tuple[str, str]:
    """Return the caption of a picture on the page, and what it says to those who do not see it."""
    page = written.page.read_text("utf-8")
    _, _, picture = page.partition(f'<figure class="drawn" id="{name}">')
    (alternative,) = re.findall('aria-label="([^"]*)"', picture)[:1]
    (caption,) = re.findall("<figcaption>(.*?)</figcaption>", picture, re.DOTALL)[:1]
    return html.unescape(caption), html.unescape(alternative)


def as_rows(result: Result, figures: Sequence[Figure]) -> list[dict[str, str]]:
    """Return the rows that figures of a result have in a CSV file."""
    text = dataclasses.replace(result, figures=Figures(figures)).to_csv()
    return list(csv.DictReader(text.splitlines()))


def check_left_out(written: WrittenReport, remedies: str, drawn: str = "") -> None:
    """Check words of the remedies of what is left out, and the figures, where they are given."""
    assert list(written.figures) == drawn.split() or not drawn
    for (titles, why, remedy), word in zip(written.left_out, remedies.split(","), strict=True):
        assert titles
        assert why
        assert word in remedy


WORDS = {
    "rel-loss": ["64.8%", "[49.4, 80.2]", "47.0%", "[14.5, 79.5]", "holm over 6 tests", "wha 27"],
    "in-out-wh-words": ["6 of 6", "wha 27, how 22, who 29"],
    "in-out-length": ["4 of 4", "short 44, long 62"],
    "matrix-wh-words-single": ["without wha: 11.8, 38.0, 40.8", "lexical: 39.6, 25.8, 27.5"],
    "matrix-wh-words-steady": ["without wha: 17.8, 33.0, 34.7", "2 seeds"],
    "matrix-length-single": ["without short: 18.6, 37.5", "without long: 36.9, 15.0"],
    "matrix-length-steady": ["without short: 17.2, 35.5", "lexical: 27.4, 24.7"],
    "slices-wh-words": ["69.6%, of single on who (29 queries)", "fewer than 20"],
    "slices-length": ["72.6%, of single on how (22 queries)", "fewer than 20"],
    "queries-wh-words-single": ["67 are hurt, 11 helped, 0 unchanged", "rank 7", "(wha)"],
    "queries-wh-words-steady": ["64 are hurt, 14 helped, 0 unchanged", "rank 13, 13"],
    "queries-length-single": ["80 are hurt, 20 helped, 6 unchanged", "rank 13"],
    "queries-length-steady": ["89 are hurt, 16 helped, 1 unchanged", "rank 12, 8"],
    "variance-wh-words": ["2 of 4"],
    "variance-length": ["1 of 3"],
    "link-weighted-jaccard": ["3 groups, from left to right who, wha, how", "cannot show"],
    "link-nearest-query": ["3 groups, from left to right wha, who, how", "cannot show"],
    "distribution-nearest-query": ["wha 0.847 (n = 27)", "long 0.843 (n = 62)"],
    "intervals-nearest-query": ["13, 13, 13, 13, 13, 13", "18, 17, 18, 17, 18, 18"],
    "boxes-nearest-query": ["6 intervals"],
    "topic-map": ["340 of 340", "C0: dryer, drill, fan", "5 topics"],
    "composition": ["wha 69 to train on and 27 to test with", "length 450"],
}
"""Figure -> what its caption or its text for screen readers contains."""


@pytest.mark.extended
def test_the_page_begins_with_the_answers(small: Small) -> None:
    page = small.written.page.read_text("utf-8")
    (shown,) = re.findall('<ul class="answers".*?</ul>', page, re.DOTALL)
    sentences = [html.unescape(line) for line in re.findall("<li>(.*?)</li>", shown)]
    assert sentences == [answer.text for answer in small.result.answers]
    assert page.index(shown) < page.index("<h2")


def test_every_picture_has_its_words(small: Small) -> None:
    for name, contained in WORDS.items():
        caption, alternative = words_of(small.written, name)
        assert all(word in f"{caption} {alternative}" for word in contained), (caption, alternative)
        assert rows_of(small.written, name), name
    page = small.written.page.read_text("utf-8")
    assert "lexical: by the order of equal scores RR@10 is 27.4 to 39.9 on short" in page
    assert "lexical, groups in training: unknown short, long" in page
    check_left_out(small.written, "--keep-model", " ".join(WORDS))


@pytest.mark.extended
def test_the_numbers_of_a_picture_are_figures_of_the_result(small: Small) -> None:
    figures = small.result.figures.where(measure="RR@10")
    losses = figures.where(figure="rel_loss")
    assert rows_of(small.written, "rel-loss") == as_rows(small.result, losses)
    for shift in SHIFTS:
        of_shift = figures.where(shift=shift)
        sides = [row for row in of_shift.where(figure=("avg_in", "out")) if row.group != "mean"]
        assert rows_of(small.written, f"in-out-{shift}") == as_rows(small.result, sides)
        means = of_shift.where(figure="model_score", system=("steady", "lexical"))
        assert rows_of(small.written, f"matrix-{shift}-steady") == as_rows(small.result, means)
        for row in of_shift.where(figure="rel_loss", system="steady"):
            names = {"system": "steady", "group": row.group}
            (error,) = rows_of(small.written, f"variance-{shift}", figure="sd_from_seeds", **names)
            assert math.isclose(float(error["value"]) * math.sqrt(2), row.seed_sd, rel_tol=1e-9)
        for measure in SETTINGS.measures:
            name = f"losses-{shift}-{measure.name.replace('@', '-at-')}"
            expected = small.result.figures.where(shift=shift, measure=measure.name)
            assert rows_of(small.written, name) == as_rows(small.result, expected)
            latex = small.written.page.parent / "tables" / f"{name}.tex"
            assert "\\toprule" in latex.read_text("utf-8")


@pytest.mark.extended
def test_slices_pool_the_groups(small: Small) -> None:
    rows = rows_of(small.written, "slices-length", system="steady")
    sizes = {row["slice"]: int(row["queries"]) for row in rows}
    losses = {row["slice"]: float(row["value"]) for row in rows}
    total = sizes.pop("all queries: all")
    assert total == len(small.result.scores[-1].query_ids)
    by_word = {name for name in sizes if name.startswith("question words: ")}
    assert {name.partition(": ")[2] for name in by_word} <= {"wha", "how", "who", "others"}
    # Each query has one label, so the slices make up all queries.
    assert sum(sizes[name] for name in by_word) == total
    mean = np.mean([losses[name] for name in by_word])
    assert abs(mean - losses["all queries: all"]) < 0.3
    assert sizes["held-out group (length): short"] == len(
        open_dataset(small.data).rows("length-short", "test")
    )


@pytest.mark.extended
def test_queries_are_those_that_change_most(small: Small) -> None:
    name = "queries-length-single"
    rows = rows_of(small.written, name)
    assert len({row["query_id"] for row in rows}) == 12
    (scores,) = [s for s in small.result.scores if (s.system, s.shift_name) == ("single", "length")]
    changes = {}
    for group, queries in scores.groups.items():
        sides = scores.sides("RR@10", group, queries)
        assert sides is not None
        changes |= dict(zip(scores.ids_of(group), (sides.inside - sides.out)[0], strict=True))
    hurt = list(dict.fromkeys(row["query_id"] for row in rows if row["kind"] == "hurt"))
    assert [changes[query] for query in hurt] == sorted(changes.values(), reverse=True)[:6]
    for row in rows:
        place = scores.query_ids.index(row["query_id"])
        score = scores.runs[row["held_out"], None].scores["RR@10"][place]
        rank = float(row["rank"] or math.inf)
        assert math.isclose(score, 0.0 if rank > 10 else 1 / rank)
    dataset = open_dataset(small.data)
    texts = {row.query_id: row.text for row in dataset.rows("length", "queries")}
    assert all(texts[row["query_id"]] == row["text"] for row in rows)
    training = [row.text for row in dataset.rows(f"length-{rows[0]['group']}", "train")]
    assert rows[0]["nearest_training_query"] in training


@pytest.mark.extended
def test_groups_add_up(small: Small) -> None:
    rows = rows_of(small.written, "composition", shift="length", slice="train")
    sizes = {row["group"]: int(float(row["value"])) for row in rows}
    assert sizes == open_dataset(small.data).info.training["length"]["queries"]


@pytest.mark.extended
def test_the_map_of_topics_keeps_topics_apart(small: Small) -> None:
    rows = rows_of(small.written, "topic-map")
    groups = np.array([row["group"] for row in rows])
    queries = open_dataset(small.data).rows("topics", "queries")
    topic_of = {row.query_id: row.group for row in queries}
    assert [topic_of[row["query_id"]] for row in rows] == groups.tolist()
    points = np.array([(float(row["x"]), float(row["y"])) for row in rows])
    distances = np.linalg.norm(points[:, np.newaxis] - points, axis=2)
    np.fill_diagonal(distances, np.inf)
    by_chance = sum((groups == group).mean() ** 2 for group in set(groups))
    assert (groups[distances.argmin(axis=1)] == groups).mean() > by_chance + 0.2


@pytest.mark.extended
def test_links_are_drawn_with_their_verdicts(small: Small) -> None:
    indicators = ["weighted-jaccard", "nearest-query"]
    linked = analyse_run_sets(
        small.runs, small.data, settings=Settings("RR@10"), indicators=indicators, encoder="terms"
    )
    for name in indicators:
        caption, _ = words_of(small.written, f"link-{name}")
        slopes = linked.figures.where(figure="slope", against=name, system=MEAN_OF_SYSTEMS)
        verdicts = {say_link(slope) for slope in slopes}
        assert verdicts
        assert all(verdict in caption for verdict in verdicts)
    drawn = linked.figures.where(against="nearest-query")
    for picture, figures in (
        ("distribution", ("distribution",)),
        ("intervals", ("rel_loss",)),
        ("boxes", ("median", "mean")),
    ):
        rows = rows_of(small.written, f"{picture}-nearest-query")
        shown = [row for row in rows if row["figure"] in figures]
        assert shown == as_rows(linked, drawn.where(figure=figures))


SINGLE = (
    "rel-loss in-out-length matrix-length-single slices-length queries-length-single composition"
)


@pytest.mark.usefixtures("_not_laid_out", "_not_flattened")
@pytest.mark.extended
def test_what_is_not_there_is_left_out_and_said(
    small: Small, build_once: Build, tmp_path: Path
) -> None:
    data = build_once(COLLECTION, "length")
    texts = build_once(COLLECTION, "length", "topics", texts=False)
    of_length = {"data": data, "shifts": ["length"]}
    same = write_runs(tmp_path / "same", data, "length") / "length"
    (same / "long.run.gz").write_bytes((same / "short.run.gz").read_bytes())
    lacking = write_runs(tmp_path / "lacking", small.data, "wh-words", (1,))
    for group in ("how", "who"):
        (lacking / "wh-words" / "seed-1" / f"{group}.run.gz").unlink()
    reports: dict[str, tuple[Path, dict[str, Any]]] = {
        "untrained, without links": (small.runs / "lexical", {**of_length, "links": False}),
        "untrained": (small.runs / "lexical", of_length),
        "two groups": (small.runs / "single", of_length),
        "no texts": (small.runs / "single", {**of_length, "data": texts}),
        "models alike": (same.parent, {"data": data, "allow": ["identical"], "links": False}),
        "missing runs": (lacking, {"data": small.data, "allow": ["partial"], "links": False}),
    }
    written = {
        name: write_report(runs, tmp_path / "reports" / name, **options)
        for name, (runs, options) in reports.items()
    }
    untrained = "matrix-length composition"
    for name, drawn, remedies in (
        ("untrained, without links", untrained, "run,run,--seeds,--no-links,build topics"),
        ("untrained", untrained, "run,run,--seeds,--keep-model,build topics"),
        ("two groups", SINGLE, "--seeds,more groups,build topics"),
        ("no texts", SINGLE, "--seeds,import"),
        (
            "models alike",
            "rel-loss in-out-length matrix-length-same slices-length composition",
            "RR@1000,--seeds,--no-links,build topics",
        ),
        (
            "missing runs",
            "matrix-wh-words-lacking topic-map composition",
            "run files,run files,--seeds,--no-links",
        ),
    ):
        check_left_out(written[name], remedies, drawn)
    rows = rows_of(written["no texts"], "queries-length-single")
    assert {row["text"] for row in rows} == {""}
    page = written["no texts"].page.read_text("utf-8")
    assert "(no text)" in page
    assert "What would bring it: <code>msshift import</code> puts them back." in page
    (doubt,) = (doubt for doubt in written["models alike"].doubts if "the same rankings" in doubt)
    assert html.escape(doubt, quote=False) in written["models alike"].page.read_text("utf-8")


@pytest.mark.usefixtures("_not_laid_out")
@pytest.mark.extended
def test_what_odd_runs_give(build_once: Build, tmp_path: Path) -> None:
    data = build_once(COLLECTION, *SHIFTS, "topics")
    # Systems of one name are told apart by their folders.
    for place, seeds in (("paper", ()), ("mine", (1,))):
        write_runs(tmp_path / place / "single", data, "wh-words", seeds)
    (tmp_path / "paper" / "single" / "wh-words" / "how.run.gz").unlink()
    partly = {
        "settings": Settings("RR@10 RR", confidence=0.975),
        "allow": ["partial"],
        "links": False,
    }
    mini = open_collection(COLLECTION)
    tested = {f"t{query_id}": text for query_id, text in list(mini.queries.items())[::40]}
    judged = {query_id: list(mini.qrels[query_id[1:]])[-1] for query_id in tested}
    write_test_set(tmp_path / "tested", tested, judged)
    options = {"restrain": {"test_sets": [tmp_path / "tested"]}}
    build_dataset(mini, ["restrain-20", "restrain-60"], tmp_path / "sizes", options=options)
    for size in (20, 60):
        write_runs(tmp_path / "of-sizes" / "dense", tmp_path / "sizes", f"restrain-{size}")
    for path in (tmp_path / "of-sizes").rglob("*.run.gz"):
        tie_first(path)
    import_official([write_checkout(tmp_path / "checkout")], tmp_path / "one")
    write_runs(tmp_path / "of-one" / "dense", tmp_path / "one", "topics")
    sizes, one, paper = tmp_path / "sizes", tmp_path / "one", "matrix-wh-words-paper-single"
    of_sizes = {"matrix-restrain-60-dense": ["on interpolation: 28.5; on extrapolation: 32.5"]}
    of_paper = {
        "rel-loss": ["58.6%", "[41.7, 75.5]", "71.7%", "97.5% intervals"],
        paper: ["without how: -, -, -", "11.8, 38.0, 40.8"],
    }
    of_one = {"rel-loss": ["22.0% on average, interval - ", "C3: 100.0%"]}
    for runs, dataset, remedies, words, options in (
        ("paper mine", data, "--seeds,--no-links", of_paper, partly),
        ("of-sizes", sizes, "run,--seeds,--keep-model,build topics", of_sizes, {}),
        ("of-one", one, "run,--seeds,another indicator", of_one, {}),
    ):
        folders = [tmp_path / folder for folder in runs.split()]
        written = write_report(folders, tmp_path / f"report {runs}", dataset, **options)
        check_left_out(written, remedies)
        for name, contained in words.items():
            text = " ".join(words_of(written, name))
            assert all(word in text for word in contained), text
        # Without an interval, or a model that is there, no number stands in its place.
        intervals = {row["low"] != "" for row in rows_of(written, next(iter(words)))}
        assert intervals == {runs != "of-one"}


def write_kept_runs(folder: Path, data: Path) -> Path:
    """Write runs of topics beside folders for their models, in which there is no model."""
    write_runs(folder / "dense", data, "topics")
    (trained,) = find_run_sets([folder])
    for path in trained.files:
        model_path(path).mkdir()
    return folder


@pytest.mark.usefixtures("_not_laid_out", "_not_flattened")
@pytest.mark.extended
def test_releases_with_and_without_training_queries(tmp_path: Path) -> None:
    collection = open_collection("mini:500")
    checkout = write_mini_checkout(tmp_path / "checkout", collection)
    (tmp_path / "tests-only").mkdir()
    (tmp_path / "tests-only" / "EVAL").symlink_to(checkout / "EVAL")
    settings = Settings("RR@10 RR(rel=3)@10")
    written = {}
    for source, options in ((checkout, {"collection": collection}), (tmp_path / "tests-only", {})):
        folder = tmp_path / f"of-{source.name}"
        import_official([source], folder / "msshift", **options)
        runs = write_kept_runs(folder / "runs", folder / "msshift")
        out = folder / "report"
        written[source.name] = write_report(runs, out, folder / "msshift", settings=settings)
    # Models that cannot be read are passed over. No passage has a grade of 3: links are those of
    # the measure that is drawn; without training queries, by the words alone.
    topics = "rel-loss in-out-topics matrix-topics-dense slices-topics queries-topics-dense"
    linked = "distribution-nearest-query intervals-nearest-query boxes-nearest-query"
    for name, links in (
        ("checkout", f"link-weighted-jaccard link-nearest-query {linked}"),
        ("tests-only", "link-weighted-jaccard"),
    ):
        drawn = f"{topics} {links} topic-map composition"
        check_left_out(written[name], "--seeds,--keep-model", drawn)
    # Topics that nobody described are described by their words.
    _, alternative = words_of(written["checkout"], "topic-map")
    assert re.search(r"C0: \w+, \w+", alternative)
    row = rows_of(written["tests-only"], "queries-topics-dense")[0]
    assert (row["nearest_training_query"], row["cosine_with_it"]) == ("", "")


@pytest.mark.extended
def test_files_of_every_format_and_the_command(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msshift_bench.report import writing

    monkeypatch.setattr(FORMATS, ("svg", "png", "pdf"))
    monkeypatch.setattr(writing, "SECTIONS", writing.SECTIONS[:1])
    out, data = tmp_path / "report", build_once(COLLECTION, "length")
    for system in ("lexical", "other"):
        write_runs(tmp_path / "runs" / system, data, one=True)
    command = ["report", str(tmp_path / "runs"), "--data", str(data), "--shift"]
    command += ["length", "--no-links", "--out", str(out)]
    printed = CliRunner().invoke(app, command)
    assert f"open {out / 'report.html'}\n  1 figures in {out / 'figures'}: .svg" in printed.stdout
    title = "Rel Loss by shift; Query length: Avg In against Out"
    assert f"left out: {title}: no system was trained without each group" in printed.stderr
    for ending, begin in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert (out / "figures" / f"matrix-length{ending}").read_bytes().startswith(begin)
    listed = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).stdout)
    assert (listed["page"], listed["figures"]) == (str(out / "report.html"), ["matrix-length"])
    assert [row["title"] for row in listed["left_out"]] == [title]
    assert listed["tables"] == ["losses-length-RR-at-10"]
    command += ["--reference", "lexical"]
    listed = json.loads(CliRunner().invoke(app, [*command, "--format", "json"]).stdout)
    assert listed["tables"] == ["losses-length-RR-at-10", "leads-length-RR-at-10"]
    with (out / "tables" / "leads-length-RR-at-10.csv").open(newline="") as file:
        (lead, *_) = [row for row in csv.DictReader(file) if row["figure"] == "lead"]
    shown = f"{100 * float(lead['value']):.1f}"
    latex = (out / "tables" / "leads-length-RR-at-10.tex").read_text("utf-8")
    assert shown in latex.replace("$-$", "-")
    assert f'<span class="value">{shown}</span>' in (out / "report.html").read_text("utf-8")
    refused = CliRunner().invoke(app, [*command, "--format", "latex"])
    assert isinstance(refused.exception, UnknownNameError)


def test_a_report_replaces_reports_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=re.escape(str(tmp_path))):
        write_report("runs", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"msshift-bench\[plots\]"):
        write_report("runs", tmp_path / "new")
    assert not (tmp_path / "new").exists()


# ---- the picture of a result ---------------------------------------------------------------------


def result_of(**seeds: Sequence[int | None]) -> Result:
    """A result on systems with these seeds; those without seeds gave one run."""
    options = {"shifts": ["length"], "settings": SETTINGS}
    parts = [
        scored_report(name, 0.3, seeds=taken or (None,), per_group=bool(taken), **options)  # type: ignore[arg-type]
        for name, taken in seeds.items()
    ]
    return losses_of([scores for part in parts for scores in part.scores], DATA, SETTINGS)


@pytest.mark.extended
def test_what_a_picture_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pictures._STYLE, "svg.fonttype", "none")  # letters are letters
    for seeds, shown, hidden in (
        (
            {"bm25": (), "dense": (1, 2, 3), "single": (None,)},
            ["dense, 3 seeds", "single, one seed", "*", "†", "33.4", "± 8.2", "14.7", "± 1.7"],
            [],
        ),
        # No star of one seed, no axis without a loss; signs of mathematics are letters.
        ({"single": (None,)}, ["single, one seed", "†", "15.2", "± 1.2"], ["*"]),
        ({"bm25": ()}, ["bm25", "33.4", "49.1", "± 6.4"], ["*", "†", "0", "10"]),
        ({"a $x_1$ and a name so long that nobody could": (1, 2)}, ["*", "15.1", "± 1.7"], ["†"]),
    ):
        draw_result(result_of(**seeds), tmp_path / "out.svg")
        texts = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</", (tmp_path / "out.svg").read_text())
        found = {text.strip() for text in texts}
        assert found >= set(shown)
        assert not found & set(hidden)
    assert any(text.startswith("a $x_1$ and a ") and text.endswith(", 2 seeds") for text in found)


@pytest.mark.extended
def test_a_picture_is_the_same_whenever_it_is_drawn(tmp_path: Path) -> None:
    result = result_of(bm25=())
    for name in ("a.svg", "b.svg", "c.pdf", "d.pdf", "e.PNG"):
        draw_result(result, str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.pdf").read_bytes() == (tmp_path / "d.pdf").read_bytes()
    png = (tmp_path / "e.PNG").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert struct.unpack(">I", png[16:20]) == (2 * 600,)


def test_what_cannot_be_drawn_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, msshift: Command
) -> None:
    result = result_of(dense=(1, 2))
    with pytest.raises(UnknownNameError, match=r"'\.jpg'.*\.svg, \.png, \.pdf"):
        draw_result(result, tmp_path / "out.jpg")
    single = score_runs([{"q1": {"d1": 1.0}}], {"q1": {"d1": 1}})
    with pytest.raises(UsageError, match="'scores'"):
        draw_result(single, tmp_path / "out.svg")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="'plots'"):
        draw_result(result, tmp_path / "out.svg")
    done = msshift("evaluate", "runs", "--plot", "out.jpeg")
    assert done.returncode == 2  # before anything is scored
    assert "unknown ending of a plot's name '.jpeg'" in done.stderr
    assert not list(tmp_path.glob("out*"))
