"""``msshift run`` on data sets with and without training triples."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import open_collection, read_manifest
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import NotFoundError, UsageError
from tests.conftest import Build, Command
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import sidecar
from tests.support.tiny_recipes import tiny_recipe

pytestmark = [pytest.mark.neural, pytest.mark.slow]

COLLECTION = "mini:300"
CONFIG = "length-short-triples"


@pytest.fixture(scope="session")
def bare(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


@pytest.fixture(scope="module")
def data(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(bare, tmp_path_factory.mktemp("data") / "msshift"))
    add_triples(folder, open_collection(COLLECTION), count=8, depth=50)
    return folder


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
    (path,) = make_runs(
        system, ["length"], data=data, collection=COLLECTION, out=out, recipe=recipe,
        held_out=["short"], **options,
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def released(data: Path, recipes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bi-encoder's run, trained on what the data set holds."""
    return run(data, tmp_path_factory.mktemp("runs") / "runs", recipes / "bi-encoder.toml")


def test_every_system_is_trained_on_the_data_set_s_triples(
    released: Path, data: Path, recipes: Path, tmp_path: Path
) -> None:
    (entry,) = read_manifest(data).configs[CONFIG].values()
    reranked = run(data, tmp_path, recipes / "monobert.toml", "monobert", triples="released")
    for path in (released, reranked):
        assert sidecar(path)["released_triples"] == {"config": CONFIG, "sha256": entry.digest}
    first, second = (sidecar(path)["training"] for path in (released, reranked))
    assert first["triples_sha256"] == second["triples_sha256"]


def test_mined_triples_are_those_of_a_data_set_without_any(
    released: Path, bare: Path, data: Path, recipes: Path, tmp_path: Path
) -> None:
    recipe = recipes / "bi-encoder.toml"
    mined = [
        run(bare, tmp_path / "bare", recipe),
        run(data, tmp_path / "mine", recipe, triples="mine"),
    ]
    first, second = map(sidecar, mined)
    assert first["released_triples"] is second["released_triples"] is None
    assert first["training"] == second["training"]
    assert mined[0].read_bytes() == mined[1].read_bytes()
    assert first["training"]["triples_sha256"] != sidecar(released)["training"]["triples_sha256"]


def test_a_run_that_was_begun_on_other_triples_is_not_continued(
    data: Path, recipes: Path, tmp_path: Path
) -> None:
    begun, then = "mine", "auto"

    def stop(stage: str, done: int, _total: int) -> None:
        if stage.endswith(": train") and done == 2:
            raise KeyboardInterrupt

    recipe = recipes / "bi-encoder.toml"
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, recipe, triples=begun, progress=stop)
    with pytest.raises(UsageError, match=r"plan.json differs .*released_triples .* instead of "):
        run(data, tmp_path, recipe, triples=then)
    path = run(data, tmp_path, recipe, triples=begun)
    with pytest.raises(
        UsageError, match=r"short.run.json differs .*released_triples .* instead of "
    ):
        run(data, tmp_path, recipe, triples=then)
    assert path.exists()


def test_released_triples_that_are_not_there(bare: Path, recipes: Path, tmp_path: Path) -> None:
    message = "holds no triples of length-short; 'msshift triples"
    recipe = recipes / "bi-encoder.toml"
    with pytest.raises(NotFoundError, match=message):
        run(bare, tmp_path / "runs", recipe, triples="released")
    with pytest.raises(NotFoundError, match=message):
        plan_runs(
            "bi-encoder", ["length"], data=bare, collection=COLLECTION, out=tmp_path / "runs",
            recipe=recipe, triples="released",
        )  # fmt: skip
    assert not (tmp_path / "runs").exists()


def test_negatives_that_a_recipe_draws_at_random_are_no_released_ones(
    data: Path, recipes: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="negatives of released triples are BM25's"):
        run(data, tmp_path, recipes / "random.toml", triples="released")
    path = run(data, tmp_path, recipes / "random.toml")
    assert sidecar(path)["released_triples"] is None
    with pytest.raises(UsageError, match="triples: unknown name 'mined'; did you mean 'mine'"):
        run(data, tmp_path, recipes / "bi-encoder.toml", triples="mined")


def test_the_command_says_what_a_model_is_trained_on(
    data: Path, recipes: Path, msshift: Command
) -> None:
    def train(*more: object) -> subprocess.CompletedProcess[str]:
        return msshift(
            "run", "bi-encoder", "--data", data, "--held-out", "short", "--recipe",
            recipes / "bi-encoder.toml", *more,
        )  # fmt: skip

    done = train("--format", "json")
    assert done.returncode == 0, done.stderr
    (entry,) = read_manifest(data).configs[CONFIG].values()
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
