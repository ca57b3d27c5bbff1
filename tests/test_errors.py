from __future__ import annotations

import pytest

from msshift_bench.errors import (
    MAX_FINDINGS,
    CollectionError,
    DataError,
    FindingLog,
    MissingError,
    MissingExtraError,
    UnknownNameError,
    UsageError,
    require,
)


def test_exit_codes_follow_the_tree() -> None:
    assert (DataError("x").exit_code, UsageError("x").exit_code) == (1, 2)
    assert MissingError("x").exit_code == MissingExtraError("neural").exit_code == 3
    assert UnknownNameError("shift", "x", ["y"]).exit_code == 2


def test_unknown_name_lists_the_valid_ones_and_the_nearest() -> None:
    message = str(UnknownNameError("shift", "lenght", ["topics", "length"]))
    assert message == "unknown shift 'lenght': did you mean 'length'? valid are topics, length"
    assert "did you mean" not in str(UnknownNameError("shift", "zzz", ["topics"]))


def test_nearest_name_ignores_case() -> None:
    assert "did you mean 'C2'?" in str(UnknownNameError("group", "c2", ["C0", "C2"]))


def test_findings_spell_out_twenty_and_count_the_rest() -> None:
    findings = FindingLog()
    for line in range(1, MAX_FINDINGS + 6):
        findings.add("field-count", "one field", "queries.tsv", line, "use tabs")
    with pytest.raises(CollectionError) as caught:
        findings.stop_if_any(CollectionError, "bad:")
    assert len(caught.value.findings) == MAX_FINDINGS
    assert caught.value.total == MAX_FINDINGS + 5
    message = str(caught.value)
    assert "queries.tsv:1: one field [field-count]\n    fix: use tabs" in message
    assert message.endswith("... and 5 more")


def test_no_findings_no_error() -> None:
    FindingLog().stop_if_any(CollectionError, "bad:")


def test_missing_extra_is_one_sentence() -> None:
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_module_at_all", "neural", "the bi-encoder")
    assert str(caught.value) == (
        "the bi-encoder needs the 'neural' extra: pip install 'msshift-bench[neural]'"
    )
