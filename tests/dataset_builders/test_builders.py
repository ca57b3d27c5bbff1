from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import QueryColumns
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.cut import cut_shift, sample, sample_validation
from msshift_bench.dataset_builders.groups import (
    group_by_length,
    group_by_wh_word,
    matching_groups,
    word_count,
)
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import DataError, UnknownNameError, UsageError
from msshift_bench.records import OTHERS
from tests.conftest import WriteFolder
from tests.support.cut_rows import table_of_queries


def queries(*texts: str) -> QueryColumns:
    return QueryColumns(tuple(f"q{number}" for number in range(len(texts))), texts)


@pytest.mark.parametrize(
    ("text", "word", "substring"),
    [
        ("what is a gondola", ("wha",), ("wha",)),
        ("What's a gondola", ("wha",), ("wha",)),
        ("whats a gondola", (), ("wha",)),
        ("hypersonic definition", ("wha",), ("wha",)),
        ("hypersonic definitions", (), ("wha",)),
        ("which show is on", ("who",), ("who", "how")),
        ("a whole week", (), ("who",)),
        ("when and how to prune", ("who", "how"), ("who", "how")),
        ("how to know when", ("how", "who"), ("how", "who")),
        ("where_is", ("who",), ("who",)),  # an underscore ends a word
        ("how-to guide", ("how",), ("how",)),
        ("cost of a pool", (), ()),
    ],
)
def test_question_words(text: str, word: tuple[str, ...], substring: tuple[str, ...]) -> None:
    assert matching_groups(text, "word") == word
    assert matching_groups(text, "substring") == substring


def test_a_query_goes_to_the_group_of_its_first_question_word() -> None:
    grouping = group_by_wh_word(queries("when and how to prune", "cost of a pool", "how much"))
    assert list(grouping.labels.values()) == ["who", OTHERS, "how"]
    assert grouping.rule == "word"


def test_unknown_rules_are_named() -> None:
    with pytest.raises(UnknownNameError, match="wh-words rule 'words': did you mean 'word'"):
        group_by_wh_word(queries("x"), "words")
    with pytest.raises(UnknownNameError, match="length rule"):
        group_by_length(queries("x"), "tokens")


def test_words_are_counted_between_single_spaces() -> None:
    assert word_count("how  to prune") == 4 == len(["how", "", "to", "prune"])


@pytest.mark.parametrize(
    ("counts", "cut", "short"),
    [((2, 6, 9), 6, 1), ((5, 6), 6, 1), ((5, 5, 6, 6), 6, 2), ((3, 4), 4, 1), ((4, 4, 4), 4, 0)],
)
def test_the_length_cut_is_the_median_rounded_up(
    counts: tuple[int, ...], cut: int, short: int
) -> None:
    grouping = group_by_length(queries(*(" ".join("x" * count) for count in counts)))
    assert grouping.parameters == {"cut": cut}
    assert list(grouping.labels.values()).count("short") == short


def test_samples_depend_on_ids_alone() -> None:
    ids = [f"q{number}" for number in range(100)]
    chosen = sample(ids, 10, seed=0, purpose="test")
    assert chosen == sample(reversed(ids), 10, seed=0, purpose="test")
    assert chosen < sample(ids, 20, seed=0, purpose="test")
    assert chosen != sample(ids, 10, seed=1, purpose="test")
    assert chosen != sample(ids, 10, seed=0, purpose="validation")
    # An id that is not chosen may go without moving any other.
    left = next(query_id for query_id in ids if query_id not in chosen)
    assert chosen == sample([i for i in ids if i != left], 10, seed=0, purpose="test")


def test_sizes_scale_down() -> None:
    assert len(sample_validation([str(i) for i in range(100)], size=1600, seed=0)) == 5
    many = queries(*["a b c"] * 40, *["a b c d e"] * 44)
    grouping = group_by_length(many)
    table = table_of_queries(dict(many))
    cut = cut_shift(grouping, table, frozenset({"q0"}), test_size=10, seed=0)
    assert cut.counts() == {
        "short": {"train": 30, "validation": 1, "test": 9, "unused": 0},
        "long": {"train": 30, "validation": 0, "test": 10, "unused": 4},
    }


def test_every_query_is_in_one_split_and_rows_are_sorted() -> None:
    many = queries(*["what is it"] * 30, *["how so"] * 30, *["who is"] * 30, *["nothing"] * 30)
    validation = sample_validation(many.ids, size=6, seed=3)
    table = table_of_queries(dict(many))
    cut = cut_shift(group_by_wh_word(many), table, validation, test_size=5, seed=3)
    ids = cut.table["query_id"].to_pylist()
    assert ids == sorted(set(ids))
    assert {query_id for (query_id,) in cut.values("query_id", split="validation")} == validation
    assert all(split == "validation" for g, split in cut.values("group", "split") if g == OTHERS)


def test_a_group_that_is_too_small_is_named() -> None:
    few = queries("what", "what", "what", "what", "how")
    with pytest.raises(DataError, match=r"group 'how' \(how\) has 1 queries"):
        cut_shift(
            group_by_wh_word(few), table_of_queries(dict(few)), frozenset(), test_size=1, seed=0
        )


@pytest.mark.parametrize(
    ("shifts", "asked", "message"),
    [
        ([], {}, "no shift is named; there are topics, wh-words, length, "),
        (["length"], {"test_size": -5}, "-5 test queries of each group"),
        (["length"], {"test_size": 0}, "0 test queries of each group"),
        (["rare-terms"], {"seed": 2**64, "nano": True}, "seed 18446744073709551616 is beyond 64"),
        (["length"], {"validation_size": -1}, "-1 validation queries"),
        (["length"], {"test_queries": frozenset()}, "no test query is given"),
        (["topics"], {"options": {"topics": {"topic_size": -5}}}, "a topic of -5 queries"),
    ],
)
def test_a_build_of_nothing_is_refused(
    tmp_path: Path, shifts: list[str], asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build_dataset("mini:300", shifts, tmp_path / "msshift", **asked)
    assert not list(tmp_path.iterdir())


def test_the_largest_seed(tmp_path: Path, tsv_folder: WriteFolder) -> None:
    texts = [f"q{i}\tplain words {'and more ' * (i % 4)}{i}\n" for i in range(60)]
    judged = "".join(f"q{i} 0 d1 1\n" for i in range(60))
    folder = tsv_folder(queries="".join(texts), qrels=judged)
    build_dataset(folder, ["length", "rare-terms"], tmp_path / "x", seed=2**64 - 1, nano=True)
    add_triples(tmp_path / "x", folder, shifts=["length"], count=1, depth=2, seed=-(2**63))
    with pytest.raises(UsageError, match="beyond 64 bits"):
        add_triples(tmp_path / "x", folder, count=1, depth=2, seed=10**60)
