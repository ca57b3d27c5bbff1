"""Pickled weights are refused by everything that loads a model, and none of them is opened."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.errors import DataError, MsShiftError
from tests.support.tiny_models import KINDS, save_tiny_models

pytestmark = [pytest.mark.neural, pytest.mark.slow]


class Trap:
    """Runs what its author wrote when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.sprung,)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny_models(folder)
    return folder


def pickled(model: Path, folder: Path) -> Path:
    """Copy a model, with traps in place of its weights."""
    import torch

    shutil.copytree(model, folder)
    weights = list(folder.rglob("*.safetensors"))
    assert weights
    for file in weights:
        file.unlink()
        torch.save(Trap(folder / "sprung"), file.with_name("pytorch_model.bin"))
    return folder


def loaders() -> dict[str, tuple[str, Callable[[Path], Any]]]:
    """Return what loads a model -> the model that it takes, and the function."""
    from msshift_bench.baselines import open_system
    from msshift_bench.baselines.pretraining_tasks import load_learner
    from msshift_bench.baselines.systems.finding import neural_systems
    from msshift_bench.baselines.training.backbones import load_backbone
    from msshift_bench.encoders import OWN, EncoderSpec, embed_queries

    recipe = open_system("monobert", "mini")
    query = {"1": "what is it"}
    found: dict[str, tuple[str, Callable[[Path], Any]]] = {
        f"model of {kind}": (f"my-{kind}", neural_systems()[kind].load_model) for kind in KINDS
    }
    found["backbone"] = "bert", lambda where: load_backbone(recipe, where)
    found["learner"] = "bert", lambda where: load_learner(where, None)  # type: ignore[arg-type]
    found["monoT5's start"] = (
        "start-monot5",
        lambda where: open_system("monot5", "mini").new_model(where),
    )
    for pooling, model in (("cls", "bert"), (OWN, "my-bi-encoder")):
        found[f"queries, {pooling}"] = (
            model,
            lambda where, pooling=pooling: embed_queries(
                query, EncoderSpec(str(where), pooling=pooling), cache=where.parent / "cache"
            ),
        )
    return found


def test_every_loader_refuses_pickles_unopened(models: Path, tmp_path: Path) -> None:
    import torch

    load = torch.load
    for name, (model, loader) in loaders().items():
        where = pickled(models / model, tmp_path / name)
        with pytest.raises(DataError, match="is a pickle") as raised:
            loader(where)
        assert "torch.load(sys.argv[1], weights_only=True)" in str(raised.value), name
        assert not (where / "sprung").exists(), name
    assert torch.load is load


def test_the_conversion_that_the_error_gives_is_right(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from safetensors.torch import load_file

    from msshift_bench.baselines.systems.finding import neural_systems

    folder = tmp_path / "converted"
    shutil.copytree(models / "my-splade", folder)
    (weights,) = folder.rglob("*.safetensors")
    held = load_file(weights)
    weights.unlink()
    torch.save(held, weights.with_name("pytorch_model.bin"))
    load = neural_systems()["splade"].load_model
    with pytest.raises(DataError) as raised:
        load(folder)
    _, _, code, *arguments = shlex.split(str(raised.value).split("convert it once: ")[1])
    monkeypatch.setattr(sys, "argv", ["-c", *arguments])
    exec(code, {})
    found = load(folder).state_dict()
    expected = load(models / "my-splade").state_dict()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_pickles_of_the_hub_are_refused(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    from msshift_bench.baselines.systems.finding import neural_systems

    hub = tmp_path / "hub" / "models--someone--model"
    pickled(models / "my-bi-encoder", hub / "snapshots" / "0123")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("0123")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(MsShiftError, match="hf download someone/model") as raised:
        neural_systems()["bi-encoder"].load_model("someone/model")
    assert isinstance(raised.value, DataError)
    assert not list(hub.rglob("sprung"))
    assert "DISABLE_SAFETENSORS_CONVERSION" not in os.environ
