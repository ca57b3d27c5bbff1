"""Encoders that cannot be used: cut off, of another kind, incomplete, or pickled."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from msshift_bench.baselines import find_systems, open_system
from msshift_bench.baselines.pretraining_tasks import load_learner
from msshift_bench.encoders import OWN, EncoderSpec, embed_queries
from msshift_bench.errors import DataError, NotFoundError, UsageError
from tests.support.tiny_models import KINDS

pytestmark = pytest.mark.neural

Use = Callable[[Path], object]


def embed(folder: Path, pooling: str = "cls") -> None:
    embed_queries({"1": "what"}, EncoderSpec(str(folder), pooling), cache=folder.parent / "cache")


def cut(name: str, folder: Path) -> None:
    os.truncate(folder / name, (folder / name).stat().st_size // 2)


def remove(pattern: str, folder: Path) -> None:
    for path in folder.glob(pattern):
        path.unlink()


def write(name: str, folder: Path, text: str = "{") -> None:
    (folder / name).write_text(text)


def change(name: str, folder: Path, **values: object) -> None:
    write(name, folder, json.dumps({**json.loads((folder / name).read_text()), **values}))


CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer_config.json"
SETTINGS = "config_sentence_transformers.json"

SPOILT: list[tuple[str, Use, str]] = [
    ("bert", partial(cut, WEIGHTS), "cannot be loaded: .*header"),
    ("bert", partial(cut, CONFIG), "cannot be loaded: .*not a valid JSON"),
    ("bert", partial(change, CONFIG, hidden_size=32), "cannot be loaded: .*mismatch"),
    ("bert", partial(change, CONFIG, hidden_size="16"), "cannot be loaded: .*hidden_size"),
    ("bert", partial(change, CONFIG, model_type="no"), "cannot be loaded: .* type `no`"),
    ("bert", partial(remove, CONFIG), "has no config.json: give a folder"),
    ("bert", partial(remove, WEIGHTS), "has no weights as safetensors: give a folder"),
    ("bert", partial(remove, "tokenizer*"), "has no tokenizer: give a folder"),
    pytest.param(
        *("bert", partial(change, TOKENIZER, tokenizer_class="CanineTokenizer"), "no fast tokeniz"),
        marks=pytest.mark.extended,
    ),
    ("bert", partial(change, TOKENIZER, model_max_length=9), "must be at most 9, .* got 64"),
    ("bert", partial(change, CONFIG, num_hidden_layers=3), "lacks .* weights .*, e.g. encoder"),
    ("bert", partial(write, CONFIG, text='{"model_type": "t5"}'), "has a decoder: give a model"),
    ("bert", shutil.rmtree, r"no encoder '.*': there is no such folder, .* --encoder terms"),
    ("my-bi-encoder", partial(cut, WEIGHTS), "cannot be loaded: .*header"),
    ("my-bi-encoder", partial(write, "modules.json"), "cannot be loaded: Expecting"),
    ("my-bi-encoder", partial(remove, f"1_Pooling/{CONFIG}"), "cannot be loaded: Pooling"),
    ("my-bi-encoder", partial(write, SETTINGS), "cannot be loaded: Expecting"),
]


@pytest.mark.parametrize(("name", "spoil", "words"), SPOILT)
def test_an_encoder_that_cannot_be_used_is_refused(
    name: str,
    spoil: Use,
    words: str,
    tiny_models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    folder = Path(shutil.copytree(tiny_models / name, tmp_path / "spoilt"))
    spoil(folder)
    with pytest.raises((UsageError, NotFoundError, DataError), match=words) as raised:
        embed(folder, "cls" if name == "bert" else OWN)
    assert f"{folder}" in str(raised.value)
    assert "\n" not in str(raised.value)


# ---- pickled weights are refused by everything that loads a model, and none is opened ---------


class Trap:
    """Runs what its author wrote when it is unpickled."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.sprung,)


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


def load(kind: str, where: Path | str) -> Any:
    system: Any = find_systems()[kind]
    return system.load_model(where)


def begin(name: str, where: Path) -> Any:
    system: Any = open_system(name, "mini")
    return system.new_model(where)


LOADERS: list[tuple[str, Use]] = [
    *((f"my-{kind}", partial(load, kind)) for kind in KINDS),
    ("bert", partial(begin, "bi-encoder")),
    ("bert", lambda where: load_learner(where, cast("Any", None))),
    ("start-monot5", partial(begin, "monot5")),
    ("bert", embed),
    ("my-bi-encoder", partial(embed, pooling=OWN)),
]


@pytest.mark.parametrize(("model", "loader"), LOADERS)
def test_every_loader_refuses_pickles_unopened(
    model: str, loader: Use, tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    load = torch.load
    monkeypatch.setenv("DISABLE_SAFETENSORS_CONVERSION", "no")
    folder = pickled(tiny_models / model, tmp_path / "model")
    with pytest.raises(
        DataError, match=r"is a pickle, .*torch\.load\(sys\.argv\[1\], weights_only=T"
    ):
        loader(folder)
    assert not (folder / "sprung").exists()
    assert torch.load is load
    assert os.environ["DISABLE_SAFETENSORS_CONVERSION"] == "no"


def test_the_conversion_that_the_error_gives_is_right(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from safetensors.torch import load_file

    folder = Path(shutil.copytree(tiny_models / "my-splade", tmp_path / "converted"))
    (weights,) = folder.rglob("*.safetensors")
    held = load_file(weights)
    weights.unlink()
    torch.save(held, weights.with_name("pytorch_model.bin"))
    with pytest.raises(DataError) as raised:
        load("splade", folder)
    _, _, code, *arguments = shlex.split(str(raised.value).split("convert it once: ")[1])
    monkeypatch.setattr(sys, "argv", ["-c", *arguments])
    exec(code, {})
    load("splade", folder)
    found = load_file(weights)
    assert found.keys() == held.keys()
    assert all(torch.equal(found[name], value) for name, value in held.items())


def test_pickles_of_the_hub_are_refused(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = tmp_path / "hub" / "models--someone--model"
    pickled(tiny_models / "my-bi-encoder", hub / "snapshots" / "0123")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="hf download someone/model"):
        load("bi-encoder", "someone/model")
    assert not list(hub.rglob("sprung"))
    assert "DISABLE_SAFETENSORS_CONVERSION" not in os.environ
