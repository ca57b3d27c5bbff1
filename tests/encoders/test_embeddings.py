"""Queries as vectors: equal to the model's, independent of order and batch, and cached."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.encoders import (
    OWN,
    Embeddings,
    EncoderSpec,
    ModelSettings,
    embed_queries,
    embeddings,
    models as encoder_models,
)
from msshift_bench.encoders.embeddings import embedding_digest
from msshift_bench.encoders.models import find_encoder
from msshift_bench.errors import IntegrityError, UsageError
from msshift_bench.mini import generator as mini
from msshift_bench.plumbing import lock_folder, reporting
from tests.support.file_bytes import flip
from tests.support.tiny_encoder import make_tiny_encoder

pytestmark = pytest.mark.neural

Embed = Callable[..., Embeddings]

LENGTH = 24
QUERIES = dict(mini.queries(200))
TWO = {"1": "what is it", "2": "who is it"}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a ``bert``, and of a model of sentence-transformers that compares by ``dot``."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("encoders")
    make_tiny_encoder(folder / "bert", QUERIES.values(), length=LENGTH)
    parts = [Transformer(str(folder / "bert"), max_seq_length=LENGTH), Pooling(64, "mean")]
    model = SentenceTransformer(modules=parts, device="cpu", similarity_fn_name="dot")
    model.save_pretrained(str(folder / "dot"), create_model_card=False)
    return folder


@pytest.fixture
def embed(encoders: Path, tmp_path: Path) -> Embed:
    def embed(queries: Any = QUERIES, cache: str = "cache", **changes: Any) -> Embeddings:
        """Embed queries with an encoder that is changed, and the cache in the test's folder."""
        values = {"name": str(encoders / "bert"), "max_length": LENGTH, **changes}
        return embed_queries(queries, EncoderSpec(**values), cache=tmp_path / cache)

    return embed


def rows_by_id(embedded: Embeddings) -> dict[str, bytes]:
    vectors = map(np.ndarray.tobytes, embedded.vectors)
    return dict(zip(embedded.query_ids, vectors, strict=True))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_are_those_of_the_model(embed: Embed, encoders: Path, pooling: str) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    embedded = embed(pooling=pooling)
    assert embedded.vectors.dtype == np.float32
    assert embedded.query_ids == tuple(sorted(QUERIES))
    tokenizer = AutoTokenizer.from_pretrained(encoders / "bert")
    model = AutoModel.from_pretrained(encoders / "bert", add_pooling_layer=False).eval()
    for query_id, vector in list(zip(embedded.query_ids, embedded.vectors, strict=True))[::29]:
        cut = {"truncation": True, "max_length": LENGTH, "return_tensors": "pt"}
        with torch.inference_mode():
            hidden = model(**tokenizer(QUERIES[query_id], **cut)).last_hidden_state[0]
        alone = hidden[0] if pooling == "cls" else hidden.mean(0)
        np.testing.assert_allclose(vector, alone.numpy(), atol=2e-6)


