"""The triples that a model meets, where the data set holds triples to train on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msshift_bench.baselines.retrievers.biencoder import BiEncoder
from msshift_bench.baselines.systems.recipe import RecipeFile, parse_recipe
from msshift_bench.baselines.systems.shift_data import Lesson, ShiftData, Teacher
from msshift_bench.baselines.systems.system import Run
from msshift_bench.baselines.training.training_data import (
    TrainingData,
    _examples,
    make_training_data,
    training_material,
)
from msshift_bench.data import Triple, load_triples, open_collection, open_dataset
from msshift_bench.dataset_builders.build import build_dataset
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import DataError, UsageError
from msshift_bench.search import PassageIds
from msshift_bench.shifts import get_shift
from tests.support.bare_runs import bare_run
from tests.support.tiny_recipes import tiny_recipe

MINI = open_collection("mini:300")
CONFIG = "length-short-triples"

COUNT = 8
"""Triples per query."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "msshift"
    build_dataset(MINI, ["length"], folder)
    add_triples(folder, MINI, count=COUNT, depth=20, seed=5)
    return folder


@pytest.fixture
def run(data: Path, tmp_path: Path) -> Run:
    source = ShiftData.read(get_shift("length"), open_dataset(data), MINI)
    return bare_run(
        MINI,
        tmp_path,
        held_out="short",
        train=source.split("short", "train"),
        triples=source.triples("short"),
    )


def recipe(**changes: Any) -> BiEncoder:
    return parse_recipe(BiEncoder, RecipeFile("", "", tiny_recipe("bi-encoder", **changes)))


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


@pytest.mark.parametrize("at_once", [1, 2])
def test_every_triple_that_is_met_is_a_released_one(at_once: int, run: Run, data: Path) -> None:
    one_epoch = recipe(negatives_per_query=at_once, steps=None, epochs=2)
    training = make_training_data(run, one_epoch)
    released = list(load_triples(data, CONFIG))
    assert training.examples == len({(query_id, positive) for query_id, positive, _ in released})
    assert set(met(training)) <= set(released)


def test_all_released_triples_are_met_in_a_few_more_epochs_than_negatives(
    run: Run, data: Path
) -> None:
    released = list(load_triples(data, CONFIG))
    once = recipe(negatives_per_query=1, steps=None, epochs=COUNT + 1)
    assert set(met(make_training_data(run, once))) == set(released)


def test_released_triples_are_those_that_the_same_parameters_mine(run: Run) -> None:
    # Where a query has several relevant passages, released triples share its negatives out.
    alone = {row.query_id for row in run.train if len(row.relevant_doc_ids) == 1}
    assert len(alone) > 100
    same = recipe(negatives_per_query=1, negatives_pool=COUNT, negatives_depth=20, epochs=COUNT + 1,
                  steps=None)  # fmt: skip
    mined = make_training_data(replace(run, triples=None), same)
    released = make_training_data(run, same)
    assert released.examples == mined.examples
    both = [{one for one in met(each) if one.query_id in alone} for each in (released, mined)]
    assert both[0] == both[1]


def test_the_order_follows_from_the_recipe_s_seed(run: Run) -> None:
    one, again, other = (make_training_data(run, recipe(seed=seed)).digest for seed in (1, 1, 2))
    assert one == again != other


def test_too_few_released_negatives_are_refused(run: Run) -> None:
    wanted = recipe(negatives_per_query=6, negatives_pool=6)
    with pytest.raises(UsageError, match=rf"{CONFIG} holds \d negatives .* takes 6 at once"):
        make_training_data(run, wanted)


def test_triples_of_other_queries_are_refused(run: Run) -> None:
    with pytest.raises(DataError, match=f"of {CONFIG} is none of its training queries"):
        make_training_data(replace(run, rows=lambda _: run.train[1:]), recipe())


