"""What must hold for every run, in whatever order, files and form it comes; a share of the fuzz."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from benchmarks import fuzz_runs
from benchmarks.support.naive_evaluator import evaluate
from msshift_bench.runs import TIE_POLICIES, Judgements, judge_run, validate_run
from msshift_bench.runs.judging import lines_by_query
from msshift_bench.runs.lines import Lines, id_column, text_blocks
from tests.runs.conftest import codes, places

JUDGEMENTS = Judgements.from_qrels(
    {"q1": {"d1": 1, "d2": 2, "é": 1, "d": 0}, "q2": {"d1": 1}, "q4": {}, "q5": {}}
)
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def judge(data: bytes, folder: Path, policy: str) -> Any:
    """Everything that reading says: what was judged, and the findings whether they stop or not."""
    path = folder / "a.run"
    path.write_bytes(data)
    checked = validate_run(path, JUDGEMENTS, tie_policy=policy)
    findings = codes((*checked.errors, *checked.warnings)), checked.counts
    if not checked.ok:
        return findings
    run = judge_run(path, JUDGEMENTS, tie_policy=policy)
    report = run.report
    counts = report.lines, report.queries, report.extra_queries, report.ranking
    return findings, sorted(places(run)), run.retrieved.tolist(), counts


def read_line_by_line(data: bytes) -> bytes:
    """The same lines, in a form that is not read in columns: no field is followed by one gap."""
    return data.replace(b" ", b"  ").replace(b"\t", b"\t\t")


fragments = st.lists(
    st.one_of(
        st.sampled_from(["q1", "q2", "d1", "Q0", "1", "2", "3", "0x1", "0x2", "01", "+1", "1_0"]),
        st.sampled_from(["nan", "inf", "1e3", "-1", "0", "1e999", "é", "#", '"']),
        st.sampled_from([" ", "  ", "\t", "\n", "\r\n", "\r", "\v", "\f", "\0", "\n\n"]),
        st.sampled_from(["q1 Q0 d1 1 2 t\n", "q1\td1\t1\n", "\x1c", "\u00a0", "\ufeff"]),
        st.text(max_size=3),
    ),
    max_size=30,
).map("".join)


@SHARED
@given(fragments, st.sampled_from(sorted(TIE_POLICIES)))
@example("q1 Q0 d1 0x1 5 t\n", "trec")
@example(" q1 Q0 1 2.5 t\n", "trec")
@example("q1  Q0 1 1 2.5\n", "trec")
@example("q1 Q0 d1 1 2.5 \nq2 Q0 d1 1 2.5 t\n", "trec")
@example("q1\tQ0\td1 \t1\t2.5\tt\n", "trec")
@example("q1 Q0 d1 1 2 t\r\nq1 Q0 d2 2 1 t\r\n", "trec")
@example("q1 Q0 d1 1 2 t\rq1 Q0 d2 2 1 t\r", "trec")
@example("q1 Q0 d1 1 3 t\nq1 Q0 d2\tx 2 2.5 t\n", "trec")
@example("q1 Q0 d1 1 3 t\nq1 Q0 d2\vx 2 2.5 t\n", "trec")
@example("q1 Q0 d1 1 3 t\nq1 Q0 d2\x1fx 2 2.5 t\n", "trec")
@example("q1 Q0 d1 1 inf t\n", "trec")
@example("q1 Q0 d1 1 nan t\n", "trec")
@example("q1 Q0 d1 1 1e39 t\n", "trec")
@example("q1 Q0 d1 1 1 t\nq1 Q0 d2 2 2 t\n", "trec")
@example("q1 Q0 d1 1 2 t\nq1 Q0 d1 2 1 t\n", "trec")
@example("q1 Q0 d1 1 2 t\nq1 Q0 d2 1 1 t\n", "trec")
@example("q1 Q0 d1 1 2 t\nq2 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\n", "trec")
@example("\ufeff\ufeffq1 Q0 d1 1 2 t\n", "trec")
@example("q1 Q0 d1 1 2 t\n\ufeffq2 Q0 d1 1 2 t\n", "trec")
@example('q1 Q0 "d1" 1 2 t\n', "trec")
@example("1 a 1\n11 b 2\n111 c 3\n9 d 1\n", "rank")
def test_lines_read_the_same_in_columns_and_one_by_one(
    tmp_path: Path, text: str, policy: str
) -> None:
    data = text.encode("utf-8", "surrogatepass")
    expected = judge(read_line_by_line(data), tmp_path, policy)
    assert judge(data, tmp_path, policy) == expected


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=60),
    st.integers(1000, 3000),
    st.sampled_from([" ", "\t"]),
)
def test_blocks_of_text_hold_complete_queries(
    queries: list[tuple[int, int]], size: int, gap: str
) -> None:
    lines = [
        gap.join((f"q{number}" + "7" * width, "Q0", f"d{rank}", str(rank), f"{9 - rank}", "t"))
        for number, (depth, width) in enumerate(queries)
        for rank in range(1, depth + 1)
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("msshift_bench.runs.lines._BLOCK_BYTES", size)
        blocks = list(text_blocks(io.BytesIO(text)))
    assert b"".join(blocks) == text
    for block, following in pairwise(blocks):
        query = following[: following.index(gap.encode()) + 1]
        assert not block.splitlines()[-1].startswith(query)


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=40),
    st.lists(st.integers(0, 40), max_size=12),
)
def test_parts_are_cut_between_queries(owners: list[str], cuts: list[int]) -> None:
    rows = len(owners)
    ids = id_column([owner.encode() for owner in owners])
    lines = Lines(ids, ids, np.zeros(rows, np.float32), None, np.arange(rows))
    bounds = sorted({0, rows, *(cut for cut in cuts if cut < rows)})
    parts = [lines.cut(slice(start, end)) for start, end in pairwise(bounds)]
    found = list(lines_by_query([lines.cut(slice(0, 0)), *parts]))
    assert np.concatenate([part.places for part, _ in found]).tolist() == list(range(rows))
    for part, starts in found:
        assert starts.tolist() == part.starts().tolist()
    for (before, _), (after, _) in pairwise(found):
        assert before.queries[-1] != after.queries[0]


# ---- a small share of scripts/bench fuzz_runs ----------------------------------------------------


def test_mutated_runs_give_findings_or_right_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcomes = fuzz_runs.fuzz(100, seed=20_221, folder=tmp_path)
    assert (outcomes.total(), len(outcomes) > 5, outcomes["scored"] > 25) == (100, True, True)
    # A wrong score is noticed.
    monkeypatch.setattr(fuzz_runs, "QRELS", fuzz_runs.QRELS | {"q2": {"d7": 1}})
    with pytest.raises(AssertionError, match=r"input [0-9]+ of seed 1"):
        fuzz_runs.fuzz(400, seed=1, folder=tmp_path)
    assert (tmp_path / "fuzz-failure.run").exists()


def test_the_naive_evaluator_by_hand() -> None:
    data = b"q Q0 a 1 2 t\nq Q0 b 2 2.00000001 t\nq Q0 c 3 1 t\n"
    qrels = {"q": {"a": 1, "x": 1}}
    assert evaluate(data, qrels, "trec")["RR@10"] == [1 / 2]
    assert evaluate(data, qrels, "doc-id-ascending")["RR@10"] == [1]
    assert evaluate(data, qrels, "rank")["R@5"] == [1 / 2]
    for malformed in (b"q Q0 a 1 2\n", b"q Q0 a 1 nan t\n", data + data, b"q Q0 a x 1 t\n", b""):
        assert evaluate(malformed, qrels, "trec") is None
