"""Teachers: which may teach a model that holds a group out, and what they must have scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from msshift_bench.baselines.systems.shift_data import Lesson, ShiftData
from msshift_bench.baselines.training.teachers import find_teacher
from msshift_bench.data import open_collection, open_dataset, sha256_of
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.runs import run_path, sidecar_path, write_run
from msshift_bench.search import Bm25
from msshift_bench.shifts import get_shift
from tests.conftest import Build

MINI = open_collection("mini:300")

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def source(build_once: Build) -> ShiftData:
    data = open_dataset(build_once("mini:300", "length"))
    return ShiftData.read(get_shift("length"), data, MINI)


@pytest.fixture(scope="module")
def lesson(source: ShiftData) -> Lesson:
    """Return three training queries with three passages each."""
    queries = source.split("short", "train")[:3]
    texts = {passage.doc_id: passage.text for passage in MINI.passages()}
    doc_ids = sorted(texts)[:4]
    places = [np.array(chosen) for chosen in ([0, 1, 2], [1, 2, 3], [0, 2, 3])]
    return Lesson(queries, doc_ids, pa.array([texts[doc_id] for doc_id in doc_ids]), places)


@pytest.fixture
def write(source: ShiftData, lesson: Lesson, tmp_path: Path) -> Write:
    def write(group: str | None = "short", *, seed: int | None = None, **changes: Any) -> Path:
        """Write a run for the queries of the lesson, and its sidecar; return the folder."""
        run = run_path(tmp_path / "runs", "mine", source.shift, group, seed)
        run.parent.mkdir(parents=True, exist_ok=True)
        ranking = {doc_id: 9.0 - place for place, doc_id in enumerate(lesson.doc_ids)}
        write_run(run, ((row.query_id, ranking) for row in lesson.queries), "mine")
        manifest = source.dataset.manifest
        facts = {
            "system": "mine",
            "baseline": "mine",
            "shift": "length",
            "held_out": group,
            "edition": manifest.edition,
            "data_version": manifest.data_version,
            "data_digest": manifest.content_digest,
            "text_variant": MINI.text_variant,
            "run_sha256": sha256_of(run),
        }
        sidecar_path(run).write_text(json.dumps({**facts, **changes}))
        return tmp_path / "runs" / "mine"

    return write


def find(folder: Path | str, source: ShiftData) -> Any:
    return find_teacher(str(folder), source, "short", seed=1, batch_size=8)


def test_bm25_teaches_everybody(source: ShiftData, lesson: Lesson) -> None:
    teacher = find("bm25", source)
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


def test_a_run_s_scores_are_taken_as_they_are(
    source: ShiftData, lesson: Lesson, write: Write
) -> None:
    teacher = find(write(seed=1), source)
    assert teacher.facts["kind"] == "run"
    scores = teacher.score(lesson, lambda: pytest.fail("no index"))
    assert scores.tolist() == [9, 8, 7, 8, 7, 6, 9, 7, 6]


def test_scores_that_a_run_lacks_are_counted_and_named(
    source: ShiftData, lesson: Lesson, write: Write
) -> None:
    folder = write()
    run = folder / "length" / "short.run.gz"
    first, second, third = (row.query_id for row in lesson.queries)
    known = dict.fromkeys(lesson.doc_ids[:3], 1.0)
    write_run(run, [(first, known), (second, known)], "mine")
    sidecar = json.loads(sidecar_path(run).read_text())
    sidecar_path(run).write_text(json.dumps({**sidecar, "run_sha256": sha256_of(run)}))
    with pytest.raises(DataError) as caught:
        find(folder, source).score(lesson, lambda: pytest.fail("no index"))
    said = str(caught.value)
    assert "lacks the scores of 4 of 9 passages that training meets, of 2 queries: " in said
    assert f"{lesson.doc_ids[3]} for query {second}, {lesson.doc_ids[0]} for query {third}" in said
    assert "--keep-model" in said
    sidecar_path(run).write_text(json.dumps(sidecar))
    with pytest.raises(UsageError, match="is not the run that the sidecar beside it describes"):
        find(folder, source).score(lesson, lambda: pytest.fail("no index"))


@pytest.mark.parametrize("group", ["short", None])
def test_a_teacher_that_may_have_met_the_group_is_refused(
    group: str | None, source: ShiftData, write: Write
) -> None:
    # A model of another group under this one's name, and a published model with one run.
    folder = write(group, held_out="long" if group else None)
    with pytest.raises(UsageError, match="does not say that short was held out of this teacher"):
        find(folder, source)


def test_the_group_s_own_run_goes_before_the_whole_shift_s(source: ShiftData, write: Write) -> None:
    folder = write(None, baseline="bm25", held_out=None)
    assert find(folder, source).score.args[0].name == "length.run.gz"
    write()
    assert find(folder, source).score.args[0].name == "short.run.gz"
    write(seed=1)
    assert find(folder, source).score.args[0].parent.name == "seed-1"


def test_a_teacher_of_other_data_is_refused(source: ShiftData, write: Write) -> None:
    folder = write(data_digest="f" * 64, edition="official-2022")
    with pytest.raises(
        UsageError, match=r"edition .* data_digest .* A teacher is trained on the sa"
    ):
        find(folder, source)


def test_what_is_no_teacher(source: ShiftData, write: Write, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no teacher bm52: it is 'bm25', or the folder of a"):
        find("bm52", source)
    with pytest.raises(NotFoundError, match="holds no run of length without short, of seed 1"):
        find(write("long"), source)
    (tmp_path / "runs" / "mine" / "length" / "short.run.json").write_text("[]")
    with pytest.raises(UsageError, match="is not a JSON object"):
        find(tmp_path / "runs" / "mine", source)
