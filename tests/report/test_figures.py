"""Every figure of the report: its numbers, its words, and when it is left out."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.support.fabricated import write_runs
from msshift_bench.analysis import ALL_GROUPS, find_links, say_link
from msshift_bench.cli import app
from msshift_bench.data import open_dataset
from msshift_bench.errors import MissingExtraError, UsageError
from msshift_bench.evaluation import Result, Settings, evaluate_run_sets
from msshift_bench.output import looks_of, picture_style
from msshift_bench.report import write_report
from msshift_bench.report.figure_list import SECTIONS
from msshift_bench.report.link_inputs import LINKS_TITLE
from msshift_bench.report.loss_figures import draw_rel_loss
from msshift_bench.report.matrix_figures import draw_matrices
from msshift_bench.report.query_figures import changed_queries, draw_changed_queries
from msshift_bench.report.report_figure import Drawn, LeftOut, ReportFigure
from msshift_bench.report.report_inputs import Gathered, read_inputs, with_ranks
from msshift_bench.runs import read_run
from msshift_bench.runs.writing import write_run
from msshift_bench.shifts import SHIFTS as SHIFT_TABLE
from tests.conftest import Build
from tests.support.small_report import COLLECTION, SHIFTS, write_small_runs

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gathered(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    data = build_once(COLLECTION, *SHIFTS)
    runs = write_small_runs(tmp_path_factory.mktemp("runs"), data)
    return gather(runs, data)


def gather(runs: Path, data: Path, *shifts: str, links: bool = True) -> Gathered:
    settings = Settings("RR@10 nDCG@10")
    report = evaluate_run_sets(runs, data, shifts, with_ranks(settings))
    return read_inputs(report, settings.measures, runs, open_dataset(data), links=links)


@pytest.fixture(scope="module")
def drawn(gathered: Gathered) -> dict[str, ReportFigure]:
    with picture_style():
        every = [one for section in SECTIONS for one in section.draw(gathered)]
    return {one.name: one for one in every if isinstance(one, ReportFigure)}


def of(figure: ReportFigure, **wanted: object) -> list[dict[str, str]]:
    """Return the rows of a figure's CSV file with these values."""
    rows = list(csv.DictReader(io.StringIO(figure.to_csv())))
    assert len(rows) == len(figure.rows)
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def test_every_figure_is_there_with_its_words(drawn: dict[str, ReportFigure]) -> None:
    per_shift = ("in-out", "slices", "variance", "matrix-{}-steady", "queries-{}-single")
    names = {
        one.format(shift) if "{}" in one else f"{one}-{shift}"
        for one in per_shift
        for shift in SHIFTS
    }
    assert names | {"rel-loss", "ties-length", "composition", "overlap"} <= drawn.keys()
    for name, figure in drawn.items():
        assert len(figure.alternative) > 60, name
        assert any(letter.isdigit() for letter in figure.caption), f"{name}: no sample size"
        assert figure.caption.endswith("."), name
        assert figure.rows, name
        assert all(len(row) == len(figure.columns) for row in figure.rows), name


def test_figures_hold_what_the_evaluator_found(
    gathered: Gathered, drawn: dict[str, ReportFigure]
) -> None:
    for result in gathered.report.systems:
        found = result.measures["RR@10"]
        if found.loss is None:
            continue
        where = {"shift": result.shift.name, "system": result.system}
        for group, one in found.loss.groups.items():
            (row,) = of(drawn["rel-loss"], group=group, **where)
            assert one.rel_loss is not None
            assert one.intervals is not None
            assert one.intervals.rel_loss is not None
            for name, value in zip(
                ("rel_loss", "low", "high"), (one.rel_loss, *one.intervals.rel_loss), strict=True
            ):
                assert math.isclose(float(row[name]), value, rel_tol=1e-9)
            (row,) = of(drawn[f"in-out-{result.shift.name}"], group=group, **where)
            assert math.isclose(float(row["avg_in"]), one.avg_in, rel_tol=1e-9)
            assert math.isclose(float(row["out"]), one.out, rel_tol=1e-9)
            # Out and its interval are those of the framed cell of the matrix.
            matrix = drawn[f"matrix-{result.shift.name}-{result.system}"]
            (row,) = of(matrix, group=group, held_out=group, **where)
            assert math.isclose(float(row["mean"]), one.out, rel_tol=1e-9)
            assert math.isclose(float(row["low"]), one.intervals.out.low, rel_tol=1e-6)
            (untrained,) = of(matrix, group=group, system="lexical")
            assert untrained["held_out"] == ""
            if one.uncertainty is not None and one.uncertainty.seed_variance is not None:
                (row,) = of(drawn[f"variance-{result.shift.name}"], group=group, **where)
                assert math.isclose(float(row["sd_from_seeds"]) ** 2, one.uncertainty.seed_variance)


