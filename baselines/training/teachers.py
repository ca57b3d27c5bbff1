"""Teachers: who scores the passages that a model learns to score alike.

Sources: Hofstaetter et al., "Improving Efficient Neural Ranking Models with Cross-Architecture
Knowledge Distillation", 2020 (margin-MSE); Lin, Yang and Lin, "Distilling Dense Representations for
Ranking using Tightly-Coupled Teachers", 2020 (Kullback-Leibler divergence).

A teacher that has met the held-out group would hand on what it knows of it, and the model would
only seem to lose little. So a teacher is BM25, which is not trained, or was trained on the same
data set without the same group, which its sidecar must say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from msshift_bench.baselines.systems.finding import kind_of_model, neural_systems
from msshift_bench.baselines.systems.recipe import BM25
from msshift_bench.baselines.systems.shift_data import ScoringBatch, ShiftData, Teacher
from msshift_bench.baselines.systems.sidecars import check_same, read_json
from msshift_bench.baselines.training.backbones import weights_digest
from msshift_bench.data import sha256_of
from msshift_bench.errors import DataError, NotFoundError, UsageError
from msshift_bench.plumbing import counted, report_progress, slices
from msshift_bench.runs import model_path, read_run, run_path, sidecar_path
from msshift_bench.search import Bm25, Bm25Parameters

_TOGETHER = 1000
"""Queries whose passages a model encodes together."""

_NAMED = 3
"""How many missing scores a message names."""


def _score_by_bm25(lesson: ScoringBatch, index: Callable[[], Bm25]) -> npt.NDArray[np.float32]:
    """Return BM25's scores; 0 for a passage that shares no term with the query."""
    bm25 = index()
    rows = np.array(bm25.ids.rows(list(lesson.doc_ids)), np.int64)
    texts = (row.text for row in lesson.queries)
    scored = bm25.score(texts, (rows[places] for places in lesson.candidates))
    return np.concatenate(list(counted(scored, "teacher", len(lesson.queries))))


def _score_by_model(
    folder: Path, batch_size: int, weights: object, lesson: ScoringBatch, _index: Callable[[], Bm25]
) -> npt.NDArray[np.float32]:
    """Return the scores of a model that was kept beside its run.

    Raises:
        UsageError: if it has not the weights that made the run.
    """
    kind = neural_systems()[kind_of_model(str(folder))]
    model, search = kind.load_model(folder), kind.searcher()(batch_size=batch_size)
    if weights_digest(model) != weights:
        raise UsageError(
            f"{folder} is not the model that the sidecar beside it describes; train the teacher "
            "again"
        )
    scores: list[npt.NDArray[np.float32]] = []
    for part in slices(len(lesson.queries), _TOGETHER):
        candidates = lesson.candidates[part]
        met = np.unique(np.concatenate(candidates))
        scores += search.score(
            model,
            [row.text for row in lesson.queries[part]],
            lesson.texts.take(pa.array(met)).to_pylist(),
            [np.searchsorted(met, places) for places in candidates],
        )
        report_progress("teacher", part.stop, len(lesson.queries))
    return np.concatenate(scores).astype(np.float32)


def _score_by_run(
    run: Path, digest: object, lesson: ScoringBatch, _index: Callable[[], Bm25]
) -> npt.NDArray[np.float32]:
    """Return the scores of a run for training queries; memory holds all of them.

    Raises:
        UsageError: if the run is not the one that its sidecar describes.
        DataError: if it lacks scores; the message has their number and the first of them.
    """
    if sha256_of(run) != digest:
        raise UsageError(
            f"{run} is not the run that the sidecar beside it describes; make the teacher's run "
            "again"
        )
    of_run = read_run(run)
    scores: list[float] = []
    lacking: list[tuple[str, str]] = []
    for done, (row, places) in enumerate(zip(lesson.queries, lesson.candidates, strict=True)):
        known = of_run.get(row.query_id, {})
        for doc_id in (lesson.doc_ids[place] for place in places):
            if doc_id in known:
                scores.append(known[doc_id])
            else:
                lacking.append((row.query_id, doc_id))
        report_progress("teacher", done + 1, len(lesson.queries))
    if lacking:
        named = ", ".join(f"{doc} for query {query}" for query, doc in lacking[:_NAMED])
        affected = {query for query, _ in lacking}
        raise DataError(
            f"{run} lacks the scores of {len(lacking):,} of {len(scores) + len(lacking):,} "
            f"passages that training meets, of {len(affected):,} queries: {named}"
            f"{', ...' if len(lacking) > _NAMED else ''}; a model that was kept scores every "
            "passage (train the teacher with --keep-model, under another --name), or make its runs "
            "for the training queries, and deeper (--set depth)"
        )
    return np.array(scores, np.float32)


def find_teacher(where: str, data: ShiftData, held_out: str, seed: int, batch_size: int) -> Teacher:
    """Return the teacher of the model that holds a group out, and check that it may teach it.

    Args:
        where: ``bm25``, or the folder of a system's run set.
        data: the shift's part of the data set.
        held_out: the group.
        seed: the model's seed; its teacher has the same, if there are several.
        batch_size: texts that a model encodes together.

    Raises:
        NotFoundError: if there is no such folder, or it holds no run without the group.
        UsageError: if nothing says what made the teacher, it was made on other data, or the group
            was not held out of its training.
    """
    if where == BM25:
        parameters = Bm25Parameters(words=data.dataset.words).parameters()
        return Teacher({"kind": BM25, "parameters": parameters}, _score_by_bm25)
    folder = Path(where).expanduser()
    if not folder.is_dir():
        raise NotFoundError(
            f"no teacher {where}: it is {BM25!r}, or the folder of a system's run set, e.g. "
            "runs/colbert"
        )
    run, recorded = _run_of(folder, data, held_out, seed)
    sidecar = sidecar_path(run)
    check_same(
        recorded,
        data.identity,
        sidecar,
        "A teacher is trained on the same data set; train it there",
    )
    holds_out = recorded.get("held_out")
    untrained = holds_out is None and recorded.get("baseline") == BM25
    if holds_out != held_out and not untrained:
        raise UsageError(
            f"{sidecar} does not say that {held_out} was held out of this teacher's training, so "
            f"it may hand on what it knows of the test queries of {held_out}; take a system that "
            f"is trained per held-out group, or {BM25!r}"
        )
    facts = {"system": recorded.get("system"), "run_sha256": recorded.get("run_sha256")}
    model = model_path(run)
    training = recorded.get("training")
    if model.is_dir() and isinstance(training, dict):
        weights = training.get("weights_sha256")
        facts |= {"kind": "model", "weights_sha256": weights}
        return Teacher(facts, partial(_score_by_model, model, batch_size, weights))
    return Teacher({"kind": "run", **facts}, partial(_score_by_run, run, facts["run_sha256"]))


def _run_of(folder: Path, data: ShiftData, held_out: str, seed: int) -> tuple[Path, dict[str, Any]]:
    """Return the teacher's run without the group, or its one run, and what its sidecar records."""
    root, system = folder.parent, folder.name
    choices: list[tuple[str | None, int | None]] = [
        (held_out, seed),
        (held_out, None),
        (None, None),
    ]
    for group, which in choices:
        run = run_path(root, system, data.shift, group, which)
        if sidecar_path(run).is_file():
            return run, read_json(sidecar_path(run))
    raise NotFoundError(
        f"{folder} holds no run of {data.shift.name} without {held_out}, of seed {seed} or of the "
        "only one, with the JSON file next to it. Train the teacher first, with the same seeds, "
        "and name its folder: msshift run SYSTEM --keep-model --name SYSTEM-kept"
    )
