"""Every function that counts words divides texts as it is asked to.

A door gets two texts of the same characters in another order, without spaces. They have words in
common only if each character is a word.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import msshift_bench as ms
from msshift_bench.annotation import similar_pairs
from msshift_bench.baselines.rerankers.word_reranker import WordTable, WordVectors, make_word_table
from msshift_bench.data import Collection, ContentDigest
from msshift_bench.dataset_builders.clusters import top_terms
from msshift_bench.dataset_builders.cut import ShiftSplits, cut_table
from msshift_bench.dataset_builders.groups import (
    group_by_length,
    group_by_rarest_term,
    group_by_wh_word,
)
from msshift_bench.dataset_builders.negatives import mine_negatives
from msshift_bench.encoders import EncoderSpec
from msshift_bench.errors import DataError, UnknownNameError
from msshift_bench.records import Grouping, Passage, Row
from msshift_bench.search import Bm25, Bm25Parameters, content_words, normalise, sorted_words
from msshift_bench.words import WORDS
from tests.support.bare_runs import bare_run

ONE, OTHER = "北京天气", "天气北京"
TRAIN, TEST = {"1": ONE}, {"8": OTHER}
FAR = {f"f{number}": chr(0x5000 + number) * 3 for number in range(100)}
"""Texts of other characters."""


def write_collection(folder: Path) -> Collection:
    texts = {"1": "上海", "2": ONE, **FAR}
    folder.mkdir(exist_ok=True)
    lines = [f"{doc_id}\t{text}\n" for doc_id, text in texts.items()]
    (folder / "collection.tsv").write_text("".join(lines), "utf-8")
    (folder / "queries.tsv").write_text(f"q\t{OTHER}\n", "utf-8")
    (folder / "qrels.tsv").write_text("q 0 1 1\n", "utf-8")
    return ms.open_collection(folder)


def is_searched(words: str, _: Path) -> bool:
    index = Bm25([Passage("1", ONE), Passage("2", "上海")], Bm25Parameters(words=words))
    return list(next(index.search([OTHER]))) == ["1"]


def is_searched_in_a_run(words: str, folder: Path) -> bool:
    run = bare_run(write_collection(folder), folder / "work", identity={"words": words})
    assert run.words == words
    return list(next(run.bm25().search([OTHER]))) == ["2"]


def is_the_negative(words: str, folder: Path) -> bool:
    collection = write_collection(folder)
    digest = ContentDigest.of(collection.passages()).hexdigest()
    rows = [Row.judged("q", OTHER, "", {"1": 1})]
    blocks = mine_negatives(
        collection, rows, folder / "work", passages=digest, count=1, words=words
    )
    return [block.load().tolist() for block in blocks] == [[[b"2"]]]


def has_the_same_words(words: str, _: Path) -> bool:
    rows = {
        "train": [Row.judged("1", ONE, "long", {"d1": 1})],
        "test": [Row.judged("8", OTHER, "short", {"d2": 1})],
    }
    grouping = Grouping("length", {"1": "long", "8": "short"}, "split-space", {})
    return ShiftSplits(grouping, cut_table(rows)).same_words(words) == {"short": 1, "long": 0}


def leaks(words: str, _: Path) -> bool:
    return ms.find_leakage(TRAIN, TEST, words=words).count("same-words").pairs == 1


def nearly_leaks(words: str, _: Path) -> bool:
    train = {"1": f"请问{ONE}怎样啊", **FAR}
    test = {"8": f"{ONE}怎样啊", "9": "上海"}
    found = ms.find_leakage(train, test, words=words, threshold=0.7)
    return [pair[:3] for pair in found.pairs] == [("8", "1", "near-duplicate")]


def is_near_by_vectors(words: str, _: Path) -> bool:
    train, test = {**FAR, "a": f"{ONE}甲", "b": f"气{ONE}"}, {"x": f"{OTHER}乙", "y": f"北{OTHER}"}
    near = ms.set_similarity(
        {**train, "c": FAR["f0"]}, test, "nearest-query", encoder="terms", words=words
    )
    return set(near.nearest.ids) <= {"a", "b"} and near.value > 0.5


def is_recalled_to_annotators(words: str, _: Path) -> bool:
    train = {"a": ONE, "b": f"{ONE}怎样", **FAR, "c": FAR["f0"]}
    test = {"x": OTHER, "y": f"{OTHER}怎样"}
    pairs = similar_pairs(train, test, EncoderSpec("terms", words=words), per_test=1)
    return any("BM25" in pair.found_by and pair.train_id in train for pair in pairs)


def has_words_of_a_reranker(words: str, folder: Path) -> bool:
    settings = WordVectors(vocabulary=9, dimensions=2, window=2)
    made = make_word_table([ONE, OTHER], settings, "collection", seed=1, division=words)
    made.save(folder / "table")
    kept = WordTable.load(folder / "table")
    assert kept.division == words
    return sorted(kept.words) == sorted(ONE)


def is_long(words: str, _: Path) -> bool:
    groups = group_by_length({"1": ONE, "2": ONE, "3": "上海"}, words=words)
    return groups.labels == {"1": "long", "2": "long", "3": "short"}


def has_the_question_word(words: str, _: Path) -> bool:
    queries = {"1": f"{ONE}怎样"}
    groups = group_by_wh_word(queries, words=words, question_words={"怎样": "how"})
    return groups.labels == {"1": "how"} and groups.parameters == {"words": {"how": ["怎样"]}}


def has_no_rare_term(words: str, _: Path) -> bool:
    queries = {"1": ONE, "2": OTHER, "3": "上海"}
    groups = group_by_rarest_term(queries, words=words)
    return groups.labels == {"1": "seen", "2": "seen", "3": "rare"}


DOORS: dict[str, Callable[[str, Path], bool]] = {
    "content_words": lambda words, _: content_words(ONE, words) == list(ONE),
    "normalise": lambda words, _: normalise(f"{ONE}!", words) == " ".join(ONE),
    "sorted_words": lambda words, _: sorted_words(ONE, words) == sorted_words(OTHER, words),
    "weighted-jaccard": lambda words, _: ms.set_similarity(TRAIN, TEST, words=words).value == 1,
    "unseen-words": lambda words, _: (
        ms.set_similarity(TRAIN, TEST, "unseen-words", words=words).value == 0
    ),
    "top_terms": lambda words, _: (
        sorted(top_terms({"C0": [ONE], "C1": [OTHER]}, words=words)["C0"]) == sorted(ONE)
    ),
    "nearest-query": is_near_by_vectors,
    "find_leakage, words": leaks,
    "find_leakage, terms": nearly_leaks,
    "ShiftSplits.same_words": has_the_same_words,
    "Bm25": is_searched,
    "Run.bm25": is_searched_in_a_run,
    "mine_negatives": is_the_negative,
    "similar_pairs": is_recalled_to_annotators,
    "make_word_table": has_words_of_a_reranker,
    "group_by_length": is_long,
    "group_by_wh_word": has_the_question_word,
    "group_by_rarest_term": has_no_rare_term,
}


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("door", DOORS)
def test_only_characters_find_common_words_in_texts_without_spaces(
    door: str, words: str, tmp_path: Path
) -> None:
    try:
        is_common = DOORS[door](words, tmp_path)
    except DataError:  # No vector, as no two texts share a word.
        is_common = False
    assert is_common == (words == "characters")


@pytest.mark.parametrize("words", ["unicode", "characters"])
def test_both_drop_punctuation_that_whitespace_keeps(words: str) -> None:
    train, test = {"1": "who is pope?"}, {"8": "Who is (pope)"}
    assert ms.set_similarity(train, test, words=words).value == 1
    assert ms.set_similarity(train, test).value == 0.5


def test_an_unknown_way_to_divide_texts_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "collection"
    write_collection(folder)
    for call in (
        lambda: ms.set_similarity(TRAIN, TEST, words="letters"),
        lambda: ms.set_similarity(TRAIN, TEST, "nearest-query", words="letters", encoder="terms"),
        lambda: ms.find_leakage(TRAIN, TEST, words="letters"),
        lambda: ms.build_dataset(folder, ["length"], tmp_path / "built", words="letters"),
        lambda: Bm25Parameters(words="letters"),
    ):
        with pytest.raises(UnknownNameError, match=r"letters.*characters"):
            call()
    assert not (tmp_path / "built").exists()
