"""Run sets in folders: what is found, and what has no place in them; and sidecars of runs."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from msshift_bench.errors import RunError, UsageError
from msshift_bench.runs import (
    FOR_ALL,
    RUN_FORMATS,
    Sidecar,
    find_run_sets,
    model_path,
    run_path,
    sidecar_path,
)
from msshift_bench.shifts import SHIFTS
from tests.support.refusals import check_refusals

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
    found = [(s.shift.name, s.system, tuple(s.runs)) for s in find_run_sets([tmp_path])]
    assert found == [
        ("wh-words", "bm25", ((FOR_ALL, None),)),
        ("length", "bm25", ((FOR_ALL, None),)),
        ("length", "dense", (("short", None), ("long", None))),
        ("restrain-14k", "sized", (("interpolation", None),)),
    ]
    assert [s.system for s in find_run_sets([tmp_path / "dense"])] == ["dense"]
    # A folder that is given twice counts once.
    again = find_run_sets([tmp_path, tmp_path / "bm25", tmp_path / "bm25" / ".." / "bm25"])
    assert again == find_run_sets(str(tmp_path)) == find_run_sets(tmp_path)


@pytest.mark.parametrize(
    "end",
    [
        *(end for row in RUN_FORMATS.values() for end in row.endings),
        *(".trec.gz", ".res.zst", ".json.gz", ".jsonl.bz2", ".parquet.gz", ".run.xz"),
    ],
)
def test_names_of_runs_and_of_what_stands_beside_them(tmp_path: Path, end: str) -> None:
    touch(tmp_path, f"length/short{end}", f"length/long{end}", f"wh-words/seed-1/how{end}")
    touch(tmp_path, "length/short.run.json", "length/short.model/weights.run", f"topics{end}")
    topics, words, length = find_run_sets(tmp_path)
    assert topics.runs == {(FOR_ALL, None): tmp_path / f"topics{end}"}
    assert words.runs == {("how", 1): tmp_path / f"wh-words/seed-1/how{end}"}
    assert length.files == [tmp_path / f"length/{group}{end}" for group in ("short", "long")]
    assert sidecar_path(length.files[0]) == tmp_path / "length/short.run.json"
    assert model_path(length.files[0]) == tmp_path / "length/short.model"
    assert sidecar_path(*topics.files) == tmp_path / "topics.run.json"


def test_one_model_for_all_groups_may_have_seeds(tmp_path: Path) -> None:
    touch(tmp_path, "length/seed-2/all.run", "length/seed-1/all.run.gz", "wh-words.run")
    touch(tmp_path, "length/seed-1/all.run.json", "length/seed-1/all.model/weights")
    words, length = find_run_sets(tmp_path)
    assert list(length.runs) == [(FOR_ALL, 1), (FOR_ALL, 2)]
    assert (length.seeds, length.trained_per_group, length.missing) == ((1, 2), False, ())
    assert (words.seeds, words.trained_per_group) == ((), False)
    path = run_path(tmp_path.parent, tmp_path.name, LENGTH, None, 1)
    assert path == length.runs[FOR_ALL, 1]
    touch(tmp_path, "length/seed-3/.hidden")
    assert find_run_sets(tmp_path)[1].missing == ((3, FOR_ALL),)
    for wrong, error in (("length/all.run", RunError), ("length/seed-3/short.run", UsageError)):
        touch(tmp_path, wrong)
        with pytest.raises(error):
            find_run_sets(tmp_path)
        (tmp_path / wrong).unlink()


def test_what_is_no_whole_run_set_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {
        "UsageError short.run short.run.gz": "a/length/short.run a/length/short.run.gz",
        "UsageError short.run short.txt": "a/length/short.run a/length/short.txt",
        "UsageError short.json short.run keep one":
            "a/length/short.run a/length/short.json a/length/short.run.json",
        "UsageError short.jsonl.gz short.json keep one":
            "a/length/short.json a/length/short.jsonl.gz",
        "UsageError long.run a/length.run": "a/length/long.run a/length.run",
        "UsageError long.run seed-1": "a/length/long.run a/length/seed-1/.hidden",
        "UsageError short.run a/length.run": "a/length.run a/length/seed-1/short.run",
        "UsageError f": "f/length/.hidden",
        "UsageError a.csv b": "a.csv b/c.csv",
        "UsageError <system>/<shift>.run": ".hidden",
    }  # fmt: skip

    def find(name: str) -> None:
        monkeypatch.chdir(tmp_path / name)
        find_run_sets(".")

    for number, (facts, files) in enumerate(folders.items()):
        touch(tmp_path / f"{number}", *files.split())
        check_refusals({facts: partial(find, f"{number}")})
    check_refusals({
        "NotFoundError nowhere": partial(find_run_sets, tmp_path / "nowhere"),
        "UsageError folder": partial(find_run_sets, []),
        "UnknownNameError 'shrt' 'short'": partial(run_path, tmp_path, "a", LENGTH, "shrt"),
    })  # fmt: skip
    touch(tmp_path / "lacking/a", "wh-words/how.run", "wh-words/.who.run.partial")
    # A folder of a seed counts though it is empty.
    touch(tmp_path / "lacking/a", "length/seed-10/short.run", "length/seed-2/.partial")
    words, seeds = find_run_sets(tmp_path / "lacking")
    assert words.missing == ((None, "wha"), (None, "who"))
    assert seeds.missing == ((2, "short"), (2, "long"), (10, "long"))
    assert seeds.seeds == (2, 10)


def test_systems_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for folder in ("mini/bm25", "paper/bm25", "paper/dense", "x/one/bm25", "y/one/bm25"):
        touch(tmp_path, f"{folder}/length.run")
    for folders, systems in (
        (("mini", "paper"), ["dense", "mini/bm25", "paper/bm25"]),
        (("x/one", "y/one", "mini"), ["mini/bm25", "x/one/bm25", "y/one/bm25"]),
    ):
        found = find_run_sets([tmp_path / name for name in folders])
        assert [run_set.system for run_set in found] == systems
    touch(Path(os.fsdecode(os.fsencode(tmp_path) + b"/mini/d\xe9nse")), "length.run")
    with pytest.raises(UsageError, match=r"d\\udce9nse.*rename"):
        find_run_sets(tmp_path / "mini")


NO_SYSTEM = """
f                 short.trec
.                 short.trec
f                 lenght/short.run
.                 lenght/short.run
f/lenght          lenght/short.run
.                 Length/seed-1/short.run
f/length/seed-1   length/seed-1/short.run
f/seed-1          seed-1/short.run
.                 seed-1/length/long.run
f                 seed-1/length/long.run
f/..              g/length.run
.                 old/best.run
"""
"""The folder that is given, and the path below ``f`` of a run that is of no system in it."""

IN_A_SYSTEM = """
length/short.dat
length/short
length/Short.trec
length/length-short.run.xz
length/long.RUN
length/short.run.zip
length/shrt.run.json
length/wha.run
length/seed-1/wha.run
length/README.md
length/short.run/part
length/seed-1.run/short.run
length/seed_2/short.run
length/Seed-2/short.run
length/seed--3/short.run
length/seed-\u0661/short.run
length/checkpoints/short.run
length/seed-1/seed-2/short.run
lenght/short.trec
restrain-14k/interpolaton.run
seed-1/wh-words/how.run
wh_words/wha.run
old/runs/short.run.gz
topic.trec.gz
topics-C0.run
best.run
wh-words
wh-words.run/part
"""
"""What has no place in a system's folder that holds ``length/long.run``."""


