"""What lines of a recipe change: negatives, teachers, released triples, what ColBERT ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.retrievers.colbert import ColBertSearch
from msshift_bench.baselines.training.neural import Neural
from msshift_bench.data import read_manifest
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.plumbing import line_and_stage
from tests.conftest import Command
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.slow]


SHORT: dict[str, Any] = {"steps": 6, "checkpoint_every": 2, "search": {"depth": 5}}
MINED = {"negatives": "mined", "negatives_refreshes": 2}


def run(data: Path, out: Path, system: str = "bi-encoder", **options: Any) -> Path:
    """Train a system of the options' recipe without the short queries, and return its run."""
    own = {"progress", "keep_model", "triples"}
    given = {key: options.pop(key) for key in own & options.keys()}
    recipe = out.parent / f"{system}.toml"
    recipe.write_text(tiny_recipe(system, **SHORT, **options))
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
    system: str, changes: dict[str, Any], with_triples: Path, tmp_path: Path
) -> None:
    told = run(with_triples, tmp_path / "runs", system, teacher="bm25", **changes)
    said = sidecar(told)
    assert said["teacher"]["kind"] == "bm25"
    assert said["parameters"]["teacher"] == "bm25"
    # Fields with their defaults are left out, so that older recipes keep their digests.
    kinds = {None: "margin-mse", "kl": "kl"}
    assert kinds[said["parameters"].get("teacher_loss")] == changes["teacher_loss"]
    assert said["training"]["steps"] == SHORT["steps"]


VALIDATION = {"every": 1, "queries": 5, "depth": 5, "patience": 1}


def test_a_model_that_gets_no_better_in_its_first_part_mines_nothing(
    with_triples: Path, tmp_path: Path
) -> None:
    met: list[str] = []
    changes = {**MINED, "validation": VALIDATION, "learning_rate": 0}
    told = run(
        with_triples, tmp_path / "runs", progress=lambda stage, *_: met.append(stage), **changes
    )
    learnt = sidecar(told)["training"]
    # Of three parts of two steps each; the second validation is no better than the first.
    assert (learnt["steps"], len(learnt["parts_sha256"])) == (2, 1)
    assert any("train" in stage for stage in met)
    assert not any("mine" in stage for stage in met)