def test_passages_that_the_collection_lacks_are_refused(run: Run, tsv_folder: Any) -> None:
    few = open_collection(tsv_folder(collection="1\tone\n"))
    with pytest.raises(DataError, match=r"lacks \d+ passages that the data set's triples name"):
        make_training_data(replace(run, collection=few), recipe())


def test_relevant_passages_that_the_collection_lacks_are_not_learnt_from(run: Run) -> None:
    one, other = (replace(run, triples=None, rows=lambda _: run.train[:9]) for _ in range(2))
    row = one.train[4]
    more = (*row.relevant_doc_ids, "absent")
    changed = row._replace(relevant_doc_ids=more, relevances=(1,) * len(more))
    rows = (*one.train[:4], changed, *one.train[5:])
    other = replace(other, rows=lambda _: rows)
    made = [make_training_data(each, recipe()) for each in (one, other)]
    assert made[0].examples == made[1].examples == sum(len(r.relevant_doc_ids) for r in one.train)
    assert met(made[0]) == met(made[1])


@pytest.mark.parametrize(
    ("released", "changes", "said"),
    [
        (True, {}, f"the data set's {CONFIG}, SHA-256 "),
        (False, {"negatives": "random"}, "triples made by the recipe, negatives = 'random'"),
        (
            False,
            {"negatives": "mined", "negatives_refreshes": 1},
            "triples made by the recipe, with BM25's negatives; then on negatives that it finds "
            "itself, 1 time",
        ),
        (
            False,
            {"negatives": "mined", "negatives_refreshes": 2},
            "triples made by the recipe, with BM25's negatives; then on negatives that it finds "
            "itself, 2 times",
        ),
    ],
)
def test_it_is_said_what_a_model_learns_from(
    released: bool, changes: dict[str, Any], said: str, run: Run
) -> None:
    chosen = run if released else replace(run, triples=None)
    material = training_material(chosen, recipe(**changes))
    digest = run.triples.sha256[:12] if released and run.triples else ""
    assert material == said + digest


def test_parts_go_on_in_the_order_of_the_whole(run: Run) -> None:
    chosen = recipe(steps=7, negatives_per_query=2)
    whole = make_training_data(run, chosen)
    in_parts = recipe(steps=7, negatives_per_query=2, negatives="mined")
    first = make_training_data(run, in_parts)
    assert [first[place] for place in range(len(first))] == [whole[n] for n in range(len(first))]
    ids = PassageIds([passage.doc_id for passage in MINI.passages()])
    pools = [tuple(sorted({*ids.ids.tolist()} - {*row.relevant_doc_ids})[:4]) for row in run.train]
    examples = _examples(run, ids, pools)
    second = make_training_data(run, in_parts, 1, examples=examples)
    assert (len(first), len(second)) == (3 * chosen.batch_size, 4 * chosen.batch_size)
    own = dict(zip((row.query_id for row in run.train), pools, strict=True))
    assert all(negative in own[query_id] for query_id, _, negative in met(second))
    # Which queries wait for the next batch depends on their passages, so a few change places.
    orders = [{data[n]["query"] for n in range(start, start + 16)} for data, start in
              ((whole, len(first)), (second, 0))]  # fmt: skip
    assert len(orders[0] & orders[1]) > 12


def by_length(lesson: Lesson, *_: Any) -> Any:
    """Score a passage by its length, and the query by its id."""
    texts = lesson.texts.to_pylist()
    return np.concatenate(
        [
            np.array([len(texts[place]) + 0.5 * len(row.text) for place in places])
            for row, places in zip(lesson.queries, lesson.candidates, strict=True)
        ]
    )


def test_every_passage_has_its_teacher_s_score(run: Run, tmp_path: Path) -> None:
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


def test_scores_that_are_not_finite_are_refused(run: Run) -> None:
    broken = Teacher({}, lambda *given: by_length(*given) * np.inf)
    with pytest.raises(DataError, match=r"(\d+) of the teacher's \1 scores are not finite"):
        make_training_data(replace(run, teacher=broken), recipe(teacher="bm25"))
