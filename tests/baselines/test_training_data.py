"""Training triples: order, sources, files, and teachers' scores."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench import libraries
from msshift_bench.baselines import Run
from msshift_bench.baselines.rerankers.reranker import distance_to_teacher
from msshift_bench.baselines.systems.shift_data import ScoringBatch, ShiftData, Teacher
from msshift_bench.baselines.training.teachers import _score_by_model, find_teacher
from msshift_bench.baselines.training.training_data import (
    Example,
    TrainingData,
    TrainingTuple,
    make_training_data,
    plan_batches,
)
from msshift_bench.data import Triple, load_triples, open_collection, open_dataset, sha256_of
from msshift_bench.dataset_builders.triples import add_triples
from msshift_bench.errors import DataError, IntegrityError, NotFoundError, UsageError
from msshift_bench.runs import run_path, sidecar_path, write_run
from msshift_bench.search import Bm25
from msshift_bench.shifts import get_shift
from tests.baselines.conftest import COLLECTION, MINI, Make, Values
from tests.conftest import Build
from tests.support.bare_runs import bare_run
from tests.support.file_bytes import flip

CONFIG = "length-short-triples"
COUNT = 8
"""Triples per query."""


def _examples(count: int, *, shared: int = 1, pool: str = "") -> list[Example]:
    """`count` queries, of which `shared` in a row have the same relevant passage."""
    relevant = [f"d{place // shared}" for place in range(count)]
    pools = [tuple(pool) or (f"n{place % 7}",) for place in range(count)]
    return [Example(f"q{n}", d, pools[n], frozenset({d})) for n, d in enumerate(relevant)]


def _plan(examples: list[Example], **changes: int) -> list[list[TrainingTuple]]:
    return list(plan_batches(examples, **{"negatives": 1, "seed": 1, **changes}))


def test_no_passage_of_a_batch_is_relevant_to_another_query() -> None:
    examples = _examples(60, shared=4)
    examples[5] = Example("q5", "d1", ("d9",), frozenset({"d1", "n3"}))
    relevant = {example.query_id: example.relevant for example in examples}
    for batch in _plan(examples, batch_size=8, steps=50):
        assert len({query_id for query_id, *_ in batch}) == 8
        for one, other in permutations(batch, 2):
            assert not relevant[one[0]] & {*other[1:]}


def test_a_round_has_every_example_once_in_an_order_of_the_seed_alone() -> None:
    examples = _examples(60)
    plan = _plan(examples, batch_size=10, steps=12)
    query_ids = [query_id for batch in plan for query_id, *_ in batch]
    first, second = query_ids[:60], query_ids[60:]
    assert sorted(first) == sorted(second) == sorted(example.query_id for example in examples)
    assert first != second
    assert _plan(examples[::-1], batch_size=10, steps=12) == plan
    assert _plan(examples, batch_size=10, steps=5) == plan[:5]
    assert _plan(examples, batch_size=10, steps=12, seed=2) != plan


def test_a_query_takes_the_next_negatives_of_its_pool_and_then_the_first_again() -> None:
    for pool, expected in (("abcdef", ["ab", "cd", "ef", "ab"]), ("abc", ["ab", "ca", "bc", "ab"])):
        plan = _plan(_examples(4, pool=pool), batch_size=4, steps=4, negatives=2)
        assert [{"".join(t[2:]) for t in batch} for batch in plan] == [{e} for e in expected]


def test_batches_that_cannot_be_filled() -> None:
    with pytest.raises(DataError, match="20 training examples cannot fill a batch of 4"):
        _plan(_examples(20, shared=10), batch_size=4, steps=1)
    with pytest.raises(
        DataError, match="batch_size must be at most the 3 training examples, got 4"
    ):
        _plan(_examples(3), batch_size=4, steps=1)


@pytest.fixture(scope="module")
def source(build_once: Build, tmp_path_factory: pytest.TempPathFactory) -> ShiftData:
    """The shift ``length``, with triples."""
    folder = tmp_path_factory.mktemp("data") / "own"
    shutil.copytree(build_once(COLLECTION, "length"), folder)
    add_triples(folder, MINI, count=COUNT, depth=20, seed=5)
    return ShiftData.read(get_shift("length"), open_dataset(folder), MINI)


@pytest.fixture
def run(source: ShiftData, tmp_path: Path) -> Run:
    """A run on the data set's triples."""
    rows = {"train": source.split("short", "train"), "triples": source.triples("short")}
    return bare_run(MINI, tmp_path, held_out="short", **rows)


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


