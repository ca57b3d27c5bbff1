"""What a forger can change in submission.json: each change is found, and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msshift_bench.leaderboard.gate import check_submission
from tests.support.spoiling import Json, assert_refused, at, errors, put, read, seal


def drop(path: str) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        parent, key = at(value, path)
        del parent[key]

    return change


def add(path: str, by: float) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        parent, key = at(value, path)
        parent[key] += by

    return change


def both(*changes: Callable[[Json], None]) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        for one in changes:
            one(value)

    return change


RR = "report/systems/0/measures/RR@10"

NO_QUERIES = {"count": 0, "sha256": "0" * 64, "file": None, "test_queries": {}}

FIELDS: dict[str, tuple[Callable[[Json], None], str, str]] = {
    "future schema": (put("schema", 2), "future-schema", "schema 2 is newer than 1"),
    "no schema": (put("schema", "one"), "unknown-schema", "expected 1"),
    "unknown board": (put("board", "minni"), "unknown-board", "did you mean 'mini'?"),
    "other board": (
        put("board", "ms-marco"),
        "test-set-not-accepted",
        "are not test sets that ms-marco takes",
    ),
    "unknown family": (put("system/family", "dence"), "unknown-family", "did you mean 'dense'?"),
    "wrong slug": (put("system/name", "Made_Up/.."), "wrong-slug", "small letters, digits and"),
    "missing field": (drop("system/licence"), "missing-field", "system.licence: is missing"),
    "unknown field": (
        put("system/license", "MIT"),
        "unknown-field",
        "system.license: there is no such field; did you mean 'licence'?",
    ),
    "javascript link": (
        put("system/links/code", "javascript:alert(1)"),
        "wrong-link",
        "system.links.code: 'javascript:alert(1)' is not a link",
    ),
    "data link": (put("system/links/code", "data:text/html,x"), "wrong-link", "is not a link"),
    "link without a host": (put("system/links/code", "https://"), "wrong-link", "is not a link"),
    "link with a password": (
        put("system/links/code", "https://me:pw@example.org"),
        "wrong-link",
        "is not a link",
    ),
    "link with quotes": (
        put("system/links/code", 'https://example.org/"onclick="x'),
        "wrong-link",
        "is not a link",
    ),
    "unknown link": (put("system/links/blog", "https://x.org"), "unknown-link", "'blog'"),
    "year": (put("system/year", 20_260), "out-of-range", "system.year: 20260 is not from 1950"),
    "year as text": (put("system/year", "2026"), "wrong-type", "expected a whole number"),
    "parameters": (put("system/parameters", -1), "out-of-range", "system.parameters: -1 is not"),
    "no commands": (
        put("reproduction", {"commands": [], "tolerance": 0}),
        "out-of-range",
        "reproduction.commands: 0 items where 1 to 30",
    ),
    "command that is two": (
        put("reproduction", {"commands": ["a\nb"], "tolerance": 0}),
        "control-character",
        "reproduction.commands[0]",
    ),
    "tolerance": (
        put("reproduction", {"commands": ["make"], "tolerance": 2}),
        "out-of-range",
        "reproduction.tolerance: 2 is not from 0 to 1",
    ),
    "no authors": (put("authors", []), "out-of-range", "authors: 0 items"),
    "long text": (put("system/title", "x" * 201), "text-too-long", "201 characters"),
    "control character": (
        put("system/title", "a\x1b[2J"),
        "control-character",
        "holds the control character U+001B",
    ),
    "text that runs backwards": (
        put("system/title", "a\u202eb"),
        "control-character",
        "RIGHT-TO-LEFT OVERRIDE",
    ),
    "date": (put("submitted", "2026-13-01"), "wrong-date", "is not a day"),
    "class": (put("training/class", "none"), "wrong-class", "makes it 'held-out'"),
    "badge without results": (
        put("badge", "reported"),
        "badge-without-results",
        "a paper's results are 'reported'",
    ),
    "seeds": (put("training/seeds", [1, 2]), "seeds-mismatch", "training.seeds says [1, 2]"),
    "negative seed": (put("training/seeds", [-1]), "out-of-range", "-1 is not from 0"),
    "cell": (
        add(f"{RR}/cells/0/mean", 0.01),
        "report-differs",
        "measures.RR@10.cells[0].mean: the report says",
    ),
    "cell as text": (put(f"{RR}/cells/0/mean", "0.9"), "wrong-type", "expected a number"),
    "cell left out": (
        lambda value: at(value, f"{RR}/cells/0")[0].pop(),
        "report-differs",
        "measures.RR@10.cells: the report says '3 items', the per-query scores give '4 items'",
    ),
    "negative count": (
        put("report/systems/0/test_queries/short", -1),
        "out-of-range",
        "test_queries.short: -1 is not from 1",
    ),
    "count": (
        add("report/systems/0/test_queries/short", 1),
        "scores-layout",
        "are not where they belong",
    ),
    "denominator": (
        add(f"{RR}/cells/0/queries", -1),
        "report-differs",
        "cells[0].queries: the report says 283",
    ),
    "loss": (
        add(f"{RR}/loss/groups/short/rel_loss", -0.01),
        "report-differs",
        "loss.groups.short.rel_loss",
    ),
    "mean loss": (
        add(f"{RR}/loss/overall/rel_loss", -0.01),
        "report-differs",
        "loss.overall.rel_loss",
    ),
    "interval": (
        add(f"{RR}/loss/groups/long/intervals/out/high", 0.001),
        "report-differs",
        "loss.groups.long.intervals.out.high",
    ),
    "p-value": (
        put(f"{RR}/loss/groups/long/tests/t_p", 0.5),
        "report-differs",
        "loss.groups.long.tests.t_p",
    ),
    "no loss": (put(f"{RR}/loss", None), "report-differs", "measures.RR@10.loss"),
    "no measure": (drop("report/systems/0/measures/R@100"), "report-differs", "measures.R@100"),
    "partial": (put("report/systems/0/partial", True), "partial", "run files are missing"),
    "another confidence": (
        put("report/settings/confidence", 0.5),
        "wrong-settings",
        "settings.confidence: 0.5 where entries are scored with 0.95",
    ),
    "kind ties": (put("report/settings/ties", "rank"), "wrong-settings", "settings.ties: 'rank'"),
    "data version": (
        put("report/data/data_version", "9.9.9"),
        "unknown-data-version",
        "'9.9.9'; this version of the package knows 2.0.0",
    ),
    "edition": (put("report/data/edition", "mine"), "unknown-edition", "'mine'"),
    "other system's report": (
        put("report/systems/0/system", "other"),
        "wrong-name",
        "'other' where the submission is of 'made-up'",
    ),
    "unknown shift": (put("report/systems/0/shift", "lengths"), "unknown-shift", "'length'?"),
    "shift of another board": (
        put("report/systems/0/shift", "resttest"),
        "unknown-shift",
        "mini has no results on resttest",
    ),
    "held-out groups swapped in the report": (
        both(
            put("report/systems/0/runs/0/held_out", "long"),
            put("report/systems/0/runs/1/held_out", "short"),
        ),
        "wrong-name",
        "is not where that run belongs",
    ),
    "run left out": (
        lambda value: value["report"]["systems"][0]["runs"].pop(),
        "wrong-runs",
        "one run for every seed and every held-out group",
    ),
    "run not listed": (
        lambda value: value["files"].pop(),
        "run-not-listed",
        "has no 'made-up/length/long.run.gz' with its digest",
    ),
    "run listed twice": (
        lambda value: value["files"].append(value["files"][0]),
        "repeated-file",
        "'made-up/length/short.run.gz' is listed twice",
    ),
    "group left out of the test queries": (
        drop("training/queries/length/short/test_queries/long"),
        "wrong-groups",
        "expected short, long",
    ),
    "another format of runs": (
        put("report/settings/run_format", "x"),
        "wrong-settings",
        "settings.run_format: 'x'",
    ),
    "results twice": (
        lambda value: value["report"]["systems"].append(value["report"]["systems"][0]),
        "repeated-shift",
        "length is there twice",
    ),
    "size of a run": (
        add("files/0/bytes", 1),
        "wrong-digest",
        "its size is not the one in 'files'",
    ),
    "training of a shift without results": (
        put("training/queries/wh-words", {}),
        "unexpected-ids",
        "there are no results on wh-words",
    ),
    "one training for models of groups": (
        put("training/queries/length", {"*": {**NO_QUERIES, "count": 7}}),
        "wrong-groups",
        "* are not its models",
    ),
    "path of a run": (
        put("files/0/path", "../../etc/passwd"),
        "wrong-path",
        "is not a path of a run set",
    ),
    "same run twice": (
        both(
            put("files/0/sha256", "0" * 64),
            put("files/1/sha256", "0" * 64),
            put("report/systems/0/runs/0/digest", "0" * 64),
            put("report/systems/0/runs/1/digest", "0" * 64),
        ),
        "same-run",
        "are the same file, and so one model",
    ),
    "training digest": (
        put("training/queries/length/short/sha256", "0" * 64),
        "wrong-ids",
        "are not those of the list",
    ),
    "test queries played down": (
        put("training/queries/length/short/count", 7),
        "wrong-ids",
        "are not those of the list",
    ),
    "list of another model": (
        put("training/queries/length/short/file", "train/length/long.txt.gz"),
        "wrong-name",
        "is another model's list",
    ),
    "list outside": (
        put("training/queries/length/short/file", "../ids.txt.gz"),
        "wrong-path",
        "is not train/<shift>/<held-out group>.txt.gz",
    ),
    "training of an unknown group": (
        put("training/queries/length/C0", NO_QUERIES),
        "unknown-group",
        "length has no group 'C0'",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields(name: str, broken: Path, mini_length: Path) -> None:
    change, code, message = FIELDS[name]
    value = read(broken)
    change(value)
    seal(broken, value)
    assert_refused(check_submission(broken, data=mini_length), code, message)


def test_runs_of_another_build_with_the_same_test_queries_are_only_warned_of(
    broken: Path, mini_length: Path
) -> None:
    value = read(broken)
    put("report/data/content_digest", "0" * 64)(value)
    seal(broken, value)
    checked = check_submission(broken, data=mini_length)
    assert checked.accepted
    assert checked.rescored == ("length",)
    assert [(one.code, one.severity) for one in checked.findings] == [("other-build", "warning")]
    assert "the data set was built from other queries" in str(checked.findings[0])


def test_everything_wrong_is_named_at_once(broken: Path) -> None:
    value = read(broken)
    for change in (drop("note"), put("system/family", "x"), put("authors", "me"), put("board", 1)):
        change(value)
    seal(broken, value)
    codes = {one.code for one in errors(check_submission(broken))}
    assert codes == {"missing-field", "unknown-family", "wrong-type", "unknown-board"}


SCRIPT = "<script>alert(1)</script>"
TEXTS = [
    "note",
    "authors/0",
    "system/title",
    "system/description",
    "system/backbone",
    "system/backbone_revision",
    "system/candidates",
    "system/licence",
    "training/data",
    "training/hard_negatives",
    "training/distillation",
    "training/hardware",
]


@pytest.mark.parametrize("path", TEXTS)
def test_scripts_are_taken_as_the_text_they_are(path: str, broken: Path) -> None:
    value = read(broken)
    put(path, SCRIPT)(value)
    seal(broken, value)
    checked = check_submission(broken)
    assert checked.findings == []
    assert checked.submission is not None
    parent, key = at(checked.submission.to_json(), path)
    assert (parent[int(key)] if isinstance(parent, list) else parent[key]) == SCRIPT
