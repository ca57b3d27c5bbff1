"""The report: the numbers of its pictures, their words, and what is left out; and its picture."""

from __future__ import annotations

import csv
import dataclasses
import html
import json
import re
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from msshift_bench.analysis import MEAN_OF_SYSTEMS, analyse_run_sets, link_text
from msshift_bench.cli import app
from msshift_bench.data import open_collection, open_dataset
from msshift_bench.dataset_builders.build import build_dataset, import_official
from msshift_bench.errors import MissingExtraError, UnknownNameError, UsageError
from msshift_bench.evaluation import (
    Result,
    Settings,
    compare_run_sets,
    evaluate_run_sets,
    losses_of,
    open_run_sets,
    score_runs,
)
from msshift_bench.output import pictures
from msshift_bench.report import WrittenReport, draw_result, write_report
from msshift_bench.report.drawing import Chart
from msshift_bench.report.inputs import read_inputs
from msshift_bench.report.links import draw_links
from msshift_bench.report.losses import draw_in_out, draw_leads, draw_losses
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
    monkeypatch.setattr("msshift_bench.report.topics._flatten", lambda vectors: vectors[:, :2])


class Small(NamedTuple):
    """A report on the small runs, and what it was made of."""

    written: WrittenReport
    runs: Path
    data: Path
    result: Result
    leads: Result


