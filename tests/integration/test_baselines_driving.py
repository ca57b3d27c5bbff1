"""Replicates, plans (``--dry-run``), names of recipes' own, and published models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.retrievers.biencoder import DenseSearch
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training import training_data
from msshift_bench.baselines.training.backbones import weights_digest
from msshift_bench.errors import DataError, NotFoundError, UnknownNameError, UsageError
from msshift_bench.runs import find_run_sets, model_path, sidecar_path
from tests.conftest import Command
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import queries_of, read_run, sidecar, write_test_set
from tests.support.tiny_models import KINDS
from tests.support.tiny_recipes import tiny_recipe

RECIPE = tiny_recipe(
    "bi-encoder",
    precision="bf16", search_precision="bf16", steps=2, warmup_steps=0,
    negatives_per_query=1, negatives_pool=1, checkpoint_every=10, search={"depth": 5},
)  # fmt: skip


@pytest.fixture
def given(data: Path, tmp_path: Path) -> dict[str, Any]:
    """Return the request of a tiny bi-encoder's run, whose recipe is ``tiny.toml``."""
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return {
        "what": "bi-encoder", "shifts": ["length"], "data": data,
        "out": tmp_path / "runs", "recipe": tmp_path / "tiny.toml", "held_out": ["short"],
    }  # fmt: skip


# ---- replicates -----------------------------------------------------------------------------


