from __future__ import annotations

import dataclasses
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.encoders import embeddings, models as encoders
from msshift_bench.encoders.embeddings import Embeddings, embed_queries, embedding_digest
from msshift_bench.encoders.models import EncoderSpec, find_encoder
from msshift_bench.encoders.term_vectors import term_vectors
from msshift_bench.errors import (
    DataError,
    IntegrityError,
    MissingExtraError,
    NotFoundError,
    UnknownNameError,
    UsageError,
)
from msshift_bench.mini import generator as mini
from msshift_bench.plumbing import hold_folder, reporting
from tests.support.forking import NEURAL, run_forked
from tests.support.tiny_encoder import make_tiny_encoder

LENGTH = 24


MINI = dict(mini.queries(200))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a BERT that knows nothing, but is cut from texts like MINI's."""
    folder = tmp_path_factory.mktemp("encoders") / "tiny"
    make_tiny_encoder(folder, MINI.values(), length=LENGTH)
    return folder


@pytest.fixture(scope="module")
def spec(encoder: Path) -> EncoderSpec:
    return EncoderSpec(str(encoder), max_length=LENGTH)


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which loading a model fails."""

    def fail(*_: object) -> Any:
        raise AssertionError("a model was loaded")

    return lambda: monkeypatch.setattr(embeddings, "load_encoder", fail)


def rows_by_id(embedded: Embeddings) -> dict[str, bytes]:
    return {
        query_id: vector.tobytes()
        for query_id, vector in zip(embedded.query_ids, embedded.vectors, strict=True)
    }


@pytest.mark.neural
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_are_those_of_the_model(spec: EncoderSpec, pooling: str, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    embedded = embed_queries(MINI, dataclasses.replace(spec, pooling=pooling), cache=tmp_path)
    assert embedded.vectors.dtype == np.float32
    assert embedded.query_ids == tuple(sorted(MINI))
    text_of = MINI
    tokenizer = AutoTokenizer.from_pretrained(spec.name)
    model = AutoModel.from_pretrained(spec.name, add_pooling_layer=False).eval()
    for query_id, vector in list(zip(embedded.query_ids, embedded.vectors, strict=True))[::29]:
        tokens = tokenizer(
            text_of[query_id], truncation=True, max_length=LENGTH, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state[0]
        alone = hidden[0] if pooling == "cls" else hidden.mean(0)
        np.testing.assert_allclose(vector, alone.numpy(), atol=2e-6)


@pytest.mark.neural
def test_neither_order_nor_company_changes_a_vector(
    spec: EncoderSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = embed_queries(MINI, spec, cache=tmp_path / "whole")
    rows = list(MINI.items())
    random.Random(3).shuffle(rows)
    monkeypatch.setattr(embeddings, "_BLOCK", 50)
    shuffled = embed_queries(dict(rows), spec, cache=tmp_path / "shuffled")
    assert shuffled.sha256 == whole.sha256 == embedding_digest(whole.query_ids, whole.vectors)
    assert shuffled.facts == whole.facts

    some = embed_queries(dict(rows[:97]), spec, cache=tmp_path / "some")
    assert rows_by_id(some).items() < rows_by_id(whole).items()


@pytest.mark.neural
def test_the_number_of_threads_changes_no_bit(spec: EncoderSpec, tmp_path: Path) -> None:
    import torch

    threads = torch.get_num_threads()
    found = set()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.add(embed_queries(MINI, spec, cache=tmp_path / str(number)).sha256)
    finally:
        torch.set_num_threads(threads)
    script = (
        "import sys; from pathlib import Path; "
        "from msshift_bench import mini; "
        "from msshift_bench.encoders.embeddings import embed_queries; "
        "from msshift_bench.encoders.models import EncoderSpec; "
        "spec = EncoderSpec(sys.argv[1], max_length=24); "
        "print(embed_queries(dict(mini.queries(200)), spec, cache=Path(sys.argv[2])).sha256)"
    )
    given = ["-c", spec.name, str(tmp_path / "process")]
    process = run_forked(script, given, tmp_path, os.environ, NEURAL)
    assert (process.returncode, process.stderr) == (0, "")
    assert found == {process.stdout.strip()}


@pytest.mark.neural
def test_equal_texts_are_embedded_once(spec: EncoderSpec, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    queries = {"3": "how old", "1": "who", "2": "how old"}
    with reporting(lambda *event: seen.append(event)):
        embedded = embed_queries(queries, spec, cache=tmp_path)
    assert embedded.query_ids == ("1", "2", "3")
    assert embedded.vectors[1].tobytes() == embedded.vectors[2].tobytes()
    assert embedded.vectors[0].tobytes() != embedded.vectors[1].tobytes()
    assert (embedded.facts["queries"], embedded.facts["distinct_texts"]) == (3, 2)
    assert ("embed", 2, 2) in seen
    assert seen[-1] == ("arrange", 3, 3)


@pytest.mark.neural
def test_texts_longer_than_the_limit_are_cut(spec: EncoderSpec, tmp_path: Path) -> None:
    short = dataclasses.replace(spec, max_length=6)
    queries = {"1": "how old is it and why", "2": "how old is it but who"}
    embedded = embed_queries(queries, short, cache=tmp_path)
    assert embedded.vectors[0].tobytes() == embedded.vectors[1].tobytes()
    longer = embed_queries(queries, spec, cache=tmp_path)
    assert longer.vectors[0].tobytes() != longer.vectors[1].tobytes()


@pytest.mark.neural
def test_a_complete_cache_needs_no_model(
    spec: EncoderSpec, tmp_path: Path, no_model: Callable[[], None]
) -> None:
    first = embed_queries(MINI, spec, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["digest.json", "vectors.npy"]
    no_model()
    again = embed_queries(dict(reversed(MINI.items())), spec, cache=tmp_path)
    assert (again.sha256, again.facts) == (first.sha256, first.facts)
    for option in ({"pooling": "mean"}, {"max_length": 20}):
        with pytest.raises(AssertionError, match="a model was loaded"):
            embed_queries(MINI, dataclasses.replace(spec, **option), cache=tmp_path)
    with pytest.raises(AssertionError, match="a model was loaded"):
        embed_queries(dict(list(MINI.items())[1:]), spec, cache=tmp_path)


@pytest.mark.neural
def test_the_digest_of_an_encoder_is_of_its_content(encoder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(encoder, moved)
    spec = EncoderSpec(str(moved), max_length=LENGTH)
    before = find_encoder(spec)
    assert before.sha256 == find_encoder(EncoderSpec(str(encoder))).sha256
    (moved / "README.md").write_text("nothing of the encoder")
    assert find_encoder(spec).sha256 == before.sha256
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        content = (moved / name).read_bytes()
        (moved / name).write_bytes(content + b" ")
        assert find_encoder(spec).sha256 != before.sha256
        (moved / name).write_bytes(content)


@pytest.mark.neural
def test_damage_to_the_cache_is_noticed(spec: EncoderSpec, tmp_path: Path) -> None:
    embed_queries(MINI, spec, cache=tmp_path)
    (file,) = tmp_path.glob("*/vectors.npy")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"vectors.npy was damaged .* delete"):
        embed_queries(MINI, spec, cache=tmp_path)


@pytest.mark.neural
def test_two_processes_do_not_embed_the_same_queries(spec: EncoderSpec, tmp_path: Path) -> None:
    embed_queries(MINI, spec, cache=tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "digest.json").unlink()
    with (
        hold_folder(folder),
        pytest.raises(UsageError, match="another process is writing"),
    ):
        embed_queries(MINI, spec, cache=tmp_path)


@pytest.mark.neural
def test_what_another_process_completed_meanwhile_is_not_done_again(
    spec: EncoderSpec,
    tmp_path: Path,
    no_model: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    locked = embeddings.hold_folder

    @contextmanager
    def late(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(embeddings, "hold_folder", locked)
        done.append(embed_queries(MINI, spec, cache=tmp_path))
        no_model()
        with locked(folder):
            yield

    done: list[Embeddings] = []
    monkeypatch.setattr(embeddings, "hold_folder", late)
    assert embed_queries(MINI, spec, cache=tmp_path).sha256 == done[0].sha256


@pytest.mark.parametrize(
    ("tokens", "value", "message"),
    [
        ([], 1.0, "the tokenizer finds no token in 'how'"),
        ([5], np.nan, "terrible gives 'how' a vector that is not finite"),
    ],
)
def test_queries_that_an_encoder_cannot_embed(
    tokens: list[int],
    value: float,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def encode(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.where(ids[:, :1] == 5, value, 1.0).astype(np.float32)

    encoder = encoders.Encoder(
        lambda texts: [tokens if text == "how" else [6, 7] for text in texts], encode
    )
    source = encoders.EncoderSource(tmp_path, "0" * 64, {})
    monkeypatch.setattr(embeddings, "find_encoder", lambda _: source)
    monkeypatch.setattr(embeddings, "load_encoder", lambda *_: encoder)
    with pytest.raises(DataError, match=message):
        embed_queries({"1": "why", "2": "how"}, EncoderSpec("terrible"), cache=tmp_path)


def test_terms_need_no_model(tmp_path: Path, no_model: Callable[[], None]) -> None:
    no_model()
    embedded = embed_queries(MINI, EncoderSpec("terms"), cache=tmp_path)
    texts = sorted(set(MINI.values()))
    expected = term_vectors(texts)[[texts.index(MINI[query]) for query in embedded.query_ids]]
    assert embedded.vectors.tobytes() == expected.tobytes()
    assert embedded.facts["encoder"] == "terms"
    assert "libraries" not in embedded.facts
    assert embed_queries(MINI, EncoderSpec("terms"), cache=tmp_path).sha256 == embedded.sha256


def test_the_default_cache_is_that_of_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MSSHIFT_CACHE", str(tmp_path))
    embed_queries(MINI, EncoderSpec("terms"))
    assert len(list((tmp_path / "embeddings").glob("*/vectors.npy"))) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "unknown pooling 'max'"),
        ({"max_length": 2}, "at least 3 tokens"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        EncoderSpec("terms", **options)
    assert isinstance(raised.value, UnknownNameError) == ("max_length" not in options)


def test_no_queries_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no queries to embed"):
        embed_queries({}, EncoderSpec("terms"), cache=tmp_path)


@pytest.mark.neural
@pytest.mark.parametrize("name", ["org/nonesuch-encoder", "a/folder/that/is/not/there"])
def test_an_encoder_that_is_nowhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NotFoundError, match=rf"no encoder '{name}': .* --encoder terms") as raised:
        embed_queries(MINI, EncoderSpec(name), cache=tmp_path)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.neural
@pytest.mark.parametrize(
    ("missing", "what"),
    [
        ("config.json", "config.json"),
        ("model.safetensors", "weights as safetensors"),
        ("tokenizer*", "tokenizer"),
    ],
)
def test_a_folder_that_is_no_encoder(
    missing: str, what: str, encoder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(encoder, folder)
    for path in folder.glob(missing):
        path.unlink()
    with pytest.raises(NotFoundError, match=f"broken holds no {what}: give a folder"):
        find_encoder(EncoderSpec(str(folder)))


@pytest.mark.neural
def test_models_that_cannot_be_used_so(spec: EncoderSpec, encoder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    with pytest.raises(UsageError, match=f"reads at most {LENGTH} tokens, not 64"):
        embed_queries(MINI, EncoderSpec(spec.name), cache=tmp_path / "cache")

    folder = tmp_path / "partial"
    shutil.copytree(encoder, folder)
    weights = load_file(folder / "model.safetensors")
    lost = sorted(weights)[-1]
    del weights[lost]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=f"lacks weights of its own model, {lost}"):
        embed_queries(MINI, dataclasses.replace(spec, name=str(folder)), cache=tmp_path / "cache")


def test_libraries_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "_LIBRARIES", ("a-library-that-is-nowhere",))
    with pytest.raises(MissingExtraError, match=r"needs the 'neural' extra"):
        find_encoder(EncoderSpec("org/any"))
