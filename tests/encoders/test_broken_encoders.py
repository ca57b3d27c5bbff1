"""Encoders that are cut off, of another kind, or whose files do not fit together: one sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.encoders import OWN, EncoderSpec, embed_queries
from msshift_bench.errors import UsageError
from tests.support.tiny_encoder import make_tiny_encoder

pytestmark = pytest.mark.neural

LENGTH = 24
QUERIES = {"1": "what is it", "2": "who is it"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of a tiny BERT and of models on it that compare by cosine and by dot."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("models")
    make_tiny_encoder(folder / "bert", QUERIES.values(), length=LENGTH, layers=1, hidden=16)
    for similarity in ("cosine", "dot"):
        parts = [Transformer(str(folder / "bert"), max_seq_length=LENGTH), Pooling(16, "mean")]
        model = SentenceTransformer(modules=parts, device="cpu", similarity_fn_name=similarity)
        model.save_pretrained(str(folder / similarity), create_model_card=False)
    return folder


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_tokenizer_json(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CanineTokenizer"}')


def as_t5(folder: Path) -> None:
    from transformers import T5Config, T5Model

    shape = {"vocab_size": 20, "d_model": 16, "d_kv": 8, "d_ff": 16}
    T5Model(T5Config(**shape, num_layers=1, num_heads=2)).save_pretrained(folder)


BERT: list[tuple[Callable[[Path], Any], str]] = [
    (lambda bert: cut(bert / "model.safetensors"), "cannot be loaded: .*header"),
    (lambda bert: cut(bert / "config.json"), "cannot be loaded: .*not a valid JSON"),
    (lambda bert: change(bert / "config.json", hidden_size=32), "cannot be loaded: .*mismatch"),
    (lambda bert: change(bert / "config.json", model_type="no"), "cannot be loaded: .* type `no`"),
    (without_tokenizer_json, r"has no fast tokenizer \(tokenizer\.json\)"),
    (as_t5, "is an encoder with a decoder; only encoders can be used"),
]


@pytest.mark.parametrize(("spoil", "words"), BERT)
def test_an_encoder_that_cannot_be_used_is_refused(
    spoil: Callable[[Path], Any], words: str, models: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(models / "bert", tmp_path / "spoilt"))
    spoil(folder)
    spec = EncoderSpec(str(folder), max_length=LENGTH)
    with pytest.raises(UsageError, match=f"spoilt {words}") as raised:
        embed_queries(QUERIES, spec, cache=tmp_path / "cache")
    assert "\n" not in str(raised.value)


OWN_MODEL: list[tuple[Callable[[Path], Any], str]] = [
    (lambda own: cut(own / "model.safetensors"), "cannot be loaded: .*header"),
    (lambda own: (own / "modules.json").write_text("{"), "cannot be loaded: Expecting"),
    (lambda own: (own / "1_Pooling" / "config.json").unlink(), "cannot be loaded: Pooling"),
    (
        lambda own: (own / "config_sentence_transformers.json").write_text("{"),
        "cannot be loaded: Expecting",
    ),
    (
        lambda own: change(own / "config_sentence_transformers.json", model_type="SparseEncoder"),
        "is a SparseEncoder, which does not give a query one dense vector; take the model of a",
    ),
]


@pytest.mark.parametrize(("spoil", "words"), OWN_MODEL)
def test_a_sentence_model_that_cannot_be_used_is_refused(
    spoil: Callable[[Path], Any], words: str, models: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(models / "dot", tmp_path / "spoilt"))
    spoil(folder)
    with pytest.raises(UsageError, match=f"spoilt {words}"):
        embed_queries(QUERIES, EncoderSpec(str(folder), pooling=OWN), cache=tmp_path / "cache")


def test_queries_of_a_model_that_compares_by_cosine_have_length_1(
    models: Path, tmp_path: Path
) -> None:
    def of(name: str) -> Any:
        spec = EncoderSpec(str(models / name), pooling=OWN)
        return embed_queries(QUERIES, spec, cache=tmp_path / "cache").vectors

    lengths = np.linalg.norm(of("dot"), axis=1, keepdims=True)
    assert (lengths > 1.5).all()
    np.testing.assert_allclose(of("cosine"), of("dot") / lengths, atol=1e-6)
    # Models from before they said of which kind they are give dense vectors.
    older = Path(shutil.copytree(models / "dot", tmp_path / "older"))
    (older / "config_sentence_transformers.json").unlink()
    found = embed_queries(QUERIES, EncoderSpec(str(older), pooling=OWN), cache=tmp_path / "cache")
    assert found.vectors.shape == (2, 16)


def test_models_that_differ_in_a_part_behind_the_transformer_are_different_encoders(
    models: Path, tmp_path: Path
) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = SentenceTransformer(str(models / "dot"), device="cpu")
        model.append(Dense(16, 8))
        folder = tmp_path / f"dense-{seed}"
        model.save_pretrained(str(folder), create_model_card=False)
        spec = EncoderSpec(str(folder), pooling=OWN)
        found.append(embed_queries(QUERIES, spec, cache=tmp_path / "cache"))
        own = model.encode_query(list(QUERIES.values()), show_progress_bar=False)
        np.testing.assert_allclose(found[-1].vectors, own, atol=1e-5)
    assert found[0].facts["encoder_sha256"] != found[1].facts["encoder_sha256"]


def test_all_parts_of_a_sentence_model_are_fetched_from_the_hub(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    from msshift_bench.encoders import models as encoder_models

    model = SentenceTransformer(str(models / "dot"), device="cpu")
    model.append(Dense(16, 8))
    hub = tmp_path / "hub"
    model.save_pretrained(str(hub), create_model_card=False)

    def download(name: str, *, allow_patterns: list[str]) -> str:
        names = [path.relative_to(hub).as_posix() for path in hub.rglob("*") if path.is_file()]
        for one in filter_repo_objects(names, allow_patterns=allow_patterns):
            (tmp_path / name / one).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(hub / one, tmp_path / name / one)
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(encoder_models, "ask_only_if_it_answers", lambda *_: None)
    found = embed_queries(QUERIES, EncoderSpec("org/own", pooling=OWN), cache=tmp_path / "cache")
    assert found.vectors.shape == (2, 8)
