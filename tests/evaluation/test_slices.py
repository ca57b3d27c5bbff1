"""Breaking results down by labels: slices that lose queries, and labels that belong elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.data import open_dataset
from msshift_bench.errors import CollectionError, DataError, UnknownNameError
from msshift_bench.evaluation import Settings, evaluate_run_sets, read_labels, slice_scores
from msshift_bench.runs import read_run, write_run
from msshift_bench.shifts import SHIFTS
from tests.conftest import Build, Command
from tests.support.fabricated import write_runs
from tests.support.made_scores import made_scores


@pytest.fixture
def data(build_once: Build) -> Path:
    return build_once("mini:500", "length", "wh-words")


@pytest.fixture
def queries(data: Path) -> Mapping[str, list[str]]:
    """The test queries of each group of length."""
    tests = open_dataset(data).test_sets(SHIFTS["length"])
    return {group: [row.query_id for row in rows] for group, rows in tests.items()}


@pytest.fixture
def lacking(data: Path, queries: Mapping[str, list[str]], tmp_path: Path) -> Path:
    """A system with a run that lacks the first query of `short`."""
    folder = write_runs(tmp_path / "runs" / "dense", data)
    path = folder / "length" / "short.run.gz"
    run = read_run(path)
    del run[queries["short"][0]]
    write_run(path, run)
    return folder


def test_slices_without_a_query_that_counts_do_without_the_group_or_are_left_out(
    lacking: Path, data: Path, queries: Mapping[str, list[str]]
) -> None:
    gone, short, long = queries["short"][0], queries["short"][1:], queries["long"]
    labels = {gone: "mixed", short[0]: "kept", **dict.fromkeys(long[:30], "mixed")}
    skip = Settings(missing="skip")
    result = evaluate_run_sets(lacking, data, settings=skip, labels=labels)
    outs = result.figures.where(slice="mixed", figure="out")
    assert [(row.group, row.queries) for row in outs] == [("long", 30), ("mean", 30)]
    assert outs[0].value == outs[1].value
    assert result.doubts == []
    counted_as_zero = evaluate_run_sets(lacking, data, labels=labels).figures
    outs = counted_as_zero.where(slice="mixed", figure="out")
    assert outs.names("group") == ["short", "long", "mean"]

    rare = {gone: "rare", long[0]: "kept"}
    result = evaluate_run_sets(lacking, data, settings=skip, labels=rare)
    assert result.figures.names("slice") == ["", "kept", "others"]
    assert result.doubts == ["dense/length: no slice rare, because a run lacks each of its queries"]


def test_scores_are_sliced_by_label() -> None:
    scores = made_scores("a", {"short": np.zeros((1, 2, 3)), "long": np.zeros((1, 2, 2))})
    slices = slice_scores(scores, {"short-1": "b", "long-0": "b", "short-2": "a"})
    groups = {label: {g: part.ids_of(g) for g in part.groups} for label, part in slices.items()}
    assert groups == {
        "a": {"short": ("short-2",)},
        "b": {"short": ("short-1",), "long": ("long-0",)},
        "others": {"short": ("short-0",), "long": ("long-1",)},
    }


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
    (tmp_path / "labels.tsv").write_text("zz1\teasy\nzz1\thard\nzz2\n")
    with pytest.raises(CollectionError, match=r":2: query_id 'zz1' again[\s\S]*:3: "):
        read_labels(str(tmp_path / "labels.tsv"), data)


def test_the_beginning_of_two_shifts_is_no_shift(build_once: Build) -> None:
    data = build_once("mini:500", "length", "wh-words", "resttest", "rare-terms")
    assert set(read_labels("le", data).values()) == {"short", "long"}
    for ambiguous in ("r", ""):
        with pytest.raises(UnknownNameError, match="resttest, rare-terms"):
            read_labels(ambiguous, data)
