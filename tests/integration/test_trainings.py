"""What lines of a recipe change: negatives, teachers, released triples, what ColBERT ranks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.retrievers.colbert import ColBertSearch
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.data import read_manifest
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.plumbing import line_and_stage
from msshift_bench.runs import model_path
from tests.support.command_line import Done, run_msshift
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.extended]


CONFIG = "length-short-triples"
SHORT: dict[str, Any] = {"steps": 6, "checkpoint_every": 2, "search": {"depth": 5}}
MINED = {"negatives": "mined", "negatives_refreshes": 2}


def run(data: Path, out: Path, system: str = "bi-encoder", **options: Any) -> Path:
    """Train a system of the options' recipe without the short queries, and return its run."""
    own = {"progress", "keep_model", "triples"}
    given = {key: options.pop(key) for key in own & options.keys()}
    recipe = out.parent / f"{system}.toml"
    recipe.write_text(tiny_recipe(system, **{**SHORT, **options}))
    (made,) = make_runs(system, data=data, out=out, recipe=recipe,
        held_out=["short"], **given,
    )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def teacher(with_triples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run set of a kept ColBERT."""
    out = tmp_path_factory.mktemp("teachers") / "runs"
    return run(with_triples, out, "colbert", keep_model=True).parents[1]


def test_mined_negatives_from_a_teacher_s_scores_after_kills(
    with_triples: Path, teacher: Path, tmp_path: Path
) -> None:
    changes = {**MINED, "teacher": str(teacher)}
    undisturbed = run(with_triples, tmp_path / "undisturbed", **changes)
    met: list[str] = []

    def stop_in(stage: str, done: int) -> Any:
        def stop(told: str, now: int, _total: int) -> None:
            met.append(line_and_stage(told)[1])
            if met[-1] == stage and now >= done:
                raise KeyboardInterrupt

        return stop

    # In the first search, and in the last part.
    for stage, done in (("mine: search", 9), ("train", 5)):
        met.clear()
        with pytest.raises(KeyboardInterrupt):
            run(with_triples, tmp_path / "killed", **changes, progress=stop_in(stage, done))
        assert met[-1] == stage
    killed = run(with_triples, tmp_path / "killed", **changes)
    assert killed.read_bytes() == undisturbed.read_bytes()
    said = [sidecar(one) for one in (killed, undisturbed)]
    assert said[0]["training"] == said[1]["training"]
    learnt = said[0]["training"]
    assert len(set(learnt["parts_sha256"])) == 3
    of_teacher = sidecar(teacher / "length" / "short.run.gz")
    facts = {
        "kind": "model",
        "system": "colbert",
        "run_sha256": of_teacher["run_sha256"],
        "weights_sha256": of_teacher["training"]["weights_sha256"],
    }
    assert said[0]["teacher"] == facts
    assert facts.items() <= learnt["teacher"].items()
    assert len(set(learnt["teacher"]["scores_sha256"])) == 3
    assert said[0]["released_triples"]["config"] == "length-short-triples"
    with pytest.raises(UsageError, match=r"short.run.json differs .* teacher "):
        run(with_triples, tmp_path / "killed", **MINED, teacher="bm25")


@pytest.mark.parametrize(
    ("system", "changes"),
    [
        ("bi-encoder", {"teacher_loss": "kl", "precision": "bf16", "judgement_weight": 1}),
        ("splade", {"teacher_loss": "kl"}),
        ("colbert", {"teacher_loss": "kl", "precision": "bf16"}),
        ("monobert", {"teacher_loss": "margin-mse", "precision": "bf16"}),
    ],
)
def test_every_system_learns_from_a_teacher(
    system: str, changes: dict[str, Any], teacher: Path, with_triples: Path, tmp_path: Path
) -> None:
    told = run(
        with_triples, tmp_path / "runs", system, teacher="bm25", triples="released", **changes
    )
    said = sidecar(told)
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    assert said["released_triples"] == {"config": CONFIG, "sha256": entry.digest}
    of_teacher = sidecar(teacher / "length" / "short.run.gz")["training"]
    assert said["training"]["triples_sha256"] == of_teacher["triples_sha256"]
    assert said["teacher"]["kind"] == "bm25"
    assert said["parameters"]["teacher"] == "bm25"
    # Fields with their defaults are left out, so that older recipes keep their digests.
    kinds = {None: "margin-mse", "kl": "kl"}
    assert kinds[said["parameters"].get("teacher_loss")] == changes["teacher_loss"]
    assert said["training"]["steps"] == SHORT["steps"]


VALIDATION = {"every": 1, "queries": 5, "depth": 5, "patience": 1}


def test_a_training_that_ended_early_does_not_go_on_after_a_kill(
    with_triples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[str] = []
    # Of three parts of three steps each. The second validation is no better than the first and
    # ends it, where a checkpoint is, so nothing is mined.
    chosen = {**MINED, "steps": 9, "validation": VALIDATION, "learning_rate": 0}
    undisturbed = run(
        with_triples, tmp_path / "a", **chosen, progress=lambda stage, *_: met.append(stage)
    )
    learnt = sidecar(undisturbed)["training"]
    assert (learnt["steps"], len(learnt["parts_sha256"])) == (2, 1)
    assert any("train" in stage for stage in met)
    assert not any("mine" in stage for stage in met)
    fit = Neural._fit_parts

    def killed(*given: Any) -> None:
        fit(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Neural, "_fit_parts", killed)
        run(with_triples, tmp_path / "b", **chosen)
    again = run(with_triples, tmp_path / "b", **chosen)
    assert sidecar(again)["training"] == learnt
    assert again.read_bytes() == undisturbed.read_bytes()


def test_a_training_that_ran_away_is_told_to_go_slower(with_triples: Path, tmp_path: Path) -> None:
    changes = {"validation": VALIDATION, "learning_rate": 1e30, "warmup_steps": 0}
    with pytest.raises(DataError, match="the scores of bi-encoder are not finite any more; try a"):
        run(with_triples, tmp_path / "runs", **changes)
    assert not list((tmp_path / "runs").rglob("*.run.gz"))


def test_what_cannot_be_mined_or_taught(with_triples: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="monobert only reranks BM25's first 5; take 'bm25' or"):
        run(with_triples, tmp_path / "runs", "monobert", negatives="mined")
    with pytest.raises(UsageError, match="6 steps cannot be cut into 8 parts; lower negatives_re"):
        run(with_triples, tmp_path / "runs", negatives="mined", negatives_refreshes=7)
    shutil.rmtree(tmp_path / "runs")
    with pytest.raises(NotFoundError, match="no teacher runs/colbertt: it is 'bm25', or the folde"):
        run(with_triples, tmp_path / "runs", teacher="runs/colbertt")
    assert not (tmp_path / "runs").exists()


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    short: dict[str, Any] = {"steps": 3, "search": {"depth": 5}}
    (folder / "bi-encoder.toml").write_text(tiny_recipe("bi-encoder", **short))
    (folder / "random.toml").write_text(
        tiny_recipe("bi-encoder", **short, negatives="random", negatives_depth=None)
    )
    return folder


def train_on(data: Path, out: Path, recipe: Path, **options: Any) -> Path:
    given: dict[str, Any] = {"recipe": recipe, "held_out": ["short"], **options}
    (path,) = make_runs("bi-encoder", data=data, out=out, **given)
    return path


@pytest.fixture(scope="module")
def command(
    with_triples: Path, recipes: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Done]:
    """Return a function that trains a bi-encoder from the command line, in the same folder."""
    folder = tmp_path_factory.mktemp("runs")

    def train(*more: str) -> Done:
        given = ("run", "bi-encoder", "--data", with_triples, "--held-out", "short", "--recipe",
                 recipes / "bi-encoder.toml", "--out", folder, *more)  # fmt: skip
        return run_msshift(list(map(str, given)), folder, os.environ)

    return train


@pytest.fixture(scope="module")
def trained(command: Callable[..., Done]) -> Done:
    """Return what the command said that trained on what the data set holds."""
    done = command("--format", "json")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def released(trained: Done) -> Path:
    """Return its run."""
    (path,) = json.loads(trained.stdout)
    return Path(path)


def test_a_run_that_was_begun_on_other_triples_is_not_continued(
    released: Path,
    data: Path,
    with_triples: Path,
    recipes: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, then = "mine", "auto"

    def stop(stage: str, done: int, _total: int) -> None:
        if stage.endswith(": train") and done == 2:
            raise KeyboardInterrupt

    recipe = recipes / "bi-encoder.toml"
    out = tmp_path / "mine"
    with pytest.raises(KeyboardInterrupt):
        train_on(with_triples, out, recipe, triples=begun, progress=stop)
    with pytest.raises(UsageError, match=r"plan.json differs .*released_triples .* instead of "):
        train_on(with_triples, out, recipe, triples=then)
    with caplog.at_level("INFO", "msshift_bench"):
        path = train_on(with_triples, out, recipe, triples=begun)
    line = "bi-encoder without short of length: trains on triples made by the recipe"
    assert f"{line}, negatives = 'bm25'" in caplog.messages
    with pytest.raises(
        UsageError, match=r"short.run.json differs .*released_triples .* instead of "
    ):
        train_on(with_triples, out, recipe, triples=then)

    # Mined triples are those of a data set without any.
    elsewhere = train_on(data, tmp_path / "data", recipe)
    first, second = sidecar(path), sidecar(elsewhere)
    assert first["released_triples"] is second["released_triples"] is None
    assert first["training"] == second["training"]
    assert path.read_bytes() == elsewhere.read_bytes()
    assert first["training"]["triples_sha256"] != sidecar(released)["training"]["triples_sha256"]


def test_released_triples_that_are_not_there(data: Path, recipes: Path, tmp_path: Path) -> None:
    message = "holds no triples of length-short; 'msshift triples"
    recipe = recipes / "bi-encoder.toml"
    with pytest.raises(NotFoundError, match=message):
        train_on(data, tmp_path / "runs", recipe, triples="released")
    with pytest.raises(NotFoundError, match=message):
        plan_runs("bi-encoder", data=data, out=tmp_path / "runs",
            recipe=recipe, triples="released",
        )  # fmt: skip
    assert not (tmp_path / "runs").exists()


def test_negatives_that_a_recipe_draws_at_random_are_no_released_ones(
    with_triples: Path, recipes: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="negatives of released triples are BM25's"):
        train_on(with_triples, tmp_path, recipes / "random.toml", triples="released")
    given = {"data": with_triples, "recipe": recipes / "random.toml", "held_out": ["short"]}
    (planned,) = plan_runs("bi-encoder", out=tmp_path, **given)
    assert planned.triples is planned.identity["released_triples"] is None
    with pytest.raises(UsageError, match="triples: unknown name 'mined'; did you mean 'mine'"):
        train_on(with_triples, tmp_path, recipes / "bi-encoder.toml", triples="mined")


def test_the_command_says_what_a_model_is_trained_on(
    command: Callable[..., Done], trained: Done, with_triples: Path
) -> None:
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    assert (
        "bi-encoder without short of length: trains on the data set's "
        f"{CONFIG}, SHA-256 {entry.digest[:12]}\n" in trained.stderr
    )
    refused = command("--set", "triples=mine")
    assert refused.returncode == 2
    assert "released_triples" in refused.stderr


@pytest.mark.parametrize("good", ["all", "bm25:1", "bm25:1000"])
def test_how_candidates_are_written(good: str) -> None:
    assert ColBertSearch(candidates=good).candidates == good


@pytest.mark.parametrize(
    "bad",
    [0, 200, "1000", "tokens", "bm25", "bm25:0", "bm25:01", "al", "bm25:-3", True, 1.5, ["all"]],
)
def test_what_candidates_are_not(bad: object, tmp_path: Path) -> None:
    written = tmp_path / "mine.toml"
    written.write_text(tiny_recipe("colbert", search={"candidates": bad}))
    with pytest.raises(UsageError, match=r"mine\.toml:\d+: search\.candidates: (expected|.* form)"):
        open_system("colbert", written)


def test_runs_say_what_was_ranked(
    teacher: Path, with_triples: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = teacher / "length" / "short.run.gz"
    search = {"search.candidates": "all", "search.depth": 20}
    (whole,) = make_runs(str(model_path(first)), data=with_triples, out=tmp_path, **search)
    assert sidecar(whole)["candidates"] == "all passages"
    assert "-reranks-" not in sidecar(whole)["tag"]
    assert sidecar(first)["candidates"] == "reranks BM25's first 25"
    assert sidecar(first)["tag"] == "colbert-colbert-seed5-reranks-bm25-25"
    assert capfd.readouterr().err == ""
    exact, reranked = (
        {query: {line[0]: line[2] for line in lines} for query, lines in read_run(run).items()}
        for run in (whole, first)
    )
    for query_id, scores in reranked.items():
        for doc_id, score in scores.items():
            assert exact[query_id].get(doc_id, score) == pytest.approx(score, abs=1e-4)


def test_the_tag_says_that_a_published_model_reranks() -> None:
    search = ColBertSearch(depth=7, batch_size=64, candidates="bm25:30")
    assert search.tag == "-reranks-bm25-30"