@pytest.fixture(scope="module")
def small(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Small:
    data = build_once(COLLECTION, *SHIFTS, "topics")
    folder = tmp_path_factory.mktemp("small")
    runs = write_small_runs(folder / "runs", data)
    reference = {"settings": SETTINGS, "reference": "lexical"}
    written = write_report(runs, folder / "report", data, **reference)
    result = evaluate_run_sets(runs, data, settings=SETTINGS)
    return Small(written, runs, data, result, compare_run_sets(runs, data, **reference))


def rows_of(written: WrittenReport, name: str, **wanted: str) -> list[dict[str, str]]:
    """Return the rows of a picture's CSV file with these values."""
    folder = "tables" if name.startswith(("losses-", "leads-")) else "figures"
    path = written.page.parent / folder / f"{name}.csv"
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    return [row for row in rows if all(row[column] == value for column, value in wanted.items())]


def words_of(written: WrittenReport, name: str) -> tuple[str, str]:
    """Return the caption of a picture's chart on the page, and the picture's alternative text."""
    picture = f'<div class="picture" id="{name}" role="img"'
    sections = written.page.read_text("utf-8").split("<section")
    (section,) = (one for one in sections if picture in one)
    (alternative,) = re.findall(f'{picture} aria-label="([^"]*)"', section)
    (caption,) = re.findall("<figcaption>(.*?)</figcaption>", section, re.DOTALL)
    return html.unescape(caption), html.unescape(alternative)


def as_rows(result: Result, figures: Sequence[Figure]) -> list[dict[str, str]]:
    """Return the rows that figures of a result have in a CSV file."""
    text = dataclasses.replace(result, figures=Figures(figures)).to_csv()
    return list(csv.DictReader(text.splitlines()))


def check_leaked_queries(written: WrittenReport, remedies: str, drawn: Sequence[str] = ()) -> None:
    """Check words of the remedies of what is left out, and the figures, where they are given."""
    assert sorted(written.figures) == sorted(drawn) or not drawn
    words = filter(None, remedies.split(","))
    for (titles, why, remedy), word in zip(written.left_out, words, strict=True):
        assert titles
        assert why
        assert word in remedy


WORDS = {
    "rel-loss-wh-words": ["mean 64.8% [49.4, 80.2]", "holm over 6 tests", "wha 27, how 22, who 29"],
    "rel-loss-length": ["mean 54.9% [40.6, 69.2]", "short 44, long 62", "have one seed"],
    "in-out-wh-words": ["single, Avg In: wha", "single, Out: wha 11.8"],
    "in-out-length": ["steady, Out: short 17.2", "short 44, long 62"],
    "matrix-wh-words-single": ["without wha: 11.8, 38.0, 40.8", "lexical: 39.6, 25.8, 27.5"],
    "matrix-wh-words-steady": ["without wha: 17.8, 33.0, 34.7"],
    "matrix-length-single": ["without short: 18.6, 37.5", "without long: 36.9, 15.0"],
    "matrix-length-steady": ["without short: 17.2, 35.5", "lexical: 27.4, 24.7"],
    "lead-wh-words": ["single, lead, Out: wha -27.8", "better than lexical"],
    "lead-length": ["steady, lead, Out: short -10.2"],
    "link-weighted-jaccard": ["3 groups, from left to right who, wha, how", "cannot show"],
    "link-nearest-query": ["3 groups, from left to right wha, who, how", "cannot show"],
    "topic-map": ["340 of 340", "C0: dryer, drill, fan", "5 topics"],
}
"""Figure -> what its caption or its text for screen readers contains."""


def conclusion_of(written: WrittenReport) -> dict[str, list[str]]:
    """Return shift -> the sentences at the top of the page, before any chart."""
    page = written.page.read_text("utf-8").partition("<h2")[0]
    items = re.findall("<li><strong>(.*?)</strong>(.*?)</li>", page, re.DOTALL)
    return {
        shift: [html.unescape(text) for text in re.findall("<p>(.*?)</p>", sentences)]
        for shift, sentences in items
    }


@pytest.mark.extended
def test_the_page_begins_with_a_conclusion_for_each_shift(small: Small) -> None:
    conclusion = conclusion_of(small.written)
    assert list(conclusion) == ["Question words", "Query length"]
    answers = [
        answer.text.removeprefix(f"{answer.figure.shift}: ")
        for answer in (*small.result.answers, *small.leads.answers)
    ]
    assert sorted(text for texts in conclusion.values() for text in texts) == sorted(answers)
    # Losses are the first.
    assert all("that it was not trained on" in texts[0] for texts in conclusion.values())


def test_every_picture_has_its_words(small: Small) -> None:
    for name, contained in WORDS.items():
        caption, alternative = words_of(small.written, name)
        assert all(word in f"{caption} {alternative}" for word in contained), (caption, alternative)
        assert rows_of(small.written, name), name
    page = small.written.page.read_text("utf-8")
    assert "lexical: by the order of equal scores RR@10 is 27.4 to 39.9 on short" in page
    assert "lexical, groups in training: unknown short, long" in page
    check_leaked_queries(small.written, "", sorted(WORDS))


@pytest.mark.extended
def test_the_numbers_of_a_picture_are_figures_of_the_result(small: Small) -> None:
    figures = small.result.figures.where(measure="RR@10")
    leads = small.leads.figures.where(measure="RR@10")
    for shift in SHIFTS:
        of_shift = figures.where(shift=shift)
        sides = [*of_shift.where(figure="avg_in"), *of_shift.where(figure="out")]
        means = of_shift.where(figure="model_score", system=("steady", "lexical"))
        of_leads = [leads.where(shift=shift, figure=name) for name in ("lead_in", "lead_out")]
        for name, expected in (
            (f"rel-loss-{shift}", of_shift.where(figure="rel_loss")),
            (f"in-out-{shift}", sides),
            (f"matrix-{shift}-steady", means),
            (f"lead-{shift}", [row for rows in of_leads for row in rows]),
        ):
            assert rows_of(small.written, name) == as_rows(small.result, expected), name
        for measure in SETTINGS.measures:
            name = f"losses-{shift}-{measure.name.replace('@', '-at-')}"
            expected = small.result.figures.where(shift=shift, measure=measure.name)
            assert rows_of(small.written, name) == as_rows(small.result, expected)
            latex = small.written.page.parent / "tables" / f"{name}.tex"
            assert "\\toprule" in latex.read_text("utf-8")


@pytest.mark.extended
def test_pictures_in_a_row_share_their_scale(small: Small) -> None:
    settings, dataset = Settings.of(SETTINGS), open_dataset(small.data)
    opened = open_run_sets(small.runs, dataset, reference="lexical")
    inputs = read_inputs(opened, dataset, settings, (), links=True)
    for draw, count in ((draw_losses, 2), (draw_in_out, 2), (draw_leads, 2), (draw_links, 2)):
        chart = draw(inputs)
        assert isinstance(chart, Chart)
        assert len(chart.pictures) == count
        axes = [ax for picture in chart.pictures for ax in picture.drawing.axes if ax.has_data()]
        limits = {ax.get_ylim() if draw is draw_links else ax.get_xlim() for ax in axes}
        assert len(limits) == 1


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
        caption, alternative = words_of(small.written, f"link-{name}")
        slopes = linked.figures.where(figure="slope", against=name, system=MEAN_OF_SYSTEMS)
        verdicts = {link_text(slope) for slope in slopes}
        assert verdicts
        assert all(verdict in caption and verdict in alternative for verdict in verdicts)
        drawn = linked.figures.where(figure=("slope", "similarity"), against=name, slice="test")
        rows = rows_of(small.written, f"link-{name}")
        shown = [row for row in rows if row["figure"] in ("slope", "similarity")]
        assert sorted(map(str, shown)) == sorted(map(str, as_rows(linked, drawn)))


SINGLE = "rel-loss-length in-out-length matrix-length-single"


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
    for name, drawn, remedies in (
        (
            "untrained, without links",
            "matrix-length",
            "run bi-encoder,--reference lexical,--no-links,build topics",
        ),
        (
            "untrained",
            "matrix-length",
            "run bi-encoder,--reference lexical,--keep-model,build topics",
        ),
        ("two groups", SINGLE, "--reference bm25,more groups,build topics"),
        ("no texts", SINGLE, "--reference bm25,import"),
        (
            "models alike",
            SINGLE.replace("single", "same"),
            "--reference bm25,--no-links,build topics",
        ),
        (
            "missing runs",
            "matrix-wh-words-lacking topic-map",
            "run files,--reference bm25,--no-links",
        ),
    ):
        check_leaked_queries(written[name], remedies, drawn.split())
    page = written["no texts"].page.read_text("utf-8")
    assert "To get it: run <code>msshift import</code>" in page
    (warning,) = (
        warning for warning in written["models alike"].warnings if "the same rankings" in warning
    )
    assert html.escape(warning, quote=False) in written["models alike"].page.read_text("utf-8")


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
        "rel-loss-wh-words": ["mean 58.6% [41.7, 75.5]", "97.5% intervals"],
        paper: ["without how: -, -, -", "11.8, 38.0, 40.8"],
    }
    of_one = {"rel-loss-topics": ["C3 100.0%", "mean 22.0%"]}
    for runs, dataset, remedies, words, options in (
        ("paper mine", data, "--reference bm25,--no-links", of_paper, partly),
        ("of-sizes", sizes, "--reference bm25,--keep-model,build topics", of_sizes, {}),
        ("of-one", one, "--reference bm25,another indicator", of_one, {}),
    ):
        folders = [tmp_path / folder for folder in runs.split()]
        written = write_report(folders, tmp_path / f"report {runs}", dataset, **options)
        check_leaked_queries(written, remedies)
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
    # Models that cannot be read are skipped. No passage has a grade of 3: links are those of the
    # measure that is drawn; without training queries, by the words alone.
    for name, links in (
        ("checkout", "link-weighted-jaccard link-nearest-query"),
        ("tests-only", "link-weighted-jaccard"),
    ):
        drawn = f"rel-loss-topics in-out-topics matrix-topics-dense {links} topic-map"
        check_leaked_queries(written[name], "--reference bm25", drawn.split())
    assert "C0: names and public figures" in words_of(written["checkout"], "topic-map")[1]


@pytest.mark.extended
def test_files_of_every_format_and_the_command(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msshift_bench.report import writing

    monkeypatch.setattr(FORMATS, ("svg", "png", "pdf"))
    monkeypatch.setattr(writing, "SECTIONS", [writing.SECTIONS[0], writing.SECTIONS[2]])
    out, data = tmp_path / "report", build_once(COLLECTION, "length")
    for system in ("lexical", "other"):
        write_runs(tmp_path / "runs" / system, data, one=True)
    command = ["report", str(tmp_path / "runs"), "--data", str(data), "--shift"]
    command += ["length", "--no-links", "--out", str(out)]
    printed = CliRunner().invoke(app, command)
    assert f"open {out / 'report.html'}\n  1 charts in {out / 'figures'}: .svg" in printed.stdout
    title = "Rel Loss by group"
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
    with pytest.raises(MissingExtraError, match="'plots'"):
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
