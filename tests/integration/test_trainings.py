"""What keys of a recipe change: negatives, teachers, released triples, ColBERT's candidates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.retrievers.colbert import ColBertSearch
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.data import read_manifest
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.plumbing import Progress, line_and_stage
from tests.conftest import Command
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe, write_recipes
from tests.support.trained import Trained

pytestmark = pytest.mark.neural

CONFIG = "length-short-triples"
STEPS = 6
MINED = {"negatives": "mined", "negatives_refreshes": 2}
RANDOM = {"negatives": "random", "negatives_depth": None}
VALIDATION = {"every": 1, "queries": 5, "depth": 5, "patience": 1}


def given(data: Path, out: Path, system: str = "bi-encoder", **changes: Any) -> dict[str, Any]:
    """Return the request of a run without the short queries, with a recipe that is changed."""
    options = {name: changes.pop(name) for name in ("triples", "progress") if name in changes}
    out.mkdir(exist_ok=True)
    recipe = out / f"{system}.toml"
    tiny = {"steps": STEPS, "checkpoint_every": 2, "search": {"depth": 5}}
    recipe.write_text(tiny_recipe(system, **{**tiny, **changes}))
    return {
        "what": system, "data": data, "out": out / "runs", "recipe": recipe, "held_out": ["short"],
        **options,
    }  # fmt: skip


def train(*arguments: Any, **changes: Any) -> Path:
    (run,) = make_runs(**given(*arguments, **changes))
    return run


def interrupt_in(stage: str, step: int) -> Progress:
    def interrupt(line: str, done: int, _total: int) -> None:
        if line_and_stage(line)[1] == stage and done >= step:
            raise KeyboardInterrupt

    return interrupt


@pytest.mark.extended
def test_the_command_trains_on_released_triples(
    with_triples: Path, tmp_path: Path, msshift: Command
) -> None:
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    recipes = str(write_recipes(tmp_path / "recipes"))
    command = ("run", "bi-encoder", "--data", with_triples, "--held-out", "short")
    done = msshift(*command, "--format", "json", MSSHIFT_RECIPES=recipes)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["runs/bi-encoder/length/short.run.gz"]
    line = f"trains on the data set's {CONFIG}, SHA-256 {entry.digest[:12]}\n"
    assert f"bi-encoder without short of length: {line}" in done.stderr
    facts = sidecar(tmp_path / "runs" / "bi-encoder" / "length" / "short.run.gz")
    assert facts["released_triples"] == {"config": CONFIG, "sha256": entry.digest}
    assert (facts["recipe"]["name"], facts["training"]["steps"]) == ("mini", 2)
    refused = msshift(*command, "--set", "triples=mine", MSSHIFT_RECIPES=recipes)
    assert refused.returncode == 2
    assert "released_triples" in refused.stderr


@pytest.mark.extended
def test_a_run_that_was_begun_on_other_triples_is_not_continued(
    data: Path, with_triples: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "mine"
    with pytest.raises(KeyboardInterrupt):
        train(with_triples, out, triples="mine", progress=interrupt_in("train", 2))
    with pytest.raises(UsageError, match=r"plan.json differs .*released_triples .* instead of "):
        train(with_triples, out)
    with caplog.at_level("INFO", "msshift_bench"):
        run = train(with_triples, out, triples="mine")
    line = "bi-encoder without short of length: trains on triples made by the recipe"
    assert f"{line}, negatives = 'bm25'" in caplog.messages
    with pytest.raises(UsageError, match=r"short.run.json differs .*released_triples .* instead"):
        train(with_triples, out)
    # Mined triples are equal to the triples of a data set without released ones.
    other = train(data, tmp_path / "data")
    assert sidecar(run)["released_triples"] is sidecar(other)["released_triples"] is None
    assert sidecar(run)["training"] == sidecar(other)["training"]
    assert run.read_bytes() == other.read_bytes()


@pytest.mark.extended
def test_mined_negatives_with_a_teacher_s_scores_after_interrupts(
    with_triples: Path, trained: Callable[[str], Trained], tmp_path: Path
) -> None:
    teacher = trained("colbert")
    changes = {**MINED, "teacher": str(teacher.run_set)}
    expected = train(with_triples, tmp_path / "undisturbed", **changes)
    # In the first search for negatives, and in the last part of the training.
    for stage, step in (("mine: search", 9), ("train", 5)):
        with pytest.raises(KeyboardInterrupt):
            train(with_triples, tmp_path / "stopped", **changes, progress=interrupt_in(stage, step))
    run = train(with_triples, tmp_path / "stopped", **changes)
    assert run.read_bytes() == expected.read_bytes()
    facts = sidecar(run)
    training = facts["training"]
    assert training == sidecar(expected)["training"]
    assert len(set(training["parts_sha256"])) == 3
    recorded = sidecar(teacher.run)
    assert facts["teacher"] == {
        "kind": "model",
        "system": "colbert",
        "run_sha256": recorded["run_sha256"],
        "weights_sha256": recorded["training"]["weights_sha256"],
    }
    assert facts["teacher"].items() <= training["teacher"].items()
    assert len(set(training["teacher"]["scores_sha256"])) == 3
    assert facts["released_triples"]["config"] == CONFIG
    with pytest.raises(UsageError, match=r"short.run.json differs .* teacher "):
        train(with_triples, tmp_path / "stopped", **MINED, teacher="bm25")


@pytest.mark.extended
def test_every_system_learns_from_a_teacher(with_triples: Path, tmp_path: Path) -> None:
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    triples = set()
    for system, changes in (
        ("bi-encoder", {"teacher_loss": "kl", "precision": "bf16", "judgement_weight": 1}),
        ("splade", {"teacher_loss": "kl"}),
        ("colbert", {"teacher_loss": "kl", "precision": "bf16"}),
        ("monobert", {"teacher_loss": "margin-mse", "precision": "bf16"}),
    ):
        run = train(
            with_triples, tmp_path / system, system, teacher="bm25", triples="released", **changes
        )
        facts = sidecar(run)
        assert facts["released_triples"] == {"config": CONFIG, "sha256": entry.digest}
        assert facts["teacher"]["kind"] == facts["parameters"]["teacher"] == "bm25"
        # A default is left out, so that older recipes keep their digests.
        loss = facts["parameters"].get("teacher_loss", "margin-mse")
        assert (loss, facts["training"]["steps"]) == (changes["teacher_loss"], STEPS)
        triples.add(facts["training"]["triples_sha256"])
    assert len(triples) == 1


@pytest.mark.extended
def test_a_training_that_ended_early_does_not_continue_after_an_interrupt(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = set[str]()
    # In three parts of three steps. The second validation is no better than the first and ends the
    # training at a checkpoint, so nothing is mined.
    changes = {**MINED, "steps": 9, "validation": VALIDATION, "learning_rate": 0}
    expected = train(data, tmp_path / "a", **changes, progress=lambda one, *_: stages.add(one))
    training = sidecar(expected)["training"]
    assert (training["steps"], len(training["parts_sha256"])) == (2, 1)
    assert not any("mine" in stage for stage in stages)
    fit = Neural._fit_parts

    def interrupted(*arguments: Any) -> None:
        fit(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Neural, "_fit_parts", interrupted)
        train(data, tmp_path / "b", **changes)
    run = train(data, tmp_path / "b", **changes)
    assert sidecar(run)["training"] == training
    assert run.read_bytes() == expected.read_bytes()


@pytest.mark.extended
def test_a_training_whose_scores_are_not_finite_is_refused(data: Path, tmp_path: Path) -> None:
    changes = {"validation": VALIDATION, "learning_rate": 1e30, "warmup_steps": 0}
    with pytest.raises(
        DataError, match=r"scores of bi-encoder are no longer finite; .* lower learning_r"
    ):
        train(data, tmp_path, **changes)
    assert not list(tmp_path.rglob("*.run.gz"))


@pytest.mark.extended
def test_epochs_and_random_negatives(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "msshift_bench"):
        run = train(data, tmp_path, "splade", **RANDOM, steps=None, epochs=2, batch_size=32)
    training, index = sidecar(run)["training"], sidecar(run)["index"]
    assert training["steps"] == -(-2 * training["examples"] // 32)
    terms = f"{index['terms_per_query']:.1f} terms per query and {index['terms_per_passage']:.1f}"
    assert any(f"splade without short of length: {terms} per pass" in m for m in caplog.messages)


@pytest.mark.parametrize(
    ("system", "changes", "error", "words"),
    [
        ("monobert", {"negatives": "mined"}, UsageError, "monobert only reranks BM25's first 5"),
        ("bi-encoder", {**MINED, "negatives_refreshes": 7}, UsageError, "6 steps .* into 8 parts"),
        ("bi-encoder", {"teacher": "runs/colbertt"}, NotFoundError, "no teacher runs/colbertt"),
        ("bi-encoder", {**RANDOM, "triples": "released"}, UsageError, "released triples are BM25"),
        ("bi-encoder", {"triples": "mined"}, UsageError, "unknown name 'mined'.* 'mine'"),
    ],
)
def test_trainings_that_are_refused(
    system: str, changes: dict[str, Any], error: type[Exception], words: str,
    with_triples: Path, tmp_path: Path,
) -> None:  # fmt: skip
    with pytest.raises(error, match=words):
        train(with_triples, tmp_path, system, **changes)
    assert not list(tmp_path.rglob("*.run.gz"))


def test_released_triples_that_do_not_exist_or_are_not_used(
    data: Path, with_triples: Path, tmp_path: Path
) -> None:
    for act in (make_runs, plan_runs):
        with pytest.raises(NotFoundError, match="has no triples of length-short; 'msshift trip"):
            act(**given(data, tmp_path, triples="released"))
    assert not (tmp_path / "runs").exists()
    (planned,) = plan_runs(**given(with_triples, tmp_path, **RANDOM))
    assert planned.triples is planned.identity["released_triples"] is None


@pytest.mark.parametrize("good", ["all", "bm25:1", "bm25:1000"])
def test_candidates_of_colbert(good: str) -> None:
    search = ColBertSearch(depth=7, batch_size=64, candidates=good)
    assert search.candidates == good
    assert search.tag == ("" if good == "all" else f"-reranks-bm25-{good[5:]}")


@pytest.mark.parametrize(
    "bad",
    [0, 200, "1000", "tokens", "bm25", "bm25:0", "bm25:01", "al", "bm25:-3", True, 1.5, ["all"]],
)
def test_candidates_that_are_refused(bad: object, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text(tiny_recipe("colbert", search={"candidates": bad}))
    with pytest.raises(UsageError, match=r"mine\.toml:\d+: search\.candidates: (expected|.* form)"):
        open_system("colbert", recipe)


@pytest.mark.extended
def test_colbert_scores_all_passages_as_its_candidates(
    trained: Callable[[str], Trained], data: Path, tmp_path: Path, capfd: Any
) -> None:
    first = trained("colbert")
    search = {"search.candidates": "all", "search.depth": 20}
    (complete,) = make_runs(str(first.model), data=data, out=tmp_path, **search)
    assert sidecar(complete)["candidates"] == "all passages"
    assert "-reranks-" not in sidecar(complete)["tag"]
    assert capfd.readouterr().err == ""
    exact, reranked = (
        {query: {line[0]: line[2] for line in lines} for query, lines in read_run(run).items()}
        for run in (complete, first.run)
    )
    common = 0
    for query_id, scores in reranked.items():
        for doc_id in scores.keys() & exact[query_id].keys():
            assert exact[query_id][doc_id] == pytest.approx(scores[doc_id], abs=1e-4)
            common += 1
    assert common > 100
