"""Breaking results down by labels: slices that lose queries, and labels that belong elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.support.fabricated import write_runs
from msshift_bench.data import open_dataset
from msshift_bench.errors import DataError, UnknownNameError
from msshift_bench.evaluation import Settings, evaluate_run_sets, read_labels
from msshift_bench.runs import read_run
from msshift_bench.runs.writing import write_run
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command


@pytest.fixture
def data(build_once: Build) -> Path:
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture
def queries(data: Path) -> dict[str, list[str]]:
    """The test queries of each group of length."""
    tests = open_dataset(data).test_sets(SHIFTS["length"])
    return {group: [row.query_id for row in rows] for group, rows in tests.items()}


@pytest.fixture
def lacking(data: Path, queries: dict[str, list[str]], tmp_path: Path) -> Path:
    """A system with a run that lacks the first query of `short`."""
    folder = write_runs(tmp_path / "runs" / "dense", data)
    path = folder / "length" / "short.run.gz"
    run = read_run(path)
    del run[queries["short"][0]]
    write_run(path, run)
    return folder


def test_a_slice_whose_queries_of_a_group_are_all_skipped_does_without_the_group(
    lacking: Path, data: Path, queries: dict[str, list[str]]
) -> None:
    gone, short, long = queries["short"][0], queries["short"][1:], queries["long"]
    labels = {gone: "mixed", short[0]: "kept", **dict.fromkeys(long[:30], "mixed")}
    report = evaluate_run_sets(lacking, data, settings=Settings(missing="skip"), labels=labels)
    (mixed,) = report.slices["mixed"]
    assert {group: len(places) for group, places in mixed.scores.groups.items()} == {"long": 30}
    whole = mixed.measures["RR@10"].loss
    assert whole is not None
    assert whole.avg_in == whole.groups["long"].avg_in
    assert report.remarks == []

    counted_as_zero = evaluate_run_sets(lacking, data, labels=labels)
    assert set(counted_as_zero.slices["mixed"][0].scores.groups) == {"short", "long"}


def test_a_slice_whose_queries_are_all_skipped_is_left_out_and_named(
    lacking: Path, data: Path, queries: dict[str, list[str]]
) -> None:
    labels = {queries["short"][0]: "rare", queries["long"][0]: "kept"}
    report = evaluate_run_sets(lacking, data, settings=Settings(missing="skip"), labels=labels)
    assert set(report.slices) == {"kept", "others"}
    assert report.remarks == [
        "dense/length: no slice rare, because a run lacks each of its queries"
    ]


@pytest.mark.slow
def test_the_report_leaves_out_such_slices_too(
    lacking: Path, data: Path, queries: dict[str, list[str]], msshift: Command
) -> None:
    """Slices of a report are the groups of the other shifts, here one that loses a query."""
    labels = {row.query_id: row.group for row in open_dataset(data).rows("wh-words", "queries")}
    named = Counter(labels[query] for query in queries["short"] if query in labels)
    rare = min(named, key=lambda group: named[group])
    path = lacking / "length" / "short.run.gz"
    run = read_run(path).items()
    short = set(queries["short"])
    write_run(path, {q: docs for q, docs in run if q not in short or labels.get(q) != rare})
    done = msshift("report", "runs", "--data", data, "--missing", "skip", "--no-links")
    assert done.returncode == 0, done.stderr


def test_a_slice_that_lacks_groups_does_not_pool_the_variance_of_seeds(
    build_once: Build, tmp_path: Path
) -> None:
    """Its models do not take part alike: some have an Out in it, and some have none."""
    data = build_once("mini:500", "length", "wh-words")
    runs = write_runs(tmp_path / "dense", data, "wh-words", (1, 2))
    tests = open_dataset(data).test_sets(SHIFTS["wh-words"])
    labels = {
        row.query_id: "all" if number % 2 else "one" if group == "who" else "two"
        for group, rows in tests.items()
        for number, row in enumerate(rows)
    }
    pooled = Settings(seed_variance="pooled")
    report = evaluate_run_sets(runs, data, settings=pooled, labels=labels)
    assert report.remarks == [
        "dense/wh-words: variance of seeds own in the slice two, which lacks groups, so that the "
        "models cannot be pooled"
    ]
    own = evaluate_run_sets(runs, data, labels=labels)
    for label in ("all", "one", "two"):
        found, expected = (one.slices[label][0].measures["RR@10"].loss for one in (report, own))
        assert found is not None
        assert found.seed_variance == ("own" if label == "two" else "pooled"), label
        assert (found == expected) == (label == "two"), label


def test_labels_of_other_queries_are_refused(
    lacking: Path, data: Path, tmp_path: Path, msshift: Command
) -> None:
    """Else every query would stand in one slice, `others`, as if it had been left unlabelled."""
    (tmp_path / "labels.tsv").write_text("zz1\teasy\nzz2\thard\n")
    done = msshift("evaluate", "runs", "--data", data, "--by", "labels.tsv")
    assert (done.returncode, done.stdout) == (1, "")
    assert "test queries has a label (0, " in done.stderr
    assert "the labels are those of zz1, zz2" in done.stderr
    for labels in ({}, {144: "ids are text"}):
        with pytest.raises(DataError, match="test queries has a label"):
            evaluate_run_sets(lacking, data, labels=labels)  # type: ignore[arg-type]


def test_the_beginning_of_two_shifts_is_no_shift(build_once: Build) -> None:
    data = build_once("mini:500", "length", "wh-words", "resttest", "rare-terms")
    assert set(read_labels("le", data).values()) == {"short", "long"}
    for ambiguous in ("r", ""):
        with pytest.raises(UnknownNameError, match="resttest, rare-terms"):
            read_labels(ambiguous, data)
