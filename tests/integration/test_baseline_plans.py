"""Plans (``--dry-run``) say what the run itself would say, and the runs of two recipes by name."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.tiny_recipes import tiny_recipe
from msshift_bench.baselines.driver import plan_baseline, run_baseline
from msshift_bench.baselines.estimates import Estimate
from msshift_bench.baselines.shift_data import ShiftData
from msshift_bench.errors import DataError, UsageError
from msshift_bench.runs import find_run_sets
from tests.conftest import Build, Command
from tests.support.run_files import read_run, sidecar

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
    return [planned.state for planned in plan_baseline("bm25", **request)]


# ---- a plan checks what the run checks ------------------------------------------------------


def test_a_plan_refuses_runs_of_another_request(given: dict[str, Any]) -> None:
    (run,) = run_baseline("bm25", **given)
    assert states(**given) == ["complete"]
    for refuse in (plan_baseline, run_baseline):
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
    (made,) = run_baseline("bm25", **{**given, "out": tmp_path / "other"})
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
            run_baseline("bm25", **given)
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
    for refuse in (plan_baseline, run_baseline):
        with pytest.raises(UsageError, match=r"long\.run\.gz exists, and nothing says"):
            refuse("bi-encoder", **given)
    assert [path.name for path in (tmp_path / "runs").rglob("*") if path.is_file()] == [last.name]


@pytest.mark.neural
def test_a_plan_refuses_to_train_on_test_queries(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShiftData, "split", lambda self, group, _: self.tests[group or "short"])
    with pytest.raises(DataError, match="training queries of length-short are test queries of"):
        plan_baseline("bi-encoder", **given)


@pytest.mark.neural
@pytest.mark.slow
def test_a_dry_run_says_what_is_left(data: Path, tmp_path: Path, msshift: Command) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    request = ("baseline", "run", "bi-encoder", "--data", data, "--recipe", "tiny.toml")
    plan = [*request, "--seeds", "1,2", "--dry-run"]

    done = msshift(*plan, "--json")
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)
    assert [(one["run"], one["state"], one["estimate"]["steps"]) for one in planned] == [
        (f"runs/bi-encoder/length/seed-{seed}/{group}.run.gz", "new", 2)
        for seed in (1, 2)
        for group in ("short", "long")
    ]
    assert all(one["estimate"]["seconds"] > 0 for one in planned)
    weights = 4 * 16 * 16 + 2 * 16 * 32 + 500 * 16
    assert planned[0]["estimate"]["bytes"] == 300 * 16 * 4 + 11 * 4 * weights
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
    for line in done.stdout.splitlines():
        what_it_takes = (
            "" if line.startswith("complete") else "  2 steps, estimated 0 s, 0.0 GB of disk"
        )
        assert line.endswith(f".run.gz{what_it_takes}")
    assert done.stderr == (
        "3 of 4 runs to make; a rough estimate is 0 s here, plus starting and reading\n"
    )


@pytest.mark.neural
def test_a_plan_without_the_encoder_says_so(data: Path, tmp_path: Path) -> None:
    planned = plan_baseline(
        "splade",
        ["length"],
        data=data,
        collection=COLLECTION,
        out=tmp_path,
        recipe="paper",
        encoder=str(tmp_path / "nowhere"),
        precision="fp32",
    )
    assert [one.estimate for one in planned] == [Estimate(100_000)] * 2
    assert all(one.lacks and one.lacks.startswith("no encoder ") for one in planned)


def test_a_plan_of_what_is_not_trained(data: Path, tmp_path: Path) -> None:
    (one,) = plan_baseline("bm25", ["length"], data=data, collection=COLLECTION, out=tmp_path)
    assert (one.state, one.estimate) == ("new", None)


# ---- names of recipes' own -------------------------------------------------------------------


def test_two_recipes_of_a_system_stand_side_by_side(
    data: Path, tmp_path: Path, msshift: Command
) -> None:
    command = ("baseline", "run", "bm25", "--data", data)
    for more in ((), ("--k1", "1.2", "--name", "bm25-k1.2")):
        done = msshift(*command, *more)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "runs/bm25-k1.2/length.run.gz\n"
    assert "bm25-k1.2 on length: made in " in done.stderr
    found = {run_set.system: run_set.single for run_set in find_run_sets([tmp_path / "runs"])}
    assert list(found) == ["bm25", "bm25-k1.2"]
    for name, run in found.items():
        assert run is not None
        assert {tag for lines in read_run(run).values() for *_, tag in lines} == {name}
        said = sidecar(run)
        assert (said["system"], said["baseline"], said["tag"]) == (name, "bm25", name)
    assert sidecar(tmp_path / "runs" / "bm25-k1.2" / "length.run.gz")["parameters"]["k1"] == 1.2
    done = msshift(*command, "--k1", "1.5", "--name", "bm25-k1.2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "k1 1.2 instead of 1.5. Choose another --out or --name, or remove" in done.stderr


@pytest.mark.neural
@pytest.mark.slow
def test_the_tag_of_a_named_recipe_says_its_name_and_seed(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    (run,) = run_baseline(
        "bi-encoder", **given, recipe=tmp_path / "tiny.toml", name="mine", held_out=["short"]
    )
    assert run == tmp_path / "mine" / "length" / "short.run.gz"
    assert sidecar(run)["tag"] == "mine-tiny-seed5"


@pytest.mark.parametrize("name", ["", ".", "a/b", "a b", ".hidden", "length"])
def test_names_that_no_folder_of_a_system_has(given: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a system's name: it names its folder and"):
        run_baseline("bm25", **given, name=name)
