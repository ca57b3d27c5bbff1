"""Runs: what is read of text, Parquet and values, what is wrong and where, and what is only odd."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from msshift_bench.errors import RunError, UsageError
from msshift_bench.plumbing import MAX_RANK
from msshift_bench.runs import TIE_POLICIES, JudgedRun, Judgements, judge_run, read_run
from tests.runs.conftest import JUDGEMENTS, MAPPING, PLACES, RUN, Write, codes, places, refused
from tests.support.compressing import COMPRESSORS
from tests.support.refusals import check_refusals

LINES = RUN.splitlines(keepends=True)
SOUND = {
    "as it is": RUN,
    "tabs": RUN.replace(" ", "\t"),
    "mixed": RUN.replace(" ", "  \t"),
    "crlf": RUN.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + RUN,
    "blank end": RUN + "\n \n",
    "no newline": RUN.rstrip("\n"),
    "other order": "".join(sorted(LINES, reverse=True)),
    "interleaved": "".join([LINES[4], *LINES[:2], "x Q0 d 1 1 t\n", *LINES[2:4]]),
    **{name: compress(RUN.encode()) for name, compress in COMPRESSORS.items()},
}


@pytest.mark.parametrize("content", SOUND.values(), ids=SOUND)
def test_keeps_the_place_of_each_relevant_document(write: Write, content: str | bytes) -> None:
    run = judge_run(write(content), JUDGEMENTS)
    assert places(run) == PLACES == places(judge_run(MAPPING, JUDGEMENTS))
    assert run.retrieved.tolist() == [4, 1, 0]
    assert run.missing.tolist() == [False, False, True]


def test_reports_what_was_read(write: Write) -> None:
    path = write(RUN + "extra Q0 d 1 1 tag\n")
    report = judge_run(path, JUDGEMENTS).report
    assert (report.name, report.tag) == (str(path), "tag")
    assert (report.lines, report.queries, report.extra_queries) == (6, 3, 1)
    assert report.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert report.warning_counts == {"unknown-query": 1}
    assert [finding.line for finding in report.warnings] == [6]


def test_doc_ids_are_compared_as_strings_of_utf8_bytes(write: Write) -> None:
    docs = ["9", "10", "é", "\U0001f600", "\uffff", "007"]
    judgements = Judgements.from_qrels({"q": {doc: 1 for doc in docs if doc != "10"}})
    run = judge_run(
        write("".join(f"q Q0 {doc} {n} 1 t\n" for n, doc in enumerate(docs, 1))), judgements
    )
    assert sorted(run.hits.rank.tolist()) == [1, 2, 3, 4, 6]
    assert (0, 1, 4, 0, 6) in places(run)  # "9" after all but "10" and "007"


def test_a_run_may_be_split_over_files_of_one_format(write: Write) -> None:
    parts = [write("".join(LINES[0::2]), "a"), write("".join(LINES[1::2]), "b")]
    run = judge_run(parts, JUDGEMENTS)
    assert places(run) == PLACES
    both = b"".join(part.read_bytes() for part in parts)
    assert run.report.digest == hashlib.sha256(both).hexdigest()
    for text, code in (("q3\td2\t2\n", "field-count"), ("q3 Q0 d9 1 nan t\n", "score-nan")):
        (finding,) = refused([write(RUN, "good"), write(text, "bad")]).findings
        assert (finding.code, finding.line) == (code, 1)
        assert finding.source.endswith("bad")


def test_three_columns_are_ranked_by_their_rank(write: Write) -> None:
    text = "q1\td3\t1\nq1\td2\t2\nq2\td1\t1\n"
    for policy in ("trec", "rank", "expected"):
        run = judge_run(write(text), JUDGEMENTS, tie_policy=policy)
        assert places(run) == {(0, 1, 2, 1, 1), (1, 1, 1, 0, 1)}


def test_all_errors_are_collected_with_their_lines(write: Write) -> None:
    lines = {
        "q1 Q0 d1 1 9 t": "",
        "q1 Q0 d2 2 8": "field-count",
        "q1 Q0 d1 3 7 t": "duplicate-document",
        "q1 Q0 d3 x 6 t": "rank-not-integer",
        "q1 Q0 d4 5 nan t": "score-nan",
        "q1 Q0 d5 6 -inf t": "score-infinite",
        "q1 Q0 d6 7 high t": "score-not-number",
        "": "field-count",
        "q2 Q0 d1 1 1_0 t": "score-not-number",
    }
    error = refused(write("\n".join(lines)))
    expected = [(code, line) for line, code in enumerate(lines.values(), 1) if code]
    assert codes(error) == expected
    assert all(finding.fix for finding in error.findings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("07 Q0 a 1 3 t\n", {"id-leading-zeros": 1, "unknown-query": 1}),
        ("q1 Q0 b 2 2 t\nq1 Q0 a 1 3 t\n", {"rank-order": 2}),
        ("q1 Q0 a 1 3 t\nq1 Q0 b 3 2 t\n", {"rank-gap": 2}),
        (
            "q1 Q0 a 1 3 t\nq1 Q0 b 1 4 t\nq1 Q0 c 2 5 t\n",
            {"rank-repeated": 2, "rank-score-disagree": 3},
        ),
    ],
)
def test_what_is_odd_is_a_warning_and_strictness_makes_it_an_error(
    write: Write, text: str, expected: dict[str, int]
) -> None:
    path = write(text)
    assert dict(codes(judge_run(path, JUDGEMENTS).report.warnings)) == expected
    assert dict(codes(refused(path, strict=True))) == expected


def test_what_is_odd_depends_on_the_qrels(write: Write) -> None:
    judgements = Judgements.from_qrels({"q1": {"001": 1, "5.0": 1}})
    run = judge_run(write("q1 Q0 007 1 3 t\nq1 Q0 7.0 2 2 t\n"), judgements)
    assert not run.report.warnings
    # A query of another test set and one without qrels are told apart.
    run = judge_run(write("54 Q0 d 1 1 t\n1 Q0 d 1 1 t\n"), Judgements.from_qrels({"1": {}}))
    first, second = run.report.warnings
    assert (first.code, second.code) == ("unknown-query", "query-without-qrels")
    assert run.retrieved.tolist() == [1]


@pytest.mark.parametrize("how", ["longer", "replaced"])
def test_a_run_that_changes_while_it_is_read_is_an_error(
    write: Write, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path, sha256 = write(RUN), hashlib.sha256

    def changing() -> Any:
        if how == "longer":
            with path.open("a") as file:
                file.write("q3 Q0 d9 1 1 tag\n")
        else:
            write(RUN, "new").replace(path)
        return sha256()

    monkeypatch.setattr(hashlib, "sha256", changing)
    assert codes(refused(path)) == [("changed-while-read", 0)]


def test_rankings_are_kept_when_the_file_is_removed(write: Write) -> None:
    path = write(RUN)
    run = judge_run(path, JUDGEMENTS, depth=MAX_RANK)
    path.unlink()
    expected = [("q1", ["d3", "d2", "d1", "d4"]), ("q2", ["d1"])]
    assert list(run.rankings()) == list(run.rankings()) == expected
    assert list(run.with_ties("best").rankings(2)) == [("q1", ["d2", "d3"]), ("q2", ["d1"])]
    assert list(run.with_ties("worst").rankings(tied_only=True)) == [
        ("q1", ["d3", "d1", "d2", "d4"])
    ]


@pytest.fixture(scope="module")
def long_run() -> tuple[dict[str, dict[str, float]], Judgements, dict[str, JudgedRun]]:
    """A run of several blocks of a file, with a query that is longer than one; and it judged."""
    rng = random.Random(7)
    depths = [*(rng.randrange(1, 300) for _ in range(20)), 6_000, *(3 for _ in range(1_000))]
    run = {
        f"query-{number}": {
            f"d{doc}": rng.randrange(4_000) / 8 for doc in rng.sample(range(2 * depth + 9), depth)
        }
        for number, depth in enumerate(depths)
    }
    judgements = Judgements.from_qrels(
        {query: dict.fromkeys(rng.sample(sorted(docs), 1), 1) for query, docs in run.items()}
    )
    policies = set(TIE_POLICIES) - {"rank"}
    judged = {policy: judge_run(run, judgements, tie_policy=policy) for policy in policies}
    return run, judgements, judged


@pytest.mark.parametrize("gap", [" ", "\t", "  "], ids=["spaces", "tabs", "aligned"])
def test_a_long_run_is_what_it_is_in_memory(
    write: Write, gap: str, long_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.runs.lines._BLOCK_BYTES", 1 << 16)
    run, judgements, in_memory = long_run
    lines = [
        gap.join((query, "Q0", doc, str(rank), repr(score), "t"))
        for query, docs in run.items()
        for rank, (doc, score) in enumerate(docs.items(), start=1)
    ]
    path = write("\n".join(lines) + "\n" * 100_000)
    assert path.stat().st_size > 5 << 16
    for policy, expected in in_memory.items():
        judged = judge_run(path, judgements, tie_policy=policy)
        assert places(judged) == places(expected)
        assert judged.retrieved.tolist() == expected.retrieved.tolist()
        assert judged.report.lines == len(lines) > 9_000
    assert read_run(path) == run
    error = refused(write("\n".join([*lines, lines[1234]])), judgements)
    assert codes(error) == [("duplicate-document", len(lines) + 1)]


def test_ids_that_begin_alike_are_told_apart(write: Write) -> None:
    """A hash takes the first 256 bytes of an id."""
    begin = "d" * 256
    judgements = Judgements.from_qrels({"q": {f"{begin}2": 1, f"{begin}4": 2}})
    lines = [f"q Q0 {begin}{number} {number} {-number} t\n" for number in range(1, 7)]
    for count, expected in ((3, {(0, 1, 2, 1, 1)}), (6, {(0, 1, 2, 1, 1), (0, 2, 4, 3, 1)})):
        assert places(judge_run(write("".join(lines[:count])), judgements)) == expected
    error = refused(write("".join([*lines, lines[2]])), judgements)
    assert codes(error) == [("duplicate-document", 7)]


def test_a_run_is_read_as_a_mapping(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [write("".join(LINES[2:]), "a"), write("".join(LINES[:2]), "b")]
    for source in (str(write(RUN)), parts, MAPPING):
        assert read_run(source) == MAPPING
    for data in (gzip.compress(RUN.encode()), RUN.encode()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert read_run("-") == MAPPING
    assert read_run(write("q a 2\nq b 1\n"), format="msmarco") == {"q": {"a": -2.0, "b": -1.0}}
    assert read_run(write("q Q0 d 7 1 t\n")) == {"q": {"d": 1.0}}
    assert read_run({"q1": pd.Series({"d1": 2.0})}) == {"q1": {"d1": 2.0}}


def test_what_is_no_run_is_named(write: Write) -> None:
    run, odd, few = write(RUN), write("q Q0 d 7 1 t\n", "odd"), write("q Q0 d 1\n", "few")
    empty, twice = write("", "empty"), write(RUN + RUN, "twice")
    refusals = {
        "UnknownNameError 'tree'": lambda: judge_run(run, JUDGEMENTS, tie_policy="tree"),
        "judge: UnknownNameError 'csv'": lambda: judge_run(run, JUDGEMENTS, format="csv"),
        "NotFoundError none.run": lambda: judge_run(run.with_name("none.run"), JUDGEMENTS),
        "UsageError folder file": lambda: judge_run(run.parent, JUDGEMENTS),
        "RunError [empty-file] empty fix": lambda: read_run(empty),
        "RunError [field-count] few:1 4 fix": lambda: read_run(few),
        "RunError [duplicate-document] twice:6 twice:7 'd1' 'd2' fix": lambda: read_run(twice),
        "RunError [rank-gap] odd:1 'q' fix": lambda: read_run(odd, strict=True),
        "read: UnknownNameError 'csv'": lambda: read_run(odd, format="csv"),
        "UsageError 7": lambda: read_run(7),
        "UsageError 'q1' 'd1'": partial(read_run, {"q1": ["d1", "d2"]}),
        "UsageError 'q1' None": partial(read_run, {"q1": None}),
        "UsageError 'q1' 1.0": partial(read_run, {"q1": 1.0}),
        **{f"{type(source).__name__}: UsageError {fact}":
           partial(judge_run, source, JUDGEMENTS, tie_policy="rank") for source, fact in (
               (3, "3"), ({"q1": {"d": 1.0}}, "ranks"), ([("q", "d")], "1 score"),
               (pd.DataFrame({"qid": []}), "doc_id docno"))},
    }  # fmt: skip
    check_refusals(refusals)


# ---- Parquet files, and runs given as values -----------------------------------------------------


COLUMNS = {"query_id": ["1", "1", "1", "2"], "doc_id": ["11", "12", "14", "11"]}
COLUMNS |= {"score": [3.0, 2.0, 2.0, 1.0]}
OF_COLUMNS = Judgements.from_qrels({"1": {"12": 1, "14": 2}, "2": {"11": 1}})
EXPECTED = {(0, 1, 3, 1, 2), (0, 2, 2, 1, 2), (1, 1, 1, 0, 1)}


@pytest.fixture
def write_parquet(tmp_path: Path) -> Write:
    def write_table(table: pa.Table | dict[str, Any], **options: Any) -> Path:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(table), path, **options)
        return path

    return write_table


@pytest.mark.parametrize("ids", [pa.string(), pa.large_string(), pa.int64(), pa.int32()])
@pytest.mark.parametrize("score", [pa.float32(), pa.float64(), pa.int16()])
@pytest.mark.parametrize("ranked", [False, True])
def test_ids_are_strings_or_integers_and_scores_are_numbers(
    write_parquet: Write, ids: pa.DataType, score: pa.DataType, ranked: bool
) -> None:
    table = pa.table(COLUMNS)
    for column, (name, kind) in enumerate(zip(COLUMNS, (ids, ids, score), strict=True)):
        table = table.set_column(column, name, table[name].cast(kind))
    if ranked:
        table = table.append_column("rank", pa.array([1, 2, 3, 1]))
    run = judge_run(write_parquet(table), OF_COLUMNS)
    assert places(run) == EXPECTED
    assert (run.report.lines, run.report.warning_counts) == (4, {})


def test_neither_the_names_nor_the_order_of_columns_and_rows_matter(
    write_parquet: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = {
        "docno": pa.array(COLUMNS["doc_id"]).dictionary_encode(),
        "text": ["", "", "", ""],
        "qid": pa.array(COLUMNS["query_id"]).dictionary_encode(),
        "score": COLUMNS["score"],
    }
    assert places(judge_run(write_parquet(renamed), OF_COLUMNS)) == EXPECTED
    for order in ([3, 2, 1, 0], [0, 3, 1, 2]):
        table = pa.table(COLUMNS).take(order)
        assert places(judge_run(write_parquet(table, row_group_size=2), OF_COLUMNS)) == EXPECTED
    with write_parquet(COLUMNS).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        run = judge_run("-", OF_COLUMNS)
    assert (places(run), run.report.name) == (EXPECTED, "<stdin>")


def test_more_rows_than_are_read_at_once(
    write_parquet: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msshift_bench.runs.sources._BATCH_ROWS", 1_000)
    run = {f"q{query}": {f"d{doc}": float(-doc) for doc in range(500)} for query in range(5)}
    rows = [(q, d, score) for q, docs in run.items() for d, score in docs.items()]
    table = pa.table(list(zip(*rows, strict=True)), ["query_id", "doc_id", "score"])
    judgements = Judgements.from_qrels({query: {"d2": 1, "d499": 1} for query in run})
    expected = {(query, 1, at, at - 1, 1) for query in range(5) for at in (3, 500)}
    for source in (write_parquet(table), run, rows, table):
        assert places(judge_run(source, judgements)) == expected


def test_findings_have_row_numbers(write_parquet: Write) -> None:
    table = {
        "query_id": ["1", "1", None, "1", "1", "2", "2"],
        "doc_id": ["11", "11", "12", "13", "14", "11", ""],
        "score": [3.0, 2.5, 2.0, None, float("nan"), 1e300, 0.0],
    }
    assert codes(refused(write_parquet(table))) == [
        ("duplicate-document", 2), ("id-invalid", 3), ("score-not-number", 4), ("score-nan", 5),
        ("score-infinite", 6), ("id-invalid", 7),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_odd_ranks_are_warnings(write_parquet: Write, kind: pa.DataType) -> None:
    ranks = pa.array([0, 3, 2, 2**40], kind)
    warnings = judge_run(write_parquet(COLUMNS | {"rank": ranks}), OF_COLUMNS).report.warnings
    assert codes(warnings) == [
        ("rank-zero-based", 1), ("rank-gap", 3), ("rank-order", 3), ("rank-gap", 4),
    ]  # fmt: skip
    assert warnings[1].message == "query '1': rank 2 where 1 was expected"


def test_the_rank_policy_takes_the_rank_column(write_parquet: Write) -> None:
    run = judge_run(write_parquet(COLUMNS | {"rank": [3, 1, 2, 1]}), OF_COLUMNS, tie_policy="rank")
    assert places(run) == {(0, 1, 1, 0, 1), (0, 2, 2, 1, 1), (1, 1, 1, 0, 1)}
    wrong = refused(write_parquet(COLUMNS | {"rank": [3, 1, -2, 1]}), OF_COLUMNS)
    assert codes(wrong) == [("rank-not-integer", 3)]
    with pytest.raises(UsageError, match="ranks"):
        judge_run(write_parquet(COLUMNS), OF_COLUMNS, tie_policy="rank")


def test_missing_columns_and_what_is_no_parquet_are_findings(write_parquet: Write) -> None:
    path = write_parquet({"a": [1], "b": [2]})
    assert "the columns are a, b" in str(refused(path))
    twice = write_parquet(pa.table([*COLUMNS.values(), COLUMNS["score"]], [*COLUMNS, "score"]))
    assert "the columns are query_id, doc_id, score, score" in str(refused(twice))
    path.write_text("1 Q0 11 1 1 t\n")
    assert codes(refused(path, format="parquet")) == [("truncated-input", 0)]


RECORDS = [(query, doc, score) for query, docs in MAPPING.items() for doc, score in docs.items()]


class Scored(NamedTuple):
    query_id: str
    doc_id: str
    score: float


@pytest.mark.parametrize(
    "source",
    [
        MAPPING,
        pd.DataFrame(RECORDS, columns=["query_id", "doc_id", "score"]),
        pd.DataFrame(RECORDS, columns=["qid", "docno", "score"]).sample(frac=1, random_state=1),
        RECORDS,
        [Scored(query, doc, np.float32(score)) for query, doc, score in RECORDS],
        ({"qid": query, "docno": doc, "score": score} for query, doc, score in RECORDS),
    ],
    ids=["mapping", "table", "PyTerrier", "tuples", "named tuples", "mappings"],
)
def test_reads_runs_in_memory(source: Any) -> None:
    run = judge_run(source, JUDGEMENTS)
    assert (places(run), run.report.digest) == (PLACES, "")


def test_integer_ids_in_memory_stand_for_their_digits() -> None:
    table = pa.table({"query_id": ["q1", "q1"], "doc_id": [7, 8], "score": [2.0, 1.0]})
    frame = pd.DataFrame({"qid": ["q1", "q1"], "docno": [7, 8], "score": [2.0, 1.0]})
    assert read_run(table) == read_run(frame) == {"q1": {"7": 2.0, "8": 1.0}}
    with pytest.raises(UsageError, match="doc_id or docno"):
        read_run(table.drop_columns("doc_id"))


def test_malformed_values_in_memory_are_findings() -> None:
    records: dict[Any, str] = {
        ("q1", 1.5, 1.0): "id-invalid",
        ("q1", "", 1.0): "id-invalid",
        (None, "d", 1.0): "id-invalid",
        ("q1", "a", "high"): "score-not-number",
        ("q1", "b", float("nan")): "score-nan",
        ("q1", "c", 1e300): "score-infinite",
        ("q1", "e", True): "score-not-number",
        ("q1", "d\udc80", 1.0): "id-invalid",
        ("q1", "f", 10**400): "score-infinite",
    }
    assert codes(refused(list(records))) == [
        (code, n) for n, code in enumerate(records.values(), 1)
    ]
    with pytest.raises(RunError, match="rank-not-integer"):
        judge_run([("q1", "d1", 1.0, 10**400)], JUDGEMENTS, tie_policy="rank")


def test_an_id_longer_than_any_line_is_refused(write_parquet: Write) -> None:
    long = "x" * (1 << 20)
    sound = Judgements.from_qrels({long: {long: 1}})
    assert judge_run({long: {long: 1.0, long[1:]: 2.0}}, sound).hits.rank.tolist() == [2]
    for query, doc in (("q1", long + "x"), (long + "x", "d1")):
        table = {"query_id": [query], "doc_id": [doc], "score": [1.0]}
        for source in ([(query, doc, 1.0)], write_parquet(table)):
            error = refused(source)
            assert codes(error) == [("id-invalid", 1)]
            assert len(str(error)) < 500
