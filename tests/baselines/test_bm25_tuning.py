"""BM25 tuned on training queries: the chosen parameters, their facts, and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.baselines import open_system
from msshift_bench.baselines.systems import lexical
from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.baselines.systems.system import no_rows
from msshift_bench.data import load_dataset, open_dataset
from msshift_bench.errors import DataError, UsageError
from msshift_bench.evaluation import evaluate_run_sets
from msshift_bench.plumbing import reporting
from msshift_bench.records import Row
from msshift_bench.runs import sidecar_path
from msshift_bench.search import Bm25, Bm25Parameters
from msshift_bench.shifts import get_shift
from tests.baselines.conftest import MINI, Patch, Values
from tests.support.bare_runs import bare_run
from tests.support.making import make_runs, plan_runs
from tests.support.run_files import sidecar

GRID = lexical._GRID


@pytest.fixture
def given(data: Path, tmp_path: Path) -> Values:
    return {"shifts": ["length"], "collection": MINI, "data": data, "out": tmp_path / "runs"}


def mean_rr(rows: list[Row], **parameters: float) -> float:
    index = Bm25(MINI.passages(), Bm25Parameters(**parameters))  # type: ignore[arg-type]
    found = zip(rows, index.search([row.text for row in rows], depth=10), strict=True)
    hits = [[doc in row.relevant_doc_ids for doc in ranking] for row, ranking in found]
    return sum(1 / (1 + hit.index(True)) for hit in hits if any(hit)) / len(rows)


def test_every_group_gets_its_best_point(given: Values, data: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(lexical, "K1_GRID", (0.2, 2.0))
    monkeypatch.setattr(lexical, "_GRID", GRID[::8])
    for run, group in zip(make_runs("bm25-tuned", **given), ("short", "long"), strict=True):
        assert run == given["out"] / "bm25-tuned" / "length" / f"{group}.run.gz"
        rows = list(load_dataset(data, f"length-{group}", split="train"))
        scores = {tuple(point.values()): mean_rr(rows, **point) for point in lexical._GRID}
        tuned, parameters = sidecar(run)["tuned"], sidecar(run)["parameters"]
        assert tuned["queries"] == len(rows)
        assert tuned["RR@10"] == pytest.approx(scores[tuple(tuned["parameters"].values())])
        assert tuned["RR@10"] == pytest.approx(max(scores.values()))
        assert tuned["lowest in the grid"] == pytest.approx(min(scores.values()))
        assert parameters["tuning"]["k1"] == [0.2, 2.0]
        assert "k1" not in parameters


def test_equal_runs_are_accepted(given: Values, data: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(lexical, "_GRID", GRID[:1])
    runs = make_runs("bm25-tuned", **given)
    assert runs[0].read_bytes() == runs[1].read_bytes()
    figures = evaluate_run_sets(given["out"], data).figures
    assert figures.first(figure="rel_loss", group="mean").value == 0


def test_queries_are_scored_once(data: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(lexical, "_GRID", GRID[:2])
    source = ShiftData.read(get_shift("length"), open_dataset(data), MINI)
    rows = source.split("short", "train")[:2]
    # A passage that is relevant and not there is never found.
    rows = (rows[0], rows[1]._replace(relevant_doc_ids=("absent",), relevances=(1,)))
    system, events = open_system("bm25-tuned"), list[str]()
    asked = {"held_out": "short", "queries": rows[:1], "train": rows, "system": system}
    run = bare_run(MINI, tmp_path, name="bm25 without short", **asked)
    again = replace(run, facts={}, seconds={})
    with reporting(lambda stage, *_: events.append(stage)):
        ((query_id, first),) = system.rank(run)
        assert query_id == rows[0].query_id
        assert list(system.rank(again)) == [(query_id, first)]
    assert events.count("tune") == 2
    tuned = run.facts["tuned"]
    assert again.facts["tuned"] == tuned
    assert tuned["queries"] == 2
    assert 0 < tuned["RR@10"] == mean_rr(list(rows), **tuned["parameters"]) <= 0.5
    with pytest.raises(DataError, match="bm25 without short: there are no training queries to"):
        list(system.rank(replace(run, rows=no_rows)))


def test_the_models_of_a_run_set_share_a_recipe(given: Values, monkeypatch: Patch) -> None:
    monkeypatch.setattr(lexical, "_GRID", GRID[:1])

    def refused(said: str, **changes: Any) -> None:
        for begin in (make_runs, plan_runs):
            with pytest.raises(UsageError, match=said) as caught:
                begin("bm25-tuned", held_out=["long"], **given, **changes)
            assert "all models of a system must have the same recipe" in str(caught.value)

    (short,) = make_runs("bm25-tuned", held_out=["short"], stemmer="none", **given)
    refused('short.run.json differs from this request: stemmer "none" instead of "english"')
    assert list(given["out"].rglob("*.run.gz")) == [short]
    # A sidecar without a recipe, and a sidecar of another seed, do not count.
    facts = sidecar(short)
    other = {**facts, "parameters": {**facts["parameters"], "seed": 1}}
    (short.parent / "seed-1").mkdir()
    for content in ({}, other):
        (short.parent / "seed-1" / "long.run.json").write_text(json.dumps(content))
        make_runs("bm25-tuned", stemmer="none", **given)
        for name in ("long.run.json", "long.run.gz"):
            (short.parent / name).unlink()
    sidecar_path(short).write_text(json.dumps(other))
    refused(r"short\.run\.json differs from this request: seed 1 inst", stemmer="none")


def test_options_that_are_refused(given: Values) -> None:
    with pytest.raises(UsageError, match="of bm25-tuned 'k1': it is a field of bm25; valid are"):
        plan_runs("bm25-tuned", k1=1.0, **given)
    with pytest.raises(UsageError, match="bm25-tuned has no model that can be kept"):
        make_runs("bm25-tuned", keep_model=True, **given)
