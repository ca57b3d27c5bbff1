from __future__ import annotations

from collections.abc import Callable

import pytest

from msshift_bench.errors import (
    MAX_FINDINGS,
    CollectionError,
    DataError,
    Finding,
    FindingLog,
    MissingError,
    MissingExtraError,
    RunError,
    SubmissionError,
    UnknownNameError,
    UsageError,
    check_installed,
    require,
)


def test_exit_codes_follow_the_tree() -> None:
    assert (DataError("x").exit_code, UsageError("x").exit_code) == (1, 2)
    assert MissingError("x").exit_code == MissingExtraError("neural").exit_code == 3
    assert UnknownNameError("shift", "x", ["y"]).exit_code == 2


@pytest.mark.parametrize(
    ("name", "valid", "said"),
    [
        ("lenght", ["topics", "length"], "did you mean 'length'? valid are topics, length"),
        ("zzz", ["topics"], "valid are topics"),
        ("c2", ["C0", "C2"], "did you mean 'C2'? valid are C0, C2"),
    ],
)
def test_unknown_name_lists_the_valid_ones_and_the_nearest(
    name: str, valid: list[str], said: str
) -> None:
    assert str(UnknownNameError("shift", name, valid)) == f"unknown shift {name!r}: {said}"


def test_findings_are_grouped_with_three_examples_of_each_code() -> None:
    findings = FindingLog()
    findings.stop_if_any(CollectionError, "no findings, no error")
    for line in range(1, 409):
        findings.add("field-count", "one field", "queries.tsv", line, "use tabs")
        findings.add("bad-id", f"id {line}", "queries.tsv", line)
    findings.add("field-count", "one field", "more.tsv", 7, "use tabs")
    findings.add("no-text", "empty", "more.tsv", 9)
    with pytest.raises(CollectionError) as caught:
        findings.stop_if_any(CollectionError, "bad:")
    assert caught.value.total == 2 * 408 + 2
    assert len([f for f in caught.value.findings if f.code == "field-count"]) == MAX_FINDINGS
    assert str(caught.value).splitlines() == [
        "bad:",
        "  queries.tsv:1: one field [field-count]",
        "  queries.tsv:2: one field [field-count]",
        "  queries.tsv:3: one field [field-count]",
        "  ... and 406 more [field-count]",
        "    fix: use tabs",
        "  queries.tsv:1: id 1 [bad-id]",
        "  queries.tsv:2: id 2 [bad-id]",
        "  queries.tsv:3: id 3 [bad-id]",
        "  ... and 405 more [bad-id]",
        "  more.tsv:9: empty [no-text]",
    ]


def test_what_is_put_right_one_by_one_is_spelled_out_one_by_one() -> None:
    names = ["Short", "Long", "C_0", "C_1", "C_2"]
    fixes = [f"call it {name}.run" for name in names]
    wrong = [Finding("misnamed-run", "no run", "my/runs", fix=fix) for fix in fixes]
    lines = str(RunError("wrong names:", wrong)).splitlines()
    assert [line for line in lines if "fix:" in line] == [f"    fix: {fix}" for fix in fixes]
    files = [Finding("changed-bytes", "other bytes", f"{name}.parquet") for name in names]
    assert all(str(file) in str(DataError("bad:", files)) for file in files)
    fields = [Finding("missing-field", f"{name}: is missing", "system.toml") for name in names]
    assert all(str(field) in str(SubmissionError("bad:", fields)) for field in fields)
    assert "... and 2 more [missing-field]" in str(DataError("bad:", fields))


@pytest.mark.parametrize("need", [require, check_installed])
def test_missing_extra_is_one_sentence(need: Callable[[str, str, str], object]) -> None:
    need("json", "neural", "the bi-encoder")
    with pytest.raises(MissingExtraError) as caught:
        need("no_such_module_at_all", "neural", "the bi-encoder")
    assert str(caught.value) == (
        "the bi-encoder needs the 'neural' extra; "
        "in a clone of msshift-bench, run: pip install -e '.[neural]'"
    )
