"""The triples that a model meets: their order, where they come from, and how they are kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.baselines import Run, open_system
from msshift_bench.baselines.systems.shift_data import Lesson, ShiftData, Teacher
from msshift_bench.baselines.training.training_data import (
    Example,
    Meeting,
    TrainingData,
    make_training_data,
    plan_batches,
)
from msshift_bench.data import Triple, load_triples, open_collection, open_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import DataError, IntegrityError, UsageError
from msshift_bench.search import PassageIds
from msshift_bench.shifts import get_shift
from tests.conftest import Build
from tests.support.bare_runs import bare_run
from tests.support.file_bytes import flip
from tests.support.tiny_recipes import tiny_recipe

MINI = open_collection("mini:300")
CONFIG = "length-short-triples"

COUNT = 8
"""Triples per query."""

# ---- the order of training ------------------------------------------------------------------


def _examples(count: int, *, shared: int = 1, pool: tuple[str, ...] = ()) -> list[Example]:
    """`count` queries, of which `shared` in a row have the same relevant passage."""
    return [
        Example(f"q{i}", f"d{i // shared}", pool or (f"n{i % 7}",), frozenset({f"d{i // shared}"}))
        for i in range(count)
    ]


def _plan(examples: list[Example], **changes: int) -> list[list[Meeting]]:
    return list(plan_batches(examples, **{"negatives": 1, "seed": 1, **changes}))


def test_no_passage_of_a_batch_is_relevant_to_another_query() -> None:
    examples = _examples(60, shared=4)
    examples[5] = Example("q5", "d1", ("d9",), frozenset({"d1", "n3"}))
    relevant = {example.query_id: example.relevant for example in examples}
    for batch in _plan(examples, batch_size=8, steps=50):
        assert len({query_id for query_id, *_ in batch}) == 8
        for one in batch:
            for other in batch:
                if one is not other:
                    assert not relevant[one[0]] & {*other[1:]}


def test_every_example_comes_once_a_round_in_an_order_that_follows_from_the_seed_alone() -> None:
    examples = _examples(60)
    plan = _plan(examples, batch_size=10, steps=12)
    first, second = (
        [query_id for batch in part for query_id, *_ in batch] for part in (plan[:6], plan[6:])
    )
    assert sorted(first) == sorted(second) == sorted(example.query_id for example in examples)
    assert first != second
    assert _plan(examples[::-1], batch_size=10, steps=12) == plan
    assert _plan(examples, batch_size=10, steps=5) == plan[:5]
    assert _plan(examples, batch_size=10, steps=12, seed=2) != plan


def test_every_meeting_takes_the_next_negatives_and_a_pool_begins_again_at_its_end() -> None:
    for pool, expected in (("abcdef", ["ab", "cd", "ef", "ab"]), ("abc", ["ab", "ca", "bc", "ab"])):
        plan = _plan(_examples(4, pool=tuple(pool)), batch_size=4, steps=4, negatives=2)
        assert [{"".join(t[2:]) for t in batch} for batch in plan] == [{e} for e in expected]


def test_batches_that_cannot_be_filled() -> None:
    with pytest.raises(DataError, match="no batch of 4 can be made of 20 training examples"):
        _plan(_examples(20, shared=10), batch_size=4, steps=1)
    with pytest.raises(DataError, match="3 training examples are fewer than a batch of 4"):
        _plan(_examples(3), batch_size=4, steps=1)


# ---- where they come from -------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "own"
    folder = Path(shutil.copytree(build_once("mini:300", "length"), place))
    add_triples(folder, MINI, count=COUNT, depth=20, seed=5)
    return folder


@pytest.fixture
def run(data: Path, tmp_path: Path) -> Run:
    """A run on the data set's triples."""
    source = ShiftData.read(get_shift("length"), open_dataset(data), MINI)
    rows = {"train": source.split("short", "train"), "triples": source.triples("short")}
    return bare_run(MINI, tmp_path, held_out="short", **rows)


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    def make(**changes: Any) -> Any:
        (tmp_path / "tiny.toml").write_text(tiny_recipe("bi-encoder", **changes))
        return open_system("bi-encoder", tmp_path / "tiny.toml")

    return make


