"""Folders that hold runs, but not where run sets have them: what was found, and what is wanted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from msshift_bench.errors import MsShiftError, RunError, UsageError
from msshift_bench.runs import find_run_sets, sidecar_path, split_run_name


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize("end", [".trec", ".txt", ".trec.gz", ".txt.bz2", ".trec.xz", ".txt.zst"])
def test_runs_may_end_in_trec_and_txt(tmp_path: Path, end: str) -> None:
    touch(tmp_path, f"f/length/short{end}", f"f/length/long{end}", f"bm25/length{end}")
    touch(tmp_path, "f/length/short.run.json", f"f/wh-words/seed-1/how{end}")
    words, single, trained = find_run_sets(tmp_path)
    assert single.single == tmp_path / "bm25" / f"length{end}"
    assert list(words.runs[1].values()) == [tmp_path / "f" / "wh-words" / "seed-1" / f"how{end}"]
    assert trained.missing == ()
    assert sidecar_path(trained.files[0]) == tmp_path / "f" / "length" / "short.run.json"


def test_the_parts_of_a_name() -> None:
    assert split_run_name("short.trec.gz") == ("short", ".trec", ".gz")
    assert split_run_name("a.b.run") == ("a.b", ".run", "")
    assert [split_run_name(name) for name in ("short.gz", "short.run.json", "short")] == [None] * 3


def test_two_names_of_one_run_are_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "f/length/short.run", "f/length/short.txt")
    with pytest.raises(UsageError, match="are both there; keep one"):
        find_run_sets(tmp_path)


SLIPS = [
    (
        "runs without a shift's folder", ["L/f/short.trec", "L/f/long.trec"], "L/f",
        "L/f holds long.trec, short.trec, named after groups of length, and no folder length; move "
        "them into L/f/length",
    ),
    (
        "the same, one folder up", ["L/f/short.trec", "L/f/long.trec"], "L",
        "L/f: holds long.trec, short.trec, named after groups of length, and no folder length "
        "[no-run-set]\n    fix: move them into L/f/length",
    ),
    ("texts", ["L/f/short.txt"], "L/f", "move them into L/f/length"),
    ("a misspelt shift", ["L/f/lenght/short.run"], "L/f", "    fix: call it length; if it is"),
    ("the same, one folder up", ["L/f/lenght/short.run"], "L", "L/f/lenght: holds runs or looks"),
    ("the same, seeds", ["L/f/lenght/seed-1/short.run"], "L", "    fix: call it length; if it is"),
    (
        "the misspelt folder itself", ["L/f/lenght/short.run"], "L/f/lenght",
        "L/f/lenght holds runs of length, and is named after no shift; call it length, and give "
        "the folder of its system, L/f",
    ),
    (
        "a shift's folder", ["L/f/length/short.txt"], "L/f/length",
        "L/f/length is the folder of one shift; give that of its system, L/f",
    ),
    ("the same, seeds", ["L/f/length/seed-1/short.run"], "L/f/length", "the folder of one shift"),
    (
        "a seed's folder", ["L/f/length/seed-1/short.run"], "L/f/length/seed-1",
        "L/f/length/seed-1 is the folder of one seed; give that of its system, L/f",
    ),
    (
        "a seed's folder without a shift's", ["L/f/seed-1/short.run"], "L/f/seed-1",
        "no folder length; move them into L/f/length/seed-1",
    ),
    (
        "seeds above shifts", ["L/f/seed-1/length/short.run", "L/f/seed-2/length/short.run"], "L/f",
        "L/f holds seeds where systems were expected:\n  L/f/seed-1: a seed's folder that holds "
        "length; seeds stand in the folder of a shift [misplaced-seed]\n"
        "    fix: move L/f/seed-1/length to L/f/length/seed-1",
    ),
    (
        "the same, one folder up", ["L/f/seed-1/length/short.run"], "L",
        "    fix: move L/f/seed-1/length to L/f/length/seed-1",
    ),
    (
        "the same, beside a shift", ["L/f/length.run", "L/f/seed-1/wh-words/how.run"], "L",
        "    fix: move L/f/seed-1/wh-words to L/f/wh-words/seed-1",
    ),
    (
        "an empty folder of a shift", ["L/f/length/.hidden"], "L",
        "L/f holds no run: L/f/length holds none of short.run, long.run",
    ),
    (
        "nothing like a run", ["L/a.csv", "L/b/c.csv"], "L",
        "L holds no run set; it holds a.csv, b/; expected <system>/<shift>/<held-out group>.run",
    ),
    ("an empty folder", ["L/.hidden"], "L", "L holds no run set; it holds nothing; expected"),
    ("a run beside systems", ["L/f/length.run", "L/short.trec"], "L", "move them into L/length"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "given", "said"), [row[1:] for row in SLIPS])
def test_what_was_found_and_what_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], given: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, *files)
    with pytest.raises(MsShiftError) as caught:
        find_run_sets(given)
    assert isinstance(caught.value, UsageError | RunError)
    assert said in str(caught.value)


def test_texts_beside_systems_are_no_runs(tmp_path: Path) -> None:
    touch(tmp_path, "f/length.run", "short.txt", "lists/short.txt", "my-length-model/length.run")
    assert [one.system for one in find_run_sets(tmp_path)] == ["f", "my-length-model"]


def test_a_folder_beside_systems_that_nobody_may_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "f/length.run", "lost+found/length-old/short.run")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "lost+found")
    assert [one.system for one in find_run_sets(tmp_path)] == ["f"]
