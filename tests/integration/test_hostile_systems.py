"""Systems that know too much, have two names, or change what was there: refused or classed."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.support.fabricated import write_meta, write_run, write_runs
from msshift_bench.data.dataset import load_dataset
from msshift_bench.errors import DataError, SubmissionError
from msshift_bench.leaderboard.adding import add_submission
from msshift_bench.leaderboard.gate import check_submission
from msshift_bench.leaderboard.history import check_entries
from msshift_bench.leaderboard.making import make_submission
from msshift_bench.leaderboard.trained_on import ids_digest, write_ids
from msshift_bench.leaderboard.verdict import Verdict
from tests.conftest import Build
from tests.support.spoiling import assert_refused, put, read, seal, write

# Systems that know too much, or are one system.


def test_a_run_that_leaks_the_qrels(mini_length: Path, tmp_path: Path) -> None:
    queries = {
        row.query_id: row
        for group in ("short", "long")
        for row in load_dataset(mini_length, f"length-{group}", split="test")
    }
    rankings = ((query_id, (*row.relevant_doc_ids, "other")) for query_id, row in queries.items())
    run = write_run(tmp_path / "runs" / "oracle" / "length.run", rankings)
    meta = write_meta(tmp_path / "meta.toml", "oracle", length="none")
    make_submission(run.parent, meta, tmp_path / "submission", mini_length)
    checked = check_submission(tmp_path / "submission", data=mini_length)
    assert_refused(checked, "leaks-qrels", "it holds the qrels")
    with pytest.raises(SubmissionError, match="leaks-qrels"):
        add_submission(tmp_path / "submission", tmp_path / "entries", mini_length)
    assert not (tmp_path / "entries").exists()


def test_a_held_out_model_that_is_better_everywhere(mini_length: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "odd", mini_length)
    files = [runs / "length" / f"{group}.run.gz" for group in ("short", "long")]
    contents = [path.read_bytes() for path in files]
    for path, content in zip(files, reversed(contents), strict=True):
        path.write_bytes(content)
    meta = write_meta(tmp_path / "meta.toml", "odd", length="msshift")
    make_submission(runs, meta, tmp_path / "submission", mini_length)
    checked = check_submission(tmp_path / "submission", data=mini_length)
    (finding,) = checked.findings
    assert (finding.code, finding.severity) == ("out-above-in", "warning")
    assert checked.accepted


def test_one_run_under_two_names(
    good: Path, one_entry: Path, mini_length: Path, tmp_path: Path
) -> None:
    meta = write_meta(tmp_path / "meta.toml", "another", length="msshift")
    make_submission(good / "runs" / "made-up", meta, tmp_path / "submission", mini_length)
    with pytest.raises(SubmissionError, match=r"has the bytes of a run of made-up .*\[same-run\]"):
        add_submission(tmp_path / "submission", one_entry, mini_length)
    assert not (one_entry / "mini" / "another").exists()


def test_one_ranking_under_two_names(
    good: Path, one_entry: Path, mini_length: Path, tmp_path: Path
) -> None:
    runs = Path(shutil.copytree(good / "runs" / "made-up", tmp_path / "packed-again"))
    for path in runs.rglob("*.gz"):
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), mtime=1))
    meta = write_meta(tmp_path / "meta.toml", "another", length="msshift")
    make_submission(runs, meta, tmp_path / "submission", mini_length)
    copy = Path(shutil.copytree(one_entry, tmp_path / "entries"))
    _, checked = add_submission(tmp_path / "submission", copy, mini_length)
    assert [(one.code, one.severity) for one in checked.findings] == [("same-scores", "warning")]


# Training queries.


def queries_of(data: Path, group: str) -> list[str]:
    return [row.query_id for row in load_dataset(data, f"length-{group}", split="test")]


def with_ids(
    data: Path, tmp_path: Path, extra: Callable[[str], list[str]], one: bool = False
) -> Verdict:
    """Check a system trained on the data set's own training splits, and on a few more queries."""
    runs = write_runs(tmp_path / "runs" / "made-up", data, one=one)
    for held_out in ("all",) if one else ("short", "long"):
        config = "length-short" if one else f"length-{held_out}"
        own = {row.query_id for row in load_dataset(data, config, split="train")}
        write_ids(tmp_path / "ids" / f"{held_out}.txt.gz", {*own, *extra(held_out)})
    meta = write_meta(tmp_path / "meta.toml", length="ids/{held_out}.txt.gz")
    make_submission(runs, meta, tmp_path / "submission", data)
    return check_submission(tmp_path / "submission", data=data)


