"""Schemas find everything that is wrong; lists of ids and digests do not depend on order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.synthetic_entries import scored_report
from msshift_bench.errors import Finding
from msshift_bench.evaluation.report_layout import ReportRecord
from msshift_bench.leaderboard.boards import digest_of_test_sets
from msshift_bench.leaderboard.submission import Training
from msshift_bench.leaderboard.trained_on import (
    exposure_of,
    ids_digest,
    read_ids,
    training_ids,
    write_ids,
)
from msshift_bench.output.jsonable import plain
from msshift_bench.schema import (
    Place,
    Schema,
    date,
    integer,
    list_of,
    mapping_of,
    number,
    object_of,
    schema_of,
    slug,
    text,
    typed,
    url,
)
from msshift_bench.stats.losses import ShiftLoss


def codes(schema: Schema, value: Any) -> list[str]:
    place = Place("file.json")
    schema(value, place)
    return [one.code for one in place.findings]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (slug, ["a", "my-system-2"], ["", "A", "-a", "a_b", "a/b", "..", "a" * 65, 1, None]),
        (date, ["2026-02-28"], ["2026-02-30", "20260228", "today", 20260228]),
        (
            url,
            ["https://x.org/a?b=c#d", "http://localhost:80"],
            [
                "//x.org",
                "x.org",
                "https:x",
                "HTTPS://",
                "file:///etc",
                "vbscript:x",
                "http://[::1",
                "https://x.org/\n",
                "https://x.org/<b>",
                5,
            ],
        ),
        (integer(0, 5), [0, 5], [-1, 6, 2.0, True, "1", None]),
        (number(0, 1), [0, 1, 0.5], [1.1, float("nan"), float("inf"), True, "0.5"]),
        (text(3), ["", "abc", "a\u0301"], ["abcd", "a\nb", "\x00", "\u2028", "\ud800", 1]),
        (text(3, lines=True), ["a\nb"], ["a\rb"]),
        (text(3, empty=False), ["a"], ["", "  "]),
        (list_of(slug, 2, 1), [["a"], ["a", "b"]], [[], ["a", "b", "c"], "a", {"a": 1}]),
        (mapping_of(slug, integer(), 1), [{}, {"a": 1}], [{"A": 1}, {"a": "x"}, {"a": 1, "b": 2}]),
    ],
)
def test_schemas(schema: Schema, good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if codes(schema, value)] == []
    assert [value for value in bad if not codes(schema, value)] == []


def test_all_findings_with_their_places() -> None:
    place = Place("x.json")
    object_of({"a": object_of({"b": integer()}), "c": slug})({"a": {"b": "x"}, "d": 1}, place)
    assert sorted(str(one).partition(" [")[0] for one in place.findings) == [
        "x.json: a.b: expected a whole number, found a text",
        "x.json: c: is missing",
        "x.json: d: there is no such field",
    ]


def test_long_and_hostile_values_are_shortened_in_messages() -> None:
    place = Place("x.json")
    slug("\x1b[2J" + "x" * 10_000, place)
    object_of({})({"\x1b" * 500: 1}, place)
    for finding in place.findings:
        assert "\x1b" not in str(finding)
        assert len(str(finding)) < 300


def test_the_report_s_schemas_follow_the_evaluator() -> None:
    assert "missing-field" in codes(schema_of(ShiftLoss, {}), {})


def test_a_report_is_read_as_the_record_that_was_written() -> None:
    for report in (
        scored_report("trained", 0.1, shifts=("length",), queries=10, seeds=(1, 2)),
        scored_report("words", 0.1, shifts=("length",), queries=10, per_group=False),
        scored_report("lonely", 0.1, shifts=("length",), queries=1),  # no interval, no p-value
    ):
        written = json.loads(json.dumps(report.to_json()))
        assert plain(typed(ReportRecord, written)) == written
        assert typed(ReportRecord, written).systems[0].runs == report.record().systems[0].runs


def test_a_finding_of_a_run_is_read_as_it_was_written() -> None:
    # Its severity is one of two words: no type, of which one could ask what it is a class of.
    finding = Finding("few-queries", "a query is missing", severity="warning")
    assert typed(Finding, json.loads(json.dumps(plain(finding)))) == finding


def test_digests_of_test_sets() -> None:
    one = digest_of_test_sets({"short": ["2", "1"], "long": ["3"]})
    assert one == digest_of_test_sets({"long": ["3"], "short": ["1", "2"]})
    assert one != digest_of_test_sets({"short": ["1"], "long": ["2", "3"]})


def test_ids(tmp_path: Path) -> None:
    write_ids(tmp_path / "a" / "ids.txt.gz", ["2", "10", "1"])
    assert read_ids(tmp_path / "a" / "ids.txt.gz") == ("1", "10", "2")
    (tmp_path / "plain.txt").write_bytes(b"2\r\n10\r\n1\r\n")
    assert read_ids(tmp_path / "plain.txt") == ("1", "10", "2")
    assert ids_digest(["2", "10", "1"]) == ids_digest(["1", "2", "10"])


def training(per_group: bool, **models: tuple[int, int]) -> Training:
    tests = {"short": ["a", "b"], "long": ["c"]}
    ids = {
        name: training_ids(["a"] * min(seen, 1) + [str(n) for n in range(count)], tests, None)
        for name, (count, seen) in models.items()
    }
    queries = {"length": {name.replace("all", "*"): one for name, one in ids.items()}}
    return Training("", per_group, "", "", (), "", "", queries)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (training(True, short=(5, 0), long=(5, 0)), "held-out"),
        (training(True, short=(5, 0)), "undeclared"),
        (training(True, short=(5, 1)), "trained-on-test"),
        (training(True, short=(5, 0), long=(5, 1)), "trained-on-test"),
        (training(False, all=(0, 0)), "none"),
        (training(False, all=(5, 0)), "held-out"),
        (training(False, short=(5, 0), long=(5, 0)), "undeclared"),
    ],
)
def test_classes(declared: Training, expected: str) -> None:
    assert exposure_of(declared, ["length"]) == expected


def test_one_undeclared_shift_makes_all_undeclared() -> None:
    declared = training(True, short=(5, 0), long=(5, 0))
    assert exposure_of(declared, ["length", "topics"]) == "undeclared"
    assert exposure_of(declared, []) == "undeclared"
