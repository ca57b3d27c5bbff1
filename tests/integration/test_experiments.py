"""The experiments' plans: what each trains, on which data, from which start."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench.baselines.registry import ARCHITECTURES
from msshift_bench.errors import UnknownNameError
from msshift_bench.shifts import get_shift
from scripts.experiments.carrying_out import Place, main, trainings
from scripts.experiments.plans import load, names

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", names())
def test_a_plan_is_one_that_can_be_carried_out(name: str) -> None:
    plan = load(name)
    (shift,) = plan.data.shifts
    groups = get_shift(shift).groups
    assert set(plan.systems) <= set(ARCHITECTURES)
    assert set(plan.held_out) <= set(groups)
    todo = trainings(plan)
    models = len(plan.systems) * len(plan.starts) * (len(plan.held_out) or len(groups))
    assert len(todo) == len(set(todo)) == models * plan.seeds
    # A seed is complete before the next begins, so that an unfinished experiment is balanced.
    assert [training.seed for training in todo] == sorted(training.seed for training in todo)
    recipes = REPOSITORY / "baselines" / "recipes"
    for start in {*plan.starts, *plan.quick.starts} - {"random"}:
        assert (recipes / f"pretrain-{start}.toml").is_file()
    for system in plan.systems:
        assert (recipes / f"{system}-pool.toml").is_file()


def test_experiments_share_runs_only_if_nothing_differs() -> None:
    place = Place("pool", None, Path("work"), "pool")
    folders = {name: place.runs(load(name)) for name in names()}
    assert folders["starts"] == folders["length"]
    assert len(set(folders.values())) == len(folders) - 1
    runs = {(training.name, training.start) for training in trainings(load("starts"))}
    assert ("colbert-random", "random") in runs
    assert ("colbert", "pool") in runs
    assert len(runs) == 10


def test_what_a_user_types_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownNameError, match="topics"):
        load("topic")
    with pytest.raises(SystemExit) as end:
        main(["topic"])
    assert end.value.code == 2
    assert "topics" in capsys.readouterr().err
    assert main(["length", "--collection", "pool"]) == 2
    assert "--test-queries the file" in capsys.readouterr().err
