"""Scores with and without the test queries that leaked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.errors import DataError
from msshift_bench.evaluation import (
    Settings,
    evaluate_run_sets,
    losses_of,
    open_test_set,
    score_runs,
)
from msshift_bench.leakage import FoundLeakage, LeakedPair, read_left_out
from tests.conftest import Build, Command
from tests.support.fabricated import write_run, write_runs

KEPT, DIFFERENCE = "not leaked", "all minus not leaked"


def write_found(folder: Path, leaked: dict[str, str]) -> Path:
    """Write candidates of these test queries alone: which were searched is not known."""
    pairs = (
        LeakedPair(query_id, f"t{query_id}", "near-duplicate", 0.95, text, f"t{query_id}")
        for query_id, text in leaked.items()
    )
    FoundLeakage(tuple(pairs), 9, {}, {}, ()).write(folder)
    (folder / "found.json").unlink()
    return folder


@pytest.fixture
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


@pytest.fixture
def runs(data: Path, tmp_path: Path) -> Path:
    write_runs(tmp_path / "runs" / "trained", data)
    return tmp_path / "runs"


@pytest.fixture
def found(data: Path, tmp_path: Path) -> Path:
    rows = [*load_dataset(data, "length-short", split="test")]
    rows += load_dataset(data, "length-long", split="test")
    return write_found(tmp_path / "found", {row.query_id: row.text for row in rows[::3]})


def test_run_sets_without_leaked_queries(
    data: Path, runs: Path, found: Path, msshift: Command
) -> None:
    write_runs(runs / "bm25", data, one=True)
    without = read_left_out(found, data)
    result = evaluate_run_sets(runs, data, without=without)
    rest = [
        scores.restricted_to({*scores.query_ids} - without.query_ids) for scores in result.scores
    ]
    expected = [
        (row.system, row.group, row.figure, row.queries, pytest.approx(row.value))
        for row in losses_of(rest, result.data, Settings()).figures
        if row.figure in ("avg_in", "out", "rel_loss", "score")
    ]
    kept = result.figures.where(slice=KEPT)
    mine = [(row.system, row.group, row.figure, row.queries, row.value) for row in kept]
    assert sorted(mine) == sorted(expected)
    assert len(mine) == 12
    command = ("evaluate", runs, "--data", data, "--without-leaked", found)
    done = msshift(*command)
    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("without leaked test queries")[2]
    assert re.search(r"Rel Loss .*\n.*not leaked .*\n.*difference .*\n.*95% interval +\[", table)
    ids = _ids(data)
    assert f"short {len(without.query_ids.intersection(ids))} of {len(ids)}" in table
    assert set(result.figures.names("slice")) == {"", KEPT, DIFFERENCE}


def _ids(data: Path) -> list[str]:
    return [row.query_id for row in load_dataset(data, "length-short", split="test")]


def test_single_runs_without_leaked_queries(
    data: Path, found: Path, tmp_path: Path, msshift: Command
) -> None:
    run = write_runs(tmp_path / "runs" / "bm25", data, one=True) / "length.run.gz"
    without = read_left_out(found, data)
    result = score_runs([run], "length-short", data=data, without=without)
    (scored,) = result.scores[0].runs.values()
    kept = [query_id not in without.query_ids for query_id in result.scores[0].query_ids]
    values = {row.slice: row.value for row in result.figures.where(figure="score")}
    assert values[""] == pytest.approx(scored.scores["RR@10"].mean())
    assert values[KEPT] == pytest.approx(scored.scores["RR@10"][kept].mean())
    assert values[DIFFERENCE] == pytest.approx(values[""] - values[KEPT])
    done = msshift(
        "score", run, "--test", "length-short", "--data", data, "--without-leaked", found,
        "--measures", "RR@10 NumRet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "intervals and p count queries only" in " ".join(done.stdout.split())
    assert "not leaked" in done.stdout


def test_runs_scored_on_qrels_without_leaked_queries(tmp_path: Path) -> None:
    qrels, ranked = tmp_path / "qrels.tsv", ("d1", "d2", "d3")
    # The relevant passage is the 1st, 2nd, 1st, and none of those found.
    relevant = {"q1": "d1", "q2": "d2", "q3": "d1", "q4": "d9"}
    qrels.write_text("".join(f"{one} 0 {doc_id} 1\n" for one, doc_id in relevant.items()))
    run = write_run(tmp_path / "mine.run", [(one, ranked) for one in relevant])
    settings, test_set = Settings("RR@10 ASL@10", confidence=0.975), open_test_set(qrels)
    without = read_left_out(write_found(tmp_path / "found", {"q1": "a text"}), test_set)
    result = score_runs([run], qrels, settings, without=without)
    # Passages above the relevant one are 0, 1, 0, and 10 where it is not found.
    values = {(row.measure, row.slice): row.value for row in result.figures.where(figure="score")}
    assert (values["RR@10", ""], values["RR@10", KEPT]) == pytest.approx((2.5 / 4, 1.5 / 3))
    assert (values["ASL@10", ""], values["ASL@10", KEPT]) == pytest.approx((11 / 4, 11 / 3))
    tables = result.tables()[1:]
    assert [table.title.endswith("x 100") for table in tables] == [True, False]
    shown = {row[1].text: row[2].text for row in tables[1].rows}
    assert (shown["all"], shown["not leaked"], shown["difference"]) == ("2.8", "3.7", "-0.9")
    assert "97.5% interval" in shown
    every = read_left_out(write_found(tmp_path / "every", dict.fromkeys(relevant, "")), test_set)
    with pytest.raises(DataError, match=r"every test query of .*qrels\.tsv leaked; no score"):
        score_runs([run], qrels, without=every)


def test_a_group_without_a_score_has_no_loss_to_compare(
    data: Path, runs: Path, found: Path
) -> None:
    # The model that saw `short` finds nothing there, so that its Rel Loss would divide by 0.
    path = runs / "trained" / "length" / "long.run.gz"
    short = [(query_id, ["nothing"]) for query_id in _ids(data)]
    others = [row.query_id for row in load_dataset(data, "length-long", split="test")]
    relevant = {
        row.query_id: row.relevant_doc_ids for row in open_dataset(data).rows("length", "queries")
    }
    write_run(path, [*short, *((query_id, relevant[query_id]) for query_id in others)])
    without = read_left_out(found, data)
    result = evaluate_run_sets(runs, data, without=without)
    assert result.figures.where(slice=KEPT, figure="rel_loss").names("group") == ["long"]
    table = result.tables()[-1]
    assert table.header[2:] == ("short", "long", "mean")
    assert [row[2].text for row in table.rows[:3]] == ["0.0"] * 3
    assert [(row[2].text, row[4].text) for row in table.rows[-4:]] == [("-", "-")] * 4
    # With one of two held-out models, there is nothing to compare it with.
    path.unlink()
    partial = evaluate_run_sets(runs, data, without=without, allow=["partial"])
    assert not partial.figures.where(slice=(KEPT, DIFFERENCE))
    assert [note.text for note in partial.notes if note.about.get("view") == "left out"] == [
        "no figure without leaked test queries: no group has the scores of models that saw it and "
        "of one that did not"
    ]


def test_candidates_of_other_test_queries_are_refused(
    data: Path, runs: Path, tmp_path: Path, msshift: Command
) -> None:
    first, *others = load_dataset(data, "length-short", split="test")
    stranger = write_found(tmp_path / "stranger", {"no-such": "x", first.query_id: first.text})
    done = msshift("evaluate", runs, "--data", data, "--without-leaked", stranger)
    assert done.returncode == 1
    assert "made for other test queries: 1 of the 2" in done.stderr
    assert "are not among those that are scored (no-such)" in done.stderr
    other = write_found(tmp_path / "other", {first.query_id: "another text"})
    with pytest.raises(DataError, match="have other texts than those"):
        read_left_out(other, data)
    every = write_found(tmp_path / "every", {row.query_id: row.text for row in (first, *others)})
    with pytest.raises(DataError, match=r"every test query of length-short leaked"):
        evaluate_run_sets(runs, data, without=read_left_out(every, open_dataset(data)))
    nothing = read_left_out(write_found(tmp_path / "none", {}), data)
    result = evaluate_run_sets(runs, data, without=nothing)
    assert {row.value for row in result.figures.where(slice=DIFFERENCE)} == {0.0}


def test_queries_that_were_not_searched_do_not_count_as_not_leaked(
    data: Path, runs: Path, tmp_path: Path, msshift: Command
) -> None:
    short, long = (
        load_dataset(data, f"length-{group}", split="test") for group in ("short", "long")
    )
    leaked = LeakedPair(short[0].query_id, "t", "near-duplicate", 0.95, short[0].text, "text")
    for name, searched in (("short", [*short]), ("all", [*short, *long])):
        ids = tuple(row.query_id for row in searched)
        FoundLeakage((leaked,), 9, {}, {}, ids).write(tmp_path / name)
    command = ("evaluate", runs, "--data", data, "--without-leaked")
    refused = msshift(*command, tmp_path / "short")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"does not say whether {len(long)} of the {len(short) + len(long)}" in refused.stderr
    assert msshift(*command, tmp_path / "all").returncode == 0
    # Whoever scores the group that was searched alone may.
    run = runs / "trained" / "length" / "short.run.gz"
    command = ("score", run, "--test", "length-short", "--data", data, "--without-leaked")
    assert msshift(*command, tmp_path / "short").returncode == 0
