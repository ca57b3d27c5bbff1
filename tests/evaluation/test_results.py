"""What holds of every kind of result: figures as JSON, CSV, Arrow and data frames, and tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from msshift_bench import (
    Figure,
    Result,
    Settings,
    compare_run_sets,
    evaluate_extra_tests,
    evaluate_run_sets,
    score_runs,
)
from msshift_bench.data import DataInfo, read_labels
from msshift_bench.evaluation import LeakedQueries, Note, Section
from msshift_bench.stats import Figures

pd = pytest.importorskip("pandas")


def losses(world: Path) -> Result:
    labels = read_labels(str(world / "labels.tsv"), world / "msshift")
    without = LeakedQueries(frozenset(list(labels)[::9]), "a list")
    runs, data = world / "runs", world / "msshift"
    settings = Settings("RR@10 ASL@5")
    return evaluate_run_sets(runs, data, ["topics"], settings, labels=labels, without=without)


def scores(world: Path) -> Result:
    runs = [world / "runs" / name for name in ("bm25/length.run", "late/length/short.run")]
    settings = Settings("RR@10 NumRet AP(rel=3)")
    return score_runs(runs, world / "qrels.tsv", settings)


def leads(world: Path) -> Result:
    return score_runs([world / "runs/late/length/short.run"], "length-short",
                      data=world / "msshift", reference=world / "runs/bm25/length.run")  # fmt: skip


KINDS: Mapping[str, Callable[[Path], Result]] = {
    "losses": losses,
    "differences": lambda world: compare_run_sets(world / "runs", world / "msshift", ["topics"]),
    "scores": scores,
    "leads": leads,
    "extra tests": lambda world: evaluate_extra_tests(
        world / "runs", {"graded": world / "graded"}, settings=Settings("RR@10 nDCG@10")
    ),
    "variants": lambda world: evaluate_extra_tests(
        world / "runs", {"typos": world / "typos.tsv"}, world / "msshift", ["length"]
    ),
}
"""A kind of result -> what makes one."""


@pytest.fixture(scope="module", params=KINDS)
def result(request: pytest.FixtureRequest, world: Path) -> Result:
    return KINDS[request.param](world)


@pytest.mark.every(3)
def test_json_holds_every_figure_and_what_it_rests_on(result: Result) -> None:
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert (content["schema"], content["kind"]) == (3, result.kind)
    read = [Figure(**row) for row in content["figures"]]
    assert read == [
        row._replace(value=None) if np.isnan(row.number) else row for row in result.figures
    ]
    assert content["settings"]["ties"] == "trec"
    assert content["settings"]["measures"] == [str(one) for one in result.settings["measures"]]
    assert {len(run["digest"]) for run in content["runs"]} == {64}
    assert len(content["runs"]) == sum(len(part.runs) for part in result.scores)
    assert [Note(**note) for note in content["notes"]] == list(result.notes)
    assert content["data"]["content_digest"] == result.data.content_digest
    assert repr(result).startswith(f"<Result: {result.kind}, <Figures: {len(result.figures):,} of")


def test_csv_arrow_and_data_frames_have_a_row_for_every_figure(result: Result) -> None:
    lines = list(csv.DictReader(result.to_csv().splitlines()))
    table, frame = result.to_arrow(), result.to_pandas()
    fields = list(Figure._fields)
    assert list(lines[0]) == table.column_names == list(frame.columns) == fields
    assert len(lines) == len(table) == len(frame) == len(result.figures)
    assert frame["seeds"].dtype == frame["queries"].dtype == "Int64"
    values = [np.nan if figure.value is None else figure.value for figure in result.figures]
    np.testing.assert_array_equal(frame["value"].to_numpy("float64", na_value=np.nan), values)
    assert frame["value"].dtype == frame["p"].dtype == "float64"
    head = json.loads(table.schema.metadata[b"msshift_bench"])
    assert head == {
        k: v for k, v in result.to_json().items() if k not in ("figures", "answers", *result.facts)
    }
    for line, row, figure in zip(lines, table.to_pylist(), result.figures, strict=True):
        assert [line[name] for name in fields[:9]] == list(figure[:9])
        assert (line["mark"], row["mark"]) == (figure.mark, figure.mark)
        for name in ("value", "low", "high", "p", "seeds", "queries", "seed_share"):
            expected = getattr(figure, name)
            if expected is None or np.isnan(expected):
                assert line[name] == ""
            else:
                assert float(line[name]) == pytest.approx(expected, rel=1e-9, abs=1e-15)
                assert row[name] == expected


def test_tables_are_rectangles_above_their_notes(result: Result) -> None:
    sections = list(result.sections(verbose=True))
    assert result.tables() == [table for tables, _ in sections for table in tables]
    for table in result.tables():
        assert table.title
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.header)}
        assert any(cell.text not in ("", "-") for row in table.rows for cell in row[table.names :])
    assert {note.text for note in result.notes} <= {line for _, lines in sections for line in lines}
    for (_, few), (_, lines) in zip(result.sections(), sections, strict=True):
        always = {note.text for note in result.notes if note.kind in ("caveat", "doubt")}
        others = [line for line in lines if line not in always]
        assert [line for line in few if line in always] == [
            line for line in lines if line in always
        ]
        if len(others) > 3:
            others[2:] = [f"{len(others) - 2} more notes: --verbose, or `notes` in JSON"]
        assert [line for line in few if line not in always] == others
    assert result.warnings == [note.text for note in result.notes if note.kind == "doubt"]


def test_per_query_scores_give_the_means(result: Result) -> None:
    frame = result.per_query().to_pandas()
    grouped_by = cache(lambda names: frame.groupby(list(names))["score"])
    assert set(frame["measure"]) == {str(measure) for measure in result.settings["measures"]}
    means = result.figures.where(
        figure=("model_score", "score", "sum"), slice="", against="", test=""
    )
    for row in means:
        if row.group == "mean":
            continue
        wanted = {"measure": row.measure, "group": row.group}
        wanted |= {"system": row.system, "shift": row.shift} if row.shift else {"run": row.system}
        wanted |= {"held_out": row.model} if row.model not in ("", "all") else {}
        scores = grouped_by(tuple(wanted)).get_group(tuple(wanted.values()))
        expected = scores.sum() if row.figure == "sum" else scores.mean()
        assert row.number == pytest.approx(expected, nan_ok=True)


def test_notes_stand_below_the_tables_that_they_are_about() -> None:
    notes = [
        Note("of all", "doubt"),
        Note("of length", about={"shift": "length"}),
        Note("of topics", about={"shift": "topics"}),
        Note("of groups", about={"shift": "length", "view": "groups"}),
        Note("of length", about={"view": "groups"}),
    ]
    sections = [
        Section([], {"shift": "length", "view": "groups"}, ["first"]),
        Section([], {"shift": "length", "view": "delta"}),
        Section([], {"shift": ""}),
    ]
    result = Result("losses", Figures([]), {}, DataInfo(), notes, lambda _: sections)
    assert [lines for _, lines in result.sections()] == [
        ["first", "of length", "of groups"],
        ["of length"],
        ["of length", "of all"],
    ]
    assert result.warnings == ["of all"]
