"""Runs in columns: what is read so, that it reads as lines do, and how little memory it takes."""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import RunError
from msshift_bench.plumbing import UTF8_BOM
from msshift_bench.runs import hashes
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reader import judge_run, validate_run
from msshift_bench.runs.reading import query_blocks, text_runs
from msshift_bench.runs.reading.query_blocks import line_at, whole_query_blocks
from tests.runs.test_runs import JUDGEMENTS, RUN, codes, places


@pytest.mark.parametrize(
    "text", [RUN, RUN.replace(" ", "\t"), RUN.replace("\n", "\r\n"), "a\tb\t1\n"]
)
def test_regular_runs_are_read_in_columns(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    refuse_lines(monkeypatch)
    assert judge_run(write(text), JUDGEMENTS).report.lines == text.count("\n")


def refuse_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse_lines(*arguments: Any) -> None:
        raise AssertionError("read line by line")

    monkeypatch.setattr(text_runs, "parse_lines", parse_lines)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("q1 Q0 d1 0 9 t\nq1 Q0 d2 1 8 t\nq2 Q0 d1 0 8 t\n", {"rank-zero-based": 2}),
        ("q1 Q0 d2 2 8 t\nq1 Q0 d1 1 9 t\nq2 Q0 d1 5 1 t\n", {"rank-order": 1, "rank-gap": 1}),
        ("q1 Q0 d1 1 8 t\nq1 Q0 d2 2 9 t\n", {"rank-score-disagree": 1}),
        ("x1 Q0 d1 1 8 t\nq1 Q0 d2 1 9 t\n02 Q0 d 1 1 t\n3.0 Q0 d 1 1 t\n", None),
    ],
    ids=["from 0", "other order", "rising scores", "other queries"],
)
def test_odd_runs_are_read_in_columns_too(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, text: str, warnings: Any
) -> None:
    expected = read_by_lines(write(text), monkeypatch)
    refuse_lines(monkeypatch)
    run = judge_run(write(text), JUDGEMENTS)
    if warnings is not None:
        assert run.report.warning_counts == warnings
    assert run.report == expected.report
    assert places(run) == places(expected)