def test_slices_pool_the_groups(gathered: Gathered, drawn: dict[str, ReportFigure]) -> None:
    figure = drawn["slices-length"]
    (everything,) = of(figure, system="steady", slice="all")
    sizes = {group: len(ids) for group, ids in gathered.report.systems[0].scores.groups.items()}
    by_word = of(figure, system="steady", sliced_by="question words")
    assert {row["slice"] for row in by_word} <= {"wha", "how", "who", "others"}
    of_length = [one for one in gathered.report.systems if one.shift.name == "length"]
    assert int(everything["queries"]) == len(of_length[0].scores.query_ids)
    assert sizes
    # Each query has one label, so the slices make up the whole.
    assert sum(int(row["queries"]) for row in by_word) == int(everything["queries"])
    value = sum(float(row["rel_loss"]) for row in by_word) / len(by_word)
    assert abs(value - float(everything["rel_loss"])) < 0.3


def test_changed_queries_are_those_that_change_most(
    gathered: Gathered, drawn: dict[str, ReportFigure]
) -> None:
    result = next(one for one in gathered.report.systems if one.system == "single")
    nearest = gathered.nearest[result.shift.name]
    queries = changed_queries(result, gathered.measure, gathered.texts, "zero", nearest)
    changes = [one.inside - one.out for one in queries]
    assert changes == sorted(changes, reverse=True)
    first = queries[0]
    scores = {
        run.held_out: run.scores["RR@10"][result.scores.query_ids.index(first.query_id)]
        for run in result.scores.runs
    }
    assert first.out == scores[first.group]
    for (held_out, _), rank in first.ranks.items():
        expected = 0.0 if rank is None or rank > 10 else 1 / rank
        assert math.isclose(expected, scores[held_out])
    figure = drawn[f"queries-{result.shift.name}-single"]
    rows = of(figure, kind="hurt")
    assert rows[0]["query_id"] == first.query_id
    assert rows[0]["text"] == first.text != ""
    assert len({row["query_id"] for row in of(figure)}) == 12


def test_queries_that_change_in_one_way_or_not_at_all(gathered: Gathered) -> None:
    result = next(one for one in gathered.report.systems if one.system == "single")
    queries = changed_queries(result, gathered.measure, gathered.texts, "zero", {})
    look = gathered.looks["single"]
    hurt = [one for one in queries if one.inside > one.out]
    first = replace(hurt[0], text="many words " * 40)
    same = [replace(one, out=one.inside) for one in queries]
    with picture_style():
        drawn = draw_changed_queries(result, [first, *hurt[1:]], gathered.measure, look, 3)
        left = draw_changed_queries(result, same, gathered.measure, look, 3)
    assert isinstance(left, LeftOut)
    assert left.why.startswith("no query's RR@10 differs between the models")
    assert "RR@1000" in left.remedy
    assert isinstance(drawn, ReportFigure)
    assert {row["kind"] for row in of(drawn)} == {"hurt"}
    assert f"{len(hurt):,} are hurt, 0 helped, 0 unchanged" in drawn.caption
    # A label has two lines; the table has the text whole.
    assert of(drawn)[0]["text"] == first.text
    labels = [text.get_text() for text in drawn.figure.axes[0].texts]
    begun = [place for place, label in enumerate(labels) if "many words" in label]
    assert len(begun) == 2
    assert labels[begun[1]].endswith("…")


