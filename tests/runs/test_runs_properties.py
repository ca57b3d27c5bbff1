"""What must hold for every run: both readers agree; order, splitting and storage do not matter."""

from __future__ import annotations

import functools
import io
import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from msshift_bench.runs.hits import TIE_POLICIES, JudgedRun
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reader import judge_run, validate_run
from msshift_bench.runs.reading import query_blocks, text_runs
from msshift_bench.runs.writing import write_run

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


def run_strategy(docs: Any) -> Any:
    rankings = st.dictionaries(docs, scores, min_size=1, max_size=12)
    return st.dictionaries(query_ids, rankings, min_size=1, max_size=5)


runs = run_strategy(doc_ids)


def lines_of(run: dict[str, dict[str, float]]) -> list[str]:
    """The run as TREC lines in the order of the scores."""
    lines = []
    for query, docs in run.items():
        ranked = sorted(docs.items(), key=lambda item: -item[1])
        for rank, (doc, score) in enumerate(ranked, start=1):
            lines.append(f"{query} Q0 {doc} {rank} {score!r} tag")
    return lines


def outcome(run: JudgedRun) -> tuple:
    hits = sorted(map(tuple, np.stack(run.hits, axis=1).tolist()))
    report = run.report
    return hits, run.retrieved.tolist(), report.lines, report.queries, report.extra_queries


def judge(
    data: bytes | list[bytes], folder: Path, policy: str, *, exact: bool, block_bytes: int
) -> Any:
    """Everything that reading says: the outcome, and the findings whether they stop or not."""
    paths = []
    for number, part in enumerate([data] if isinstance(data, bytes) else data):
        paths.append(folder / f"{number}.run")
        paths[-1].write_bytes(part)
    blocks = functools.partial(query_blocks.whole_query_blocks, block_bytes=block_bytes)
    parse = mock.Mock(return_value=None) if exact else text_runs.parse_block
    with (
        mock.patch.object(text_runs, "whole_query_blocks", blocks),
        mock.patch.object(text_runs, "parse_block", parse),
    ):
        checked = validate_run(paths, JUDGEMENTS, tie_policy=policy)
        found = checked.counts, checked.errors, checked.warnings
        run = judge_run(paths, JUDGEMENTS, tie_policy=policy) if checked.ok else None
        return run and outcome(run), found


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
@given(fragments, st.sampled_from(sorted(TIE_POLICIES)), st.sampled_from([8, 64, 1 << 20]))
@example("q1 Q0 d1 0x1 5 t\n", "trec", 64)
@example(" q1 Q0 1 2.5 t\n", "trec", 64)
@example("q1  Q0 1 1 2.5\n", "trec", 64)
@example("q1 Q0 d1 1 2.5 \nq2 Q0 d1 1 2.5 t\n", "trec", 64)
@example("q1\tQ0\td1 \t1\t2.5\tt\n", "trec", 64)
@example("q1 Q0 d1 1 2 t\r\nq1 Q0 d2 2 1 t\r\n", "trec", 64)
@example("q1 Q0 d1 1 3 t\nq1 Q0 d2\tx 2 2.5 t\n", "trec", 64)
@example("q1 Q0 d1 1 3 t\nq1 Q0 d2\vx 2 2.5 t\n", "trec", 64)
@example("q1 Q0 d1 1 3 t\nq1 Q0 d2\x1fx 2 2.5 t\n", "trec", 64)
@example("q1 Q0 d1 1 inf t\n", "trec", 64)
@example("q1 Q0 d1 1 nan t\n", "trec", 64)
@example("q1 Q0 d1 1 1e39 t\n", "trec", 64)
@example("q1 Q0 d1 1 1 t\nq1 Q0 d2 2 2 t\n", "trec", 64)
@example("q1 Q0 d1 1 2 t\nq1 Q0 d1 2 1 t\n", "trec", 64)
@example("q1 Q0 d1 1 2 t\nq1 Q0 d2 1 1 t\n", "trec", 64)
@example("q1 Q0 d1 1 2 t\nq2 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\n", "trec", 16)
@example("\ufeff\ufeffq1 Q0 d1 1 2 t\n", "trec", 64)
@example("q1 Q0 d1 1 2 t\n\ufeffq2 Q0 d1 1 2 t\n", "trec", 8)
@example('q1 Q0 "d1" 1 2 t\n', "trec", 64)
@example("1 a 1\n11 b 2\n111 c 3\n9 d 1\n", "rank", 64)
def test_both_readers_agree_on_any_text(
    tmp_path: Path, text: str, policy: str, block_bytes: int
) -> None:
    data = text.encode("utf-8", "surrogatepass")
    fast = judge(data, tmp_path, policy, exact=False, block_bytes=block_bytes)
    assert fast == judge(data, tmp_path, policy, exact=True, block_bytes=block_bytes)


