"""Finding leaks: planted ones, brute force, blocks, orders, and input that cannot be used."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.leakage_tiers import tables
from benchmarks.support.planted_leaks import KINDS
from msshift_bench import find_leakage, plumbing
from msshift_bench.encoders import EncoderSpec, embed_queries
from msshift_bench.errors import DataError
from msshift_bench.leakage import (
    TIERS,
    WordSpace,
    read_topics,
    search,
)
from msshift_bench.mini import queries
from msshift_bench.records import Qrel, Query
from msshift_bench.search import normalise, sorted_words
from msshift_bench.similarity import NearestQueries, unit_rows, vectors
from tests.conftest import Command
from tests.support.golden import Golden
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


@pytest.mark.slow
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
        with pytest.raises(DataError, match=f"the qrels of the {name} queries are of others"):
            find_leakage(trained, topics, separate_ids=True, qrels=(others[0], others[1]))
    found = find_leakage(trained, topics, separate_ids=True, qrels=qrels)
    assert [one[1:4] for one in found.pairs] == [
        ("301", "same-passage", None), ("7", "same-normalised", None), ("9", "same-words", None)
    ]  # fmt: skip
    shown = [[cell.text for cell in row] for row in found.result().tables()[1].rows]
    assert shown == [["description", "0", "0"], ["title", "1", "2"], ["union", "1", "2"]]
    assert found.fields["title"] == (2, 1, 2)
    found.write(tmp_path / "found")
    columns = pq.read_table(tmp_path / "found" / "candidates.parquet").column_names
    assert columns == ["test_id", "train_id", "tier", "cosine", "test_text", "train_text"]
    (tmp_path / "fields.tsv").write_text("301\tLyme disease\ttitle\n301\tticks\tvariant\n")
    again = find_leakage(trained, tmp_path / "fields.tsv", separate_ids=True)
    assert set(again.fields) == {"title", "variant"}


BAD = {
    "train": [
        *("1\tone\nalone\n1\tagain\n", "1\tone\n1\tother\n", "1\t \n", "", "t\tanother text\n"),
        f"1\t{'a' * (1 << 20)}\n",
    ],
    "test": [
        *("alone\n", "t\ta test\nt\tb\n", "t\ta\ttitle\nt\tb\n", "t\ta\ttitle\nt\ta\ttitle\n"),
        *("<top>\n</top>\n", "\ta test\n", "t\ta\nu\t \n", "t\ta\tthe title\n"),
        *("<top>\n<title> a\n", "<top>\n<title> \udcff\n", "\x1f\udc8b\x08\x00cut off"),
        *(f"t\t{'a' * (1 << 20)}\n", f"<top>\n{'a' * (1 << 26)}"),
    ],
}
"""What files of queries cannot hold."""


def test_what_cannot_be_searched_is_refused(tmp_path: Path, golden: Golden) -> None:
    good = {"train": {"1": "one"}, "test": {"t": "a test"}}
    refusals: dict[str, Callable[[], object]] = {}
    for which, contents in BAD.items():
        for number, content in enumerate(contents):
            path = tmp_path / f"{which}-{number}.tsv"
            path.write_text(content, "utf-8", "surrogateescape")
            sources = {**good, which: path}
            refusals[repr(content)[:40]] = partial(find_leakage, *sources.values())
    for options in ({"threshold": 0.0}, {"threshold": 1.5}, {"nearest": 0}):
        refusals[str(options)] = partial(find_leakage, TEXTS, TEXTS, **options)
    for sources in (("none.tsv", TEXTS), (TEXTS, "none.tsv")):
        refusals[f"no file {sources.index('none.tsv') + 1}"] = partial(find_leakage, *sources)
    golden.check_refusals("wrong-files.txt", refusals)


@pytest.mark.slow
def test_what_the_command_prints_writes_and_refuses(
    msshift: Command, tmp_path: Path, golden: Golden
) -> None:
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
    commands = (
        *(f"{find} --fail-on same-text", f"{find} --out x --fail-on same-words"),
        *(f"{find} --out mine", f"{find} --fail-on same-passage", f"{find} --fail-on same-word"),
        *(f"{find} --train-qrels train.tsv", f"{find} --data x", "leakage find --train train.tsv"),
        *("leakage find --fail-on same-words", "leakage find --out x", "leakage find --nearest 1"),
    )
    golden.check_commands("find.txt", msshift, commands)
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
