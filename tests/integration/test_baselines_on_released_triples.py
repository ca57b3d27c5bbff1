"""``msshift run`` on data sets with and without training triples."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import read_manifest
from msshift_bench.errors import NotFoundError, UsageError
from tests.conftest import Command
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_recipe

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


def run(data: Path, out: Path, recipe: Path, system: str = "bi-encoder", **options: Any) -> Path:
    given: dict[str, Any] = {"recipe": recipe, "held_out": ["short"], **options}
    (path,) = make_runs(system, data=data, out=out, **given)
    return path


@pytest.fixture(scope="module")
def released(with_triples: Path, recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bi-encoder's run, trained on what the data set holds."""
    return run(with_triples, tmp_path_factory.mktemp("runs") / "runs", recipes / "bi-encoder.toml")


def test_every_system_is_trained_on_the_data_set_s_triples(
    released: Path, with_triples: Path, recipes: Path, tmp_path: Path
) -> None:
    (entry,) = read_manifest(with_triples).configs[CONFIG].values()
    reranked = run(
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
        run(data, tmp_path / "data", recipe),
        run(with_triples, tmp_path / "mine", recipe, triples="mine"),
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
        run(with_triples, tmp_path, recipe, triples=begun, progress=stop)
    with pytest.raises(UsageError, match=r"plan.json differs .*released_triples .* instead of "):
        run(with_triples, tmp_path, recipe, triples=then)
    path = run(with_triples, tmp_path, recipe, triples=begun)
    with pytest.raises(
        UsageError, match=r"short.run.json differs .*released_triples .* instead of "
    ):
        run(with_triples, tmp_path, recipe, triples=then)
    assert path.exists()


def test_released_triples_that_are_not_there(data: Path, recipes: Path, tmp_path: Path) -> None:
    message = "holds no triples of length-short; 'msshift triples"
    recipe = recipes / "bi-encoder.toml"
    with pytest.raises(NotFoundError, match=message):
        run(data, tmp_path / "runs", recipe, triples="released")
    with pytest.raises(NotFoundError, match=message):
        plan_runs("bi-encoder", data=data, out=tmp_path / "runs",
            recipe=recipe, triples="released",
        )  # fmt: skip
    assert not (tmp_path / "runs").exists()


def test_negatives_that_a_recipe_draws_at_random_are_no_released_ones(
    with_triples: Path, recipes: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="negatives of released triples are BM25's"):
        run(with_triples, tmp_path, recipes / "random.toml", triples="released")
    path = run(with_triples, tmp_path, recipes / "random.toml")
    assert sidecar(path)["released_triples"] is None
    with pytest.raises(UsageError, match="triples: unknown name 'mined'; did you mean 'mine'"):
        run(with_triples, tmp_path, recipes / "bi-encoder.toml", triples="mined")


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
