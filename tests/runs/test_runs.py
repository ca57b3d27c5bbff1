from __future__ import annotations

import gzip
import hashlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
import pytest

from msshift_bench.errors import NotFoundError, RunError, UnknownNameError, UsageError
from msshift_bench.runs.qrels import Judgements
from msshift_bench.runs.reader import judge_run, validate_run
from msshift_bench.runs.reading import text_runs
from msshift_bench.runs.reading.query_blocks import whole_query_blocks
from msshift_bench.runs.writing import write_run
from tests.support.compressing import COMPRESSORS

JUDGEMENTS = Judgements.from_qrels({"q1": {"d2": 1, "d4": 2}, "q2": {"d1": 1}, "q3": {"d9": 1}})
RUN = """q1 Q0 d1 1 9.5 tag
q1 Q0 d2 2 9.5 tag
q1 Q0 d3 3 9.5 tag
q1 Q0 d4 4 1e0 tag
q2 Q0 d1 1 -3 tag
"""
MAPPING = {"q1": {"d1": 9.5, "d2": 9.5, "d3": 9.5, "d4": 1}, "q2": {"d1": -3}}


class Scored(NamedTuple):
    query_id: str
    doc_id: str
    score: float


def places(run: Any) -> set[tuple[int, ...]]:
    return {tuple(row) for row in np.stack(run.hits, axis=1).tolist()}


def codes(error: RunError) -> list[tuple[str, int]]:
    return [(finding.code, finding.line) for finding in error.findings]


def test_keeps_the_place_of_each_relevant_document(write: Callable[..., Path]) -> None:
    run = judge_run(write(RUN), JUDGEMENTS)
    # query, gain, rank, above, tied: equal scores are in descending order of doc_id
    assert places(run) == {(0, 1, 2, 0, 3), (0, 2, 4, 3, 1), (1, 1, 1, 0, 1)}
    assert run.retrieved.tolist() == [4, 1, 0]
    assert run.missing.tolist() == [False, False, True]


def test_reports_what_was_read(write: Callable[..., Path]) -> None:
    path = write(RUN + "extra Q0 d 1 1 tag\n")
    report = judge_run(path, JUDGEMENTS).report
    assert (report.name, report.tag) == (str(path), "tag")
    assert (report.lines, report.queries, report.extra_queries) == (6, 3, 1)
    assert report.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert report.warning_counts == {"unknown-query": 1}
    assert [finding.line for finding in report.warnings] == [6]


@pytest.mark.parametrize(
    ("policy", "rank_of_d2"), [("trec", 2), ("doc-id-ascending", 2), ("rank", 1), ("expected", 2)]
)
def test_the_tie_policy_orders_equal_scores(
    write: Callable[..., Path], policy: str, rank_of_d2: Any
) -> None:
    text = "q1 Q0 d2 1 5 t\nq1 Q0 d1 2 5 t\nq1 Q0 d9 3 5 t\n"
    assert judge_run(write(text), JUDGEMENTS, tie_policy=policy).hits.rank.tolist() == [rank_of_d2]


def test_doc_ids_are_compared_as_strings_of_utf8_bytes(write: Callable[..., Path]) -> None:
    judgements = Judgements.from_qrels({"q": {"9": 1, "é": 1, "\U0001f600": 1, "\uffff": 1}})
    text = "".join(
        f"q Q0 {doc} {rank} 1 t\n"
        for rank, doc in enumerate(["9", "10", "é", "\U0001f600", "\uffff"], start=1)
    )
    run = judge_run(write(text), judgements)
    assert sorted(run.hits.rank.tolist()) == [1, 2, 3, 4]
    assert (0, 1, 4, 0, 5) in places(run)  # "9" after all but "10"


def test_scores_are_compared_as_32_bit_floats(write: Callable[..., Path]) -> None:
    text = "q1 Q0 d2 1 1000.00002 t\nq1 Q0 d3 2 1000.00001 t\n"
    run = judge_run(write(text), JUDGEMENTS)
    assert places(run) == {(0, 1, 2, 0, 2)}


@pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS)
def test_reads_compressed_runs_whatever_their_name(
    write: Callable[..., Path], compress: Any
) -> None:
    run = judge_run(write(compress(RUN.encode())), JUDGEMENTS)
    assert places(run) == places(judge_run(MAPPING, JUDGEMENTS))


@pytest.mark.parametrize(
    "text",
    [
        RUN.replace(" ", "\t"),
        RUN.replace(" ", "  \t"),
        RUN.replace("\n", "\r\n"),
        "\ufeff" + RUN,
        RUN + "\n \n",
        RUN.rstrip("\n"),
        "\n".join(sorted(RUN.splitlines(), reverse=True)),
    ],
    ids=["tabs", "mixed", "crlf", "bom", "blank end", "no newline", "other order"],
)
def test_white_space_and_line_order_do_not_matter(write: Callable[..., Path], text: str) -> None:
    assert places(judge_run(write(text), JUDGEMENTS)) == places(judge_run(MAPPING, JUDGEMENTS))


def test_queries_may_be_interleaved(write: Callable[..., Path]) -> None:
    lines = RUN.splitlines(keepends=True)
    run = judge_run(
        write("".join([lines[4], *lines[:2], "x Q0 d 1 1 t\n", *lines[2:4]])), JUDGEMENTS
    )
    assert places(run) == places(judge_run(MAPPING, JUDGEMENTS))
    assert run.report.lines == 6


def test_a_run_may_be_split_over_files(write: Callable[..., Path]) -> None:
    lines = RUN.splitlines(keepends=True)
    parts = [write("".join(lines[0::2]), "a"), write("".join(lines[1::2]), "b")]
    run = judge_run(parts, JUDGEMENTS)
    assert places(run) == places(judge_run(MAPPING, JUDGEMENTS))
    both = b"".join(part.read_bytes() for part in parts)
    assert run.report.digest == hashlib.sha256(both).hexdigest()


def test_the_files_of_one_run_have_one_format(write: Callable[..., Path]) -> None:
    six, three = write("q1 Q0 d1 1 9 t\n", "a"), write("q1\td2\t2\n", "b")
    with pytest.raises(RunError) as caught:
        judge_run([six, three], JUDGEMENTS)
    (finding,) = caught.value.findings
    assert (finding.code, finding.source, finding.line) == ("field-count", str(three), 1)


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]) -> None:
    with write(gzip.compress(RUN.encode())).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        run = judge_run("-", JUDGEMENTS)
    assert places(run) == places(judge_run(MAPPING, JUDGEMENTS))
    assert run.report.name == "<stdin>"


def test_three_columns_are_ranked_by_their_rank(write: Callable[..., Path]) -> None:
    text = "q1\td3\t1\nq1\td2\t2\nq2\td1\t1\n"
    for policy in ("trec", "rank", "expected"):
        run = judge_run(write(text), JUDGEMENTS, tie_policy=policy)
        assert places(run) == {(0, 1, 2, 1, 1), (1, 1, 1, 0, 1)}


def table(query: str, doc: str) -> pd.DataFrame:
    rows = [(q, d, score) for q, docs in MAPPING.items() for d, score in docs.items()]
    return pd.DataFrame(rows, columns=[query, doc, "score"])


@pytest.mark.parametrize(
    "source",
    [
        table("query_id", "doc_id"),
        table("qid", "docno").sample(frac=1, random_state=1),
        [(q, d, score) for q, docs in MAPPING.items() for d, score in docs.items()],
        [Scored(q, d, np.float32(s)) for q, docs in MAPPING.items() for d, s in docs.items()],
        (
            {"qid": q, "docno": d, "score": score}
            for q, docs in MAPPING.items()
            for d, score in docs.items()
        ),
    ],
    ids=["table", "PyTerrier", "tuples", "named tuples", "mappings"],
)
def test_reads_runs_in_memory(source: Any) -> None:
    run = judge_run(source, JUDGEMENTS)
    assert places(run) == places(judge_run(MAPPING, JUDGEMENTS))
    assert run.report.digest == ""


