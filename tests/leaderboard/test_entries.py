"""The entries that come with the package: papers' results, to the last digit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.support.synthetic_entries import add_entry, submission_json
from benchmarks.support.synthetic_entries import reported as reported_figures
from msshift_bench.errors import NotFoundError, SubmissionError, UnknownNameError
from msshift_bench.leaderboard import load_published
from msshift_bench.leaderboard.boards import BOARDS, get_board
from msshift_bench.leaderboard.entries import Entry, entries_folder, load_entries
from msshift_bench.leaderboard.file_list import write_file_list
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.reproduction import expected_table
from msshift_bench.leaderboard.results import results_of
from msshift_bench.leaderboard.submission import parse_submission
from msshift_bench.shifts import SHIFTS
from scripts.reported_entries import write
from tests.support.spoiling import Json, assert_refused, put, read, seal

V1, V2 = load_published("ms_shift_v1"), load_published("ms_shift_v2")
ZHAN = load_published("interpolation_extrapolation")


@pytest.fixture(scope="module")
def entries() -> dict[str, Entry]:
    found = [one for one in load_entries() if one.board.id == "ms-marco"]
    return {one.submission.system.name: one for one in found}


def reported(entry: Entry) -> dict[str, dict[str, dict[str, float]]]:
    assert entry.submission.reported is not None
    found: dict[str, dict[str, dict[str, float]]] = entry.submission.reported["shifts"]
    return found


def shift_of(group: str) -> str:
    return next(shift.name for shift in SHIFTS.values() if group in shift.groups)


def test_the_committed_entries_are_what_the_script_writes(tmp_path: Path) -> None:
    folders = write(tmp_path)
    assert len(folders) == 11
    for folder in folders:
        for file in folder.iterdir():
            committed = entries_folder() / file.relative_to(tmp_path)
            assert file.read_bytes() == committed.read_bytes(), committed


@pytest.mark.parametrize("row", [*V2["topics"], *V2["wh_and_length"]], ids=str)
def test_every_figure_of_the_second_version(
    row: dict[str, object], entries: dict[str, Entry]
) -> None:
    found = reported(entries[str(row["system"])])[shift_of(str(row["group"]))][str(row["group"])]
    assert [round(100 * found[name], 9) for name in ("avg_in", "out", "rel_loss")] == [
        row[name] for name in ("avg_in", "out", "rel_loss_pct")
    ]


def test_tables_that_no_paper_has_are_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown published tables 'ms_shift_v3'.*v2"):
        load_published("ms_shift_v3")


def test_nothing_else_is_reported(entries: dict[str, Entry]) -> None:
    rows = [*V2["topics"], *V2["wh_and_length"]]
    count = sum(len(groups) for one in entries.values() for groups in reported(one).values())
    assert count == len(rows)


def test_bm25(entries: dict[str, Entry]) -> None:
    submission = entries["bm25"].submission
    assert submission.reported is not None
    means = {
        group: round(100 * mean, 9)
        for groups in submission.reported["untrained"].values()
        for group, mean in groups.items()
    }
    assert means == V2["topics_bm25"] | V2["wh_and_length_bm25"]
    assert submission.training.exposure == "none"


def test_papers_that_state_their_training_queries_hold_out_as_reported(
    entries: dict[str, Entry],
) -> None:
    exposures = {
        name: (entry.submission.training.exposure, bool(entry.submission.training.data))
        for name, entry in entries.items()
    }
    assert exposures.pop("bm25") == exposures.pop("zhan2022-bm25") == ("none", False)
    assert set(exposures.values()) == {("held-out-reported", True)}
    assert len(exposures) == 8


def test_a_paper_that_states_no_training_queries_declares_nothing(tmp_path: Path) -> None:
    topics = dict.fromkeys(SHIFTS["topics"].groups, (0.4, 0.3, 0.25))
    for training, expected in (
        ({}, "held-out-reported"),
        ({"training.data": " "}, "undeclared"),
        ({"training.per_group": False}, "undeclared"),
        ({"system.family": "lexical"}, "none"),
    ):
        value = submission_json(
            "paper",
            None,
            reported=reported_figures({"topics": topics}),
            board="ms-marco",
            **{"training.class": expected, "system.family": "dense", **training},
        )
        folder = add_entry(tmp_path / expected, value, None)
        write_file_list(folder)
        checked = check_submission(folder)
        assert (checked.exposure, checked.findings) == (expected, [])
        shutil.rmtree(tmp_path / expected)


@pytest.mark.parametrize("kind", ["shifts", "untrained"])
def test_a_paper_that_reports_some_topics_has_no_mean_of_all(kind: str) -> None:
    topics = dict.fromkeys(("C0", "C3"), (0.4, 0.3, 0.25))
    figures = reported_figures({"topics": topics})
    if kind == "untrained":
        figures |= {"shifts": {}, "untrained": {"topics": {"C0": 0.3, "C3": 0.3}}}
    submission = parse_submission(submission_json("paper", None, reported=figures))
    (result,) = results_of(submission).values()
    assert {column: shown["out"].text for column, shown in result.columns.items()} == {
        "C0": "30.0",
        "C3": "30.0",
    }
    assert not expected_table(submission).rows


def test_colbert_s_first_version_is_superseded(entries: dict[str, Entry]) -> None:
    (old,) = entries["colbert"].history
    assert entries["colbert"].submission.version == 2
    assert entries["colbert"].submission.note
    assert old.reported is not None
    rows = [row for row in V1["wh_and_length"] if row["system"] == "colbert"]
    for row in rows:
        found = old.reported["shifts"][shift_of(row["group"])][row["group"]]
        assert (found["avg_in"], found["out"]) == (row["avg_in"], row["out"])
        assert round(100 * found["rel_loss"], 9) == row["rel_loss_pct"]
    assert sum(map(len, old.reported["shifts"].values())) == len(rows)


def test_every_paper_s_row_links_paper_and_code_and_says_the_year(
    entries: dict[str, Entry],
) -> None:
    for name, entry in entries.items():
        system = entry.submission.system
        assert {"paper", "code"} <= set(system.links), name
        assert system.year == (2022 if name.startswith("zhan2022") else 2023), name
        # The papers print no numbers of weights.
        assert system.parameters == (0 if system.family == "lexical" else None), name
    (old,) = entries["colbert"].history
    assert old.system.year == 2022


def test_own_rows_say_how_many_weights_a_model_has() -> None:
    own = [one.submission.system for one in load_entries() if one.board.id == "mini"]
    assert {one.name: one.parameters for one in own if one.family == "lexical"} == {"bm25": 0}
    assert all(100_000 < (one.parameters or 0) < 1e6 for one in own if one.family != "lexical")


def test_where_the_versions_agree_there_is_one(entries: dict[str, Entry]) -> None:
    for name, published in (("bi-encoder", "siamese"), ("splade-max", "splade-max")):
        assert entries[name].history == ()
        found = reported(entries[name])
        for row in V1["wh_and_length"]:
            if row["system"] == published:
                figures = found[shift_of(row["group"])][row["group"]]
                assert (figures["avg_in"], figures["out"]) == (row["avg_in"], row["out"])


def test_the_matrix_of_splade(entries: dict[str, Entry]) -> None:
    submission = entries["splade-max"].submission
    assert submission.reported is not None
    matrix = submission.reported["matrix"]["topics"]
    assert {held_out: list(row.values()) for held_out, row in matrix.items()} == V1[
        "splade_topics_matrix"
    ]["rows"]


def test_zhan_et_al(entries: dict[str, Entry]) -> None:
    for name, figures in ZHAN["resttest_msmarco_dev"].items():
        if name == "columns":
            continue
        submission = entries[f"zhan2022-{name.lower()}"].submission
        assert submission.shifts == ()
        assert submission.reported is not None
        test, train = submission.reported["other"]
        ((inter, extra, change, *recall),) = [row["values"] for row in test["rows"]]
        assert [inter, extra, *recall[:2]] == figures
        assert change == round(extra / inter - 1, 4)
        assert [row["name"] for row in train["rows"]] == [
            f"{size} training queries"
            for size in ("14k", "45k", "200k")
            if name in ZHAN["restrain_trec_dl_19_20"][size]
        ]


def test_boards_that_are_toys_say_so() -> None:
    assert list(BOARDS) == ["ms-marco", "msmarco-pool", "mini"]
    for board in BOARDS.values():
        assert (board.kind == "toy") == ("Not MS MARCO" in board.warning)
    with pytest.raises(UnknownNameError, match="did you mean 'mini'"):
        get_board("minni")


def test_models_of_the_slice_have_three_seeds_and_learnt_from_equal_groups() -> None:
    entries = [entry for entry in load_entries() if entry.board.id == "msmarco-pool"]
    submissions = {entry.submission.system.name: entry.submission for entry in entries}
    assert sorted(submissions) == ["bi-encoder", "bm25", "colbert", "monobert", "splade"]
    for submission in submissions.values():
        assert submission.badge == "rescored"
        assert submission.report.data.training["topics"].balanced
        runs = [run for system in submission.report.systems for run in system.runs]
        assert len(runs) == (3 if submission.system.name == "bm25" else 15)
    assert "seen the slice's passages and no query" in BOARDS["msmarco-pool"].warning


def test_folders_that_hold_no_entries(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no folder of entries"):
        load_entries(tmp_path / "nothing")
    assert load_entries(tmp_path) == ()
    (tmp_path / "mini" / "x" / "version-1").mkdir(parents=True)
    with pytest.raises(SubmissionError, match="expected folders v1, v2"):
        load_entries(tmp_path)
    (tmp_path / "mini" / "x" / "version-1").rmdir()
    with pytest.raises(NotFoundError, match="holds no version"):
        load_entries(tmp_path)


def test_changes_that_a_paper_prints_are_those_of_its_figures() -> None:
    methods = [
        figures
        for name, tests in ZHAN["table_8_training_methods"].items()
        if name != "columns"
        for measures in tests.values()
        for figures in measures.values()
    ]
    encoders = [
        figures
        for name, row in ZHAN["table_9_pretraining"].items()
        if name != "columns"
        for figures in (row["restrain_45k_R@100"], row["resttest_R@100"])
    ]
    assert (len(methods), len(encoders)) == (16, 14)
    for inter, extra, printed in (*methods, *encoders):
        # The paper computes the change before it rounds the figures.
        assert abs(100 * (extra / inter - 1) - float(printed.rstrip("%"))) < 0.75, (inter, extra)
    assert all(
        -1 <= correlation <= 1
        for name, row in ZHAN["table_5_alignment"].items()
        if name != "columns"
        for correlation in row
    )


NO_QUERIES = {"count": 7, "sha256": "0" * 64, "file": None, "test_queries": {}}
FIGURES = {"avg_in": 0.4, "out": 0.3, "rel_loss": 0.25}
RUN_FILE = {"path": "dr/length/short.run.gz", "sha256": "0" * 64, "bytes": 7}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (put("training/queries", {"length": {"*": NO_QUERIES}}), "unexpected-ids", "be checked"),
        (
            put("reported/shifts", {"rare-terms": {"rare": FIGURES}}),
            "unknown-shift",
            "ms-marco has no results on rare-terms",
        ),
        (lambda value: None, "unexpected-file", "results have no per-query scores"),
        (put("files", [RUN_FILE]), "unexpected-files", "results have no run files"),
        (
            put("reproduction", {"commands": ["make"], "tolerance": 0}),
            "unexpected-commands",
            "no commands here make a paper's results",
        ),
        (
            lambda value: value["reported"]["other"][0]["rows"][0]["values"].pop(),
            "wrong-row",
            "values, one per column",
        ),
    ],
)
def test_a_paper_s_results_claim_no_more_than_its_figures(
    change: Callable[[Json], None], code: str, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "submission"
    shutil.copytree(entries_folder() / "ms-marco" / "zhan2022-dr" / "v1", folder)
    assert check_submission(folder).accepted
    value = read(folder)
    change(value)
    if code == "unexpected-file":
        (folder / "scores.parquet").write_bytes(b"PAR1")
    seal(folder, value)
    assert_refused(check_submission(folder), code, message)


def test_an_entry_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    """A bit of a figure would flip unseen otherwise."""
    folder = tmp_path / "mini" / "bm25" / "v1"
    shutil.copytree(entries_folder() / "mini" / "bm25" / "v1", folder)
    assert len(load_entries(tmp_path)) == 1
    text = (folder / "submission.json").read_text()
    (folder / "submission.json").write_text(text.replace("0.", "1.", 1))
    with pytest.raises(SubmissionError, match="is not as it was added; put it back") as caught:
        load_entries(tmp_path)
    assert [one.code for one in caught.value.findings] == ["wrong-digest"]
