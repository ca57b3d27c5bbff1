"""Descriptions and entries: fields, versions, classes of training queries, figures of papers."""

from __future__ import annotations

import csv
import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from msshift_bench.analysis import load_published
from msshift_bench.errors import NotFoundError, SubmissionError
from msshift_bench.evaluation import Result
from msshift_bench.leaderboard.description import (
    description_template,
    read_description,
    write_description,
)
from msshift_bench.leaderboard.entries import entries_folder, key_of, load_entries, open_entry
from tests.support.fabricated import write_system
from tests.support.synthetic_entries import add_entry, add_figures, description, scored_report

# Descriptions.


def refused(path: Path) -> dict[str, tuple[str, int]]:
    """Return the field, code and line of everything that is wrong with a description."""
    with pytest.raises(SubmissionError) as error:
        read_description(path)
    return {
        finding.message.partition(": ")[0]: (finding.code, finding.line)
        for finding in error.value.findings
    }


def test_every_empty_field_of_the_template_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "system.toml"
    path.write_text(description_template(), encoding="utf-8")
    lines = [line.partition(" =")[0] for line in path.read_text("utf-8").splitlines()]
    wrong = refused(path)
    assert {name: code for name, (code, _) in wrong.items()} == {
        "board": "unknown-board",
        "authors": "out-of-range",
        "system.name": "wrong-form",
        "system.title": "empty-text",
        "system.family": "unknown-family",
        **{f"training.queries.{shift}": "empty-text"
           for shift in ("topics", "wh-words", "length", "resttest")},
    }  # fmt: skip
    for name, (_, line) in wrong.items():
        assert lines[line - 1] == name.rpartition(".")[2]


def test_empty_fields_are_none_or_today(tmp_path: Path) -> None:
    path = write_system(tmp_path / "system.toml", length="msshift")
    text = path.read_text().replace('submitted = "2026-11-21"', 'submitted = ""')
    path.write_text(text.replace('commands = ""', 'commands = """\n one \n\ntwo\n"""'))
    described = read_description(path)
    assert described.submitted == datetime.date.today().isoformat()
    assert described.system.parameters is None
    assert described.system.links["paper"] is None
    assert described.reproduction.commands == ("one", "two")
    assert described.reproduction.tolerance is None
    assert (described.name, described.place) == ("mini/made-up", "mini/made-up/v1")


def test_a_missing_description_is_refused_with_the_command_for_one(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"'msshift submit --template > .*' writes a template"):
        read_description(tmp_path / "system.toml")


TEXT = st.text(
    st.characters(exclude_categories=("C", "Z"), include_characters=' \\"\n'), max_size=50
)


@given(
    text=TEXT,
    authors=st.lists(TEXT.map(lambda text: f"A{text}".replace("\n", "")), min_size=1, max_size=3),
    year=st.none() | st.integers(1950, 2100),
    tolerance=st.none() | st.floats(0, 1),
    commands=st.lists(st.text("ab '\"$\\{}", min_size=1).filter(str.strip), max_size=3),
)
def test_a_written_description_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    authors: list[str],
    year: int | None,
    tolerance: float | None,
    commands: list[str],
) -> None:
    described = description(
        "made-up",
        None,
        **{
            "note": text,
            "authors": authors,
            "system.year": year,
            "training.data": text,
            "reproduction": {"commands": commands, "tolerance": tolerance},
        },
    )
    path = tmp_path_factory.getbasetemp() / "system.toml"
    write_description(path, described)
    first = path.read_bytes()
    assert read_description(path) == described
    write_description(path, read_description(path))
    assert path.read_bytes() == first


# Entries.


def test_the_newest_version_of_the_last_folder_is_loaded(tmp_path: Path) -> None:
    report = scored_report("mine", 0.1, shifts=("length",))
    for version in (1, 2, 10):
        add_entry(tmp_path / "a", description("mine", report, version=version, note="x"), report)
    add_entry(tmp_path / "b", description("mine", report, **{"system.title": "Later"}), report)
    (tmp_path / "a" / "mini" / "to-come").mkdir()
    (entry,) = load_entries(tmp_path / "a")
    assert entry.description.version == 10
    assert [old.description.version for old in entry.older] == [2, 1]
    (entry,) = load_entries(tmp_path / "a", tmp_path / "b")
    assert entry.description.system.title == "Later"
    with pytest.raises(NotFoundError, match="no folder of entries"):
        load_entries(tmp_path / "c")


