"""The corpus of malformed runs, each with its first finding; and queries that are no fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msshift_bench.data import TestSet
from msshift_bench.errors import RunError
from msshift_bench.evaluation import score_runs
from msshift_bench.plumbing import MAX_LINE_BYTES
from msshift_bench.runs import CODES, Judgements, judge_run, validate_run
from tests.corpus import make_malformed
from tests.runs.conftest import codes, refused

CORPUS = make_malformed.corpus()
OF_CORPUS = Judgements.from_qrels(make_malformed.QRELS)
ALONE = {"empty-file", "truncated-input", "binary-input", "unreadable-parquet", "not-json"}
"""The codes of files in which nothing else is looked for."""


@pytest.mark.every(2)
@pytest.mark.parametrize("malformed", CORPUS, ids=[malformed.name for malformed in CORPUS])
def test_the_first_finding_is_the_expected_one(
    malformed: make_malformed.Malformed, tmp_path: Path
) -> None:
    path = tmp_path / "bad.run"
    path.write_bytes(malformed.content)
    options: Any = {"tie_policy": malformed.tie_policy, "format": malformed.run_format}
    result = validate_run(path, OF_CORPUS, **options)
    found = result.errors if malformed.severity == "error" else result.warnings
    assert codes(found[:1]) == [(malformed.code, malformed.line)]
    assert (found[0].severity, found[0].source) == (malformed.severity, str(path))
    assert found[0].fix
    assert len(found) == 1 or malformed.code not in ALONE
    assert result.ok == (malformed.severity == "warning")
    if result.ok:
        assert judge_run(path, OF_CORPUS, **options).report.warnings == found
    else:
        assert codes(refused(path, OF_CORPUS, **options)) == codes(found)
    with pytest.raises(RunError, match=malformed.code):
        judge_run(path, OF_CORPUS, **options, strict=True)


def test_the_run_that_all_are_made_from_is_flawless(tmp_path: Path) -> None:
    path = tmp_path / "good.run"
    for content, lines in ((make_malformed.GOOD.encode(), 6), (make_malformed.parquet(), 3)):
        path.write_bytes(content)
        assert judge_run(path, OF_CORPUS, strict=True).report.lines == lines


@pytest.mark.parametrize("lines_before", [0, 1, 1_000, 1_960])
@pytest.mark.parametrize("size", [MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 3 * MAX_LINE_BYTES])
def test_a_line_of_more_than_a_mebibyte_is_no_text_wherever_it_stands(
    lines_before: int, size: int, tmp_path: Path
) -> None:
    # 1,100 bytes each: with the long line, some reach over the end of a block of 2 MiB.
    before = "".join(f"q{n:08} Q0 d1 1 1.0 {'t' * 1079}\n" for n in range(lines_before))
    begin, end = "qx Q0 ", " 1 1.0 t"
    line = begin + "d" * (size - len(begin) - len(end)) + end
    path = tmp_path / "long.run"
    for rest in ("\n", "\nqy Q0 d1 1 1.0 t\n", ""):
        path.write_text(before + line + rest)
        expected = [] if size <= MAX_LINE_BYTES else [("binary-input", lines_before + 1)]
        assert codes(validate_run(path).errors) == expected


def test_the_corpus_has_every_code() -> None:
    assert len(CORPUS) >= 60
    # A file that changes while it is read cannot be in the corpus, and one of a gigabyte is not.
    absent = {"changed-while-read", "json-too-large"}
    assert {malformed.code for malformed in CORPUS} == set(CODES) - absent


# ---- queries of other groups ---------------------------------------------------------------------


JUDGEMENTS = Judgements({"q1": {"a": 1}}, ignored_ids=["q2", "07", "ünïcode"])
KNOWN = "q1 Q0 a 1 3 t\nq2 Q0 a 1 3 t\nünïcode Q0 a 1 3 t\n07 Q0 a 1 3 t\n"


@pytest.mark.parametrize("more", ["", "q1 Q0 b 2 2 t\n"], ids=["in columns", "interleaved"])
def test_only_queries_of_no_test_set_are_unknown(tmp_path: Path, more: str) -> None:
    path = tmp_path / "my.run"
    path.write_text(KNOWN + "q3 Q0 a 1 3 t\n" + more, "utf-8")
    found = validate_run(path, JUDGEMENTS)
    assert codes(found.warnings) == [("id-leading-zeros", 4), ("unknown-query", 5)]
    assert found.report.extra_queries == 4
    memory = {"q1": {"a": 1.0}, "q2": {"a": 1.0}, "q3": {"a": 1.0}}
    assert validate_run(memory, JUDGEMENTS).counts == {"unknown-query": 1}


def test_a_run_of_the_other_groups_alone_is_refused_and_known() -> None:
    test_set = TestSet("config", {"q1": {"a": 1}}, {"config": ["q1"]}, ignored_ids=["q2"])
    for others, words in (("q2", "look like the test queries of"), ("q3", "q3")):
        with pytest.raises(RunError, match=f" 1 .*{words}"):
            score_runs([{others: {"a": 1.0}}], test_set)
