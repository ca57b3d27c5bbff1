"""Teachers: systems whose scores of passages a model learns.

Sources: Hofstaetter et al., "Improving Efficient Neural Ranking Models with Cross-Architecture
Knowledge Distillation", 2020 (margin-MSE); Lin, Yang and Lin, "Distilling Dense Representations for
Ranking using Tightly-Coupled Teachers", 2020 (Kullback-Leibler divergence).

A teacher that was trained on the held-out group would teach it to the model. The model's Rel Loss
would then be too small. A teacher is therefore BM25, which is not trained, or a system that was
trained without that group. Its sidecar must record the held-out group and the same data set.
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
"""Most missing scores that a message names."""


def _score_by_bm25(batch: ScoringBatch, index: Callable[[], Bm25]) -> npt.NDArray[np.float32]:
    """Return BM25's scores as `Teacher.score` does; 0 for a passage that shares no term."""
    bm25 = index()
    rows = np.array(bm25.ids.rows(list(batch.doc_ids)), np.int64)
    texts = (row.text for row in batch.queries)
    scored = bm25.score(texts, (rows[places] for places in batch.candidates))
    return np.concatenate(list(counted(scored, "teacher", len(batch.queries))))


def _score_by_model(
    folder: Path, batch_size: int, weights: object, batch: ScoringBatch, _index: Callable[[], Bm25]
) -> npt.NDArray[np.float32]:
    """Return the scores of a model that `--keep-model` kept, as `Teacher.score` does.

    Raises:
        UsageError: if the digest of its weights is not `weights`.
    """
    kind = neural_systems()[kind_of_model(str(folder))]
    model, search = kind.load_model(folder), kind.searcher()(batch_size=batch_size)
    if weights_digest(model) != weights:
        raise UsageError(
            f"the weights of {folder} differ from their digest in the run's sidecar; train the "
            "teacher again"
        )
    scores: list[npt.NDArray[np.float32]] = []
    for part in slices(len(batch.queries), _TOGETHER):
        candidates = batch.candidates[part]
        used = np.unique(np.concatenate(candidates))
        scores += search.score(
            model,
            [row.text for row in batch.queries[part]],
            batch.texts.take(pa.array(used)).to_pylist(),
            [np.searchsorted(used, places) for places in candidates],
        )
        report_progress("teacher", part.stop, len(batch.queries))
    return np.concatenate(scores).astype(np.float32)


def _score_by_run(
    run: Path, digest: object, batch: ScoringBatch, _index: Callable[[], Bm25]
) -> npt.NDArray[np.float32]:
    """Return a run's scores as `Teacher.score` does; the run must fit into memory.

    Raises:
        UsageError: if the SHA-256 of the run is not `digest`.
        DataError: if scores are missing; the message has their number and the first few.
    """
    if sha256_of(run) != digest:
        raise UsageError(
            f"{run} differs from its SHA-256 in its sidecar; make the teacher's run again"
        )
    rankings = read_run(run)
    scores: list[float] = []
    lacking: list[tuple[str, str]] = []
    for done, (row, places) in enumerate(zip(batch.queries, batch.candidates, strict=True), 1):
        ranking = rankings.get(row.query_id, {})
        for doc_id in (batch.doc_ids[place] for place in places):
            if doc_id in ranking:
                scores.append(ranking[doc_id])
            else:
                lacking.append((row.query_id, doc_id))
        report_progress("teacher", done, len(batch.queries))
    if lacking:
        named = ", ".join(f"{doc} for query {query}" for query, doc in lacking[:_NAMED])
        affected = {query for query, _ in lacking}
        raise DataError(
            f"{run} lacks {len(lacking):,} of {len(scores) + len(lacking):,} scores that training "
            f"needs, for {len(affected):,} queries: {named}"
            f"{', ...' if len(lacking) > _NAMED else ''}. Train the teacher with --keep-model and "
            "another --name, or make deeper runs (--set depth) for the training queries"
        )
    return np.array(scores, np.float32)


def find_teacher(where: str, data: ShiftData, held_out: str, seed: int, batch_size: int) -> Teacher:
    """Return the teacher of a model, checked not to be trained on the held-out group.

    A system's kept model scores; without it the run does.

    Args:
        where: ``bm25``, or the folder of a system's run set.
        data: the shift's part of the data set.
        held_out: the held-out group of the model.
        seed: the model's seed; if the teacher has several, its model with this seed is used.
        batch_size: texts that the teacher encodes together.

    Raises:
        NotFoundError: if there is no such folder, or it has no run without the group or for all
            groups.
        UsageError: if the teacher was made on other data, or its sidecar does not record the group
            as held out; a run of BM25 needs no such record.
    """
    if where == BM25:
        parameters = Bm25Parameters(words=data.dataset.words).parameters()
        return Teacher({"kind": BM25, "parameters": parameters}, _score_by_bm25)
    folder = Path(where).expanduser()
    if not folder.is_dir():
        raise NotFoundError(
            f"no teacher {where}: give {BM25!r}, or the folder of a system's run set, e.g. "
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
            f"{sidecar} does not record that {held_out} was held out of this teacher's training, "
            f"so the model might learn {held_out} from it; use a teacher that is trained per "
            f"held-out group, or {BM25!r}"
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
    """Return the teacher's run and the content of its sidecar.

    It is the first that exists: for the held-out group and seed, for the group without seeds, or
    for all groups. If none exists, it is a NotFoundError.
    """
    root, system = folder.parent, folder.name
    choices: list[tuple[str | None, int | None]] = [
        (held_out, seed),
        (held_out, None),
        (None, None),
    ]
    for group, run_seed in choices:
        run = run_path(root, system, data.shift, group, run_seed)
        if sidecar_path(run).is_file():
            return run, read_json(sidecar_path(run))
    raise NotFoundError(
        f"{folder} has no run and sidecar of {data.shift.name} without {held_out}, with seed "
        f"{seed} or without seeds. Train the teacher first, with the same seeds, and give its "
        "folder: msshift run SYSTEM --keep-model --name SYSTEM-kept"
    )