def test_a_group_without_its_held_out_model_has_no_changed_query(
    build_once: Build, tmp_path: Path
) -> None:
    data = build_once(COLLECTION, *SHIFTS)
    write_runs(tmp_path / "single", data, "wh-words")
    (tmp_path / "single" / "wh-words" / "how.run.gz").unlink()
    settings = with_ranks(Settings("RR@10"))
    report = evaluate_run_sets(tmp_path, data, settings=settings, allow_partial=True)
    (result,) = report.systems
    queries = changed_queries(result, settings.measures[0], {}, "zero", {})
    assert {one.group for one in queries} == {"wha", "who"}


def test_a_cell_of_several_seeds_says_what_its_worst_run_lacks(
    build_once: Build, tmp_path: Path
) -> None:
    data = build_once(COLLECTION, *SHIFTS)
    folder = write_runs(tmp_path / "steady", data, "length", (1, 2))
    path = folder / "length" / "seed-1" / "short.run.gz"
    run = read_run(path)
    lacked = next(iter(open_dataset(data).test_sets(SHIFT_TABLE["length"])["long"])).query_id
    del run[lacked]
    write_run(path, run)
    settings = Settings("RR@10", confidence=0.975)
    report = evaluate_run_sets(tmp_path, data, settings=settings)
    with picture_style():
        (matrix,) = draw_matrices(report.systems, settings.measures[0], settings)
        losses = draw_rel_loss([report.systems], settings.measures[0], looks_of(["steady"]))
    (row,) = of(matrix, held_out="short", group="long")
    assert row["missing"] == "1"
    assert isinstance(losses, ReportFigure)
    assert "Lines are 97.5% intervals" in losses.caption


def test_a_system_s_figure_has_a_name_that_a_file_can_have(gathered: Gathered) -> None:
    # Systems of one name are told apart by their folders, as in "paper/steady".
    results = [
        replace(one, scores=replace(one.scores, system="paper/steady"))
        for one in gathered.report.systems
        if one.system == "steady" and one.shift.name == "length"
    ]
    with picture_style():
        (drawn,) = draw_matrices(results, gathered.measure, gathered.report.settings)
    assert drawn.name == "matrix-length-paper-steady"
    assert "paper/steady" in drawn.title


def test_ties_are_bounded_where_there_are_any(drawn: dict[str, ReportFigure]) -> None:
    assert "ties-wh-words" not in drawn
    rows = of(drawn["ties-length"])
    assert {row["system"] for row in rows} == {"lexical"}
    for row in rows:
        assert float(row["worst"]) < float(row["best"])
        assert float(row["worst"]) <= float(row["score"]) <= float(row["best"])


def test_groups_add_up(gathered: Gathered, drawn: dict[str, ReportFigure]) -> None:
    rows = of(drawn["composition"], shift="length", split="train")
    sizes = {row["group"]: int(row["queries"]) for row in rows}
    training = gathered.dataset.info.training["length"].queries
    assert sizes == dict(training)
    (shared,) = of(drawn["overlap"], group="short", other_group="long")
    assert shared["shared"] == "0"
    row, mirrored = (
        of(drawn["overlap"], group=a, other_group=b)[0]
        for a, b in (("wha", "long"), ("long", "wha"))
    )
    assert row["shared"] == mirrored["shared"]


def test_links_are_drawn_with_their_verdicts(
    gathered: Gathered, drawn: dict[str, ReportFigure]
) -> None:
    assert isinstance(gathered.analysis, Result)
    figures = gathered.analysis.figures
    for link in find_links(figures):
        figure = drawn[f"link-{link.against}"]
        assert say_link(figures.where(**link.about, system=link.tested)[0]) in figure.caption
        assert f"{len(link.groups)} groups" in figure.alternative
        rows = of(figure, shifts=link.shift)
        losses = [row.value for row in link.losses_in(figures)]
        assert [float(row["rel_loss"]) for row in rows] == pytest.approx(losses)
    of_length = figures.where(shift="length", group=ALL_GROUPS)
    assert set(of_length.names("counts")) >= {"queries only", "queries and seeds"}
    (indicator,) = figures.where(figure="distribution").names("against")
    caption = drawn[f"intervals-{indicator}"].caption
    assert "(queries and seeds where a system has several seeds, else queries only)" in caption
    for system in of_length.where(figure="rel_loss").names("system"):
        for name, value in (("intervals", "rel_loss"), ("boxes", "median")):
            rows = of(drawn[f"{name}-{indicator}"], shift="length", system=system)
            expected = of_length.where(figure=value, system=system)
            assert [int(row["queries"]) for row in rows] == [part.queries for part in expected]
            assert [float(row[value]) for row in rows] == pytest.approx(
                [part.value for part in expected]
            )
    (nearest,) = of(drawn["queries-length-single"], kind="hurt", held_out="short")[:1]
    known = gathered.nearest["length"][nearest["query_id"]]
    assert nearest["nearest_training_query"] == known.text
    training = gathered.dataset.rows(f"length-{nearest['group']}", "train")
    assert known.query_id in {row.query_id for row in training}
    sizes = of(drawn["distribution-nearest-query"], shift="length", group="short")
    assert sum(int(row["queries"]) for row in sizes) == len(
        gathered.dataset.rows("length-short", "test")
    )


