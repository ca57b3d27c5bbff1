"""Teachers: which may teach a model that holds a group out, and what they must have scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.baselines.rerankers.reranker import distance_to_teacher
from msshift_bench.baselines.systems.shift_data import Lesson, ShiftData
from msshift_bench.baselines.training.teachers import _score_by_model, find_teacher
from msshift_bench.data import open_collection, open_dataset, sha256_of
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.runs import run_path, sidecar_path, write_run
from msshift_bench.search import Bm25
from msshift_bench.shifts import get_shift
from tests.baselines.conftest import COLLECTION

MINI = open_collection(COLLECTION)

Write = Callable[..., Path]
Find = Callable[[Path | str], Any]


@pytest.fixture(scope="module")
def source(data: Path) -> ShiftData:
    return ShiftData.read(get_shift("length"), open_dataset(data), MINI)


@pytest.fixture(scope="module")
def lesson(source: ShiftData) -> Lesson:
    """Return three training queries with three passages each."""
    texts = dict(sorted(MINI.passages())[:4])
    places = [np.array(chosen) for chosen in ([0, 1, 2], [1, 2, 3], [0, 2, 3])]
    queries = source.split("short", "train")[:3]
    return Lesson(queries, list(texts), pa.array(list(texts.values())), places)


@pytest.fixture
def write(source: ShiftData, lesson: Lesson, tmp_path: Path) -> Write:
    def write(
        group: str | None = "short", *, seed: int | None = None, queries: Any = None, **changes: Any
    ) -> Path:
        """Write a run for the queries of the lesson, and its sidecar; return the folder."""
        run = run_path(tmp_path / "runs", "mine", source.shift, group, seed)
        run.parent.mkdir(parents=True, exist_ok=True)
        ranking = {doc_id: 9.0 - place for place, doc_id in enumerate(lesson.doc_ids)}
        write_run(run, queries or [(row.query_id, ranking) for row in lesson.queries], "mine")
        manifest = source.dataset.manifest
        facts = {
            "system": "mine", "baseline": "mine", "shift": "length", "held_out": group,
            "edition": manifest.edition, "data_version": manifest.data_version,
            "data_digest": manifest.content_digest, "text_variant": MINI.text_variant,
            "run_sha256": sha256_of(run),
        }  # fmt: skip
        sidecar_path(run).write_text(json.dumps({**facts, **changes}))
        return tmp_path / "runs" / "mine"

    return write


@pytest.fixture
def find(source: ShiftData) -> Find:
    return lambda folder: find_teacher(str(folder), source, "short", seed=1, batch_size=8)


def no_index() -> Bm25:
    pytest.fail("no index")


def test_bm25_teaches_everybody(find: Find, lesson: Lesson) -> None:
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


def test_a_run_s_scores_are_taken_as_they_are(find: Find, lesson: Lesson, write: Write) -> None:
    teacher = find(write(seed=1))
    assert teacher.facts["kind"] == "run"
    assert teacher.score(lesson, no_index).tolist() == [9, 8, 7, 8, 7, 6, 9, 7, 6]


def test_scores_that_a_run_lacks_are_counted_and_named(
    find: Find, lesson: Lesson, write: Write
) -> None:
    first, second, third = (row.query_id for row in lesson.queries)
    known = dict.fromkeys(lesson.doc_ids[:3], 1.0)
    folder = write(queries=[(first, known), (second, known)])
    with pytest.raises(DataError) as caught:
        find(folder).score(lesson, no_index)
    for said in (
        "lacks the scores of 4 of 9 passages that training meets, of 2 queries: ",
        f"{lesson.doc_ids[3]} for query {second}, {lesson.doc_ids[0]} for query {third}",
        "--keep-model",
    ):
        assert said in str(caught.value)
    write(run_sha256="0" * 64)
    with pytest.raises(UsageError, match="is not the run that the sidecar beside it describes"):
        find(folder).score(lesson, no_index)


def test_the_group_s_own_run_goes_before_the_whole_shift_s(find: Find, write: Write) -> None:
    folder = write(None, baseline="bm25", held_out=None)
    assert find(folder).score.args[0].name == "length.run.gz"
    write()
    assert find(folder).score.args[0].name == "short.run.gz"
    write(seed=1)
    assert find(folder).score.args[0].parent.name == "seed-1"


@pytest.mark.parametrize(
    ("group", "changes", "said"),
    [
        # A model of another group under this one's name, and a published model with one run.
        ("short", {"held_out": "long"}, "does not say that short was held out of this teacher"),
        (None, {}, "does not say that short was held out of this teacher"),
        ("short", {"data_digest": "f" * 64, "edition": "official-2022"},
         r"edition .* data_digest .* A teacher is trained on the sa"),
    ],
)  # fmt: skip
def test_a_teacher_that_may_have_met_the_group_or_other_data_is_refused(
    group: str | None, changes: dict[str, Any], said: str, find: Find, write: Write
) -> None:
    with pytest.raises(UsageError, match=said):
        find(write(group, **changes))


def test_what_is_no_teacher(find: Find, write: Write) -> None:
    with pytest.raises(NotFoundError, match="no teacher bm52: it is 'bm25', or the folder of a"):
        find("bm52")
    folder = write("long")
    with pytest.raises(NotFoundError, match="holds no run of length without short, of seed 1"):
        find(folder)
    (folder / "length" / "short.run.json").write_text("[]")
    with pytest.raises(UsageError, match="is not a JSON object"):
        find(folder)


@pytest.mark.neural
def test_a_teacher_whose_weights_were_changed_is_refused(tiny_models: Path) -> None:
    given = Lesson((), [], pa.array([], pa.string()), []), no_index
    with pytest.raises(UsageError, match="my-bi-encoder is not the model that the sidecar beside"):
        _score_by_model(tiny_models / "my-bi-encoder", 8, "0" * 64, *given)


@pytest.mark.neural
def test_the_distance_to_a_teacher_is_that_of_the_paper_or_of_softmaxes() -> None:
    import torch

    scores, taught = torch.tensor([[2.0, 1.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    # Margins 1 and 0 for the teacher's 1 and 2.
    assert float(distance_to_teacher(scores, taught, "margin-mse")) == (0**2 + 2**2) / 2
    softmax = np.exp(2) / (1 + np.exp(2))
    second = softmax * np.log(softmax / 0.5) + (1 - softmax) * np.log((1 - softmax) / 0.5)
    found = float(distance_to_teacher(scores, taught, "kl"))
    assert found == pytest.approx((0 + second) / 2, rel=1e-5)
