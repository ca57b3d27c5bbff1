"""Word vectors: learnt from passages, or read from a file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.baselines.rerankers.word_vectors import WordTable, WordVectors, make_word_table
from msshift_bench.errors import DataError, NotFoundError

SETTINGS = WordVectors(vocabulary=50, dimensions=4, window=2)

TEXTS = [
    *["red apple grows, and red pear grows"] * 4,
    *["green apple grows; green pear grows"] * 4,
    *["fast train rolls, slow train rolls"] * 4,
    "lonely",
]


def cosine(table: WordTable, one: str, other: str) -> float:
    left, right = (table.vectors[list(table.words).index(word) + 1] for word in (one, other))
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_words_with_the_same_neighbours_have_like_vectors(tmp_path: Path) -> None:
    table = make_word_table(TEXTS, SETTINGS, "collection", seed=3)
    assert list(table.words[:3]) == ["apple", "grows", "pear"]
    assert dict(zip(table.words, table.frequencies, strict=True))["train"] == 4
    assert table.passages == 13
    assert table.vectors.shape == (len(table.words) + 1, 4)
    assert not table.vectors[0].any()
    assert cosine(table, "red", "green") > 0.9 > 0.5 > cosine(table, "red", "slow")
    # A word without neighbours has a vector all the same, or it would not match itself.
    assert cosine(table, "lonely", "lonely") == pytest.approx(1)
    assert table.inverse_frequencies()["apple"] == pytest.approx(np.log(14 / 9))

    again = make_word_table(iter(TEXTS), SETTINGS, "collection", seed=3)
    np.testing.assert_array_equal(again.vectors, table.vectors)
    table.save(tmp_path / "kept")
    kept = WordTable.load(tmp_path / "kept")
    np.testing.assert_array_equal(kept.vectors, table.vectors)
    assert (kept.words, kept.passages) == (list(table.words), 13)


def test_words_that_never_stand_beside_another_still_match_themselves() -> None:
    for texts in (["apple", "pear"], ["apple apple apple"]):
        table = make_word_table(texts, SETTINGS, "collection", seed=3)
        assert table.vectors[1:].any(axis=1).all()
        assert np.isfinite(table.vectors).all()
    assert (table.words, table.frequencies) == (["apple"], [1])


def test_vectors_from_a_file(tmp_path: Path) -> None:
    lines = "apple 1 0 0\nof a sort 9 9 9\ntrain 0 1 0.5\n"
    (tmp_path / "glove.txt").write_text(lines)
    (tmp_path / "w2v.txt.gz").write_bytes(gzip.compress(f"3 3\n{lines}".encode()))
    found = [
        make_word_table(TEXTS, SETTINGS, str(tmp_path / name), seed=1).vectors
        for name in ("glove.txt", "w2v.txt.gz")
    ]
    np.testing.assert_array_equal(*found)
    words = list(make_word_table(TEXTS, SETTINGS, str(tmp_path / "glove.txt"), seed=1).words)
    assert found[0][words.index("train") + 1].tolist() == [0, 1, 0.5]
    missing = found[0][words.index("lonely") + 1]
    assert missing.any()
    assert (found[0][words.index("red") + 1] != missing).any()


def test_files_that_hold_no_vectors(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    for text, error in (
        ("apple 1 2\ntrain 1\n", r"vectors\.txt:2: 'train' has 1 numbers; .* before, 2"),
        ("apple 1 nan\n", r"vectors\.txt:1: 'apple' has 2 numbers; each .* finite"),
        ("apple one two\n", r"vectors\.txt:1: 'apple' is not followed by numbers only"),
        ("apple\nbanana\n", r"vectors\.txt:1: 'apple' is followed by no number"),
        ("aardvark 1 2\n", r"vectors\.txt has a vector for none of the collection's 10 words"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=error):
            make_word_table(TEXTS, SETTINGS, str(path), seed=1)
    with pytest.raises(NotFoundError, match=r"no word vectors .*none\.txt: .* GloVe or word2vec"):
        make_word_table(TEXTS, SETTINGS, str(tmp_path / "none.txt"), seed=1)
    with pytest.raises(DataError, match="hold no word"):
        make_word_table(["the of", ""], SETTINGS, "collection", seed=1)
