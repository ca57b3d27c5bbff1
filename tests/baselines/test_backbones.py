"""Encoders that systems start from: made at random, read from a folder, and what is refused."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import find_systems, open_system
from msshift_bench.baselines.systems import sidecars
from msshift_bench.baselines.systems.finding import _SETTINGS, kind_of_model
from msshift_bench.baselines.systems.recipe import RandomEncoder
from msshift_bench.baselines.systems.sidecars import Facts, read_json
from msshift_bench.baselines.training import backbones
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.mini.generator import passages

pytestmark = pytest.mark.neural

TEXTS = [passage.text for passage in passages(100)]


def test_word_pieces_are_the_same_in_every_process() -> None:
    script = (
        "import json; from msshift_bench.baselines.training.backbones import learn_word_pieces; "
        "from msshift_bench.mini.generator import passages; "
        "learnt = learn_word_pieces((p.text for p in passages(600)), 1500); "
        "print(json.dumps(learnt.get_vocab(), sort_keys=True))"
    )
    command = [sys.executable, "-c", script]
    vocabularies = [subprocess.check_output(command, text=True, timeout=100) for _ in range(2)]
    assert vocabularies[0] == vocabularies[1]
    assert sorted(json.loads(vocabularies[0]).values()) == list(range(1500))


def test_word_pieces_cover_what_they_were_learnt_from() -> None:
    tokenizer = backbones.learn_word_pieces(TEXTS, 800)
    for text in TEXTS:
        pieces = tokenizer.encode(text)
        assert "[UNK]" not in pieces.tokens
        assert (pieces.tokens[0], pieces.tokens[-1]) == ("[CLS]", "[SEP]")
        decoded = tokenizer.decode(pieces.ids)
        assert decoded.replace(" ", "") == text.lower().replace(" ", "")


@pytest.mark.parametrize("matching", [True, False])
def test_with_the_prior_a_word_attends_to_itself_in_the_other_text(
    tmp_path: Path, matching: bool
) -> None:
    import torch
    import transformers

    sizes = {"layers": 1, "hidden": 64, "heads": 1, "inner": 64, "vocabulary": 900}
    shape = RandomEncoder(**sizes, dropout=0.0, initial=0.5, matching=matching)
    backbones.make_random_encoder(tmp_path / "made", shape, TEXTS, length=64, seed=5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    model = transformers.BertForMaskedLM.from_pretrained(tmp_path / "made", dtype=torch.float32)
    layer = model.bert.encoder.layer[0].attention.self
    ids = tokenizer(*TEXTS[:2], truncation=True, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        states = model.bert.embeddings(ids)[0]
        logits = layer.query(states) @ layer.key(states).T
    same = ids[0][:, None] == ids[0][None, :]
    others = same & ~torch.eye(len(ids[0]), dtype=torch.bool)
    assert others.any()
    gain = float(logits[others].mean() - logits[~same].mean())
    spread = float(logits[~same].std())
    assert (gain > 3 * spread) == matching, (gain, spread)


def test_an_encoder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    recipe: Any = open_system("bi-encoder", "mini")
    with pytest.raises(NotFoundError, match=rf"no encoder {tmp_path}/none: there is no such"):
        recipe.new_model(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(NotFoundError, match=rf"no encoder .* from the folder {tmp_path}: .*model"):
        recipe.new_model(tmp_path)


@pytest.mark.parametrize("name", ["bi-encoder", "splade", "colbert", "monobert"])
def test_a_model_whose_weights_are_cut_off_is_named(
    name: str, tiny_models: Path, tmp_path: Path
) -> None:
    system: Any = find_systems()[name]
    folder = tmp_path / "model"
    shutil.copytree(tiny_models / f"my-{name}", folder)
    system.load_model(folder)
    weights = next(folder.rglob("model.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(NotFoundError, match=f"no model can be loaded from the folder {folder}: "):
        system.load_model(folder)


def test_weights_that_a_training_lost_are_refused() -> None:
    import torch

    model = torch.nn.Linear(2, 2)
    backbones.check_finite_weights(model, "a bi-encoder")
    with torch.no_grad():
        model.bias[1] = torch.nan
    with pytest.raises(DataError, match="the weights of a bi-encoder are not finite any more; try"):
        backbones.check_finite_weights(model, "a bi-encoder")
    # Weights of 16 bits have a digest, and it is another.
    digest = backbones.weights_digest(model)
    assert backbones.weights_digest(model.to(torch.bfloat16)) != digest


def test_a_sidecar_names_the_versions_of_the_libraries_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package: str) -> str:
        if package != "numpy":
            raise PackageNotFoundError(package)
        return "1.2.3"

    monkeypatch.setattr(sidecars, "version", version)
    versions = {"python": platform.python_version(), "numpy": "1.2.3"}
    assert Facts().circumstances({})["versions"] == versions


@pytest.mark.parametrize("content", ["{", "[]", '["Transformer"]', "[" * 100_000, "\x00"])
def test_what_is_no_json_of_a_model(tmp_path: Path, content: str) -> None:
    settings, modules = tmp_path / _SETTINGS, tmp_path / "modules.json"
    settings.write_text(content)
    with pytest.raises(UsageError, match=r"\.json is not a JSON object, as a model's"):
        kind_of_model(str(tmp_path))
    with pytest.raises(UsageError, match=r"\.json is not a JSON object"):
        read_json(settings)
    settings.write_text("{}")
    modules.write_text(content)
    with pytest.raises(UsageError, match=r"modules\.json does not name a model's modules as"):
        kind_of_model(str(tmp_path))
