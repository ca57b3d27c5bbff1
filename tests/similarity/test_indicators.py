"""Indicators of words and of vectors: by hand, by brute force, in any order, and on record."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from msshift_bench import mini
from msshift_bench.arrays import Vectors
from msshift_bench.data import open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import (
    INDICATORS,
    QueryColumns,
    TextVectors,
    group_similarity,
    query_similarity,
    set_similarity,
)

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


# ---- vectors ----------------------------------------------------------------------------------

GENERATOR = np.random.default_rng(1)
TEXTS = [f"text {place:03d}" for place in range(90)]


def vectors_with_ties() -> Vectors:
    """Vectors among which are zeros, equal ones, equal ones of another length, and near ones."""
    vectors = GENERATOR.normal(size=(len(TEXTS), 24)).astype(np.float32)
    vectors[7] = 0
    vectors[20] = vectors[11]
    vectors[40] = 2 * vectors[11]
    vectors[50] = vectors[12]
    vectors[50, 0] = np.nextafter(vectors[50, 0], np.float32(9))
    return vectors


FOUND = TextVectors({text: row for row, text in enumerate(TEXTS)}, vectors_with_ties())


def columns(places: Sequence[int], kind: str) -> QueryColumns:
    ids = tuple(f"{kind}{number}" for number in range(len(places)))
    return QueryColumns(ids, tuple(TEXTS[place] for place in places))


# Some texts come twice, some are in both sets.
TRAIN = columns([*range(60), 3, 3, 12, 20], "t")
TEST = columns([*range(40, 90), 3, 7, 11, 12, 50, 89], "q")


def shuffled(queries: QueryColumns) -> QueryColumns:
    order = random.Random(3).sample(range(len(queries)), len(queries))
    return QueryColumns(
        tuple(queries.ids[place] for place in order), tuple(queries.texts[place] for place in order)
    )


def dot(one: Vectors, other: Vectors) -> float:
    return math.fsum(one.astype(np.float64) * other)


def cosine(one: Vectors, other: Vectors) -> float:
    lengths = math.sqrt(dot(one, one) * dot(other, other))
    return dot(one, other) / lengths if lengths else 0.0


def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (
        ("_BLOCK", 7),
        ("_READ", 11),
        ("_TESTS", 9),
        ("_TRAINING", 5),
        ("_PART", 4),
        ("_PAIRS", 3),
    ):
        monkeypatch.setattr(f"msshift_bench.similarity.vectors.{name}", size)


def test_the_mean_vector_gives_what_the_double_loop_does() -> None:
    train, test = (FOUND.vectors[FOUND.rows(queries)] for queries in (TRAIN, TEST))
    for indicator, product in (("mean-cosine", cosine), ("model-based", dot)):
        values = INDICATORS[indicator].function(TRAIN, TEST, FOUND).values
        for vector, value in zip(test, values, strict=True):
            products = [product(vector, trained) for trained in train]
            assert abs(value - math.fsum(products) / len(products)) < 1e-12


def test_of_equally_near_queries_the_first_text_counts() -> None:
    # What is near is compared with brute force where leaks are sought.
    _, places = INDICATORS["nearest-query"].function(TRAIN, TEST, FOUND)
    found = dict(zip(TEST.texts, (TRAIN.texts[place] for place in places), strict=True))
    assert found["text 011"] == "text 011"  # not 020, which has the same vector
    assert found["text 012"] == "text 012"  # not 050, which is one bit away
    assert found["text 050"] == "text 050"
    assert found["text 007"] == "text 000"  # its vector is zero: equally far from all
    # "text 003" is the query t3, and t60 and t61
    assert TRAIN.ids[places[TEST.texts.index("text 003")]] == "t3"


@pytest.mark.parametrize("indicator", ["mean-cosine", "model-based", "nearest-query"])
def test_no_order_block_or_thread_changes_a_bit(
    indicator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def values(train: QueryColumns, test: QueryColumns) -> dict[str, tuple[float, str]]:
        found = INDICATORS[indicator].function(train, test, FOUND)
        nearest = [""] * len(test)
        if found.nearest is not None:
            nearest = [train.ids[place] for place in found.nearest]
        return dict(zip(test.ids, zip(found.values.tolist(), nearest, strict=True), strict=True))

    expected = values(TRAIN, TEST)
    assert values(shuffled(TRAIN), shuffled(TEST)) == expected
    small_blocks(monkeypatch)
    assert values(TRAIN, TEST) == expected
    monkeypatch.setattr("msshift_bench.plumbing.threads.thread_count", lambda: 1)
    assert values(shuffled(TRAIN), TEST) == expected


def test_the_functions_embed_the_texts_and_name_the_nearest() -> None:
    rows = list(mini.queries(400))
    train, test = rows[:300], [*rows[300:], rows[17]]
    found = query_similarity(train, test, "nearest-query", encoder="terms")
    assert found.query_ids == tuple(query.query_id for query in test)
    assert set(found.nearest) <= set(train)
    assert found.nearest.texts[-1] == rows[17].text
    assert (found.values[-1], found.ranks[-1]) == (pytest.approx(1), 1)
    assert np.all(np.diff(found.values[np.argsort(found.ranks)]) <= 0)
    assert found.value == math.fsum(found.values) / len(test)
    cosines = query_similarity(train, test, "mean-cosine", encoder="terms")
    assert set_similarity(train, test, "mean-cosine", encoder="terms") == cosines.value