def read_by_lines(source: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(text_runs, "parse_block", lambda *arguments: None)
        return judge_run(source, JUDGEMENTS, **options)


def random_run(rng: random.Random) -> str:
    """Some queries, each in one piece, with ranks, scores and ids of every kind that is sound."""
    lines = []
    for query in rng.sample(["q1", "q2", "q3", "q9", "007", "5.0", "long" * 40], rng.randint(1, 7)):
        docs = rng.sample([f"d{number}" for number in range(12)], rng.randint(1, 12))
        ranks = list(range(rng.choice([0, 1, 1, 2]), 20))[: len(docs)]
        scores = sorted((rng.choice([1, 2.5, -3, 1e-3]) for _ in docs), reverse=True)
        if rng.random() < 0.3:
            rng.shuffle(ranks)
        if rng.random() < 0.3:
            rng.shuffle(scores)
        if rng.random() < 0.2:
            ranks[-1] = ranks[0]
        lines += [
            f"{query} Q0 {doc} {rank} {score} t"
            for doc, rank, score in zip(docs, ranks, scores, strict=True)
        ]
    return "\n".join([*lines, ""])


@pytest.mark.slow
@pytest.mark.parametrize("block_bytes", [60, 200, 1 << 20])
def test_both_readers_agree_on_whatever_is_sound(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    def blocks(stream: BinaryIO) -> Any:
        return whole_query_blocks(stream, block_bytes)

    monkeypatch.setattr(text_runs, "whole_query_blocks", blocks)
    monkeypatch.setattr(query_blocks, "BLOCK_BYTES", block_bytes)  # so that queries come in parts
    rng = random.Random(12)
    for number in range(120):
        path = write(random_run(rng))
        policy = ("trec", "doc-id-ascending", "expected", "rank")[number % 4]
        if policy == "rank":
            by_lines, in_columns = (
                validate_with(reader, path, policy, monkeypatch) for reader in (True, False)
            )
            assert by_lines == in_columns
            continue
        expected = read_by_lines(path, monkeypatch, tie_policy=policy)
        with monkeypatch.context() as patch:
            refuse_lines(patch)
            run = judge_run(path, JUDGEMENTS, tie_policy=policy)
        assert run.report == expected.report
        assert places(run) == places(expected)
        assert run.retrieved.tolist() == expected.retrieved.tolist()


def validate_with(by_lines: bool, path: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        if by_lines:
            patch.setattr(text_runs, "parse_block", lambda *arguments: None)
        else:
            refuse_lines(patch)
        found = validate_run(path, JUDGEMENTS, tie_policy=policy)
        run = judge_run(path, JUDGEMENTS, tie_policy=policy) if found.ok else None
    return found, run and places(run), run and run.retrieved.tolist()


def test_a_query_longer_than_a_block_comes_in_parts_of_whole_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(query_blocks, "BLOCK_BYTES", 100)
    text = "".join(f"q1 Q0 d{n} {n} 1 t\n" for n in range(1, 90)) + "q2 Q0 d 1 1 t\n \n\n"
    (block,) = whole_query_blocks(io.BytesIO(text.encode()), 100)
    assert len(block.parts) > 10
    assert all(part.endswith(b"\n") and len(part) < 250 for part in block.parts)
    assert block.text == text.rstrip().encode() + b"\n"
    assert block.lines == 90


@pytest.mark.parametrize("block_bytes", [1, 7, 50])
def test_an_offset_lies_in_a_line(monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    monkeypatch.setattr(query_blocks, "BLOCK_BYTES", block_bytes)
    text = b"q1 Q0 d1 1 1 t\n\nq2 Q0 d1 1 1 t\nq3"
    lines = [line_at(io.BytesIO(UTF8_BOM + text), offset) for offset in range(len(text) + 1)]
    assert lines == [1 + text[:offset].count(b"\n") for offset in range(len(text) + 1)]


@pytest.mark.slow
def test_queries_of_no_test_set_take_eight_bytes_each(write: Callable[..., Path]) -> None:
    """Memory follows the queries that are judged; one Python object for each would take ten
    times as much."""
    path = write("".join(f"query-{n} Q0 d{n} 1 1 t\n" for n in range(300_000)))
    judge_run(path, JUDGEMENTS)
    tracemalloc.start()
    run = judge_run(path, JUDGEMENTS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.report.extra_queries == run.report.queries == 300_000
    assert run.report.warning_counts == {"unknown-query": 300_000}
    # Beside the hashes only the blocks that wait are held, however many lines there are.
    assert peak < 45_000_000


def test_documents_of_the_same_hash_are_not_confused(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "_scramble", lambda words: words & np.uint64(0))
    judgements = Judgements(JUDGEMENTS.judged)  # hashed as everything else is now
    assert places(judge_run(write("q1 Q0 x 1 1 t\nq2 Q0 d1 1 1 t\n"), judgements)) == {
        (1, 1, 1, 0, 1)
    }
    one_query = "q1 Q0 x 1 4 t\nq1 Q0 d4 2 3 t\nq1 Q0 y 3 2 t\nq1 Q0 d2 4 1 t\n"
    with pytest.raises(RunError, match="duplicate-document"):
        judge_run(write(one_query + "q1 Q0 y 5 0 t\n"), judgements)
    refuse_lines(monkeypatch)
    run = judge_run(write(one_query), judgements)
    assert places(run) == {(0, 2, 2, 1, 1), (0, 1, 4, 3, 1)}


def test_an_id_longer_than_any_line_is_refused_at_once(tmp_path: Path) -> None:
    long = "x" * (1 << 20)
    sound = Judgements.from_qrels({long: {long: 1}})
    assert judge_run({long: {long: 1.0, long[1:]: 2.0}}, sound).hits.rank.tolist() == [2]
    for query, doc in (("q1", long + "x"), (long + "x", "d1")):
        with pytest.raises(RunError) as caught:
            judge_run([(query, doc, 1.0)], JUDGEMENTS)
        assert codes(caught.value) == [("id-invalid", 1)]
        assert len(str(caught.value)) < 500
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"query_id": [query], "doc_id": [doc], "score": [1.0]}), path)
        with pytest.raises(RunError, match="id-invalid"):
            judge_run(path, JUDGEMENTS)
