from __future__ import annotations

import os
from pathlib import Path

import pytest

from msshift_bench.errors import NotFoundError, RunError, UnknownNameError, UsageError
from msshift_bench.runs import find_run_sets, run_path, sidecar_path
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
    assert find_run_sets(str(tmp_path)) == find_run_sets(tmp_path) == find_run_sets([tmp_path])


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


def test_misnamed_runs_are_said(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "length" / "shrt.run", tmp_path / "a" / "length" / "long.run")
    with pytest.raises(RunError, match=r"shrt\.run: named after no group of length"):
        find_run_sets([tmp_path])
    (tmp_path / "a" / "length" / "shrt.run").unlink()
    touch(tmp_path / "a" / "length.run")
    with pytest.raises(UsageError, match="holds both"):
        find_run_sets([tmp_path])
    with pytest.raises(UnknownNameError, match="'shrt'"):
        run_path(tmp_path, "a", SHIFTS["length"], "shrt")


def test_a_folder_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "length.run")
    (found,) = find_run_sets([tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "a"])
    assert found.system == "a"


def test_systems_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("mini/bm25", "paper/bm25", "paper/dense", "x/one/bm25", "y/one/bm25"):
        touch(tmp_path / folder / "length.run")
    found = find_run_sets([tmp_path / "mini", tmp_path / "paper"])
    assert [one.system for one in found] == ["dense", "mini/bm25", "paper/bm25"]
    found = find_run_sets([tmp_path / name for name in ("x/one", "y/one", "mini")])
    assert [one.system for one in found] == ["mini/bm25", "x/one/bm25", "y/one/bm25"]


def test_a_run_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "length"
    touch(folder / "long.run.gz", folder / ".short.run.gz.partial")
    (found,) = find_run_sets([tmp_path])
    assert found.missing == ((None, "short"),)


SEEDS = [
    ("seed_2", "call it seed-2"),
    ("seed2", "call it seed-2"),
    ("Seed-2", "call it seed-2"),
    ("seed--3", "call it seed-3"),
    ("seed-01", "seed-1 is there as well: keep one of them, or give them different numbers"),
    ("seed-\u0661", "a seed's folder is called seed-<n>, e.g. seed-1; "),
    ("checkpoints", "a seed's folder is called seed-<n>, e.g. seed-1; if it holds no runs, move"),
]


@pytest.mark.parametrize(("name", "fix"), SEEDS, ids=[name for name, _ in SEEDS])
def test_a_misnamed_folder_of_a_seed_is_said(tmp_path: Path, name: str, fix: str) -> None:
    folder = tmp_path / "dense" / "length"
    for seed in ("seed-1", name):
        touch(folder / seed / "short.run", folder / seed / "long.run")
    with pytest.raises(RunError) as caught:
        find_run_sets([tmp_path])
    (finding,) = caught.value.findings
    assert (finding.code, finding.source) == ("misnamed-seed", str(folder / name))
    assert finding.fix.startswith(fix)


ENTRIES = [
    ("length/short.res", "misnamed-run", "call it short.run"),
    ("length/short.tsv.gz", "misnamed-run", "call it short.run.gz"),
    ("length/Short.trec", "unknown-group", "call it short.run"),
    ("length/short", "misnamed-run", "call it short.run"),
    ("length/Short.run", "unknown-group", "call it short.run"),
    ("length/length-short.run.xz", "unknown-group", "call it short.run.xz"),
    ("length/long.RUN", "misnamed-run", "long.run is there as well: keep one of them"),
    ("length/short.run.zip", "misnamed-run", "call it short.run"),
    ("length/shrt.run.json", "unknown-group", "call it short.run.json"),
    ("length/wha.run", "unknown-group", "call it after the group that the model was trained "),
    ("length/seed-1/wha.run", "unknown-group", "call it after the group that the model was"),
    ("length/README.md", "unknown-entry", "move it elsewhere, or begin its name with a dot; runs"),
    ("length/seed-1/seed-2/short.run", "unknown-entry", "move it elsewhere"),
    ("length/short.run/part", "not-a-file", "move it elsewhere"),
    ("lenght/short.trec", "unknown-shift", "length is there as well: keep one of them"),
    ("wh_words/wha.run", "unknown-shift", "call it wh-words; if it is something else, move"),
    ("old/runs/short.run.gz", "unknown-shift", "shifts are topics, wh-words"),
    ("topic.trec.gz", "unknown-shift", "call it topics.run.gz"),
    ("best.run", "unknown-shift", "shifts are topics, wh-words"),
    ("wh-words", "not-a-folder", "call it wh-words.run if it is the one run"),
    ("wh-words.run/part", "not-a-file", "move it elsewhere"),
]


@pytest.mark.parametrize(("name", "code", "fix"), ENTRIES, ids=[name for name, _, _ in ENTRIES])
def test_what_is_not_understood_is_said(tmp_path: Path, name: str, code: str, fix: str) -> None:
    system = tmp_path / "dense"
    touch(system / "length" / "long.run", system / name)
    with pytest.raises(RunError) as caught:
        find_run_sets([tmp_path])
    (finding,) = caught.value.findings
    assert finding.code == code
    assert (system / name).is_relative_to(finding.source)
    assert finding.fix.startswith(fix)


def test_what_a_run_set_may_hold_beside_its_runs(tmp_path: Path) -> None:
    system = tmp_path / "dense"
    touch(
        system / "length" / "short.run.bz2",
        system / "length" / "short.run.json",
        system / "length" / ".short.run.bz2.partial",
        system / "length" / ".seed-2" / "short.run",
        system / "topics.run",
        system / "topics.run.json",
        system / "system.toml",
        system / "train" / "length" / "short.txt",
        tmp_path / "report.json",
        tmp_path / "notes" / "readme.txt",
        tmp_path / ".work" / "dense" / "length" / "short" / "plan.json",
        tmp_path / ".old" / "length" / "short.run",
    )
    found = find_run_sets([tmp_path])
    assert [(one.system, one.shift.name) for one in found] == [
        ("dense", "topics"),
        ("dense", "length"),
    ]


def test_a_system_whose_runs_are_in_no_shift_is_said(tmp_path: Path) -> None:
    touch(tmp_path / "bm25" / "length.run", tmp_path / "dense" / "old" / "short.run")
    touch(tmp_path / "colbert.run.gz")
    with pytest.raises(RunError) as caught:
        find_run_sets([tmp_path])
    assert [(one.code, Path(one.source).name) for one in caught.value.findings] == [
        ("unknown-entry", "colbert.run.gz"),
        ("no-run-set", "dense"),
    ]
    with pytest.raises(RunError, match=r"if .*dense holds systems, name it instead"):
        find_run_sets([tmp_path])


def test_a_system_whose_name_no_report_can_hold(tmp_path: Path) -> None:
    touch(Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xe9nse/length.run")))
    with pytest.raises(UsageError, match=r"d\\udce9nse.*rename it"):
        find_run_sets([tmp_path])