def test_declared_and_held_out(mini_length: Path, tmp_path: Path) -> None:
    checked = with_ids(mini_length, tmp_path, lambda held_out: [])
    assert (checked.exposure, checked.findings) == ("held-out", [])


def test_trained_on_the_held_out_test_queries(mini_length: Path, tmp_path: Path) -> None:
    checked = with_ids(
        mini_length, tmp_path, lambda held_out: queries_of(mini_length, held_out)[:5]
    )
    assert checked.accepted
    assert checked.exposure == "trained-on-test"
    assert checked.submission is not None
    models = checked.submission.training.queries["length"]
    assert models["short"].test_queries == {"short": 5, "long": 0}
    assert {one.code for one in checked.findings} == {"saw-held-out-group"}


def test_trained_on_another_group_s_test_queries(mini_length: Path, tmp_path: Path) -> None:
    other = {"short": "long", "long": "short"}
    checked = with_ids(
        mini_length, tmp_path, lambda held_out: queries_of(mini_length, other[held_out])[:3]
    )
    assert (checked.exposure, checked.findings) == ("trained-on-test", [])


def test_a_public_model_trained_on_test_queries(mini_length: Path, tmp_path: Path) -> None:
    checked = with_ids(
        mini_length, tmp_path, lambda held_out: queries_of(mini_length, "short"), one=True
    )
    assert (checked.exposure, checked.findings) == ("trained-on-test", [])


def test_a_public_model_s_training_queries_are_declared_and_not_listed(
    mini_length: Path, tmp_path: Path
) -> None:
    with_ids(mini_length, tmp_path, lambda held_out: [], one=True)
    folder = tmp_path / "submission"
    value = read(folder)
    value["training"]["queries"]["length"]["*"]["file"] = None
    shutil.rmtree(folder / "train")
    seal(folder, value)
    checked = check_submission(folder, data=mini_length)
    assert_refused(checked, "missing-ids", "training queries are declared, not listed")


def test_undeclared(mini_length: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", mini_length)
    make_submission(
        runs, write_meta(tmp_path / "m", length="undeclared"), tmp_path / "out", mini_length
    )
    checked = check_submission(tmp_path / "out", data=mini_length)
    assert (checked.exposure, checked.findings) == ("undeclared", [])


def test_untrained(mini_length: Path, tmp_path: Path) -> None:
    runs = write_runs(tmp_path / "runs" / "made-up", mini_length, one=True)
    make_submission(runs, write_meta(tmp_path / "m", length="none"), tmp_path / "out", mini_length)
    checked = check_submission(tmp_path / "out", data=mini_length)
    assert (checked.exposure, checked.findings) == ("none", [])


def test_unbalanced_training_sets_are_not_passed_off_as_balanced(
    build_once: Build, tmp_path: Path
) -> None:
    data = build_once("mini", "length", train_size="all")
    runs = write_runs(tmp_path / "runs" / "made-up", data)
    write_meta(tmp_path / "m", length="msshift")
    make_submission(runs, tmp_path / "m", tmp_path / "out", data)
    value = read(tmp_path / "out")
    assert value["report"]["data"]["training"]["length"]["balanced"] is False
    value["report"]["data"]["training"]["length"]["balanced"] = True
    seal(tmp_path / "out", value)
    assert_refused(check_submission(tmp_path / "out", data=data), "rescored-differs", "balanced")


def test_test_queries_hidden_from_the_list(mini_length: Path, tmp_path: Path) -> None:
    with_ids(mini_length, tmp_path, lambda held_out: queries_of(mini_length, held_out)[:5])
    folder = tmp_path / "submission"
    value = read(folder)
    for ids in value["training"]["queries"]["length"].values():
        ids["test_queries"] = {"short": 0, "long": 0}
    value["training"]["class"] = "held-out"
    seal(folder, value)
    assert_refused(check_submission(folder), "wrong-ids", "the test queries among them")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"q1\nq1\n", "repeated-id"),
        (b"q1\n\nq2\n", "not-an-id"),
        (b"q1 a query\n", "not-an-id"),
        (b"\xff\xfe", "not-utf8"),
        (gzip.compress(b"q1\n", mtime=0)[:-6], "damaged-ids"),
        (gzip.compress(b"0" * 110_000_000, 1, mtime=0), "ids-too-large"),
    ],
)
def test_lists_that_are_none(
    content: bytes, code: str, mini_length: Path, tmp_path: Path, broken: Path
) -> None:
    value = read(broken)
    value["training"]["queries"]["length"]["short"]["file"] = "train/length/short.txt.gz"
    path = broken / "train" / "length" / "short.txt.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    seal(broken, value)
    assert_refused(check_submission(broken), code, "short.txt.gz")


