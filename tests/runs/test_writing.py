"""Runs that are written: bytes as of lines written one by one, and what is no run to write."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from msshift_bench.errors import MsShiftError, RunError
from msshift_bench.runs import write_run, writing

Rankings = dict[str, dict[str, float]]


def one_by_one(rankings: Rankings, tag: str) -> bytes:
    """Format every line by itself."""
    text = ""
    for query, documents in rankings.items():
        rows = [(np.float32(score), doc.encode()) for doc, score in documents.items()]
        for rank, (score, doc) in enumerate(sorted(rows, reverse=True), start=1):
            text += f"{query} Q0 {doc.decode()} {rank} {score!s} {tag}\n"
    return text.encode()


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1)
scores = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 12.5, 1e-4, 9.999e-5, 1e5, 16777216.0, 3.4e38, 1e-45]),
    st.integers(-(2**24), 2**24).map(float),
    st.floats(0, 40),
    st.floats(-1e5, 1e5, width=32),
)
rankings = st.dictionaries(ids, scores, max_size=12)
runs = st.dictionaries(ids, rankings, max_size=12).filter(lambda run: any(run.values()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs, st.integers(1, 30))
@example(
    {
        "q": {"b": 0.0, "a": -0.0, "é": 0.0, "z": -0.0, "\x01": 0.5},
        "p": {},
        "r": {"ﬀ": 1.0, "\U0001f600": 1.0},
    },
    1,
)
def test_columns_give_the_bytes_of_lines_written_one_by_one(
    tmp_path: Path, run: Rankings, block: int
) -> None:
    with mock.patch.object(writing, "BLOCK", block):
        for name in ("a.run", "a.run.gz"):
            write_run(tmp_path / name, iter(run.items()), "täg")
    expected = one_by_one(run, "täg")
    assert (tmp_path / "a.run").read_bytes() == expected
    assert gzip.decompress((tmp_path / "a.run.gz").read_bytes()) == expected


def test_compressed_bytes_do_not_depend_on_the_length_of_blocks(tmp_path: Path) -> None:
    rankings = {str(query): {str(doc): 1.5 * doc for doc in range(300)} for query in range(30)}
    for name, block in (("a.run.gz", 1), ("b.run.gz", 50_000)):
        with mock.patch.object(writing, "BLOCK", block):
            write_run(tmp_path / name, rankings, "tag")
    assert (tmp_path / "a.run.gz").read_bytes() == (tmp_path / "b.run.gz").read_bytes()


@pytest.mark.parametrize("where", ["first", "later"])
@pytest.mark.parametrize("bad", ["half \ud800", "\udcff", "no\0", "tab\t", " ", ""])
def test_no_word_that_breaks_a_line_is_written(tmp_path: Path, bad: str, where: str) -> None:
    bad_one: Rankings = {"p": {"e": 2.0, bad: 1.0}}
    rankings = bad_one if where == "first" else {"q": {"d": 1.0}, **bad_one}
    with (
        mock.patch.object(writing, "BLOCK", 1),
        pytest.raises(RunError, match=re.escape(repr(bad))),
    ):
        write_run(tmp_path / "a.run", rankings, "tag")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rankings", "tag", "words"),
    [
        ({"q": {"a": 2.0, 7: 1.0}}, "tag", r"a\.run: 7 is not a string; ids and the run tag"),
        ({7: {"a": 2.0}}, "tag", r"a\.run: 7 is not a string"),
        ({"q": {"a": 2.0, None: 1.0}}, "tag", r"a\.run: None is not a string"),
        ({"q": {"a": 2.0}}, 7, r"a\.run: 7 is not a string"),
        ({"q": {"a": 2.0, "b": "high"}}, "tag", r"a\.run: .*'high' is no score"),
        ({"q": {"a": 2.0, "b": 10**400}}, "tag", r"a\.run: .*is no score"),
        ({"q": {"a": [2.0, 1.0]}}, "tag", r"a\.run: \[2\.0, 1\.0\] is no score"),
        ({"q": ["a", "b"]}, "tag", r"doc id -> score, and query 'q' has \['a', 'b'\]"),
        ({"p": {}, "q": {"a": 2.0, "b": math.inf}}, "tag", "'q' has a score that is not finite"),
        ([("q", {"a": 2.0}), ("q", {"a": 1.0})], "tag", r"a\.run: query 'q' is there twice"),
    ],
)
def test_what_is_no_run_is_named(tmp_path: Path, rankings: Any, tag: Any, words: str) -> None:
    with pytest.raises(MsShiftError, match=words):
        write_run(tmp_path / "a.run", rankings, tag)
    assert not list(tmp_path.iterdir())


def test_the_ending_says_how_a_run_is_compressed(tmp_path: Path) -> None:
    with pytest.raises(MsShiftError, match=r"\.gz.*\.xz"):
        write_run(tmp_path / "a.run.xz", {"q": {"a": 2.0}}, "tag")
