"""Unseen words, counted by hand."""

from __future__ import annotations

from msshift_bench.similarity import query_similarity


def test_unseen_words_are_counted_by_hand() -> None:
    train = {"1": "price of wool", "2": "Who makes cheese?"}
    test = {
        "7": "what is the price of gold",  # price and gold, of which gold is new
        "8": "wool, wool: CHEESE!",
        "9": "who is it",  # stop words only
        "10": "gold silver gold",
    }
    found = query_similarity(train, test, "unseen-words")
    assert found.values.tolist() == [0.5, 0, 0, 1]
    assert found.ranks.tolist() == [3, 1, 1, 4]
    by_white_space = query_similarity(train, test, "unseen-words", tokenizer=str.split)
    assert by_white_space.values.tolist() == [4 / 6, 1, 1, 1]
