"""Extra test sets: searched with every model, laid out beside its runs, and evaluated."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Run
from msshift_bench.baselines.retrievers.biencoder import BiEncoder
from msshift_bench.baselines.systems import plan as making
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.evaluation import Settings, score_runs
from msshift_bench.runs import find_run_sets
from tests.conftest import Command
from tests.support.figures import read_figures
from tests.support.file_bytes import flip
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import queries_of, read_run, sidecar, write_test_set
from tests.support.tiny_recipes import tiny_recipe

MEASURES = "nDCG@10 R@1000 RR@10"
SIZE = 9


@pytest.fixture
def graded(data: Path, tmp_path: Path) -> Path:
    """A folder of graded judgements for nine queries; a tenth has none."""
    rows = sorted(queries_of("length", data))[-SIZE - 1 :]
    texts = {f"dl-{row.query_id}": row.text for row in rows}
    judged = {f"dl-{row.query_id}": row.relevant_doc_ids[0] for row in rows[:SIZE]}
    judged[f"dl-{rows[0].query_id}"] = "elsewhere"
    write_test_set(tmp_path / "graded", texts, judged)
    return tmp_path / "graded"


def test_bm25_searches_and_the_evaluator_scores(
    data: Path, graded: Path, tmp_path: Path, msshift: Command
) -> None:
    request = ("run", "bm25", "--data", data, "--set", "depth=50")
    done = msshift(*request, "--also-test", "dl19=graded")
    assert done.returncode == 0, done.stderr
    assert "and with: msshift evaluate runs --also-test dl19=graded\n" in done.stderr
    assert re.search(r"1 of \d passages relevant to the test queries of dl19 are", done.stderr)
    run = tmp_path / "runs" / "bm25" / "also" / "dl19" / "length.run.gz"
    assert len(read_run(run)) == SIZE
    said = sidecar(run)
    assert (said["queries"], said["test_set"]["name"], said["held_out"]) == (SIZE, "dl19", None)
    assert said["relevant_not_in_collection"] == {"test": 1}
    # The run of the shift's own queries is that without the extra ones, and the only run set.
    assert msshift(*request, "--out", "without").returncode == 0
    own = Path("bm25", "length.run.gz")
    assert (tmp_path / "runs" / own).read_bytes() == (tmp_path / "without" / own).read_bytes()
    (run_set,) = find_run_sets(tmp_path / "runs")
    assert run_set.files == [(tmp_path / "runs" / own).resolve()]
    # A complete run is left as it is, and only the test set searched.
    later = msshift(*request, "--out", "without", "--also-test", "dl19=graded")
    assert later.returncode == 0, later.stderr
    added = Path("bm25", "also", "dl19", "length.run.gz")
    assert (tmp_path / "without" / added).read_bytes() == run.read_bytes()
    # A changed test set does not pass for the first.

    evaluate = ("evaluate", "runs", "--also-test", "dl19=graded", "--measures", MEASURES)
    done = msshift(*evaluate, "--format", "json")
    assert done.returncode == 0, done.stderr
    alone = score_runs([run], graded / "qrels.tsv", Settings(MEASURES)).figures
    expected = {row.measure: row.value for row in alone.where(figure="score")}
    figures = read_figures(done.stdout)
    assert {row.measure: row.value for row in figures} == pytest.approx(expected)
    assert {(row.test, row.model, row.queries) for row in figures} == {("dl19", "all", SIZE)}

    text = (graded / "queries.tsv").read_text()
    (graded / "queries.tsv").write_text(text.replace("\t", "\tthe ", 1))
    for command in (request, ("evaluate", "runs")):
        changed = msshift(*command, "--also-test", "dl19=graded")
        assert changed.returncode in (1, 2)
        assert "dl19" in changed.stderr
        assert said["test_set"]["queries_sha256"][:12] in changed.stderr


@pytest.mark.neural
@pytest.mark.extended
def test_every_model_searches_and_a_kill_changes_nothing(
    data: Path, graded: Path, tmp_path: Path, msshift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for system in ("bi-encoder", "monobert"):
        few = {"steps": 2, "warmup_steps": 0, "schedule": "constant"}
        (tmp_path / f"{system}.toml").write_text(tiny_recipe(system, **few))
    given: dict[str, Any] = {
        "data": data,
        "also_test": {"dl19": graded},
        "recipe": str(tmp_path / "bi-encoder.toml"),
    }
    plans = plan_runs("bi-encoder", out=tmp_path / "runs", **given)
    assert [plan.state() for plan in plans] == ["new", "new"]
    load, loaded = BiEncoder.load_model, []
    with monkeypatch.context() as patched:
        counting = staticmethod(lambda at: loaded.append(at) or load(at))
        patched.setattr(BiEncoder, "load_model", counting)
        own = make_runs("bi-encoder", out=tmp_path / "runs", **given)
    # One model for both test sets of each of the two runs.
    assert len([at for at in loaded if at.name == "model"]) == 2
    folder = tmp_path / "runs" / "bi-encoder" / "also" / "dl19" / "length"
    extra = {run.name: folder / run.name for run in own}
    for run in extra.values():
        assert len(read_run(run)) == SIZE
        trained = sidecar(run.parents[3] / "length" / run.name)["training"]
        assert sidecar(run)["training"]["weights_sha256"] == trained["weights_sha256"]

    # Killed between the two searches, it goes on without training, and ends in the same bytes.
    rank = making._rank

    def killed(run: Run) -> None:
        if run.test_set:
            raise KeyboardInterrupt
        rank(run)

    again = {**given, "out": tmp_path / "again", "held_out": ["short"]}
    with monkeypatch.context() as patched:
        patched.setattr(making, "_rank", killed)
        with pytest.raises(KeyboardInterrupt):
            make_runs("bi-encoder", **again)
    (plan,) = plan_runs("bi-encoder", **again)
    assert plan.state() == "begun"
    # Not with weights that a disk has damaged since.
    (weights,) = (tmp_path / "again").rglob("model/**/*.safetensors")
    flip(weights, -1)
    with pytest.raises(DataError, match="model does not hold the weights that its training ended"):
        make_runs("bi-encoder", **again)
    flip(weights, -1)
    (run,) = make_runs("bi-encoder", **again)
    assert run.read_bytes() == own[0].read_bytes()
    after = tmp_path / "again" / "bi-encoder" / "also" / "dl19" / "length" / run.name
    assert after.read_bytes() == extra[run.name].read_bytes()

    # A complete run searches another test set with the model that was kept, and only with that.
    kept = {**given, "out": tmp_path / "kept", "held_out": ["short"], "also_test": {}}
    (run,) = make_runs("bi-encoder", keep_model=True, **kept)
    before = run.stat().st_mtime_ns
    (plan,) = plan_runs("bi-encoder", **{**kept, "also_test": {"dl19": graded}})
    assert plan.state() == "begun"
    make_runs("bi-encoder", **{**kept, "also_test": {"dl19": graded}})
    assert run.stat().st_mtime_ns == before
    assert (run.parents[1] / "also/dl19/length" / run.name).read_bytes() == after.read_bytes()
    shutil.rmtree(run.parent / "short.model")
    with pytest.raises(UsageError, match="was made without the test set later, and its model"):
        make_runs("bi-encoder", **{**kept, "also_test": {"later": graded}})

    found = msshift("evaluate", "runs", "--also-test", "dl19=graded", "--measures", MEASURES)
    assert found.returncode == 0, found.stderr
    assert f"dl19 ({SIZE} queries), models of " in found.stdout
    for words in ("nDCG@10", "R@1000", "MRR@10", "short", "long", "mean"):
        assert words in found.stdout

    # monoBERT keeps its scores part by part: those of one test set are not another's.
    given["recipe"] = str(tmp_path / "monobert.toml")
    both = {**given, "out": tmp_path / "rerank", "held_out": ["short"]}
    make_runs("monobert", **both)
    reranked = read_run(tmp_path / "rerank/monobert/also/dl19/length/short.run.gz")
    own_lines = read_run(tmp_path / "rerank" / "monobert" / "length" / "short.run.gz")
    for query_id, lines in reranked.items():
        assert [line[0] for line in lines] == [
            line[0] for line in own_lines[query_id.removeprefix("dl-")]
        ]


def test_test_sets_that_cannot_be(
    data: Path, graded: Path, tmp_path: Path, msshift: Command
) -> None:
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs"}

    def refused(kind: type[Exception], words: str, name: str, folder: Path) -> None:
        with pytest.raises(kind, match=words):
            make_runs("bm25", also_test={name: folder}, **given)

    for name in ("a/b", ".dl", "two words", "length"):
        refused(UsageError, "cannot be a test set's name", name, graded)
    empty = tmp_path / "empty"
    refused(NotFoundError, "no folder .*empty for the test set dl19", "dl19", empty)
    empty.mkdir()
    refused(NotFoundError, r"empty holds no queries.tsv", "dl19", empty)
    row = next(queries_of("length", data))
    write_test_set(tmp_path / "other", {row.query_id: "another text"}, {row.query_id: "1"})
    refused(DataError, f"'{row.query_id}' is 'another text' there and", "dl19", tmp_path / "other")
    assert not (tmp_path / "runs").exists()

    for words, said in (
        (["--also-test", "dl19"], "--also-test is 'dl19'; give NAME=PATH"),
        (["--also-test", "a=graded", "--also-test", "a=other"], "--also-test names a twice"),
        (["--also-test", "a=graded", "--by", "wh-words"], "--by and --also-test do not go"),
        (["--also-test", "a=graded", "--measures", "NumRet"], "NumRet is a sum"),
    ):
        done = msshift("evaluate", "runs", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    make_runs("bm25", **given)
    done = msshift("evaluate", "runs", "--also-test", "dl19=graded")
    assert (done.returncode, "no system has runs for dl19" in done.stderr) == (3, True)
