"""Several processes that train one model: what the others wait for, leave alone, and refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import Run, open_system, pretrain_encoder
from msshift_bench.baselines.training import trainer
from msshift_bench.data import open_collection
from msshift_bench.errors import UsageError
from tests.conftest import Build, Command
from tests.support.bare_runs import bare_run


def run_of(work: Path, **changes: Any) -> Run:
    """Return a run of a bi-encoder in a folder."""
    system = open_system("bi-encoder", "mini", changes)
    return bare_run(open_collection("mini:300"), work, system=system)


def test_waiting_ends_with_what_is_waited_for_or_with_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "_PAUSE", 0)
    looks = iter((False, False, True))
    assert not trainer.wait_for(tmp_path / "triples", lambda: next(looks))
    assert next(looks, None) is None
    (tmp_path / "triples").mkdir()
    assert trainer.wait_for(tmp_path / "triples", lambda: True)


def test_a_process_that_follows_makes_nothing_where_the_run_is_made_already(tmp_path: Path) -> None:
    run = run_of(tmp_path / "work")
    run.is_complete = lambda: True  # type: ignore[method-assign]
    run.system.follow(run)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["1", "", "first"])
def test_a_rank_without_a_number_of_processes_is_that_of_no_launcher(
    msshift: Command, build_once: Build, tmp_path: Path, rank: str
) -> None:
    data = build_once("mini:300", "length")
    done = msshift("run", "bm25", "--shift", "length", "--data", data, RANK=rank)
    assert (done.returncode, done.stdout) == (0, "runs/bm25/length.run.gz\n"), done.stderr
    assert (tmp_path / "runs" / "bm25" / "length.run.gz").is_file()


@pytest.mark.neural
def test_what_trains_in_one_process_is_refused_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mined, plain = run_of(tmp_path, negatives="mined"), run_of(tmp_path)
    (mined.work / "model").mkdir()
    mined.system.check(mined)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="'mined' trains in one process; leave accelerate or torc"):
        mined.system.check(mined)
    plain.system.check(plain)
    with pytest.raises(UsageError, match=r"pre-training runs in one process, .*; start it without"):
        pretrain_encoder("mini:300", out=tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()
