"""A submission on ReSTrain, whose two models answer one test set, through the gate to a board."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_meta, write_runs
from msshift_bench.data import open_dataset
from msshift_bench.data.collection import open_collection
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.errors import SubmissionError
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.boards import BOARDS
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.making import make_submission
from msshift_bench.leaderboard.reproduction import compare_with_entry, find_entry
from msshift_bench.leaderboard.rescoring import data_digest
from msshift_bench.leaderboard.results import MEAN, results_of
from msshift_bench.leaderboard.site import build_site
from msshift_bench.shifts import SHIFTS

SHIFT = "restrain-20"

BoardTakes = Callable[[Mapping[str, tuple[str, ...]]], None]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    collection = open_collection("mini:300")
    tested = list(collection.queries)[:6]
    folder = tmp_path / "dl"
    folder.mkdir()
    (folder / "queries.tsv").write_text("".join(f"t{one.query_id}\t{one.text}\n" for one in tested))
    relevant = collection.qrels.relevant()
    lines = [f"t{one.query_id} 0 {doc_id} 1\n" for one in tested for doc_id in relevant[one[0]]]
    (folder / "qrels.tsv").write_text("".join(lines))
    options = {"restrain": {"test_sets": [folder], "sizes": [20]}}
    build_dataset(collection, ["restrain"], tmp_path / "msshift", options=options)
    return tmp_path / "msshift"


@pytest.fixture
def board_takes() -> Iterator[BoardTakes]:
    """Return a function that sets what the board of `mini` takes, until the test ends."""
    board = BOARDS["mini"]
    before = board.shifts, board.groups

    def take(shifts: Mapping[str, tuple[str, ...]]) -> None:
        object.__setattr__(board, "shifts", shifts)
        object.__setattr__(board, "groups", {})

    yield take
    for name, value in zip(("shifts", "groups"), before, strict=True):
        object.__setattr__(board, name, value)


def test_a_submission_on_restrain_reaches_its_board(
    data: Path, tmp_path: Path, board_takes: BoardTakes
) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", data, SHIFT)
    meta = write_meta(tmp_path / "meta.toml", **{SHIFT: "msshift"})
    submission = tmp_path / "submission"
    with pytest.raises(SubmissionError, match=f"mini has no results on {SHIFT}"):
        make_submission(runs, meta, submission, data)

    board_takes({SHIFT: (data_digest(SHIFT, data),)})
    make_submission(runs, meta, submission, data)
    verdict = check_submission(submission, data=data)
    assert (verdict.findings, verdict.unchecked) == ([], {})
    add_submission(submission, tmp_path / "entries", data)
    build_site(tmp_path / "entries", tmp_path / "site")
    page = (tmp_path / "site" / "mini" / "systems" / "made-up.html").read_text("utf-8")
    assert "Resampled training queries, 20" in page
    assert "<td>interpolation</td>" in page
    # Its groups are training sets, so that there is no matrix of groups.
    assert "Every model on every group" not in page


def test_what_one_test_set_gives_is_shown_and_compared(
    data: Path, tmp_path: Path, board_takes: BoardTakes
) -> None:
    board_takes({SHIFT: (data_digest(SHIFT, data),)})
    told = {"made-up": "msshift", "words": "none"}
    for name, queries in told.items():
        runs = write_runs(tmp_path / "runs" / name, data, SHIFT, one=queries == "none")
        meta = write_meta(tmp_path / f"{name}.toml", name, **{SHIFT: queries})
        make_submission(runs, meta, tmp_path / name, data)
        add_submission(tmp_path / name, tmp_path / "entries", data)
    for name in told:
        entry = find_entry(f"mini/{name}", tmp_path / "entries")
        report = entry.submission.report
        assert report is not None
        measured = report.systems[0].measures["RR@10"]
        out = measured.cells[0].mean if measured.loss is None else measured.loss.overall.out
        result = results_of(entry.submission)[SHIFT, "RR@10"]
        assert list(result.columns) == [MEAN]
        assert result.columns[MEAN]["out"].value == pytest.approx(out, rel=1e-12)
        means = compare_with_entry(entry, tmp_path / "runs", data)
        assert {one.group for one in means} == {MEAN}
        assert {one.figure for one in means} == {"out"} | ({"avg_in"} if measured.loss else set())
        assert all(one.within(0) for one in means)
    # Other runs of the same shape repeat nothing.
    others = write_runs(tmp_path / "others" / "made-up", data, SHIFT, one=True)
    entry = find_entry("mini/words", tmp_path / "entries")
    (tmp_path / "swapped" / "words").mkdir(parents=True)
    shutil.copy(others / f"{SHIFT}.run.gz", tmp_path / "swapped" / "words")
    assert not all(one.within(0) for one in compare_with_entry(entry, tmp_path / "swapped", data))


def test_a_model_is_trained_on_the_set_that_it_is_named_after(
    data: Path, tmp_path: Path, board_takes: BoardTakes
) -> None:
    board_takes({SHIFT: (data_digest(SHIFT, data),)})
    runs = write_runs(tmp_path / "runs" / "made-up", data, SHIFT)
    for group in SHIFTS[SHIFT].groups:
        rows = open_dataset(data).rows(f"{SHIFT}-{group}", "train")
        lines = "".join(f"{row.query_id}\n" for row in rows)
        (tmp_path / f"{group}.txt").write_text(lines)
    (tmp_path / "all.txt").write_text(lines)
    found = {}
    for pattern in ("{held_out}.txt", "all.txt"):
        meta = write_meta(tmp_path / "meta.toml", **{SHIFT: pattern})
        make_submission(runs, meta, tmp_path / "submission", data)
        verdict = check_submission(tmp_path / "submission", data=data)
        assert verdict.accepted
        found[pattern] = [one.message.partition(": ")[2] for one in verdict.findings]
    assert found == {
        "{held_out}.txt": [],
        "all.txt": ["20 of its training queries are of another training set"],
    }
