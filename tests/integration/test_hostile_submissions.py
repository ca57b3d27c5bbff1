"""Hostile and broken submissions: each is refused, with what is wrong."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.leaderboard import strict_files
from msshift_bench.leaderboard.gate import check_submission
from tests.support.spoiling import Json, assert_refused, cut, flip, read, seal


def test_the_good_one_is_accepted(good: Path, mini_length: Path) -> None:
    checked = check_submission(good, data=mini_length)
    assert checked.findings == []
    assert checked.rescored == ("length",)
    assert checked.exposure == "held-out"


# JSON that is not what it seems.

RAW: dict[str, tuple[Callable[[str], bytes], str, str]] = {
    "key twice": (
        lambda s: s.replace('"board":', '"board": "ms-marco", "board":', 1).encode(),
        "duplicate-key",
        "the key 'board' twice",
    ),
    "NaN": (
        lambda s: s.replace('"version": 1', '"version": NaN').encode(),
        "not-finite",
        "the number NaN is not finite",
    ),
    "infinity": (
        lambda s: s.replace('"version": 1', '"version": -Infinity').encode(),
        "not-finite",
        "is not finite",
    ),
    "1e999": (
        lambda s: s.replace('"version": 1', '"version": 1e999').encode(),
        "not-finite",
        "the number 1e999",
    ),
    "number of 10,000 digits": (
        lambda s: s.replace('"version": 1', f'"version": {"9" * 10_000}').encode(),
        "not-json",
        "digits",
    ),
    "nested 100,000 deep": (
        lambda s: b"[" * 100_000 + b"]" * 100_000,
        "nested-too-deep",
        "nested more than 32 deep",
    ),
    "nested 40 deep": (
        lambda s: b'{"a":' * 40 + b"1" + b"}" * 40,
        "nested-too-deep",
        "nested more than 32 deep",
    ),
    "50 MB": (lambda s: b" " * 50_000_000, "json-too-large", "50000000 bytes"),
    "not UTF-8": (lambda s: s.encode("utf-16"), "not-utf8", "byte 1 is not UTF-8"),
    "half": (lambda s: s[: len(s) // 2].encode(), "not-json", "submission.json"),
    "a list": (lambda s: b"[]", "wrong-type", "expected an object, found a list"),
    "pickle": (lambda s: pickle.dumps(s), "not-utf8", "is not UTF-8"),
}


@pytest.mark.parametrize("name", RAW)
def test_json(name: str, broken: Path) -> None:
    change, code, message = RAW[name]
    path = broken / "submission.json"
    path.write_bytes(change(path.read_text("utf-8")))
    seal(broken)
    assert_refused(check_submission(broken), code, message)


# Files.


def test_a_changed_file_is_found_by_its_digest(broken: Path) -> None:
    flip(broken / "scores.parquet", 100)
    assert_refused(check_submission(broken), "wrong-digest", "scores.parquet")


def test_a_missing_file_that_the_list_leaves_out(broken: Path) -> None:
    (broken / "scores.parquet").unlink()
    seal(broken)
    assert_refused(check_submission(broken), "missing-file", f"no file {broken}/scores.parquet")


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b'{"schema": 1, "files": {}}', "wrong-type", "files: expected a list"),
        (b'{"schema": 1}', "missing-field", "files: is missing"),
        (
            b'{"schema": 1, "files": [{"path": "submission.json", "bytes": 7}]}',
            "missing-field",
            "files[0].sha256: is missing",
        ),
    ],
)
def test_a_file_list_that_is_none(content: bytes, code: str, message: str, broken: Path) -> None:
    (broken / "manifest.json").write_bytes(content)
    assert_refused(check_submission(broken), code, message)


def test_a_missing_file(broken: Path) -> None:
    (broken / "scores.parquet").unlink()
    assert_refused(check_submission(broken), "missing-file", "scores.parquet")


def test_no_file_list(broken: Path) -> None:
    (broken / "manifest.json").unlink()
    assert_refused(check_submission(broken), "missing-file", "manifest.json")


def test_an_extra_file(broken: Path) -> None:
    (broken / "model.pkl").write_bytes(pickle.dumps({}))
    assert_refused(check_submission(broken), "unlisted-file", "model.pkl")
    seal(broken)
    assert_refused(check_submission(broken), "unexpected-file", "no file of a submission")


def test_a_link_in_a_folder(broken: Path) -> None:
    (broken / "scores.parquet").unlink()
    (broken / "scores.parquet").symlink_to("/etc/passwd")
    assert_refused(check_submission(broken), "not-a-file", "a link, or no plain file")


def test_a_submission_that_is_a_link(broken: Path, tmp_path: Path) -> None:
    (broken / "submission.json").rename(tmp_path / "elsewhere.json")
    (broken / "submission.json").symlink_to(tmp_path / "elsewhere.json")
    assert_refused(check_submission(broken), "not-a-file", "a link, or no plain file")


def swap_runs(folder: Path) -> None:
    runs = folder / "runs" / "made-up" / "length"
    (runs / "short.run.gz").rename(runs / "x")
    (runs / "long.run.gz").rename(runs / "short.run.gz")
    (runs / "x").rename(runs / "long.run.gz")


def test_swapped_run_files(broken: Path, mini_length: Path) -> None:
    swap_runs(broken)
    assert_refused(check_submission(broken, data=mini_length), "wrong-digest", "short.run.gz")


def test_swapped_run_files_with_digests_to_match(broken: Path, mini_length: Path) -> None:
    swap_runs(broken)
    value = read(broken)
    runs = value["report"]["systems"][0]["runs"]
    for one, other in ((value["files"], "sha256"), (value["files"], "bytes"), (runs, "digest")):
        one[0][other], one[1][other] = one[1][other], one[0][other]
    seal(broken, value)
    assert_refused(check_submission(broken, data=mini_length), "rescored-differs", "cells[0].mean")


def test_a_run_that_is_listed_and_not_there(broken: Path, mini_length: Path) -> None:
    (broken / "runs" / "made-up" / "length" / "short.run.gz").unlink()
    assert_refused(
        check_submission(broken, data=mini_length), "missing-file", "is listed, and not there"
    )


def test_a_run_that_is_there_and_not_listed(broken: Path, mini_length: Path) -> None:
    shutil.copy(
        broken / "runs" / "made-up" / "length" / "short.run.gz", broken / "runs" / "made-up" / "x"
    )
    assert_refused(
        check_submission(broken, data=mini_length), "unlisted-file", "is not listed in 'files'"
    )


def test_a_run_that_is_a_link(broken: Path, mini_length: Path, tmp_path: Path) -> None:
    run = broken / "runs" / "made-up" / "length" / "short.run.gz"
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    checked = check_submission(broken, data=mini_length)
    assert_refused(checked, "not-a-file", "short.run.gz: a link, or no plain file")


def test_a_folder_of_runs_may_hold_other_systems_and_not_two_kinds_of_one_shift(
    good: Path, broken: Path, mini_length: Path, tmp_path: Path
) -> None:
    shutil.rmtree(broken / "runs")
    runs = Path(shutil.copytree(good / "runs", tmp_path / "runs"))
    shutil.copytree(runs / "made-up", runs / "another")
    checked = check_submission(broken, data=mini_length, runs=runs)
    assert (checked.findings, checked.rescored) == ([], ("length",))
    shutil.copy(runs / "made-up" / "length" / "short.run.gz", runs / "made-up" / "length.run.gz")
    checked = check_submission(broken, data=mini_length, runs=runs)
    assert_refused(checked, "cannot-check", "holds both length.run.gz and a folder length/")


# Per-query scores.


def edit_scores(folder: Path, change: Callable[[Json], None]) -> None:
    table = pq.read_table(folder / "scores.parquet")
    columns = table.to_pydict()
    change(columns)
    schema = table.schema.remove_metadata()
    pq.write_table(pa.table(columns, schema), folder / "scores.parquet")
    seal(folder)


def swap_groups(columns: Json) -> None:
    columns["group"] = [{"short": "long", "long": "short"}[one] for one in columns["group"]]


def every(name: str, value: Any) -> Callable[[Json], None]:
    return lambda columns: columns.update({name: [value] * len(columns[name])})


def first(name: str, value: Any) -> Callable[[Json], None]:
    return lambda columns: columns[name].__setitem__(0, value)


def without_a_query(columns: Json) -> None:
    keep = [one != columns["query_id"][0] for one in columns["query_id"]]
    for name, values in columns.items():
        columns[name] = [one for one, kept in zip(values, keep, strict=True) if kept]


def shuffled(columns: Json) -> None:
    for name, values in columns.items():
        columns[name] = values[::-1]


SCORES: dict[str, tuple[Callable[[Json], None], str, str]] = {
    "NaN": (first("score", float("nan")), "score-not-finite", "no finite number"),
    "infinity": (first("score", float("inf")), "score-not-finite", "no finite number"),
    "null": (first("score", None), "score-not-finite", "no finite number"),
    "above 1": (first("score", 1.5), "score-out-of-range", "is not from 0 to 1"),
    "below 0": (first("score", -0.5), "score-out-of-range", "is not from 0 to 1"),
    "another score": (first("score", 0.123), "report-differs", "cells[0].mean"),
    "all scores 1": (every("score", 1.0), "report-differs", "the per-query scores give 1.0"),
    "groups swapped": (swap_groups, "test-set-not-accepted", "or their groups"),
    "query moved": (first("group", "long"), "test-set-not-accepted", "or their groups"),
    "query added": (first("query_id", "new"), "test-set-not-accepted", "are not test sets"),
    "query removed": (without_a_query, "test-set-not-accepted", "are not test sets"),
    "another system": (every("system", "other"), "scores-layout", "they belong: system"),
    "another seed": (every("seed", 3), "scores-layout", "they belong: seed"),
    "another measure": (first("measure", "RR@100"), "scores-layout", "they belong: measure"),
    "another order": (shuffled, "scores-layout", "are not where they belong"),
    "missing queries": (every("missing", True), "report-differs", "cells[0].missing"),
    "missing under one measure": (first("missing", True), "scores-layout", "'missing' depends"),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str, broken: Path) -> None:
    change, code, message = SCORES[name]
    edit_scores(broken, change)
    assert_refused(check_submission(broken), code, message)


def test_truncated_parquet(broken: Path) -> None:
    cut(broken / "scores.parquet", 5000)
    seal(broken)
    assert_refused(check_submission(broken), "not-parquet", "not a whole Parquet file")


def test_parquet_with_ids_that_are_no_text(broken: Path) -> None:
    table = pq.read_table(broken / "scores.parquet")
    bytes_ = pa.array([b"\xff"] * len(table), pa.binary())
    pq.write_table(
        table.set_column(
            5, "query_id", pa.Array.from_buffers(pa.string(), len(table), bytes_.buffers())
        ),
        broken / "scores.parquet",
    )
    seal(broken)
    assert_refused(check_submission(broken), "not-parquet", "Invalid UTF8")


def test_parquet_with_other_columns(broken: Path) -> None:
    table = pq.read_table(broken / "scores.parquet").drop_columns(["missing"])
    pq.write_table(table, broken / "scores.parquet")
    seal(broken)
    assert_refused(check_submission(broken), "wrong-columns", "expected system string")


def test_parquet_that_says_it_is_huge(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_files, "MAX_ROWS", 1000)
    assert_refused(check_submission(broken), "scores-too-large", "at most 1000")


def test_scores_of_too_many_bytes_are_not_opened(
    broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_files, "MAX_SCORES_BYTES", 1000)
    assert_refused(check_submission(broken), "scores-too-large", "more than 1000 bytes")


def test_rows_beyond_those_of_the_report(broken: Path) -> None:
    table = pq.read_table(broken / "scores.parquet")
    pq.write_table(pa.concat_tables([table, table]), broken / "scores.parquet")
    seal(broken)
    assert_refused(check_submission(broken), "scores-layout", "where the report makes for")