def test_a_list_of_no_query(broken: Path, mini_length: Path) -> None:
    """Declaring that a model was trained on nothing is a claim, and not the data set's split."""
    value = read(broken)
    for ids in value["training"]["queries"]["length"].values():
        ids.update(count=0, sha256=ids_digest(()))
    seal(broken, value)
    assert_refused(check_submission(broken, data=mini_length), "not-untrained", "for every group")


# Adding.


def test_adding_without_runs(good: Path, broken: Path, mini_length: Path, tmp_path: Path) -> None:
    shutil.rmtree(broken / "runs")
    with pytest.raises(SubmissionError, match="the submission holds no run files"):
        add_submission(broken, tmp_path / "entries", mini_length)
    folder, checked = add_submission(broken, tmp_path / "entries", mini_length, runs=good / "runs")
    assert checked.rescored == ("length",)
    assert (folder / "scores.parquet").is_file()


def test_adding_with_other_data(good: Path, build_once: Build, tmp_path: Path) -> None:
    other = build_once("mini", "wh-words")
    with pytest.raises(SubmissionError, match="has other test queries"):
        add_submission(good, tmp_path / "entries", other)


def test_claiming_a_badge(broken: Path, mini_length: Path, tmp_path: Path) -> None:
    value = read(broken)
    value["badge"] = "reproduced"
    seal(broken, value)
    with pytest.raises(SubmissionError, match="the badge 'reproduced' is the maintainers' to give"):
        add_submission(broken, tmp_path / "entries", mini_length)


def test_a_new_version_needs_a_note(
    good: Path, broken: Path, mini_length: Path, one_entry: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(one_entry, tmp_path / "entries"))
    with pytest.raises(SubmissionError, match="note-needed"):
        add_submission(good, copy, mini_length)
    value = read(broken)
    value["note"] = "The first was trained too briefly."
    seal(broken, value)
    folder, _ = add_submission(broken, copy, mini_length)
    assert folder.name == "v2"
    with pytest.raises(SubmissionError, match="already, as version 2, with the same content"):
        add_submission(broken, copy, mini_length)
    assert check_entries(copy, base=one_entry, data=mini_length, runs=good / "runs").accepted


def test_reproduced(good: Path, mini_length: Path, tmp_path: Path) -> None:
    folder, _ = add_submission(
        good, tmp_path, mini_length, reproduced="Trained again: recipe mini."
    )
    value = read(folder)
    assert (value["badge"], value["note"]) == ("reproduced", "Trained again: recipe mini.")


# Entries, and what they were before.