@pytest.mark.slow
@SHARED
@given(
    runs | run_strategy(doc_ids | odd_doc_ids),
    st.sampled_from([" ", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(sorted(TIE_POLICIES)),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_both_readers_agree_on_damaged_runs(
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
    fast = judge(data, tmp_path, policy, exact=False, block_bytes=200)
    assert fast == judge(data, tmp_path, policy, exact=True, block_bytes=200)


@pytest.mark.slow
@SHARED
@given(runs, st.sampled_from(["trec", "doc-id-ascending", "expected"]), st.randoms())
def test_neither_line_order_nor_splitting_over_files_matters(
    tmp_path: Path, run: Any, policy: str, rng: random.Random
) -> None:
    lines = [line + "\n" for line in lines_of(run)]
    whole, _ = judge("".join(lines).encode(), tmp_path, policy, exact=False, block_bytes=300)
    rng.shuffle(lines)
    cut = rng.randrange(len(lines) + 1)
    parts = [part for part in (lines[:cut], lines[cut:]) if part]
    data = ["".join(part).encode() for part in parts]
    assert judge(data, tmp_path, policy, exact=False, block_bytes=300)[0] == whole
    assert outcome(judge_run(run, JUDGEMENTS, tie_policy=policy)) == whole


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


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_written_scores_are_the_same_32_bit_floats(values: Any) -> None:
    printed = [str(value) for value in np.array(values, dtype=np.float32)]
    assert np.array_equal(
        np.array([float(text) for text in printed], np.float32), np.float32(values)
    )


@given(fragments, st.integers(1, 40))
def test_blocks_lose_no_line(text: str, block_bytes: int) -> None:
    data = text.replace("\0", "").encode("utf-8", "surrogatepass")
    blocks = list(query_blocks.whole_query_blocks(io.BytesIO(data), block_bytes))
    whole = b"".join(block.text for block in blocks)
    kept = data.removeprefix(b"\xef\xbb\xbf").rstrip()
    assert whole.rstrip() == kept
    assert sum(block.lines for block in blocks) == whole.count(b"\n")


@pytest.mark.parametrize("seed", range(3))
def test_both_readers_agree_on_a_long_run(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    run = {
        f"{query}": {f"{rng.randrange(10**7)}": rng.randrange(300) / 8 for _ in range(400)}
        for query in range(60)
    }
    judgements = Judgements.from_qrels(
        {query: dict.fromkeys(rng.sample(sorted(docs), 9), 1) for query, docs in run.items()}
    )
    path = tmp_path / "long.run"
    write_run(path, iter(run.items()), "tag")
    for policy in TIE_POLICIES:
        fast = judge_run(path, judgements, tie_policy=policy)
        with mock.patch.object(text_runs, "parse_block", return_value=None):
            exact = judge_run(path, judgements, tie_policy=policy)
        assert outcome(fast) == outcome(exact)
        assert len(fast.hits.query) == 60 * 9
