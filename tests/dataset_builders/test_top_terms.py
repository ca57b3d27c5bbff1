from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from msshift_bench.dataset_builders.clusters import most_central, top_terms
from msshift_bench.search.query_words import STOP_WORDS

TEXTS = {
    "C0": ["What is the cost of a pool?", "pool cost", "cost of a fence"],
    "C1": ["where is the Tumor", "tumor cost", "cells of a tumor"],
    "others": ["fence", "cells in a pool"],
}


def test_terms_are_weighed_by_equation_4() -> None:
    words = {
        group: [
            word
            for text in texts
            for word in text.lower().replace("?", "").split()
            if word not in STOP_WORDS and len(word) > 1
        ]
        for group, texts in TEXTS.items()
    }
    everywhere = Counter(word for group in words.values() for word in group)
    mean = sum(map(len, words.values())) / 3
    for group, terms in top_terms(TEXTS).items():
        weights = {
            word: count * math.log(1 + mean / everywhere[word])
            for word, count in Counter(words[group]).items()
        }
        assert set(terms) == set(weights)
        assert [weights[term] for term in terms] == sorted(weights.values(), reverse=True)
    assert top_terms(TEXTS)["C1"] == ("tumor", "cells", "cost")
    assert top_terms(TEXTS, count=1) == {"C0": ("cost",), "C1": ("tumor",), "others": ("cells",)}


def test_examples_are_the_clearest_queries_of_the_native_cluster() -> None:
    labels = np.array([0, 1, 0, 2, 0, 1, 0], np.int32)
    margins = np.array([0.5, 0.1, 0.9, 1.0, 0.5, 0.2, 0.1])
    examples = [most_central("abcdefg", margins, np.flatnonzero(labels == c), 3) for c in (0, 1)]
    assert examples == [("c", "a", "e"), ("f", "b")]


@pytest.mark.parametrize(
    ("texts", "terms"),
    [
        # Question words and single letters are left out.
        (
            {"C0": ["What is a b12 vitamin", "how does X-ray WORK", "who, when? where"]},
            {"C0": ("b12", "ray", "vitamin", "work")},
        ),
        # Equal weights are in alphabetical order.
        (
            {"C0": ["pear apple plum"], "C1": ["zebra ant"]},
            {"C0": ("apple", "pear", "plum"), "C1": ("ant", "zebra")},
        ),
        ({"C0": ["ÉCOLE école 東京"]}, {"C0": ("école", "東京")}),
        ({"C0": [], "C1": ["the"]}, {"C0": (), "C1": ()}),
        ({}, {}),
    ],
)
def test_what_is_a_term(texts: dict[str, list[str]], terms: dict[str, tuple[str, ...]]) -> None:
    assert top_terms(texts) == terms
