"""What is compared, and its values: by hand, in any order; and what the command prints."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from msshift_bench import mini
from msshift_bench.arrays import Vectors
from msshift_bench.data import open_dataset
from msshift_bench.dataset_builders.build import import_official
from msshift_bench.errors import CollectionError
from msshift_bench.leakage import find_leakage
from msshift_bench.records import Qrel, Query
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import (
    INDICATORS,
    QueryColumns,
    TextVectors,
    count_overlap,
    group_similarity,
    read_query_set,
    set_similarity,
)
from tests.conftest import Build, Command
from tests.support.golden import Golden
from tests.support.official_checkout import write_checkout
from tests.support.refusals import check_exits, check_refusals

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
    assert set_similarity(train, test).value == float(exact)
    assert set_similarity(test, train).value == float(exact)
    assert set_similarity(train, train).value == 1
    assert set_similarity(train, {"9": "x y"}).value == 0
    # "ba" holds the letters b and a: any tokenizer will do
    assert set_similarity({"1": "ab"}, {"2": "ba"}).value == 0
    assert set_similarity({"1": "ab"}, {"2": "ba"}, tokenizer=list).value == 1


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
    found = set_similarity(train, test).value
    assert found == float(Fraction(least) / Fraction(most))
    shuffled = random.Random(0).sample(list(train.items()), len(train))
    assert set_similarity(dict(shuffled), test).value == found


def test_unseen_words_are_counted_by_hand() -> None:
    train = {"1": "price of wool", "2": "Who makes cheese?"}
    test = {
        "7": "what is the price of gold",  # price and gold, of which gold is new
        "8": "wool, wool: CHEESE!",
        "9": "who is it",  # stop words only
        "10": "gold silver gold",
    }
    found = set_similarity(train, test, "unseen-words")
    assert found.values.tolist() == [0.5, 0, 0, 1]
    assert found.ranks.tolist() == [3, 1, 1, 4]
    by_white_space = set_similarity(train, test, "unseen-words", tokenizer=str.split)
    assert by_white_space.values.tolist() == [4 / 6, 1, 1, 1]


@pytest.mark.realdata
@pytest.mark.extended
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


@pytest.mark.extended
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
    found = set_similarity(train, test, "nearest-query", encoder="terms")
    assert found.query_ids == tuple(query.query_id for query in test)
    assert set(found.nearest) <= set(train)
    assert found.nearest.texts[-1] == rows[17].text
    assert (found.values[-1], found.ranks[-1]) == (pytest.approx(1), 1)
    assert np.all(np.diff(found.values[np.argsort(found.ranks)]) <= 0)
    assert found.value == math.fsum(found.values) / len(test)
    cosines = set_similarity(train, test, "mean-cosine", encoder="terms")
    assert cosines.value == math.fsum(cosines.values) / len(cosines.values)


# ---- what is compared ---------------------------------------------------------------------------


def test_a_group_is_compared_with_all_others_in_the_splits_asked_for(build_once: Build) -> None:
    dataset = open_dataset(build_once("mini:300", "wh-words"))
    groups = group_similarity(dataset, "wh-words", split="test", against="train")
    assert [one.group for one in groups] == ["wha", "how", "who"]
    for one in groups:
        config = f"wh-words-{one.group}"
        test, train = dataset.rows(config, "test"), dataset.rows(config, "train")
        assert (one.queries, one.other_queries) == (len(test), len(train))
        assert one.value == set_similarity(train, test).value
    whole = group_similarity(dataset, "wh-words", split="all")
    rows = list(dataset.rows("wh-words", "queries"))
    for one in whole:
        own = [row for row in rows if row.group == one.group]
        others = [row for row in rows if row.group not in (one.group, "others")]
        assert (one.queries, one.other_queries) == (len(own), len(others))
        assert one.value == set_similarity(others, own).value


def test_a_file_will_do_and_so_will_rows_and_mappings(tmp_path: Path) -> None:
    texts = {"q1": "what is a gondola", "q2": "price of a gondola"}
    path = tmp_path / "queries.tsv"
    path.write_text("".join(f"{query_id}\t{text}\n" for query_id, text in texts.items()))
    queries = read_query_set(path)
    assert dict(queries) == texts
    assert read_query_set(texts) == read_query_set(list(queries)) == read_query_set(str(path))


def test_what_cannot_be_compared_is_refused(tmp_path: Path, build_once: Build) -> None:
    fine = {"q2": "b"}
    refusals: dict[str, Callable[[], object]] = {}
    contents = {
        "q1\n": "[field-count] queries-0.tsv:1 1 fix",
        "q1\ta\nq1\tb\n": "[repeated-id] queries-1.tsv:2 'q1'",
        "q1\t \n": "[empty-text] queries-2.tsv:1 'q1'",
        "": "[no-queries] queries-3.tsv",
    }
    for number, (content, facts) in enumerate(contents.items()):
        path = tmp_path / f"queries-{number}.tsv"
        path.write_text(content)
        refusals[f"{number}: CollectionError {facts}"] = partial(set_similarity, path, fine)
    one, without_texts = {"q1": "a"}, build_once("mini:300", "length", texts=False)
    dataset = build_once("mini:300", "length")
    judged: Any = [Qrel(1, "d", 1)]
    refusals |= {
        "NotFoundError none.tsv": partial(set_similarity, tmp_path / "none.tsv", fine),
        "DataError query": partial(set_similarity, {}, fine),
        "DataError 'q1' 'a'": partial(set_similarity, one, {"q1": "a c", "q2": "b"}),
        "UnknownNameError 'weightedjacard'": partial(set_similarity, one, fine, "weightedjacard"),
        "UnknownNameError 'topics' length": partial(group_similarity, dataset, "topics"),
        "MissingError import": partial(group_similarity, without_texts, "length"),
        "UnknownNameError 'tests'": partial(group_similarity, dataset, "length", split="tests"),
        "CollectionError [id-invalid] qrels 'd'": partial(
            find_leakage, fine, one, qrels=(judged, [Qrel("q1", "d", 1)])
        ),
    }  # fmt: skip
    for unfit in (["a", "b"], [("q1", "a")], None):
        kind = type((unfit or [None])[0]).__name__
        refusals[f"{unfit}: UsageError '{kind}' query_id"] = partial(set_similarity, unfit, fine)
    import_official([write_checkout(tmp_path / "release")], tmp_path / "msshift")
    to_letters, vectors = re.compile("[a-z]").findall, {"encoder": "terms"}
    queries, numbers = {"1": "a"}, {"2": "?"}
    of_queries = partial(set_similarity, queries, fine)
    refusals |= {
        "DataError test": partial(set_similarity, queries, numbers, tokenizer=to_letters),
        "DataError training": partial(set_similarity, numbers, queries, tokenizer=to_letters),
        "DataError 'terms' 2": partial(of_queries, "mean-cosine", **vectors),
        "UsageError overlap --seed model-based": partial(of_queries, "overlap", seed=1),
        "UsageError NAME=QRELS count_overlap": partial(of_queries, "overlap"),
        "UnknownNameError 'meen'": partial(of_queries, "mean-cosine", pooling="meen", **vectors),
        "DataError length-short --split": partial(
            group_similarity, tmp_path / "msshift", "length", "unseen-words"
        ),
        "DataError a": partial(count_overlap, {"a": LEARNT[-1:]}, {"t": JUDGED}),
        "DataError t": partial(count_overlap, {"a": LEARNT}, {"t": [JUDGED[4]]}),
    }
    check_refusals(refusals)


def test_values_in_memory_are_checked_as_files_are(build_once: Build) -> None:
    fine = {"q2": "b"}
    for queries, message in (
        ({1: "a"}, "the query id must be a non-empty string, got 1"),
        *(({"q1": text}, "query 'q1' has no text") for text in (" ", None, float("nan"))),
        ([Query("q1", "a"), Query("q1", "b")], "query 'q1' has two texts, 'a' and 'b'"),
    ):
        for sets in ((queries, fine), (fine, queries)):
            for function in (set_similarity, find_leakage):
                with pytest.raises(CollectionError, match=message):
                    function(*sets)
    # Rows of several splits may hold a query twice.
    assert set_similarity([Query("q1", "a"), Query("q1", "a")], {"q2": "a"}).value == 1
    ids_only = open_dataset(build_once("mini:300", "length", texts=False))
    rows = [ids_only.rows("length-short", split) for split in ("train", "test")]
    for compare in (find_leakage, partial(set_similarity, indicator="unseen-words")):
        with pytest.raises(CollectionError, match="msshift import"):
            compare(*rows)


def test_a_release_without_training_queries_is_compared_with_itself(tmp_path: Path) -> None:
    import_official([write_checkout(tmp_path / "release")], tmp_path / "msshift")
    (short, _) = group_similarity(tmp_path / "msshift", "length", "unseen-words", against="test")
    # "test short" and "test long" share the word "test"; "long" is a stop word
    assert (short.value, short.queries, short.other_queries) == (0.5, 1, 1)


# ---- the command ---------------------------------------------------------------------------------


def test_what_the_command_prints_and_refuses(
    msshift: Command, build_copy: Build, tmp_path: Path, golden: Golden
) -> None:
    build_copy("mini:300", "wh-words", "length")
    rows = list(mini.queries(300))
    for name, part in (("train", rows[:200]), ("test", [*rows[200:], rows[5]])):
        lines = "".join(f"{row.query_id}\t{row.text}\n" for row in part)
        (tmp_path / f"{name}.tsv").write_text(lines)
    for name, qrels in (("a", LEARNT[:2]), ("b", LEARNT[2:]), ("t", JUDGED)):
        lines = "".join(f"{one.query_id} 0 {one.doc_id} {one.relevance}\n" for one in qrels)
        (tmp_path / name).write_text(lines)
    files = "--train train.tsv --test test.tsv"
    overlap = "--indicator overlap --train known=a --train known=b --test dl=t"
    values = (
        ("", [0.113779, 0.139320, 0.104087, 0.180533, 0.180533]),
        ("--shift length --split test:train --indicator unseen-words", [0.405303, 0.479570]),
        (files, [0.402181]),
        (f"{files} --indicator nearest-query --encoder terms --per-query n.parquet", [0.794634]),
    )
    for words, expected in values:
        printed = json.loads(msshift("similarity", *words.split(), "--format", "json").stdout)
        found = [row["value"] for row in printed["figures"] if row["figure"] == "similarity"]
        assert found == pytest.approx(expected, abs=5e-7)
    golden.check("similarity.txt", msshift("similarity").stdout)
    golden.check("overlap.txt", msshift("similarity", *overlap.split()).stdout)
    assert msshift("similarity", *overlap.split(), "--output", "o.json").returncode == 0
    check_exits(
        msshift,
        {
            f"{overlap} --per-query o.parquet": "2 overlap o.parquet",
            "--indicator overlap --train a --test dl=t": "2 --train 'a' NAME=QRELS",
            "--train train.tsv": "2 --train --test",
            f"{files} --split all": "2 --split",
            f"{files} --per-query x.parquet": "2 weighted-jaccard x.parquet",
            f"{files} --output x.txt": "2 '.txt' .json",
            f"{files} --train test.tsv": "2 one",
            f"{files} --encoder terms": "2 --encoder",
            f"{files} --models runs": "2 --models model-based",
            f"{files} --indicator model-based": "2 --models --keep-model",
        },
        "similarity",
    )
    last = pq.ParquetFile(tmp_path / "n.parquet").read().to_pylist()[-1]
    assert (last["nearest_text"], last["rank"]) == (rows[5].text, 1)
    assert json.loads((tmp_path / "o.json").read_text())["figures"][0]["value"] == 2


def test_the_command_writes_every_querys_value(msshift: Command, build_copy: Build) -> None:
    data = build_copy("mini:300", "length")
    command = ("similarity", "--indicator", "unseen-words", "--per-query", "u.parquet")
    printed = json.loads(msshift(*command, "--format", "json").stdout)
    values = group_similarity(data, "length", "unseen-words")
    shown = {(row["figure"], row["group"]): row["value"] for row in printed["figures"]}
    assert {("similarity", of.group): of.value for of in values}.items() <= shown.items()
    assert shown["median", "short"] == np.median(values[0].values)
    table = pq.ParquetFile(data.parent / "u.parquet").read()
    settings = json.loads(table.schema.metadata[b"msshift_bench"])["settings"]
    assert settings == {"indicator": "unseen-words", "split": "test", "against": "train"}
    assert table["query_id"].to_pylist() == [name for part in values for name in part.query_ids]
    assert table["value"].to_pylist() == [value for part in values for value in part.values]
    assert table["rank"].to_pylist() == [rank for part in values for rank in part.ranks]


def test_groups_overlap_where_a_query_shares_a_relevant_passage(build_once: Build) -> None:
    data = build_once("mini:300", "length")
    labels = {row.query_id: set(row.relevant_doc_ids)
              for row in open_dataset(data).rows("length", "queries")}  # fmt: skip
    for one in group_similarity(data, "length", "overlap"):
        train = open_dataset(data).rows(f"length-{one.group}", "train")
        trained = {doc_id for row in train for doc_id in labels[row.query_id]}
        expected = [float(bool(labels[q] & trained)) for q in one.query_ids]
        assert one.values.tolist() == expected
        assert one.value == sum(expected) / len(expected)


# ---- relevant passages that test queries share with training queries ----------------------

LEARNT = [Qrel("1", "a", 1), Qrel("1", "b", 1), Qrel("2", "b", 2), Qrel("3", "c", 0)]
JUDGED = [
    *(Qrel("7", "a", 1), Qrel("7", "b", 3)),
    *(Qrel("8", "b", 1), Qrel("8", "c", 3)),
    Qrel("9", "a", 0),
    Qrel("1", "a", 1),
]


def test_a_query_counts_at_its_relevance_and_number_of_shared_passages() -> None:
    other = [Qrel("2", "b", 1), Qrel("2", "b", 1), Qrel("4", "d", 1)]
    found = count_overlap({"ours": LEARNT, "theirs": other}, {"test": JUDGED})
    # Query 1 shares its passage with itself alone, and c is relevant to no training query.
    shown = [[[cell.text for cell in row] for row in table.rows] for table in found.tables()]
    assert shown[0][:2] == [
        ["ours", "test", ">= 1", "2 of 4 (50%)", "1 of 4 (25%)"],
        ["ours", "test", ">= 3", "1 of 4 (25%)", "0 of 4 (0%)"],
    ]
    assert shown[1:] == [
        [["ours", "2", "3", "2"], ["theirs", "2", "2", "2"]],
        [["ours", "theirs", "1", "1"]],
    ]
