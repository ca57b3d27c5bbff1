"""Settings of encoders: vectors as by hand, in the cache's identity, in manifests, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench import engine
from msshift_bench.dataset_builders.topics import verify_topics
from msshift_bench.encoders import OWN, TERMS, EncoderSpec, ModelSettings, embed_queries, embeddings
from msshift_bench.encoders.models import EncoderSource
from msshift_bench.errors import UsageError
from tests.baselines.conftest import MINI
from tests.conftest import Command
from tests.support.tiny_encoder import make_tiny_encoder

QUERIES = {"1": "what is it", "2": "who is that old king"}
SOURCE = EncoderSource(Path("folder"), "0" * 64, {"torch": "2"})


@pytest.mark.parametrize(
    ("spec", "identity"),
    [
        (EncoderSpec("org/name"), "0baecf859cc8fd2cbf2e329ced023308"),
        (EncoderSpec("org/name", OWN), "c9e29388b2fec6068d2cb8f9944d700c"),
        (EncoderSpec(TERMS), "0724106515010fd21deaa2c6165fe60f"),
    ],
)
def test_default_settings_change_neither_identity_nor_facts(
    spec: EncoderSpec, identity: str
) -> None:
    """The digests are of a version that had no settings; cached embeddings stay in use."""
    rows = [("1", "what is it"), ("2", "who is it")]
    assert embeddings._identity(rows, spec, SOURCE)[:32] == identity
    assert "settings" not in embeddings._identifying_facts(spec, SOURCE)


def test_default_settings_change_no_digest_of_unfinished_blocks() -> None:
    block = embeddings._VectorBlock(
        spec=EncoderSpec(""),
        sha256="0" * 64,
        libraries=(("torch", "2"),),
        tokens=np.arange(4),
        lengths=np.array([2, 2]),
        encoder=None,
        address="anywhere",
    )
    expected = "6ebb375f706f0adf35edfc96b676f5d0cd7c0043c99d5c6890dba36313819168"
    assert engine._digest(embeddings._encode, block) == expected


def test_given_settings_are_facts_and_specs_stay_keys() -> None:
    spec = EncoderSpec("org/name", settings=ModelSettings(model_kwargs={"a": 1}, dtype="float16"))
    facts = embeddings._identifying_facts(spec, SOURCE)
    assert facts["settings"] == {"dtype": "float16", "model_kwargs": {"a": 1}}
    assert hash(spec) == hash(EncoderSpec("org/name", settings=spec.settings))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a ``bert``, and of a model of sentence-transformers, ``dot``."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    made = tmp_path_factory.mktemp("encoders")
    words = [passage.text for passage in MINI.passages()]
    make_tiny_encoder(made / "bert", [*words, *QUERIES.values(), "query :"], length=64, hidden=16)
    parts = [Transformer(str(made / "bert")), Pooling(16, "mean")]
    model = SentenceTransformer(modules=parts, device="cpu", similarity_fn_name="dot")
    model.save_pretrained(str(made / "dot"), create_model_card=False)
    return made


CASES: dict[str, dict[str, Any]] = {
    "prompt": {"query_prompt": "query: "},
    "truncated": {"truncate_dim": 5},
    "normalized after truncation": {"truncate_dim": 5, "normalize": True},
    "bfloat16": {"dtype": "bfloat16"},
}


@pytest.mark.every(2)
@pytest.mark.neural
@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
@pytest.mark.parametrize("pooling", [OWN, "mean"])
def test_vectors_are_as_by_hand(
    pooling: str, settings: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    import torch
    from sentence_transformers import SentenceTransformer

    name = str(folder / ("dot" if pooling == OWN else "bert"))
    plain, found = (
        embed_queries(QUERIES, EncoderSpec(name, pooling, settings=chosen), cache=tmp_path)
        for chosen in (ModelSettings(), ModelSettings(**settings))
    )
    model = SentenceTransformer(str(folder / "dot"), device="cpu")
    if "dtype" in settings:
        model.to(torch.bfloat16)
    by_hand = model.encode(
        list(QUERIES.values()),
        prompt=settings.get("query_prompt"),
        truncate_dim=settings.get("truncate_dim"),
        normalize_embeddings=settings.get("normalize", False),
        convert_to_tensor=True,
        show_progress_bar=False,
    )
    tolerance = 0.05 if "dtype" in settings else 1e-5
    np.testing.assert_allclose(found.vectors, by_hand.float().numpy(), atol=tolerance)
    assert found.facts["settings"] == settings
    assert found.sha256 != plain.sha256


@pytest.mark.neural
def test_topics_are_verified_with_their_settings(
    folder: Path, tmp_path: Path, msshift: Command
) -> None:
    encoder = "--encoder", folder / "dot", "--pooling", "own"
    chosen = "--encoder-set", "query_prompt=query: ", "--encoder-set", "truncate_dim=7"
    built = tmp_path / "built"
    done = msshift("build", "topics", "--collection", "mini:300", "--out", built, *encoder, *chosen)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((built / "manifest.json").read_bytes())
    embedded = manifest["shifts"]["topics"]["parameters"]["embedding"]
    assert embedded["settings"] == {"query_prompt": "query:", "truncate_dim": 7}
    assert embedded["dimensions"] == 7
    facts = verify_topics(built, MINI, encoder=str(folder / "dot")).facts
    assert (facts["same_bytes"], facts["passed"]) == (True, True)


REFUSED = [
    ("device=cpu", "device is 'cpu'; encoders run on the CPU"),
    ("batch_size=3", "batch_size is 3; an encoder always gets 32 texts together: remove it"),
    ("document_prompt=d", "document_prompt is 'd'; an encoder of queries reads quer"),
    ("similarity=cosine", "similarity is 'cosine'; use normalize=true"),
    ("query_length=9", "query_length is 9; in Python, use EncoderSpec(max_length=...)"),
    ("dtype=int8", "--encoder-set: dtype: unknown name 'int8'"),
    ("truncate=3", "--encoder-set: truncate: there is no such field; did you mean 'truncate_dim'"),
    ("truncate_dim", "--encoder-set is 'truncate_dim'; give KEY=VALUE, e.g. truncate_dim=256"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_settings_that_an_encoder_refuses(text: str, message: str, msshift: Command) -> None:
    done = msshift("similarity", "--indicator", "mean-cosine", "--encoder-set", text)
    assert done.returncode == 2
    assert message in done.stderr


def test_term_vectors_have_no_settings() -> None:
    with pytest.raises(UsageError, match="truncate_dim is 3, and 'terms' has no model: remove"):
        EncoderSpec(TERMS, settings=ModelSettings(truncate_dim=3))


@pytest.mark.neural
def test_every_command_with_an_encoder_takes_its_settings(
    folder: Path, tmp_path: Path, msshift: Command
) -> None:
    files = tmp_path / "train.tsv", tmp_path / "test.tsv"
    for number, path in enumerate(files):
        path.write_text(f"{number}\twhat is it\n{number + 5}\twho is that old king\n")
    of_files = "--train", files[0], "--test", files[1], "--encoder", folder / "bert"
    for words in (
        ("similarity", "--indicator", "nearest-query"),
        ("leakage", "find", "--pooling", "mean", "--out", tmp_path / "found"),
        ("annotate", "--out", tmp_path / "sheet.csv"),
    ):
        done = msshift(*words, *of_files, "--encoder-set", "truncate_dim=5")
        assert done.returncode == 0, done.stderr
        done = msshift(*words, *of_files, "--encoder-set", "truncate_dim=17")
        assert "truncate_dim must be at most 16, got 17" in done.stderr
    facts = json.loads((tmp_path / "found" / "found.json").read_bytes())["settings"]["encoder"]
    assert facts["settings"] == {"truncate_dim": 5}
