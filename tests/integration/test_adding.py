"""What becomes a version of an entry: papers' results, notes, and runs that are there already."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import NotFoundError, SubmissionError, UsageError
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.entries import entries_folder
from msshift_bench.leaderboard.submission import read_submission
from tests.conftest import Build
from tests.support.spoiling import put, read, seal


def test_a_paper_s_results_are_added_without_data_and_are_nobody_s_to_reproduce(
    tmp_path: Path,
) -> None:
    paper = entries_folder() / "ms-marco" / "zhan2022-dr" / "v1"
    folder, verdict = add_submission(paper, tmp_path / "entries")
    assert folder == tmp_path / "entries" / "ms-marco" / "zhan2022-dr" / "v1"
    assert verdict.unchecked == {"the figures": "they are a paper's; nothing was computed"}
    assert read(folder) == read(paper)
    assert read_submission(folder) == read_submission(folder / "submission.json")
    with pytest.raises(NotFoundError, match=r"no file .*/entries/submission\.json"):
        read_submission(tmp_path / "entries")
    with pytest.raises(UsageError, match="a paper's results are not reproduced; submit runs of"):
        add_submission(paper, tmp_path / "other", reproduced="Trained again.")
    assert not (tmp_path / "other").exists()


def test_a_note_on_how_a_system_was_reproduced_is_text(
    good: Path, mini_length: Path, tmp_path: Path
) -> None:
    with pytest.raises(SubmissionError, match=r"no note:\n.*note, with --reproduced: .* U\+001B"):
        add_submission(good, tmp_path / "entries", mini_length, reproduced="made \x1b[2Jagain")
    assert not (tmp_path / "entries").exists()


def test_the_same_runs_are_no_new_version_however_their_scores_are_stored(
    broken: Path, mini_length: Path, tmp_path: Path
) -> None:
    value = read(broken)
    put("note", "Trained for longer.")(value)
    seal(broken, value)
    add_submission(broken, tmp_path / "entries", mini_length)
    scores = broken / "scores.parquet"
    before = scores.read_bytes()
    pq.write_table(pq.read_table(scores), scores, compression="none")
    assert scores.read_bytes() != before
    seal(broken)
    with pytest.raises(SubmissionError, match=r"as version 1, with the same content \[unchanged\]"):
        add_submission(broken, tmp_path / "entries", mini_length)


def test_what_leaked_is_not_counted_where_the_data_set_holds_no_texts(
    good: Path, mini_length: Path, build_once: Build, tmp_path: Path
) -> None:
    counts = {}
    for name, data in (("texts", mini_length), ("ids", build_once("mini", "length", texts=False))):
        folder, _ = add_submission(good, tmp_path / name, data)
        models = read_submission(folder / "submission.json").training.queries["length"]
        counts[name] = {held_out: model.leaked for held_out, model in models.items()}
        shutil.rmtree(tmp_path / name)
    assert counts["ids"] == {"short": None, "long": None}
    assert counts["texts"].keys() == {"short", "long"}
    assert all(leaked is not None for leaked in counts["texts"].values())
