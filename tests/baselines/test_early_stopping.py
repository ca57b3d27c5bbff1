from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.systems.recipe import EarlyStopping
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.early_stopping import (
    make_validation_set,
    mean_reciprocal_rank,
)
from msshift_bench.data.collection import open_collection
from msshift_bench.errors import DataError
from msshift_bench.records import Row
from msshift_bench.search.bm25 import Bm25
from tests.support.bare_runs import bare_run

VALIDATION = EarlyStopping(every=10, queries=2, depth=3, patience=2)


def test_mean_reciprocal_rank_by_hand() -> None:
    scores = [np.array(values, np.float32) for values in ([1, 3, 2], [5, 5, 5], range(20, 0, -1))]
    judged = [np.array([1, 0, 0], bool), np.array([0, 1, 0], bool), np.arange(20) == 10]
    # Third; second, because ties keep the order given; eleventh, beyond the cut.
    assert mean_reciprocal_rank(scores, judged) == pytest.approx((1 / 3 + 1 / 2 + 0) / 3)


@pytest.fixture
def run(tsv_folder: Any, tmp_path: Path) -> Run:
    texts = ["red apple", "green apple", "blue apple", "red pear", "stone"]
    collection = open_collection(
        tsv_folder(collection="".join(f"d{i}\t{text}\n" for i, text in enumerate(texts)))
    )
    rows = (
        Row("q1", "red apple", "short", ("d4",), (1,)),
        Row("q2", "pear", "short", ("d3", "gone"), (1, 1)),
        Row("q3", "nothing", "short", ("gone",), (1,)),
    )
    return bare_run(collection, tmp_path, held_out="short", validation=rows)


def test_candidates_are_the_first_of_bm25_and_the_relevant_ones(run: Run) -> None:
    sets = make_validation_set(run, Bm25(run.passages()), VALIDATION)
    found = {
        query: [(sets.passages[place], bool(judged)) for place, judged in zip(*one, strict=True)]
        for query, *one in zip(sets.queries, sets.candidates, sets.relevant, strict=True)
    }
    assert found == {
        "red apple": [("stone", True), ("red pear", False), ("blue apple", False),
                      ("red apple", False)],
        "pear": [("red pear", True)],
    }  # fmt: skip


def test_validation_queries_without_relevant_passages(run: Run) -> None:

    rows = run.validation[2:]
    run = replace(run, rows=lambda _: rows)
    with pytest.raises(DataError, match="none of 1 validation queries has a relevant passage"):
        make_validation_set(run, Bm25(run.passages()), VALIDATION)
