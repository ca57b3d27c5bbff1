from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.early_stopping import (
    BestWeights,
    make_validation_set,
    mean_reciprocal_rank,
)
from msshift_bench.baselines.recipe import EarlyStopping
from msshift_bench.baselines.system import Run
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


class _Model:
    """A model that is worth what it is told, and can be saved."""

    def __init__(self, worth: float) -> None:
        self.worth = worth
        self.training = True

    def train(self, mode: bool) -> None:
        self.training = mode

    def save_pretrained(self, folder: str, **_: Any) -> None:
        (Path(folder) / "worth").write_text(str(self.worth))


def _measure(model: _Model) -> float:
    model.training = False
    return model.worth


def _follow(best: BestWeights, worths: list[float], first: int = 1) -> int:
    """Train a model whose worth goes through `worths`; return the step at which it ends."""
    callback = best.callback()
    step = 0
    for step, worth in enumerate(worths, first):
        model = _Model(worth)
        control = SimpleNamespace(should_training_stop=False)
        state = SimpleNamespace(global_step=step * 5, max_steps=1000)
        arguments = SimpleNamespace(should_save=True)
        callback.on_step_end(arguments, state, control, model=model)
        assert model.training
        if control.should_training_stop:
            break
    return step * 5


@pytest.mark.neural
def test_the_best_weights_are_kept_and_training_ends_in_time(tmp_path: Path) -> None:
    best = BestWeights(VALIDATION, tmp_path, _measure)
    last = _follow(best, [0.9, 0.1, 0.9, 0.3, 0.9, 0.3, 0.9, 0.2, 0.9, 0.8])
    assert last == 40
    assert best.facts(last) == {
        "best_step": 20,
        "best_mrr@10": 0.3,
        "history": {10: 0.1, 20: 0.3, 30: 0.3, 40: 0.2},
    }
    assert (best.model / "worth").read_text() == "0.3"


@pytest.mark.neural
def test_a_validation_that_was_done_is_not_repeated(tmp_path: Path) -> None:
    _follow(BestWeights(VALIDATION, tmp_path, _measure), [0, 0.1, 0, 0.4, 0, 0.3])

    def never(_: Any) -> float:
        raise AssertionError

    again = BestWeights(VALIDATION, tmp_path, never)
    assert _follow(again, [0, 0, 0, 0, 0, 0]) == 30
    assert again.facts(30)["best_step"] == 20
    assert again.facts(10)["best_step"] == 10
    # Killed after a validation, and before its checkpoint: training goes on from an earlier step.
    assert not again.is_over(5)
    assert (again.model / "worth").read_text() == "0.4"


def test_the_best_weights_survive_a_kill_between_two_renames(tmp_path: Path) -> None:
    for name, worth in (("old", "0.3"), ("new", "0.4")):
        (tmp_path / ".model.partial" / name).mkdir(parents=True)
        (tmp_path / ".model.partial" / name / "worth").write_text(worth)
    (tmp_path / "history.json").write_text('{"20": 0.3}')
    best = BestWeights(VALIDATION, tmp_path, _measure)
    assert best.facts(20)["best_step"] == 20
    assert (best.model / "worth").read_text() == "0.3"


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
