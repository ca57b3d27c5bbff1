from __future__ import annotations

import math
from collections import Counter

import numpy as np

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


def test_question_words_and_single_letters_are_left_out() -> None:
    terms = top_terms({"C0": ["What is a b12 vitamin", "how does X-ray WORK", "who, when? where"]})
    assert set(terms["C0"]) == {"b12", "vitamin", "ray", "work"}


def test_equal_weights_are_in_alphabetical_order() -> None:
    assert top_terms({"C0": ["pear apple plum"], "C1": ["zebra ant"]}) == {
        "C0": ("apple", "pear", "plum"),
        "C1": ("ant", "zebra"),
    }


def test_words_are_of_any_script() -> None:
    assert top_terms({"C0": ["ÉCOLE école 東京"]})["C0"] == ("école", "東京")


def test_a_group_may_be_empty() -> None:
    assert top_terms({"C0": [], "C1": ["the"]}) == {"C0": (), "C1": ()}
    assert top_terms({}) == {}


def test_examples_are_the_clearest_queries_of_the_native_cluster() -> None:
    labels = np.array([0, 1, 0, 2, 0, 1, 0], np.int32)
    margins = np.array([0.5, 0.1, 0.9, 1.0, 0.5, 0.2, 0.1])
    examples = [most_central("abcdefg", margins, np.flatnonzero(labels == c), 3) for c in (0, 1)]
    assert examples == [("c", "a", "e"), ("f", "b")]
