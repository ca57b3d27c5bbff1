"""Replicates, plans (``--dry-run``), names of recipes' own, and published models."""

from __future__ import annotations

import gzip
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
    precision="bf16",
    search_precision="bf16",
    steps=2,
    warmup_steps=0,
    schedule="constant",
    weight_decay=0,
    negatives_per_query=1,
    negatives_pool=1,
    checkpoint_every=10,
    search={"depth": 5},
)


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
def test_replicates_go_into_a_folder_each_and_a_dry_run_says_what_is_left(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    request = ("run", "bi-encoder", "--data", data, "--recipe", "tiny.toml", "--name", "mine")
    request += ("--seeds", "1,2")
    done = msshift(*request, "--dry-run", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"run": f"runs/mine/length/seed-{seed}/{group}.run.gz", "state": "new"}
        for seed in (1, 2)
        for group in ("short", "long")
    ]
    assert not (tmp_path / "runs").exists()

    command = (*request, "--held-out", "short", "--keep-model", "--format", "json")
    made = msshift(*command)
    assert made.returncode == 0, made.stderr
    assert "evaluate with: msshift evaluate runs --data " in made.stderr
    assert made.stderr.rstrip().endswith("--allow partial"), "long is not there yet"
    runs = [tmp_path / path for path in json.loads(made.stdout)]
    folder = tmp_path / "runs" / "mine" / "length"
    assert runs == [folder / f"seed-{seed}" / "short.run.gz" for seed in (1, 2)]
    first, second = map(sidecar, runs)
    assert (first["baseline"], first["tag"]) == ("bi-encoder", "mine-tiny-seed1")
    assert [said["parameters"]["seed"] for said in (first, second)] == [1, 2]
    assert first["training"]["triples_sha256"] != second["training"]["triples_sha256"]
    (run_set,) = find_run_sets([tmp_path / "runs"])
    assert list(run_set.runs) == [("short", 1), ("short", 2)]
    assert not (tmp_path / "runs" / ".work").exists()
    for run, said in zip(runs, (first, second), strict=True):
        model = neural_systems()["bi-encoder"].load_model(model_path(run))
        assert weights_digest(model) == said["training"]["weights_sha256"]

    work = tmp_path / "runs" / ".work" / "mine" / "length" / "seed-2" / "long"
    work.mkdir(parents=True)
    (work / "plan.json").write_text(json.dumps({**second, "held_out": "long"}))
    done = msshift(*request, "--dry-run")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "complete", "new", "complete", "begun",
    ]  # fmt: skip
    assert all(line.endswith(".run.gz") for line in done.stdout.splitlines())
    assert done.stderr == "2 of 4 runs to make\n"

    # A run without its model does not pass for one with it.
    shutil.rmtree(model_path(runs[1]))
    again = msshift(*command)
    assert again.returncode == 2
    assert "seed-2/short.run.gz is complete, and its model was not kept; remove" in again.stderr


