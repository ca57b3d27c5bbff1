"""A submission names every run ``.run``, whatever its name was in the run set."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.leaderboard.making import _copy
from msshift_bench.runs import find_run_sets


def test_runs_of_other_names_are_called_run_in_a_submission(tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "length"
    folder.mkdir(parents=True)
    for name in ("short.trec", "long.txt.gz"):
        (folder / name).write_text(name)
    (run_set,) = find_run_sets(tmp_path)
    copied = _copy(run_set, tmp_path / "runs", "slug")
    assert [file.relative_to(tmp_path).as_posix() for file in copied.files] == [
        "runs/slug/length/short.run",
        "runs/slug/length/long.run.gz",
    ]
    assert [file.read_text() for file in copied.files] == ["short.trec", "long.txt.gz"]
