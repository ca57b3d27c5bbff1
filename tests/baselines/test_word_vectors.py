"""Word vectors of re-rankers: learnt from passages, or read from a file."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines import find_systems, open_system
from msshift_bench.baselines.rerankers.word_vectors import WordTable, WordVectors, make_word_table
from msshift_bench.errors import DataError, NotFoundError, UsageError

SETTINGS = WordVectors(vocabulary=50, dimensions=4, window=2)

TEXTS = [
    *["red apple grows, and red pear grows"] * 4,
    *["green apple grows; green pear grows"] * 4,
    *["fast train rolls, slow train rolls"] * 4,
    "lonely",
]


def table_of(source: Path | str = "collection", *, texts: Any = TEXTS, seed: int = 1) -> WordTable:
    return make_word_table(texts, SETTINGS, str(source), seed=seed)


def cosine(table: WordTable, one: str, other: str) -> float:
    left, right = (table.vectors[list(table.words).index(word) + 1] for word in (one, other))
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
    for other in (table_of(texts=iter(TEXTS), seed=3), kept):
        np.testing.assert_array_equal(other.vectors, table.vectors)


def test_words_that_never_stand_beside_another_still_match_themselves() -> None:
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
    train, lonely, red = (
        table.vectors[list(table.words).index(word) + 1] for word in ("train", "lonely", "red")
    )
    assert train.tolist() == [0, 1, 0.5]
    assert lonely.any()
    assert (red != lonely).any()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("apple 1 2\ntrain 1\n", r":2: 'train' has 1 numbers; .* before, 2"),
        ("apple 1 nan\n", r":1: 'apple' has 2 numbers; each .* finite"),
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
    facts = given.starts_from()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    seen = "what its word vectors were learnt from is not recorded"
    assert facts == {"file_sha256": digest, "seen": seen}
    file.write_text("red 0 1 # another\n")
    assert given.starts_from() != facts
    # Vectors that are learnt from the passages follow from recipe and collection.
    assert recipe.starts_from() is None
    with pytest.raises(UsageError, match="words have vectors that are learnt, encoder = 'coll"):
        recipe.changed(encoder="random")
    with pytest.raises(DataError, match="hold no word"):
        table_of(texts=["the of", ""])
    system: Any = find_systems()["knrm"]
    with pytest.raises(NotFoundError, match=rf"{tmp_path}: knrm is saved with a file words.json"):
        system.load_model(tmp_path)