def test_an_unexpected_file_is_named_with_the_expected_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_in(folder: str, given: str, run: str) -> None:
        monkeypatch.chdir(tmp_path / folder)
        with pytest.raises(RunError) as caught:
            find_run_sets(given)
        (finding,) = caught.value.findings
        assert finding.code == "no-place"
        assert finding.source in run or run in finding.source
        assert "<system>/<shift>/<held-out group>.run" in finding.fix, folder

    for number, line in enumerate(NO_SYSTEM.strip().splitlines()):
        given, run = line.split()
        touch(tmp_path / f"{number}/f", run)
        find_in(str(number), given, run)
    for name in IN_A_SYSTEM.split():
        touch(tmp_path / "systems" / name / "dense", "length/long.run", name)
        find_in(f"systems/{name}", ".", f"dense/{name}")
    touch(tmp_path / "beside", "bm25/length.run", "dense/old/short.run", "colbert.run.gz")
    touch(tmp_path / "beside", "short.trec", "splade/length.tsv.gz")
    monkeypatch.chdir(tmp_path / "beside")
    with pytest.raises(RunError) as caught:
        find_run_sets(".")
    assert [finding.source for finding in caught.value.findings] == [
        *("colbert.run.gz", "dense/old/short.run", "short.trec", "splade/length.tsv.gz")
    ]


def test_what_a_run_set_may_hold_beside_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(
        tmp_path / "my-length-model",
        *("length/short.run.bz2", "length/short.run.json", "length/.short.run.bz2.partial"),
        *("length/.seed-2/short.run", "topics.run", "topics.run.json", "system.toml"),
        *("train/length/short.txt", "extra/dl/length/other.run"),
    )
    touch(tmp_path, "report.json", "notes/readme.txt", "short.txt", "lists/short.txt")
    touch(tmp_path, ".work/dense/length/short/plan.json", ".old/length/short.run")
    touch(tmp_path, "lost+found/length-old/short.run")
    # Whoever runs the tests may be allowed to read everything.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "lost+found")
    assert [run_set.shift.name for run_set in find_run_sets([tmp_path])] == ["topics", "length"]


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
    texts = (sidecar.data, sidecar.passages, sidecar.queries, sidecar.weights, sidecar.candidates)
    assert texts == ("a1", "b2", "c3", "d4", "BM25's")
    assert (sidecar.parameters, sidecar.tuned) == ({"lr": 1}, {"k1": 2})
    assert sidecar.hardware == {"gpu": "H100"}
    assert (sidecar.shift, sidecar.held_out) == ("length", "short")

    says = {
        '{"held_out": null}': (True, "", None),
        '{"shift": "topics"}': (True, "topics", ""),
        '{"passages": 1, "hardware": "a laptop", "training": null}': (True, "", ""),
        '{"checksum": "0", "data_digest": "a1"}': (False, "", ""),
        **dict.fromkeys(("[1]", "[" * 100_000), (False, "", "")),
    }
    for text, known in says.items():
        sidecar_path(run).write_text(text)
        sidecar = Sidecar.of(run)
        assert (sidecar.is_sound, sidecar.shift, sidecar.held_out) == known
        texts = (sidecar.data, sidecar.passages, sidecar.weights)
        assert (texts, dict(sidecar.hardware)) == (("", "", ""), {})
        assert sidecar.unsound().source == str(sidecar_path(run))
