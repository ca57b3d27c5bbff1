"""Queries of the release of 2022 that have judgements and no text."""

from __future__ import annotations

from pathlib import Path

from msshift_bench.data.digests import count_rows
from msshift_bench.dataset_builders.release import read_official
from tests.support.cut_rows import cut_rows
from tests.support.official_checkout import write_checkout


def test_a_query_without_text_counts_in_no_test_set(tmp_path: Path) -> None:
    judged = {"3": {"d2": 1}, "20": {"d1": 1}, "7": {"d1": 1}}
    release = read_official(write_checkout(tmp_path, C0=("20\tb\n3\ta\n", judged)))
    topics = release.shifts[0]
    ids = [row.query_id for row in cut_rows(topics, "test") if row.group == "C0"]
    assert ids == ["20", "3"]
    assert count_rows(topics.shift, topics.table)["C0"]["test"] == 2
