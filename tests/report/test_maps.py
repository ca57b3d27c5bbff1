"""The map of queries, on a few points that lie in known clouds."""

from __future__ import annotations

import numpy as np
import pytest

from msshift_bench.arrays import Vectors
from msshift_bench.output import picture_style
from msshift_bench.report.report_figure import ReportFigure
from msshift_bench.report.topic_map import TopicSample, draw_topic_map, flatten

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
