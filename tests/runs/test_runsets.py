"""Run sets in folders: what is found, and what has no place in them; and sidecars of runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from msshift_bench.errors import NotFoundError, RunError, UnknownNameError, UsageError
from msshift_bench.runs import Sidecar, find_run_sets, model_path, run_path, sidecar_path
from msshift_bench.shifts import SHIFTS

LENGTH = SHIFTS["length"]


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_systems_and_shifts_are_found(tmp_path: Path) -> None:
    for group in ("long", "short"):
        path = run_path(tmp_path, "dense", LENGTH, group)
        assert path == tmp_path / f"dense/length/{group}.run.gz"
        touch(tmp_path, f"dense/length/{group}.run.gz")
    touch(tmp_path, "bm25/length.run.gz", "bm25/wh-words.run.zst", "notes/readme.txt")
    touch(tmp_path, "sized/restrain-14k/interpolation.run")
    found = [
        (s.shift.name, s.system, tuple(s.runs.get(None, ()))) for s in find_run_sets([tmp_path])
    ]
    assert found == [
        ("wh-words", "bm25", ()),
        ("length", "bm25", ()),
        ("length", "dense", ("short", "long")),
        ("restrain-14k", "sized", ("interpolation",)),
    ]
    assert [s.system for s in find_run_sets([tmp_path / "dense"])] == ["dense"]
    assert find_run_sets(str(tmp_path)) == find_run_sets(tmp_path) == find_run_sets([tmp_path])


@pytest.mark.parametrize(
    "end", [".run", ".trec", ".txt", ".trec.gz", ".res.gz", ".parquet", ".run.xz"]
)
def test_names_of_runs_and_of_what_stands_beside_them(tmp_path: Path, end: str) -> None:
    touch(tmp_path, f"length/short{end}", f"length/long{end}", f"wh-words/seed-1/how{end}")
    touch(tmp_path, "length/short.run.json", "length/short.model/weights.run", f"topics{end}")
    topics, words, length = find_run_sets(tmp_path)
    assert topics.single == tmp_path / f"topics{end}"
    assert words.runs == {1: {"how": tmp_path / f"wh-words/seed-1/how{end}"}}
    assert length.files == [tmp_path / f"length/{group}{end}" for group in ("short", "long")]
    assert sidecar_path(length.files[0]) == tmp_path / "length/short.run.json"
    assert model_path(length.files[0]) == tmp_path / "length/short.model"
    assert sidecar_path(topics.single) == tmp_path / "topics.run.json"


def test_a_missing_held_out_file_is_named(tmp_path: Path) -> None:
    touch(tmp_path, "dense/wh-words/how.run", "dense/wh-words/.who.run.partial")
    (run_set,) = find_run_sets([tmp_path])
    assert run_set.missing == ((None, "wha"), (None, "who"))
    with pytest.raises(RunError, match="trained without 'wha'") as caught:
        run_set.check_complete()
    assert len(caught.value.findings) == 2


def test_replicates_have_a_folder_each(tmp_path: Path) -> None:
    for seed in (10, 2):
        touch(tmp_path, *(f"dense/length/seed-{seed}/{group}.run.gz" for group in LENGTH.groups))
    (run_set,) = find_run_sets([tmp_path])
    assert list(run_set.runs) == [2, 10]
    assert run_set.missing == ()
    (tmp_path / "dense" / "length" / "seed-2" / "long.run.gz").unlink()
    (run_set,) = find_run_sets([tmp_path])
    with pytest.raises(RunError, match=r"dense/length/seed-2/long\.run"):
        run_set.check_complete()


def test_a_folder_of_a_seed_counts_though_it_is_empty(tmp_path: Path) -> None:
    touch(tmp_path, "dense/length/seed-1/short.run", "dense/length/seed-2/.partial")
    (run_set,) = find_run_sets([tmp_path])
    assert run_set.missing == ((1, "long"), (2, "short"), (2, "long"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("length/short.run", "length/short.run.gz"),
        ("length/short.run", "length/short.txt"),
        ("length/long.run", "length.run"),
        ("length/long.run", "length/seed-1"),
        ("length.run", "length/seed-1/short.run"),
    ],
)
def test_two_runs_for_one_place_are_an_error(tmp_path: Path, first: str, second: str) -> None:
    touch(tmp_path, f"a/{first}")
    if second.endswith("seed-1"):
        (tmp_path / "a" / second).mkdir(parents=True)
    else:
        touch(tmp_path, f"a/{second}")
    with pytest.raises(UsageError, match="are both there; keep one") as caught:
        find_run_sets(tmp_path)
    assert all(str(Path("a", name)) in str(caught.value) for name in (first, second))


def test_a_folder_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    touch(tmp_path, "a/length.run")
    (found,) = find_run_sets([tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "a"])
    assert found.system == "a"


def test_systems_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("mini/bm25", "paper/bm25", "paper/dense", "x/one/bm25", "y/one/bm25"):
        touch(tmp_path, f"{folder}/length.run")
    found = find_run_sets([tmp_path / "mini", tmp_path / "paper"])
    assert [one.system for one in found] == ["dense", "mini/bm25", "paper/bm25"]
    found = find_run_sets([tmp_path / name for name in ("x/one", "y/one", "mini")])
    assert [one.system for one in found] == ["mini/bm25", "x/one/bm25", "y/one/bm25"]
    touch(Path(os.fsdecode(os.fsencode(tmp_path) + b"/mini/d\xe9nse")), "length.run")
    with pytest.raises(UsageError, match=r"d\\udce9nse.*rename it"):
        find_run_sets(tmp_path / "mini")


NO_PLACE = [
    # runs, the folder that is given, what has no place, how the fix begins
    ("short.trec", "f", "f/short.trec", "move it to <system>/length/short.trec"),
    ("short.trec", ".", "f/short.trec", "move it to <system>/length/short.trec"),
    ("short.txt", "f", "f/short.txt", "move it to <system>/length/short.txt"),
    ("lenght/short.run", "f", "f/lenght/short.run", "move it to <system>/length/short.run"),
    ("lenght/short.run", ".", "f/lenght/short.run", "move it to <system>/length/short.run"),
    ("lenght/short.run", "f/lenght", "f/lenght/short.run", "move it to <system>/length/short.run"),
    (
        "Length/seed-1/short.run",
        ".",
        "f/Length/seed-1/short.run",
        "move it to <system>/length/seed-1/short",
    ),
    ("length/short.txt", "f/length", "f/length/short.txt", "it is a run of {}/f: give that folder"),
    (
        "length/seed-1/short.run",
        "f/length/seed-1",
        "f/length/seed-1/short.run",
        "it is a run of {}/f",
    ),
    (
        "seed-1/short.run",
        "f/seed-1",
        "f/seed-1/short.run",
        "move it to <system>/length/seed-1/short.run",
    ),
    (
        "seed-1/length/long.run",
        ".",
        "f/seed-1/length/long.run",
        "move it to <system>/length/seed-1/long.",
    ),
    (
        "seed-1/length/long.run",
        "f",
        "f/seed-1/length/long.run",
        "move it to <system>/length/seed-1/long.",
    ),
    ("g/length.run", "f/..", "f/../f/g/length.run", "it is a run of {}/f/../f/g: give that"),
    (
        "old/best.run",
        ".",
        "f/old/best.run",
        "move it elsewhere, or begin its name with a dot; runs ",
    ),
]


@pytest.mark.parametrize(("run", "given", "source", "fix"), NO_PLACE)
def test_runs_of_no_system_have_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, given: str, source: str, fix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(Path("f"), run)
    with pytest.raises(RunError) as caught:
        find_run_sets(given)
    (finding,) = caught.value.findings
    assert (finding.code, finding.source) == ("no-place", source)
    assert finding.fix.startswith(fix.format(tmp_path))


IN_A_SYSTEM = [
    ("length/short.dat", "move it to {}/length/short.run"),
    ("length/short", "move it to {}/length/short.run"),
    ("length/Short.trec", "move it to {}/length/short.trec"),
    ("length/length-short.run.xz", "move it to {}/length/short.run.xz"),
    ("length/long.RUN", "{}/length/long.run is there as well: keep one of them"),
    ("length/short.run.zip", "move it to {}/length/short.run"),
    ("length/shrt.run.json", "move it to {}/length/short.run.json"),
    (
        "length/wha.run",
        "move it elsewhere, or begin its name with a dot; runs of length are called",
    ),
    ("length/seed-1/wha.run", "move it elsewhere, or begin its name with a dot; runs of length "),
    ("length/README.md", "move it elsewhere, or begin its name with a dot; runs of length are "),
    ("length/short.run/part", "move it elsewhere, or begin its name with a dot; runs of length "),
    ("length/seed-1.run/short.run", "move it elsewhere, or begin its name with a dot; runs of "),
    ("length/seed_2/short.run", "move it to {}/length/seed-2"),
    ("length/seed2/short.run", "move it to {}/length/seed-2"),
    ("length/Seed-2/short.run", "move it to {}/length/seed-2"),
    ("length/seed--3/short.run", "move it to {}/length/seed-3"),
    ("length/seed-\u0661/short.run", "move it elsewhere"),
    ("length/checkpoints/short.run", "move it elsewhere"),
    ("length/seed-1/seed-2/short.run", "{}/length/seed-1 is there as well: keep one of them"),
    ("lenght/short.trec", "move it to {}/length/short.trec"),
    ("restrain-14k/interpolaton.run", "move it to {}/restrain-14k/interpolation.run"),
    ("seed-1/wh-words/how.run", "move it to {}/wh-words/seed-1/how.run"),
    ("wh_words/wha.run", "move it to {}/wh-words/wha.run"),
    ("old/runs/short.run.gz", "move it to {}/length/short.run.gz"),
    ("topic.trec.gz", "move it to {}/topics.trec.gz"),
    ("topics-C0.run", "move it to {}/topics/C0.run"),
    (
        "best.run",
        "move it elsewhere, or begin its name with a dot; runs stand in <system>/<shift>/",
    ),
    ("wh-words", "move it to {}/wh-words.run"),
    ("wh-words.run/part", "move it elsewhere"),
]


@pytest.mark.parametrize(("name", "fix"), IN_A_SYSTEM, ids=[name for name, _ in IN_A_SYSTEM])
def test_what_has_no_place_in_a_run_set(tmp_path: Path, name: str, fix: str) -> None:
    system = tmp_path / "dense"
    touch(system, "length/long.run", name)
    with pytest.raises(RunError) as caught:
        find_run_sets([tmp_path])
    (finding,) = caught.value.findings
    assert finding.code == "no-place"
    assert (system / name).is_relative_to(finding.source)
    assert finding.fix.startswith(fix.format(system))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["f/length/.hidden"], "f holds no run; expected <system>/<shift>/<held-out group>.run, "),
        (["a.csv", "b/c.csv"], "holds no run set; it holds a.csv, b/; expected <system>/<shift>/"),
        ([".hidden"], "holds no run set; it holds nothing; expected"),
    ],
)
def test_folders_without_runs(tmp_path: Path, names: list[str], words: str) -> None:
    touch(tmp_path, *names)
    with pytest.raises(UsageError, match=words):
        find_run_sets(tmp_path)
    with pytest.raises(NotFoundError, match="no folder"):
        find_run_sets(tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match="'shrt'"):
        run_path(tmp_path, "a", SHIFTS["length"], "shrt")


def test_what_a_run_set_may_hold_beside_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(
        tmp_path / "my-length-model",
        *("length/short.run.bz2", "length/short.run.json", "length/.short.run.bz2.partial"),
        *("length/.seed-2/short.run", "topics.run", "topics.run.json", "system.toml"),
        *("train/length/short.txt", "also/dl/length/other.run"),
    )
    touch(tmp_path, "report.json", "notes/readme.txt", "short.txt", "lists/short.txt")
    touch(tmp_path, ".work/dense/length/short/plan.json", ".old/length/short.run")
    touch(tmp_path, "lost+found/length-old/short.run")
    # Whoever runs the tests may be allowed to read everything.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "lost+found")
    assert [one.shift.name for one in find_run_sets([tmp_path])] == ["topics", "length"]


def test_runs_beside_systems_have_no_place(tmp_path: Path) -> None:
    touch(tmp_path, "bm25/length.run", "dense/old/short.run", "colbert.run.gz", "short.trec")
    touch(tmp_path, "splade/length.tsv.gz")
    with pytest.raises(RunError) as caught:
        find_run_sets([tmp_path])
    assert [(Path(one.source).name, one.fix[:50]) for one in caught.value.findings] == [
        ("colbert.run.gz", "move it elsewhere, or begin its name with a dot; r"),
        ("short.run", "move it to <system>/length/short.run, if it belong"),
        ("short.trec", "move it to <system>/length/short.trec, if it belon"),
        ("length.tsv.gz", "move it to <system>/length.run, if it belongs ther"),
    ]


def test_a_sidecar_is_read_once_for_all_that_it_says(tmp_path: Path) -> None:
    run = tmp_path / "short.run.gz"
    assert Sidecar.of(run) == Sidecar(run, tmp_path / "short.run.json")
    facts = {
        "data_digest": "a1",
        "passages": {"sha256": "b2"},
        "shift": "length",
        "held_out": "short",
        "test_set": {"queries_sha256": "c3"},
        "training": {"weights_sha256": "d4"},
        "parameters": {"lr": 1},
        "tuned": {"parameters": {"k1": 2}},
        "hardware": {"gpu": "H100"},
        "candidates": "BM25's",
    }
    sidecar_path(run).write_text(json.dumps(facts))
    sidecar = Sidecar.of(run)
    assert (sidecar.data, sidecar.passages, sidecar.queries, sidecar.weights) == (
        *("a1", "b2", "c3", "d4"),
    )
    assert (sidecar.parameters, sidecar.tuned) == ({"lr": 1}, {"k1": 2})
    assert (sidecar.hardware, sidecar.candidates) == ({"gpu": "H100"}, "BM25's")
    assert sidecar.is_of("length", "short")
    assert not sidecar.is_of("length", "long")
    assert not sidecar.is_of("topics", "short")


@pytest.mark.parametrize(
    ("text", "sound", "fits"),
    [
        ('{"held_out": null}', True, False),
        ('{"shift": "topics"}', True, False),
        ('{"passages": 1, "hardware": "a laptop", "training": null}', True, True),
        ('{"checksum": "0", "data_digest": "a1"}', False, True),
        ("[1]", False, True),
        ("[" * 100_000, False, True),
    ],
)
def test_what_a_sidecar_does_not_say(tmp_path: Path, text: str, sound: bool, fits: bool) -> None:
    run = tmp_path / "short.run"
    sidecar_path(run).write_text(text)
    sidecar = Sidecar.of(run)
    assert (sidecar.is_sound, sidecar.is_of("length", "short")) == (sound, fits)
    assert (sidecar.data, sidecar.passages, sidecar.weights, dict(sidecar.hardware)) == (
        *("", "", "", {}),
    )
    assert sidecar.unsound().source == str(sidecar_path(run))