def test_integer_ids_in_memory_stand_for_their_digits() -> None:
    judgements = Judgements.from_qrels({"7": {"12": 1}})
    frame = pd.DataFrame({"qid": [7, 7], "docno": [11, 12], "score": [2.0, 1.0]})
    assert judge_run(frame, judgements).hits.rank.tolist() == [2]


def test_malformed_values_in_memory_are_findings() -> None:
    records = [
        ("q1", 1.5, 1.0),
        ("q1", "", 1.0),
        (None, "d", 1.0),
        ("q1", "a", "high"),
        ("q1", "b", float("nan")),
        ("q1", "c", 1e300),
        ("q1", "e", True),
        ("q1", "d\udc80", 1.0),
    ]
    with pytest.raises(RunError) as caught:
        judge_run(records, JUDGEMENTS)
    assert codes(caught.value) == [
        ("id-invalid", 1),
        ("id-invalid", 2),
        ("id-invalid", 3),
        ("score-not-number", 4),
        ("score-nan", 5),
        ("score-infinite", 6),
        ("score-not-number", 7),
        ("id-invalid", 8),
    ]


@pytest.mark.parametrize("source", [3, {"q1": {"d": 1.0}}, [("q", "d")], pd.DataFrame({"qid": []})])
def test_what_cannot_be_a_run_by_rank_is_a_usage_error(source: Any) -> None:
    with pytest.raises(UsageError):
        judge_run(source, JUDGEMENTS, tie_policy="rank")


def test_all_errors_are_collected_with_their_lines(write: Callable[..., Path]) -> None:
    text = (
        "q1 Q0 d1 1 9 t\n"
        "q1 Q0 d2 2 8\n"
        "q1 Q0 d1 3 7 t\n"
        "q1 Q0 d3 x 6 t\n"
        "q1 Q0 d4 5 nan t\n"
        "q1 Q0 d5 6 -inf t\n"
        "q1 Q0 d6 7 high t\n"
        "\n"
        "q2 Q0 d1 1 1_0 t\n"
    )
    with pytest.raises(RunError) as caught:
        judge_run(write(text), JUDGEMENTS)
    assert codes(caught.value) == [
        ("field-count", 2),
        ("duplicate-document", 3),
        ("rank-not-integer", 4),
        ("score-nan", 5),
        ("score-infinite", 6),
        ("score-not-number", 7),
        ("field-count", 8),
        ("score-not-number", 9),
    ]
    assert all(finding.fix for finding in caught.value.findings)


