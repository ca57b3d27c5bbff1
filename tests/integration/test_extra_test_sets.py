"""Extra test sets: ranked by every model, in a folder next to its runs, and evaluated."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
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
from tests.support.trained import Trained

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
    done = msshift(*request, "--extra-test", "dl19=graded")
    assert done.returncode == 0, done.stderr
    evaluated = f"msshift evaluate runs --data {data}"
    assert f"and with: {evaluated} --extra-test dl19=graded\n" in done.stderr
    assert re.search(r"1 of \d passages relevant to the test queries of dl19 are", done.stderr)
    run = tmp_path / "runs" / "bm25" / "extra" / "dl19" / "length.run.gz"
    assert len(read_run(run)) == SIZE
    facts = sidecar(run)
    assert (facts["queries"], facts["test_set"]["name"], facts["held_out"]) == (SIZE, "dl19", None)
    assert facts["relevant_not_in_collection"] == {"test": 1}
    # The run of the shift's own queries does not depend on the extra ones; it is the only run set.
    assert msshift(*request, "--out", "without").returncode == 0
    own = Path("bm25", "length.run.gz")
    assert (tmp_path / "runs" / own).read_bytes() == (tmp_path / "without" / own).read_bytes()
    (run_set,) = find_run_sets(tmp_path / "runs")
    assert run_set.files == [(tmp_path / "runs" / own).resolve()]
    # A complete run is not made again: only the test set is searched.
    later = msshift(*request, "--out", "without", "--extra-test", "dl19=graded")
    assert later.returncode == 0, later.stderr
    added = Path("bm25", "extra", "dl19", "length.run.gz")
    assert (tmp_path / "without" / added).read_bytes() == run.read_bytes()
    evaluate = ("evaluate", "runs", "--extra-test", "dl19=graded", "--measures", MEASURES)
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
        changed = msshift(*command, "--extra-test", "dl19=graded")
        assert changed.returncode in (1, 2)
        assert "dl19" in changed.stderr
        assert facts["test_set"]["queries_sha256"][:12] in changed.stderr


@pytest.mark.extended
@pytest.mark.neural
def test_complete_runs_rank_another_test_set_with_their_kept_models(
    data: Path,
    graded: Path,
    trained: Callable[[str], Trained],
    tmp_path: Path,
    msshift: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = trained("bi-encoder")
    folder = shutil.copytree(made.run_set, tmp_path / "runs" / "bi-encoder") / "length"
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs", "recipe": made.recipe}
    given["extra_test"] = {"dl19": graded}
    assert [plan.state() for plan in plan_runs("bi-encoder", **given)] == ["begun", "begun"]
    monkeypatch.setattr(BiEncoder, "fit", None)
    runs = make_runs("bi-encoder", **given)
    assert runs == [folder / "short.run.gz", folder / "long.run.gz"]
    extra = folder.parent / "extra" / "dl19" / "length"
    for run in runs:
        assert run.read_bytes() == made.run.with_name(run.name).read_bytes()
        own = read_run(run)
        rankings = read_run(extra / run.name)
        assert len(rankings) == SIZE
        for query_id, lines in rankings.items():
            found = [line[0] for line in own[query_id.removeprefix("dl-")]]
            assert [line[0] for line in lines] == found
        digests = [sidecar(one)["training"]["weights_sha256"] for one in (run, extra / run.name)]
        assert digests[0] == digests[1]
    done = msshift("evaluate", "runs", "--extra-test", "dl19=graded", "--measures", MEASURES)
    assert done.returncode == 0, done.stderr
    assert f"dl19 ({SIZE} queries), models of " in done.stdout
    assert all(words in done.stdout for words in ("nDCG@10", "R@1000", "MRR@10", "short", "mean"))

    shutil.rmtree(folder / "short.model")
    with pytest.raises(UsageError, match="is complete without the test set later, and its model"):
        make_runs("bi-encoder", **{**given, "extra_test": {"later": graded}})


@pytest.mark.neural
@pytest.mark.extended
def test_an_interrupt_between_two_test_sets_changes_no_byte(
    data: Path, graded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "bi-encoder.toml"
    recipe.write_text(tiny_recipe("bi-encoder", steps=2, warmup_steps=0))
    given: dict[str, Any] = {"data": data, "recipe": recipe, "held_out": ["short"]}
    given["extra_test"] = {"dl19": graded}
    load, loaded, rank = BiEncoder.load_model, list[Path](), making._rank
    with monkeypatch.context() as patched:
        counting = staticmethod(lambda at, *rest: loaded.append(at) or load(at, *rest))
        patched.setattr(BiEncoder, "load_model", counting)
        (expected,) = make_runs("bi-encoder", out=tmp_path / "runs", **given)
    assert len([at for at in loaded if at.name == "model"]) == 1  # for both test sets

    def interrupted(run: Run) -> None:
        if run.test_set:
            raise KeyboardInterrupt
        rank(run)

    again = {**given, "out": tmp_path / "again"}
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(making, "_rank", interrupted)
        make_runs("bi-encoder", **again)
    (plan,) = plan_runs("bi-encoder", **again)
    assert plan.state() == "begun"
    # Weights that were damaged since are refused.
    (weights,) = (tmp_path / "again").rglob("model/**/*.safetensors")
    flip(weights, -1)
    with pytest.raises(DataError, match=r"the weights in .*model differ from their digest"):
        make_runs("bi-encoder", **again)
    flip(weights, -1)
    (run,) = make_runs("bi-encoder", **again)
    for place in (".", "../extra/dl19/length"):
        files = [path.parent / place / path.name for path in (run, expected)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_test_sets_that_are_refused(
    data: Path, graded: Path, tmp_path: Path, msshift: Command
) -> None:
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs"}
    (tmp_path / "empty").mkdir()
    row = next(queries_of("length", data))
    write_test_set(tmp_path / "other", {row.query_id: "another text"}, {row.query_id: "1"})
    wrong_name = "cannot be a test set's name"
    for name, folder, kind, words in (
        *((name, "graded", UsageError, wrong_name) for name in ("a/b", ".dl", "b c", "length")),
        ("dl19", "nowhere", NotFoundError, "no folder .*nowhere for the test set dl19"),
        ("dl19", "empty", NotFoundError, r"empty has no queries.tsv"),
        ("dl19", "other", DataError, f"'{row.query_id}': 'another text' and"),
    ):
        with pytest.raises(kind, match=words):
            make_runs("bm25", extra_test={name: tmp_path / folder}, **given)
    assert not (tmp_path / "runs").exists()

    make_runs("bm25", **given)
    for options, words in (
        (["--extra-test", "dl19"], "--extra-test is 'dl19'; give NAME=PATH"),
        (["--extra-test", "a=graded", "--extra-test", "a=other"], "--extra-test names a twice"),
        (["--extra-test", "a=graded", "--by", "wh-words"], "--by cannot be used with --extra-test"),
    ):
        done = msshift("evaluate", "runs", *options)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    done = msshift("evaluate", "runs", "--extra-test", "dl19=graded")
    assert (done.returncode, "no system has runs for dl19" in done.stderr) == (3, True)
