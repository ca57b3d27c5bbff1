"""Several GPUs for one training: what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system, pretrain_encoder
from msshift_bench.data import open_collection
from msshift_bench.errors import MissingError, UsageError
from msshift_bench.libraries import torch
from tests.support.bare_runs import bare_run
from tests.support.making import plan_runs


@pytest.mark.neural
@pytest.mark.parametrize(
    ("gpus", "changes", "kind", "said"),
    [
        (3, {}, UsageError, r"a part of a batch holds 16 examples .* 3 GPUs cannot share evenly"),
        (2, {"negatives": "mined"}, UsageError, "'mined' trains on one GPU, and not on 2"),
        (4, {}, MissingError, "a training is to take 4 GPUs, and torch finds 2 here"),
    ],
)
def test_what_several_gpus_cannot_train_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    changes: dict[str, Any],
    kind: type[Exception],
    said: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    system = open_system("bi-encoder", "mini", changes)
    run = bare_run(open_collection("mini:300"), tmp_path, system=system, gpus=gpus)
    with pytest.raises(kind, match=said):
        system.check(run)


@pytest.mark.parametrize(("system", "gpus"), [("bm25", 2), ("bi-encoder", 0)])
def test_what_no_number_of_gpus_trains_is_refused(
    data: Path, tmp_path: Path, system: str, gpus: int
) -> None:
    with pytest.raises(UsageError, match=f"{system} cannot be trained on {gpus} GPUs"):
        plan_runs(system, [], collection="mini:300", data=data, out=tmp_path, gpus=gpus)


@pytest.mark.neural
def test_a_launcher_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"leave accelerate or torchrun away, and say how many"):
        pretrain_encoder("mini:300", out=tmp_path / "encoder")
    assert not (tmp_path / "encoder").exists()