@pytest.mark.parametrize("changes", [{}, MINED], ids=["one part", "mined"])
def test_a_training_that_ended_early_does_not_go_on_after_a_kill(
    changes: dict[str, Any], with_triples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second validation ends it, where a checkpoint is.
    chosen = {**changes, "validation": VALIDATION, "learning_rate": 0}
    undisturbed = run(with_triples, tmp_path / "a", **chosen)
    fit = Neural._fit_parts

    def killed(*given: Any) -> None:
        fit(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Neural, "_fit_parts", killed)
        run(with_triples, tmp_path / "b", **chosen)
    again = run(with_triples, tmp_path / "b", **chosen)
    assert sidecar(again)["training"] == sidecar(undisturbed)["training"]
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


pytestmark = [pytest.mark.neural, pytest.mark.slow]

CONFIG = "length-short-triples"


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    short: dict[str, Any] = {"steps": 3, "search": {"depth": 5}}
    (folder / "bi-encoder.toml").write_text(tiny_recipe("bi-encoder", **short))
    (folder / "monobert.toml").write_text(tiny_recipe("monobert", **short))
    (folder / "random.toml").write_text(
        tiny_recipe("bi-encoder", **short, negatives="random", negatives_depth=None)
    )
    return folder


def train_on(
    data: Path, out: Path, recipe: Path, system: str = "bi-encoder", **options: Any
) -> Path:
    given: dict[str, Any] = {"recipe": recipe, "held_out": ["short"], **options}
    (path,) = make_runs(system, data=data, out=out, **given)
    return path


@pytest.fixture(scope="module")
def released(with_triples: Path, recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bi-encoder's run, trained on what the data set holds."""
    return train_on(
        with_triples, tmp_path_factory.mktemp("runs") / "runs", recipes / "bi-encoder.toml"
    )


def test_every_system_is_trained_on_the_data_set_s_triples(
    released: Path, with_triples: Path, recipes: Path, tmp_path: Path
) -> None:
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    reranked = train_on(
        with_triples, tmp_path, recipes / "monobert.toml", "monobert", triples="released"
    )
    for path in (released, reranked):
        assert sidecar(path)["released_triples"] == {"config": CONFIG, "sha256": entry.digest}
    first, second = (sidecar(path)["training"] for path in (released, reranked))
    assert first["triples_sha256"] == second["triples_sha256"]


def test_mined_triples_are_those_of_a_data_set_without_any(
    released: Path, data: Path, with_triples: Path, recipes: Path, tmp_path: Path
) -> None:
    recipe = recipes / "bi-encoder.toml"
    mined = [
        train_on(data, tmp_path / "data", recipe),
        train_on(with_triples, tmp_path / "mine", recipe, triples="mine"),
    ]
    first, second = map(sidecar, mined)
    assert first["released_triples"] is second["released_triples"] is None
    assert first["training"] == second["training"]
    assert mined[0].read_bytes() == mined[1].read_bytes()
    assert first["training"]["triples_sha256"] != sidecar(released)["training"]["triples_sha256"]


def test_a_run_that_was_begun_on_other_triples_is_not_continued(
    with_triples: Path, recipes: Path, tmp_path: Path
) -> None:
    begun, then = "mine", "auto"

    def stop(stage: str, done: int, _total: int) -> None:
        if stage.endswith(": train") and done == 2:
            raise KeyboardInterrupt

    recipe = recipes / "bi-encoder.toml"
    with pytest.raises(KeyboardInterrupt):
        train_on(with_triples, tmp_path, recipe, triples=begun, progress=stop)
    with pytest.raises(UsageError, match=r"plan.json differs .*released_triples .* instead of "):
        train_on(with_triples, tmp_path, recipe, triples=then)
    path = train_on(with_triples, tmp_path, recipe, triples=begun)
    with pytest.raises(
        UsageError, match=r"short.run.json differs .*released_triples .* instead of "
    ):
        train_on(with_triples, tmp_path, recipe, triples=then)
    assert path.exists()


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
    path = train_on(with_triples, tmp_path, recipes / "random.toml")
    assert sidecar(path)["released_triples"] is None
    with pytest.raises(UsageError, match="triples: unknown name 'mined'; did you mean 'mine'"):
        train_on(with_triples, tmp_path, recipes / "bi-encoder.toml", triples="mined")


def test_the_command_says_what_a_model_is_trained_on(
    with_triples: Path, recipes: Path, msshift: Command
) -> None:
    def train(*more: object) -> subprocess.CompletedProcess[str]:
        return msshift(
            "run", "bi-encoder", "--data", with_triples, "--held-out", "short", "--recipe",
            recipes / "bi-encoder.toml", *more,
        )  # fmt: skip

    done = train("--format", "json")
    assert done.returncode == 0, done.stderr
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    assert (
        "bi-encoder without short of length: trains on the data set's "
        f"{CONFIG}, SHA-256 {entry.digest[:12]}\n" in done.stderr
    )
    assert len(json.loads(done.stdout)) == 1
    refused = train("--set", "triples=mine")
    assert refused.returncode == 2
    assert "released_triples" in refused.stderr
    mined = train("--set", "triples=mine", "--out", "mined")
    assert mined.returncode == 0, mined.stderr
    line = "bi-encoder without short of length: trains on triples made by the recipe"
    assert f"{line}, negatives = 'bm25'\n" in mined.stderr


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


@pytest.mark.neural
@pytest.mark.slow
def test_runs_say_what_was_ranked(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = {}
    for name, candidates in {"all": "all", "bm25": "bm25:25"}.items():
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(tiny_recipe("colbert", search={"candidates": candidates}))
        (runs[name],) = make_runs("colbert", data=data, out=tmp_path / name,
            recipe=recipe, held_out=["short"],
        )  # fmt: skip
    facts = {name: sidecar(run) for name, run in runs.items()}
    assert {name: given["candidates"] for name, given in facts.items()} == {
        "all": "all passages",
        "bm25": "reranks BM25's first 25",
    }
    assert {name: given["tag"] for name, given in facts.items()} == {
        "all": "colbert-all-seed5",
        "bm25": "colbert-bm25-seed5-reranks-bm25-25",
    }
    assert capfd.readouterr().err == ""

    def best(name: str) -> dict[str, dict[str, float]]:
        lines = read_run(runs[name]).items()
        return {query_id: {line[0]: line[2] for line in found} for query_id, found in lines}

    exact, reranked = best("all"), best("bm25")
    for query_id, scores in reranked.items():
        for doc_id, score in scores.items():
            assert exact[query_id].get(doc_id, score) == pytest.approx(score, abs=1e-4)


def test_the_tag_says_that_a_published_model_reranks() -> None:
    search = ColBertSearch(depth=7, batch_size=64, candidates="bm25:30")
    assert search.tag == "-reranks-bm25-30"
