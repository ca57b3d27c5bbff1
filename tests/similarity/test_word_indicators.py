"""Unseen words and clarity: by hand, and by the formula written out."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from msshift_bench.errors import UsageError
from msshift_bench.records import Passage
from msshift_bench.search import Bm25, Bm25Parameters
from msshift_bench.similarity import group_similarity, query_similarity
from tests.conftest import Build, WriteFolder

PASSAGES = {
    "d1": "wool prices fell and the wool market closed",
    "d2": "gold prices rose in the market",
    "d3": "the capital of france is paris",
    "d4": "sheep give wool",
    "d5": "the market of paris sells wool and gold and cheese",
}
QUERIES = {"1": "price of wool", "2": "Wool wool market", "3": "xyzzy", "4": "the capital"}


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


def clarity_by_the_formula(query: str, depth: int) -> float:
    """Compute clarity as the module's docstring defines it, term by term."""
    index = Bm25(map(Passage, PASSAGES, PASSAGES.values()), Bm25Parameters(depth=depth))
    (ranking,) = index.search([query])
    terms = {doc_id: index.terms_of(text) for doc_id, text in PASSAGES.items()}
    counts = Counter(term for found in terms.values() for term in found)
    shares = {term: count / counts.total() for term, count in counts.items()}
    if not ranking:
        return 0.0

    def smoothed(term: int, doc_id: str) -> float:
        return 0.6 * terms[doc_id].count(term) / len(terms[doc_id]) + 0.4 * shares[term]

    likelihoods = {
        doc_id: math.prod(smoothed(term, doc_id) for term in index.terms_of(query))
        for doc_id in ranking
    }
    total = sum(likelihoods.values())
    model = {
        term: sum(smoothed(term, one) * value / total for one, value in likelihoods.items())
        for term in shares
    }
    assert sum(model.values()) == pytest.approx(1)
    return sum(model[term] * math.log2(model[term] / shares[term]) for term in shares)


def lines(texts: dict[str, str], *, reverse: bool = False) -> str:
    rows = [f"{one}\t{text}\n" for one, text in texts.items()]
    return "".join(reversed(rows) if reverse else rows)


@pytest.mark.parametrize("depth", [2, 500])
def test_clarity_is_that_of_its_formula_in_any_order(depth: int, tsv_folder: WriteFolder) -> None:
    qrels = "1 0 d1 1\n"
    folder = tsv_folder(collection=lines(PASSAGES), queries=lines(QUERIES), qrels=qrels)
    found = query_similarity({"t": "any"}, QUERIES, "clarity", collection=folder, depth=depth)
    for query, value in zip(QUERIES.values(), found.values, strict=True):
        assert value == pytest.approx(clarity_by_the_formula(query, depth), abs=1e-12)
    assert found.values[2] == 0 < min(found.values[[0, 1, 3]])
    other = tsv_folder("other", collection=lines(PASSAGES, reverse=True), queries=lines(QUERIES))
    again = query_similarity({"t": "any"}, QUERIES, "clarity", collection=other, depth=depth)
    assert again.values.tolist() == found.values.tolist()


def test_groups_are_not_searched_for_in_a_collection_that_they_do_not_come_from(
    build_once: Build,
) -> None:
    data = build_once("mini:300", "length")
    with pytest.raises(UsageError, match="was built from the collection 'mini:300'"):
        group_similarity(data, "length", "clarity", collection="mini:400", depth=20)
    said = group_similarity(data, "length", "clarity", collection="mini:300", depth=20)
    assert said == group_similarity(data, "length", "clarity", depth=20)