def test_findings_name_the_file_they_are_in(write: Callable[..., Path]) -> None:
    good, bad = write(RUN, "good"), write("q3 Q0 d9 1 nan t\n", "bad")
    with pytest.raises(RunError) as caught:
        judge_run([good, bad], JUDGEMENTS)
    (finding,) = caught.value.findings
    assert (finding.source, finding.line) == (str(bad), 1)


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"", "empty-file", 0),
        (b"\n \n", "empty-file", 0),
        (gzip.compress(b"", mtime=0), "empty-file", 0),
        (gzip.compress(RUN.encode(), mtime=0)[:-4], "truncated-input", 0),
        (b"q1 Q0 d1 1 1 t\nq1 Q0 \0 2 1 t\n", "binary-input", 2),
        (RUN.encode("utf-16"), "binary-input", 1),
        (b"q1 Q0 d\xe9 1 1 t\n", "not-utf8", 1),
        (b"x" * (9 << 20), "binary-input", 1),
    ],
    ids=["empty", "blank", "gzip", "truncated", "nul", "utf-16", "latin-1", "one long line"],
)
def test_unreadable_input_is_a_finding(
    write: Callable[..., Path], content: Any, code: str, line: Any
) -> None:
    with pytest.raises(RunError) as caught:
        judge_run(write(content), JUDGEMENTS)
    assert codes(caught.value) == [(code, line)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q1 Q0 a 0 3 t\nq1 Q0 b 1 2 t\n", {"rank-zero-based": 1}),
        ("q1 Q0 a 1 3 t\nq1 Q0 b 1 2 t\n", {"rank-repeated": 2}),
        ("q1 Q0 a 1 3 t\nq1 Q0 b 3 2 t\n", {"rank-gap": 2}),
        ("q1 Q0 b 2 2 t\nq1 Q0 a 1 3 t\n", {"rank-order": 2}),
        ("q1 Q0 a 1 3 t\nq1 Q0 b 2 4 t\n", {"rank-score-disagree": 2}),
        ("q9 Q0 a 1 3 t\n", {"unknown-query": 1}),
        ("q1 Q0 007 1 3 t\n", {"id-leading-zeros": 1}),
        ("q1 Q0 7.0 1 3 t\n", {"id-decimal": 1}),
        ("07 Q0 a 1 3 t\n", {"id-leading-zeros": 1, "unknown-query": 1}),
        (
            "q1 Q0 a 1 3 t\nq1 Q0 b 1 4 t\nq1 Q0 c 2 5 t\n",
            {"rank-repeated": 2, "rank-score-disagree": 3},
        ),
    ],
)
def test_what_is_odd_is_a_warning_and_strictness_makes_it_an_error(
    write: Callable[..., Path], text: str, expected: Any
) -> None:
    path = write(text)
    run = judge_run(path, JUDGEMENTS)
    assert {warning.code: warning.line for warning in run.report.warnings} == expected
    with pytest.raises(RunError) as caught:
        judge_run(path, JUDGEMENTS, strict=True)
    assert dict(codes(caught.value)) == expected


def test_ids_that_look_odd_are_fine_where_the_qrels_have_such_ids(
    write: Callable[..., Path],
) -> None:
    judgements = Judgements.from_qrels({"q1": {"001": 1, "5.0": 1}})
    run = judge_run(write("q1 Q0 007 1 3 t\nq1 Q0 7.0 2 2 t\n"), judgements)
    assert not run.report.warnings


def test_a_query_that_does_not_count_and_one_without_qrels_are_told_apart(
    write: Callable[..., Path],
) -> None:
    judgements = Judgements.from_qrels({"54": {"d": 1}}, queries=["1"])
    run = judge_run(write("54 Q0 d 1 1 t\n1 Q0 d 1 1 t\n"), judgements)
    first, second = run.report.warnings
    assert (first.code, second.code) == ("unknown-query", "query-without-qrels")
    assert "does not count" in first.message
    assert run.retrieved.tolist() == [1]


@pytest.mark.parametrize("text", ["q1 d 0\nq1 e 1\n", "q1 d 1\nq1 e 1\n"])
def test_under_the_rank_policy_odd_ranks_are_errors(write: Callable[..., Path], text: str) -> None:
    path = write(text)
    assert judge_run(path, JUDGEMENTS).report.warnings
    with pytest.raises(RunError, match="rank-"):
        judge_run(path, JUDGEMENTS, tie_policy="rank")


def test_validating_collects_instead_of_raising(write: Callable[..., Path]) -> None:
    result = validate_run(write("q1 Q0 d 1 nan t\nq1 Q0 a 7 1 t\n"))
    assert not result.ok
    assert result.counts == {"score-nan": 1, "rank-gap": 1}
    assert [finding.code for finding in (*result.errors, *result.warnings)] == [
        "score-nan",
        "rank-gap",
    ]
    assert validate_run(write(RUN)).ok


