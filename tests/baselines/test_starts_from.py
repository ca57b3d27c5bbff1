"""Encoders and word vectors that systems start from, made or read, and refusals."""

from __future__ import annotations

import gzip
import hashlib
import platform
import shutil
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench import libraries
from msshift_bench.baselines import find_systems, open_system
from msshift_bench.baselines.rerankers.word_reranker import WordTable, WordVectors, make_word_table
from msshift_bench.baselines.systems import sidecars
from msshift_bench.baselines.systems.finding import _SETTINGS, kind_of_model
from msshift_bench.baselines.systems.recipe import RandomEncoder
from msshift_bench.baselines.systems.sidecars import Facts, read_json
from msshift_bench.baselines.training import backbones
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.mini.generator import passages
from tests.baselines.conftest import Patch
from tests.support.tiny_recipes import NEURAL

TEXTS = [passage.text for passage in passages(100)]
FRUIT = [
    *["red apple grows, and red pear grows"] * 4,
    *["green apple grows; green pear grows"] * 4,
    *["fast train rolls, slow train rolls"] * 4,
    "lonely",
]


@pytest.mark.neural
def test_word_pieces_cover_all_texts() -> None:
    texts = [passage.text for passage in passages(600)]
    tokenizer = backbones.learn_word_pieces(texts, 1500)
    assert sorted(tokenizer.get_vocab().values()) == list(range(1500))
    for text in texts:
        pieces = tokenizer.encode(text)
        assert "[UNK]" not in pieces.tokens
        assert (pieces.tokens[0], pieces.tokens[-1]) == ("[CLS]", "[SEP]")
        assert tokenizer.decode(pieces.ids).replace(" ", "") == text.lower().replace(" ", "")


@pytest.mark.neural
@pytest.mark.parametrize("matching", [True, False])
def test_with_the_prior_equal_words_attend_to_each_other(tmp_path: Path, matching: bool) -> None:
    sizes = {"layers": 1, "hidden": 64, "heads": 1, "inner": 64, "vocabulary": 900}
    shape = RandomEncoder(**sizes, dropout=0.0, initial=0.5, matching=matching)
    backbones.make_random_encoder(tmp_path / "made", shape, TEXTS, length=64, seed=5)
    tokenizer = libraries.transformers.AutoTokenizer.from_pretrained(tmp_path / "made")
    model = libraries.transformers.BertForMaskedLM.from_pretrained(tmp_path / "made").float()
    layer = model.bert.encoder.layer[0].attention.self
    ids = tokenizer(*TEXTS[:2], truncation=True, return_tensors="pt")["input_ids"]
    with libraries.torch.no_grad():
        states = model.bert.embeddings(ids)[0]
        logits = layer.query(states) @ layer.key(states).T
    same = ids[0][:, None] == ids[0][None, :]
    others = same & ~libraries.torch.eye(len(ids[0]), dtype=libraries.torch.bool)
    assert others.any()
    gain = float(logits[others].mean() - logits[~same].mean())
    spread = float(logits[~same].std())
    assert (gain > 3 * spread) == matching, (gain, spread)


