"""From texts to groups to splits: the rules by hand, and what holds of every cut."""

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given, strategies as st

from msshift_bench.data import count_rows
from msshift_bench.dataset_builders.cut import (
    SPLIT_SCALE_RULE,
    ShiftSplits,
    cut_shift,
    cut_table,
    sample,
    sample_validation,
)
from msshift_bench.dataset_builders.groups import (
    group_by_length,
    group_by_rarest_term,
    group_by_wh_word,
    question_matcher,
    word_count,
)
from msshift_bench.records import OTHERS, PLACES, Grouping, Row
from msshift_bench.shifts import SHIFTS
from tests.support.cut_rows import cut_rows, table_of_queries
from tests.support.refusals import check_refusals


def queries(*texts: str) -> dict[str, str]:
    return {f"q{number}": text for number, text in enumerate(texts)}


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
    assert question_matcher("word")(text) == word
    assert question_matcher("substring")(text) == substring
    assert list(group_by_wh_word(queries(text)).labels.values()) == [*word, OTHERS][:1]


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
    assert word_count("how  to prune") == 4  # between single spaces


RARE_TERMS = {
    "1": ("what is rome", "seen"),  # rome: in 2, 5 and 6, which is set aside
    "2": ("cheap flights to rome", "rare"),  # flights: in 3
    "3": ("flights to oslo", "rare"),  # oslo: nowhere else
    "4": ("what is the", "others"),  # no content word
    "5": ("rome rome", "seen"),
    "6": ("rome", "seen"),  # set aside: in 1, 2 and 5
}


def test_groups_by_how_often_the_rarest_word_is_met_in_other_training_queries() -> None:
    rows = list(RARE_TERMS.items())
    for order in (rows, random.Random(1).sample(rows, len(rows))):
        texts = {query_id: text for query_id, (text, _) in order}
        found = group_by_rarest_term(texts, set_aside=frozenset("6"))
        # Counts 2, 0 ("cheap"), 0, 2, 3: their median is 2.
        assert found.parameters == {"cut": 2}
        assert found.labels == {query_id: group for query_id, (_, group) in rows}
    assert group_by_rarest_term(queries("rome", "oslo")).parameters == {"cut": 1}
    assert group_by_rarest_term(queries()).labels == {}


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
    table = table_of_queries(dict(many))
    cut = cut_shift(group_by_length(many), table, frozenset({"q0"}), test_size=10, seed=0)
    assert count_rows(cut.shift, cut.table) == {
        "short": {"train": 30, "validation": 1, "test": 9, "unused": 0},
        "long": {"train": 30, "validation": 0, "test": 10, "unused": 4},
    }
    assert "training: of each group at most what the smallest has left" in SPLIT_SCALE_RULE


def test_what_cannot_be_grouped_or_tested() -> None:
    few = queries("what", "what", "what", "what", "how")
    rest = queries(*["what", "how", "who"] * 2, *["cost"] * 3)

    def cut(texts: dict[str, str], tests: frozenset[str] | None) -> None:
        grouping, table = group_by_wh_word(texts), table_of_queries(texts)
        cut_shift(grouping, table, frozenset(), test_size=1, tests=tests, seed=0)

    refusals = {
        "UnknownNameError 'words'": partial(group_by_wh_word, few, "words"),
        "UnknownNameError 'tokens'": partial(group_by_length, few, "tokens"),
        "UnknownNameError 'mean'": partial(group_by_rarest_term, few, "mean"),
        "DataError 'how'": partial(cut, few, None),
        "DataError 'q7'": partial(cut, rest, frozenset({"q0", "q1", "q2", "q7"})),
    }
    check_refusals(refusals)


GROUPS = tuple(SHIFTS["wh-words"].groups)
SIZES = st.fixed_dictionaries(
    {**{group: st.integers(9, 60) for group in GROUPS}, OTHERS: st.integers(0, 40)}
)


def cut_groups(
    sizes: dict[str, int], seed: int, train_size: object, order: random.Random | None = None
) -> ShiftSplits:
    labelled = [(f"{group}{n}", group) for group, size in sizes.items() for n in range(size)]
    if order:
        order.shuffle(labelled)
    labels = dict(labelled)
    return cut_shift(
        Grouping("wh-words", labels, "word", {}),
        table_of_queries({query_id: f"text of {query_id}" for query_id in labels}),
        sample_validation(labels, size=5, seed=seed),
        test_size=10,
        train_size=train_size,  # type: ignore[arg-type]
        seed=seed,
    )


@given(SIZES, st.integers(0, 3), st.randoms(use_true_random=False))
def test_training_sets_are_equal_and_nothing_is_lost(
    sizes: dict[str, int], seed: int, order: random.Random
) -> None:
    found = cut_groups(sizes, seed, None)
    counts = count_rows(found.shift, found.table)
    smallest = min(sum(counts[g][p] for p in ("train", "unused")) for g in GROUPS)
    assert {counts[group]["train"] for group in GROUPS} == {smallest}
    ids = {place: {row.query_id for row in cut_rows(found, place)} for place in PLACES}
    assert sum(map(len, ids.values())) == len(set().union(*ids.values()))
    grouped = {f"{group}{n}" for group in GROUPS for n in range(sizes[group])}
    assert set().union(*ids.values()) == grouped | ids["validation"]
    in_order = found.table["query_id"].to_pylist()
    assert in_order == sorted(in_order)
    assert all(split == "validation" for g, split in found.values("group", "split") if g == OTHERS)
    assert cut_groups(sizes, seed, None, order).table == found.table


@given(SIZES, st.integers(0, 3), st.integers(1, 3))
def test_smaller_training_sets_are_parts_of_larger_ones(
    sizes: dict[str, int], seed: int, size: int
) -> None:
    few, default, everything = (
        set(cut_rows(cut_groups(sizes, seed, train_size), "train"))
        for train_size in (size, None, "all")
    )
    assert len(few) == size * len(GROUPS)
    assert few <= default <= everything


TRAIN = (("cheap flights", 0), ("Rome, cheap flights to", 1), ("red shoes", 1))
TEST = (("Cheap flights?", 0), ("cheap flights to rome", 0), ("shoes red", 1))


@pytest.mark.parametrize(
    ("shift", "counts"),
    # "Cheap flights?" is trained on by its own group alone, "shoes red" likewise; where groups are
    # training sets, each has all test queries.
    [("length", (1, 0)), ("restrain-14k", (1, 2))],
)
def test_a_test_query_counts_where_others_train_on_its_words(
    shift: str, counts: tuple[int, int]
) -> None:
    groups = tuple(SHIFTS[shift].groups)
    rows = {
        split: [Row(str(n), text, groups[g], ("d",), (1,)) for n, (text, g) in enumerate(texts)]
        for split, texts in (("train", TRAIN), ("test", TEST))
    }
    cut = ShiftSplits(Grouping(shift, {}, "rule", {}), cut_table(rows))
    assert cut.same_words() == dict(zip(groups, counts, strict=True))
