"""Keyed sampling: every place chooses what it chose before, to the last bit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from msshift_bench.annotation import SIMILARITY, Pair, write_sheet
from msshift_bench.baselines import leakage as leakage_runs
from msshift_bench.dataset_builders import cut, kmeans, negatives, typos
from msshift_bench.encoders.term_vectors import sign_vectors
from msshift_bench.leakage import experiment, search
from msshift_bench.records import Row
from msshift_bench.sampling import KeyedDigits
from msshift_bench.search import PassageIds

IDS = [str(number) for number in range(12)]


def test_a_sample_for_a_split() -> None:
    chosen = cut.sample(IDS, 4, seed=7, purpose="test")
    assert sorted(chosen) == ["2", "3", "7", "8"]
    assert sorted(cut.sample(reversed(IDS), 4, seed=-1, purpose="validation")) == [
        "1",
        "10",
        "11",
        "9",
    ]


def test_rows_and_numbers_of_kmeans() -> None:
    assert kmeans._sample(IDS, 4, 7).tolist() == [0, 2, 7, 10]
    assert [kmeans._uniform(7, turn) for turn in range(3)] == [
        0.18220259274301775,
        0.2986178795782277,
        0.848020230587019,
    ]


def rows() -> list[Row]:
    return [Row.judged(name, "", "", {"d3": 1}) for name in ("q1", "q2", "q3")]


def test_negatives() -> None:
    ids = PassageIds([f"d{number}" for number in range(9)])
    drawn = negatives.random_negatives(ids, rows(), count=3, seed=7)
    assert list(drawn) == [("d1", "d8", "d6"), ("d5", "d7", "d0"), ("d7", "d2", "d8")]
    rankings = [{f"d{number}": 1.0 for number in range(length)} for length in (9, 6, 2)]
    ranked = negatives.ranked_negatives(ids, rows(), rankings, count=3, seed=7)
    assert list(ranked) == [("d7", "d1", "d6"), ("d4", "d2", "d0"), ("d0", "d1", "d4")]


def test_typing_errors() -> None:
    queries = [("1", "cheap flights to rome"), ("2", "who invented the telephone")]
    made = typos.make_variants("typos", queries, copies=2, seed=3)
    assert [variant.text for variant in made] == [
        "cveap flights to rome",
        "who invented the telepfhone",
        "cheap fjlights to rome",
        "who invented the teoephone",
    ]


def test_orders_of_the_leakage_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(IDS, key=leakage_runs._key) == [
        "6",
        "8",
        "11",
        "5",
        "0",
        "3",
        "2",
        "4",
        "10",
        "9",
        "7",
        "1",
    ]
    pairs = [experiment.TrainingPair(name, "", f"d{name}", "d0") for name in IDS]
    sets = experiment.make_training_sets(
        [8], 4, others=pairs[:6], leaking=pairs[6:9], topics=pairs[9:], seed=7
    )
    chosen = {kind: [pair.query_id for pair in of_kind] for (kind, _), of_kind in sets.items()}
    assert chosen == {
        "none": ["2", "5", "1", "0"],
        "leaked": ["7", "8", "2", "5"],
        "test": ["9", "10", "2", "5"],
    }
    assert experiment._folds(IDS).tolist() == [3, 1, 1, 1, 2, 3, 1, 4, 2, 2, 0, 2]
    monkeypatch.setattr(search, "_SAMPLE", 3)
    assert search._sample(IDS) == ["2", "4", "6"]


def test_a_sheet_hides_what_found_a_pair(tmp_path: Path) -> None:
    pairs = [Pair("t", "a topic", name, f"query {name}", "BM25") for name in IDS[:6]]
    write_sheet(pairs, SIMILARITY, tmp_path / "sheet.csv")
    lines = (tmp_path / "sheet.csv").read_text().splitlines()[1:]
    assert [line.split(",")[2] for line in lines] == ["3", "5", "1", "0", "2", "4"]


def test_draws_of_the_collection_mini() -> None:
    draws = KeyedDigits("300/medicine/1/entity")
    assert [draws.below(10) for _ in range(5)] == [1, 3, 2, 7, 2]
    assert (draws.choose("abcdef"), draws.order(6)) == ("c", [5, 4, 2, 0, 1, 3])


def test_signs_of_term_vectors() -> None:
    signs = sign_vectors(["cheap", "flights"])
    assert signs[:, :8].astype(int).tolist() == [
        [-1, -1, -1, 1, -1, 1, 1, -1],
        [1, -1, -1, -1, -1, 1, 1, -1],
    ]
    assert (
        hashlib.sha256(signs.tobytes()).hexdigest()
        == "acab51f88c69ddb73a0da6cd594326c6feeef34ad6c1b62a123fe92040df1fdb"
    )


@pytest.mark.neural
def test_orders_of_training() -> None:
    pytest.importorskip("torch")
    from msshift_bench.baselines.rerankers.word_reranker import _number_of_unknown
    from msshift_bench.baselines.training.trainer import make_validation_set
    from msshift_bench.baselines.training.training_data import Example, _order

    examples = [Example(name, f"d{name}", (), frozenset()) for name in IDS[:6]]
    assert [_order(examples, 7, rounds) for rounds in range(2)] == [
        [5, 3, 4, 2, 1, 0],
        [4, 3, 1, 2, 5, 0],
    ]
    assert _number_of_unknown("pranecolcane") == -860878680988153

    validation = [Row.judged(name, f"text {name}", "", {"d1": 1}) for name in IDS]
    index: Any = SimpleNamespace(ids=PassageIds(["d0", "d1"]))
    run: Any = SimpleNamespace(
        validation=validation,
        texts=lambda places: SimpleNamespace(to_pylist=list),
        bm25_rankings=lambda rows, depth, index: [{"d0": 1.0} for _ in rows],
    )
    settings: Any = SimpleNamespace(queries=4, depth=1)
    made = make_validation_set(run, index, settings)
    assert list(made.queries) == ["text 4", "text 2", "text 9", "text 7"]