@pytest.mark.neural
@pytest.mark.extended
def test_a_model_of_a_run_that_was_removed_is_not_the_next_ones(
    given: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    search = DenseSearch.rank

    def watched(searcher: Any, model: Any, run: Run) -> Any:
        found = list(search(searcher, model, run))
        (folder,) = [path.parent for path in run.work.rglob("*.npz")]
        places.append(folder.parent.name)
        return found

    monkeypatch.setattr(DenseSearch, "rank", watched)
    (run,) = make_runs(**given, keep_model=True)
    digests = [sidecar(run)["training"]["weights_sha256"]]
    run.unlink()
    sidecar_path(run).unlink()
    make_runs(**given, seed=7)
    digests.append(sidecar(run)["training"]["weights_sha256"])
    # What a model has encoded stands under its digest.
    assert places == [digest[:16] for digest in digests]
    assert len(set(places)) == 2
    row = next(queries_of("length", data))
    write_test_set(tmp_path / "dl19", {"dl-1": row.text}, {"dl-1": row.relevant_doc_ids[0]})
    for wish in ({"keep_model": True}, {"also_test": {"dl19": tmp_path / "dl19"}}):
        with pytest.raises(UsageError, match=r"short\.model is not the model that made short\.run"):
            make_runs(**given, seed=7, **wish)
    assert not (run.parents[1] / "also").exists()


def test_seeds_that_cannot_be(data: Path, msshift: Command) -> None:
    for words, sentence in (
        (("--seeds", "1,x"), "--seeds is '1,x'; give whole numbers, e.g. 1,2,3"),
        (
            ("--seeds", "1", "--set", "seed=2"),
            "give either --set seed or the --seeds of replicates",
        ),
    ):
        done = msshift("run", "bi-encoder", "--data", data, *words)
        assert (done.returncode, done.stderr) == (2, f"error: {sentence}\n")


# ---- plans ---------------------------------------------------------------------------------


@pytest.mark.neural
def test_everything_is_checked_before_anything_is_made(
    given: dict[str, Any], tmp_path: Path
) -> None:
    given["held_out"] = []
    last = tmp_path / "runs" / "bi-encoder" / "length" / "long.run.gz"
    last.parent.mkdir(parents=True)
    last.write_bytes(b"precious")
    for refuse in (plan_runs, make_runs):
        with pytest.raises(UsageError, match=r"long\.run\.gz exists, and nothing says"):
            refuse(**given)
    assert [path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()] == [last.name]


@pytest.mark.neural
def test_a_seed_that_cannot_fill_its_batches_fails_before_anything_is_trained(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_batches = training_data.plan_batches

    def shared(*arguments: Any, seed: int, **options: Any) -> Any:
        if seed == 2:
            raise DataError("no batch of 8 can be made")
        return plan_batches(*arguments, seed=seed, **options)

    with monkeypatch.context() as patched:
        patched.setattr(training_data, "plan_batches", shared)
        with pytest.raises(DataError, match="no batch of 8 can be made"):
            make_runs(**given, seeds=[1, 2])
    with pytest.raises(DataError, match="training examples are fewer than a batch of 4096"):
        make_runs(**given, batch_size=4096)
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
def test_a_plan_refuses_to_train_on_test_queries(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShiftData, "split", lambda self, group, _: self.tests[group or "short"])
    with pytest.raises(DataError, match="training queries of length-short are test queries of"):
        plan_runs(**given)


@pytest.mark.neural
def test_what_this_machine_lacks_is_said_after_the_plan(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    nowhere = tmp_path / "nowhere"
    done = msshift(
        "run", "splade", "--data", data, "--recipe", "paper", "--set", "precision=fp32",
        "--set", f"encoder={nowhere}", "--dry-run",
    )  # fmt: skip
    assert done.returncode == 3
    assert len(done.stdout.splitlines()) == 2
    assert "error: this machine cannot make them: no encoder " in done.stderr


def test_two_recipes_of_a_system_stand_side_by_side(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    command = ("run", "bm25", "--data", data)
    for more in ((), ("--set", "k1=1.2", "--name", "bm25-k1.2")):
        done = msshift(*command, *more)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/bm25-k1.2/length.run.gz\n"
    assert "bm25-k1.2 on length: made in " in done.stderr
    found = {run_set.system: run_set.files[0] for run_set in find_run_sets([tmp_path / "runs"])}
    assert list(found) == ["bm25", "bm25-k1.2"]
    for name, run in found.items():
        assert run is not None
        assert {tag for lines in read_run(run).values() for *_, tag in lines} == {name}
        said = sidecar(run)
        assert (said["system"], said["baseline"], said["tag"]) == (name, "bm25", name)
    assert sidecar(tmp_path / "runs" / "bm25-k1.2" / "length.run.gz")["parameters"]["k1"] == 1.2
    done = msshift(*command, "--set", "k1=1.5", "--name", "bm25-k1.2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "k1 1.2 instead of 1.5. Choose another --out or --name, or remove" in done.stderr


# ---- published models -----------------------------------------------------------------------


@pytest.mark.neural
@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_a_published_model_is_searched_with(
    kind: str, tiny_models: Path, data: Path, tmp_path: Path
) -> None:
    def search() -> Path:
        (run,) = make_runs(
            str(tiny_models / f"my-{kind}"),
            data=data,
            out=tmp_path,
            **{"search.depth": 3},
            also_test={"dl19": tmp_path / "dl19"},
        )
        return run

    row = next(queries_of("length", data))
    write_test_set(tmp_path / "dl19", {"dl-1": row.text}, {"dl-1": row.relevant_doc_ids[0]})

    # Its weights in 16 bits, as a recipe may ask for: nearly the same scores.
    architecture = neural_systems()[kind]
    model = architecture.load_model(tiny_models / f"my-{kind}")
    texts = (["who is that", "what is it"], ["That is the one.", "It is a word of a few."])
    search_of = architecture.searcher()(batch_size=2)
    exact = np.stack(list(search_of.score(model, *texts, [np.arange(2)] * 2)))
    short = np.stack(list(search_of.score(model.bfloat16(), *texts, [np.arange(2)] * 2)))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, exact, rtol=0.05, atol=0.02)
    assert (short != exact).any()

    run = search()
    assert run == tmp_path / f"my-{kind}" / "length.run.gz"
    said = sidecar(run)
    assert said["held_out"] is None
    assert said["parameters"]["architecture"] == kind
    assert said["parameters"]["search"]["depth"] == 3
    assert len(said["parameters"]["weights_sha256"]) == 64
    queries = [line.split()[0] for line in gzip.decompress(run.read_bytes()).decode().splitlines()]
    assert max(queries.count(query_id) for query_id in set(queries)) == 3
    # A query of the extra test set finds what the shift's query with the same text finds.
    extra = run.parent / "also" / "dl19" / run.name
    (found,) = read_run(extra).values()
    assert [line[0] for line in found] == [line[0] for line in read_run(run)[row.query_id]]
    assert sidecar(extra)["parameters"]["weights_sha256"] == said["parameters"]["weights_sha256"]
    written = run.stat().st_mtime_ns
    assert search().stat().st_mtime_ns == written


@pytest.mark.neural
def test_models_that_cannot_be_searched_with(
    tiny_models: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    given: dict[str, Any] = {"data": data, "out": tmp_path / "runs"}
    with pytest.raises(UsageError, match=r"bert does not say what kind of model it is.*monobert"):
        make_runs(str(tiny_models / "bert"), **given)
    with pytest.raises(UnknownNameError, match="kind of model 'colbrt': did you mean 'colbert'"):
        make_runs(str(tiny_models / "bert"), kind="colbrt", **given)
    with pytest.raises(UsageError, match="the search with splade: candidates: there is no s"):
        make_runs(str(tiny_models / "my-splade"), **{"search.candidates": 3}, **given)
    with pytest.raises(NotFoundError, match=r"no model .*nowhere: "):
        make_runs(str(tmp_path / "nowhere"), kind="bi-encoder", **given)
    # What a BERT lacks to be one of these would be random, whatever the folder says of itself.
    for kind in ("colbert", "monobert"):
        with pytest.raises(UsageError, match=f"bert lacks weights of a model of {kind}: they woul"):
            make_runs(str(tiny_models / "bert"), kind=kind, **given)
    with pytest.raises(UsageError, match="is a model of bi-encoder, as its settings say, and not"):
        make_runs(str(tiny_models / "my-bi-encoder"), kind="splade", **given)
    with pytest.raises(NotFoundError, match=r"no model can be loaded from the folder .*/bert: "):
        make_runs(str(tiny_models / "bert"), kind="monot5", **given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
@pytest.mark.extended
def test_weights_that_take_no_part_may_be_missing(
    tiny_models: Path, data: Path, tmp_path: Path
) -> None:
    # The BERT was saved without its pooler, which a bi-encoder does not read.
    given: dict[str, Any] = {"data": data, "out": tmp_path, "search.depth": 3}
    for _ in range(2):
        (run,) = make_runs(str(tiny_models / "bert"), kind="bi-encoder", **given)
    assert len(sidecar(run)["parameters"]["weights_sha256"]) == 64


# ---- recipes --------------------------------------------------------------------------------


@pytest.mark.neural
@pytest.mark.extended
def test_epochs_and_random_negatives(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changes = {"negatives": "random", "negatives_depth": None, "steps": None, "epochs": 2}
    (tmp_path / "paper.toml").write_text(tiny_recipe("splade", **changes, batch_size=32))
    given = {"data": data, "recipe": tmp_path / "paper.toml", "held_out": ["short"]}
    with caplog.at_level("INFO", "msshift_bench"):
        (run,) = make_runs("splade", out=tmp_path / "runs", **given)
    said = sidecar(run)
    training = said["training"]
    assert training["steps"] == -(-2 * training["examples"] // 32)
    index = said["index"]
    assert (
        f"splade without short of length: {index['terms_per_query']:.1f} terms per query and "
        f"{index['terms_per_passage']:.1f} per passage on average; MS-Shift reports 24 and 130"
    ) in caplog.messages
