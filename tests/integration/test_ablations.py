"""What training changes: other negatives and teachers, each by a line of the recipe."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.training.neural import Neural
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.plumbing import line_and_stage
from tests.support.making import make_runs
from tests.support.run_files import sidecar
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
