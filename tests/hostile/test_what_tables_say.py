"""Remarks of tables: absent passages, grades, missing seeds; default run tags."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import msshift_bench
from msshift_bench.errors import RunError
from msshift_bench.evaluation import Settings, evaluate_run_sets, score_runs
from msshift_bench.plumbing import with_checksum
from tests.conftest import Build, Command
from tests.support.fabricated import write_run, write_runs

FORMATS = ("text", "markdown", "latex", "json")
ABSENT = "relevant passages are not in the collection that was searched"


@pytest.fixture(scope="module")
def world(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, and a data set whose manifest counts passages that its collection lacks."""
    folder = tmp_path_factory.mktemp("absent")
    shutil.copytree(build_once("mini:500", "length"), folder / "msshift")
    path = folder / "msshift/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["collection"]["passages"] = {"rows": 500, "relevant": 1600, "relevant_absent": 1300}
    del manifest["checksum"]
    path.write_text(json.dumps(with_checksum(manifest)))
    for name in ("a", "b"):
        write_runs(folder / "runs" / name, folder / "msshift")
    return folder


EVALUATE = "evaluate {0}/runs --data {0}/msshift"


@pytest.mark.parametrize(
    ("words", "table_format"),
    [
        *((EVALUATE, table_format) for table_format in FORMATS),
        ("compare {0}/runs --data {0}/msshift", "text"),
        ("score {0}/runs/a/length/short.run.gz --test length-short --data {0}/msshift", "json"),
    ],
)
def test_absent_passages_of_the_manifest(
    world: Path, words: str, table_format: str, msshift: Command
) -> None:
    done = msshift(*words.format(world).split(), "--format", table_format)
    assert done.returncode == 0, done.stderr
    assert f"1,300 {ABSENT}" in done.stdout
    assert f"1,300 {ABSENT}" in done.stderr


def test_absent_passages_of_a_sidecar(tmp_path: Path, msshift: Command) -> None:
    (tmp_path / "dl").mkdir()
    (tmp_path / "dl/queries.tsv").write_text("".join(f"q{n}\twho\n" for n in range(9)))
    (tmp_path / "dl/qrels.tsv").write_text("".join(f"q{n} 0 d 1\n" for n in range(9)))
    for place in (".", "extra/dl"):
        run = write_run(
            tmp_path / "runs/bm25" / place / "length.run", [(f"q{n}", ["d"]) for n in range(9)]
        )
        facts = {"relevant_not_in_collection": {"test": 7}}
        run.with_name("length.run.json").write_text(json.dumps(with_checksum(facts)))
    done = msshift("evaluate", "runs", "--extra-test", "dl=dl")
    assert done.returncode == 0, done.stderr
    assert f"bm25 on dl (length): 7 {ABSENT}" in done.stdout


QRELS = {f"q{n}": {f"a{n}": 1, f"b{n}": 3} for n in range(24)}
RUN = {query: dict.fromkeys(docs, 1.0) for query, docs in QRELS.items()}
BOTH = {query: {**docs, "x": 0.5} for query, docs in RUN.items()}


def remarks(measures: str, qrels: dict[str, dict[str, int]]) -> list[str]:
    warnings = score_runs([BOTH], qrels, Settings(measures)).warnings
    return [warning for warning in warnings if "judgements" in warning]


def test_a_measure_that_counts_grade_1_names_the_one_that_does_not() -> None:
    (remark,) = remarks("nDCG@10 R@1000 RR@10", QRELS)
    assert "judgements go up to 3; a passage is relevant from 1 on for R@1000 and RR@10" in remark
    assert "from 2 on for R(rel=2)@1000 and RR(rel=2)@10" in remark


def test_neither_measures_of_grades_nor_judgements_without_them_need_a_remark() -> None:
    for measures in ("nDCG@10", "R(rel=2)@1000", "NumRet"):
        assert remarks(measures, QRELS) == []
    assert remarks("R@1000", {query: dict.fromkeys(of, 1) for query, of in QRELS.items()}) == []


@pytest.mark.parametrize("table_format", ["text", "markdown", "latex", "json", "csv"])
def test_every_format_has_the_remark(tmp_path: Path, table_format: str, msshift: Command) -> None:
    lines = [f"{q} 0 {doc} {grade}\n" for q, docs in QRELS.items() for doc, grade in docs.items()]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    rows = [f"{q} Q0 {doc} 1 {score} t\n" for q, docs in RUN.items() for doc, score in docs.items()]
    (tmp_path / "a.run").write_text("".join(rows))
    words = ["score", "a.run", "--qrels", "qrels.txt", "--measures", "R@1000"]
    done = msshift(*words, "--format", table_format)
    assert done.returncode == 0, done.stderr
    assert "R(rel=2)@1000" in done.stderr
    assert ("R(rel=2)@1000" in done.stdout.replace("\\", "")) == (table_format != "csv")


def test_a_missing_run_and_a_complete_seed_are_named(build_once: Build, tmp_path: Path) -> None:
    data = build_once("mini:500", "length")
    folder = write_runs(tmp_path / "runs/dense", data, seeds=(1, 2))
    (folder / "length/seed-2/long.run.gz").unlink()
    with pytest.raises(RunError) as caught:
        evaluate_run_sets(folder, data)
    (finding,) = caught.value.findings
    assert finding.source == "dense/length/seed-2/long.run"
    assert finding.fix.endswith("seed-1 can be evaluated alone")


@pytest.mark.parametrize(
    ("place", "tag"),
    [
        ("dense/length/short.run", "dense"),
        ("dense/length/seed-2/long.run", "dense"),
        ("bm25/topics.run", "bm25"),
        ("dense/extra/dl19/length/short.run", "dense"),
        ("my system/length/short.run", "my_system"),
        ("elsewhere/my.run", "msshift-bench"),
    ],
)
def test_the_default_tag(tmp_path: Path, place: str, tag: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    msshift_bench.write_run(tmp_path / place, {"q": {"d": 1.0}})
    assert (tmp_path / place).read_text() == f"q Q0 d 1 1.0 {tag}\n"
