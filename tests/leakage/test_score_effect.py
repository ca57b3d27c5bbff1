"""Scores with and without the test queries that leaked."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.support.fabricated import write_run, write_runs
from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.errors import DataError
from msshift_bench.evaluation import (
    Evaluator,
    JudgedQueries,
    Settings,
    evaluate_run_sets,
    evaluate_runs,
)
from msshift_bench.leakage import leakage_effect
from msshift_bench.runs import find_run_sets
from tests.conftest import Build, Command


def write_found(folder: Path, leaked: dict[str, str]) -> Path:
    folder.mkdir()
    rows = [
        {"test_id": one, "test_text": text, "train_id": f"t{one}", "train_text": text,
         "tier": "near-duplicate", "cosine": 0.95}
        for one, text in leaked.items()
    ]  # fmt: skip
    texts = ("test_id", "test_text", "train_id", "train_text", "tier")
    schema = pa.schema([*((name, pa.string()) for name in texts), ("cosine", pa.float32())])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "candidates.parquet")
    return folder


@pytest.fixture
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


@pytest.fixture
def found(data: Path, tmp_path: Path) -> Path:
    rows = [*load_dataset(data, "length-short", split="test")]
    rows += load_dataset(data, "length-long", split="test")
    return write_found(tmp_path / "found", {row.query_id: row.text for row in rows[::3]})


def test_run_sets_without_leaked_queries(
    data: Path, found: Path, tmp_path: Path, msshift: Command
) -> None:
    runs = tmp_path / "runs"
    write_runs(runs / "trained", data)
    write_runs(runs / "bm25", data, one=True)
    report = evaluate_run_sets(runs, data)
    effect = leakage_effect(report, found, data)
    evaluator = Evaluator.from_dataset("length", data)
    for run_set in find_run_sets([runs]):
        scores = evaluator.score(run_set)
        rest = evaluator.summarise(
            scores.restricted_to(set(scores.query_ids) - effect.leaked)
        ).measures["RR@10"]
        mine = {
            (one.group, one.figure): one.values
            for one in effect.scores
            if one.system == run_set.system
        }
        if rest.loss is None:
            assert mine["short", "score"].kept == pytest.approx(rest.mean("short"))
            assert mine["mean", "score"].kept == pytest.approx(rest.mean_of_groups())
        else:
            assert mine["short", "out"].kept == pytest.approx(rest.loss.groups["short"].out)
            assert mine["mean", "rel_loss"].kept == pytest.approx(rest.loss.rel_loss)
    done = msshift("evaluate", str(runs), "--data", str(data), "--leakage", str(found))
    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("without leaked test queries")[2]
    assert re.search(r"Rel Loss .*\n.*not leaked .*\n.*difference .*\n.*95% interval +\[", table)
    assert f"short {sum(one in effect.leaked for one in _ids(data))} of {len(_ids(data))}" in table
    values = effect.to_json()["leakage"]
    assert values["test_queries"] == sorted(effect.leaked)
    assert len(values["scores"]) == len(effect.scores) == 12
    done = msshift(
        "evaluate", str(runs), "--data", str(data), "--leakage", str(found), "--format", "csv"
    )
    assert done.stdout == effect.tidy().to_csv()
    labels = {row["label"] for row in csv.DictReader(io.StringIO(done.stdout))}
    assert labels == {"", "not leaked", "all minus not leaked"}


def _ids(data: Path) -> list[str]:
    return [row.query_id for row in load_dataset(data, "length-short", split="test")]


def test_single_runs_without_leaked_queries(
    data: Path, found: Path, tmp_path: Path, msshift: Command
) -> None:
    run = write_runs(tmp_path / "runs" / "bm25", data, one=True) / "length.run.gz"
    test_set = JudgedQueries.of_config("length-short", data)
    effect = leakage_effect(evaluate_runs([run], test_set), found, data)
    (one,) = effect.scores
    scores = evaluate_runs([run], test_set).runs[0].run.scores["RR@10"]
    kept = [query_id not in effect.leaked for query_id in test_set.judgements.query_ids]
    assert one.values.kept == pytest.approx(scores[kept].mean())
    assert one.values.everything == pytest.approx(scores.mean())
    done = msshift(
        "evaluate", str(run), "--test", "length-short", "--data", str(data), "--leakage",
        str(found), "--measures", "RR@10 NumRet",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not leaked" in done.stdout


def test_runs_scored_on_qrels_without_leaked_queries(tmp_path: Path) -> None:
    qrels, ranked = tmp_path / "qrels.tsv", ("d1", "d2", "d3")
    # The relevant passage is the 1st, 2nd, 1st, and none of those found.
    relevant = {"q1": "d1", "q2": "d2", "q3": "d1", "q4": "d9"}
    qrels.write_text("".join(f"{one} 0 {doc_id} 1\n" for one, doc_id in relevant.items()))
    run = write_run(tmp_path / "mine.run", [(one, ranked) for one in relevant])
    evaluated = evaluate_runs(
        [run], JudgedQueries.of_qrels(qrels), Settings("RR@10 ASL@10", confidence=0.975)
    )
    found = write_found(tmp_path / "found", {"q1": "a text"})
    effect = leakage_effect(evaluated, found, None)
    # Passages above the relevant one are 0, 1, 0, and 10 where it is not found.
    reciprocal, length = (one.values for one in effect.scores)
    assert (reciprocal.everything, reciprocal.kept) == pytest.approx((2.5 / 4, 1.5 / 3))
    assert (length.everything, length.kept) == pytest.approx((11 / 4, 11 / 3))
    titles = [table.title for table in effect.tables()]
    assert [title.endswith("x 100") for title in titles] == [True, False]
    shown = {row[1].text: row[2].text for row in effect.tables()[1].rows}
    assert (shown["all"], shown["not leaked"], shown["difference"]) == ("2.8", "3.7", "-0.9")
    assert "97.5% interval" in shown
    assert repr(effect).startswith("<LeakageEffect: 1 test queries leaked, <")
    every = write_found(tmp_path / "every", dict.fromkeys(relevant, "a text"))
    with pytest.raises(DataError, match=r"every test query of .*qrels\.tsv leaked; no score"):
        leakage_effect(evaluated, every, None)


def test_a_group_without_a_score_has_no_loss_to_compare(
    data: Path, found: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    write_runs(runs / "trained", data)
    # The model that saw `short` finds nothing there, so that its Rel Loss would divide by 0.
    path = runs / "trained" / "length" / "long.run.gz"
    short = [(query_id, ["nothing"]) for query_id in _ids(data)]
    others = [row.query_id for row in load_dataset(data, "length-long", split="test")]
    relevant = {
        row.query_id: row.relevant_doc_ids for row in open_dataset(data).rows("length", "queries")
    }
    write_run(path, [*short, *((query_id, relevant[query_id]) for query_id in others)])
    effect = leakage_effect(evaluate_run_sets(runs, data), found, data)
    assert {one.group for one in effect.scores if one.figure == "rel_loss"} == {"long"}
    (table,) = effect.tables()
    assert table.header[2:] == ("short", "long", "mean")
    assert [row[2].text for row in table.rows[:3]] == ["0.0"] * 3
    assert [(row[2].text, row[4].text) for row in table.rows[-4:]] == [("-", "-")] * 4
    # With one of two held-out models, there is nothing to compare it with.
    path.unlink()
    partial = leakage_effect(evaluate_run_sets(runs, data, allow_partial=True), found, data)
    assert (partial.scores, partial.tables()) == ([], [])
    assert partial.notes() == [
        "no figure without leaked test queries: no group has the scores of models that saw it and "
        "of one that did not"
    ]


def test_candidates_of_other_test_queries_are_refused(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    runs = tmp_path / "runs"
    write_runs(runs / "trained", data)
    report = evaluate_run_sets(runs, data)
    first, *others = load_dataset(data, "length-short", split="test")
    stranger = write_found(tmp_path / "stranger", {"no-such": "x", first.query_id: first.text})
    done = msshift("evaluate", str(runs), "--data", str(data), "--leakage", str(stranger))
    assert done.returncode == 1
    assert "made for other test queries: 1 of the 2" in done.stderr
    assert "are not among those that are scored (no-such)" in done.stderr
    other = write_found(tmp_path / "other", {first.query_id: "another text"})
    with pytest.raises(DataError, match="have other texts than those"):
        leakage_effect(report, other, data)
    every = write_found(tmp_path / "every", {row.query_id: row.text for row in (first, *others)})
    with pytest.raises(DataError, match=r"every test query of length-short leaked"):
        leakage_effect(report, every, open_dataset(data))
    assert np.isfinite(
        [
            one.values.difference
            for one in leakage_effect(report, write_found(tmp_path / "none", {}), data).scores
        ]
    ).all()
