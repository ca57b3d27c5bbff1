"""Text runs: what is read of them, what is wrong with them and where, and what is only odd."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msshift_bench.errors import NotFoundError, RunError, UnknownNameError, UsageError
from msshift_bench.runs import TIE_POLICIES, Judgements, judge_run, read_run, validate_run
from tests.runs.conftest import codes, places
from tests.support.compressing import COMPRESSORS

JUDGEMENTS = Judgements.from_qrels({"q1": {"d2": 1, "d4": 2}, "q2": {"d1": 1}, "q3": {"d9": 1}})
RUN = """q1 Q0 d1 1 9.5 tag
q1 Q0 d2 2 9.5 tag
q1 Q0 d3 3 9.5 tag
q1 Q0 d4 4 1e0 tag
q2 Q0 d1 1 -3 tag
"""
MAPPING = {"q1": {"d1": 9.5, "d2": 9.5, "d3": 9.5, "d4": 1}, "q2": {"d1": -3}}


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
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, how: str
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


def long_run(rng: random.Random) -> dict[str, dict[str, float]]:
    """A run of several blocks of a file: queries of a few lines, and one longer than a block."""
    depths = [*(rng.randrange(1, 900) for _ in range(40)), 120_000, *(3 for _ in range(10_000))]
    return {
        f"query {number}".replace(" ", "-"): {
            f"d{doc}": rng.randrange(4_000) / 8 for doc in rng.sample(range(2 * depth + 9), depth)
        }
        for number, depth in enumerate(depths)
    }


@pytest.mark.slow
@pytest.mark.parametrize("gap", [" ", "\t", "  "], ids=["spaces", "tabs", "aligned"])
def test_a_long_run_is_what_it_is_in_memory(write: Callable[..., Path], gap: str) -> None:
    rng = random.Random(7)
    run = long_run(rng)
    judgements = Judgements.from_qrels(
        {query: dict.fromkeys(rng.sample(sorted(docs), 1), 1) for query, docs in run.items()}
    )
    lines = [
        gap.join((query, "Q0", doc, str(rank), repr(score), "t"))
        for query, docs in run.items()
        for rank, (doc, score) in enumerate(docs.items(), start=1)
    ]
    path = write("\n".join(lines) + "\n" * 3_000_000)
    for policy in set(TIE_POLICIES) - {"rank"}:
        judged = judge_run(path, judgements, tie_policy=policy)
        expected = judge_run(run, judgements, tie_policy=policy)
        assert places(judged) == places(expected)
        assert judged.retrieved.tolist() == expected.retrieved.tolist()
        assert judged.report.lines == len(lines) > 150_000
    assert read_run(path) == run
    again = rng.randrange(len(lines) // 2)
    with pytest.raises(RunError) as caught:
        judge_run(write("\n".join([*lines, lines[again]])), judgements)
    assert codes(caught.value) == [("duplicate-document", len(lines) + 1)]


def test_ids_that_begin_alike_are_told_apart(write: Callable[..., Path]) -> None:
    """A hash takes the first 256 bytes of an id."""
    begin = "d" * 256
    judgements = Judgements.from_qrels({"q": {f"{begin}2": 1, f"{begin}4": 2}})
    lines = [f"q Q0 {begin}{number} {number} {-number} t\n" for number in range(1, 7)]
    assert places(judge_run(write("".join(lines[:3])), judgements)) == {(0, 1, 2, 1, 1)}
    assert places(judge_run(write("".join(lines)), judgements)) == {
        (0, 1, 2, 1, 1),
        (0, 2, 4, 3, 1),
    }
    with pytest.raises(RunError, match="duplicate-document"):
        judge_run(write("".join([*lines, lines[2]])), judgements)


def test_a_run_is_read_as_a_mapping(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = {"q1": {"d1": 9.5, "d2": 9.5, "d3": 9.5, "d4": 1.0}, "q2": {"d1": -3.0}}
    assert read_run(str(write(RUN))) == run == read_run(run)
    lines = RUN.splitlines(keepends=True)
    parts = [write("".join(lines[2:4] + lines[4:]), "a"), write("".join(lines[:2]), "b")]
    assert read_run(parts) == run
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RUN.encode())))
    assert read_run("-") == run
    assert read_run(write("q a 2\nq b 1\n")) == {"q": {"a": -2.0, "b": -1.0}}


def test_what_is_no_sound_run_is_not_read_as_a_mapping(write: Callable[..., Path]) -> None:
    for text, code in (
        ("", "empty-file"),
        ("q Q0 d 1\n", "field-count"),
        (RUN + RUN, "duplicate-"),
    ):
        with pytest.raises(RunError, match=code):
            read_run(write(text))
    odd = write("q Q0 d 7 1 t\n")
    assert read_run(odd) == {"q": {"d": 1.0}}
    with pytest.raises(RunError, match="rank-gap"):
        read_run(odd, strict=True)
    with pytest.raises(UnknownNameError, match="run format"):
        read_run(odd, format="csv")
    with pytest.raises(UsageError, match="a run is a path"):
        read_run(7)
