"""Plans (``--dry-run``) say what the run itself would say, and the runs of two recipes by name."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.baselines.training import training_data
from msshift_bench.errors import DataError, UsageError
from msshift_bench.runs import find_run_sets
from tests.conftest import Build, Command
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import read_run, sidecar
from tests.support.tiny_recipes import tiny_recipe

COLLECTION = "mini:300"

RECIPE = tiny_recipe(
    "bi-encoder", steps=2, warmup_steps=0, schedule="constant", search={"depth": 5}
)


@pytest.fixture(scope="session")
def data(build_once: Build) -> Path:
    return build_once(COLLECTION, "length")


@pytest.fixture
def given(data: Path, tmp_path: Path) -> dict[str, Any]:
    return {"shifts": ["length"], "data": data, "collection": COLLECTION, "out": tmp_path}


def states(**request: Any) -> list[str]:
    """Return the states of BM25's runs, as a plan gives them."""
    return [run.state() for run in plan_runs("bm25", **request)]


# ---- a plan checks what the run checks ------------------------------------------------------


def test_a_plan_refuses_runs_of_another_request(given: dict[str, Any]) -> None:
    (run,) = make_runs("bm25", **given)
    assert states(**given) == ["complete"]
    for refuse in (plan_runs, make_runs):
        with pytest.raises(UsageError, match=r"length\.run\.json differs .*: k1 0.82 instead of 1"):
            refuse("bm25", k1=1.0, **given)
    run.write_bytes(b"another")
    with pytest.raises(UsageError, match=r"is not the run that length\.run\.json describes"):
        states(**given)
    run.with_name("length.run.json").unlink()
    with pytest.raises(UsageError, match="nothing says what made it; choose another --out or --na"):
        states(**given)
    with pytest.raises(UsageError, match="is a built data set, not a folder of run sets"):
        states(**{**given, "out": given["data"]})


def test_a_plan_tells_work_that_was_begun_from_work_of_another_process(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (made,) = make_runs("bm25", **{**given, "out": tmp_path / "other"})
    work = tmp_path / ".work" / "bm25" / "length" / "all"
    work.mkdir(parents=True)
    plan = sidecar(made)
    (work / "plan.json").write_text(json.dumps(plan))
    assert states(**given) == ["begun"]
    descriptor = os.open(work, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert states(**given) == ["running"]
        with pytest.raises(UsageError, match="another process is writing"):
            make_runs("bm25", **given)
    finally:
        os.close(descriptor)
    (work / "plan.json").write_text(json.dumps({**plan, "edition": "official-2022"}))
    with pytest.raises(UsageError, match=r"plan\.json differs .* edition"):
        states(**given)


@pytest.mark.neural
def test_everything_is_checked_before_anything_is_made(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    given |= {"recipe": tmp_path / "tiny.toml", "out": tmp_path / "runs"}
    last = tmp_path / "runs" / "bi-encoder" / "length" / "long.run.gz"
    last.parent.mkdir(parents=True)
    last.write_bytes(b"precious")
    for refuse in (plan_runs, make_runs):
        with pytest.raises(UsageError, match=r"long\.run\.gz exists, and nothing says"):
            refuse("bi-encoder", **given)
    assert [path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()] == [last.name]


@pytest.mark.neural
def test_a_seed_that_cannot_fill_its_batches_fails_before_anything_is_trained(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    given |= {"recipe": tmp_path / "tiny.toml", "out": tmp_path / "runs"}
    plan_batches = training_data.plan_batches

    def shared(*arguments: Any, seed: int, **options: Any) -> Any:
        if seed == 2:
            raise DataError("no batch of 8 can be made")
        return plan_batches(*arguments, seed=seed, **options)

    with monkeypatch.context() as patched:
        patched.setattr(training_data, "plan_batches", shared)
        with pytest.raises(DataError, match="no batch of 8 can be made"):
            make_runs("bi-encoder", seeds=[1, 2], **given)
    with pytest.raises(DataError, match="training examples are fewer than a batch of 4096"):
        make_runs("bi-encoder", batch_size=4096, **given)
    assert not (tmp_path / "runs").exists()


@pytest.mark.neural
def test_a_plan_refuses_to_train_on_test_queries(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShiftData, "split", lambda self, group, _: self.tests[group or "short"])
    with pytest.raises(DataError, match="training queries of length-short are test queries of"):
        plan_runs("bi-encoder", **given)


@pytest.mark.neural
@pytest.mark.slow
def test_a_dry_run_says_what_is_left(data: Path, tmp_path: Path, msshift: Command) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    request = ("run", "bi-encoder", "--data", data, "--recipe", "tiny.toml")
    plan = [*request, "--seeds", "1,2", "--dry-run"]

    done = msshift(*plan, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [(one["run"], one["state"]) for one in json.loads(done.stdout)] == [
        (f"runs/bi-encoder/length/seed-{seed}/{group}.run.gz", "new")
        for seed in (1, 2)
        for group in ("short", "long")
    ]
    assert not (tmp_path / "runs").exists()

    made = msshift(*request, "--seeds", "1", "--held-out", "long")
    assert made.returncode == 0, made.stderr
    assert "evaluate with: msshift evaluate runs --data " in made.stderr
    assert made.stderr.rstrip().endswith("--allow partial"), "short is not there yet"
    said = sidecar(tmp_path / "runs" / "bi-encoder" / "length" / "seed-1" / "long.run.gz")
    said["held_out"], said["parameters"]["seed"] = "short", 2
    work = tmp_path / "runs" / ".work" / "bi-encoder" / "length" / "seed-2" / "short"
    work.mkdir(parents=True)
    (work / "plan.json").write_text(json.dumps(said))
    done = msshift(*plan)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "new", "complete", "begun", "new",
    ]  # fmt: skip
    assert all(line.endswith(".run.gz") for line in done.stdout.splitlines())
    assert done.stderr == "3 of 4 runs to make\n"


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


# ---- names of recipes' own -------------------------------------------------------------------


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


@pytest.mark.neural
@pytest.mark.slow
def test_the_tag_of_a_named_recipe_says_its_name_and_seed(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    (run,) = make_runs(
        "bi-encoder", **given, recipe=tmp_path / "tiny.toml", name="mine", held_out=["short"]
    )
    assert run == tmp_path / "mine" / "length" / "short.run.gz"
    assert sidecar(run)["tag"] == "mine-tiny-seed5"


@pytest.mark.parametrize("name", ["", ".", "a/b", "a b", ".hidden", "length"])
def test_names_that_no_folder_of_a_system_has(given: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a system's name: it names its folder and"):
        make_runs("bm25", **given, name=name)
