"""The experiments' plans: what each trains, on which data, from which start."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from msshift_bench import mini
from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems.finding import neural_systems
from msshift_bench.data import open_dataset
from msshift_bench.shifts import get_shift
from scripts.experiments import carrying_out
from scripts.experiments.carrying_out import Place, Training, command, main, teachers, trainings
from scripts.experiments.plans import load, names
from tests.conftest import Build
from tests.support.command_line import SCRIPT
from tests.support.tiny_recipes import write_recipes

REPOSITORY = Path(__file__).resolve().parents[2]

FAILS = (sys.executable, "-c", "import sys; sys.exit(3)")


def command_of(name: str, training: Training, place: Place) -> str:
    return shlex.join(map(str, command(load(name), place, training)))


@pytest.mark.parametrize("name", names())
def test_a_plan_is_one_that_can_be_carried_out(name: str) -> None:
    plan = load(name)
    (shift,) = plan.data.shifts
    groups = get_shift(shift).groups
    assert set(plan.systems) <= set(neural_systems())
    assert set(plan.held_out) <= set(groups)
    todo = trainings(plan)
    run_sets = len(plan.systems) * len(plan.starts) * len(plan.variants)
    assert len(todo) == len(set(todo)) == run_sets * plan.seeds
    # A seed is complete before the next begins, so that an unfinished experiment is balanced.
    assert [training.seed for training in todo] == sorted(training.seed for training in todo)
    recipes = REPOSITORY / "baselines" / "recipes"
    for start in {*plan.starts, *plan.quick.starts} - {"random"}:
        assert (recipes / f"pretrain-{start}.toml").is_file()
    for system in plan.systems:
        assert (recipes / f"{system}-pool.toml").is_file()


def test_quick_has_enough_negatives_for_each_recipe_and_passage() -> None:
    found = Counter(judged.query_id for judged in mini.qrels() if judged.relevance > 0)
    most = max(found.values())
    for plan in map(load, names()):
        for system in plan.systems:
            recipe = open_system(system, "mini")
            assert plan.quick.data.negatives // most >= recipe.negatives_per_query


def test_experiments_share_runs_only_if_nothing_differs() -> None:
    place = Place("pool", None, Path("work"), "pool")
    folders = {name: place.runs(load(name)) for name in names()}
    alike = ("length", "masks", "starts", "training")
    assert {folders[name] for name in alike} == {folders["length"]}
    assert len(set(folders.values())) == len(folders) - len(alike) + 1
    runs = {(training.name, training.start) for training in trainings(load("starts"))}
    assert ("colbert-random", "random") in runs
    assert ("colbert", "pool") in runs
    assert len(runs) == 10


def test_teachers_are_trained_first_with_the_same_groups_and_seeds() -> None:
    plan, place = load("training"), Place("pool", None, Path("work"), "pool")
    todo = trainings(plan)
    names = {training.name for training in todo}
    assert names == {"bi-encoder"} | {
        f"bi-encoder-{variant}" for variant in plan.variants if variant != "bm25"
    }
    # What is not changed stands with the runs of the experiment `length`, and so do the teachers.
    assert {place.runs(plan, one.variant).name for one in todo if not one.variant} == {"length"}
    assert {place.runs(plan, one.variant).name for one in todo if one.variant} == {"training"}
    assert {one.seed for one in teachers(plan)} == {training.seed for training in todo}
    assert {one.name for one in teachers(plan)} == {"colbert"}
    assert teachers(load("length")) == []


def test_a_command_names_the_start_the_held_out_groups_and_the_changes() -> None:
    place = Place("pool", None, Path("work"), "pool")
    steps = command_of("steps", Training("colbert", "pool", 0), place)
    assert steps.startswith("run colbert --recipe pool --name colbert --collection pool")
    assert "--data work/data/topics/msshift --out work/runs/steps --keep-model --seeds 0" in steps
    assert "--shift topics --held-out C2 --set encoder=work/encoders/pool --set steps=600" in steps
    assert "--set validation.every=100" in steps
    taught = command_of("training", Training("bi-encoder", "pool", 1, "mined-taught"), place)
    assert "--set negatives=mined --set teacher=work/runs/length/colbert" in taught
    masks = command_of("masks", Training("colbert", "pool", 0, "no-masks"), place)
    assert "--set query_augmentation=false" in masks
    start = command_of("starts", Training("bi-encoder", "random", 0), place)
    assert "--name bi-encoder-random" in start
    assert "--set encoder=random --set random.layers=" in start
    quick = Place("mini", None, Path("work"), "mini")
    assert "encoder=" not in command_of("topics", Training("splade", "mini", 0), quick)
    assert "encoder=work/encoders/mini" in command_of(
        "topics", Training("colbert", "mini", 0), quick
    )


def test_half_of_the_training_queries_is_half_of_each_group(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place("mini:300", Path("official.tsv"), tmp_path, "mini")
    whole = build_once("mini:300", "length")
    shutil.copytree(whole, place.data(load("length").data))
    given: list[tuple[object, ...]] = []

    def run(*arguments: object) -> None:
        if arguments[0] == "build":
            shutil.copytree(whole, place.data(load("size").data))
        given.append(arguments)

    monkeypatch.setattr(carrying_out, "run", run)
    carrying_out.build(load("size").data, place)
    built, triples = given
    rows = len(open_dataset(whole).rows("length-short", "train"))
    assert built[built.index("--train-size") + 1] == rows // 2 > 10
    assert triples[0] == "triples"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topic", "topics"),
        ("length --collection pool", "--test-queries the file"),
        ("length --quick --seeds 0", "--seeds: '0' is no whole number from 1 on"),
        ("length --quick --processes 0", "--processes: '0' is no whole number from 1 on"),
        ("starts GIVEN --systems colbret", "'colbret': did you mean 'colbert'?"),
        ("starts GIVEN --starts condenser", "valid are random, pool-mlm, pool-condenser"),
    ],
)
def test_a_wrong_line_is_refused(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = line.replace("GIVEN", "--collection pool --test-queries official.tsv").split()
    try:
        code: object = main(given)
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert words in capsys.readouterr().err


def test_the_error_of_a_command_is_not_followed_by_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(FAILS)

    monkeypatch.setattr(carrying_out, "start", fail)
    given = ["--collection", "pool", "--test-queries", "official.tsv", "--work", str(tmp_path)]
    assert main(["length", *given]) == 3
    (tmp_path / "data" / "length" / "msshift").mkdir(parents=True)
    assert main(["length", *given]) == 3
    assert "error: no built data set at" in capsys.readouterr().err


def test_if_one_training_fails_the_others_end_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> subprocess.Popen[bytes]:
        waits = (sys.executable, "-c", "import time; time.sleep(600)")
        started.append(subprocess.Popen(FAILS if started else waits))
        return started[-1]

    monkeypatch.setattr(carrying_out, "start", start)
    plan, place = load("topics"), Place("pool", None, Path("work"), "pool")
    with pytest.raises(subprocess.CalledProcessError):
        carrying_out.train_all(plan, place, trainings(plan), 2)
    assert [process.returncode for process in started] == [-signal.SIGTERM, 3]


@pytest.mark.extended
@pytest.mark.neural
def test_quick_has_a_folder_of_its_own_and_does_all_steps(tmp_path: Path) -> None:
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    recipes = str(write_recipes(tmp_path / "recipes"))
    few = ("--systems", "bi-encoder", "--seeds", "1", "--processes", "1")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "scripts.experiments", "length", "--quick"),
            *("--collection", "mini:300", "--work", "work", *few),
        ],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), "MSSHIFT_RECIPES": recipes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\n1 of 1\n" in done.stderr
    assert "| bi-encoder" in done.stdout
    quick = tmp_path / "work" / "quick"
    assert {one.name for one in (tmp_path / "work").iterdir()} == {quick.name}
    assert {one.name for one in quick.iterdir()} == {"data", "encoders", "results", "runs"}
    kept = quick / "runs" / "length" / "bi-encoder" / "length" / "seed-0"
    assert {one.name for one in kept.glob("*.run.gz")} == {"short.run.gz", "long.run.gz"}


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
def test_commands_end_with_the_process_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "msshift").write_text("#!/bin/sh\necho $$\nexec sleep 600\n", "utf-8")
    (tmp_path / "msshift").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    program = "from scripts.experiments.carrying_out import run\nrun('build')"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": path}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) != parent.pid
        parent.send_signal(signal.SIGKILL)
        # The command holds the other end of the pipe, too: it is closed once both have ended.
        assert parent.stdout.read() == b""