def met(training: TrainingData) -> list[Triple]:
    """Return the ids of every query, relevant passage and negative that are met together."""
    query_ids = {text: query_id for query_id, text in MINI.queries.items()}
    doc_ids = {passage.text: passage.doc_id for passage in MINI.passages()}
    assert len(doc_ids) == 300
    return [
        Triple(query_ids[texts["query"]], doc_ids[texts["positive"]], doc_ids[texts[column]])
        for texts in (training[place] for place in range(len(training)))
        for column in training.columns[2:]
    ]


def test_released_triples_are_met_and_no_others(run: Run, data: Path, recipe: Any) -> None:
    released = list(load_triples(data, CONFIG))
    for at_once in (1, 2):
        chosen = recipe(negatives_per_query=at_once, steps=None, epochs=2)
        training = make_training_data(run, chosen)
        assert training.examples == len({triple[:2] for triple in released})
        assert set(met(training)) <= set(released)
    # All of them in a few more epochs than there are negatives.
    chosen = recipe(negatives_per_query=1, steps=None, epochs=COUNT + 1)
    assert set(met(make_training_data(run, chosen))) == set(released)


def test_released_triples_are_those_that_the_same_parameters_mine(run: Run, recipe: Any) -> None:
    # Where a query has several relevant passages, released triples share its negatives out.
    alone = {row.query_id for row in run.train if len(row.relevant_doc_ids) == 1}
    assert len(alone) > 100
    pool = {"negatives_per_query": 1, "negatives_pool": COUNT, "negatives_depth": 20}
    same = recipe(**pool, epochs=COUNT + 1, steps=None)
    mined = make_training_data(replace(run, triples=None), same)
    released = make_training_data(run, same)
    assert released.examples == mined.examples
    both = [{one for one in met(each) if one.query_id in alone} for each in (released, mined)]
    assert both[0] == both[1]


def test_the_order_follows_from_the_recipe_s_seed(run: Run, recipe: Any) -> None:
    one, again, other = (make_training_data(run, recipe(seed=seed)).digest for seed in (1, 1, 2))
    assert one == again != other


