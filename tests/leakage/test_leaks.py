"""Leaks: planted ones, brute force, blocks, orders; scores and training sets without what leaks."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.leakage_tiers import tables
from benchmarks.support.planted_leaks import KINDS
from msshift_bench import clean_training, find_leakage, plumbing
from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import (
    Result,
    Settings,
    evaluate_run_sets,
    losses_of,
    open_test_set,
    score_runs,
)
from msshift_bench.leakage import (
    TIERS,
    LeakedPair,
    WordSpace,
    read_leaked_queries,
    read_topics,
    search,
)
from msshift_bench.mini import queries
from msshift_bench.records import Qrel, Query
from msshift_bench.search import normalise, sorted_words
from msshift_bench.shifts import SHIFTS
from msshift_bench.similarity import NearestQueries, unit_rows, vectors
from tests.conftest import Build, Command
from tests.support.fabricated import write_run, write_runs
from tests.support.golden import Golden
from tests.support.leaks import write_found
from tests.support.refusals import check_exits, check_refusals
from tests.support.tiny_encoder import make_tiny_encoder

TEXTS = dict(queries(300))
TOPICS = (
    "<top>\n<num> Number: 301\n<title> Lyme disease\n\n<desc> Description:\nHow is lyme disease\n"
    "treated, if x < 3?\n<narr> Narrative:\nNo text of this is compared.\n</top>\n"
)


def test_what_is_planted_is_found_at_its_tier_and_nothing_exact_is_missed() -> None:
    by_kind, by_tier = tables(600)  # docs/leakage.md holds the second one for more queries
    cells = {row[0].text: [cell.text for cell in row[1:]] for row in by_kind.rows}
    for kind, (tier, _) in KINDS.items():
        expected, planted, *counts = cells[kind]
        assert (expected, int(planted) > 70) == (tier or "none", True)
        if tier in TIERS[:3]:
            assert counts == [planted if place == TIERS.index(tier) else "0" for place in range(4)]
    assert cells["other fact"][2:] == cells["other number"][2:] == ["0", "0", "0", "0"]
    # The same words do not always ask the same: the tier cannot tell.
    assert cells["roles swapped"][4] == cells["roles swapped"][1]
    tiers = {row[0].text: [cell.text for cell in row[1:]] for row in by_tier.rows}
    assert [tiers[tier][3] for tier in TIERS[:3]] == ["1.000", "1.000", "1.000"]


POINTS = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=3, max_size=3)
VECTORS = st.lists(POINTS, min_size=2, max_size=12)


@settings(max_examples=25)
@given(
    VECTORS, VECTORS, st.integers(1, 4), st.sampled_from([0.1, 0.7, 0.95, 1.0]), st.integers(1, 5)
)
def test_neighbours_are_those_of_brute_force_for_any_block(
    tests: list[list[float]], train: list[list[float]], most: int, least: float, size: int
) -> None:
    def cosine(one: list[float], other: list[float]) -> float:
        lengths = math.hypot(*one) * math.hypot(*other)
        return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0

    named = [Query(f"t{number}", "text") for number in range(len(train))]
    near = NearestQueries(np.array(tests, np.float32), least=least, most=most)
    for part in reversed(list(plumbing.slices(len(train), size))):
        near.meet(named[part], np.array(train, np.float32), np.arange(len(train))[part])
    for test, found in zip(tests, near.found, strict=True):
        cosines = {
            one.query_id: cosine(test, other) for one, other in zip(named, train, strict=True)
        }
        # Where cosines are equal but for rounding, the ids that sort first may differ.
        best = sorted((value for value in cosines.values() if value >= least - 1e-9), reverse=True)
        assert len(found) <= most
        assert len(found) >= min(most, sum(value >= least + 1e-9 for value in best))
        for (distance, train_id, _), value in zip(found, best, strict=False):
            assert -distance == pytest.approx(value, abs=1e-12)
            assert cosines[train_id] == pytest.approx(value, abs=1e-12)


def test_blocks_threads_and_the_order_of_lines_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tests = {f"t{query_id}": f"{text} now" for query_id, text in list(TEXTS.items())[::5]}
    before = find_leakage(TEXTS, tests, threshold=0.5, nearest=3)
    assert before.count("near-duplicate").pairs > 50
    for size, name in enumerate(("_TESTS", "_TRAINING", "_PART", "_PAIRS"), 2):
        monkeypatch.setattr(vectors, name, 4 * size)
    monkeypatch.setattr(plumbing.threads, "thread_count", lambda: 1)
    backwards = (dict(reversed(queries.items())) for queries in (TEXTS, tests))
    again = find_leakage(*backwards, threshold=0.5, nearest=3)
    assert again.pairs == before.pairs
    assert again.result().to_json() == before.result().to_json()


def test_words_are_counted_in_the_same_sample_whatever_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "_SAMPLE", 40)
    texts = list(TEXTS.values())
    one, other = WordSpace(texts), WordSpace([*reversed(texts), texts[3]])
    assert one.facts == other.facts
    assert one.facts["counted_in"] == 40
    assert np.array_equal(one.vectors(texts[:9]), other.vectors(texts[:9]))


def test_what_spelling_takes_away() -> None:
    for one, other, same in (
        ("What's  NEW?", "whats new", True),
        ("Café-au-lait", "cafe au lait", True),
        ("price of 1.5", "price of 15", False),
        ("c++", "c", False),
        ("हिन्दी", "हिन्द", False),
        ("\uff21\uff22 stra\u00dfe", "ab strasse", True),
    ):
        found = find_leakage({"1": one}, {"2": other})
        assert found.count("same-normalised").pairs == same, one
        assert normalise(normalise(one)) == normalise(one)


@pytest.mark.extended
@settings(max_examples=50)
@given(st.text(max_size=20))
def test_a_spelling_is_its_own(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
    assert sorted_words(" ".join(reversed(normalise(text).split()))) == (
        sorted_words(text) if normalise(text) else ""
    )


def test_a_topic_of_several_texts_is_counted_by_each(tmp_path: Path) -> None:
    topics, trained = tmp_path / "topics.txt", tmp_path / "train.tsv.gz"
    topics.write_text(TOPICS)
    trained.write_bytes(gzip.compress(b"7\tlyme disease\n9\tdisease, Lyme\n301\tflowers\n"))
    assert [topic.field for topic in read_topics(topics)] == ["description", "title"]
    assert "treated, if x < 3?" in read_topics(topics)[0].text
    with pytest.raises(DataError, match="--separate-ids"):
        find_leakage(trained, topics)
    qrels = [Qrel("301", "d1", 2), Qrel("7", "d2", 1)], [Qrel("301", "d1", 1), Qrel("301", "d2", 0)]
    for side, name in enumerate(("training", "test")):
        others = [judged if n != side else [Qrel("5", "d1", 1)] for n, judged in enumerate(qrels)]
        with pytest.raises(DataError, match=f"qrels of the {name}"):
            find_leakage(trained, topics, separate_ids=True, qrels=(others[0], others[1]))
    (tmp_path / "qrels.txt").write_text("301 0 d1 1\n301 0 d2 0\n")
    judged_in_a_file = qrels[0], tmp_path / "qrels.txt"
    found = find_leakage(trained, topics, separate_ids=True, qrels=judged_in_a_file)
    assert [one[1:4] for one in found.pairs] == [
        ("301", "same-passage", None), ("7", "same-normalised", None), ("9", "same-words", None)
    ]  # fmt: skip
    shown = [[cell.text for cell in row] for row in found.result().tables()[1].rows]
    assert shown == [["description", "0", "0"], ["title", "1", "2"], ["union", "1", "2"]]
    assert found.fields["title"] == (2, 1, 2)
    found.write(tmp_path / "found")
    columns = pq.read_table(tmp_path / "found" / "candidates.parquet").column_names
    assert columns == ["test_id", "train_id", "tier", "cosine", "test_text", "train_text"]
    pipe, begin = os.pipe()
    with os.fdopen(pipe), os.fdopen(begin, "w") as file:
        file.write("301\tticks\n")
        file.close()
        assert [topic.text for topic in read_topics(f"/dev/fd/{pipe}")] == ["ticks"]
    (tmp_path / "fields.tsv").write_text("301\tLyme disease\ttitle\n301\tticks\tvariant\n")
    again = find_leakage(trained, tmp_path / "fields.tsv", separate_ids=True)
    assert set(again.fields) == {"title", "variant"}


BAD = {
    "train": {
        "1\tone\nalone\n1\tagain\n": "[field-count] [repeated-id] train-0.tsv:2 train-0.tsv:3 '1'",
        "1\tone\n1\tother\n": "[repeated-id] train-1.tsv:2 '1'",
        "1\t \n": "[empty-text] train-2.tsv:1 '1'",
        "": "[no-queries] train-3.tsv",
        f"1\t{'a' * (1 << 20)}\n": "[binary-input] train-4.tsv:1 fix",
    },
    "test": {
        "alone\n": "[field-count] test-0.tsv:1 1 fix",
        "t\ta test\nt\tb\n": "[repeated-id] test-1.tsv:2 't' fix",
        "t\ta\ttitle\nt\tb\n": "[field-count] test-2.tsv:2 2 fix",
        "t\ta\ttitle\nt\ta\ttitle\n": "[repeated-text] test-3.tsv:2 't' fix",
        "<top>\n</top>\n": "[no-queries] test-4.tsv",
        "\ta test\n": "[empty-id] test-5.tsv:1",
        "t\ta\nu\t \n": "[empty-text] test-6.tsv:2 'u'",
        "t\ta\tthe title\n": "[bad-field] test-7.tsv:1 fix",
        "<top>\n<title> a\n": "[empty-id] test-8.tsv:2",
        "<top>\n<title> \udcff\n": "[not-utf8] test-9.tsv",
        "\x1f\udc8b\x08\x00cut off": "[truncated-input] test-10.tsv:1 fix",
        f"t\t{'a' * (1 << 20)}\n": "[binary-input] test-11.tsv:1 fix",
        f"<top>\n{'a' * (1 << 26)}": "[too-large] test-12.tsv",
    },
}
"""Contents of files of queries, and the facts of their errors."""


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    good = {"train": {"1": "one"}, "test": {"t": "a test"}}
    refusals: dict[str, Callable[[], object]] = {}
    for which, contents in BAD.items():
        for number, (content, facts) in enumerate(contents.items()):
            path = tmp_path / f"{which}-{number}.tsv"
            path.write_text(content, "utf-8", "surrogateescape")
            sources = {**good, which: path}
            refusals[f"{path.stem}: CollectionError {facts}"] = partial(
                find_leakage, *sources.values()
            )
    find = partial(find_leakage, TEXTS, TEXTS)
    refusals |= {
        "DataError 't' --separate-ids": partial(find_leakage, {"t": "another text"}, good["test"]),
        "UsageError threshold 0.0 1": partial(find, threshold=0.0),
        "UsageError threshold 1.5 1": partial(find, threshold=1.5),
        "UsageError nearest 0 1": partial(find, nearest=0),
        "no training file: NotFoundError none.tsv": partial(find_leakage, "none.tsv", TEXTS),
        "no test file: NotFoundError none.tsv": partial(find_leakage, TEXTS, "none.tsv"),
        "UsageError folder": partial(find_leakage, TEXTS, tmp_path),
    }
    check_refusals(refusals)


def test_what_the_command_prints_writes_and_refuses(msshift: Command, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("1\tcheap flights to rome\n2\tred shoes\n")
    (tmp_path / "test.tsv").write_text("a\tCheap flights to Rome?\nb\tblue sky\n")
    find = "leakage find --train train.tsv --test test.tsv"
    printed = json.loads(msshift(*find.split(), "--format", "json").stdout)
    written = json.loads((tmp_path / "found" / "found.json").read_text())
    assert printed == {name: written[name] for name in printed}
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        *("candidates.parquet", "found.json")
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "review.csv").write_text("mine")
    assert msshift(*find.split(), "--fail-on", "same-text").returncode == 0
    files = "--train train.tsv --test test.tsv"
    check_exits(
        msshift,
        {
            f"{files} --out x --fail-on same-words": "1 1 same-normalised clean",
            f"{files} --out mine": "2 mine review.csv",
            f"{files} --fail-on same-passage": "2 --train-qrels --test-qrels",
            f"{files} --fail-on same-word": "2 'same-word' 'same-words'",
            f"{files} --train-qrels train.tsv": "2 --test-qrels",
            f"{files} --data x": "2 --data --train",
            "--train train.tsv": "2 --test",
            "--fail-on same-words": "2 --fail-on",
            "--out x": "2 --out",
            "--nearest 1": "2 --nearest",
        },
        "leakage find",
    )
    encoder = ("--out", "o", "--encoder", "no-such/model")
    refused = msshift(*find.split(), *encoder, HF_HUB_OFFLINE="1")
    assert (refused.returncode, "no encoder 'no-such/model'" in refused.stderr) == (3, True)
    assert not (tmp_path / "o").exists()


# ---- under a neural encoder ----------------------------------------------------------------------


@pytest.mark.neural
def test_an_encoder_finds_what_its_vectors_are_near_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, texts = tmp_path / "encoder", dict(queries(70))
    train, tests = dict(list(texts.items())[:60]), dict(list(texts.items())[60:])
    make_tiny_encoder(folder, list(texts.values()), length=64, layers=1, hidden=16)
    embedded = embed_queries(texts, EncoderSpec(str(folder), pooling="mean"))
    vectors = dict(zip(embedded.query_ids, unit_rows(embedded.vectors), strict=True))
    cosines = {(a, b): float(vectors[a] @ vectors[b]) for a in tests for b in train}
    threshold = float(np.mean(sorted(cosines.values())[-200:-198]))
    monkeypatch.setattr(search, "_BLOCK", 25)
    options = {"encoder": str(folder), "pooling": "mean"}
    found = find_leakage(train, tests, threshold=threshold, **options)
    near = {(one.test_id, one.train_id): one.cosine for one in found.pairs if one.cosine}
    expected = {pair: cosine for pair, cosine in cosines.items() if cosine >= threshold}
    assert len(expected) == 199
    assert near == pytest.approx({pair: expected[pair] for pair in near})
    # Pairs of the same words stand at another tier.
    assert {pair[:2] for pair in found.pairs} == expected.keys()
    assert found.facts["encoder"]["pooling"] == "mean"
    assert find_leakage(train, tests, **options).facts["threshold"] == 0.91


# ---- scores without the test queries that leaked ------------------------------------------------


KEPT, DIFFERENCE = "not leaked", "all minus not leaked"


def pair_of(query_id: str, text: str) -> LeakedPair:
    return LeakedPair(query_id, f"t{query_id}", "near-duplicate", 0.95, text, "a text")


def write_leaked(folder: Path, leaked: dict[str, str]) -> Path:
    """Write candidates of these test queries alone: which were searched is not known."""
    return write_found(folder, (pair_of(*query) for query in leaked.items()))


@pytest.fixture(scope="module")
def data(build_once: Build) -> Path:
    return build_once("mini:300", "length")


@pytest.fixture
def runs(data: Path, tmp_path: Path) -> Path:
    write_runs(tmp_path / "runs" / "trained", data)
    return tmp_path / "runs"


@pytest.fixture
def found(data: Path, tmp_path: Path) -> Path:
    rows = [*load_dataset(data, "length-short", split="test")]
    rows += load_dataset(data, "length-long", split="test")
    return write_leaked(tmp_path / "found", {row.query_id: row.text for row in rows[::3]})


def test_run_sets_without_leaked_queries(data: Path, runs: Path, found: Path) -> None:
    write_runs(runs / "bm25", data, one=True)
    without = read_leaked_queries(found, data)
    result = evaluate_run_sets(runs, data, without=without)
    rest = [
        scores.restricted_to({*scores.query_ids} - without.query_ids) for scores in result.scores
    ]
    expected = [
        (row.system, row.group, row.figure, row.queries, pytest.approx(row.value))
        for row in losses_of(rest, result.data, Settings()).figures
        if row.figure in ("avg_in", "out", "rel_loss", "score")
    ]
    kept = result.figures.where(slice=KEPT)
    mine = [(row.system, row.group, row.figure, row.queries, row.value) for row in kept]
    assert sorted(mine) == sorted(expected)
    assert len(mine) == 12
    assert set(result.figures.names("slice")) == {"", KEPT, DIFFERENCE}


def test_runs_without_leaked_queries(data: Path, found: Path, tmp_path: Path) -> None:
    qrels, ranked = tmp_path / "qrels.tsv", ("d1", "d2", "d3")
    # The relevant passage is the 1st, 2nd, 1st, and none of those found.
    relevant = {"q1": "d1", "q2": "d2", "q3": "d1", "q4": "d9"}
    qrels.write_text("".join(f"{one} 0 {doc_id} 1\n" for one, doc_id in relevant.items()))
    run = write_run(tmp_path / "mine.run", [(one, ranked) for one in relevant])
    of_group = write_runs(tmp_path / "runs" / "bm25", data, one=True) / "length.run.gz"
    leaked = write_leaked(tmp_path / "leaked", {"q1": "a text"})
    settings = Settings("RR@10 ASL@10")
    test_set = open_test_set(qrels)
    for path, test, without in (
        (of_group, "length-short", read_leaked_queries(found, data)),
        (run, qrels, read_leaked_queries(leaked, test_set)),
    ):
        result = score_runs([path], test, settings, data=data, without=without)
        (scored,) = result.scores[0].runs.values()
        kept = [query_id not in without.query_ids for query_id in result.scores[0].query_ids]
        for measure, scores in scored.scores.items():
            rows = result.figures.where(figure="score", measure=measure)
            whole, rest = scores.mean(), scores[kept].mean()
            expected = {"": whole, KEPT: rest, DIFFERENCE: whole - rest}
            assert {row.slice: row.value for row in rows} == pytest.approx(expected)
    # Passages above the relevant one are 0, 1, 0, and 10 where it is not found.
    values = {(row.measure, row.slice): row.value for row in result.figures.where(figure="score")}
    assert values["RR@10", KEPT] == pytest.approx(1.5 / 3)
    every = read_leaked_queries(
        write_leaked(tmp_path / "every", dict.fromkeys(relevant, "")), test_set
    )
    with pytest.raises(DataError, match=r"qrels\.tsv"):
        score_runs([run], qrels, without=every)


def test_a_group_without_a_score_has_no_loss_to_compare(
    data: Path, runs: Path, found: Path, golden: Golden
) -> None:
    # The model that saw `short` finds nothing there, so that its Rel Loss would divide by 0.
    path = runs / "trained" / "length" / "long.run.gz"
    rows = open_dataset(data).test_sets(SHIFTS["length"])
    nothing = [(row.query_id, ["nothing"]) for row in rows["short"]]
    write_run(path, [*nothing, *((row.query_id, row.relevant_doc_ids) for row in rows["long"])])
    without = read_leaked_queries(found, data)
    shown = {"no score on short": evaluate_run_sets(runs, data, without=without)}
    # With one of two held-out models, there is nothing to compare it with.
    path.unlink()
    shown["partial"] = evaluate_run_sets(runs, data, without=without, allow=["partial"])
    golden.check_results("left-out.csv", shown)
    assert not shown["partial"].figures.where(slice=(KEPT, DIFFERENCE))


def test_candidates_of_other_test_queries_are_refused(
    data: Path, runs: Path, tmp_path: Path
) -> None:
    short, long = (
        [*load_dataset(data, f"length-{group}", split="test")] for group in ("short", "long")
    )
    first = short[0]

    def evaluate(name: str) -> Result:
        without = read_leaked_queries(tmp_path / name, open_dataset(data))
        return evaluate_run_sets(runs, data, without=without)

    for name, leaked in (
        ("strangers", {"no-such": "x", first.query_id: first.text}),
        ("other texts", {first.query_id: "another text"}),
        ("every query", {row.query_id: row.text for row in short}),
        ("none", {}),
    ):
        write_leaked(tmp_path / name, leaked)
    for name, searched in (("one group", short), ("both", [*short, *long])):
        pair = pair_of(first.query_id, first.text)
        write_found(tmp_path / name, [pair], [row.query_id for row in searched])
    # Queries that were not searched do not count as not leaked.
    wrong = {
        "strangers": "strangers 1 2 no-such find",
        "other texts": "1 107 find",
        "every query": "length-short",
        "one group": "62 106 trained find",
    }
    check_refusals(
        {f"{name}: DataError {facts}": partial(evaluate, name) for name, facts in wrong.items()}
    )
    assert {row.value for row in evaluate("none").figures.where(slice=DIFFERENCE)} == {0.0}
    assert evaluate("both").figures.where(slice=DIFFERENCE)
    # Whoever scores the group that was searched alone may.
    run = runs / "trained" / "length" / "short.run.gz"
    without = read_leaked_queries(tmp_path / "one group", open_test_set("length-short", data))
    assert score_runs([run], "length-short", data=data, without=without).figures


# ---- training sets -------------------------------------------------------------------------------


TRAIN = "1\tcheap flights\n2\tred shoes\n3\tshoes red\n4\thow old is the sun\n"
QRELS = "1 0 d1 1\n2 0 d2 2\n2 0 d3 0\n9 0 d1 1\n4 0 d4 1\n"
IDS = "1\td1\td2\n3\td2\td1\n9\td1\td2\n"
TEXT_TRIPLES = (
    "cheap flights\ta passage\tanother one\nred shoes\ta passage\tanother\nnobody's\tp p\tn n\n"
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name, text in (("train", TRAIN), ("qrels", QRELS), ("ids", IDS), ("texts", TEXT_TRIPLES)):
        (tmp_path / f"{name}.tsv").write_text(text)
    find_leakage(tmp_path / "train.tsv", {"t": "red shoes"}).write(tmp_path / "found")
    return tmp_path


def test_every_file_loses_what_leaks_and_what_nobody_looked_at(
    msshift: Command, work: Path
) -> None:
    command = ("leakage", "clean", "--found", "found", "--train", "train.tsv")
    done = msshift(*command, "--qrels", "qrels.tsv", "--triples", "ids.tsv")
    assert done.returncode == 0, done.stderr
    clean = work / "clean"
    manifest = json.loads((clean / "manifest.json").read_text())
    counts = {(row["figure"], row["slice"]): row["value"] for row in manifest["figures"]}
    kinds = ("lines", "leaking_lines", "other_lines", "kept_lines")
    for name, expected in (
        ("queries.tsv", [4, 2, 0, 2]), ("qrels.tsv", [5, 2, 1, 2]), ("triples.tsv", [3, 1, 1, 1])
    ):  # fmt: skip
        assert [counts[kind, name] for kind in kinds] == expected
    written = {path.name: path.read_text() for path in clean.iterdir() if path.suffix == ".tsv"}
    assert written == {
        "queries.tsv": "1\tcheap flights\n4\thow old is the sun\n",
        "qrels.tsv": "1\t0\td1\t1\n4\t0\td4\t1\n",
        "triples.tsv": "1\td1\td2\n",
        "removed.tsv": "2\tsame-text\n3\tsame-words\n",
    }
    cleaned = clean_training(
        work / "found", work / "train.tsv", clean, triples=work / "texts.tsv", tier="same-text"
    )
    assert [(row.slice, row.value) for row in cleaned.figures.where(figure="left_out")] == [
        ("same-text", 1)
    ]
    assert [row.value for row in cleaned.figures.where(figure="kept_lines")] == [3, 1]
    assert (clean / "triples.tsv").read_text() == "cheap flights\ta passage\tanother one\n"
    assert not (clean / "qrels.tsv").exists()
    # What is clean stays clean.
    assert find_leakage(clean / "queries.tsv", {"t": "red shoes"}).count("same-text").pairs == 0


def test_what_cannot_be_cleaned_leaves_nothing_behind(work: Path) -> None:
    found, train, out = work / "found", work / "train.tsv", work / "clean"
    files = {"none": "2\td1\td2\n", "bad": "1\td1\td2\n2\td1\n", "other": "7\tflowers\n"}
    for name, text in files.items():
        (work / f"{name}.tsv").write_text(text)
    facts = (found / "found.json").read_bytes()
    data = (found / "candidates.parquet").read_bytes()
    for name, facts_now, data_now in (
        ("facts", facts.replace(b'"training_queries": ', b'"training_queries": 1'), data),
        ("pairs", facts, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]),
        ("short", facts, b"PAR1"),
    ):
        (work / name).mkdir()
        (work / name / "found.json").write_bytes(facts_now)
        (work / name / "candidates.parquet").write_bytes(data_now)
    clean = partial(clean_training, out=out)
    refusals = {
        "DataError none.tsv 1 --tier": partial(clean, found, train, triples=work / "none.tsv"),
        "CollectionError [field-count] bad.tsv:2 2 fix": partial(
            clean, found, train, triples=work / "bad.tsv"),
        "DataError found --train": partial(clean, found, work / "other.tsv"),
        "NotFoundError --out": partial(clean, work, train),
        "NotFoundError gone.tsv": partial(clean, found, work / "gone.tsv"),
        "DataError found.json find": partial(clean, work / "facts", train),
        **{f"{name}: CollectionError [no-candidates] candidates.parquet SHA-256 fix":
           partial(clean, work / name, train) for name in ("pairs", "short")},
    }  # fmt: skip
    check_refusals(refusals)
    assert not out.exists()


def test_no_training_set_but_a_cleaned_one_is_replaced(work: Path) -> None:
    clean = partial(clean_training, work / "found", work / "train.tsv")
    for files in (["mine.txt"], ["queries.tsv", "qrels.tsv"], ["qrels.tsv", "removed.tsv"]):
        folder = work / files[0].partition(".")[0]
        folder.mkdir()
        for name in files:
            (folder / name).write_text(TRAIN)
        with pytest.raises(UsageError, match=rf"{folder.name} .*{min(files)}"):
            clean(folder)
        assert {path.read_text() for path in folder.iterdir()} == {TRAIN}
    clean(work / "clean")
    queries = work / "clean" / "queries.tsv"
    find_leakage(queries, {"t": "how old is the sun"}).write(work / "again")
    with pytest.raises(UsageError, match=r"queries\.tsv"):
        clean_training(work / "again", queries, work / "clean")
    assert (
        clean_training(work / "again", queries, work / "next")
        .figures.where(figure="kept_lines")[0]
        .value
        == 1
    )
