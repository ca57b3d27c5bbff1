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

from benchmarks.support.fabricated import write_runs
from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.errors import DataError
from msshift_bench.evaluation import Evaluator, JudgedQueries, evaluate_run_sets, evaluate_runs
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