def test_a_badge_is_valid_only_for_its_scores(
    board_entries: tuple[Path, dict[str, Result]], tmp_path: Path
) -> None:
    badges = {
        entry.description.system.name: entry.badge for entry in load_entries(board_entries[0])
    }
    assert badges["steady"] == "rescored"
    assert badges["twin"] == "by its authors"
    assert badges["paper"] == "from a paper"
    (tmp_path / "rescored.csv").write_bytes((board_entries[0] / "rescored.csv").read_bytes())
    other = scored_report("steady", 0.06, shifts=("length",))
    add_entry(tmp_path, description("steady", other), other)
    (entry,) = load_entries(tmp_path)
    assert entry.badge == "by its authors"


def test_classes_of_training_queries(board_entries: tuple[Path, dict[str, Result]]) -> None:
    classes = {e.description.system.name: e.training_class for e in load_entries(board_entries[0])}
    assert classes == {
        "bm25": "none",
        "brittle": "held-out",
        "leaky": "trained-on-test",
        "paper": "held-out-reported",
        "partly": "undeclared",
        "steady": "held-out",
        "twin": "held-out",
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"system.family": "lexical"}, "none"),
        ({"system.family": "dense", "training.data": " "}, "undeclared"),
    ],
)
def test_classes_of_a_papers_systems(
    tmp_path: Path, changes: dict[str, str], expected: str
) -> None:
    entry = open_entry(add_entry(tmp_path, description("paper", None, **changes), None))
    assert entry.training_class == expected


def test_missing_figures_of_a_paper_are_computed(tmp_path: Path) -> None:
    folder = add_entry(tmp_path, description("paper", None), None)
    add_figures(
        folder,
        [
            ("length", "RR@10", "short", "avg_in", 0.5),
            ("length", "RR@10", "short", "out", 0.4),
            ("length", "RR@10", "long", "avg_in", 0.4),
            ("length", "RR@10", "long", "out", 0.2),
            ("length", "RR@10", "long", "rel_loss", 0.51),
            ("wh-words", "RR@10", "how", "out", 0.3),
            ("topics", "RR@10", "mean", "avg_in", 0.0),
            ("topics", "RR@10", "mean", "out", 0.0),
        ],
    )
    figures = {key_of(figure): figure.value for figure in open_entry(folder).figures}
    of_length = {key[2:]: value for key, value in figures.items() if key[0] == "length"}
    assert of_length["short", "rel_loss"] == pytest.approx(0.2)
    assert of_length["long", "rel_loss"] == 0.51, "as it is printed"
    assert of_length["mean", "rel_loss"] == pytest.approx((0.2 + 0.51) / 2)
    assert of_length["mean", "out"] == pytest.approx(0.3)
    assert figures["wh-words", "RR@10", "how", "avg_in"] == 0.3, "not trained per group"
    assert ("wh-words", "RR@10", "mean", "out") not in figures, "two groups are not known"
    assert ("topics", "RR@10", "mean", "rel_loss") not in figures, "nothing can be lost"


def numbers(value: object) -> set[float]:
    """Return every number of a JSON value, percentages as fractions, too."""
    if isinstance(value, dict):
        return {number for item in value.values() for number in numbers(item)}
    if isinstance(value, list):
        return {number for item in value for number in numbers(item)}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {round(float(value), 6), round(value / 100, 6)}
    return set()


def test_the_figures_of_entries_are_printed_in_the_papers() -> None:
    names = ("ms_shift_v1", "ms_shift_v2", "interpolation_extrapolation")
    printed = numbers([json.loads(json.dumps(load_published(name))) for name in names])
    checked = 0
    for path in entries_folder().glob("ms-marco/*/*/figures.csv"):
        if open_entry(path.parent).description.rankings:
            continue
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                assert round(float(row["value"]), 6) in printed, (path, row)
                checked += 1
    assert checked == 290
    second = load_published("ms_shift_v2")
    colbert = next(e for e in load_entries() if e.description.name == "ms-marco/colbert")
    figures = {key_of(figure): figure.value for figure in colbert.figures}
    for row in second["topics"]:
        if row["system"] == "colbert":
            key = ("topics", "RR@10", row["group"])
            assert figures[*key, "avg_in"] == pytest.approx(row["avg_in"] / 100)
            assert figures[*key, "rel_loss"] == pytest.approx(row["rel_loss_pct"] / 100)