def test_training_reads_released_triples_and_no_others(
    run: Run, source: ShiftData, load: Make
) -> None:
    released = list(load_triples(source.dataset, CONFIG))
    # Two negatives at once; and all of them in a few more epochs than there are negatives.
    for at_once, epochs in ((2, 2), (1, COUNT + 1)):
        chosen = load(negatives_per_query=at_once, steps=None, epochs=epochs)
        training = make_training_data(run, chosen)
        assert training.examples == len({triple[:2] for triple in released})
        assert set(met(training)) <= set(released)
    assert set(met(training)) == set(released)
    # The same parameters mine the same triples, but for queries with several relevant passages,
    # whose negatives released triples divide.
    alone = {row.query_id for row in run.train if len(row.relevant_doc_ids) == 1}
    assert len(alone) > 100
    same = chosen.changed(negatives_pool=COUNT, negatives_depth=20)
    mined = make_training_data(replace(run, triples=None), same)
    assert mined.examples == training.examples
    both = [{one for one in met(each) if one.query_id in alone} for each in (training, mined)]
    assert both[0] == both[1]


def test_triples_that_are_refused(run: Run, load: Make, tsv_folder: Any) -> None:
    few = open_collection(tsv_folder(collection="1\tone\n"))
    other = replace(run, rows=lambda _: run.train[1:])
    for wrong, changes, error, said in (
        (run, {"negatives_per_query": 6, "negatives_pool": 6}, UsageError,
         rf"at most \d, the negatives in {CONFIG} .* got 6\. Lower it"),
        (other, {}, DataError, f"of {CONFIG} is not a training query"),
        (replace(run, collection=few), {}, DataError, r"lacks \d+ passages of the data set's trip"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            make_training_data(wrong, load(**changes))


def test_relevant_passages_that_the_collection_lacks_are_left_out(run: Run, load: Make) -> None:
    rows = run.train[:9]
    more = (*rows[4].relevant_doc_ids, "absent")
    changed = rows[4]._replace(relevant_doc_ids=more, relevances=(1,) * len(more))
    made = [
        make_training_data(replace(run, triples=None, rows=lambda _, rows=given: rows), load())
        for given in (rows, (*rows[:4], changed, *rows[5:]))
    ]
    assert made[0].examples == made[1].examples == sum(len(r.relevant_doc_ids) for r in rows)
    assert met(made[0]) == met(made[1])


def test_parts_continue_in_the_order_of_one_training(run: Run, load: Make) -> None:
    chosen = load(steps=7, negatives_per_query=2)
    whole = make_training_data(run, chosen)
    in_parts = chosen.changed(negatives="mined")
    first = make_training_data(run, in_parts)
    assert [first[place] for place in range(len(first))] == [whole[n] for n in range(len(first))]
    ids = {passage.doc_id for passage in MINI.passages()}
    pools = {row.query_id: (*sorted(ids - {*row.relevant_doc_ids})[:4],) for row in run.train}
    examples = [
        Example(row.query_id, doc_id, pools[row.query_id], frozenset(row.relevant_doc_ids))
        for row in run.train
        for doc_id in row.relevant_doc_ids
    ]
    second = make_training_data(run, in_parts, 1, examples=examples)
    assert (len(first), len(second)) == (3 * chosen.batch_size, 4 * chosen.batch_size)
    assert all(negative in pools[query_id] for query_id, _, negative in met(second))
    # Which queries wait for the next batch depends on their passages, so a few change places.
    queries = [{whole[len(first) + n]["query"], second[n]["query"]} for n in range(16)]
    assert len(set().union(*queries)) < 20


def by_length(lesson: ScoringBatch, *_: Any) -> Any:
    """Score a passage by its length and half of the query's."""
    lengths = [len(text) for text in lesson.texts.to_pylist()]
    asked = zip(lesson.queries, lesson.candidates, strict=True)
    return np.array([lengths[n] + 0.5 * len(row.text) for row, places in asked for n in places])


def test_every_passage_has_its_teacher_s_score(run: Run, tmp_path: Path, load: Make) -> None:
    chosen = load(steps=9, teacher="bm25", teacher_scale=2.0)
    data = make_training_data(replace(run, teacher=Teacher({}, by_length)), chosen)
    data.save(tmp_path / "kept")
    for kept in (data, TrainingData.load(tmp_path / "kept")):
        for triple in (kept[place] for place in range(len(kept))):
            lengths = [len(triple[column]) for column in kept.columns[1:]]
            assert triple["label"] == [2 * length + len(triple["query"]) for length in lengths]
    plain = make_training_data(run, load(steps=9))
    assert (plain.digest, plain.scores_digest) == (data.digest, None)
    broken = Teacher({}, lambda *given: by_length(*given) * np.inf)
    with pytest.raises(DataError, match=r"(\d+) of the teacher's \1 scores are not finite"):
        make_training_data(replace(run, teacher=broken), chosen)


def test_saved_training_data_is_checked_when_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    rows, scores = np.arange(3, dtype=np.int32)[np.newaxis] % 2, np.zeros((1, 2), np.float32)
    texts = pa.array(["a", "b"])
    data = TrainingData(rows, texts, texts, 1, "a" * 64, scores)
    assert (len(data), data.columns) == (1, ("query", "positive", "negative_1"))
    assert data[0] == {"query": "a", "positive": "b", "negative_1": "a", "label": [0, 0]}
    replace(data, scores=None).save(folder)
    assert TrainingData.load(folder).scores is None
    for name in ("rows.npy", "queries.parquet", "passages.parquet", "scores.npy"):
        data.save(folder)
        assert TrainingData.load(folder).examples == 1
        flip(folder / name, -1)
        with pytest.raises(IntegrityError, match=f"{name} is missing or was damaged"):
            TrainingData.load(folder)
    (folder / "facts.json").write_text(json.dumps({"exmples": 1, "digest": "abc"}))
    with pytest.raises(
        UsageError, match=r"facts.json was changed after it was written; remove the folder"
    ):
        TrainingData.load(folder)


@pytest.fixture(scope="module")
def lesson(source: ShiftData) -> ScoringBatch:
    """Return three training queries with three passages each."""
    texts = dict(sorted(MINI.passages())[:4])
    places = [np.array(chosen) for chosen in ([0, 1, 2], [1, 2, 3], [0, 2, 3])]
    queries = source.split("short", "train")[:3]
    return ScoringBatch(queries, list(texts), pa.array(list(texts.values())), places)


@pytest.fixture
def write(source: ShiftData, lesson: ScoringBatch, tmp_path: Path) -> Make:
    ranking = {doc_id: 9.0 - place for place, doc_id in enumerate(lesson.doc_ids)}
    rankings = [(row.query_id, ranking) for row in lesson.queries]

    def write(group: Any = "short", *, seed: Any = None, of: Any = rankings, **facts: Any) -> Path:
        """Write a run for the queries of the lesson, and its sidecar; return the folder."""
        run = run_path(tmp_path / "runs", "mine", source.shift, group, seed)
        run.parent.mkdir(parents=True, exist_ok=True)
        write_run(run, of, "mine")
        said = {"held_out": group, "baseline": "mine", "run_sha256": sha256_of(run), **facts}
        sidecar_path(run).write_text(json.dumps({**source.identity, **said}))
        return tmp_path / "runs" / "mine"

    return write


@pytest.fixture
def find(source: ShiftData) -> Make:
    return lambda folder: find_teacher(str(folder), source, "short", seed=1, batch_size=8)


def test_scores_of_bm25_as_a_teacher(find: Make, lesson: ScoringBatch) -> None:
    teacher = find("bm25")
    assert teacher.facts["kind"] == "bm25"
    index = Bm25(MINI.passages())
    scores = teacher.score(lesson, lambda: index)
    searched = list(index.search((row.text for row in lesson.queries), depth=300))
    expected = [
        ranking.get(lesson.doc_ids[place], 0.0)
        for ranking, places in zip(searched, lesson.candidates, strict=True)
        for place in places
    ]
    assert scores.tolist() == pytest.approx(expected)
    assert any(expected)


def test_the_run_of_a_seed_comes_first_and_then_of_the_group(
    find: Make, lesson: ScoringBatch, write: Make
) -> None:
    folder = write(None, baseline="bm25", held_out=None)
    assert find(folder).score.args[0].name == "length.run.gz"
    write()
    assert find(folder).score.args[0].name == "short.run.gz"
    write(seed=1)
    teacher = find(folder)
    assert (teacher.facts["kind"], teacher.score.args[0].parent.name) == ("run", "seed-1")
    assert teacher.score(lesson, pytest.fail).tolist() == [9, 8, 7, 8, 7, 6, 9, 7, 6]


def test_scores_that_a_run_lacks_are_named(find: Make, lesson: ScoringBatch, write: Make) -> None:
    first, second, third = (row.query_id for row in lesson.queries)
    known = dict.fromkeys(lesson.doc_ids[:3], 1.0)
    folder = write(of=[(first, known), (second, known)])
    with pytest.raises(DataError) as caught:
        find(folder).score(lesson, pytest.fail)
    missing = f"{lesson.doc_ids[3]} for query {second}, {lesson.doc_ids[0]} for query {third}"
    for words in ("4 of 9 scores", missing, "--keep-model"):
        assert words in str(caught.value)
    write(run_sha256="0" * 64)
    with pytest.raises(UsageError, match="differs from its SHA-256 in its sidecar; make"):
        find(folder).score(lesson, pytest.fail)


OTHER = {"data_digest": "f" * 64, "edition": "official-2022"}
NOT_HELD_OUT = "does not record that short was held out of this teacher"


@pytest.mark.parametrize(
    ("group", "facts", "error", "said"),
    [
        # A model of another group under this one's name, and a published model with one run.
        ("short", {"held_out": "long"}, UsageError, NOT_HELD_OUT),
        (None, {}, UsageError, NOT_HELD_OUT),
        ("short", OTHER, UsageError, "edition .* data_digest .* A teacher is trained on the sa"),
        ("long", {}, NotFoundError, "no run and sidecar of length without short, with seed 1"),
    ],
)
def test_teachers_that_are_refused(
    group: str | None, facts: Values, error: type[Exception], said: str, find: Make, write: Make
) -> None:
    with pytest.raises(error, match=said):
        find(write(group, **facts))


@pytest.mark.neural
def test_a_teacher_whose_weights_were_changed_is_refused(tiny_models: Path) -> None:
    given = ScoringBatch((), [], pa.array([], pa.string()), []), pytest.fail
    with pytest.raises(UsageError, match="my-bi-encoder differ from their digest"):
        _score_by_model(tiny_models / "my-bi-encoder", 8, "0" * 64, *given)


@pytest.mark.neural
def test_the_distance_to_a_teacher_by_hand() -> None:
    both = [[[2.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [3.0, 1.0]]]
    scores, taught = libraries.torch.tensor(both)
    # Margins 1 and 0 for the teacher's 1 and 2.
    assert float(distance_to_teacher(scores, taught, "margin-mse")) == (0**2 + 2**2) / 2
    softmax = np.exp(2) / (1 + np.exp(2))
    second = softmax * np.log(softmax / 0.5) + (1 - softmax) * np.log((1 - softmax) / 0.5)
    found = float(distance_to_teacher(scores, taught, "kl"))
    assert found == pytest.approx((0 + second) / 2, rel=1e-5)