@pytest.mark.parametrize("how", ["longer", "replaced"])
def test_a_run_that_changes_while_it_is_read_is_an_error(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    path = write(RUN)

    def blocks(stream: BinaryIO) -> Any:
        for block in whole_query_blocks(stream):
            if how == "longer":
                with path.open("a") as file:
                    file.write("q3 Q0 d9 1 1 tag\n")
            else:
                write(RUN, "new").replace(path)
            yield block

    monkeypatch.setattr(text_runs, "whole_query_blocks", blocks)
    with pytest.raises(RunError) as caught:
        judge_run(path, JUDGEMENTS)
    assert codes(caught.value) == [("changed-while-read", 0)]


def test_a_run_that_has_changed_is_not_read_again(write: Callable[..., Path]) -> None:
    path = write(RUN)
    run, same = judge_run(path, JUDGEMENTS), judge_run(path, JUDGEMENTS)
    rankings = list(run.rankings())
    assert len(rankings) == 2
    path.write_text(RUN + "q3 Q0 d9 1 1 tag\n")
    with pytest.raises(RunError, match="changed-while-read"):
        list(same.rankings())
    # What was read stays, for every measure and every order of ties.
    assert list(run.rankings()) == rankings
    assert [query for query, _ in run.with_ties("best").rankings()] == ["q1", "q2"]


def test_wrong_arguments_are_named(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'trec'"):
        judge_run(write(RUN), JUDGEMENTS, tie_policy="tree")
    with pytest.raises(UnknownNameError, match="run format"):
        judge_run(write(RUN), JUDGEMENTS, format="csv")
    with pytest.raises(NotFoundError, match="no file"):
        judge_run(tmp_path / "none.run", JUDGEMENTS)
    with pytest.raises(UsageError, match="is a folder"):
        judge_run(tmp_path, JUDGEMENTS)


@pytest.mark.parametrize("block_bytes", [1, 7, 20, 64, 1000])
def test_blocks_hold_whole_queries(block_bytes: int) -> None:
    text = "\ufeff" + "".join(f"q{n // 7} Q0 d{n} {n} 1 t\n" for n in range(40)) + "\n\n"
    blocks = list(whole_query_blocks(io.BytesIO(text.encode()), block_bytes))
    assert (
        b"".join(block.text for block in blocks).decode() == text.lstrip("\ufeff").rstrip() + "\n"
    )
    queries = [{line.split()[0] for line in block.text.splitlines()} for block in blocks]
    assert sum(len(part) for part in queries) == len(set().union(*queries)) == 6


def test_what_is_read_at_once_is_one_block() -> None:
    text = b"".join(b"q%d Q0 d 1 1 t\n" % number for number in range(40))
    (block,) = whole_query_blocks(io.BytesIO(text), len(text) + 1)
    assert (block.text, block.lines) == (text, 40)


def test_a_written_run_reads_back_in_the_order_of_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    write_run(path, {"q1": {"d1": 9.5, "d2": 0.1, "d3": 9.5}}, tag="me")
    assert path.read_text() == "q1 Q0 d3 1 9.5 me\nq1 Q0 d1 2 9.5 me\nq1 Q0 d2 3 0.1 me\n"
    assert not judge_run(path, JUDGEMENTS, strict=True).report.warnings


def test_a_compressed_run_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("a.run.gz", "b.run.gz"):
        write_run(tmp_path / name, {"q1": {"d1": 1.0}}, tag="me")
    assert (tmp_path / "a.run.gz").read_bytes() == (tmp_path / "b.run.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.run.gz").read_bytes()) == b"q1 Q0 d1 1 1.0 me\n"


@pytest.mark.parametrize(
    ("rankings", "tag"),
    [
        ({"q 1": {"d": 1.0}}, "t"),
        ({"q": {"": 1.0}}, "t"),
        ({"q": {"d": 1.0}}, "my tag"),
        ({"q": {"d": float("nan")}}, "t"),
        ({"q": {"d": 1e300}}, "t"),
        ([("q", {"d": 1.0}), ("q", {"e": 1.0})], "t"),
    ],
)
def test_what_would_not_read_back_is_not_written(tmp_path: Path, rankings: Any, tag: Any) -> None:
    path = tmp_path / "a.run"
    with pytest.raises(RunError, match=r"a\.run"):
        write_run(path, rankings, tag)
    assert not path.exists()


def test_other_compressions_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.zst"):
        write_run(tmp_path / "a.run.zst", [], "t")
