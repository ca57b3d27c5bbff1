"""The contract of everything that ranks, at each door: plug-ins, objects that search, rerankers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from msshift_bench import SHIFTS, evaluate, evaluate_run_sets, read_run
from msshift_bench.baselines import Plan, Run, System, make_runs
from msshift_bench.baselines.rerankers.reranker import RerankSearch
from msshift_bench.data import open_dataset
from msshift_bench.errors import DataError, UsageError
from tests.baselines.conftest import COLLECTION, MINI, Values
from tests.support.run_files import sidecar

Ranked = Callable[[Run], Any]


class Plugin(System):
    """Ranks by the function of a test."""

    name = "plugin"
    ranked: ClassVar[Ranked]

    def rank(self, run: Run) -> Any:
        return Plugin.ranked(run)


def first(run: Run) -> dict[str, dict[str, float]]:
    return {row.query_id: {"7": 1.0} for row in run.queries}


def changed(place: int, ranking: Any) -> Ranked:
    """Return a function that replaces the ranking of one query."""

    def ranked(run: Run) -> dict[str, Any]:
        return {**first(run), run.queries[place].query_id: ranking}

    return ranked


def with_fact(key: str) -> Ranked:
    def ranked(run: Run) -> Iterator[tuple[str, dict[str, float]]]:
        for pair in first(run).items():
            run.facts[key] = "mine"
            yield pair

    return ranked


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("ranked", "message"),
    [
        (lambda run: list(first(run).items())[:50], "56 of 106 queries have no ranking, e.g. "),
        (lambda run: [], "106 of 106 queries have no ranking, e.g. "),
        (lambda run: run.ranked([{"7": 1.0}] * 105, run.bm25().ids), "1 of 106 queries have no"),
        (lambda run: run.ranked([{"7": 1.0}] * 107, run.bm25().ids), "more rankings than the 106"),
        (lambda run: [*first(run).items(), ("q", {})], "'q' is not a query of this run"),
        (lambda run: [*first(run).items()] * 2, "has two rankings; yield exactly one"),
        (lambda run: {key: {} for key in first(run)}, "all rankings are empty; check"),
        (lambda run: None, "rank of plugin returned None; it must yield a pair"),
        (lambda run: [*first(run)], "it must yield a pair (query_id, ranking)"),
        (lambda run: [([], {})], "it must yield a pair (query_id, ranking)"),
        (changed(60, {"gone": 1.0}), "has the doc_id 'gone', which is not in the collection"),
        (changed(60, {7: 1.0}), "has the doc_id 7 of type int"),
        (changed(60, {"7": float("nan")}), "has the score nan for '7'; scores must be"),
        (changed(60, {"7": 1e39}), "has the score inf for '7'; scores must be finite"),
        (changed(60, [("7", 1), ("7", 2)]), "has the doc_id '7' twice"),
        (changed(60, 7), "must map doc_ids to scores"),
        (lambda run: run.ranked([{"gone": 1.0}] * 106, run.bm25().ids), "the doc_id 'gone', which"),
        *((with_fact(key), f"run.facts['{key}'] would replace") for key in ("system", "queries")),
    ],
)
def test_a_plug_in_that_breaks_the_contract_is_refused(
    ranked: Ranked, message: str, data: Path, tmp_path: Path
) -> None:
    Plugin.ranked = staticmethod(ranked)
    plan = Plan(system=Plugin(), shifts=["length"], collection=COLLECTION, data=data, out=tmp_path)
    with pytest.raises((UsageError, DataError), match=re.escape(message)):
        make_runs(plan)
    assert not list(tmp_path.glob("plugin/**/*"))


def test_no_fact_may_have_a_key_of_the_sidecar(data: Path, tmp_path: Path) -> None:
    Plugin.ranked = staticmethod(with_fact("note"))
    plan = Plan(system=Plugin(), shifts=["length"], collection=COLLECTION, data=data, out=tmp_path)
    (run,) = make_runs(plan)
    written = sidecar(run)
    assert (written["note"], written["system"]) == ("mine", "plugin")
    free = {"note", "passages", "relevant_not_in_collection"}
    for key in set(written) - free:
        Plugin.ranked = staticmethod(with_fact(key))
        refused = Plan(**{**vars(plan), "out": tmp_path / key})
        with pytest.raises(UsageError, match=re.escape(f"run.facts[{key!r}] would replace")):
            make_runs(refused)


def test_a_query_with_an_empty_ranking_counts_0(data: Path, tmp_path: Path) -> None:
    """All other queries get their relevant passage, so that the mean of RR@10 is their share."""

    def most(run: Run) -> Iterator[tuple[str, Any]]:
        for place, row in enumerate(run.queries):
            # Mappings and pairs, as of an object with search; an order of queries of its own.
            pairs = [(doc_id, np.float64(2)) for doc_id in row.relevant_doc_ids]
            yield row.query_id, pairs if place % 20 else {}

    Plugin.ranked = staticmethod(most)
    plan = Plan(system=Plugin(), shifts=["length"], collection=COLLECTION, data=data, out=tmp_path)
    (file,) = make_runs(plan)
    tests = open_dataset(data).test_sets(SHIFTS["length"])
    ids = sorted(row.query_id for rows in tests.values() for row in rows)
    answered = set(ids) - set(ids[::20])
    assert set(read_run(file)) == answered
    result = evaluate_run_sets([tmp_path / "plugin"], data, ["length"])
    for group, rows in tests.items():
        share = sum(row.query_id in answered for row in rows) / len(rows)
        found = result.figures.first(figure="score", group=group)
        assert found is not None
        assert found.value == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("door", ["object", "factory"])
def test_an_object_that_searches_keeps_the_same_contract(door: str, given: Values) -> None:
    def search(texts: list[str], k: int) -> list[dict[str, float]]:
        return [{"7": float("inf")} for _ in texts]

    model = SimpleNamespace(search=search)
    with pytest.raises(DataError, match="the score inf for '7'; scores must be finite"):
        evaluate(model if door == "object" else lambda group: model, name="mine", **given)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda count: np.full(count, np.nan, np.float32), "the score nan for '"),
        (lambda count: np.zeros(count + 1, np.float32), "scores of shape (4,) for 3 passages"),
        (lambda count: np.zeros((count, 2), np.float32), "scores of shape (3, 2) for 3 passages"),
    ],
)
def test_a_reranker_keeps_the_same_contract(
    values: Callable[[int], Any], message: str, data: Path, tmp_path: Path
) -> None:
    class Broken(RerankSearch):
        def score(self, model: Any, queries: Any, passages: Any, candidates: Any) -> Iterator[Any]:
            del model, queries, passages
            yield from (values(len(places)) for places in candidates)

    Plugin.ranked = staticmethod(lambda run: Broken(depth=3, batch_size=8).rank(None, run))
    plan = Plan(system=Plugin(), shifts=["length"], collection=COLLECTION, data=data, out=tmp_path)
    with pytest.raises(DataError, match=re.escape(message)) as told:
        make_runs(plan)
    query_id = re.findall(r"the reranking of query '([^']+)'", str(told.value))[0]
    assert query_id in MINI.queries
    # Scores that were saved would be refused again when the model is repaired.
    assert not list(tmp_path.rglob("scores/*"))