@pytest.mark.neural
def test_an_encoder_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    recipe: Any = open_system("bi-encoder", "mini")
    with pytest.raises(NotFoundError, match=rf"no encoder {tmp_path}/none: the folder does not"):
        recipe.new_model(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(NotFoundError, match=rf"no encoder .* from the folder {tmp_path}: .*model"):
        recipe.new_model(tmp_path)


@pytest.mark.neural
@pytest.mark.parametrize("name", NEURAL)
def test_weights_that_are_cut_off_are_named(name: str, tiny_models: Path, tmp_path: Path) -> None:
    system: Any = find_systems()[name]
    folder = Path(shutil.copytree(tiny_models / f"my-{name}", tmp_path / "model"))
    system.load_model(folder)
    weights = next(folder.rglob("model.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(NotFoundError, match=f"no model can be loaded from the folder {folder}: "):
        system.load_model(folder)


@pytest.mark.neural
def test_weights_that_are_not_finite_are_refused() -> None:
    model = libraries.torch.nn.Linear(2, 2)
    backbones.check_finite_weights(model, "a bi-encoder")
    with libraries.torch.no_grad():
        model.bias[1] = libraries.torch.nan
    with pytest.raises(DataError, match="the weights of a bi-encoder are no longer finite; try"):
        backbones.check_finite_weights(model, "a bi-encoder")
    # Weights of 16 bits have a digest, and it is another.
    digest = backbones.weights_digest(model)
    assert backbones.weights_digest(model.to(libraries.torch.bfloat16)) != digest


def test_a_sidecar_names_the_versions_of_libraries(monkeypatch: Patch) -> None:
    def version(package: str) -> str:
        if package != "numpy":
            raise PackageNotFoundError(package)
        return "1.2.3"

    monkeypatch.setattr(sidecars, "version", version)
    versions = {"python": platform.python_version(), "numpy": "1.2.3"}
    assert Facts().circumstances({})["versions"] == versions


@pytest.mark.parametrize("content", ["{", "[]", '["Transformer"]', "[" * 100_000, "\x00"])
def test_settings_of_a_model_that_are_refused(tmp_path: Path, content: str) -> None:
    settings, modules = tmp_path / _SETTINGS, tmp_path / "modules.json"
    settings.write_text(content)
    with pytest.raises(UsageError, match=r"\.json must be a JSON object with a model's"):
        kind_of_model(str(tmp_path))
    with pytest.raises(UsageError, match=r"\.json is not a JSON object"):
        read_json(settings)
    settings.write_text("{}")
    modules.write_text(content)
    with pytest.raises(UsageError, match=r"modules\.json must be sentence-transformers' list"):
        kind_of_model(str(tmp_path))


def table_of(source: Path | str = "collection", *, texts: Any = FRUIT, seed: int = 1) -> WordTable:
    settings = WordVectors(vocabulary=50, dimensions=4, window=2)
    return make_word_table(texts, settings, str(source), seed=seed)


def vector(table: WordTable, word: str) -> Any:
    return table.vectors[list(table.words).index(word) + 1]


def cosine(table: WordTable, one: str, other: str) -> float:
    left, right = vector(table, one), vector(table, other)
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_words_with_the_same_neighbours_have_like_vectors(tmp_path: Path) -> None:
    table = table_of(seed=3)
    assert list(table.words[:3]) == ["apple", "grows", "pear"]
    assert dict(zip(table.words, table.frequencies, strict=True))["train"] == 4
    assert table.passages == 13
    assert table.vectors.shape == (len(table.words) + 1, 4)
    assert not table.vectors[0].any()
    assert cosine(table, "red", "green") > 0.9 > 0.5 > cosine(table, "red", "slow")
    # A word without neighbours has a vector all the same, or it would not match itself.
    assert cosine(table, "lonely", "lonely") == pytest.approx(1)
    assert table.inverse_frequencies()["apple"] == pytest.approx(np.log(14 / 9))
    table.save(tmp_path / "kept")
    kept = WordTable.load(tmp_path / "kept")
    assert (kept.words, kept.passages) == (list(table.words), 13)
    for other in (table_of(texts=iter(FRUIT), seed=3), kept):
        np.testing.assert_array_equal(other.vectors, table.vectors)


def test_words_without_neighbours_match_themselves() -> None:
    for texts in (["apple", "pear"], ["apple apple apple"]):
        table = table_of(texts=texts, seed=3)
        assert table.vectors[1:].any(axis=1).all()
        assert np.isfinite(table.vectors).all()
    assert (table.words, table.frequencies) == (["apple"], [1])


def test_vectors_from_a_file(tmp_path: Path) -> None:
    lines = "apple 1 0 0\nof a sort 9 9 9\ntrain 0 1 0.5\n"
    (tmp_path / "glove.txt").write_text(lines)
    (tmp_path / "w2v.txt.gz").write_bytes(gzip.compress(f"3 3\n{lines}".encode()))
    table, other = (table_of(tmp_path / name) for name in ("glove.txt", "w2v.txt.gz"))
    np.testing.assert_array_equal(table.vectors, other.vectors)
    assert vector(table, "train").tolist() == [0, 1, 0.5]
    assert vector(table, "lonely").any()
    assert (vector(table, "red") != vector(table, "lonely")).any()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("apple 1 2\ntrain 1\n", r":2: 'train' must have 2 finite numbers, .* got 1"),
        ("apple 1 nan\n", r":1: 'apple' must have 2 finite numbers, .* got 1"),
        ("apple one two\n", r":1: 'apple' is not followed by numbers only"),
        ("apple\nbanana\n", r":1: 'apple' is followed by no number"),
        ("aardvark 1 2\n", r" has a vector for none of the collection's 10 words"),
    ],
)
def test_files_that_hold_no_vectors(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(text)
    with pytest.raises(DataError, match=rf"vectors\.txt{error}"):
        table_of(tmp_path / "vectors.txt")


@pytest.mark.neural
def test_word_vectors_are_known_by_their_digest(tmp_path: Path) -> None:
    recipe: Any = open_system("knrm", "mini")
    file = tmp_path / "glove.txt"
    given = recipe.changed(encoder=str(file))
    for ask in (given.check_encoder, lambda: table_of(file)):
        with pytest.raises(NotFoundError, match=rf"no word vectors {file}: .*GloVe"):
            ask()
    file.write_text("red 1 0\n")
    given.check_encoder()
    facts = given.initial_encoder_facts()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    seen = "what its word vectors were learnt from is not recorded"
    assert facts == {"file_sha256": digest, "seen": seen}
    file.write_text("red 0 1 # another\n")
    assert given.initial_encoder_facts() != facts
    # Vectors that are learnt from the passages follow from recipe and collection.
    assert recipe.initial_encoder_facts() is None
    with pytest.raises(UsageError, match="word vectors are learnt or read: use 'collection'"):
        recipe.changed(encoder="random")
    with pytest.raises(DataError, match="have no words"):
        table_of(texts=["the of", ""])
    with pytest.raises(
        NotFoundError, match=rf"{tmp_path}: the file words.json of a saved knrm is missing"
    ):
        find_systems()["knrm"].load_model(tmp_path)
