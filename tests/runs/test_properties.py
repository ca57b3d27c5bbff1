"""What must hold for every run, in whatever order, files and form it comes; a share of the fuzz."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from msshift_bench.runs import (
    TIE_POLICIES,
    JudgedRun,
    Judgements,
    judge_run,
    validate_run,
    write_run,
)
from tests.runs.conftest import codes, places

JUDGEMENTS = Judgements.from_qrels(
    {
        "q1": {"d1": 1, "d2": 2, "a-much-longer-document-id-1": 1, "é": 1, "d": 0},
        "q2": {"d1": 1, "d12345678": 3},
        "22": {"d3": 1},
        "q4": {},
    },
    queries=["q1", "q2", "22", "q4", "q5"],
)
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

query_ids = st.sampled_from(["q1", "q2", "22", "q4", "q5", "x", "022", "22.0"])
doc_ids = st.sampled_from(
    ["d", "d1", "d2", "d3", "d4", "d12345678", "d12345679", "é", "😀", "0", "1", "11"]
    + [f"a-much-longer-document-id-{n}" for n in range(3)]
)
odd_doc_ids = st.sampled_from(["007", "7.0", "0.0", "00", "0x1", "0a", ".0", "a.0"])
scores = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 2.5, 2.5000001, 1e-30, -7.0]),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


rankings = st.dictionaries(doc_ids, scores, min_size=1, max_size=12)
odd_rankings = st.dictionaries(doc_ids | odd_doc_ids, scores, min_size=1, max_size=12)
runs = st.dictionaries(query_ids, rankings, min_size=1, max_size=5)
odd_runs = st.dictionaries(query_ids, odd_rankings, min_size=1, max_size=5)


def lines_of(run: dict[str, dict[str, float]]) -> list[str]:
    """The run as TREC lines in the order of the scores."""
    return [
        f"{query} Q0 {doc} {rank} {score!r} tag"
        for query, docs in run.items()
        for rank, (doc, score) in enumerate(sorted(docs.items(), key=lambda item: -item[1]), 1)
    ]


def outcome(run: JudgedRun) -> tuple:
    report, hits = run.report, sorted(places(run))
    return hits, run.retrieved.tolist(), report.lines, report.queries, report.extra_queries


def judge(data: list[bytes], folder: Path, policy: str) -> Any:
    """Everything that reading says: the outcome, and the findings whether they stop or not."""
    paths = []
    for number, part in enumerate(data):
        paths.append(folder / f"{number}.run")
        paths[-1].write_bytes(part)
    checked = validate_run(paths, JUDGEMENTS, tie_policy=policy)
    findings = codes((*checked.errors, *checked.warnings))
    run = judge_run(paths, JUDGEMENTS, tie_policy=policy) if checked.ok else None
    return run and outcome(run), findings, checked.counts


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
    expected = judge([read_line_by_line(data)], tmp_path, policy)
    assert judge([data], tmp_path, policy) == expected


@pytest.mark.slow
@SHARED
@given(
    runs | odd_runs,
    st.sampled_from([" ", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(sorted(TIE_POLICIES)),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_damaged_runs_read_the_same_in_columns_and_one_by_one(
    tmp_path: Path, run: Any, gap: Any, end: Any, policy: str, damages: Any, rng: random.Random
) -> None:
    lines = lines_of(run)
    for _ in range(damages):
        line = rng.randrange(len(lines))
        fields = lines[line].split(" ")
        field = rng.randrange(len(fields))
        other = rng.choice(lines).split(" ")[field:][:1]
        fields[field] = rng.choice([*other * 4, "nan", "x", "", "0", "é"])
        lines[line] = " ".join(fields)
    data = end.join([*(line.replace(" ", gap) for line in lines), ""]).encode()
    expected = judge([read_line_by_line(data)], tmp_path, policy)
    assert judge([data], tmp_path, policy) == expected


@pytest.mark.slow
@SHARED
@given(runs, st.sampled_from(["trec", "doc-id-ascending", "expected"]), st.randoms())
def test_neither_line_order_nor_splitting_over_files_matters(
    tmp_path: Path, run: Any, policy: str, rng: random.Random
) -> None:
    lines = [line + "\n" for line in lines_of(run)]
    expected, *_ = judge(["".join(lines).encode()], tmp_path, policy)
    assert outcome(judge_run(run, JUDGEMENTS, tie_policy=policy)) == expected
    for _ in range(2):
        cuts = sorted(rng.choices(range(len(lines) + 1), k=3))
        ends = zip([0, *cuts], [*cuts, len(lines)], strict=True)
        parts = [lines[start:end] for start, end in ends if start < end]
        data = ["".join(part).encode() for part in parts]
        assert judge(data, tmp_path, policy)[0] == expected
        rng.shuffle(lines)


@SHARED
@given(runs, st.sampled_from(["trec", "doc-id-ascending", "expected"]))
def test_a_strictly_monotone_change_of_scores_changes_nothing(run: Any, policy: str) -> None:
    # ranks of the distinct scores, which 32-bit floats tell apart exactly where they did before
    values = sorted({np.float32(score) for docs in run.values() for score in docs.values()})
    order = {value: float(rank**2) for rank, value in enumerate(values)}
    changed = {
        query: {doc: order[np.float32(score)] for doc, score in docs.items()}
        for query, docs in run.items()
    }
    before = judge_run(run, JUDGEMENTS, tie_policy=policy)
    assert outcome(judge_run(changed, JUDGEMENTS, tie_policy=policy)) == outcome(before)


@pytest.mark.slow
@SHARED
@given(runs, st.sampled_from(["a.run", "a.run.gz"]), st.sampled_from(sorted(TIE_POLICIES)))
def test_what_is_written_reads_back(tmp_path: Path, run: Any, name: str, policy: str) -> None:
    path = tmp_path / name
    write_run(path, iter(run.items()), "tag")
    read_back = judge_run(path, JUDGEMENTS, tie_policy=policy)
    ranked = {"rank": "trec"}.get(policy, policy)
    expected = outcome(judge_run(run, JUDGEMENTS, tie_policy=ranked))
    if policy == "rank":
        expected = ([(*hit[:3], hit[2] - 1, 1) for hit in expected[0]], *expected[1:])
    assert outcome(read_back) == expected
    assert not any(code.startswith("rank") for code in read_back.report.warning_counts)


# ---- a small share of tests/fuzz/fuzz_runs.py ----------------------------------------------------


@pytest.fixture
def fuzz_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "fuzz"))
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("fuzz_runs")


@pytest.mark.slow
def test_mutated_runs_give_findings_or_right_scores(
    fuzz_runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = fuzz_runs.fuzz(400, seed=20_221, folder=tmp_path)
    assert (outcomes.total(), len(outcomes) > 5, outcomes["scored"] > 100) == (400, True, True)
    # A wrong score would be seen.
    monkeypatch.setattr(fuzz_runs, "QRELS", fuzz_runs.QRELS | {"q2": {"d7": 1}})
    with pytest.raises(AssertionError, match=r"input [0-9]+ of seed 1"):
        fuzz_runs.fuzz(400, seed=1, folder=tmp_path)
    assert (tmp_path / "fuzz-failure.run").exists()


def test_the_naive_evaluator_by_hand(fuzz_runs: Any) -> None:
    data = b"q Q0 a 1 2 t\nq Q0 b 2 2.00000001 t\nq Q0 c 3 1 t\n"
    qrels = {"q": {"a": 1, "x": 1}}
    assert fuzz_runs.evaluate(data, qrels, "trec")["RR@10"] == [1 / 2]
    assert fuzz_runs.evaluate(data, qrels, "doc-id-ascending")["RR@10"] == [1]
    assert fuzz_runs.evaluate(data, qrels, "rank")["R@5"] == [1 / 2]
    for malformed in (b"q Q0 a 1 2\n", b"q Q0 a 1 nan t\n", data + data, b"q Q0 a x 1 t\n", b""):
        assert fuzz_runs.evaluate(malformed, qrels, "trec") is None
