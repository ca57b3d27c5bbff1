"""Indicators of words: by hand, on the official test sets, and whatever the order of lines."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msshift_bench.data import open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.errors import DataError
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import group_similarity, query_similarity, set_similarity

# Computed from the released files apart from this package, to six digits.
GOLDEN = {
    "topics": {"C0": 0.298405, "C1": 0.244897, "C2": 0.338778, "C3": 0.300514, "C4": 0.426766},
    "wh-words": {"wha": 0.279330, "how": 0.226122, "who": 0.276164},
    "length": {"short": 0.322453, "long": 0.322453},
}


def test_it_is_exact_on_counts_made_by_hand() -> None:
    # a 2/4, b 1/4, c 1/4 against a 1/5, b 3/5, d 1/5: 1/5 + 1/4 over 1/2 + 3/5 + 1/4 + 1/5.
    train = {"1": "A b", "2": "a\tC"}
    test = {"7": "b  b d", "8": "B a"}
    exact = Fraction(9, 20) / Fraction(31, 20)
    assert set_similarity(train, test) == float(exact)
    assert set_similarity(test, train) == float(exact)
    assert set_similarity(train, train) == 1
    assert set_similarity(train, {"9": "x y"}) == 0
    # "ba" holds the letters b and a: any tokenizer will do
    assert set_similarity({"1": "ab"}, {"2": "ba"}) == 0
    assert set_similarity({"1": "ab"}, {"2": "ba"}, tokenizer=list) == 1


WORDS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6).map(" ".join)


@given(st.lists(WORDS, min_size=1, max_size=20), st.lists(WORDS, min_size=1, max_size=20))
def test_it_is_the_papers_formula_in_any_order(one: list[str], other: list[str]) -> None:
    def shares(texts: list[str]) -> dict[str, Fraction]:
        words = " ".join(texts).split()
        return {word: Fraction(words.count(word), len(words)) for word in words}

    def queries(texts: list[str]) -> dict[str, str]:
        return {str(place): text for place, text in enumerate(texts)}

    s, t = shares(one), shares(other)
    least = sum(min(s.get(word, 0), t.get(word, 0)) for word in s | t)
    most = sum(max(s.get(word, 0), t.get(word, 0)) for word in s | t)
    train, test = queries(one), {f"t{place}": text for place, text in queries(other).items()}
    found = set_similarity(train, test)
    assert found == float(Fraction(least) / Fraction(most))
    shuffled = random.Random(0).sample(list(train.items()), len(train))
    assert set_similarity(dict(shuffled), test) == found


def test_queries_without_words_are_refused() -> None:
    def letters(text: str) -> list[str]:
        return re.findall("[a-z]", text)

    with pytest.raises(DataError, match="no word in the test queries"):
        set_similarity({"1": "a"}, {"2": "?"}, tokenizer=letters)
    with pytest.raises(DataError, match="no word in the training queries"):
        set_similarity({"1": "?"}, {"2": "a"}, tokenizer=letters)


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


@pytest.mark.realdata
@pytest.mark.slow
def test_the_official_test_sets_have_the_values_on_record(real_data: Path, tmp_path: Path) -> None:
    import_official([real_data / "ms-marco-shift"], tmp_path / "msshift")
    dataset = open_dataset(tmp_path / "msshift")
    for shift, golden in GOLDEN.items():
        found = group_similarity(dataset, shift)
        assert {one.group: round(one.value, 6) for one in found} == golden
        assert [one.queries for one in found] == [
            len(rows) for rows in dataset.test_sets(SHIFTS[shift]).values()
        ]