@pytest.mark.extended
@pytest.mark.parametrize("threads", [1, 3])
def test_order_batch_and_threads_do_not_change_a_vector(
    threads: int, embed: Embed, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    whole, before = embed(), torch.get_num_threads()
    rows = random.Random(3).sample(list(QUERIES.items()), len(QUERIES))
    monkeypatch.setattr(embeddings, "_BLOCK", 50)
    torch.set_num_threads(threads)
    try:
        shuffled, some = embed(dict(rows), "shuffled"), embed(dict(rows[:97]))
    finally:
        torch.set_num_threads(before)
    assert shuffled.sha256 == whole.sha256 == embedding_digest(whole.query_ids, whole.vectors)
    assert shuffled.facts == whole.facts
    assert rows_by_id(some).items() < rows_by_id(whole).items()


def test_equal_texts_are_embedded_once_and_long_ones_are_cut(embed: Embed) -> None:
    seen: list[tuple[str, int, int]] = []
    queries = {"3": "how old", "1": "who", "2": "how old"}
    with reporting(lambda *event: seen.append(event)):
        embedded = embed(queries)
    assert embedded.query_ids == ("1", "2", "3")
    one, two, three = rows_by_id(embedded).values()
    assert one != two == three
    assert (embedded.facts["queries"], embedded.facts["distinct_texts"]) == (3, 2)
    assert ("embed", 2, 2) in seen
    assert seen[-1] == ("arrange", 3, 3)
    long = {"1": "how old is it and why", "2": "how old is it but who"}
    for length, equal in ((6, True), (LENGTH, False)):
        one, two = rows_by_id(embed(long, max_length=length)).values()
        assert (one == two) is equal


def test_a_complete_cache_needs_no_model_and_damage_is_refused(
    embed: Embed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = embed()
    (folder,) = (tmp_path / "cache").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["digest.json", "vectors.npy"]
    monkeypatch.setattr(embeddings, "load_encoder", None)
    again = embed(dict(reversed(QUERIES.items())))
    assert (again.sha256, again.facts) == (first.sha256, first.facts)
    fewer = dict(list(QUERIES.items())[1:])
    for changes in ({"pooling": "mean"}, {"max_length": 20}, {"queries": fewer}):
        with pytest.raises(TypeError, match="not callable"):
            embed(**changes)
    flip(folder / "vectors.npy", -1)
    with pytest.raises(IntegrityError, match=r"vectors.npy was damaged .* delete"):
        embed()
    (folder / "digest.json").unlink()
    with lock_folder(folder), pytest.raises(UsageError, match="another process is writing"):
        embed()


def test_the_digest_of_an_encoder_is_of_its_content(encoders: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(encoders / "bert", tmp_path / "moved"))
    elsewhere = EncoderSpec(str(moved))
    before = find_encoder(EncoderSpec(str(encoders / "bert"))).sha256
    (moved / "README.md").write_text("nothing of the encoder")
    assert find_encoder(elsewhere).sha256 == before
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        content = (moved / name).read_bytes()
        (moved / name).write_bytes(content + b" ")
        assert find_encoder(elsewhere).sha256 != before
        (moved / name).write_bytes(content)


def test_a_cache_that_another_process_completed_is_read(
    embed: Embed, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Embeddings] = []

    def late(folder: Path) -> AbstractContextManager[None]:
        monkeypatch.setattr(embeddings, "lock_folder", lock_folder)
        done.append(embed())
        monkeypatch.setattr(embeddings, "load_encoder", None)
        return lock_folder(folder)

    monkeypatch.setattr(embeddings, "lock_folder", late)
    assert embed().sha256 == done[0].sha256


# ---- models of sentence-transformers ---------------------------------------------------------


def test_queries_of_a_model_that_compares_by_cosine_have_length_1(
    embed: Embed, encoders: Path, tmp_path: Path
) -> None:
    dot = embed(TWO, name=str(encoders / "dot"), pooling=OWN).vectors
    lengths = np.linalg.norm(dot, axis=1, keepdims=True)
    assert (lengths > 1.5).all()
    copy = shutil.copytree(encoders / "dot", tmp_path / "copy")
    settings = copy / "config_sentence_transformers.json"
    settings.write_text('{"similarity_fn_name": "cosine"}')
    cosine = embed(TWO, name=str(copy), pooling=OWN).vectors
    np.testing.assert_allclose(cosine, dot / lengths, atol=1e-6)
    # Models from before they said of which kind they are give dense vectors.
    settings.unlink()
    older = embed(TWO, name=str(copy), pooling=OWN).vectors
    np.testing.assert_array_equal(older, cosine)


def test_all_parts_of_a_sentence_model_count_and_are_fetched_from_the_hub(
    embed: Embed, encoders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub
    import torch
    from huggingface_hub.utils import filter_repo_objects
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    digests = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = SentenceTransformer(str(encoders / "dot"), device="cpu")
        model.append(Dense(64, 8))
        hub = tmp_path / f"dense-{seed}"
        model.save_pretrained(str(hub), create_model_card=False)
        found = embed(TWO, name=str(hub), pooling=OWN)
        own = model.encode_query(list(TWO.values()), show_progress_bar=False)
        np.testing.assert_allclose(found.vectors, own, atol=1e-5)
        digests.append(found.facts["encoder_sha256"])
    assert digests[0] != digests[1]

    revisions: list[str | None] = []

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        revisions.append(revision)
        names = [path.relative_to(hub).as_posix() for path in hub.rglob("*") if path.is_file()]
        for one in filter_repo_objects(names, allow_patterns=allow_patterns):
            (tmp_path / name / one).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(hub / one, tmp_path / name / one)
        return str(tmp_path / name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(encoder_models, "use_cache_if_offline", lambda *_: None)
    assert embed(TWO, name="org/own", pooling=OWN).vectors.tobytes() == found.vectors.tobytes()
    pinned = ModelSettings(revision="v1")
    again = embed(TWO, name="org/other", pooling=OWN, settings=pinned)
    assert again.vectors.tobytes() == found.vectors.tobytes()
    assert again.facts["settings"] == {"revision": "v1"}
    assert revisions == [None, "v1"]