@pytest.mark.neural
@pytest.mark.extended
def test_replicates_have_a_folder_each_and_a_dry_run_lists_what_is_left(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    request = ("run", "bi-encoder", "--data", data, "--recipe", "tiny.toml", "--name", "mine")
    request += ("--seeds", "1,2")
    command = (*request, "--held-out", "short", "--keep-model", "--format", "json")
    made = msshift(*command)
    assert made.returncode == 0, made.stderr
    assert made.stderr.rstrip().endswith("--allow partial"), "there is no run without long"
    runs = [tmp_path / path for path in json.loads(made.stdout)]
    folder = tmp_path / "runs" / "mine" / "length"
    assert runs == [folder / f"seed-{seed}" / "short.run.gz" for seed in (1, 2)]
    first, second = map(sidecar, runs)
    assert (first["baseline"], first["tag"]) == ("bi-encoder", "mine-tiny-seed1")
    assert [facts["parameters"]["seed"] for facts in (first, second)] == [1, 2]
    assert first["training"]["triples_sha256"] != second["training"]["triples_sha256"]
    (run_set,) = find_run_sets([tmp_path / "runs"])
    assert list(run_set.runs) == [("short", 1), ("short", 2)]
    for run, facts in zip(runs, (first, second), strict=True):
        model = neural_systems()["bi-encoder"].load_model(model_path(run))
        assert weights_digest(model) == facts["training"]["weights_sha256"]

    work = tmp_path / "runs" / ".work" / "mine" / "length" / "seed-2" / "long"
    work.mkdir(parents=True)
    (work / "plan.json").write_text(json.dumps({**second, "held_out": "long"}))
    done = msshift(*request, "--dry-run")
    states = [line.split()[0] for line in done.stdout.splitlines()]
    assert states == ["complete", "new", "complete", "begun"]
    assert all(line.endswith(".run.gz") for line in done.stdout.splitlines())
    assert done.stderr == "2 of 4 runs to make\n"

    # A run without its model is not accepted as a run with its model.
    shutil.rmtree(model_path(runs[1]))
    again = msshift(*command)
    assert again.returncode == 2
    assert "seed-2/short.run.gz is complete, but its model was not kept; remove" in again.stderr


@pytest.mark.neural
@pytest.mark.extended
def test_a_kept_model_of_a_removed_run_is_not_used_for_the_next_run(
    given: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, rank = [], DenseSearch.rank

    def watched(search: Any, model: Any, run: Run) -> Any:
        found = list(rank(search, model, run))
        places.extend({path.parents[1].name for path in run.work.rglob("*.npz")})
        return found

    monkeypatch.setattr(DenseSearch, "rank", watched)
    (run,) = make_runs(**given, keep_model=True)
    digests = [sidecar(run)["training"]["weights_sha256"]]
    run.unlink()
    sidecar_path(run).unlink()
    make_runs(**given, seed=7)
    digests.append(sidecar(run)["training"]["weights_sha256"])
    # The folder of a model's encoded passages is named by its digest.
    assert places == [digest[:16] for digest in digests]
    assert len(set(places)) == 2
    row = next(queries_of("length", data))
    write_test_set(tmp_path / "dl19", {"dl-1": row.text}, {"dl-1": row.relevant_doc_ids[0]})
    for wish in ({"keep_model": True}, {"extra_test": {"dl19": tmp_path / "dl19"}}):
        with pytest.raises(UsageError, match=r"short\.model is not the model that made short\.run"):
            make_runs(**given, seed=7, **wish)
    assert not (run.parents[1] / "extra").exists()


def test_seeds_that_are_refused(data: Path, msshift: Command) -> None:
    for words, message in (
        (("--seeds", "1,x"), "--seeds is '1,x'; give whole numbers, e.g. 1,2,3"),
        (("--seeds", "1", "--set", "seed=2"), "--set seed cannot be used with --seeds; remove"),
    ):
        done = msshift("run", "bi-encoder", "--data", data, *words)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


# ---- plans ---------------------------------------------------------------------------------


def test_a_dry_run_of_replicates_writes_nothing(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    request = ("run", "bi-encoder", "--data", data, "--recipe", "mini", "--name", "mine")
    done = msshift(*request, "--seeds", "1,2", "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"run": f"runs/mine/length/seed-{seed}/{group}.run.gz", "state": "new"}
        for seed in (1, 2)
        for group in ("short", "long")
    ]
    assert not any(tmp_path.iterdir())


@pytest.mark.neural
def test_all_runs_are_checked_before_the_first_is_made(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {**given, "held_out": []}
    last = tmp_path / "runs" / "bi-encoder" / "length" / "long.run.gz"
    last.parent.mkdir(parents=True)
    last.write_bytes(b"precious")
    for refuse in (plan_runs, make_runs):
        with pytest.raises(UsageError, match=r"long\.run\.gz exists, but has no sidecar"):
            refuse(**both)
    assert [path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()] == [last.name]
    shutil.rmtree(tmp_path / "runs")

    plan_batches = training_data.plan_batches

    def fail_for_2(*arguments: Any, seed: int, **options: Any) -> Any:
        if seed == 2:
            raise DataError("no batch of 8 can be made")
        return plan_batches(*arguments, seed=seed, **options)

    with monkeypatch.context() as patched, pytest.raises(DataError, match="no batch of 8"):
        patched.setattr(training_data, "plan_batches", fail_for_2)
        make_runs(**given, seeds=[1, 2])
    with pytest.raises(DataError, match=r"must be at most the .* training examples, got 4096"):
        make_runs(**given, batch_size=4096)
    with (
        monkeypatch.context() as patched,
        pytest.raises(DataError, match="also test queries of length-short"),
    ):
        patched.setattr(ShiftData, "split", lambda self, group, _: self.tests[group or "short"])
        plan_runs(**given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
def test_what_this_machine_lacks_is_printed_after_the_plan(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    changes = ("--set", "precision=fp32", "--set", f"encoder={tmp_path / 'nowhere'}")
    done = msshift("run", "splade", "--data", data, "--recipe", "paper", *changes, "--dry-run")
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 2)
    assert "error: this machine cannot make the runs: no encoder " in done.stderr


def test_two_recipes_of_a_system_have_a_name_each(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    command = ("run", "bm25", "--data", data)
    for more in ((), ("--set", "k1=1.2", "--name", "bm25-k1.2")):
        done = msshift(*command, *more)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/bm25-k1.2/length.run.gz\n"
    found = {run_set.system: run_set.files[0] for run_set in find_run_sets([tmp_path / "runs"])}
    assert list(found) == ["bm25", "bm25-k1.2"]
    for name, run in found.items():
        assert run is not None
        assert {tag for lines in read_run(run).values() for *_, tag in lines} == {name}
        facts = sidecar(run)
        assert (facts["system"], facts["baseline"], facts["tag"]) == (name, "bm25", name)
    assert facts["parameters"]["k1"] == 1.2
    done = msshift(*command, "--set", "k1=1.5", "--name", "bm25-k1.2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "k1 1.2 instead of 1.5. Choose another --out or --name, or remove" in done.stderr


# ---- published models -----------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.neural
@pytest.mark.parametrize("kind", KINDS)
def test_a_published_model_is_searched_with(
    kind: str, tiny_models: Path, data: Path, tmp_path: Path
) -> None:
    row = next(queries_of("length", data))
    write_test_set(tmp_path / "dl19", {"dl-1": row.text}, {"dl-1": row.relevant_doc_ids[0]})
    given: dict[str, Any] = {"data": data, "out": tmp_path, "search.depth": 3}
    given["extra_test"] = {"dl19": tmp_path / "dl19"}
    (run,) = make_runs(str(tiny_models / f"my-{kind}"), **given)
    assert run == tmp_path / f"my-{kind}" / "length.run.gz"
    facts = sidecar(run)
    assert facts["held_out"] is None
    parameters = facts["parameters"]
    assert (parameters["architecture"], parameters["search"]["depth"]) == (kind, 3)
    assert len(parameters["weights_sha256"]) == 64
    assert max(len(lines) for lines in read_run(run).values()) == 3
    # A query of the extra test set has the ranking of the shift's query with the same text.
    extra = run.parent / "extra" / "dl19" / run.name
    (found,) = read_run(extra).values()
    assert [line[0] for line in found] == [line[0] for line in read_run(run)[row.query_id]]
    assert sidecar(extra)["parameters"]["weights_sha256"] == parameters["weights_sha256"]
    written = run.stat().st_mtime_ns
    make_runs(str(tiny_models / f"my-{kind}"), **given)
    assert run.stat().st_mtime_ns == written


@pytest.mark.neural
@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_weights_in_16_bits_are_nearly_the_same(kind: str, tiny_models: Path) -> None:
    architecture = neural_systems()[kind]
    model = architecture.load_model(tiny_models / f"my-{kind}")
    texts = (["who is that", "what is it"], ["That is the one.", "It is a word of a few."])
    search = architecture.searcher()(batch_size=2)
    exact = np.stack(list(search.score(model, *texts, [np.arange(2)] * 2)))
    short = np.stack(list(search.score(model.bfloat16(), *texts, [np.arange(2)] * 2)))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, exact, rtol=0.05, atol=0.02)
    assert (short != exact).any()


@pytest.mark.neural
@pytest.mark.parametrize(
    ("model", "options", "error", "words"),
    [
        ("bert", {}, UsageError, "settings of .*bert contain no known kind of model.*monobert"),
        ("bert", {"kind": "colbrt"}, UnknownNameError, "'colbrt': did you mean 'colbert'"),
        ("my-splade", {"search.candidates": 3}, UsageError, "candidates: there is no s"),
        ("nowhere", {"kind": "bi-encoder"}, NotFoundError, "no model .*nowhere: "),
        # What a BERT lacks of these models would be random.
        ("bert", {"kind": "colbert"}, UsageError, "bert lacks weights of a model of kind colbert"),
        ("bert", {"kind": "monobert"}, UsageError, "lacks weights of a model of kind monobert"),
        ("my-bi-encoder", {"kind": "splade"}, UsageError, "is a model of kind bi-encoder .*remove"),
        ("bert", {"kind": "monot5"}, NotFoundError, "can be loaded from the folder .*/bert: "),
    ],
)
def test_models_that_are_refused(
    model: str, options: dict[str, Any], error: type[Exception], words: str,
    tiny_models: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(error, match=words):
        make_runs(str(tiny_models / model), data=data, out=tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
def test_weights_that_a_kind_does_not_use_may_be_missing(
    tiny_models: Path, data: Path, tmp_path: Path
) -> None:
    # The BERT was saved without its pooler, which a bi-encoder does not use.
    given: dict[str, Any] = {"data": data, "out": tmp_path, "search.depth": 3}
    for _ in range(2):
        (run,) = make_runs(str(tiny_models / "bert"), kind="bi-encoder", **given)
    assert len(sidecar(run)["parameters"]["weights_sha256"]) == 64
