"""The maps of queries and of passages, on a few points that lie in known clouds."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from msshift_bench.arrays import Vectors
from msshift_bench.data import open_collection, open_dataset
from msshift_bench.output import picture_style
from msshift_bench.report.passage_map import (
    PassageSample,
    draw_passage_map,
    neighbours_alike,
    sample_passages,
)
from msshift_bench.report.report_figure import LeftOut, ReportFigure
from msshift_bench.report.topic_map import TopicSample, draw_topic_map, flatten
from msshift_bench.shifts import get_shift
from tests.conftest import Build
from tests.support.tiny_models import save_tiny_models

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

GROUPS = ("C0",) * 12 + ("C1",) * 12


def clouds(*, apart: bool) -> Vectors:
    """Return vectors of two clouds: of the two groups, or of the even and the odd rows."""
    at = np.arange(24) // 12 if apart else np.arange(24) % 2
    noise = np.random.default_rng(1).normal(scale=0.05, size=(24, 6))
    vectors: Vectors = (np.eye(6)[at] + noise).astype(np.float32)
    return vectors


def test_the_map_of_topics_keeps_clouds_apart() -> None:
    ids = tuple(f"q{number}" for number in range(24))
    terms = {"C0": ["river", "county"], "C1": ["blood"]}
    found = TopicSample(ids, GROUPS, clouds(apart=True), terms, of=500)
    with picture_style():
        figure, again = draw_topic_map(found), draw_topic_map(found)
    assert isinstance(figure, ReportFigure)
    assert isinstance(again, ReportFigure)
    assert figure.to_csv() == again.to_csv()
    assert [tuple(row[:2]) for row in figure.rows] == list(zip(ids, GROUPS, strict=True))
    points = np.array([row[2:] for row in figure.rows], dtype=float)
    middles = [points[:12].mean(axis=0), points[12:].mean(axis=0)]
    distances = np.linalg.norm(points[:, np.newaxis] - middles, axis=2)
    assert list(distances.argmin(axis=1)) == [0] * 12 + [1] * 12
    assert "C0: river, county; C1: blood" in figure.alternative
    assert "24 of 500 queries" in figure.caption


def test_vectors_that_are_all_the_same_are_one_point() -> None:
    assert flatten(np.ones((5, 3), np.float32)).tolist() == [[0, 0]] * 5
    assert flatten(np.ones((1, 3), np.float32)).tolist() == [[0, 0]]


def test_the_map_of_passages_says_what_the_vectors_say() -> None:
    ids = tuple(f"q{number}" for number in range(24))
    seen, unseen = clouds(apart=True), clouds(apart=False)
    found = PassageSample(get_shift("topics"), "dense", "C1", "C0", ids, ids, GROUPS, seen, unseen)
    shares = neighbours_alike(unseen, GROUPS)
    cosines = unseen @ unseen.T / np.outer(*2 * [np.linalg.norm(unseen, axis=1)])
    for row in range(24):
        others = sorted(set(range(24)) - {row}, key=lambda other: -cosines[row, other])[:10]
        assert shares[row] == np.mean([GROUPS[other] == GROUPS[row] for other in others])
    assert list(neighbours_alike(seen, GROUPS)) == [1.0] * 24
    with picture_style():
        figure = draw_passage_map(found)
    assert isinstance(figure, ReportFigure)
    assert len(figure.rows) == 2 * 24
    assert [row[2] for row in figure.rows] == ["C0"] * 24 + ["C1"] * 24
    assert [row[8] for row in figure.rows[24:]] == list(shares)
    mixed = shares[12:].mean()
    assert f"100% under the model that saw C1 and {mixed:.0%} under" in figure.alternative
    assert "24 passages" in figure.caption
    assert "C0 12, C1 12" in figure.caption


@pytest.mark.neural
@pytest.mark.slow
def test_kept_models_place_the_passages(build_once: Build, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    save_tiny_models(tmp_path)
    for group in ("short", "long"):
        shutil.copytree(tmp_path / "my-bi-encoder", tmp_path / group)
    data, shift = open_dataset(build_once("mini:300", "length")), get_shift("length")
    other = dict.fromkeys(shift.groups, tmp_path / "my-monobert")
    kept = {"reranker": other, "dense": {group: tmp_path / group for group in shift.groups}}
    collection = open_collection("mini:300")
    losses = {"dense": {"short": 0.3, "long": 0.1}}
    found = sample_passages(data, shift, kept, losses, collection, 20)
    assert isinstance(found, PassageSample)
    assert (found.system, found.held_out, found.other) == ("dense", "short", "long")
    texts = {one.doc_id: one.text for one in collection.passages()}
    relevant = {
        (row.query_id, doc_id, group)
        for group, rows in data.test_sets(shift).items()
        for row in rows
        for doc_id in row.relevant_doc_ids
    }
    assert set(zip(found.query_ids, found.doc_ids, found.groups, strict=True)) <= relevant
    assert len(set(found.doc_ids)) == 20
    model = SentenceTransformer(str(tmp_path / "short"), device="cpu")
    expected = model.encode_document(
        [texts[doc_id] for doc_id in found.doc_ids], show_progress_bar=False
    )
    np.testing.assert_allclose(found.unseen, expected, atol=1e-5)

    def why(*arguments: object) -> LeftOut:
        left = sample_passages(data, shift, *arguments, 20)  # type: ignore[arg-type]
        assert isinstance(left, LeftOut)
        return left

    assert "--keep-model" in why({}, losses, collection).remedy
    assert "reranker" in why({"reranker": other}, losses, collection).why
    assert "relevant passages" in why(kept, losses, open_collection("mini:20")).why
    assert "--collection" in why(kept, losses, None).remedy