def left_out(found: Gathered) -> dict[str, LeftOut]:
    with picture_style():
        every: Sequence[Drawn] = [one for section in SECTIONS for one in section.draw(found)]
    return {one.title: one for one in every if isinstance(one, LeftOut)}


def test_what_is_not_there_is_left_out_and_said(
    build_once: Build, tmp_path: Path, gathered: Gathered
) -> None:
    data = build_once(COLLECTION, *SHIFTS)
    folder = write_small_runs(tmp_path, data)
    found = left_out(gather(folder / "lexical", data, "length", links=False))
    assert found["Rel Loss by shift"].why == "no system was trained without each group in turn"
    assert "msshift baseline run" in found["Query length: Avg In against Out"].remedy
    assert "two seeds" in found["Query length: seeds against queries"].why
    assert found["Map of the topics"].remedy == "build it with the topics: `msshift build topics`"
    assert found[LINKS_TITLE].remedy == "`msshift report` without --no-links"
    assert "for several shifts" in found["Test queries that groups share"].remedy
    every = left_out(gathered)
    assert "Question words: what ties could change" in every
    assert "--keep-model" in every["Losses by the model-based similarity R"].remedy
    two_groups = left_out(gather(folder / "single", data, "length"))
    assert "at least 3 groups" in two_groups[LINKS_TITLE].why


def test_figures_and_tables_are_files(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certainty = [section for section in SECTIONS if section.name == "certainty"]
    monkeypatch.setattr("msshift_bench.report.report_writer.SECTIONS", certainty)
    data = build_once(COLLECTION, *SHIFTS)
    runs = write_small_runs(tmp_path / "runs", data)
    out = tmp_path / "report"
    written = write_report(runs / "lexical", out, data, ["length"], links=False)
    assert written.figures == ("ties-length",)
    for ending, begin in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")):
        assert (out / "figures" / f"ties-length{ending}").read_bytes().startswith(begin)
    assert (out / "figures" / "ties-length.csv").read_text("utf-8").startswith("shift,")
    for name in written.tables:
        assert "\\toprule" in (out / "tables" / f"{name}.tex").read_text("utf-8")
        assert "lexical,RR@10,mean,score," in (out / "tables" / f"{name}.csv").read_text("utf-8")
    (left_out,) = written.left_out
    page = written.page.read_text("utf-8")
    assert "seeds against queries" in left_out.title
    assert f"<dt>{left_out.title}</dt><dd>{left_out.why}. What would bring it: " in page
    command = ["report", str(runs / "lexical"), "--data", str(data), "--shift", "length"]
    command += ["--no-links", "--out", str(out)]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    assert f"left out: {left_out.title}: {left_out.why}; what would bring it:" in told.stderr
    assert told.stdout.startswith(f"open {written.page}\n  1 figures in {out / 'figures'}: .svg")
    listed = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert listed["page"] == str(written.page)
    assert listed["figures"] == ["ties-length"]
    assert [one["title"] for one in listed["left_out"]] == [left_out.title]


def test_a_report_replaces_reports_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not a report that was written before"):
        write_report("runs", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"a report needs the 'plots' extra: pip install"):
        write_report("runs", tmp_path / "new")
    assert not (tmp_path / "new").exists()
