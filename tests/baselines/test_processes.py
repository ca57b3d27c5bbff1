"""Several processes that train one model: what the others wait for, leave alone, and refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Run, System, open_system
from msshift_bench.baselines.pretraining import pretrain_encoder
from msshift_bench.baselines.training import trainer
from msshift_bench.baselines.training.trainer import last_checkpoint, wait_for
from msshift_bench.data import open_collection
from msshift_bench.errors import UsageError
from tests.conftest import Build, Command
from tests.support.bare_runs import bare_run


def mini(**changes: Any) -> System:
    return open_system("bi-encoder", "mini", changes)


def run_of(system: System, work: Path) -> Run:
    return bare_run(open_collection("mini:300"), work, system=system)


def test_waiting_ends_with_what_is_waited_for_or_with_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "_PAUSE", 0)
    looks = iter((False, False, True))
    assert not wait_for(tmp_path / "triples", lambda: next(looks))
    assert next(looks, None) is None
    (tmp_path / "triples").mkdir()
    assert wait_for(tmp_path / "triples", lambda: True)


def test_a_process_that_follows_makes_nothing_where_the_run_is_made_already(tmp_path: Path) -> None:
    system, run = mini(), run_of(mini(), tmp_path / "work")
    run.is_complete = lambda: True  # type: ignore[method-assign]
    system.follow(run)
    assert not list(tmp_path.iterdir())


def test_only_the_first_process_removes_a_checkpoint_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (3, 6):
        (tmp_path / f"checkpoint-{step}").mkdir()
    (tmp_path / "checkpoint-3" / "trainer_state.json").write_text('{"global_step": 3}')
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, left in (("1", ["checkpoint-3", "checkpoint-6"]), ("0", ["checkpoint-3"])):
        monkeypatch.setenv("RANK", rank)
        last = last_checkpoint(tmp_path)
        assert last is not None
        assert (last.step, last.folder) == (3, tmp_path / "checkpoint-3")
        assert sorted(path.name for path in tmp_path.iterdir()) == left


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["1", "", "first"])
def test_a_rank_without_a_number_of_processes_is_that_of_no_launcher(
    msshift: Command, build_copy: Build, rank: str
) -> None:
    data = build_copy("mini:300", "length")
    (data.parent / "msshift.toml").write_text('data = "msshift"\n')
    done = msshift("run", "bm25", "--shift", "length", RANK=rank)
    assert (done.returncode, done.stdout) == (0, "runs/bm25/length.run.gz\n"), done.stderr
    assert (data.parent / "runs" / "bm25" / "length.run.gz").is_file()


@pytest.mark.neural
def test_what_trains_in_one_process_is_refused_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mined = mini(negatives="mined")
    trained = run_of(mined, tmp_path)
    (trained.work / "model").mkdir()
    mined.check(trained)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="'mined' trains in one process; leave accelerate or torc"):
        mined.check(trained)
    mini().check(trained)
    with pytest.raises(UsageError, match=r"pre-training runs in one process, .*; start it without"):
        pretrain_encoder("mini:300", out=tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()


@pytest.mark.neural
def test_the_precision_of_a_pretraining_can_be_replaced_by_one_that_exists(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="precision: unknown name 'fp8'; did you mean 'fp32'"):
        pretrain_encoder("mini:300", out=tmp_path / "encoder", changes={"precision": "fp8"})
