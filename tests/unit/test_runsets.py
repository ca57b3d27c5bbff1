from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.errors import NotFoundError, RunError, UnknownNameError, UsageError
from msshift_bench.runsets import find_run_sets, run_path, sidecar_path
from msshift_bench.shifts import SHIFTS


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_systems_and_shifts_are_found(tmp_path: Path) -> None:
    length = SHIFTS["length"]
    touch(
        run_path(tmp_path, "dense", length, "long"),
        run_path(tmp_path, "dense", length, "short"),
        run_path(tmp_path, "bm25", length, None),
        tmp_path / "bm25" / "wh-words.run.zst",
        tmp_path / "notes" / "readme.txt",
    )
    found = [
        (s.shift.name, s.system, tuple(s.runs.get(None, ()))) for s in find_run_sets([tmp_path])
    ]
    assert found == [
        ("wh-words", "bm25", ()),
        ("length", "bm25", ()),
        ("length", "dense", ("short", "long")),
    ]
    assert [s.system for s in find_run_sets([tmp_path / "dense"])] == ["dense"]


def test_sidecars_stand_beside_their_runs(tmp_path: Path) -> None:
    run = run_path(tmp_path, "dense", SHIFTS["length"], "long")
    assert sidecar_path(run) == tmp_path / "dense" / "length" / "long.run.json"


def test_a_missing_held_out_file_is_named(tmp_path: Path) -> None:
    touch(tmp_path / "dense" / "wh-words" / "how.run")
    (run_set,) = find_run_sets([tmp_path])
    assert run_set.missing == ((None, "wha"), (None, "who"))
    with pytest.raises(RunError, match="trained without 'wha'") as caught:
        run_set.check_complete()
    assert len(caught.value.findings) == 2


def test_replicates_have_a_folder_each(tmp_path: Path) -> None:
    length = SHIFTS["length"]
    for seed in (10, 2):
        touch(*(run_path(tmp_path, "dense", length, group, seed) for group in length.groups))
    (run_set,) = find_run_sets([tmp_path])
    assert list(run_set.runs) == [2, 10]
    assert run_set.missing == ()
    (tmp_path / "dense" / "length" / "seed-2" / "long.run.gz").unlink()
    (run_set,) = find_run_sets([tmp_path])
    with pytest.raises(RunError, match=r"dense/length/seed-2/long\.run"):
        run_set.check_complete()
    touch(tmp_path / "dense" / "length" / "long.run")
    with pytest.raises(UsageError, match="beside its seed folders"):
        find_run_sets([tmp_path])


def test_what_is_not_a_run_set_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no folder"):
        find_run_sets([tmp_path / "nowhere"])
    with pytest.raises(UsageError, match="holds no run set"):
        find_run_sets([tmp_path])
    touch(tmp_path / "a" / "length" / "short.run", tmp_path / "a" / "length" / "short.run.gz")
    with pytest.raises(UsageError, match="are both there"):
        find_run_sets([tmp_path])


def test_misnamed_runs_and_repeated_systems_are_said(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "length" / "shrt.run", tmp_path / "a" / "length" / "long.run")
    with pytest.raises(RunError, match=r"shrt\.run: named after no group of length"):
        find_run_sets([tmp_path])
    (tmp_path / "a" / "length" / "shrt.run").unlink()
    with pytest.raises(UsageError, match="'a' is there twice"):
        find_run_sets([tmp_path, tmp_path / "a"])
    touch(tmp_path / "a" / "length.run")
    with pytest.raises(UsageError, match="holds both"):
        find_run_sets([tmp_path])
    with pytest.raises(UnknownNameError, match="'shrt'"):
        run_path(tmp_path, "a", SHIFTS["length"], "shrt")


def test_a_run_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "length"
    touch(folder / "long.run.gz", folder / ".short.run.gz.partial")
    (found,) = find_run_sets([tmp_path])
    assert found.missing == ((None, "short"),)
