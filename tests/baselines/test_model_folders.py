"""Folders of models, one for each held-out group, rank as a factory of these models does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from msshift_bench import evaluate, libraries
from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems.finding import neural_systems
from tests.baselines.conftest import Patch, Values
from tests.conftest import Command
from tests.support.making import make_runs, plan_runs
from tests.support.refusals import check_refusals
from tests.support.run_files import sidecar

pytestmark = pytest.mark.neural

GROUPS = ("short", "long")


def save_models(tiny_models: Path, folder: Path, seed: int = 0) -> None:
    """Save a bi-encoder for each group, with weights of its own."""
    for number, group in enumerate(GROUPS, 1 + 2 * seed):
        model = neural_systems()["bi-encoder"].load_model(tiny_models / "my-bi-encoder")
        with libraries.torch.no_grad():
            for weights in model.parameters():
                weights += 0.3 * number * weights.flip(0)
        model.save_pretrained(str(folder / group), create_model_card=False)


@pytest.fixture
def models(tiny_models: Path, tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_models(tiny_models, tmp_path / "models")
    return tmp_path / "models"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Folders whose files only name a kind of model, which is never loaded."""
    monkeypatch.chdir(tmp_path)
    for group in GROUPS:
        for folder in (tmp_path / "models" / group, tmp_path / "seeds" / "seed-3" / group):
            folder.mkdir(parents=True)
            settings = '{"model_type": "SentenceTransformer"}'
            (folder / "config_sentence_transformers.json").write_text(settings)
    return tmp_path / "models"


@pytest.mark.extended
def test_a_run_set_is_that_of_a_factory(models: Path, data: Path, given: Values) -> None:
    def factory(held_out: str) -> object:
        return libraries.sentence_transformers.SentenceTransformer(str(models / held_out))

    result = evaluate(factory, name="models", **{**given, "runs": "in-memory"})
    made = make_runs("./models/{held_out}", data=data, out="runs")
    assert [path.as_posix() for path in made] == [f"runs/models/length/{g}.run.gz" for g in GROUPS]
    for run in made:
        assert run.read_bytes() == ("in-memory" / run.relative_to("runs")).read_bytes()
    assert made[0].read_bytes() != made[1].read_bytes()
    facts = sidecar(made[0])
    assert facts["parameters"]["given"] == {"models": "./models/{held_out}"}
    assert facts["model"]["model"] == "models/short"
    assert len(facts["model_files_sha256"]) == 64
    assert result.figures.first(figure="rel_loss", group="short") is not None
    states = [run.planned_state for run in plan_runs("./models/{held_out}", data=data, out="runs")]
    assert states == ["complete", "complete"]


@pytest.mark.extended
def test_replicates_are_those_of_the_folders(
    tiny_models: Path, tmp_path: Path, msshift: Command, data: Path, given: Values
) -> None:
    for seed in (1, 2):
        save_models(tiny_models, tmp_path / f"sets/seed-{seed}", seed)

    def factory(held_out: str, seed: int) -> object:
        folder = tmp_path / f"sets/seed-{seed}/{held_out}"
        return libraries.sentence_transformers.SentenceTransformer(str(folder))

    evaluate(factory, name="sets", seeds=(1, 2), **{**given, "runs": tmp_path / "in-memory"})
    words = ["run", "sets/seed-{seed}/{held_out}", "--shift", "length", "--data", str(data)]
    done = msshift(*words, "--collection", "mini:300")
    assert done.returncode == 0, done.stderr
    made = done.stdout.splitlines()
    assert len(made) == 4
    for run in made:
        in_memory = tmp_path / "in-memory" / Path(run).relative_to("runs")
        assert (tmp_path / run).read_bytes() == in_memory.read_bytes()


def test_other_files_are_another_model(fake: Path, data: Path) -> None:
    first, _ = plan_runs("models/{held_out}", data=data, out="runs")
    assert first.planned_state == "new"
    (fake / "short" / "README.md").write_text("# A card")
    (fake / "long" / "modules.json").write_text("[]")
    short, long = plan_runs("models/{held_out}", data=data, out="runs")
    key = "model_files_sha256"
    assert (short.identity[key], long.identity[key] != first.identity[key]) == (
        first.identity[key],
        True,
    )


def test_names_are_those_of_the_path(fake: Path, data: Path) -> None:
    for path, name in (
        ("models/{held_out}", "models"),
        ("./seeds/seed-{seed}/{held_out}/", "seeds"),
        (str(fake / "{held_out}"), "models"),
        ("./{held_out}", "models"),
    ):
        assert open_system(path).run_set() == name
    runs = plan_runs("seeds/seed-{seed}/{held_out}", data=data, out="runs")
    places = [run.path.relative_to("runs/seeds/length").as_posix() for run in runs]
    assert places == ["seed-3/short.run.gz", "seed-3/long.run.gz"]
    (run,) = plan_runs("models/{held_out}", data=data, out="runs", held_out="long")
    assert run.held_out == "long"
    (fake.parent / "by-shift").mkdir()
    shutil.copytree(fake, "by-shift/length")
    assert len(plan_runs("by-shift/{shift}/{held_out}", data=data, out="runs")) == 2


def test_folders_that_are_missing_or_too_many_are_refused(fake: Path, data: Path) -> None:
    def plan(path: str = "models/{held_out}", **options: object) -> object:
        return plan_runs(path, data=data, out="runs", **options)

    for folder in ("lacking/short", "many/short", "many/long", "many/lnog", "odd/seed-x/short"):
        Path(folder).mkdir(parents=True)
    Path("many/.cache").mkdir()
    Path("many/notes.txt").touch()
    check_refusals(
        {
            "NotFoundError lacking/long short": lambda: plan("lacking/{held_out}"),
            "NotFoundError none/short none/long --held-out": lambda: plan("none/{held_out}"),
            "UsageError many/lnog short": lambda: plan("many/{held_out}"),
            "UsageError seed models/{held_out}": lambda: plan(seeds=[3]),
            "NotFoundError seeds/seed-4/short": lambda: plan(
                "seeds/seed-{seed}/{held_out}", seeds=[3, 4]
            ),
            "NotFoundError seed odd/seed-": lambda: plan("odd/seed-{seed}/{held_out}"),
            "UsageError models/{group} {held_out}": lambda: plan("models/{group}"),
            "UsageError {held_out}/{held_out}": lambda: plan("models/{held_out}/{held_out}"),
            "UsageError models/{held_out": lambda: plan("models/{held_out"),
            "UnknownNameError 'depth' search": lambda: plan(depth=3),
            "UsageError 'mini' recipe": lambda: plan(recipe="mini"),
            "UsageError kind models/short": lambda: _without_kind(fake, data),
        }
    )
    assert not Path("runs").exists()


def _without_kind(fake: Path, data: Path) -> None:
    (fake / "short" / "config_sentence_transformers.json").write_text("{}")
    make_runs("models/{held_out}", data=data, out="runs")
