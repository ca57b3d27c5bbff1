"""The run tag that nobody names is the system's folder, by which runs are told apart elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from msshift_bench import write_run


@pytest.mark.parametrize(
    ("place", "tag"),
    [
        ("dense/length/short.run", "dense"),
        ("dense/length/seed-2/long.run", "dense"),
        ("bm25/topics.run", "bm25"),
        ("dense/also/dl19/length/short.run", "dense"),
        ("my system/length/short.run", "my_system"),
        ("elsewhere/my.run", "msshift-bench"),
    ],
)
def test_the_default_tag(tmp_path: Path, place: str, tag: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    write_run(tmp_path / place, {"q": {"d": 1.0}})
    assert (tmp_path / place).read_text() == f"q Q0 d 1 1.0 {tag}\n"


def test_a_tag_that_is_named_stays(tmp_path: Path) -> None:
    (tmp_path / "dense/length").mkdir(parents=True)
    write_run(tmp_path / "dense/length/short.run", {"q": {"d": 1.0}}, "mine")
    assert (tmp_path / "dense/length/short.run").read_text().endswith(" mine\n")
