"""BM25 tuned on training queries: the choice, what it rests on, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from msshift_bench.baselines.systems import lexical
from msshift_bench.baselines.systems.lexical import B_GRID, K1_GRID, TunedBm25System
from msshift_bench.baselines.systems.shift_data import ShiftData
from msshift_bench.baselines.systems.system import no_rows
from msshift_bench.data import load_dataset, open_collection, open_dataset
from msshift_bench.errors import DataError, RunError, UsageError
from msshift_bench.evaluation import evaluate_run_sets
from msshift_bench.plumbing import reporting
from msshift_bench.records import Row
from msshift_bench.search import Bm25, Bm25Parameters
from msshift_bench.shifts import get_shift
from tests.conftest import Build, Command
from tests.support.bare_runs import bare_run
from tests.support.making import make_runs, plan_runs

COLLECTION = open_collection("mini:300")


def mean_rr(index: Bm25, rows: list[Row]) -> float:
    total = 0.0
    for row, ranking in zip(rows, index.search([row.text for row in rows], depth=10), strict=True):
        places = [n for n, doc_id in enumerate(ranking, 1) if doc_id in row.relevant_doc_ids]
        total += 1 / places[0] if places else 0.0
    return total / len(rows)


@pytest.mark.slow
def test_every_group_gets_the_point_that_ranks_its_training_queries_best(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "K1_GRID", (0.2, 2.0))
    monkeypatch.setattr(lexical, "_GRID", lexical._GRID[::8])
    data = build_once("mini:300", "length")
    options = {"collection": COLLECTION, "data": data, "out": tmp_path}
    runs = make_runs("bm25-tuned", ["length"], **options)
    assert [str(run.relative_to(tmp_path)) for run in runs] == [
        "bm25-tuned/length/short.run.gz",
        "bm25-tuned/length/long.run.gz",
    ]
    for run in runs:
        group = run.name.removesuffix(".run.gz")
        sidecar = json.loads(run.with_name(f"{group}.run.json").read_text())
        rows = list(load_dataset(data, f"length-{group}", split="train"))
        scores = {
            point: mean_rr(Bm25(COLLECTION.passages(), Bm25Parameters(*point)), rows)
            for point in lexical._GRID
        }
        tuned = sidecar["tuned"]
        assert tuned["queries"] == len(rows)
        assert tuned["RR@10"] == pytest.approx(scores[tuple(tuned["parameters"].values())])
        assert tuned["RR@10"] == pytest.approx(max(scores.values()))
        assert tuned["lowest in the grid"] == pytest.approx(min(scores.values()))
        assert sidecar["parameters"]["tuning"]["k1"] == [0.2, 2.0]
        assert "k1" not in sidecar["parameters"]


@pytest.mark.slow
def test_runs_that_chose_the_same_point_may_be_the_same_file(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "_GRID", lexical._GRID[:1])
    data = build_once("mini:300", "length")
    options = {"collection": COLLECTION, "data": data, "out": tmp_path}
    runs = make_runs("bm25-tuned", ["length"], **options)
    assert runs[0].read_bytes() == runs[1].read_bytes()
    figures = evaluate_run_sets(tmp_path, data).figures
    assert figures.first(figure="rel_loss", group="mean").value == 0
    runs[0].with_name("short.run.json").unlink()
    with pytest.raises(RunError, match="the model trained without short and the model trained"):
        evaluate_run_sets(tmp_path, data)


def test_variants_are_the_indices_that_each_choice_makes() -> None:
    choices = [Bm25Parameters(k1, b) for k1, b in zip(K1_GRID[:2], B_GRID[:2], strict=True)]
    choices.append(replace(choices[0], depth=3))
    texts = list(COLLECTION.queries.values())[:5]
    for index, choice in zip(Bm25.variants(COLLECTION.passages(), choices), choices, strict=True):
        alone = Bm25(COLLECTION.passages(), choice)
        assert list(index.search(texts)) == list(alone.search(texts))


def test_queries_that_were_scored_for_one_group_are_not_searched_again_for_another(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "_GRID", lexical._GRID[:2])
    data = open_dataset(build_once("mini:300", "length"))
    source = ShiftData.read(get_shift("length"), data, COLLECTION)
    rows = source.split("short", "train")[:2]
    # A passage that is relevant and not there is never found.
    rows = (rows[0], rows[1]._replace(relevant_doc_ids=("absent",), relevances=(1,)))
    events: list[str] = []
    run = bare_run(
        COLLECTION,
        tmp_path,
        name="bm25 without short",
        held_out="short",
        queries=rows[:1],
        train=rows,
    )
    system = TunedBm25System()
    with reporting(lambda stage, *_: events.append(stage)):
        ((query_id, first),) = system.rank(run)
    tuned = run.facts["tuned"]
    assert query_id == rows[0].query_id
    assert events.count("tune") == 2
    assert tuned["queries"] == 2
    assert tuned["RR@10"] == mean_rr(
        Bm25(COLLECTION.passages(), Bm25Parameters(**tuned["parameters"])), list(rows)
    )
    assert 0 < tuned["RR@10"] <= 0.5
    again = replace(run, facts={}, seconds={})
    with reporting(lambda stage, *_: events.append(stage)):
        assert list(system.rank(again)) == [(query_id, first)]
    assert events.count("tune") == 2
    assert again.facts["tuned"] == tuned
    with pytest.raises(DataError, match="bm25 without short: there are no training queries to"):
        list(system.rank(replace(run, rows=no_rows)))


def test_the_models_of_a_run_set_share_a_recipe(
    build_once: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "_GRID", lexical._GRID[:1])
    data, out = build_once("mini:300", "length"), tmp_path / "runs"
    options = {"collection": COLLECTION, "data": data, "out": out}
    (short,) = make_runs("bm25-tuned", ["length"], held_out=["short"], stemmer="none", **options)
    for begin in (make_runs, plan_runs):
        with pytest.raises(UsageError) as caught:
            begin("bm25-tuned", ["length"], held_out=["long"], **options)
        assert 'short.run.json differs from this request: stemmer "none" instead of "english"' in (
            str(caught.value)
        )
        assert "models of one system share a recipe" in str(caught.value)
    assert sorted(out.rglob("*.run.gz")) == [short]
    # What nobody here made says nothing of a recipe.
    (short.parent / "seed-1").mkdir()
    (short.parent / "seed-1" / "long.run.json").write_text("{}")
    make_runs("bm25-tuned", ["length"], stemmer="none", **options)
    sidecar = short.with_name("short.run.json")
    facts = json.loads(sidecar.read_text())
    other = {**facts, "parameters": {**facts["parameters"], "seed": 1}}
    (short.parent / "seed-1" / "long.run.json").write_text(json.dumps(other))
    short.with_name("long.run.json").unlink()
    short.with_name("long.run.gz").unlink()
    make_runs("bm25-tuned", ["length"], stemmer="none", **options)
    sidecar.write_text(json.dumps(other))
    short.with_name("long.run.json").unlink()
    short.with_name("long.run.gz").unlink()
    with pytest.raises(
        UsageError, match=r"short\.run\.json differs from this request: seed 1 inst"
    ):
        make_runs("bm25-tuned", ["length"], held_out=["long"], stemmer="none", **options)


def test_what_goes_against_tuning_is_refused(
    build_once: Build, msshift: Command, tmp_path: Path
) -> None:
    data = build_once("mini:300", "length")
    done = msshift("run", "bm25-tuned", "--set", "k1=1", "--data", data)
    assert done.returncode == 2
    assert "unknown field of bm25-tuned 'k1': it is a field of bm25; valid are" in done.stderr
    options = {"collection": COLLECTION, "data": data, "out": tmp_path}
    with pytest.raises(UsageError, match="bm25-tuned has no model to keep"):
        make_runs("bm25-tuned", ["length"], keep_model=True, **options)
    shown = msshift("run", "bm25-tuned", "--data", data, "--dry-run").stdout
    assert "runs/bm25-tuned/length/short.run.gz" in shown