def test_triples_that_cannot_be_met_are_refused(run: Run, recipe: Any, tsv_folder: Any) -> None:
    few = open_collection(tsv_folder(collection="1\tone\n"))
    other = replace(run, rows=lambda _: run.train[1:])
    for wrong, changes, error, said in (
        (run, {"negatives_per_query": 6, "negatives_pool": 6}, UsageError,
         rf"{CONFIG} holds \d negatives .* takes 6 at once"),
        (other, {}, DataError, f"of {CONFIG} is none of its training queries"),
        (replace(run, collection=few), {}, DataError, r"lacks \d+ passages that the data set's tr"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            make_training_data(wrong, recipe(**changes))


def test_relevant_passages_that_the_collection_lacks_are_not_learnt_from(
    run: Run, recipe: Any
) -> None:
    rows = run.train[:9]
    more = (*rows[4].relevant_doc_ids, "absent")
    changed = rows[4]._replace(relevant_doc_ids=more, relevances=(1,) * len(more))
    made = [
        make_training_data(replace(run, triples=None, rows=lambda _, rows=given: rows), recipe())
        for given in (rows, (*rows[:4], changed, *rows[5:]))
    ]
    assert made[0].examples == made[1].examples == sum(len(r.relevant_doc_ids) for r in rows)
    assert met(made[0]) == met(made[1])


def test_parts_go_on_in_the_order_of_the_whole(run: Run, recipe: Any) -> None:
    chosen = recipe(steps=7, negatives_per_query=2)
    whole = make_training_data(run, chosen)
    in_parts = recipe(steps=7, negatives_per_query=2, negatives="mined")
    first = make_training_data(run, in_parts)
    assert [first[place] for place in range(len(first))] == [whole[n] for n in range(len(first))]
    ids = PassageIds([passage.doc_id for passage in MINI.passages()])
    pools = [tuple(sorted({*ids.ids.tolist()} - {*row.relevant_doc_ids})[:4]) for row in run.train]
    examples = [
        Example(row.query_id, doc_id, pool, frozenset(row.relevant_doc_ids))
        for row, pool in zip(run.train, pools, strict=True)
        for doc_id in row.relevant_doc_ids
    ]
    second = make_training_data(run, in_parts, 1, examples=examples)
    assert (len(first), len(second)) == (3 * chosen.batch_size, 4 * chosen.batch_size)
    own = dict(zip((row.query_id for row in run.train), pools, strict=True))
    assert all(negative in own[query_id] for query_id, _, negative in met(second))
    # Which queries wait for the next batch depends on their passages, so a few change places.
    orders = [
        {data[n]["query"] for n in range(start, start + 16)}
        for data, start in ((whole, len(first)), (second, 0))
    ]
    assert len(orders[0] & orders[1]) > 12


def by_length(lesson: Lesson, *_: Any) -> Any:
    """Score a passage by its length, and the query by its id."""
    texts = lesson.texts.to_pylist()
    scores = [
        [len(texts[place]) + 0.5 * len(row.text) for place in places]
        for row, places in zip(lesson.queries, lesson.candidates, strict=True)
    ]
    return np.concatenate([np.array(one) for one in scores])


def test_every_passage_has_its_teacher_s_score(run: Run, tmp_path: Path, recipe: Any) -> None:
    chosen = recipe(steps=9, teacher="bm25", teacher_scale=2.0)
    data = make_training_data(replace(run, teacher=Teacher({}, by_length)), chosen)
    data.save(tmp_path / "kept")
    for kept in (data, TrainingData.load(tmp_path / "kept")):
        for place in range(len(kept)):
            triple = kept[place]
            passages = [triple[column] for column in kept.columns[1:]]
            assert triple["label"] == [2 * len(one) + len(triple["query"]) for one in passages]
    plain = make_training_data(run, recipe(steps=9))
    assert (plain.digest, plain.scores_digest) == (data.digest, None)
    broken = Teacher({}, lambda *given: by_length(*given) * np.inf)
    with pytest.raises(DataError, match=r"(\d+) of the teacher's \1 scores are not finite"):
        make_training_data(replace(run, teacher=broken), chosen)


# ---- how they are kept ----------------------------------------------------------------------

TEXTS = pa.array(["a", "b"])
FILES = ("rows.npy", "queries.parquet", "passages.parquet", "scores.npy")


def test_what_is_kept_is_checked_as_it_is_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    rows, scores = np.arange(3, dtype=np.int32)[np.newaxis] % 2, np.zeros((1, 2), np.float32)
    data = TrainingData(rows, TEXTS, TEXTS, 1, "a" * 64, scores)
    assert (len(data), data.columns) == (1, ("query", "positive", "negative_1"))
    assert data[0] == {"query": "a", "positive": "b", "negative_1": "a", "label": [0, 0]}
    replace(data, scores=None).save(folder)
    assert TrainingData.load(folder).scores is None
    for name in FILES:
        data.save(folder)
        assert TrainingData.load(folder).examples == 1
        flip(folder / name, -1)
        with pytest.raises(IntegrityError, match=f"{name} is missing or was damaged"):
            TrainingData.load(folder)
    (folder / "facts.json").write_text(json.dumps({"exmples": 1, "digest": "abc"}))
    with pytest.raises(UsageError, match=r"facts.json is not as it was written; remove the folder"):
        TrainingData.load(folder)