def rename(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        (folder / old).rename(folder / new)

    return change


def edit_entry(path: str, new: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        version = folder / "mini" / "made-up" / "v1"
        value = read(version)
        put(path, new)(value)
        seal(version, value)

    return change


def copy_version(folder: Path) -> None:
    system = folder / "mini" / "made-up"
    shutil.copytree(system / "v1", system / "v2")
    value = read(system / "v2")
    value["version"] = 2
    seal(system / "v2", value)


V1 = "mini/made-up/v1"
ENTRIES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "version removed": (lambda f: shutil.rmtree(f / V1), "removed", "was there before"),
    "system removed": (lambda f: shutil.rmtree(f / "mini"), "removed", "was there before"),
    "version changed": (edit_entry("system/title", "Better"), "changed", "not what it was before"),
    "file added to a version": (
        lambda f: write(f / V1 / "train", b"") and None,
        "changed",
        "was not in this version before",
    ),
    "version skipped": (
        lambda f: shutil.copytree(f / V1, f / "mini" / "made-up" / "v3") and None,
        "version-gap",
        "versions 1, 3; expected 1, 2, ...",
    ),
    "version without a note": (copy_version, "note-needed", "why it replaces the last"),
    "folder of another system": (
        rename("mini/made-up", "mini/other"),
        "wrong-folder",
        "version 1 of made-up on mini",
    ),
    "folder of another board": (
        rename("mini", "msmarco-pool"),
        "wrong-folder",
        "it belongs into mini/made-up/v1",
    ),
    "folder of no board": (rename("mini", "mine"), "unknown-board", "not a board"),
    "file beside versions": (
        lambda f: write(f / "mini" / "made-up" / "notes.txt", b"x") and None,
        "unexpected-file",
        "expected folders v1, v2",
    ),
    "file beside systems": (
        lambda f: write(f / "mini" / "run.sh", b"x") and None,
        "unexpected-file",
        "expected a folder for each system",
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries(name: str, one_entry: Path, tmp_path: Path) -> None:
    change, code, message = ENTRIES[name]
    copy = Path(shutil.copytree(one_entry, tmp_path / "entries"))
    change(copy)
    found = check_entries(copy, base=one_entry)
    assert not found.accepted
    all_findings = [*found.findings, *(one for v in found.versions for one in v.findings)]
    assert any(one.code == code and message in str(one) for one in all_findings), all_findings


def test_two_entries_that_are_one_run(one_entry: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(one_entry, tmp_path / "entries"))
    shutil.copytree(copy / "mini" / "made-up", copy / "mini" / "twin")
    codes = {one.code for one in check_entries(copy).findings}
    assert "same-run" not in codes  # One name: the folder is wrong, the system is the same.
    version = copy / "mini" / "twin" / "v1"
    value = json.loads((version / "submission.json").read_text().replace("made-up", "twin"))
    table = pq.read_table(version / "scores.parquet")
    column = pa.array(["twin"] * len(table))
    pq.write_table(table.set_column(0, "system", column), version / "scores.parquet")
    seal(version, value)
    found = check_entries(copy)
    assert [one.code for one in found.findings] == ["same-run"]
    assert all(one.accepted for one in found.versions)


# meta.toml.

META: dict[str, tuple[str, str, str, str]] = {
    "unknown key": ('licence = "', 'license = "', "unknown-field", "did you mean 'licence'?"),
    "family": ('"dense"', '"dens"', "unknown-family", "did you mean 'dense'?"),
    "board": ('board = "mini"', 'board = "maxi"', "unknown-board", "meta.toml:2: board"),
    "empty title": ('"Made up"', '" "', "empty-text", "system.title: must not be empty"),
    "link": ("https://", "ftp://", "wrong-link", "system.links.code"),
    "year": ("year = 2026", 'year = "new"', "wrong-type", "system.year: expected a whole number"),
    "parameters": ('parameters = ""', "parameters = 1.5", "wrong-type", "system.parameters: exp"),
    "tolerance": ('tolerance = ""', "tolerance = 2", "out-of-range", "reproduction.tolerance: 2"),
    "command": ('commands = ""', f'commands = "{"x" * 501}"', "text-too-long", "commands[0]: 501"),
    "no author": ('["Ada Lovelace"]', "[]", "out-of-range", "authors: 0 items"),
    "seeds as text": ("seeds = []", 'seeds = "1"', "wrong-type", "expected a list, found a text"),
    "not TOML": ("[system]", "[system", "not-toml", "meta.toml:7"),
    "shift": ("length =", "lenght =", "unknown-shift", "did you mean 'length'?"),
    "shift left out": ('length = "msshift"', "", "missing-field", "is missing, and there are runs"),
    "untrained": ('length = "msshift"', 'length = "none"', "not-untrained", "'none', but there is"),
    "other board": (
        'board = "mini"',
        'board = "ms-marco"',
        "test-set-not-accepted",
        "ms-marco does not take results on the test queries of length",
    ),
}


@pytest.mark.parametrize("name", META)
def test_descriptions(name: str, good: Path, mini_length: Path, tmp_path: Path) -> None:
    old, new, code, message = META[name]
    meta = write_meta(tmp_path / "meta.toml", length="msshift")
    content = meta.read_text()
    assert old in content
    meta.write_text(content.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        make_submission(good / "runs" / "made-up", meta, tmp_path / "out", mini_length)
    assert any(one.code == code and message in str(one) for one in caught.value.findings), caught
    assert not (tmp_path / "out").exists()
